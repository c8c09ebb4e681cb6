"""Experiments: one file that says what is asked, of whom, how it is judged and what it must reach."""

import json
from pathlib import Path

import pytest

from tui_evals.datasets.paths import DatasetError
from tui_evals.runs.experiments import experiment_files, experiment_named, json_schema, read_experiment
from tui_evals.targets.config import RunDefaults, Settings

TEN_LINES = """\
data: {file: cases.csv, columns: {prompt: question, expected_response: answer}}
prompts:
  - "Reply in one word: {{prompt}}"
targets: [demo]
evaluators: [ExactMatch]
sweep: {temperature: [0, 0.5]}
repeats: 2
budget: 1
gates: {fail-under: 30, fail_on_broken: true}
outputs: out/report.md
"""


@pytest.fixture
def here(folder):
    (folder / "cases.csv").write_text("question,answer\nask 0,Yes.\nask 1,No.\n")
    (folder / ".evals").mkdir()
    return folder


def read(folder, text, name="experiment.yaml"):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return read_experiment(folder / name, folder)


def test_it_gives_the_options_of_a_run(here):
    experiment = read(here, TEN_LINES)
    options = experiment.options
    assert options["repeats"] == 2 and options["max_cost"] == 1 and options["sweep"] == ("temperature=0,0.5",)
    assert options["fail_under"] == 30 and options["fail_on_broken"] == 1
    assert options["outputs"] == (here / "out" / "report.md",)
    assert experiment.evaluators == {"ExactMatch": {}}
    assert experiment.document()[0].data["items"][0] == {"prompt": "ask 0", "expected_response": "Yes."}


def test_a_prompt_is_a_text_a_file_or_messages(here):
    (here / "own.txt").write_text("From a file: {{prompt}}")
    chat = '{name: chat, messages: [{role: system, content: Be brief.}, {role: user, content: "{{prompt}}"}]}'
    listed = f'["Say {{{{prompt}}}}", {chat}, {{name: own, file: own.txt}}, {{file: own.txt}}]'
    text, messages, named, file = read(here, f"data: cases.csv\ntargets: demo\nprompts: {listed}\n").prompts()
    assert (text.name, text.template) == ("prompt 1", "Say {{prompt}}") and file == here / "own.txt"
    assert (named.name, named.template) == ("own", "From a file: {{prompt}}") and messages.name == "chat"
    sections = messages.prompty.sections
    assert [(one.role, one.text) for one in sections] == [("system", "Be brief."), ("user", "{{prompt}}")]


def test_yaml_toml_and_json_say_the_same(here):
    yaml = read(here, "data: cases.csv\ntargets: demo\nrepeats: 3\n")
    toml = read(here, 'data = "cases.csv"\ntargets = ["demo"]\nrepeats = 3\n', "experiment.toml")
    written = read(here, '{"data": "cases.csv", "targets": "demo", "repeats": 3}', "experiment.json")
    assert yaml.model == toml.model == written.model


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("experiment.yaml", "data: a.csv\nrepeats: 0\n", "experiment.yaml:2:1: repeats"),
        ("experiment.json", '{"data": "a.csv",\n "repeats": 0}', "experiment.json:2:2: repeats"),
        ("experiment.toml", 'data = "a.csv"\nrepeats = 0\n', "experiment.toml:2: repeats"),
        ("experiment.yaml", "data: [\n", "experiment.yaml:2:1: not valid YAML"),
        ("experiment.yaml", "dta: a.csv\n", "unknown name 'dta' (did you mean 'data'?)"),
        ("experiment.yaml", "gates: {fail_undr: 3}\n", "unknown gate 'fail_undr' (did you mean 'fail_under'?)"),
        (
            "experiment.yaml",
            "gates:\n  fail-under: 300\n",
            "experiment.yaml:2:3: gates.fail-under: 300 is not a number",
        ),
        (
            "experiment.yaml",
            "outputs: [a.md, .vscode/tasks.json]\n",
            "experiment.yaml:1:17: outputs: .vscode/tasks.json",
        ),
        ("experiment.yaml", "data: {columns: {}}\n", "data: give a file or items"),
        ("experiment.yaml", "defaultTest: {}\n", "tui-evals import"),
    ],
)
def test_a_mistake_is_named_with_line_and_column(here, name, text, place):
    with pytest.raises(DatasetError) as refused:
        read(here, text, name)
    assert place in str(refused.value)


