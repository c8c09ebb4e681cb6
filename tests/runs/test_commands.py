"""Every run command against a real server, as a person or a script uses it."""

import csv
import io
import json
import re

import pytest

from tests.runs.conftest import until
from tui_evals.datasets.document import load
from tui_evals.datasets.portable import PUBLIC
from tui_evals.datasets.validate import validate
from tui_evals.store.connection import alive, run_lock
from tui_evals.store.database import open_store
from tui_evals.store.details import group_scores, read_scores
from tui_evals.store.writer import Writer

SEED = {
    "schemaVersion": "1.2.0",
    "default_evaluators": {"Relevance": {}, "Coherence": {}},
    "items": [
        {
            "prompt": "What is Microsoft Graph?",
            "expected_response": "A unified API endpoint for Microsoft services.",
            "evaluators": {"Citations": {"citation_format": "mixed"}},
            "evaluators_mode": "extend",
        },
        {
            "name": "Expense policy flow",
            "turns": [
                {
                    "prompt": "I spent $250 on dinner. Is that okay?",
                    "expected_response": "The per-diem meal allowance is $200.",
                },
                {
                    "prompt": "What should I do about the overage?",
                    "expected_response": "Request manager approval.",
                    "evaluators": {"ExactMatch": {"case_sensitive": False}},
                    "evaluators_mode": "replace",
                },
            ],
        },
    ],
}


def judged(project, verdict: str = '{"reason": "fine", "score": 4}') -> None:
    project.server.behave(model="judge-model", say=verdict, markers=False)
    judge = f'[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "{project.server.url}"\n'
    project.configure(f'{judge}\n[judge]\ntarget = "judge"')


@pytest.mark.first
def test_the_seed_example_gives_results_that_are_an_eval_document(project):
    judged(project)
    (project.folder / "data.json").write_text(json.dumps(SEED))
    project.do("run", "data.json", "--target", "main", "--quiet", "--output", "results.json")
    document = load(project.folder / "results.json")
    report = validate(document, PUBLIC)
    assert report.valid and report.portable, report
    graph, flow = document.data["items"]
    assert graph["status"] == "fail" and graph["scores"]["relevance"]["score"] == 4
    assert graph["scores"]["citations"] == {"result": "fail", "count": 0, "threshold": 1} | {
        "reason": graph["scores"]["citations"]["reason"]
    }
    assert flow["turns"][0]["status"] == "pass"
    assert flow["turns"][1]["scores"]["exactMatch"]["match"] is False
    assert flow["summary"] == {
        "turns_total": 2,
        "turns_passed": 1,
        "turns_failed": 1,
        "turns_partial": 0,
        "turns_errored": 0,
        "overall_status": "fail",
    }
    asked = project.server.last()["body"]["messages"]
    assert [message["role"] for message in asked] in (["user"], ["user", "assistant", "user"], ["system", "user"])


