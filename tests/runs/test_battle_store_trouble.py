"""Battles while nothing can be stored: asking stops, everybody is told, and nothing that was paid for is lost."""

import json
from pathlib import Path

import pytest
from platformdirs import user_state_path

from tests.runs.conftest import until
from tests.runs.test_battle import FIRST, PRICE, arena, configure, judged, shell, told, two_runs
from tests.store.trouble import disk, file_left, fill, free, locked
from tui_evals.store.battles import battles
from tui_evals.store.reader import Reader

__all__ = ["arena", "disk", "shell", "told", "two_runs"]

PAIRS = 20


class Course:
    """A battle of the real program with its store at a place, and what the server and the store say of it."""

    def __init__(self, arena, monkeypatch, database, two_runs, most=60.0):
        monkeypatch.setenv("TUI_EVALS_DB", str(database))
        monkeypatch.setattr(type(arena), "database", database)
        configure(arena, f"concurrency = 4\nmax_outage = {most}\n{PRICE}")
        self.arena, self.database = arena, database
        self.runs = two_runs(PAIRS)
        arena.server.behave("judge-model", say=FIRST, markers=False, latency=0.1)

    def start(self):
        process = self.arena.start("battle", *self.runs, "--judge", "judge", "--json")
        until(lambda: len(judged(self.arena)) >= 8)
        return process

    def assert_nothing_more_is_asked(self):
        asked = len(judged(self.arena))
        until(lambda: self.arena.server.counts()["in_flight"] == 0)
        assert len(judged(self.arena)) == asked < 2 * PAIRS

    def assert_whole(self, found):
        """Every pair is decided, nothing was asked twice, and the sums are those of the server."""
        assert found["duels"][0]["ties"] == PAIRS
        assert [question["asked"] for question in judged(self.arena)] == [1] * 2 * PAIRS
        with Reader(self.database) as reader:
            calls = [
                call
                for call in reader.calls(reader.find_run("last").id)
                if call.kind == "judge" and not call.from_cache
            ]
            (battle,) = battles(reader)
        assert len(calls) == 2 * PAIRS
        assert battle.cost == pytest.approx(sum(call.cost for call in calls)) and battle.summary


def warning(process, words):
    return next(line for line in process.stderr if words in line)


@pytest.mark.nightly
def test_a_full_disk_stops_the_judge_until_there_is_room(arena, monkeypatch, disk, two_runs):
    course = Course(arena, monkeypatch, disk / "evals.db", two_runs)
    process = course.start()
    fill(disk)
    said = warning(process, "asking waits")
    assert f"because the disk is full: make room for {course.database}; in " in said
    assert "this ends, and the same command continues" in said
    course.assert_nothing_more_is_asked()
    free(disk)
    warning(process, f"{course.database} can be written again, and asking continues")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    course.assert_whole(json.loads(out))


@pytest.mark.nightly
def test_verdicts_that_cannot_be_stored_in_the_end_are_in_a_file_that_the_same_command_stores(
    arena, monkeypatch, disk, two_runs, told
):
    course = Course(arena, monkeypatch, disk / "evals.db", two_runs, most=0.5)
    process = course.start()
    fill(disk)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4 and "Traceback" not in err, out + err
    (file,) = user_state_path("tui_evals").glob(f"unstored-{course.runs[1]}-*.jsonl")
    assert f"is in {file}, which is stored first" in err
    assert str(file) in json.loads(out)["message"]
    free(disk)
    course.assert_whole(told(*course.runs, "--judge", "judge"))
    assert not file.exists()


@pytest.mark.nightly
def test_the_runs_named_the_other_way_round_know_the_verdicts_in_the_file_too(arena, monkeypatch, disk, two_runs, told):
    course = Course(arena, monkeypatch, disk / "evals.db", two_runs, most=0.5)
    process = course.start()
    fill(disk)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4, out + err
    free(disk)
    assert told(*course.runs[::-1], "--judge", "judge")["duels"][0]["ties"] == PAIRS
    assert list(user_state_path("tui_evals").glob("unstored-*.jsonl")) == []
    assert [question["asked"] for question in judged(arena)] == [1] * 2 * PAIRS
    with Reader(course.database) as reader:  # each keeps what it cost itself
        costs = [
            call.cost
            for call in reader.calls(reader.find_run("last").id)
            if call.kind == "judge" and not call.from_cache
        ]
        assert sum(battle.cost for battle in battles(reader)) == pytest.approx(sum(costs))


@pytest.mark.nightly
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_while_nothing_can_be_stored_ends_the_battle_and_loses_nothing(
    arena, monkeypatch, two_runs, told, presses
):
    course = Course(arena, monkeypatch, arena.database, two_runs)
    process = course.start()
    with locked(course.database) as holder:
        assert f"process {holder.pid} (python" in warning(process, "asking waits")
        course.assert_nothing_more_is_asked()
        file = file_left(process, presses, course.database)
    course.assert_whole(told(*course.runs, "--judge", "judge"))
    assert not file.exists()


@pytest.mark.nightly
def test_a_store_that_is_deleted_under_a_battle_stops_it_and_is_written_again(arena, monkeypatch, two_runs, told):
    course = Course(arena, monkeypatch, arena.database, two_runs)
    process = course.start()
    for end in ("", "-wal", "-shm"):
        Path(f"{course.database}{end}").unlink()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4 and "All it held was written again to that place" in err, out + err
    assert len(judged(arena)) < 2 * PAIRS
    course.assert_whole(told(*course.runs, "--judge", "judge"))
