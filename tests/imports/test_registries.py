"""`tui-evals registry` and `tui-evals run --registry`: what a registry holds, and its evals as runs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.server import Server
from tests.tui.hostile import FORBIDDEN
from tui_evals.cli.look.stored import export
from tui_evals.cli.run import registry as registries_running
from tui_evals.reports.oaieval import final_report, log_lines
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

pytestmark = pytest.mark.story

HERE = Path(__file__).parent / "registries"
EXAMPLE = HERE / "example"
REAL: dict[str, Any] = json.loads((HERE / "example.json").read_text(encoding="utf-8"))["runs"]
PLAIN = [
    *("capitals.dev.v0", "capitals.dev.v1", "capitals-shown.test.v0", "capitals-packed.test.v0"),
    *("colours-includes.dev.v0", "colours-fuzzy.dev.v0", "colours-json.dev.v0", "colours-valid.dev.v0"),
]
BLEU = find_spec("sacrebleu") is not None
RUNNING = 18 + BLEU
GRADED = "modelgraded.classify:ModelBasedClassify"
TARGET, JUDGE = "python:recorded_elsewhere:answer", "python:recorded_elsewhere:judge"


@pytest.fixture
def server(one_server: Server, project: Path) -> Server:
    """A server that answers, named `main` in the configuration."""
    one_server.reset()
    (project / ".evals").mkdir()
    (project / ".evals" / "config.toml").write_text(
        f'[targets.main]\nmodel = "openai/test-model"\nbase_url = "{one_server.url}"\n'
        f'[targets.cool]\nmodel = "openai/cool-model"\nbase_url = "{one_server.url}"\n'
        "params = { temperature = 0.9, max_completion_tokens = 7 }\n"
    )
    return one_server


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that say what was said to the original, and to its grader, in the same eval."""
    module: Any = ModuleType("recorded_elsewhere")
    calls = [call for name in REAL if "error" not in REAL[name] for call in REAL[name]["all"]]
    said: dict[str, list[str]] = {}
    for call in calls:
        if call["role"] == "target":
            said.setdefault(call["sample"], []).append(call["answer"])
    verdicts = {call["sample"]: call["answer"] for call in calls if call["role"] == "judge"}
    module.asked, module.eval, module.own = [], "", {}

    def answer(request: dict[str, Any]) -> str:
        module.asked.append(request)
        return said.get(request["item"], ["-"])[request["repeat"]]  # Translate was not recorded

    def judge(messages: list[dict[str, Any]]) -> str:
        shown = messages[-1]["content"]
        texts = module.own or {sample: texts[0] for sample, texts in said.items() if sample.startswith(module.eval)}
        (sample,) = (sample for sample, text in texts.items() if text in shown)
        return verdicts[sample]

    module.answer, module.judge = answer, judge
    monkeypatch.setitem(sys.modules, "recorded_elsewhere", module)


def runs() -> list[RunRow]:
    with Reader(Path(".evals/evals.db")) as reader:
        return reader.runs()


def report(run: RunRow) -> dict[str, Any]:
    with Reader(Path(".evals/evals.db")) as reader:
        return final_report(reader, run)


def log() -> list[dict[str, Any]]:
    """The lines of the log of the latest run."""
    with Reader(Path(".evals/evals.db")) as reader:
        return [json.loads(line) for line in log_lines(reader, reader.find_run("last"))]


def registry(project: Path, entry: str, data: str = '{"input": "say yes", "ideal": "yes"}\n') -> Path:
    """A registry with one file of evals."""
    folder = project / "own"
    for name in ("evals", "data"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "evals" / "own.yaml").write_text(entry)
    (folder / "data" / "own.jsonl").write_text(data)
    return folder


def match(name: str, args: str = "samples_jsonl: own.jsonl", kind: str = "basic.match:Match") -> str:
    return f"{name}:\n  class: evals.elsuite.{kind}\n  args: {{{args}}}\n"


# -- what is listed


