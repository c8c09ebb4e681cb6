"""How the items of a file did when they were asked last."""

import asyncio

import pytest

from tests.store.helpers import judged, new_run, said
from tui_evals.datasets.item_names import names_in_run
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer
from tui_evals.tui.latest_statuses import changed_answers, item_key, latest_of

NAMED = [{"testId": "A", "prompt": "a"}, {"testId": "B", "prompt": "b"}, {"prompt": "c"}]


@pytest.fixture
def project(tmp_path):
    path = open_store(tmp_path / ".evals" / "evals.db")
    with Writer(path) as writer:
        yield Project(tmp_path, path, writer)


class Project:
    def __init__(self, root, path, writer):
        self.root, self.path, self.writer = root, path, writer
        self.file = root / "evals.json"

    def run(self, items, only=None, repeats=1, **given):
        names = names_in_run([item.get("testId") for item in items])
        cells = [
            PlannedAnswer(n, n, 0, 0, 0, repeat, names[n])
            for n in range(len(items))
            if only is None or n in only
            for repeat in range(repeats)
        ]
        snapshot = self.writer.snapshot({"items": items}, "evals.json")
        return self.writer.plan(new_run(snapshot=snapshot, **given), cells)

    def answers(self, run):
        with Reader(self.path) as reader:
            return [row.id for row in reader.all_rows(run.id)]

    def judge(self, answer, status):
        async def give():
            await self.writer.answered(answer, said(), "answered")
            await self.writer.scored(answer, 1, [judged()], status, None)

        asyncio.run(give())

    def over(self, run):
        self.writer.run_status(run.id, "finished")
        self.writer.flush()

    def latest(self, items=NAMED):
        return latest_of(self.file, self.root, self.path, items)

    def catch_up(self, latest):
        latest.seq, rows = changed_answers(latest, self.root, self.path)
        return latest.take(rows)


def test_each_item_has_the_worst_of_its_answers(project):
    run = project.run(NAMED, repeats=2)
    for answer, status in zip(project.answers(run), ["pass", "fail", "pass", "pass", "pass", "partial"], strict=True):
        project.judge(answer, status)
    assert project.latest().statuses == {"A": "fail", "B": "pass", item_key(NAMED[2]): "partial"}


def test_what_went_wrong_outweighs_what_is_still_open_and_that_outweighs_what_passed(project):
    run = project.run(NAMED, repeats=2)
    first, second = project.answers(run)[0], project.answers(run)[2]
    project.judge(first, "pass")
    project.judge(second, "fail")
    assert project.latest().statuses == {"A": "pending", "B": "fail", item_key(NAMED[2]): "pending"}


def test_an_item_has_its_status_from_the_newest_run_that_asked_it(project):
    first = project.run(NAMED)
    for answer in project.answers(first):
        project.judge(answer, "fail")
    second = project.run(NAMED, only={1})
    project.judge(project.answers(second)[0], "pass")
    found = project.latest()
    assert found.statuses == {"A": "fail", "B": "pass", item_key(NAMED[2]): "fail"}
    assert found.newest == second.id


def test_a_run_that_ended_before_it_asked_an_item_says_nothing_of_it(project):
    first = project.run(NAMED)
    for answer in project.answers(first):
        project.judge(answer, "fail")
    second = project.run(NAMED)
    project.judge(project.answers(second)[0], "pass")
    project.over(second)
    assert project.latest().statuses == {"A": "pass", "B": "fail", item_key(NAMED[2]): "fail"}


@pytest.mark.parametrize(("source", "counts"), [("./evals.json", True), ("other/evals.json", False), ("x", False)])
def test_only_runs_of_the_file_count(project, source, counts):
    project.run(NAMED, source=source)
    assert bool(project.latest().statuses) is counts


def test_an_item_without_a_name_is_known_by_what_it_asks_wherever_it_stands_now(project):
    run = project.run([{"prompt": "one"}, {"prompt": "two", "notes": "old"}])
    for answer, status in zip(project.answers(run), ["pass", "fail"], strict=True):
        project.judge(answer, status)
    moved = [{"prompt": "new"}, {"prompt": "two", "notes": "new"}, {"prompt": "one, but another"}]
    found = project.latest(moved)
    assert [found.statuses.get(item_key(item)) for item in moved] == [None, "fail", None]


def test_items_that_cannot_be_told_apart_share_the_worst_status(project):
    twins = [{"prompt": "same"}, {"prompt": "same"}]
    run = project.run(twins)
    first, second = project.answers(run)
    project.judge(first, "error")
    project.judge(second, "pass")
    found = project.latest(twins)
    assert found.statuses == {item_key(twins[0]): "error"}
    project.judge(second, "fail")
    assert project.catch_up(found) == set()
    project.judge(first, "pass")
    assert project.catch_up(found) == {item_key(twins[0])}
    assert found.statuses == {item_key(twins[0]): "fail"}


def test_answers_that_come_in_change_the_items_they_belong_to(project):
    run = project.run(NAMED)
    first, second, _ = project.answers(run)
    found = project.latest()
    assert set(found.statuses.values()) == {"pending"}
    project.judge(first, "pass")
    assert project.catch_up(found) == {"A"}
    assert project.catch_up(found) == set()
    project.judge(second, "fail")
    assert project.catch_up(found) == {"B"}
    assert found.statuses == {"A": "pass", "B": "fail", item_key(NAMED[2]): "pending"}


def test_answers_of_an_older_run_change_only_items_no_newer_run_has_asked(project):
    older = project.run(NAMED)
    newer = project.run(NAMED, only={0})
    project.judge(project.answers(newer)[0], "pass")
    found = project.latest()
    for answer in project.answers(older)[:2]:
        project.judge(answer, "fail")
    assert project.catch_up(found) == {"B"}
    assert found.statuses["A"] == "pass"


def test_items_of_one_test_id_have_the_worst_of_their_statuses(project):
    run = project.run([{"testId": "A", "prompt": "a"}, {"testId": "A", "prompt": "b"}])
    for answer, status in zip(project.answers(run), ("pass", "fail"), strict=True):
        project.judge(answer, status)
    assert project.latest().statuses == {"A": "fail"}


def test_another_run_of_the_file_makes_all_of_it_be_read_again(project):
    project.run(NAMED)
    found = project.latest()
    project.run(NAMED, source="other.json")
    assert changed_answers(found, project.root, project.path) is not None
    project.run(NAMED)
    assert changed_answers(found, project.root, project.path) is None


def test_a_run_that_ends_or_goes_on_again_makes_all_of_it_be_read_again(project):
    """What a run had not asked stayed pending when it was stopped, and was never told of when it went on."""
    run = project.run(NAMED)
    project.judge(project.answers(run)[0], "fail")
    found = project.latest()
    assert set(found.statuses.values()) == {"fail", "pending"}
    project.over(run)
    assert changed_answers(found, project.root, project.path) is None
    found = project.latest()
    assert found.statuses == {"A": "fail"}
    assert changed_answers(found, project.root, project.path) is not None
    project.writer.run_status(run.id, "planned")
    assert changed_answers(found, project.root, project.path) is None


def test_a_run_without_its_dataset_still_tells_of_the_named_items(project):
    run = project.writer.plan(new_run(), [PlannedAnswer(0, 0, 0, 0, 0, 0, "A"), PlannedAnswer(1, 2, 0, 0, 0, 0, "#3")])
    assert run.snapshot == ""
    assert project.latest().statuses == {"A": "pending"}