def test_every_mistake_is_named_at_once(here):
    with pytest.raises(DatasetError) as refused:
        read(here, "dta: a\nrepeats: 0\ngates: {fail_undr: 1}\noutputs: .git/x.md\n")
    assert [problem.line for problem in refused.value.problems] == [1, 2, 3, 4]


def test_targets_are_described_or_named(here):
    text = """\
targets:
  - demo
  - name: bot
    http: {url: "https://bot.example/chat", body: {q: "{{ prompt }}"}, answer: $.text}
  - {model: openai/gpt-4o, params: {temperature: 0}}
judge: {name: strict, model: openai/gpt-4o-mini}
"""
    experiment = read(here, text)
    targets = experiment.targets(Settings(run=RunDefaults()))
    assert [target.name for target in targets] == ["demo", "bot", "openai/gpt-4o"]
    assert targets[1].where == "experiment.yaml:3" and targets[0].where == "experiment.yaml:2"
    assert experiment.judge(Settings()).name == "strict"
    other = read(here, "targets: {bot: {http: {url: 'https://bot.example', answer: $.x}}}\n")
    assert [target.name for target in other.targets(Settings())] == ["bot"]


def test_a_target_with_a_mistake_has_its_line(here):
    experiment = read(here, "targets:\n  - demo\n  - name: b\n    modell: openai/x\n")
    with pytest.raises(DatasetError, match=r"experiment.yaml:4:\d+: .*modell"):
        experiment.targets(Settings())


def test_a_promptfoo_user_guesses_the_names(here):
    text = """\
description: mine
prompts: ["Say {{city}}"]
providers: [{id: "openai:chat:gpt-4o-mini", label: mini, config: {temperature: 0}}, "anthropic:messages:claude-x"]
tests: [{vars: {city: Rome}, expected_response: Rome}]
assert: [{type: ExactMatch, case_sensitive: true}]
outputPath: out.html
repeat: 2
maxConcurrency: 3
"""
    experiment = read(here, text)
    mini, claude = experiment.targets(Settings())
    assert (mini.name, mini.model, mini.params) == ("mini", "openai/gpt-4o-mini", {"temperature": 0})
    assert claude.model == "anthropic/claude-x"
    assert experiment.document()[0].data["items"] == [{"variables": {"city": "Rome"}, "expected_response": "Rome"}]
    assert experiment.evaluators == {"ExactMatch": {"case_sensitive": True}}
    assert experiment.options["repeats"] == 2 and experiment.options["concurrency"] == 3


