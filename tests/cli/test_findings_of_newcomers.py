"""What newcomers stumbled over, in an empty folder with an empty home: what each command says, and its exit code."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.cli.chat_service import chatting
from tests.cli.helpers import asked
from tests.tui.terminal import Terminal
from tui_evals.cli.manual import laid_out
from tui_evals.datasets.discover import STARTER_EVALUATORS, TEMPLATES
from tui_evals.evaluators.registry import proposals
from tui_evals.text.manual import pages

pytestmark = pytest.mark.story

AGENT = "def answer(prompt):\n    return 'I heard ' + prompt\n"
DATA = json.dumps({"default_evaluators": {"PartialMatch": {}, "ExactMatch": {}}, "items": asked(2, "Paris")})
BARE = json.dumps({"items": asked(2, "Paris")})
EXPERIMENT = "data: data.json\ntargets: ['python:agent.py:answer']\n"
CONFIG = ".evals/config.toml"
ONE_TARGET = "[targets.mine]\nmodel = 'python:agent.py:answer'\n"
TYPED = "run data.json -t python:agent.py:answer --quiet"


@pytest.fixture
def empty(project, monkeypatch, tmp_path_factory):
    """An empty folder, an empty home, and no key in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    sys.modules.pop("agent", None)
    return project


@pytest.fixture
def types(empty, shell):
    """`types(files, lines)` writes files and types commands; what the last one came to."""

    def type_all(files, lines):
        for name, text in files.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(text)
        *before, last = lines
        for line in before:
            done = shell(*line.split())
            assert done.code == 0, (line, done.err)
        return shell(*last.split())

    return type_all


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    ("files", "lines", "code", "says"),
    [
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT},
            ["run data.json -t python:agent.py:answer --fail-on-regression"],
            2,
            ["no baseline is set", "name a run or a file with --baseline"],
            id="1 a missing baseline says how to name one",
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT},
            [TYPED, "baseline export -o base.json", "delete last --yes", f"{TYPED} --baseline base.json"],
            0,
            [],
            id="1 a file of a baseline needs no run in the store",
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT, "experiment.yaml": EXPERIMENT + "gates: {fail-under: 40}\n"},
            ["run"],
            1,
            ["experiment experiment.yaml", "not met: --fail-under 40"],
            id="2 a file describes the experiment with its gates",
        ),
        pytest.param({}, ["init", "run --target demo"], 0, ["demo: ", " of 2 pass"], id="3 the starter needs no judge"),
        pytest.param(
            {"agent.py": AGENT},
            ["init", "init agent.py:answer"],
            0,
            ["function answers", " of 2 pass"],
            id="3 what is evaluated can follow the starter",
        ),
        pytest.param(
            {"agent.py": AGENT, "evals/evals.json": BARE},
            ["init agent.py:answer"],
            0,
            ["ExactMatch", "wrote evals/evals.json", "0 of 2 pass"],
            id="3 evaluators that can run are proposed for a dataset without any",
        ),
        pytest.param(
            {"agent.py": AGENT, "data.json": DATA, CONFIG: ONE_TARGET},
            ["run data.json --trust"],
            0,
            ["mine: 0 of 2 pass"],
            id="3 the only target is asked",
        ),
        pytest.param({}, ["init --from openai --model m"], 2, ["Give --at"], id="3 no address is made up"),
        pytest.param(
            {"a.csv": "prompt,expected_response\nHi,Hello\n"},
            ["run a.csv -t demo -e ExactMatch"],
            0,
            ["demo: 0 of 1 pass"],
            id="5 a table of prompts",
        ),
        pytest.param(
            {"a.yaml": "items:\n- prompt: Hi\n  expected: Hello\n"},
            ["validate a.yaml"],
            2,
            ["a.yaml:2: items[0]: unknown field 'expected' (did you mean 'expected_response'?)"],
            id="5 YAML with a wrong name",
        ),
        pytest.param(
            {"a.yaml": "items:\n- {prompt: Hi, expected_response: Hi}\n", "p.prompty": "---\n---\nuser:\n{{prompt}}\n"},
            ["run a.yaml -p p.prompty -t demo -e ExactMatch"],
            0,
            [" of 1 pass"],
            id="5 a prompt file names the prompt of the item",
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT},
            [TYPED, "show last --only fail"],
            0,
            ["asked     ask 0", "expected  Paris", "answer    I heard ask 0", "why       "],
            id="6 a failure is explained",
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT},
            [TYPED, "show last"],
            0,
            ["Answers: status, item, score (0 to 100), answer"],
            id="6 the column of scores is named",
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT + "def right(prompt):\n    return 'Paris'\n"},
            ["run data.json -t python:agent.py:right --quiet", TYPED, "compare last"],
            0,
            ["Answers: 2 broken", "✗ broken  #1"],
            id="6 runs of targets with other names are compared",
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT + "def right(prompt):\n    return 'Paris'\n"},
            [f"{TYPED} -t python:agent.py:right", "compare last --columns #1,#2"],
            0,
            ["Answers: 2 fixed"],
            id="6 columns are named by their numbers",
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT}, [TYPED, "runs"], 0, ["pass rate  name"], id="6 runs have a header"
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT, CONFIG: ONE_TARGET},
            ["targets"],
            0,
            ["target  model", "mine    python:agent.py:answer"],
            id="6 targets have a header",
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT},
            ["run data.json -t python:agent.py:answer -e PartialMatch"],
            0,
            ["--evaluators replaces the evaluators of data.json. Not judged by: ExactMatch."],
            id="7 evaluators that are left out are named",
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT, "experiment.yaml": EXPERIMENT + "evaluators: [ExactMatch]\n"},
            ["run -e PartialMatch"],
            0,
            ["--evaluators replaces the evaluators of experiment.yaml. Not judged by: ExactMatch."],
            id="7 those of an experiment too",
        ),
        pytest.param({"evals.json": DATA}, ["resolve"], 0, ["PartialMatch"], id="7 resolve finds the dataset"),
        pytest.param(
            {},
            ["help exit-codes"],
            0,
            ["`judge check` exits with 1", "`targets check` exits with 1"],
            id="7 exit codes",
        ),
        pytest.param(
            {CONFIG: "[targets.m]\nmodel = 'openai/x'\napi_key = 'env:SHOP_KEY'\n"},
            ["doctor"],
            0,
            ["SHOP_KEY"],
            id="7 doctor looks for a key that the configuration names",
        ),
        pytest.param(
            {"data.json": DATA},
            ["run data.json --model gpt-4o-mni"],
            3,
            ["did you mean 'openai/gpt-4o-mini'?"],
            id="8 a model is suggested",
        ),
        pytest.param(
            {"data.json": DATA, "agent.py": AGENT},
            ["run data.json -v -t python:agent.py:answer"],
            0,
            ["✗ fail  #1", "✗ fail  #2"],
            id="8 -v has a line for each answer",
        ),
        pytest.param(
            {"data.json": DATA},
            ["run data.json --dry-run --filter words -t demo"],
            2,
            ["words"],
            id="8 what is filtered is named",
        ),
    ],
)
def test_what_a_command_says(types, files, lines, code, says):
    done = types(files, lines)
    said = done.out + done.err
    assert done.code == code, said
    for part in says:
        assert part in said


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "md", "xml", "html"])
def test_export_writes_what_the_ending_says(types, ending):
    assert types({"data.json": DATA, "agent.py": AGENT}, [TYPED, f"export last -o y.{ending}"]).code == 0
    begins = {"csv": "kind,item", "json": "{", "jsonl": "{", "md": "#", "xml": "<?xml", "html": "<!"}
    assert Path(f"y.{ending}").read_text().startswith(begins[ending])