def test_it_lists_what_runs_and_why_the_rest_does_not_with_sets_and_remarks(shell, project):
    done = shell("registry", EXAMPLE)
    assert done.code == 0
    line = next(line for line in done.out.splitlines() if line.startswith("capitals.dev.v1"))
    assert line.split(None, 2)[1] == "Match" and "capitals, capitals.dev" in line and "Name the capital" in line
    runs_here, others = done.out.split("These do not run here:")
    assert "novel.dev.v0" not in runs_here and "the class somebody.package:Novel has no equal here" in others
    assert "git lfs pull" in others and "others.yaml:39" in others
    assert "set geo: capitals.dev.v1, capitals-shown.test.v0, capitals-packed.test.v0" in done.out
    assert done.out.startswith(f"{RUNNING} of 24 evals run here\n    1  its data … are fetched over the network")
    assert "    1  the class … has no equal here\n" in runs_here


def test_words_choose_and_json_says_what_an_eval_needs(shell, project):
    done = shell("registry", EXAMPLE, "JOKES", "!labelled", "kind", "--json")
    (row,) = json.loads(done.out)["evals"]
    assert (row["name"], row["aliases"], row["runs"]) == ("jokes-kind.dev.v0", ["jokes-kind"], True)
    assert row["needs"]["judge"] and row["needs"]["params"] == {"max_tokens": 64, "temperature": 0.4}
    assert list(json.loads(done.out)["sets"]) == ["jokes-only"]
    none = json.loads(shell("registry", EXAMPLE, "absent", "--json").out)
    assert "needs" not in none["evals"][0] and "no /" not in none["evals"][0]["name"]


def test_several_registries_stand_together_and_odd_things_are_remarked(shell, project):
    own = registry(project, match("own.dev.v0"))
    (own / "eval_sets").mkdir()
    (own / "eval_sets" / "s.yaml").write_text("lost: {evals: [nobody]}\n")
    done = shell("registry", f"{EXAMPLE},{own}", "own.dev")
    assert "own.dev.v0" in done.out and "1 of 1 evals run here (own.dev)" in done.out
    assert "note: " in done.err and "'lost' names 'nobody'" in done.err


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("a.dev.v0: [", "own.yaml:"),
        ("a.dev.v0: 5\n", "own.yaml:1: a.dev.v0: must be a mapping"),
        ("a.dev.v0: {cls: x}\n", "'cls' is a reserved word"),
    ],
)
def test_a_broken_file_ends_with_a_sentence_and_exit_2(shell, project, entry, said):
    own = registry(project, entry)
    for words in (("registry", own), ("run", "--registry", own, "a.dev.v0", "--target", "demo")):
        done = shell(*words)
        assert done.code == 2 and said in done.err and "Traceback" not in done.err
    assert not Path(".evals/evals.db").exists()


def test_no_folder_is_a_sentence_too(shell, project):
    assert "there is no such folder" in shell("registry", "nowhere").err
    assert shell("registry", ",").code == 2


def test_hostile_texts_reach_no_terminal(shell, project):
    own = registry(
        project, 'x.dev.v0:\n  id: "\\e]52;c;aGk=\\a\\u202e"\n  description: "\\e[2J[@click=app.quit]x[/]"\n'
    )
    for words in (("registry", own), ("registry", own, "--json")):
        done = shell(*words)
        assert not [bad for bad in FORBIDDEN if bad in (done.out + done.err).encode()]


# -- what runs


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("name", PLAIN)
def test_a_template_comes_to_the_figures_of_the_original(shell, name):
    done = shell("run", "--registry", EXAMPLE, name, "--target", TARGET, "--quiet")
    assert done.code == 0, done.err
    (run,) = runs()
    assert (run.name, run.source, run.tags) == (name, f"registry:{name}", ("oaieval",))
    found = report(run)
    assert {key: found[key] for key in REAL[name]["report"]} == pytest.approx(REAL[name]["report"])
    rows = {(event["sample_id"], event["type"]): event["data"] for event in log()[1:-1]}
    for row in REAL[name]["recorded"]:
        ours = rows[row["sample"], row["type"]]
        assert {key: ours[key] for key in row["data"].keys() & ours.keys()} == {
            key: value for key, value in row["data"].items() if key in ours
        }
        assert row["data"].keys() - ours.keys() <= {"options"}