def test_golden_07_statuses_of_answers_and_conversations(project):
    judged(project, "no verdict at all")
    turns = [
        {"prompt": "one", "evaluators": {"StartsWith": {"value": "Answer"}}, "evaluators_mode": "replace"},
        {"prompt": "two", "evaluators": {"Relevance": {}, "StartsWith": {"value": "x"}}, "evaluators_mode": "replace"},
        {"prompt": "three", "evaluators": {"StartsWith": {"value": "x"}}, "evaluators_mode": "replace"},
    ]
    broken = [{"prompt": "first"}, {"prompt": "second [[400]]"}, {"prompt": "third"}]
    items = [{"name": "a", "turns": turns}, {"name": "b", "turns": broken}]
    project.dataset(1, default_evaluators={"StartsWith": {"value": "Answer"}})
    document = json.loads((project.folder / "data.json").read_text())
    (project.folder / "data.json").write_text(json.dumps({**document, "items": items}))
    project.do("run", "data.json", "--target", "main", "--quiet", "-o", "r.json")
    first, second = json.loads((project.folder / "r.json").read_text())["items"]
    assert [turn["status"] for turn in first["turns"]] == ["pass", "partial", "fail"]
    assert first["turns"][1]["error"] == {
        "code": "evaluatorsFailed",
        "message": "Agent response obtained. 1 of 2 evaluators failed to run.",
    }
    assert list(first["summary"].values()) == [3, 1, 1, 1, 0, "partial"]
    assert [turn["status"] for turn in second["turns"]] == ["pass", "error", "error"]
    assert [turn.get("error", {}).get("code") for turn in second["turns"]] == [
        None,
        "agentRequestFailed",
        "turnSkipped",
    ]
    assert list(second["summary"].values()) == [3, 1, 0, 0, 2, "error"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "data.json", "--target", "main", "--quiet", "--fail-under", "90"],
        ["run", "data.json", "--target", "main", "--json", "--no-such-option"],
        ["run", "data.json", "--target", "nobody"],
        ["rescore", "last", "-e", "StartsWith", "--plan", "--json"],
        ["show", "last"],
        ["export", "last", "--to", "json"],
        ["label", "last", "#1", "unheard-of"],
        ["cache", "info"],
    ],
    ids=" ".join,
)
@pytest.mark.first
def test_a_command_is_the_same_as_a_process_of_its_own_and_as_a_call(project, arguments):
    """Most tests call commands in their own process, and this is why they may."""
    project.dataset(2)
    project.do("run", "data.json", "--target", "main", "--quiet")
    process, call = project.as_process(*arguments), project.as_call(*arguments)
    assert call[0] == process[0]
    assert [_timeless(text) for text in call[1:]] == [_timeless(text) for text in process[1:]]


def _timeless(text):
    """What a command prints without durations, which no two calls share, and the name of the run."""
    return re.sub(r"[\d.]+ (ms|s)\b|\brun \w+|(?<=resume )\w+", "…", text)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "absent.json", "--target", "main"], 2, "no such file"),
        (["run", "data.json", "--target", "mian"], 3, "mian"),
        (["run", "--prompts", "a", "b", "--expected", "x", "--target", "main"], 2, "2 prompts but 1 expected"),
        (["run", "data.json", "--prompts", "a", "--target", "main"], 2, "one source"),
        (["run", "data.json", "--target", "main", "--only", "failed"], 2, "--from RUN"),
        (["run", "data.json", "--target", "main", "--fail-under", "120"], 2, "120"),
        (["run", "data.json", "--target", "main", "--fail-under", "100", "--quiet"], 0, ""),
        (["run", "data.json", "--target", "main", "--fail-on", "fail", "--quiet"], 0, ""),
        (["resume", "nosuchrun"], 2, "nosuchrun"),
        (["show", "nosuchrun"], 2, "nosuchrun"),
        (["run", "data.json", "--target", "nobody"], 3, "nobody"),
    ],
)
def test_exit_codes_and_their_sentences(project, arguments, code, said):
    project.dataset(2)
    assert said in project.do(*arguments, code=code)


def test_one_of_several_targets_has_to_be_named_and_the_judge_is_none_of_them(project):
    project.dataset(2)
    project.configure('[targets.other]\nmodel = "openai/other"')
    assert "no target is named" in project.do("run", "data.json", code=3)
    project.configure('[targets.other]\nmodel = "openai/other"\n[judge]\ntarget = "other"')
    assert "main: 2 of 2 pass" in project.do("run", "data.json")


def test_a_gate_that_is_not_met_is_exit_1_and_low_scores_alone_are_not(project):
    project.dataset(4, lambda number: f"question {number}" + (" [[say no]]" if number else ""))
    project.do("run", "data.json", "--target", "main", "--quiet")
    assert "less than 50" in project.do("run", "data.json", "--target", "main", "--quiet", "--fail-under", 50, code=1)
    assert "3 of 4 answers" in project.do(
        "run", "data.json", "--target", "main", "--quiet", "--fail-on", "fail", code=1
    )


