"""Cells on their way: each is handed out, taken back where it is not finished, and never judged twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets.model import Item
from tui_evals.runs.executors import Cell
from tui_evals.runs.executors.cluster.distribution import CELLS_PER_CALL, MAX_SHARD, Shards
from tui_evals.store.records import AnswerRecord

SAID = AnswerRecord(text="said", request={})
FAILED = AnswerRecord(text=None, request={}, code="agentRequestFailed")


class Store:
    """What is committed."""

    def __init__(self) -> None:
        self.answers: dict[int, AnswerRecord] = {}

    def known(self, cell: Cell):
        return {turn: self.answers[id] for turn, id in enumerate(cell.answers) if id in self.answers}


def cell(first: int, turns: int = 1, target: int = 0, known=None, final=()) -> Cell:
    answers = tuple(range(first, first + turns))
    return Cell(Item(prompt="?"), f"#{first}", first, 0, target, 0, answers, known or {}, frozenset(final))


def shards_of(cells, concurrency: int = 2, store: Store | None = None) -> Shards:
    targets: dict[int, list[Cell]] = {}
    for one in cells:
        targets.setdefault(one.target, []).append(one)
    iterators = {number: iter(found) for number, found in targets.items()}
    return Shards(iterators, [concurrency] * (max(targets, default=0) + 1), (store or Store()).known)


def test_no_more_cells_are_out_than_keep_a_target_busy_and_the_targets_take_turns():
    shards = shards_of([cell(n, target=n % 2) for n in range(1, 401)], concurrency=5)
    while shards.next_shard(8) is not None:
        pass
    out = [0, 0]
    for shard in shards.out.values():
        assert len(shard.cells) <= MAX_SHARD and len({one.target for one in shard.cells.values()}) == 1
        out[shard.target] += len(shard.cells)
    assert max(out) < CELLS_PER_CALL * 5 + MAX_SHARD and min(out) >= CELLS_PER_CALL * 5
    assert not shards.exhausted


def test_before_there_is_any_thread_a_shard_can_be_made():
    shards = shards_of([cell(1)])
    assert shards.contents(shards.next_shard(0), "w")[0].answers == (1,)


def test_a_shard_nobody_knows_is_empty():
    assert shards_of([]).contents(7, "w") == []


def test_a_second_worker_gets_what_the_store_knows_by_then():
    store = Store()
    shards = shards_of([cell(1, 2)], store=store)
    number = shards.next_shard(1)
    assert shards.contents(number, "v")[0].known == {}
    store.answers[1] = SAID
    (found,) = shards.contents(number, "w")
    assert found.known == {0: SAID} and found.final == frozenset()
    shards.scored(1)
    (found,) = shards.contents(number, "other")
    assert found.final == {0} and shards.out[number].worker == "other"


def test_a_cell_is_done_when_each_of_its_answers_failed_or_is_judged():
    shards = shards_of([cell(1, 3)])
    number = shards.next_shard(1)
    shards.answered(1, SAID)
    assert shards.scored(1)
    shards.answered(2, FAILED)
    assert [one.answers for one in shards.contents(number, "w")] == [(1, 2, 3)]
    shards.answered(3, FAILED)
    assert shards.contents(number, "w") == [] and shards.take_back(number) == []


def test_what_was_final_before_is_not_waited_for():
    shards = shards_of([cell(1, 2, known={0: SAID, 1: SAID}, final={0}), cell(3, 2, known={0: FAILED, 1: FAILED})])
    number = shards.next_shard(1)
    assert shards.scored(2) and shards.take_back(number) == []


def test_scores_that_come_while_a_cell_is_on_its_way_to_another_worker_are_the_first():
    store = Store()
    shards = shards_of([cell(1, 2)], store=store)
    number = shards.next_shard(1)
    store.answers[1] = SAID
    shards.answered(1, SAID)
    cells = shards.take_back(number)
    assert shards.scored(1)
    shards.put_back(cells)
    (found,) = shards.contents(shards.next_shard(1), "other")
    assert found.final == {0} and found.known == {0: SAID}
    assert not shards.scored(1)


def test_a_conversation_that_failed_to_the_end_while_on_its_way_is_not_waited_for():
    store = Store()
    shards = shards_of([cell(1)], store=store)
    cells = shards.take_back(shards.next_shard(1))
    store.answers[1] = FAILED
    shards.answered(1, FAILED)
    shards.put_back(cells)
    number = shards.next_shard(1)
    assert shards.contents(number, "w") == [] and shards.take_back(number) == []
    assert shards.next_shard(1) is None and shards.exhausted


def test_cells_that_may_be_deadly_are_handed_out_one_by_one_and_others_in_parts():
    shards = shards_of([cell(n) for n in range(1, 9)], concurrency=8)
    cells = shards.take_back(shards.next_shard(1))
    shards.put_back(cells, parts=3)
    assert [len(shards.out[shards.next_shard(1)].cells) for _ in range(3)] == [3, 3, 2]
    for number in list(shards.out):
        shards.put_back(shards.take_back(number), singly=True)
    assert [len(shards.out[shards.next_shard(1)].cells) for _ in range(8)] == [1] * 8


happenings = st.lists(
    st.tuples(st.sampled_from(["next", "answer", "score", "end", "dup"]), st.integers(0, 99), st.booleans()),
    max_size=80,
)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=12), st.integers(0, 6), happenings)
def test_whatever_comes_back_in_whatever_order_nothing_is_lost_and_nothing_judged_twice(turns, slots, happenings):
    starts = [1 + sum(turns[:n]) for n in range(len(turns))]
    every = set(range(1, 1 + sum(turns)))
    store, judged, handed = Store(), [], set()
    shards = shards_of([cell(*each) for each in zip(starts, turns, strict=True)], store=store)

    def take() -> None:
        if (number := shards.next_shard(slots)) is not None:
            handed.update(answer for held in shards.contents(number, "w") for answer in held.answers)

    def happen(what: str, pick: int, well: bool) -> None:
        out = list(shards.out)
        if what == "next":
            take()
        elif what == "end" and out:
            shards.put_back(shards.take_back(out[pick % len(out)]), singly=well, parts=1 + pick % 3)
        elif what == "answer":
            open = sorted(handed - store.answers.keys())
            if open:
                answer = open[pick % len(open)]
                store.answers[answer] = SAID if well else FAILED
                shards.answered(answer, store.answers[answer])
        elif what in ("score", "dup"):
            said = sorted(answer for answer, record in store.answers.items() if record is SAID)
            said = [answer for answer in said if (answer in judged) == (what == "dup")]
            if said and out and shards.scored(said[pick % len(said)]):
                judged.append(said[pick % len(said)])

    for _ in range(2):
        take()
    for happening in happenings:
        happen(*happening)
    for _ in range(10 * len(every)):
        while shards.next_shard(slots) is not None:
            pass
        for number in list(shards.out):
            for held in shards.contents(number, "w"):
                for turn, answer in enumerate(held.answers):
                    if turn not in held.known:
                        store.answers[answer] = SAID
                        shards.answered(answer, SAID)
                    if store.answers[answer] is SAID and turn not in held.final and shards.scored(answer):
                        judged.append(answer)
            shards.put_back(shards.take_back(number))
        if shards.exhausted and not shards.out:
            break
    assert shards.exhausted and not shards.out
    assert store.answers.keys() == every
    assert sorted(judged) == sorted(answer for answer, record in store.answers.items() if record is SAID)