@pytest.mark.usefixtures("recorded")
def test_a_judge_makes_the_choices_it_made_in_the_original(shell):
    module: Any = sys.modules["recorded_elsewhere"]
    module.eval = "jokes-kind"
    done = shell("run", "--registry", EXAMPLE, "jokes-kind", "--target", TARGET, "--judge", JUDGE)
    assert done.code == 0, done.err
    there = REAL["jokes-kind.dev.v0"]["report"]
    found = report(runs()[0])
    assert {key: found[key] for key in there if key.startswith("counts/")} == {
        key: there[key] for key in there if key.startswith("counts/")
    }
    assert found["score"] == pytest.approx(2 / 3), "a reply without a choice is left out of the score here"
    assert "jokes-kind.dev.v0" in done.out.splitlines()[-1] and "Yes 2" in done.out.splitlines()[-1]


@pytest.mark.usefixtures("recorded")
def test_no_target_is_asked_for_answers_that_samples_hold(shell):
    module: Any = sys.modules["recorded_elsewhere"]
    rows = (EXAMPLE / "data" / "jokes" / "labelled.jsonl").read_text().splitlines()
    module.own = {f"jokes-labelled.meta.{n}": json.loads(row)["completion"] for n, row in enumerate(rows)}
    done = shell("run", "--registry", EXAMPLE, "jokes-labelled", "--judge", JUDGE, "-t", TARGET)
    assert done.code == 0, done.err
    (run,) = runs()
    assert run.targets == ("replay:.evals/registries/jokes-labelled.meta.v0.json",)
    there = REAL["jokes-labelled.meta.v0"]["report"]
    assert report(run) == pytest.approx(there)
    assert module.asked == []
    assert shell("rescore", "last", "--quiet").code == 0


def graded(name: str, spec: str, more: str = "") -> str:
    return match(name, f"samples_jsonl: own.jsonl, eval_type: classify, modelgraded_spec: {spec}{more}", GRADED)


@pytest.mark.usefixtures("recorded")
def test_only_answers_that_samples_lack_are_asked_for(shell, project):
    module: Any = sys.modules["recorded_elsewhere"]
    asked, judged = [], []
    module.answer = lambda prompt: asked.append(prompt) or f"said to {prompt}"
    module.judge = lambda messages: judged.append(messages[-1]["content"]) or "A"
    rows = [{"input": "one?", "ideal": "1", "completion": "written"}, {"input": "two?", "ideal": "2"}]
    facts = registry(project, graded("own.dev.v0", "fact"), "".join(json.dumps(row) + "\n" for row in rows))
    run = ("run", "--registry", facts, "own.dev.v0", "-t", TARGET, "--judge", JUDGE)
    done = shell(*run)
    assert done.code == 0 and "judged as they are, and asked of no target" in done.err
    assert asked == ["two?"] and "written" in judged[0] and "said to two?" in judged[1]
    with Reader(Path(".evals/evals.db")) as reader:
        assert [row.cost for row in reader.all_rows(runs()[0].id)] == [0, None]
    assert (
        "2 calls (1 of 2 known) and 2 of the judge" in shell(*run[:-4], "-t", "demo", "--judge", "demo", "--plan").out
    )

    asked.clear(), judged.clear()
    both = {"input1": "a?", "input2": "b?"}
    rows = [{**both, "completion1": "left"}, {**both, "completion2": "right"}, both]
    battles = registry(project, graded("own.dev.v0", "battle"), "".join(json.dumps(row) + "\n" for row in rows))
    assert shell("run", "--registry", battles, "own.dev.v0", "-t", TARGET, "--judge", JUDGE, "--no-cache").code == 0
    assert asked == ["b?", "a?", "a?", "b?"]
    assert "left" in judged[0] and "said to b?" in judged[0] and "said to a?" in judged[1] and "right" in judged[1]

    asked.clear(), judged.clear()
    row = json.dumps({"input": "c?", "completion": "1. x\n2. y\n3. z"}) + "\n"
    several = registry(project, graded("own.dev.v0", "best", ", multicomp_n: 3"), row)
    assert shell("run", "--registry", several, "own.dev.v0", "-t", TARGET, "--judge", JUDGE).code == 0
    assert (asked, len(judged), runs()[0].total) == ([], 1, 1) and "1. x" in judged[0]


@pytest.mark.usefixtures("recorded")
def test_max_samples_takes_the_samples_the_original_takes(shell):
    done = shell("run", "--registry", EXAMPLE, "capitals", "-t", TARGET, "--max-samples", 2, "--json")
    first = [call["sample"] for call in REAL["capitals.dev.v1"]["first"]]
    with Reader(Path(".evals/evals.db")) as reader:
        assert [row.name for row in reader.all_rows(runs()[0].id)] == first
    end = json.loads(done.out.splitlines()[-1])
    assert (end["event"], end["ran"], end["of"]) == ("evals", 1, 1)
    assert "accuracy" in end["evals"][0]["figures"]