def test_export_refuses_an_ending_that_it_cannot_write(types):
    done = types({"data.json": DATA, "agent.py": AGENT}, [TYPED, "export last -o y.xlsx"])
    assert done.code == 2 and "Use one of .html" in done.err and not Path("y.xlsx").exists()


def test_a_target_whose_whole_reply_is_the_answer_is_not_ready(types):
    with chatting(key="") as service:
        http = f"http = {{ url = '{service.url}', body = {{ message = '{{{{ prompt }}}}' }} }}"
        done = types({CONFIG: f"[targets.mine]\n{http}\n"}, ["targets check mine --trust"])
    assert done.code == 1 and "The answer would be the whole reply" in done.out
    assert 'set answer = "$.reply.text"' in done.out


def test_a_refused_login_names_the_header_to_give(types):
    with chatting() as service:
        done = types({}, [f"init {service.url}"])
    assert (
        done.code == 3 and "no header is sent" in done.err and "--header 'Authorization: Bearer env:NAME'" in done.err
    )


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["show last", "runs", "help gates", f"{TYPED.removesuffix(' --quiet')} --no-cache"])
def test_a_reader_that_closes_the_pipe_does_not_change_the_exit_code(types, command):
    types({"data.json": DATA, "agent.py": AGENT}, [TYPED])
    line = f"{sys.executable} -m tui_evals {command} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "0" and "Traceback" not in done.stderr