def test_golden_15_no_answer_at_all_is_exit_1_with_the_report_written(project):
    project.dataset(2, lambda number: f"question {number} [[empty_answer]]")
    said = project.do("run", "data.json", "--target", "main", "--quiet", "-o", "r.json", code=1)
    assert "not met: all 2 answers are empty" in said
    assert (project.folder / "r.json").exists()
    project.dataset(2, lambda number: f"question {number} [[400]]")
    assert "all 2 answers are missing" in project.do("run", "data.json", "--target", "main", "--quiet", code=1)
    project.dataset(2, lambda number: f"question {number}" + (" [[empty_answer]]" if number else ""))
    project.do("run", "data.json", "--target", "main", "--quiet")


@pytest.mark.parametrize("kind", ["401", "404"])
def test_a_wrong_key_or_model_stops_the_run_before_it_fails_item_by_item(project, kind):
    project.server.behave(always=kind)
    project.configure(concurrency=2)
    project.dataset(30)
    out = project.do("run", "data.json", "--target", "main", "--quiet", code=3)
    assert "main cannot be asked: " in out and "resume" in out
    assert project.server.counts()["asked"] <= 4
    assert "error" not in {row[2] for row in project.table()}


def test_no_key_and_nobody_there_are_sentences(project):
    project.dataset(2)
    project.configure(api_key="env:NOT_SET_ANYWHERE")
    said = project.do("run", "data.json", "--target", "main", "--quiet", code=3)
    assert "NOT_SET_ANYWHERE" in said and ".." not in said
    project.configure()
    text = (project.folder / ".evals/config.toml").read_text()
    (project.folder / ".evals/config.toml").write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", text))
    assert "127.0.0.1:1" in project.do("run", "data.json", "--target", "main", "--quiet", code=3)


def test_an_evaluator_that_needs_a_judge_stops_the_run_before_anything_is_spent(project):
    project.dataset(2, default_evaluators={"Relevance": {}})
    said = project.do("run", "data.json", "--target", "main", code=3)
    assert "--judge" in said and "--without-judges" in said
    assert project.server.counts()["asked"] == 0
    project.do("run", "data.json", "--target", "main", "--without-judges", "--quiet")
    assert re.search(r"Relevance +0 +0 +0 +2 ", project.do("show", "last", "--by", "evaluator"))


def test_what_is_known_is_not_asked_again_unless_wished(project):
    project.dataset(3)
    project.do("run", "data.json", "--target", "main", "--quiet")
    project.do("run", "data.json", "--target", "main", "--quiet")
    assert project.server.counts()["asked"] == 3
    assert "from the cache" in project.do("show", "last", "--item", "#1")
    assert '"messages"' in project.do("cache", "why", "last", "#1")
    assert project.do("cache", "info").startswith("3 answers")
    project.do("run", "data.json", "--target", "main", "--quiet", "--no-cache")
    assert project.server.counts()["asked"] == 6
    project.do("run", "data.json", "--target", "main", "--quiet", "--repeats", 2)
    assert project.server.counts()["asked"] == 9
    project.do("cache", "clear", "--yes")
    assert project.do("cache", "info").startswith("0 answers")


def test_rescoring_asks_no_target_and_keeps_the_earlier_scores(project):
    project.dataset(3)
    project.do("run", "data.json", "--target", "main", "--quiet")
    document = json.loads((project.folder / "data.json").read_text())
    (project.folder / "other.json").write_text(
        json.dumps({**document, "default_evaluators": {"Regex": {"pattern": "zzz"}}})
    )
    project.do("rescore", "last", "--dataset", "other.json", "--quiet")
    assert project.server.counts()["asked"] == 3
    with project.reader() as reader:
        run = reader.find_run("last")
        assert run.status == "finished"
        assert [len(list(read_scores(reader, run.id, number))) for number in (1, 2)] == [3, 3]
        assert {row.status for row in reader.all_rows(run.id)} == {"fail"}


def test_rerun_asks_the_failed_again_in_a_run_that_names_its_parent(project):
    project.dataset(4, lambda number: f"question {number}" + (" [[say no]]" if number == 2 else ""))
    project.do("run", "data.json", "--target", "main", "--quiet")
    project.do("rerun", "last", "--only", "failed", "--quiet")
    with project.reader() as reader:
        again, first = reader.runs()
        assert (again.parent, again.total) == (first.id, 1)
    assert project.server.counts()["asked"] == 5
    assert "fits" in project.do("rerun", "last", "--only", "errored", code=2)