def test_several_answers_are_judged_together(shell, project):
    three = ("run", "--registry", EXAMPLE, "jokes-three", "--judge", "demo", "--quiet", "--max-samples", 1)
    assert shell(*three, "--target", "demo").code == 0
    counts = [value for name, value in report(runs()[0]).items() if name.startswith("counts/")]
    assert (runs()[0].total, counts) == (3, [1])
    done = shell(*three, "--target", "demo,python:a:b")
    assert done.code == 2 and "name one target, which is asked 3 times, or 3 targets" in done.err
    best = ("run", "--registry", EXAMPLE, "jokes-best", "--judge", "demo", "--max-samples", 1)
    assert "name two targets at least" in shell(*best, "--target", "demo").err


@pytest.mark.usefixtures("recorded")
def test_models_that_compete_answer_once_each_and_none_of_them_judges(shell):
    module: Any = sys.modules["recorded_elsewhere"]
    module.first = module.second = lambda prompt: f"to {prompt}"
    module.judge = lambda prompt: "2"
    names = "python:recorded_elsewhere:first,python:recorded_elsewhere:second"
    done = shell("run", "--registry", EXAMPLE, "jokes-best", "--target", names, "--judge", JUDGE, "--max-samples", 1)
    assert done.code == 0, done.err
    assert "answers, the last one too, which in the original judges; " + JUDGE in done.err
    (run,) = runs()
    assert (run.total, report(run)["counts/2"]) == (2, 1)
    three = ("run", "--registry", EXAMPLE, "jokes-three", "--judge", JUDGE, "--quiet", "--max-samples", 1)
    module.judge = lambda prompt: "Yes"
    assert shell(*three, "--target", f"{names},{TARGET}").code == 0
    assert runs()[0].total == 3, "each of three targets answers once"


@pytest.mark.usefixtures("recorded")
def test_a_pattern_makes_one_run_for_each_eval_and_says_what_cannot_run(shell):
    done = shell("run", "--registry", EXAMPLE, "*n*.dev.v0", "--target", TARGET, "--items", "1")
    assert done.code == 0
    assert {run.name for run in runs()} - {"translation.dev.v0"} == {"colours-includes.dev.v0", "colours-json.dev.v0"}
    assert "evals cannot run here" in done.err and "  the class … has no equal here: novel.dev.v0" in done.err
    assert "jokes-kind.dev.v0 was not run: ModelGraded is judged by a model" in done.err
    last = done.out.splitlines()
    assert last[-1] == f"{2 + BLEU} of 9 evals ran"
    assert any(line.startswith("jokes-kind.dev.v0") and line.endswith("not run") for line in last)
    assert any(line.startswith("colours-includes.dev.v0") and "accuracy 1" in line for line in last)


def test_where_nothing_can_run_the_code_is_1_or_3_where_only_a_name_is_missing(shell, project):
    done = shell("run", "--registry", EXAMPLE, "novel", "--target", "demo")
    assert done.code == 1 and "has no equal here" in done.err
    assert shell("run", "--registry", EXAMPLE, "[np]o*", "--target", "demo").code == 2
    assert shell("run", "--registry", EXAMPLE, "*o*nt*.dev.v0", "--target", "demo").code == 1
    assert shell("run", "--registry", EXAMPLE, "capitals").code == 3
    assert shell("run", "--registry", EXAMPLE, "geo").code == 3
    assert not Path(".evals/evals.db").exists() or runs() == []


def test_the_code_is_1_where_not_only_the_configuration_is_to_blame(shell, project):
    args = "samples_jsonl: own.jsonl, modelgraded_spec: closedqa, modelgraded_spec_args: {criteria: x}"
    own = registry(project, match("a.dev.v0", args, "modelgraded.classify:ModelBasedClassify"))
    assert shell("run", "--registry", own, "*", "--target", "demo").code == 3
    registry(project, (own / "evals" / "own.yaml").read_text() + match("b.dev.v0", kind="nobody:Novel"))
    done = shell("run", "--registry", own, "*", "--target", "demo")
    assert done.code == 1 and "no judge is named" in done.err and "has no equal here" in done.err