def test_a_gate_on_few_items_says_what_drop_it_can_show(types):
    gated = EXPERIMENT + "gates: {fail-on-regression: true}\n"
    many = json.dumps({"default_evaluators": {"ExactMatch": {}}, "items": asked(9)})
    done = types({"data.json": many, "agent.py": AGENT, "experiment.yaml": gated}, ["validate"])
    assert done.code == 0 and "With 9 items, a drop of 74 points or more shows as a regression." in done.out
    done = types({"experiment.yaml": gated + "limit: 3\n"}, ["validate --json"])
    assert "No regression can be shown. Only 3 items pass" in json.loads(done.out)[0]["power"]
    done = types({"experiment.yaml": gated + "baseline: base.json\n"}, ["ci init --install x"])
    assert "gates of the experiment: fail-on-regression" in done.out and "With 9 items, a drop of" in done.out


def test_a_summary_of_ci_has_the_items_that_must_pass(types, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(Path("summary.md").absolute()))
    gated = EXPERIMENT + "gates: {must-pass: ['#1']}\n"
    done = types({"data.json": DATA, "agent.py": AGENT, "experiment.yaml": gated}, ["ci init --install x"])
    assert "next: git add" in done.out and "--fail-on error" not in Path(".github/workflows/evals.yml").read_text()
    assert types({}, ["run --quiet"]).code == 1
    assert types({}, ["ci report"]).code == 0
    summary = Path("summary.md").read_text()
    assert "--must-pass #1" in summary and "0 of 1 item that must pass do. Not passed: #1 (fails)" in summary


@pytest.mark.parametrize(("gates", "typed"), [("{max-missing: 0}", ""), ("{max-missing: 50}", " --max-missing 0")])
def test_a_limit_of_0_counts_as_given(types, gates, typed):
    experiment = f"data: data.json\ntargets: [demo]\ngates: {gates}\n"
    many = json.dumps({"default_evaluators": {"PartialMatch": {"threshold": 0}}, "items": asked(30)})
    types({"data.json": many, "experiment.yaml": experiment}, [f"run --quiet --fail-under 1 --json{typed}"])
    run = json.loads(types({}, ["show last --json"]).out)
    assert "more than 0 %" in json.dumps(run["gates"])


@pytest.mark.parametrize("page", ["gates", "start", "exit-codes", "targets"])
def test_the_manual_breaks_no_word_at_80(page):
    lines = [line for line, _ in laid_out(pages()[page], 80)]
    described = [line for line in lines if re.search(r"\S {2,}\S+ \S", line)]
    assert len(described) > 2 and max(map(len, described)) <= 80
    if page == "gates":
        whole = [line for line, _ in laid_out(pages()[page], None)]
        assert " ".join(lines).split() == " ".join(whole).split() and max(map(len, lines)) <= 80


