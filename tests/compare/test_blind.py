"""Labelling blind: which answers are drawn, what is read of one, and the way there and back."""

import getpass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compare.labelled_runs import JUDGE, OTHER, SECRETS, label, labelled_run, score
from tui_evals.compare.blind import (
    BlindText,
    LabellingSession,
    Sample,
    answer_and_calls,
    answers_by_evaluator,
    draw_sample,
    labelling_parts,
)
from tui_evals.store.baselines import author_here
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord

PASS, FAIL = [score(value=0.37)], [score(value=0.0, result="fail")]


async def drawn(folder, answers, size=50, **given):
    path, run = await labelled_run(folder, answers, **given.pop("run_given", {}))
    with Reader(path) as reader:
        return draw_sample(reader, run.id, size, **{"author": "ada", **given})


# -- drawing


async def test_the_same_seed_draws_the_same_and_another_draws_otherwise(tmp_path):
    path, run = await labelled_run(tmp_path, [PASS, FAIL] * 40)
    with Reader(path) as reader:
        one, again, other = (draw_sample(reader, run.id, 20, seed=seed, author="ada").answers for seed in (0, 0, 1))
        more = draw_sample(reader, run.id, 40, author="ada").answers
    assert one == again
    assert set(one) != set(other)
    assert more[:20] == one
    assert list(one) != sorted(one)


async def test_a_sample_is_no_larger_than_what_there_is(tmp_path):
    found = await drawn(tmp_path, [PASS] * 3)
    assert (len(found.answers), found.pool, found.done) == (3, 3, frozenset())


async def test_only_answers_with_a_verdict_are_drawn(tmp_path):
    partial = [score(), score(OTHER, None, "error")]
    answers = [PASS, "error", None, "unscored", partial, FAIL, [score(value=1.0, result=None)]]
    assert sorted((await drawn(tmp_path, answers)).answers) == [1, 6]


async def test_while_nothing_is_judged_whatever_was_answered_can_be_labelled(tmp_path):
    assert sorted((await drawn(tmp_path, ["unscored", "error", None, "unscored"])).answers) == [1, 4]


async def test_of_an_evaluator_only_the_answers_are_drawn_that_it_judged(tmp_path):
    answers = [PASS, [score(OTHER)], [score(), score(OTHER, None, "error")]]
    assert sorted((await drawn(tmp_path, answers, evaluator=JUDGE)).answers) == [1, 3]


async def test_one_target_of_several(tmp_path):
    found = await drawn(tmp_path, [PASS] * 4, targets={1}, run_given={"targets": ("a", "b")})
    assert sorted(found.answers) == [2, 4, 6, 8]


async def test_what_this_author_labelled_of_this_question_is_done(tmp_path):
    path, run = await labelled_run(tmp_path, [PASS] * 5)
    label(path, run, {0: "+", 1: "-"}, "ada")
    label(path, run, {2: "+"}, "bob")
    label(path, run, {3: "+"}, "ada", evaluator=JUDGE)
    with Reader(path) as reader:
        assert draw_sample(reader, run.id, author="ada").done == {1, 2}
        assert draw_sample(reader, run.id, author="bob").done == {3}
        assert draw_sample(reader, run.id, author="ada", evaluator=JUDGE).done == {4}
        assert draw_sample(reader, run.id, 5, author="eve").done == frozenset()


async def test_every_answer_is_as_likely_to_be_drawn(tmp_path):
    path, run = await labelled_run(tmp_path, [PASS] * 20)
    with Reader(path) as reader:
        counts = dict.fromkeys(range(1, 21), 0)
        for seed in range(200):
            for answer in draw_sample(reader, run.id, 5, seed=seed, author="ada").answers:
                counts[answer] += 1
    assert sum((count - 50) ** 2 / 50 for count in counts.values()) < 43.8  # chi-square of 19 degrees at 0.1 %


async def test_evaluators_with_verdicts_are_known_by_their_answers(tmp_path):
    path, run = await labelled_run(tmp_path, [[score(), score(OTHER)], PASS, [score(OTHER, 1.0, None)]])
    with Reader(path) as reader:
        assert answers_by_evaluator(reader, run.id) == {JUDGE: {1, 2}, OTHER: {1}}