def test_an_eval_that_is_interrupted_is_the_last_one(shell, project, monkeypatch):
    names = []

    def interrupted(request, *more):
        names.append(request.name)
        return None, 130

    monkeypatch.setattr(registries_running, "run_request", interrupted)
    assert shell("run", "--registry", EXAMPLE, "geo", "--target", "demo", "--name", "nightly").code == 130
    assert names == ["nightly capitals.dev.v1"]


def test_an_eval_may_have_any_name(shell, project):
    own = registry(project, match("'*.x'") + match("a.dev.v0") + match("'../b, c.dev.v0'"))
    assert len(json.loads(shell("registry", own, "--json").out)["evals"]) == 3
    assert shell("run", "--registry", own, "*.x", "--target", "demo", "--quiet").code == 0
    assert shell("run", "--registry", own, "../b, c.dev.v0", "--target", "demo", "--quiet").code == 0
    assert runs()[0].source == "registry:../b, c.dev.v0"


def test_an_eval_whose_samples_are_broken_is_a_sentence_and_the_others_run(shell, project):
    own = registry(project, match("a.dev.v0") + match("b.dev.v0", "samples_jsonl: bad.jsonl"))
    (own / "data" / "bad.jsonl").write_text('{"input": "x", "ideal": "y"}\n{"input": \n')
    done = shell("run", "--registry", own, "b.dev.v0", "--target", "demo")
    assert done.code == 2
    assert "bad.jsonl:2" in done.err
    done = shell("run", "--registry", own, "*", "--target", "demo", "--quiet")
    assert done.code == 0 and [run.name for run in runs()] == ["a.dev.v0"]


def test_an_unknown_name_and_options_that_do_not_fit_are_said(shell, project):
    run = ("run", "--registry", EXAMPLE)
    assert "did you mean" in shell(*run, "capital", "--target", "demo").err
    assert "name an eval, a pattern or a set" in shell(*run, "--target", "demo").err
    assert "leave out the other sources" in shell(*run, "geo", "--prompts", "x").err
    assert "--detach runs one eval" in shell(*run, "geo", "--detach", "--target", "demo").err
    assert "--output writes one run" in shell(*run, "geo", "-o", "x.json", "--target", "demo").err
    assert "--max-samples belongs to --registry" in shell("run", "x.json", "--max-samples", "1").err


def test_the_plan_of_each_eval_is_told_and_nothing_is_asked(shell, project):
    done = shell("run", "--registry", EXAMPLE, "geo", "--target", "demo", "--plan")
    assert done.code == 0
    assert done.out.count("repairs and retries may add some") == 3
    assert not Path(".evals/evals.db").exists() or runs() == []


def test_a_log_is_written_where_one_eval_runs(shell, project):
    shell("run", "--registry", EXAMPLE, "quiz", "--target", "demo", "--quiet", "-o", "quiz.log")
    lines = [json.loads(line) for line in Path("quiz.log").read_text().splitlines()]
    assert lines[0]["spec"]["eval_name"] == "quiz.dev.v0" and "accuracy" in lines[-1]["final_report"]


def test_the_log_has_a_file_of_its_own_ending_beside_the_other_exports(shell, project):
    shell("run", "--registry", EXAMPLE, "quiz", "--target", "demo", "--quiet")
    export("last", "oaieval-log", None, raw=False)
    (run,) = runs()
    assert "final_report" in Path(f".evals/results/{run.key}.log").read_text()
    assert "final_report" in shell("report", "last", "--to", "oaieval-log", "-o", "-").out


# -- parameters


@pytest.mark.nightly
def test_the_parameters_of_the_original_are_sent_where_nothing_is_configured(shell, server):
    run = ("run", "--registry", EXAMPLE, "colours-fuzzy", "--items", "1", "--quiet")
    assert shell(*run, "--target", "main").code == 0
    sent = server.last()["body"]
    assert (sent["temperature"], sent["max_tokens"]) == (0, 20)
    assert shell(*run, "--target", "cool").code == 0
    sent = server.last()["body"]
    assert sent["temperature"] == 0.9 and "max_tokens" not in sent