def test_filters_limits_and_several_columns(project):
    items = [{"prompt": f"question {n}", "testId": f"T-{n}", "category": "ab"[n % 2]} for n in range(6)]
    project.dataset(1)
    document = json.loads((project.folder / "data.json").read_text())
    document["default_evaluators"] = {"Regex": {"pattern": "Answer"}}
    (project.folder / "data.json").write_text(json.dumps({**document, "items": items}))
    project.configure(f'[targets.other]\nmodel = "openai/other"\nbase_url = "{project.server.url}"')
    project.do("run", "data.json", "--target", "main,other", "--only", "category:a !id:T-0", "--limit", 1, "--quiet")
    with project.reader() as reader:
        run = reader.find_run("last")
        assert [(row.name, row.target) for row in reader.all_rows(run.id)] == [("T-2", 0), ("T-2", 1)]
    plan = json.loads(project.do("run", "data.json", "--target", "main,other", "--plan", "--json", "--items", "1-3,6"))
    known = {"items": 4, "targets": ["main", "other"], "judge": None, "unjudgeable": []}
    assert plan.pop("destinations")["main"]["sentence"].startswith("sends its questions to 127.0.0.1:")
    priced = {"known_cost": 0.0, "unpriced": ["main", "other"], "cached": 2, "all_looked_up": True, "with_files": 0}
    spared = {"kept": 0, "known_verdicts": 0, "all_tried": True, "last_time": None}
    assert plan.pop("seconds") > 0  # both have answered before
    assert plan == {"answers": 8, "judge_calls": 0, "played": 0, "cost": None, **priced, **spared, **known}


def test_marked_items_are_run_by_their_positions(project):
    project.dataset(9)
    project.do("run", "data.json", "--target", "main", "--items", "9, 2-3,3", "--quiet")
    assert [row[0] for row in project.table()] == ["#2", "#3", "#9"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--items", "1,x"], "'x' is no position"),
        (["--items", "4-"], "'4-' is no position"),
        (["--items", ""], "'' is no position"),
        (["--items", "3-1"], "write 1-3"),
        (["--items", "0"], "there is no item 0; the dataset has items 1 to 3"),
        (["--items", "2-999999999"], "there is no item 999999999"),
        (["--items", "1", "--only", "a"], "leave out --only"),
        (["--items", "1", "--limit", "1"], "leave out --only"),
        (["--as", "other.json"], "--as belongs to --snapshot"),
    ],
)
def test_items_that_cannot_be_meant_start_nothing(project, arguments, said):
    project.dataset(3)
    assert said in project.do("run", "data.json", "--target", "main", *arguments, code=2)
    assert project.server.counts()["asked"] == 0


def test_a_snapshot_stands_for_its_file(project):
    folder = project.folder / "sets"
    folder.mkdir()
    (folder / "p.prompty").write_text("user:\nTag {{word}}.\n")
    document = {"schemaVersion": "1.11.0", "prompt_file": "p.prompty", "default_evaluators": {}}
    document["items"] = [{"variables": {"word": "unsaved"}}]
    with Writer(open_store(project.database)) as writer:
        snapshot = writer.snapshot(document, "draft")
    project.do("run", "--snapshot", snapshot, "--as", "sets/data.json", "--target", "main", "--quiet")
    with project.reader() as reader:
        run = reader.find_run("last")
    assert (run.source, run.name, run.snapshot) == ("sets/data.json", "data", snapshot)
    assert project.server.last()["body"]["messages"] == [{"role": "user", "content": "Tag unsaved."}]
    (folder / "p.prompty").unlink()
    said = project.do("run", "--snapshot", snapshot, "--as", "sets/data.json", "--target", "main", code=2)
    assert said.startswith("sets/data.json") and "there is no such file" in said


