"""A run that was made elsewhere is stored whole and once, and opens like any other."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from tests.cli.helpers import Shell
from tests.imports.recordings.made import ITEMS, answer, keep, recording, store, table
from tests.store.helpers import judged
from tui_evals.imports.recording import RecordedGroup, digest_of
from tui_evals.reports import results
from tui_evals.runs.status import RECORDED
from tui_evals.store.details import group_scores, read_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import ScoreRecord
from tui_evals.store.writer import Writer


def test_a_recording_becomes_a_finished_run_with_all_that_is_known_of_it(tmp_path):
    given = recording(
        tags=("nightly",), suite="s", judges=("openai/j",), about={"task": "t"}, started=5.0, finished=9.0
    )
    with store(tmp_path) as (writer, reader):
        run, outcome = keep(writer, reader, given)
        assert (outcome, run.status, run.name, run.source) == ("new", "finished", "nightly", "elsewhere.log")
        assert (run.targets, run.tags, run.suite, run.started, run.finished) == (
            *(("gpt", "llama"), ("nightly",), "s", 5.0, 9.0),
        )
        assert run.config[RECORDED] == {
            "by": "Elsewhere",
            "digest": "d1",
            "judges": ["openai/j"],
            "about": {"task": "t"},
        }
        assert (run.config["judge"]["model"], run.config["only"], run.config["repeats"]) == ("openai/j", None, 1)
        assert [target["name"] for target in run.config["targets"]] == ["gpt", "llama"]
        assert reader.snapshot(run.snapshot) == given.document
        assert [line[1:8] for line in table(reader, run)] == [
            ("one", 0, 0, 0, 0, "pass", 100.0),
            ("talk", 0, 0, 0, 0, "unjudged", None),
            ("talk", 1, 0, 0, 0, "unjudged", None),
        ]
        (number, record), *_ = read_scores(reader, run.id)
        assert (record, reader.detail(number).row.category) == (judged(), "sums")


def test_the_second_import_makes_no_second_run(tmp_path):
    with store(tmp_path) as (writer, reader):
        first, _ = keep(writer, reader, recording())
        again, outcome = keep(writer, reader, recording(name="other"))
        assert (again, outcome, len(reader.runs())) == (first, "known", 1)
        other, outcome = keep(writer, reader, recording(digest="d2"))
        assert (outcome, len(reader.runs())) == ("new", 2) and other.id != first.id


@pytest.mark.parametrize("survive", range(5))
def test_an_import_that_was_cut_off_anywhere_is_completed_by_the_next(tmp_path, monkeypatch, survive):
    answers = [answer(0, f"{n}", judged(), repeat=n) for n in range(3)]
    given = recording(*answers, together=(RecordedGroup(0, 0, judged("best")),))
    with store(tmp_path / "whole") as (writer, reader):
        whole = table(reader, keep(writer, reader, given)[0])
    left = survive

    def breaking(method):
        async def step(self, *arguments):
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError("the disk is full")
            return await method(self, *arguments)

        return step

    with store(tmp_path / "cut") as (writer, reader):
        with monkeypatch.context() as broken:
            broken.setattr("tui_evals.imports.recording._AT_ONCE", 1)
            for name in ("settled", "group_scored"):
                broken.setattr(Writer, name, breaking(getattr(Writer, name)))
            if survive < 4:
                with pytest.raises(OSError, match="full"):
                    keep(writer, reader, given)
                assert reader.runs()[0].status == "planned"
            else:
                keep(writer, reader, given)
        run, outcome = keep(writer, reader, given)
        assert outcome == ("finished now" if survive < 4 else "known")
        assert (table(reader, run), len(reader.runs())) == (whole, 1)
        assert [found.record.key for found in group_scores(reader, run.id)] == ["best"]


def test_two_who_take_in_the_same_at_once_make_one_run(tmp_path):
    with store(tmp_path) as (_, reader):
        path = tmp_path / ".evals" / "evals.db"
        gate, outcomes = threading.Barrier(3), []

        def take():
            with Writer(path) as own, Reader(path) as view:
                gate.wait()
                outcomes.append(keep(own, view, recording(*[answer(0, "1", judged(), repeat=n) for n in range(50)])))

        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (run,) = reader.runs()
        assert {found.key for found, _ in outcomes} == {run.key} and run.status == "finished"
        assert {line[6] for line in table(reader, run)} == {"pass"}


def test_the_answers_stand_in_the_order_of_a_plan_with_their_turns_together(tmp_path):
    answers = [
        *(answer(1, "b", turn=1, target=1), answer(0, "c", target=1), answer(1, "a", target=1)),
        *(answer(0, "r", target=0, repeat=1), answer(0, "t"), answer(1, "x"), answer(1, "y", turn=1)),
    ]
    with store(tmp_path) as (writer, reader):
        run, _ = keep(writer, reader, recording(*answers))
        found = [(line[0], *line[1:3], *line[4:6], line[8].text) for line in table(reader, run)]
    assert found == [
        *((0, "one", 0, 0, 0, "t"), (1, "one", 0, 1, 0, "c"), (2, "one", 0, 0, 1, "r")),
        *((3, "talk", 0, 0, 0, "x"), (3, "talk", 1, 0, 0, "y"), (4, "talk", 0, 1, 0, "a"), (4, "talk", 1, 1, 0, "b")),
    ]


def test_a_turn_that_was_not_recorded_is_an_error_of_its_conversation(tmp_path):
    with store(tmp_path) as (writer, reader):
        run, _ = keep(writer, reader, recording(answer(1, "only this", turn=1)))
        lost, there = table(reader, run)
        assert (lost[6], there[6], run.config["only"]) == ("error", "unjudged", [1])
        assert "no answer to this turn" in lost[8].message


@pytest.mark.parametrize(
    "wrong",
    [
        [answer(2)],
        [answer(-1)],
        [answer(0, turn=1)],
        [answer(0, target=2)],
        [answer(0, prompt=1)],
        [answer(0, repeat=-1)],
        [answer(0), answer(0)],
    ],
)
def test_an_answer_that_has_no_place_is_refused_before_anything_is_stored(tmp_path, wrong):
    with store(tmp_path) as (writer, reader):
        with pytest.raises(ValueError, match="cannot hold"):
            keep(writer, reader, recording(*wrong))
        assert reader.runs() == []


def test_statuses_follow_from_the_scores_unless_they_were_recorded(tmp_path):
    format_lost = ScoreRecord(key="response_format", evaluator="JsonValid", score=0.0, result="fail", weight=0.0)
    unjudged = ScoreRecord(key="J", evaluator="J", score=None, result="error")
    half = [{**ITEMS[0], "threshold": 0.5}]
    cases = [
        answer(0, "a", judged("A"), judged("B", 0.0)),
        answer(0, "b", judged(), unjudged),
        answer(0, "c", judged(), format_lost),
        answer(0, "d", judged("A", 0.0), status="pass"),
        answer(0, None, judged(), code="agentTimeout", message="too slow"),
        answer(0, "f"),
    ]
    answers = [replace(one, repeat=number) for number, one in enumerate(cases)]
    with store(tmp_path) as (writer, reader):
        run, _ = keep(writer, reader, recording(*answers, document={"items": half}))
        assert [line[6:8] for line in table(reader, run)] == [
            *(("pass", 50.0), ("partial", 100.0), ("fail", 0.0), ("pass", 0.0), ("error", 100.0), ("unjudged", None)),
        ]


def test_digests_tell_content_apart_and_nothing_else():
    one, other = recording().answers, recording(answer(0, "2")).answers
    assert digest_of({"a": 1, "b": one}) == digest_of({"b": one, "a": 1}) != digest_of({"a": 1, "b": other})
    with pytest.raises(TypeError, match="no plain data"):
        digest_of({1, 2})


@pytest.mark.story
def test_the_run_is_shown_compared_reported_and_exported_like_any_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shell = Shell(capsys)
    bad = recording(answer(0, "2", judged(score=0.0)), answer(1, "Hi"), answer(1, "No", turn=1), digest="d2")
    with store(tmp_path) as (writer, reader):
        first, second = (keep(writer, reader, one)[0] for one in (recording(), bad))
        talk = json.loads("".join(results.document(reader, first)))["items"][1]
        assert "summary" not in talk  # the published format has no word for what nobody judged
        assert [turn["extensions"]["tui_evals_status"] for turn in talk["turns"]] == ["unjudged"] * 2
    shown = shell("show", first.key)
    assert shown.code == 0 and "nightly" in shown.out, shown.err
    compared = shell("compare", first.key, second.key)
    assert compared.code == 0 and "one" in compared.out, compared.err
    for kind in ("html", "md", "junit"):
        done = shell("report", second.key, "--to", kind)
        assert done.code == 0, (kind, done.err)