def _same_job(heading):
    """What the manual types for the same job in another tool or here."""
    section = pages()["experiments"].partition("## The same job elsewhere")[2].partition("\n## ")[0]
    block = section.partition(f"\n{heading}")[2].partition("\n\n")[2].partition("\n\n")[0]
    return section, textwrap.dedent(block) + "\n"


def test_the_same_job_of_the_manual_is_dated_and_runs_here(types):
    section, experiment = _same_job("tui-evals:")
    assert re.search(r"as of \d+ \w+ 20\d\d", section) and "promptfoo 0.121" in section and "Inspect 0.3" in section
    texts = {"plain.txt": "{{prompt}}", "careful.txt": "Carefully: {{prompt}}", "experiment.yaml": experiment}
    done = types({**texts, "cases.csv": "question,answer\nHi,Hello\nWho?,Me\n"}, ["validate", "run -m demo"])
    assert done.code == 1 and done.out.count(" of 2 pass") >= 2 and "not met: --fail-under 90" in done.err


def test_the_same_job_of_promptfoo_is_read(types):
    texts = {"plain.txt": "{{question}}", "careful.txt": "Carefully: {{question}}"}
    config = {"promptfooconfig.yaml": _same_job("promptfoo:")[1], "cases.csv": "question,__expected\nHi,Hello\n"}
    done = types({**texts, **config}, ["import promptfooconfig.yaml"])
    assert done.code == 0 and "experiment: experiment.yaml (written)" in done.out
    assert types({}, ["validate"]).code == 0


def test_the_starter_is_judged_as_would_be_proposed_for_its_items():
    for _, pairs in TEMPLATES.values():
        assert proposals([expected for _, expected in pairs])[0].name in STARTER_EVALUATORS


def test_the_first_help_fits_80_by_40(shell):
    lines = shell("--help").out.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80


# -- at a terminal


def _at_terminal(line, **environment):
    """What a command prints on a small terminal whose pager marks what goes through it."""
    Path("pager.sh").write_text("#!/bin/sh\necho PAGED\ncat\n")
    Path("pager.sh").chmod(0o755)
    environment = {"PAGER": str(Path("pager.sh").absolute()), "NO_COLOR": "1", **environment}
    with Terminal(
        [sys.executable, "-m", "tui_evals", *line.split()], Path.cwd(), size=(80, 8), **environment
    ) as terminal:
        assert terminal.end() == 0
        return terminal.text


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["show last", "help gates", "compare last", "runs"])
def test_long_output_goes_through_the_pager(types, command):
    many = json.dumps({"default_evaluators": {"ExactMatch": {}}, "items": asked(12)})
    types({"data.json": many, "agent.py": AGENT}, [TYPED] * 8)
    assert "PAGED" in _at_terminal(command)
    for environment in ({"TERM": "dumb"}, {"PAGER": ""}):
        assert "PAGED" not in _at_terminal(command, **environment)
    assert "PAGED" not in _at_terminal(f"{command} --no-pager")
    assert "PAGED" not in _at_terminal("runs --limit 2")


@pytest.mark.nightly
def test_blind_labels_end_with_one_json_value(types):
    types({"data.json": DATA, "agent.py": AGENT}, [TYPED])
    words = "label last --blind --author ada --json"
    command = ["/bin/bash", "-c", f"{sys.executable} -m tui_evals {words} > out.json"]
    with Terminal(command, Path.cwd()) as terminal:
        for number in (1, 2):
            terminal.wait(f"{number} of 2")
            terminal.wait("q stop", since=terminal.text.encode().rindex(f"{number} of 2".encode()))
            terminal.press("g")
        assert terminal.end() == 0
    result = json.loads(Path("out.json").read_text())
    assert (result["labelled"], result["drawn"], result["author"]) == (2, 2, "ada")