@pytest.mark.story
def test_a_detached_run_outlives_its_parent_and_can_be_paused_resumed_and_stopped(project):
    project.server.behave(latency=0.4)
    project.configure(concurrency=2)
    project.dataset(100)
    key = project.do("run", "data.json", "--target", "main", "--detach").strip()
    status = lambda: json.loads(project.do("runs", "--json"))[0]["status"]  # noqa: E731
    assert status() == "running"
    assert "being executed" in project.do("resume", key, code=1)
    project.do("pause", key)
    until(lambda: status() == "paused" and project.server.counts()["in_flight"] == 0)
    asked = project.server.counts()["asked"]
    project.do("resume", key)
    until(lambda: project.server.counts()["asked"] > asked + 8)
    project.do("stop", key)
    until(lambda: status() == "interrupted")
    assert project.server.counts()["asked"] < 100
    project.server.behave(latency=0)
    project.do("resume", key, "--quiet")
    assert [row[2] for row in project.table()] == ["pass"] * 100
    assert (project.folder / f".evals/logs/{key}.log").exists()


@pytest.mark.nightly
def test_a_detached_run_that_cannot_begin_is_reported(project):
    """At once, without a run; a run that cannot go on is reported by its log too."""
    project.configure(api_key="env:NOT_SET_ANYWHERE")
    project.dataset(2)
    assert "NOT_SET_ANYWHERE" in project.do("run", "data.json", "--target", "main", "--detach", code=3)
    project.server.behave(always="401")
    project.do("run", "data.json", "--target", "main", "--quiet", code=3, NOT_SET_ANYWHERE="key-1234567890")
    out = project.do("resume", "last", "--detach", code=None)
    assert "NOT_SET_ANYWHERE" in out or re.fullmatch(r"\w+\n", out)
    logs = project.folder / ".evals" / "logs"
    until(lambda: any("NOT_SET_ANYWHERE" in log.read_text() for log in logs.iterdir()))


def over(project, key):
    """Wait until nobody executes a run any more."""
    with project.reader() as reader:
        until(lambda: not alive(run_lock(project.database, key)) and reader.find_run(key).status == "finished")


@pytest.mark.nightly
def test_rules_hold_for_a_judging_in_the_background(project):
    project.dataset(2, default_evaluators={"PartialMatch": {"threshold": 0.1}})
    project.do("run", "data.json", "--target", "main", "--quiet", code=None)
    rules = ["--threshold", "PartialMatch=1", "--weight", "PartialMatch=0.5", "--pass-rule", 0.5]
    over(project, json.loads(project.do("rescore", "last", *rules, "--detach", "--json"))["run"])
    with project.reader() as reader:
        document = reader.snapshot(reader.passes(reader.find_run("last").id)[-1].config["dataset"])
    assert document["default_evaluators"] == {"PartialMatch": {"threshold": 1.0, "weight": 0.5}}
    assert {item["threshold"] for item in document["items"]} == {0.5}


@pytest.mark.nightly
def test_items_are_asked_again_in_the_background_after_a_look_at_the_price(project):
    project.dataset(4, lambda number: f"question {number}" + (" [[say no]]" if number == 2 else ""))
    project.do("run", "data.json", "--target", "main", "--quiet")
    plan = json.loads(project.do("rerun", "last", "--only", "failed", "--plan", "--json"))
    assert (plan["answers"], plan["items"], project.server.counts()["asked"]) == (1, 1, 4)
    key = json.loads(project.do("rerun", "last", "--only", "failed", "--detach", "--json", "-o", "r.json"))["run"]
    over(project, key)
    with project.reader() as reader:
        again, first = reader.runs()
    assert (again.key, again.parent, project.server.counts()["asked"]) == (key, first.id, 5)
    until((project.folder / "r.json").exists)