def test_a_run_with_such_parameters_can_be_run_again(shell, server):
    shell("run", "--registry", EXAMPLE, "colours-fuzzy", "--items", "1", "--quiet", "--target", "main")
    done = shell("rerun", "last", "--only", "!zzz", "--quiet")
    assert done.code == 0, done.err
    assert server.last()["body"]["max_tokens"] == 20
    assert len(runs()) == 2


def test_a_target_that_judges_too_gets_what_both_roles_share(shell, server):
    server.behave(say="Yes", markers=False)
    run = ("run", "--registry", EXAMPLE, "jokes-kind", "--max-samples", "1", "--quiet")
    assert shell(*run, "--target", "main", "--judge", "main").code == 0
    kept = runs()[0].config
    assert kept["targets"][0]["params"] == {}, "64 and 256 tokens, 0.4 and 0"
    assert shell(*run, "--target", "main", "--judge", "cool").code == 0
    kept = runs()[0].config
    assert kept["targets"][0]["params"] == {"max_tokens": 64, "temperature": 0.4}
    assert kept["judge"]["params"] == {"temperature": 0.9, "max_completion_tokens": 7}


def test_a_registry_cannot_say_where_a_question_goes(shell, server):
    project = Path.cwd()
    shutil.copytree(EXAMPLE / "modelgraded", project / "own" / "modelgraded")
    spec = "samples_jsonl: own.jsonl, modelgraded_spec: kindness-short, modelgraded_spec_args: {standard: x}"
    args = f"{spec}, sample_kwargs: {{api_base: 'http://evil.example', top_p: 0.5, n: 900, stop: [x, y]}}"
    own = registry(project, match("own.dev.v0", args, "modelgraded.classify:ModelBasedClassify"))
    shell("run", "--registry", own, "own.dev.v0", "--target", "main", "--judge", "cool", "--quiet")
    params = runs()[0].config["targets"][0]["params"]
    assert params == {"max_tokens": 1024, "temperature": 0, "top_p": 0.5, "stop": ["x", "y"]}


# -- beside the original


@pytest.mark.story
def test_rows_and_figures_are_those_the_original_recorded():
    file = Path(__file__).parents[1] / "interop" / "evals_compare.py"
    found = spec_from_file_location("evals_compare", file)
    assert found is not None and found.loader is not None
    script = module_from_spec(found)
    found.loader.exec_module(script)
    real = json.loads((HERE / "example.json").read_text(encoding="utf-8"))
    lines = list(script.compared(EXAMPLE, real))
    different = [line for line in lines if line.startswith("DIFFERS")]
    assert {line.split()[1] for line in different} == {"colours-parts.dev.v0:"}, (
        "it numbers files as the disk lists them"
    )
    assert sum(" rows, " in line for line in lines) == 16
    real["runs"]["jokes-kind.dev.v0"]["report"]["score"] = 0.75
    real["runs"]["capitals.dev.v0"]["recorded"][0]["data"]["correct"] ^= True
    more = set(script.compared(EXAMPLE, real)) - set(lines)
    assert sorted(line.split()[1] for line in more) == ["capitals.dev.v0:", "jokes-kind.dev.v0:"]


def test_a_spec_that_counts_answers_judges_one_where_the_eval_asks_for_one(shell, project):
    folder = project / "registry"
    for name in ("evals", "data"):
        (folder / name).mkdir(parents=True)
    (folder / "data" / "tasks.jsonl").write_text('{"input": [{"role": "user", "content": "Name a city."}]}\n')
    (folder / "evals" / "best.yaml").write_text(
        "one-best:\n  id: one-best.dev.v0\n  metrics: [accuracy]\n"
        "one-best.dev.v0:\n  class: evals.elsuite.modelgraded.classify:ModelBasedClassify\n"
        "  args: {samples_jsonl: tasks.jsonl, eval_type: classify, modelgraded_spec: best}\n"
    )
    Path("answers.jsonl").write_text('{"prompt": "Name a city.", "response": "Oslo"}\n')
    answering = ("-t", "replay:answers.jsonl", "--judge", "demo", "--quiet")
    assert shell("run", "--registry", folder, "one-best", *answering).code == 0
    with Reader(Path(".evals/evals.db")) as reader:
        (run,) = reader.runs()
        ((_, score),) = read_scores(reader, run.id)
    assert score.result != "error", score.reason
    assert score.label in ("1", "__invalid__")