def test_several_experiments_are_found_by_name(here):
    for name in ("nightly.experiment.yaml", "experiments/smoke.toml", "experiment.yml", "other.yaml"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text("")
    names = ["experiment.yml", "nightly.experiment.yaml", "experiments/smoke.toml"]
    assert [str(file) for file in experiment_files(here)] == names
    assert experiment_named(Path("smoke"), here) == Path("experiments/smoke.toml")
    assert experiment_named(Path("evals"), here) is None


def test_the_schema_takes_what_the_reader_takes(here):
    jsonschema = pytest.importorskip("jsonschema_rs")
    from tui_evals.text.yamls import load_yaml

    schema = json_schema()
    assert jsonschema.is_valid(schema, load_yaml(TEN_LINES))
    assert not jsonschema.is_valid(schema, {"dta": "x"})


def run(shell, *words):
    return shell("run", *words)


def test_run_without_words_runs_the_one_there_is(here, shell):
    (here / "experiment.yaml").write_text(
        TEN_LINES.replace("sweep: {temperature: [0, 0.5]}\n", "").replace(", fail_on_broken: true", "")
    )
    done = run(shell)
    assert done.code == 1 and "4 answers" in done.out and "--fail-under 30" in done.out, done.err
    assert (here / "out" / "report.md").exists()
    stored = json.loads(shell("runs", "--json").out)[0]
    assert stored["name"] == "experiment"


def test_an_option_goes_before_the_experiment_and_the_experiment_before_the_configuration(here, shell):
    (here / ".evals" / "config.toml").write_text('[run]\ntargets = ["replay:none.jsonl"]\nrepeats = 5\n')
    (here / "smoke.experiment.yaml").write_text(
        "data: {items: [{prompt: hi}]}\ntargets: demo\nrepeats: 2\nevaluators: {}\n"
    )
    assert "2 answers" in run(shell, "smoke").out
    assert "3 answers" in run(shell, "smoke", "-n", "3").out
    assert "1 call" in run(shell, "smoke", "-n", "1", "--dry-run").out
    (here / "other.json").write_text('[{"prompt": "a"}, {"prompt": "b"}]')
    assert "4 answers" in run(shell, "smoke", "--prompts-file", "other.json").out


def test_several_experiments_ask_for_a_name(here, shell):
    for name in ("a", "b"):
        (here / f"{name}.experiment.yaml").write_text("data: cases.csv\n")
    done = run(shell)
    assert done.code == 2 and "tui-evals run NAME (a, b)" in done.err


def test_validate_checks_experiments_with_their_data(here, shell):
    (here / "experiment.yaml").write_text(
        "data: [{prompt: hi, expected: x}]\ntargets: nosuch\nevaluators: [ExactMach]\n"
    )
    done = shell("validate")
    assert done.code == 2 and "experiment.yaml:1: items[0]: unknown field 'expected'" in done.out
    assert "there is no target nosuch" in done.out and "did you mean 'ExactMatch'?" in done.out
    assert json.loads(shell("validate", "--schema", "experiment").out)["title"] == "tui-evals experiment"


@pytest.fixture
def foreign(here, monkeypatch):
    """A clone of somebody else's project."""
    monkeypatch.setenv("XDG_STATE_HOME", str(here.parent / "nobody"))
    (here / ".git").mkdir()
    (here / ".git" / "config").write_text('[remote "origin"]\n')
    (here / "agent.py").write_text("def answer(prompt):\n    return 'Yes.'\n")
    return here


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (
            "data: cases.csv\ntargets: ['python:agent.py:answer']\n",
            "calls the function agent.py:answer (experiment.yaml:2)",
        ),
        ("data: cases.csv\ntargets: [{name: b, model: 'command:./agent.sh'}]\n", "runs the command ./agent.sh"),
        (
            "data: cases.csv\n"
            "targets: [{name: b, model: openai/x, base_url: 'https://e.example/v1', api_key: 'env:K'}]\n",
            "sends K to e.example",
        ),
        ("data: cases.csv\ntargets: demo\noutputs: ../out.md\n", "writes results to "),
        ("data: ../secret.csv\ntargets: demo\n", "sends what "),
        ("data: cases.csv\ntargets: demo\nprompts: [../secret.txt]\n", "sends what "),
        (
            "data: cases.csv\ntargets: demo\njudge: 'command:./judge.sh'\nevaluators: [Relevance]\n",
            "runs the command ./judge.sh",
        ),
    ],
)
def test_what_an_experiment_does_needs_a_yes(foreign, shell, text, asks, monkeypatch):
    (foreign.parent / "secret.csv").write_text("prompt\nsecret\n")
    (foreign.parent / "secret.txt").write_text("secret {{prompt}}")
    monkeypatch.setenv("K", "k")
    text = text.replace("cases.csv", "{file: cases.csv, columns: {prompt: question, expected_response: answer}}")
    (foreign / "experiment.yaml").write_text(text if "evaluators" in text else f"{text}evaluators: {{}}\n")
    done = run(shell)
    assert done.code == 2 and "not agreed to" in done.err and asks in done.err
    assert "not agreed" not in shell("validate").out
    listed = shell("trust")
    assert asks in listed.out + listed.err


def test_a_typed_target_that_an_experiment_varies_needs_it_too(foreign, shell):
    text = "data: [{prompt: hi}]\nsweep: {temperature: [0]}\nevaluators: {}\n"
    (foreign / "experiment.yaml").write_text(text)
    assert "calls the function" in run(shell, "-t", "python:agent.py:answer").err
    (foreign / "experiment.yaml").write_text(text.replace("sweep: {temperature: [0]}\n", ""))
    assert run(shell, "-t", "python:agent.py:answer").code == 0


@pytest.mark.nightly
@pytest.mark.story
def test_a_described_target_is_known_to_the_process_that_continues_the_run(here, shell):
    (here / "agent.py").write_text("def answer(prompt):\n    return 'Yes.'\n")
    (here / "experiment.yaml").write_text(
        "data: [{prompt: hi, expected_response: 'Yes.'}]\nevaluators: [ExactMatch]\n"
        "targets: [{name: bot, model: 'python:agent.py:answer'}]\n"
    )
    done = run(shell, "--detach")
    assert done.code == 0, done.err
    shell("watch")
    (stored,) = json.loads(shell("runs", "--json").out)
    assert stored["status"] == "finished" and shell("rerun", "last", "--only", "pass").code == 0