@pytest.mark.nightly
def test_answers_are_judged_again_in_the_background_after_a_look_at_the_price(project):
    judged(project)
    project.dataset(3, lambda number: f"question {number}" + (" [[400]]" if number == 0 else ""))
    project.do("run", "data.json", "--target", "main", "--quiet")
    evaluators = ["-e", "Relevance,Coherence"]
    plan = json.loads(project.do("rescore", "last", *evaluators, "--plan", "--json"))
    known = {"items": 3, "targets": ["main"], "judge": "judge", "unjudgeable": []}
    assert list(plan.pop("destinations")) == ["judge"]
    priced = {"known_cost": 0.0, "unpriced": ["judge"], "cached": 0, "all_looked_up": True, "with_files": 0}
    spared = {"kept": 0, "known_verdicts": 0, "all_tried": True, "seconds": None, "last_time": None}
    assert plan == {"answers": 0, "judge_calls": 4, "played": 0, "cost": None, **priced, **spared, **known}
    plan = json.loads(project.do("rescore", "last", *evaluators, "--without-judges", "--plan", "--json"))
    assert (plan["judge_calls"], plan["cost"]) == (0, 0.0)
    key = json.loads(project.do("rescore", "last", *evaluators, "--judge", "judge", "--detach", "--json"))["run"]
    over(project, key)
    with project.reader() as reader:
        run = reader.find_run(key)
        assert run.scoring_pass == 2
        assert {score.key for _, score in read_scores(reader, run.id)} == {"Relevance", "Coherence"}
        assert {score.key for _, score in read_scores(reader, run.id, 1)} == {"Includes"}


@pytest.mark.nightly
def test_a_judging_that_cannot_begin_is_reported_and_the_earlier_scores_still_count(project):
    project.dataset(2)
    project.configure('[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "env:NOT_SET_ANYWHERE"')
    project.do("run", "data.json", "--target", "main", "--quiet")
    for where in (["--detach"], ["--quiet"]):
        said = project.do("rescore", "last", "-e", "Relevance", "--judge", "judge", *where, code=None)
        assert "NOT_SET_ANYWHERE" in said
    with project.reader() as reader:
        run = reader.find_run("last")
        assert (run.status, run.scoring_pass) == ("finished", 1)
        assert {row.status for row in reader.all_rows(run.id)} == {"pass"}
    said = project.do("rescore", "last", "-e", "not a name", "--detach", code=2)
    assert "not a name" in said and "Traceback" not in said


@pytest.mark.nightly
def test_a_judging_that_comes_to_nothing_leaves_the_earlier_scores_and_says_what_to_do(project):
    project.dataset(2)
    project.configure('[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "http://127.0.0.1:9/v1"')
    project.do("run", "data.json", "--target", "main", "--quiet")
    said = project.do("rescore", "last", "-e", "Relevance", "--judge", "judge", "--quiet", code=3)
    assert "tui-evals rescore" in said and "resume" not in said
    with project.reader() as reader:
        run = reader.find_run("last")
        assert (run.status, run.scoring_pass, len(reader.passes(run.id))) == ("finished", 1, 1)
        assert {score.key for _, score in read_scores(reader, run.id)} == {"Includes"}


@pytest.mark.nightly
def test_what_is_executed_is_neither_resumed_nor_judged_beside_it(project):
    project.server.behave(latency=1.0)
    project.configure(concurrency=1)
    project.dataset(40)
    key = json.loads(project.do("run", "data.json", "--target", "main", "--detach", "--json"))["run"]
    assert "being executed" in project.do("rescore", key, "--detach", code=1)
    assert "being executed" in project.do("resume", key, "--detach", code=1)
    project.do("pause", key)
    with project.reader() as reader:
        until(lambda: reader.find_run(key).status == "paused")
    assert project.do("resume", key, "--detach") == f"{key}\n"
    project.do("stop", key)
    until(lambda: not alive(run_lock(project.database, key)))
    project.server.behave(latency=0)
    assert project.do("resume", key, "--detach", "--max-cost", 5, code=None).strip() != key
    assert json.loads(project.do("resume", key, "--detach", "--json")) == {"run": key}
    over(project, key)
    assert [row[2] for row in project.table()] == ["pass"] * 40