def test_who_labels_is_a_number_where_nobody_knows_a_name(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert author_here() == "ada"

    def unknown():
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", unknown)
    assert author_here().startswith("user ")


# -- what is read


async def read(folder, item):
    """The sheet of the only answer of a run over this item."""
    path, _ = await labelled_run(folder, [PASS])
    with Reader(path) as reader:
        return labelling_parts(reader, [item], 1)


async def test_a_sheet_holds_question_context_expectation_and_answer_and_what_is_common_last(tmp_path):
    item = {"prompt": "?", "context": "the map", "expected_response": "left", "ideal": ["left", "to the left"]}
    assert await read(tmp_path, item) == (
        BlindText("user", "question 0"),
        BlindText("context", "the map"),
        BlindText("expected", "left"),
        BlindText("or expected", "to the left"),
        BlindText("answer", "reply 0"),
        BlindText("system", "You are short."),
    )


async def test_what_is_absent_takes_no_room(tmp_path):
    assert [part.title for part in await read(tmp_path, {"prompt": "?", "context": None})] == [
        "user",
        "answer",
        "system",
    ]


async def test_of_a_conversation_its_own_turn_is_shown(tmp_path):
    item = {"turns": [{"prompt": "a", "context": "of turn 1"}, {"prompt": "b", "context": "of turn 2"}]}
    assert BlindText("context", "of turn 1") in await read(tmp_path, item)


@pytest.mark.parametrize("item", [{}, {"turns": []}, {"turns": "x", "context": 3, "ideal": 4, "expected_response": []}])
async def test_an_item_of_another_shape_is_no_error(tmp_path, item):
    assert [part.title for part in await read(tmp_path, item)] == ["user", "answer", "system"]


async def test_nothing_that_was_said_of_an_answer_is_on_its_sheet(tmp_path):
    path, run = await labelled_run(tmp_path, [PASS, FAIL, [score(value=0.37), score(OTHER)]])
    label(path, run, {0: "+", 1: "-"}, note="said before")
    with Reader(path) as reader:
        items = reader.snapshot(run.snapshot)["items"]
        shown = "\n".join(
            f"{part.title}\n{part.text}" for answer in (1, 2, 3) for part in labelling_parts(reader, items, answer)
        )
    assert "question 0" in shown and "expected 2" in shown
    assert [word for word in (*SECRETS, "said before", "t-0") if word in shown] == []


def test_tool_calls_are_part_of_what_was_said():
    calls = ({"name": "find", "arguments": {"q": "é"}}, {"function": {"name": "end", "arguments": "{}"}})
    assert (
        answer_and_calls(AnswerRecord(text="ok", request={}, tool_calls=calls)) == 'ok\n→ find({"q": "é"})\n→ end({})'
    )
    assert answer_and_calls(AnswerRecord(text=None, request={})) == ""


# -- the way


def test_a_session_goes_on_where_it_stopped():
    session = LabellingSession(Sample((5, 3, 9, 7), frozenset({3, 5}), 100))
    assert (session.total, session.before, session.number, session.answer) == (4, 2, 3, 9)
    session.go_on("pass")
    assert (session.done, session.number, session.answer) == (3, 4, 7)
    session.go_on(None)
    assert (session.done, session.answer, session.previous) == (3, None, 7)


def test_a_note_stays_with_its_answer_on_the_way_back():
    session = LabellingSession(Sample((1, 2), frozenset(), 2))
    session.notes[1] = "why"
    session.go_on("fail")
    assert session.note() == ""
    session.go_back()
    assert (session.answer, session.note(), session.given) == (1, "why", {})
    assert session.previous is None


@given(st.lists(st.sampled_from(["pass", "fail", None, "back"]), max_size=40), st.integers(0, 6))
def test_what_is_given_is_what_was_said_last_of_each_answer_on_the_way(steps, size):
    session = LabellingSession(Sample(tuple(range(size)), frozenset(), size))
    way = []
    for step in steps:
        if step == "back":
            if session.previous is not None:
                session.go_back()
                way.pop()
        elif session.answer is not None:
            session.go_on(step)
            way.append(step)
    assert session.given == {place: verdict for place, verdict in enumerate(way) if verdict is not None}
    assert session.answer == (len(way) if len(way) < size else None)
    assert session.previous == (len(way) - 1 if way else None)
