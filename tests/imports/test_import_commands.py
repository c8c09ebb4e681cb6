"""`tui-evals import` guesses what a file is, takes it in whole or not at all, and says what was lost on the way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.imports.recordings.test_inspect_log import HEADERS
from tests.imports.recordings.test_results_json import DONE, MALFORMED
from tests.imports.test_promptfoo import BROKEN, BROKEN_FILES
from tui_evals.datasets.document import load
from tui_evals.imports import recording
from tui_evals.imports.registry import built_in
from tui_evals.store.reader import Reader
from tui_evals.targets.config import load_settings

TESTS = Path(__file__).parent
LOGS, FOUNDRY, PROMPTFOO = (
    TESTS / "recordings",
    TESTS / "foundry",
    TESTS / "promptfoo",
)
RUN = ("--target", "demo", "--without-judges", "--quiet")
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "The capital of Austria?"},
    {"role": "assistant", "content": "Vienna"},
]


@pytest.fixture
def doors(project):
    """A project with copies of what other tools wrote."""
    for file in LOGS.glob("*.*"):
        if file.suffix in (".eval", ".json"):
            shutil.copy(file, project)
    shutil.copytree(FOUNDRY, project / "foundry")
    shutil.copytree(PROMPTFOO, project / "promptfoo")
    return project


def runs():
    with Reader(Path(".evals/evals.db")) as reader:
        return reader.runs()


def stored():
    return runs() if Path(".evals/evals.db").exists() else []


def files(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and ".evals" not in file.parts}


def put(name, value):
    Path(name).write_text(value if isinstance(value, str) else json.dumps(value, indent=1))
    return name


# -- logs and results become runs


@pytest.mark.parametrize("name", ["arithmetic", "choices"])
def test_a_log_becomes_one_run_whichever_of_its_two_forms_is_imported(shell, doors, name):
    before = files(doors)
    done = shell("import", f"{name}.eval")
    assert done.code == 0, done.err
    (run,) = runs()
    assert (run.status, run.source) == ("finished", f"{name}.eval")
    assert f"run: {run.key} (new)\nnext: `tui-evals show {run.key}`" in done.out
    assert "left out: " in done.out and "carried: " in done.out
    again = shell("import", f"{name}.json", "--json")
    said = json.loads(again.out)
    assert (said["kind"], said["run"], said["run_is"]) == ("inspect", run.key, "known")
    assert "carried" in {loss["kind"] for loss in said["losses"]}
    assert len(runs()) == 1 and files(doors) == before
    assert run.key in shell("show", run.key).out


def test_the_dataset_of_a_log_is_written_where_it_is_wished_for(shell, doors):
    done = shell("import", "choices.eval", "--into", "sums.json")
    assert done.code == 0 and "dataset: sums.json (written)" in done.out, done.err
    (run,) = runs()
    assert run.source == "sums.json"
    assert shell("validate", "sums.json").code == 0
    assert shell("import", "choices.eval", "--out", ".", "--name", "sums").code == 0
    Path("sums.json").write_text('{"items": [{"prompt": "mine"}]}')
    kept = shell("import", "choices.eval", "--into", "sums.json")
    assert kept.code == 0 and "stays as it is" in kept.out and "mine" in Path("sums.json").read_text()
    other = shell("import", "arithmetic.eval", "--into", "sums.json")
    assert other.code == 2 and "holds something else" in other.err and len(runs()) == 1


@pytest.mark.story
def test_our_own_results_come_back_as_a_run_that_can_be_compared(shell, doors):
    shell("import", "choices.eval")
    assert shell("export", "last", "--to", "json", "-o", "before.json").code == 0
    done = shell("import", "before.json", "--name", "last week")
    assert done.code == 0, done.err
    later, first = runs()
    assert (later.name, later.status, later.targets) == ("last week", "finished", first.targets)
    compared = shell("compare", first.key, later.key)
    assert compared.code == 0 and "No answer changed." in compared.out, compared.err


@pytest.mark.nightly
@pytest.mark.story
def test_results_files_stand_for_runs_where_runs_are_compared(shell, doors):
    shell("import", "arithmetic.eval")
    shell("export", "last", "--to", "json", "-o", "a.json", "--bare")
    before = files(doors)
    done = shell("compare", "a.json", "last")
    imported = runs()[0].key
    assert done.code == 0, done.err
    assert done.err == f"note: a.json is now run {imported}; `tui-evals import a.json` says what was left out\n"
    again = shell("compare", "a.json", "last")
    assert (again.code, again.out) == (0, done.out), again.err
    again = shell("compare", "a.json", "choices.eval", "--json")
    assert again.code == 0 and json.loads(again.out), again.err
    assert f"note: a.json was imported before as run {imported};" in again.err
    assert [run.name for run in runs()] == ["choices", "a", "arithmetic"]
    assert shell("diff", "a.json", "--only", "status:pass").code == 0
    assert files(doors) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"items": [{"prompt": "?"}]}', "b.json: holds no results: no item has a status or scores"),
        ('{"items": [\n', "b.json:2: not valid JSON"),
    ],
)
def test_a_file_that_holds_no_run_is_no_run(shell, doors, text, said):
    put("b.json", text)
    done = shell("compare", "choices.eval", "b.json")
    assert done.code == 2 and said in done.err
    put("c.txt", "hello")
    assert (
        "c.txt holds no results of a run; name a run, or one of these:\n  promptpex "
        in shell("compare", "c.txt", "last").err
    )
    long = shell("compare", "x" * 300, "last")
    assert long.code == 2 and "Traceback" not in long.err


def test_an_import_that_was_cut_off_is_not_resumed_but_imported_again(shell, doors, monkeypatch):
    def cut(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(recording, "_filled", cut)
        assert shell("import", "choices.eval").code == 130
    (run,) = runs()
    done = shell("resume", run.key)
    assert (done.code, done.err) == (2, f"{run.key} was made elsewhere, and its import was cut off; import it again\n")
    assert "is whole now" in shell("import", "choices.eval").out
    assert [one.status for one in runs()] == ["finished"]


@pytest.fixture
def bench(project):
    """A folder of Arthur Bench with a suite and two runs of it."""
    cases = [{"id": f"c{n}", "input": f"{n}?", "reference_output": str(n)} for n in range(2)]
    method = {"name": "exact_match", "type": "built_in", "config": {}, "output_type": "continuous"}
    suite = {"id": "s1", "name": "sums", "scoring_method": method, "test_cases": cases}
    folder = project / "bench_runs" / "sums"
    for name in ("first", "second"):
        said = [{"id": f"c{n}", "output": str(n), "score_result": {"score": 1.0}} for n in range(2)]
        (folder / name).mkdir(parents=True)
        run = {"id": name, "name": name, "test_suite_id": "s1", "test_case_outputs": said}
        put(folder / name / "run.json", {**run, "created_at": "2024-01-02T03:04:05"})
    put(folder.parent / "suite_id_to_name.json", {"s1": "sums"})
    put(folder / "suite.json", {**suite, "created_at": "2024-01-02T03:04:05"})
    return folder


def test_a_folder_of_arthur_bench_becomes_suites_and_runs_once(shell, bench):
    done = shell("import", "bench_runs")
    assert done.code == 0, done.err
    assert "read 2 items, 4 answers of 1 model from bench_runs" in done.out and "suite: sums\n" in done.out
    assert sorted((run.name, run.suite, run.status) for run in runs()) == [
        ("first", "sums", "finished"),
        ("second", "sums", "finished"),
    ]
    again = json.loads(shell("import", "bench_runs/sums", "--json").out)
    assert {run["run_is"] for run in again["runs"]} == {"known"} and len(runs()) == 2
    assert shell("compare", "first", "second").code == 0
    assert "leave --into, --out and --name out" in shell("import", "bench_runs", "--name", "x").err


def test_what_arthur_bench_itself_wrote_opens_like_any_run(shell, project):
    shutil.copytree(LOGS / "bench_runs", project / "bench_runs")
    done = shell("import", "bench_runs")
    assert done.code == 0, done.err
    assert "carried: the suite 'capitals'" in done.out and "left out: " in done.out
    assert runs() and {run.status for run in runs()} == {"finished"}
    assert all(shell("show", run.key).code == 0 for run in runs())


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("suite.json", "{"),
        ("suite.json", "[]"),
        ("suite.json", '{"name": "sums"}'),
        ("suite.json", '{"name": "sums", "scoring_method": "exact_match", "test_cases": []}'),
        ("suite.json", '{"name": "../up", "scoring_method": "exact_match", "test_cases": [{"id": "a", "input": "q"}]}'),
        ("suite.json", '{"name": "s", "scoring_method": "nothing", "test_cases": [{"id": "a", "input": "q"}]}'),
        ("suite.json", '{"name": "s", "scoring_method": "exact_match", "test_cases": [{"id": 1, "input": "q"}]}'),
        ("first/run.json", "{"),
        ("first/run.json", '{"name": "first"}'),
        ("first/run.json", '{"name": "first", "test_case_outputs": []}'),
        ("first/run.json", '{"name": "first", "test_case_outputs": [{"id": "c0"}, {"id": "c1"}]}'),
        ("first/run.json", '{"name": "first", "test_case_outputs": [{"id": "x", "output": "a"}, 7]}'),
    ],
)
def test_malformed_folders_of_arthur_bench(shell, bench, file, text):
    put(bench / file, text)
    assert refused(shell, "bench_runs", "--from", "bench").startswith("bench_runs")


# -- datasets become files


@pytest.mark.parametrize("name", ["travel", "answers-in-json"])
def test_a_file_of_prompt_foundry_becomes_a_dataset_that_runs(shell, doors, name):
    done = shell("import", f"foundry/{name}.json")
    assert done.code == 0, done.err
    written = f"foundry/{name}-dataset.json"
    assert done.out.startswith(f"read 2 items from foundry/{name}.json, taken for foundry\n")
    assert f"dataset: {written} (written)\nnext: `tui-evals run {written} --target NAME`" in done.out
    assert stored() == []
    assert shell("validate", written).code == 0
    assert shell("run", written, *RUN).code == 0
    assert runs()[0].source == written
    again = shell("import", f"foundry/{name}.json")
    assert again.code == 0 and "was there already, the same" in again.out


def test_what_changed_on_the_way_is_named_with_its_line(shell, doors):
    done = shell("import", "foundry/early.json")
    line = next(n for n, text in enumerate(Path("foundry/early.json").read_text().splitlines(), 1) if '"a2"' in text)
    assert f"foundry/early.json:{line}: [0].assertions[1]: changed: the assertion CONTAINS" in done.out


def test_one_prompt_of_several_is_chosen_by_name(shell, project):
    parts = [{"id": f"p{n}", "name": f"P{n}", "messages": []} for n in (1, 2)]
    cases = [{"id": f"e{n}", "promptId": f"p{n}", "appendedMessages": [], "variables": {}} for n in (1, 2)]
    put("two.json", {"prompts": parts, "evaluations": cases})
    refused = shell("import", "two.json")
    assert refused.code == 2 and "`--prompt NAME` chooses one" in refused.err
    done = shell("import", "two.json", "--prompt", "P2")
    assert done.code == 0 and "left out: the prompt P1" in done.out, done.err
    assert "--prompt chooses among" in shell("import", "two.json", "--from", "dataset", "--prompt", "x").err


PROVIDERS = """
prompts: [{label: short, raw: 'Say {{x}}'}, {label: long, raw: 'Say {{x}} at length'}]
providers:
- id: openai:gpt-4o-mini
  label: Careful one
  prompts: [long]
  config:
    temperature: 0.2
    tool_choice: auto
    apiBaseUrl: http://127.0.0.1:8000/v1
    apiKey: "{{ env.CAREFUL_KEY }}"
    response_format: {type: json_schema, json_schema: {schema: {type: object}}}
    tools: file://tools.json