def test_exports_are_faithful_and_safe(project):
    hostile = "=cmd|' /C calc'!A0 \x1b]52;c;aGk=\x07 é \u202e"
    project.dataset(2, lambda number: f"question {number} [[say {hostile}]]")
    project.do("run", "data.json", "--target", "main", "--quiet")
    project.do("export", "last", "--to", "json", "-o", "out.json")
    assert json.loads((project.folder / "out.json").read_text())["items"][0]["response"] == hostile
    project.do("export", "last", "--to", "jsonl", "-o", "out.jsonl")
    lines = (project.folder / "out.jsonl").read_text().split("\n")[:-1]
    assert json.loads(lines[1])["answer"]["text"] == hostile
    project.do("export", "last", "--to", "csv", "-o", "out.csv")
    rows = list(csv.DictReader(io.StringIO((project.folder / "out.csv").read_text(), newline="")))
    assert rows[0]["response"] == "'" + hostile
    assert not any(cell.startswith(("=", "+", "@", "\t")) for row in rows for cell in row.values())
    for arguments in (["show", "last"], ["show", "last", "--item", "#1"], ["search", "cmd"]):
        out = project.do(*arguments)
        assert "cmd" in out and "\x1b" not in out and "\u202e" not in out


def test_labels_search_and_deletion(project):
    project.dataset(2)
    project.do("run", "data.json", "--target", "main", "--quiet")
    project.do("label", "last", "#1", "fail", "--note", "too short", "--author", "Ada")
    assert "Ada says fail: too short" in project.do("show", "last", "--item", "#1")
    assert "#2" in project.do("search", "question 1")
    project.do("delete", "last", "--yes")
    assert "no runs yet" in project.do("runs")


def test_targets_and_judges_are_checked_with_real_calls(project):
    judged(project)
    assert "judges" in project.do("targets")
    assert "✓ main" in project.do("targets", "check", "main")
    assert "✗" in project.do("judge", "check", code=1)
    project.server.behave(always="401")
    assert "✗ main" in project.do("targets", "check", "main", code=3)


def test_events_as_json_are_one_object_a_line(project):
    project.dataset(3)
    lines = project.do("run", "data.json", "--target", "main", "--json").splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["event"] for event in events] == ["start", "answer", "answer", "answer", "end"]
    assert events[-1]["totals"]["passed"] == 3


def test_a_prompt_under_test_is_rendered_for_each_item(project):
    (project.folder / "p.prompty").write_text("system:\nBe brief.\nuser:\nTag {{word}}.\n")
    items = [{"variables": {"word": "{{7*7}}"}}, {"variables": {}}]
    document = {"schemaVersion": "1.11.0", "prompt_file": "p.prompty", "default_evaluators": {}}
    (project.folder / "data.json").write_text(json.dumps({**document, "items": items}))
    refused = project.do("run", "data.json", "--target", "main", "--quiet", code=2)
    assert "items[1]: the item has no value for {{ word }} of the prompt p" in refused
    assert project.server.counts()["asked"] == 0
    project.do("run", "data.json", "--target", "main", "--quiet", "--items", "1")
    assert project.server.last()["body"]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Tag {{7*7}}."},
    ]


def test_json_answers_must_be_json(project):
    project.dataset(1, default_evaluators={"Regex": {"pattern": "."}}, response_format="json")
    items = [{"prompt": "a"}, {"prompt": "b [[say not json]]"}]
    document = json.loads((project.folder / "data.json").read_text())
    (project.folder / "data.json").write_text(json.dumps({**document, "items": items}))
    project.do("run", "data.json", "--target", "main", "--quiet")
    assert [(row[2], row[3]) for row in project.table()] == [("pass", 100.0), ("fail", 0.0)]
    assert project.server.last()["body"]["response_format"] == {"type": "json_object"}


def test_answers_of_a_group_are_judged_together(project):
    judged(project, "Because.\nYes")
    options = {"Diverse": {"type": "ModelGraded", "spec": "diversity"}}
    project.dataset(2, default_evaluators=options)
    project.do("run", "data.json", "--target", "main", "--repeats", 3, "--quiet")
    with project.reader() as reader:
        run = reader.find_run("last")
        found = group_scores(reader, run.id)
    assert [(score.item, score.record.key, score.record.label) for score in found] == [
        (0, "Diverse", "Yes"),
        (1, "Diverse", "Yes"),
    ]
    assert found[0].record.score == 1.0


