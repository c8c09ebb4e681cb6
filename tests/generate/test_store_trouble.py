"""Generations while nothing can be stored: asking stops, everybody is told, and no reply that was paid for is lost."""

import json
from pathlib import Path

import pytest
from platformdirs import user_state_path

from tests.generate.conftest import ROLES
from tests.generate.test_pipeline import amounts
from tests.runs.conftest import until
from tests.store.trouble import disk, file_left, fill, free, locked
from tui_evals.store import run_figures
from tui_evals.store.reader import Reader

__all__ = ["disk"]

PRICE = "{ input_per_million = 1000.0, output_per_million = 1000.0 }"
RULES, TESTS = 3, 3


class Course:
    """A generation of the real program with its store at a place, held where ground truth is asked for."""

    def __init__(self, shop, monkeypatch, database, most=60.0):
        monkeypatch.setenv("TUI_EVALS_DB", str(database))
        shop.configure(concurrency=2, max_outage=most, price=PRICE)
        self.shop, self.server, self.database = shop, shop.server, database
        self.options = (*amounts(shop, rules=RULES, tests=TESTS), "--no-cache")

    def start(self, *more):
        """The command once two questions are out, whose replies come when the server is told to give them."""
        self.server.behave("groundtruth", always="held")
        process = self.shop.generating(*self.options, *more)
        until(lambda: self.server.asked("groundtruth") == 2 or process.poll() is not None)
        return process

    def answer(self):
        self.server.held = False
        until(lambda: self.server.answered("groundtruth") == 2)

    def assert_whole(self):
        """Everything is made, nothing was asked twice, and every call is in the store with its cost."""
        assert self.server.repeated() == [] and self.server.asked() == self.server.answered()
        items = json.loads(self.shop.read("shop.json"))["items"]
        assert len(items) == 2 * RULES * TESTS and all(item["expected_response"] for item in items)
        with Reader(self.database) as reader:
            (run,) = reader.runs()
            calls = [call for call in reader.calls(run.id) if not call.from_cache]
            assert run.status == "finished" and run_figures.spent(reader, run.id) == pytest.approx(
                sum(c.cost for c in calls)
            )
        assert len(calls) == self.server.asked()


def warning(process, words):
    return next(line for line in process.stderr if words in line)


@pytest.mark.nightly
def test_a_full_disk_stops_the_asking_until_there_is_room(shop, monkeypatch, disk):
    course = Course(shop, monkeypatch, disk / "evals.db")
    process = course.start()
    fill(disk)
    course.answer()
    said = warning(process, "asking waits")
    assert f"because the disk is full: make room for {course.database}; in " in said
    assert "this ends, and the same command continues" in said
    assert course.server.asked("groundtruth") == 2
    with Reader(course.database) as reader:
        (run,) = reader.runs()
        assert run.status == "running" and run.waiting.code == "full"  # for whoever watches from elsewhere
    free(disk)
    warning(process, f"{course.database} can be written again, and asking continues")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    course.assert_whole()


@pytest.mark.nightly
@pytest.mark.parametrize("more", [(), pytest.param(("--json",), marks=pytest.mark.nightly)])
def test_replies_that_cannot_be_stored_in_the_end_are_in_a_file_that_the_same_command_stores(
    shop, monkeypatch, disk, more
):
    course = Course(shop, monkeypatch, disk / "evals.db", most=0.5)
    process = course.start(*more)
    fill(disk)
    course.server.held = False
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4 and "Traceback" not in err, out + err
    (file,) = user_state_path("tui_evals").glob("unstored-*.jsonl")
    assert f"is in {file}, which is stored first" in err
    if more:
        end = json.loads(out.splitlines()[-1])
        assert end["status"] == "stopped" and str(file) in end["problems"][-1]
    assert course.server.asked("groundtruth") == 2
    free(disk)
    with Reader(course.database) as reader:
        (run,) = reader.runs()
        assert (run.status, run.code) == ("interrupted", "store") and str(file) in run.message
    shop.do("generate", "shop.prompty", *ROLES, *course.options)
    assert not file.exists()
    course.assert_whole()


@pytest.mark.nightly
def test_a_file_is_stored_too_where_something_is_made_anew(shop, monkeypatch, disk):
    course = Course(shop, monkeypatch, disk / "evals.db", most=0.5)
    process = course.start()
    fill(disk)
    course.server.held = False
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4, out + err
    free(disk)
    (file,) = user_state_path("tui_evals").glob("unstored-*.jsonl")
    shop.do("generate", "shop.prompty", *ROLES, *course.options, "--from", "groundtruth")
    with Reader(course.database) as reader:
        (_, before) = reader.runs()
        assert sum(call.target == "truth" for call in reader.calls(before.id)) == 2
    assert not file.exists()


@pytest.mark.nightly
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_while_nothing_can_be_stored_ends_the_generation_and_loses_nothing(shop, monkeypatch, presses):
    course = Course(shop, monkeypatch, shop.root / ".evals" / "evals.db")
    process = course.start()
    with locked(course.database) as holder:
        course.answer()
        assert f"process {holder.pid} (python" in warning(process, "asking waits")
        file = file_left(process, presses, course.database)
    shop.do("generate", "shop.prompty", *ROLES, *course.options)
    assert not file.exists()
    course.assert_whole()


@pytest.mark.nightly
def test_a_store_that_is_deleted_under_a_generation_stops_it_and_is_written_again(shop, monkeypatch):
    course = Course(shop, monkeypatch, shop.root / ".evals" / "evals.db")
    process = course.start()
    for end in ("", "-wal", "-shm"):
        Path(f"{course.database}{end}").unlink()
    course.server.held = False
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4 and "All it held was written again to that place" in err, out + err
    assert course.server.asked("groundtruth") <= 4
    shop.do("generate", "shop.prompty", *ROLES, *course.options)
    course.assert_whole()


@pytest.mark.story
def test_a_generation_whose_files_are_all_there_takes_what_its_store_did_not(shop, monkeypatch, disk):
    course = Course(shop, monkeypatch, disk / "evals.db", most=0.5)
    course.server.behave("groundtruth-judge", always="held")
    process = shop.generating(*course.options, "-c", 100)
    until(lambda: course.server.asked("groundtruth-judge") == 2 * RULES * TESTS or process.poll() is not None)
    fill(disk)
    course.server.held = False
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4 and (shop.folder / "test_groundtruth.json").exists(), out + err
    free(disk)
    shop.do("generate", "shop.prompty", *ROLES, *course.options)
    assert list(user_state_path("tui_evals").glob("unstored-*.jsonl")) == []
    course.assert_whole()