- openai:gpt-4o
tests: tests.csv
"""


def test_a_configuration_of_promptfoo_outweighs_other_files_and_its_targets_keep_their_settings(shell, project):
    put("promptfooconfig.yaml", PROVIDERS)
    put("tests.csv", "x,__expected\nhello,contains: hello\n")
    put("tools.json", [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}])
    done = shell("import", ".", "--name", "said")
    assert done.code == 0 and done.out.startswith("read 1 item from ., taken for promptfoo\n"), done.err
    assert "1 of 1 assertion judges as before\n" in done.out
    assert "asks 127.0.0.1:8000 with CAREFUL_KEY); `tui-evals import --targets` writes them" in done.err
    assert not Path(".evals/config.toml").exists()
    long, both = "-p said-long.prompty", "-p said-short.prompty -p said-long.prompty"
    assert done.out.endswith(
        f"next: `tui-evals run said.json {long} --target openai/gpt-4o-mini && "
        f"tui-evals run said.json {both} --target openai/gpt-4o`\n"
    )
    again = shell("import", ".", "--name", "said", "--targets")
    assert (
        again.code == 0
        and "targets: careful-one (base_url, api_key, params; asks 127.0.0.1:8000 with CAREFUL_KEY), in .evals/"
        in again.out
    ), again.err
    assert again.out.endswith(
        f"next: `tui-evals run said.json {long} --target careful-one && "
        f"tui-evals run said.json {both} --target openai/gpt-4o`\n"
    )
    target = load_settings(project).targets["careful-one"]
    assert (target.model, target.api_key, target.base_url) == (
        "openai/gpt-4o-mini",
        "env:CAREFUL_KEY",
        "http://127.0.0.1:8000/v1",
    )
    look = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}
    assert target.params == {
        "temperature": 0.2,
        "tool_choice": "auto",
        "tools": [{"type": "function", "function": look}],
        "response_format": form,
    }
    assert shell("import", ".", "--name", "said", "--targets").err == ""
    put("promptfooconfig.yaml", PROVIDERS.replace("0.2", "0.7"))
    changed = shell("import", ".", "--name", "said", "--targets")
    assert changed.code == 0 and "has another target careful-one, which stays as it is" in changed.err


def test_what_was_imported_from_a_strangers_folder_sends_and_runs_nothing_before_a_yes(shell, tmp_path, monkeypatch):
    (clone := tmp_path / "clone").mkdir()
    monkeypatch.chdir(clone)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SOME_KEY", "sk-1")
    service = {"url": "http://127.0.0.1:9/x", "headers": {"Authorization": "Bearer {{env.SOME_KEY}}"}, "body": {}}
    own = {"type": "python", "value": "open('RAN', 'w') and True"}
    tests = [{"vars": {"q": "hi"}, "assert": [own]}]
    providers = [{"id": "https", "label": "theirs", "config": service}]
    put("promptfooconfig.json", {"prompts": ["{{q}}"], "providers": providers, "tests": tests})
    done = shell("import", ".", "--targets", "--name", "d")
    assert done.code == 0 and "targets: theirs (http; asks 127.0.0.1:9 with SOME_KEY), in " in done.out, done.err
    run = shell("run", "d.json", "-t", "theirs")
    assert run.code != 0 and "sends SOME_KEY to 127.0.0.1:9" in run.err and "runs the evaluator python" in run.err
    assert not Path("RAN").exists()


def test_tools_and_the_form_of_the_answer_that_all_targets_share_stand_in_the_dataset(shell, project):
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    config = {"tools": [tool], "response_format": {"type": "json_object"}}
    providers = [{"id": f"openai:{name}", "config": config} for name in ("gpt-4o", "gpt-4o-mini")]
    put("promptfooconfig.json", {"prompts": ["Say {{x}}"], "providers": providers, "tests": [{"vars": {"x": "a"}}]})
    assert shell("import", ".", "--name", "said").code == 0
    data = load(Path("said.json")).data
    assert (data["tools"], data["response_format"]) == ([tool], "json")


@pytest.mark.story
@pytest.mark.parametrize("name", ["asserts", "chats", "countries", "letters", "scenarios"])
def test_a_configuration_of_promptfoo_becomes_a_dataset_that_runs(shell, doors, name):
    done = shell("import", f"promptfoo/{name}.yaml")
    assert done.code == 0, done.err
    assert f"promptfoo/{name}.yaml:" in done.out and "left out: the provider echo" in done.out
    assert shell("validate", f"promptfoo/{name}.json").code == 0
    assert shell("run", f"promptfoo/{name}.json", *RUN).code == 0


def test_several_prompts_become_prompt_files_that_are_run_together(shell, doors):
    done = shell("import", "promptfoo/chats.yaml", "--json")
    said = json.loads(done.out)
    assert len(said["prompts"]) == 4
    assert load(Path("promptfoo/chats.json")).data["prompt_file"] == Path(said["prompts"][0]).name
    assert all(f"-p {prompt}" in said["next"] for prompt in said["prompts"])
    prompts = [word for prompt in said["prompts"] for word in ("-p", prompt)]
    assert shell("run", "promptfoo/chats.json", *prompts, *RUN).code == 0
    assert len(runs()[0].prompts) == 4


def test_a_folder_with_a_configuration_is_taken_by_its_name(shell, project):
    (project / "letters").mkdir()
    put("letters/promptfooconfig.yaml", "prompts: 'Say {{x}}'\nproviders: openai:gpt-4o\ntests:\n- vars: {x: a}\n")
    done = shell("import", "letters")
    assert done.code == 0, done.err
    assert "next: `tui-evals run letters/experiment.yaml`" in done.out
    assert "--out DIR" not in shell("import", "letters", "--into", "b.json").err and Path("b.json").exists()


def test_no_prompt_file_is_written_over_another_or_without_its_dataset(shell, doors):
    before = {**files(doors), doors / "promptfoo" / "chats-2.prompty": b"mine"}
    put("promptfoo/chats-2.prompty", "mine")
    done = shell("import", "promptfoo/chats.yaml")
    assert done.code == 2 and "promptfoo/chats-2.prompty is there already" in done.err
    assert files(doors) == before


def test_the_prompt_files_go_again_when_the_dataset_cannot_be_written(shell, doors, monkeypatch):
    from tui_evals.files import CannotSave, write_atomically
    from tui_evals.imports import keeping

    def full(file, content):
        if file.suffix == ".json":
            raise CannotSave("the disk is full")
        write_atomically(file, content)

    monkeypatch.setattr(keeping, "write_atomically", full)
    before = files(doors)
    done = shell("import", "promptfoo/chats.yaml")
    assert (done.code, done.err, files(doors)) == (2, "the disk is full\n", before)


@pytest.mark.parametrize("value", [CHAT, {"messages": CHAT, "model": "m"}, [{"messages": CHAT}]])
def test_messages_become_a_dataset(shell, project, value):
    put("chat.json", value)
    done = shell("import", "chat.json")
    assert done.code == 0, done.err
    assert "carried: 1 conversation" in done.out and "dataset: chat-dataset.json (written)" in done.out
    (item,) = load(Path("chat-dataset.json")).data["items"]
    assert (item["prompt"], item["expected_response"]) == ("The capital of Austria?", "Vienna")
    assert shell("run", "chat-dataset.json", *RUN).code == 0


def test_lines_of_messages_are_added_to_a_dataset_that_is_there(shell, project):
    put("tune.jsonl", "".join(json.dumps({"messages": CHAT}) + "\n" for _ in range(2)))
    put("mine.json", '{"schemaVersion": "1.11.0",   "items": [{"prompt": "first"}]}')
    done = shell("import", "tune.jsonl", "--into", "mine.json")
    assert done.code == 0 and "dataset: mine.json (added at its end)" in done.out, done.err
    assert [item["prompt"] for item in load(Path("mine.json")).data["items"]] == ["first", *[CHAT[1]["content"]] * 2]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"items": [{"prompt": "q"}]}'),
        ("a.json", '[{"prompt": "q", "messages": []}]'),
        ("tests.json", '{"items": [{"prompt": "q"}]}'),
        ("a.csv", "input,reference_output\nq,a\n"),
        ("a.jsonl", '{"input": "q", "ideal": "a"}\n'),
    ],
)
def test_a_dataset_needs_no_import(shell, project, name, text):
    put(name, text)
    done = shell("import", name)
    assert done.code == 0, done.err
    assert done.out == (
        f"{name} is a dataset already, with 1 item, and needs no import\nnext: `tui-evals run {name} --target NAME`\n"
    )
    assert "needs no import" in shell("import", name, "--out", "x").err
    assert [file.name for file in project.iterdir()] == [name]


# -- which kind


def test_an_unknown_kind_is_answered_with_all_of_them(shell, doors):
    before = files(doors)
    done = shell("import", "foundry/travel.json", "--from", "promptfo")
    assert done.code == 2 and "did you mean 'promptfoo'" in done.err
    assert all(kind in done.err for kind in built_in())
    assert files(doors) == before and stored() == []


def test_a_kind_that_is_said_wins_over_the_guess(shell, doors):
    done = shell("import", "foundry/travel.json", "--from", "messages")
    assert done.code == 2 and done.err.startswith("foundry/travel.json:1: has no messages")


def test_what_is_of_no_kind_is_refused_with_all_of_them(shell, project):
    put("notes.txt", "hello")
    done = shell("import", "notes.txt")
    assert done.code == 2 and all(f"\n  {kind}" in done.err for kind in built_in())


@pytest.mark.parametrize("more", [("--out", "x"), ("--name", "x")])
def test_into_names_the_file_alone(shell, doors, more):
    done = shell("import", "foundry/travel.json", "--into", "a.json", *more)
    assert done.code == 2 and "leave --out and --name out" in done.err and not Path("a.json").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--into", "a.txt"), "ends in .json"),
        (("--name", "../up"), "cannot be the name of a file"),
        (("--into", "foundry/travel.json"), "is the imported file"),
        (("--name", "early"), "holds something else"),
    ],
)
def test_a_file_is_never_written_elsewhere_or_over_another(shell, doors, options, said):
    before = files(doors)
    done = shell("import", "foundry/travel.json", *options)
    assert done.code == 2 and said in done.err
    assert files(doors) == before


# -- malformed: said with its place, and nothing half-written


def refused(shell, name, *options):
    before = files(Path())
    done = shell("import", name, *options)
    assert done.code == 2, done.out
    assert done.out == "" and "Traceback" not in done.err
    assert files(Path()) == before and stored() == []
    return done.err


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_results(shell, project, name):
    put("r.json", MALFORMED[name][0].replace("%s", DONE))
    assert refused(shell, "r.json", "--from", "results").startswith("r.json")


@pytest.mark.parametrize("name", HEADERS)
def test_malformed_logs(shell, project, name):
    put("log.json", HEADERS[name][0])
    assert refused(shell, "log.json", "--from", "inspect").startswith("log.json")


@pytest.mark.parametrize("text", BROKEN)
def test_malformed_configurations(shell, project, text):
    put("c.yaml", text)
    assert BROKEN[text] in refused(shell, "c.yaml")


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_malformed_files_of_a_configuration(shell, project, name):
    text, said = BROKEN_FILES[name]
    put(name, text)
    put("c.yaml", f"prompts: a b\ntests: file://{name}\n")
    assert said in refused(shell, "c.yaml")


def evaluations(**fields):
    case = {"id": "e", "promptId": "p", "appendedMessages": [], "variables": {}, **fields}
    return {"evaluations": [case]}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (evaluations(weight=2), ":8: evaluations[0].weight: must be at most 1"),
        (evaluations(threshold="x"), ":8: evaluations[0].threshold: "),
        (evaluations(variables={"n": 3}), ":8: evaluations[0].variables.n: must be text"),
        (evaluations(variables=[]), ":7: evaluations[0].variables: "),
        (evaluations(prompt_id="q"), ":3: evaluations[0]: prompt_id appears twice"),
        (evaluations(assertions=[{"type": "NO"}]), ":10: evaluations[0].assertions[0].type: 'NO' is no type"),
        (evaluations(assertions=[{"type": "LATENCY"}]), ":9: evaluations[0].assertions[0]: "),
        (evaluations(assertions=7), ":8: evaluations[0].assertions: "),
        (evaluations(appendedMessages=[{"role": "robot", "content": []}]), ".appendedMessages[0].role: must be"),
        (evaluations() | {"prompt": 3}, ":10: prompt: must be an object"),
        (evaluations() | {"assertions": [{"evaluationId": "f"}]}, ": no evaluation has the id 'f'"),
        ({"evaluations": []}, ": must be a list of evaluations"),
        ('{"evaluations": [\n{"promptId": }]}', ":2: not valid JSON"),
    ],
)
def test_malformed_evaluations_of_prompt_foundry(shell, project, value, said):
    put("f.json", value)
    error = refused(shell, "f.json", "--from", "foundry")
    assert error.startswith("f.json:") and said in error


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "f.json:1: holds no message"),
        ({"input": "q"}, "f.json:1: has no messages"),
        ({"messages": {}}, "f.json:2: messages: must be a list of messages"),
        ([CHAT[1], {"content": "x"}], "[1]: role is missing"),
        ([{"role": "bot", "content": "x"}], "f.json:3: [0].role: must be 'system'"),
        ([{"role": "user", "content": 3}], "f.json:4: [0].content: must be text"),
        ([{"role": "user"}], "f.json:2: [0]: content is missing"),
        ([CHAT[1], "a"], "[1]: must be a message with a role"),
        ([CHAT[2]], "f.json:1: holds an answer and nothing that was asked"),
        ({"messages": CHAT, "tools": ["find"]}, ": tools[0]: must be an object"),
        ('[\n{"role": "user",}\n]', "f.json:2: not valid JSON"),
        ("[" * 100_000, "f.json"),
    ],
)
def test_malformed_messages(shell, project, value, said):
    put("f.json", value)
    assert said in refused(shell, "f.json", "--from", "messages")
    put("d.json", '{"items": [{"prompt": "mine"}]}')
    done = shell("item", "from-conversation", "f.json", "--into", "d.json")
    assert done.code == 2 and said in done.err
    assert Path("d.json").read_text() == '{"items": [{"prompt": "mine"}]}'


@pytest.mark.parametrize("kind", built_in())
@pytest.mark.parametrize("raw", [b"", b"\xff\xfe\x00", b"{", b"[" * 100_000, b"null", b'"\xed\xa0\x80"'])
def test_bytes_that_are_nothing_are_refused_by_every_door_with_a_sentence(shell, project, kind, raw):
    Path("x.json").write_bytes(raw)
    assert "x.json" in refused(shell, "x.json", "--from", kind)
    assert "x.json" in refused(shell, "x.json")


def test_hostile_names_reach_no_terminal(shell, project):
    bad = "\x1b]52;c;aGk=\x07\u202e"
    put("f.json", {"evaluations": [{"promptId": bad, "appendedMessages": [], "variables": {}, bad: 1}]})
    put("c.yaml", f"prompts: 'a {{{{x}}}}'\nproviders: {json.dumps(bad)}\ntests:\n- vars: {{x: 1}}\n")
    for name in ("f.json", "c.yaml"):
        done = shell("import", name)
        assert done.code == 0, done.err
        assert not {"\x1b", "\x07", "\u202e"} & {*done.out, *done.err}


# -- conversations


def test_a_conversation_is_added_with_its_checks_waiting(shell, project):
    put("chat.json", {"messages": CHAT})
    put("d.json", '{\n    "schemaVersion": "1.11.0",\n    "items": [{"prompt": "q"}]\n}\n')
    done = shell("item", "from-conversation", "chat.json", "--into", "d.json")
    assert done.code == 0, done.err
    assert "added 1 item to d.json" in done.out and "--with-checks uses them" in done.err
    text = Path("d.json").read_text()
    assert text.startswith('{\n    "schemaVersion": "1.11.0",\n    "items": [')
    item = json.loads(text)["items"][1]
    assert item["extensions"]["suggested"] == {"ExactMatch": {"mode": "equals", "case_sensitive": True}}
    assert "evaluators" not in item and shell("validate", "d.json").code == 0


def test_checks_judge_where_that_is_wished_for(shell, project):
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    put("chat.json", [*CHAT, CHAT[1], {"role": "assistant", "tool_calls": [call]}])
    done = shell("item", "from-conversation", "chat.json", "--into", "new.json", "--with-checks")
    assert done.code == 0, done.err
    (item,) = json.loads(Path("new.json").read_text())["items"]
    assert item["turns"][-1]["evaluators"] == {"ToolCalled": {"tool_name": "find"}}
    assert "extensions" not in json.dumps(item) and shell("validate", "new.json").code == 0


def test_a_dataset_that_cannot_hold_the_item_stays_as_it_is(shell, project):
    put("chat.json", CHAT)
    put("d.csv", "input,reference_output\nq,a\n")
    done = shell("item", "from-conversation", "chat.json", "--into", "d.csv")
    assert done.code == 2 and "d.csv" in done.err
    assert Path("d.csv").read_text() == "input,reference_output\nq,a\n"


def test_items_are_added_to_datasets_only(shell, project):
    put("chat.json", CHAT)
    put("other.json", [{"messages": CHAT}])
    before = files(project)
    for into in ("chat.json", "other.json"):
        done = shell("item", "from-conversation", "chat.json", "--into", into)
        assert done.code == 2 and "is no dataset that items can be added to" in done.err
    assert files(project) == before


@pytest.mark.parametrize(("more", "lost"), [({}, False), ({"model": "m", "temperature": 0}, True)])
def test_what_stands_beside_the_messages_is_said_to_be_left_out(shell, project, more, lost):
    put("chat.json", {"messages": CHAT, **more})
    done = shell("import", "chat.json")
    assert ("left out: fields other than messages" in done.out) == lost


# -- and back


@pytest.mark.parametrize("kind", ["foundry", "promptfoo"])
def test_an_imported_dataset_is_written_in_its_own_format_again(shell, doors, kind):
    source = "foundry/travel.json" if kind == "foundry" else "promptfoo/countries.yaml"
    shell("import", source, "--into", "d.json")
    name = "back.json" if kind == "foundry" else "back.yaml"
    done = shell("convert", "d.json", "--to", kind, "-o", name)
    assert done.code == 0, done.err
    assert "note: carried: " in done.err
    assert shell("import", name, "--into", "again.json").code == 0
    ours, again = (load(Path(file)).data["items"] for file in ("d.json", "again.json"))
    assert [item.get("evaluators") for item in ours] == [item.get("evaluators") for item in again]
    assert "already there" in shell("convert", "d.json", "--to", kind, "-o", name).err


@pytest.mark.parametrize("kind", ["foundry", "promptfoo"])
def test_the_prompt_of_a_prompt_file_is_written_too_and_losses_are_said(shell, project, kind):
    put("say.prompty", "system:\nBe brief.\nuser:\nSay {{x}}\n")
    evaluators = {"Equals": {"value": "a"}, "Coherence": {}}
    put("d.json", {"prompt_file": "say.prompty", "items": [{"variables": {"x": "a"}, "evaluators": evaluators}]})
    done = shell("convert", "d.json", "--to", kind)
    assert done.code == 0, done.err
    assert "Be brief." in done.out and "Say {{x}}" in done.out
    assert "note: prompt_file: changed: the prompt file say.prompty" in done.err
    assert "left out: " in done.err and "Coherence" in done.err