def test_evaluators_can_be_named_on_the_command_line(project):
    (project.folder / "t.csv").write_text("input,reference_output\nquestion 1,question 1\n")
    project.do("run", "t.csv", "--target", "main", "-e", "Includes,StartsWith", "--quiet")
    project.do("rescore", "last", "-e", '{"Regex": {"pattern": "Answer"}}', "--quiet")
    with project.reader() as reader:
        run = reader.find_run("last")
        passes = [{score.key: score.result for _, score in read_scores(reader, run.id, number)} for number in (1, 2)]
    assert passes == [{"Includes": "pass", "StartsWith": "fail"}, {"Regex": "pass"}]
    assert "did you mean 'Includes'" in project.do("run", "t.csv", "--target", "main", "-e", "Include", code=2)


def test_a_run_is_followed_snapshots_are_run_and_old_runs_pruned(project):
    project.dataset(2)
    project.do("run", "data.json", "--target", "main", "--quiet", "--name", "first")
    assert "main: 2/2" in project.do("watch", "first") and "finished" in project.do("watch", "first")
    with project.reader() as reader:
        snapshot = reader.find_run("first").snapshot
    project.do("run", "--snapshot", snapshot, "--target", "main", "--quiet")
    assert "no snapshot nosuchhash" in project.do("run", "--snapshot", "nosuchhash", "--target", "main", code=2)
    project.do("runs", "prune", "--keep", 1, "--yes")
    assert [run["name"] for run in json.loads(project.do("runs", "--json"))] != ["first"]
    assert len(json.loads(project.do("runs", "--json"))) == 1


def test_prompts_of_the_command_line_need_no_file(project):
    project.do("run", "--prompts", "a", "b", "--expected", "Answer", "zzz", "-t", "main", "-e", "Includes", "--quiet")
    assert [(row[0], row[2]) for row in project.table()] == [("#1", "pass"), ("#2", "fail")]


def test_tool_calls_of_a_reply_are_judged_with_their_arguments(project):
    tool = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object", "properties": {}}}}
    project.dataset(1, lambda _: "look it up [[tools]]", tools=[tool])
    document = json.loads((project.folder / "data.json").read_text())
    project.do("run", "data.json", "--target", "main", "-e", '{"Regex": {"pattern": "zzz", "negate": true}}', "--quiet")
    with project.reader() as reader:
        run = reader.find_run("last")
        called = reader.detail(next(reader.all_rows(run.id)).id).answer.tool_calls
    assert called and document["tools"] == project.server.last()["body"]["tools"]
    evaluators = {"ToolCalled": {"toolName": called[0]["name"]}}
    project.do("rescore", "last", "-e", json.dumps(evaluators), "--quiet")
    assert [row[2] for row in project.table()] == ["pass"]


def test_metrics_beside_the_prompt_judge_again_and_go_on(project):
    """A run knows where the metrics of its prompt lie, whichever way the prompt was named."""
    beside = project.folder / "prompts"
    beside.mkdir()
    (beside / "greet.prompty").write_text("system:\nGreet {{who}}.\n")
    (beside / "polite.metric.prompty").write_text("system:\nIs this polite? End with OK or ERR.\nuser:\n{{output}}\n")
    item = {"variables": {"who": "Ada"}, "evaluators": {"polite": {}}, "evaluators_mode": "replace"}
    data = {"schemaVersion": "1.11.0", "prompt_file": "prompts/greet.prompty", "items": [item]}
    (project.folder / "d.json").write_text(json.dumps(data))
    asked = {"schemaVersion": "1.11.0", "items": [{**item, "prompt": "Go."}]}
    (project.folder / "e.json").write_text(json.dumps(asked))
    for words in (["d.json"], ["e.json", "-p", "prompts/greet.prompty"]):
        project.do("run", *words, "--target", "demo", "--judge", "demo")
        assert "polite" in project.do("rescore", "last", "--no-cache") + project.do("show", "last", "--by", "evaluator")
        project.do("rerun", "last", "--only", "id:*", "--plan")
