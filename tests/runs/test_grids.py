"""Prompts x targets x swept parameters x repeats as columns of one run, over a real server; items without a prompt."""

import csv
import io
import json

import pytest

from tests.runs.conftest import FREE
from tui_evals.present.columns import short_names
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.sweep import split_word, swept


@pytest.fixture
def prompts(project):
    for name, says in (("plain", "Say {{ word }}."), ("polite", "Please say {{ word }}.")):
        (project.folder / f"{name}.prompty").write_text(f"---\nname: {name}\n---\nuser:\n{says}\n")
    return ["-p", "plain.prompty", "-p", "polite.prompty"]


def write(project, items=None, **root):
    words = [{"testId": f"w{n}", "variables": {"word": f"word{n}"}, "expected_response": "word"} for n in range(2)]
    data = {"schemaVersion": "1.11.0", "default_evaluators": {"ExactMatch": {}}, "items": items or words, **root}
    (project.folder / "bare.json").write_text(json.dumps(data))


def table(project):
    return list(csv.DictReader(io.StringIO(project.do("export", "last", "--to", "csv", "-o", "-"))))


def found(project, text):
    with Reader(project.database) as reader:
        return len(reader.ids(reader.find_run("last").id, parse_filter(text)))


def test_a_grid_is_one_run_whose_columns_are_named_filtered_compared_and_exported(project, server, prompts):
    project.configure(FREE + "params = { top_p = 0.5 }", concurrency=2)
    write(project)
    command = ["run", "bare.json", "-t", "main", *prompts, "-P", "temperature=0,0.7", "-n", "2"]
    project.do(*command)
    got = table(project)
    assert len(got) == 2 * 2 * 2 * 2
    assert {row["target"] for row in got} == {"main@temperature=0", "main@temperature=0.7"}
    assert {row["prompt_under_test"] for row in got} == {"plain", "polite"}
    assert server.counts()["peak"] <= 2, "the columns of one target share its room"
    expected = {
        "param:temperature=0.7": 8,
        "param:temperature>0.5": 8,
        "param:temperature": 16,
        "!param:temperature=0 prompt:polite": 4,
        "param:top_p=0.5 target:main": 16,
        "param:seed": 0,
    }
    assert {text: found(project, text) for text in expected} == expected
    for wrong in ("param:=", "param:temperature>warm"):
        with pytest.raises(FilterError, match="param:temperature"):
            parse_filter(wrong)
    grid = project.do("show", "last", "--grid")
    assert "temperature=0.7" in grid and "polite" in grid
    said = project.do("compare", "last", "--columns", "main@temperature=0 · plain,main@temperature=0.7 · plain")
    assert "95 % interval" in said and "equal" in said
    asked = server.counts()["asked"]
    project.do(*command)  # what differs is the temperature, and everything is known
    assert server.counts()["asked"] == asked
    project.do("run", "bare.json", "-t", "main@temperature=0.7", "-p", "plain.prompty", "-n", "2")
    assert server.counts()["asked"] == asked


def test_a_swept_run_goes_on_where_it_stopped(project, server, prompts):
    project.configure(FREE)
    write(project)
    server.behave(always="401")
    project.do("run", "bare.json", "-t", "main", *prompts, "-P", "temperature=0,1", code=None)
    server.reset()
    project.do("resume", "last")
    assert found(project, "param:temperature=1 !status:error") == 4
    again = project.do("rerun", "last", "--only", "param:temperature=1")
    assert "finished" in again
    assert found(project, "param:temperature=1") == 4


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("temperature", "temperature=0,0.7"),
        ("temperature=", "temperature=0,0.7"),
        ("stop=a,,b", "temperature=0,0.7"),
        ("api_key=abc", "no key or password"),
    ],
)
def test_a_sweep_that_cannot_be_read_is_said_before_anything_runs(project, prompts, word, says):
    project.configure(FREE)
    write(project)
    assert says in project.do("run", "bare.json", "-t", "main", *prompts, "-P", word, code=None)


def test_items_without_a_prompt_need_one_to_be_run(project, server, prompts):
    project.configure(FREE)
    write(project)
    assert "variables only" in project.do("validate", "bare.json")
    refused = project.do("run", "bare.json", "-t", "main", code=None)
    assert "w0 and 1 more of the dataset: variables only" in refused and "--prompt FILE" in refused
    project.do("run", "bare.json", "-t", "main", *prompts[:2])
    missing = project.folder / "other.prompty"
    missing.write_text("user:\nSay {{ wrod }}.\n")
    assert "no value for {{ wrod }}" in project.do("run", "bare.json", "-t", "main", "-p", missing, code=None)


def test_a_matrix_asks_every_combination_and_leaves_the_file_as_it_is(project, server):
    project.configure(FREE)
    (project.folder / "p.prompty").write_text("user:\nIn a {{ tone }} tone, {{ length }} words on {{ topic }}.\n")
    items = [
        {"testId": "sea", "variables": {"topic": "the sea"}, "matrix": {"length": [1, 2]}},
        {"variables": {"topic": "snow", "tone": "cold"}, "matrix": {"length": [3]}},
        {"testId": "odd", "variables": {"topic": "odd"}, "matrix": {"length": [{"a": 1}, "two words"]}},
    ]
    write(project, items, matrix={"tone": ["dry", "warm"]}, prompt_file="p.prompty", default_evaluators={})
    before = (project.folder / "bare.json").read_bytes()
    assert "valid · 3 items" in project.do("validate", "bare.json")
    project.do("run", "bare.json", "-t", "main")
    names = [row["item"] for row in table(project)]
    assert names == [
        *(f"sea@tone={tone}@length={length}" for tone in ("dry", "warm") for length in (1, 2)),
        "#2@length=3",
        *(f"odd@tone={tone}@length=#{n}" for tone in ("dry", "warm") for n in (1, 2)),
    ]
    assert found(project, "id:sea@*") == 4
    with Reader(project.database) as reader:
        snapshot = reader.snapshot(reader.find_run("last").snapshot)
    assert "matrix" not in snapshot and len(snapshot["items"]) == 9
    assert snapshot["items"][1]["variables"] == {"topic": "the sea", "tone": "dry", "length": 2}
    assert (project.folder / "bare.json").read_bytes() == before
    project.do("run", "bare.json", "-t", "main", "--items", "2-3")
    assert [row["item"] for row in table(project)] == names[4:]


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({"matrix": {"a": []}}, "must hold at least one entry"),
        ({"matrix": {"a": "b"}}, "must be a list"),
        ({"matrix": {"a": [1]}, "variables": {"a": 2}}, "'a' is in variables too"),
        ({"matrix": {"a": list(range(40)), "b": list(range(40))}}, "makes 1,600 items of one"),
    ],
)
def test_what_is_wrong_with_a_matrix_is_said_where_it_stands(project, item, says):
    write(project, [{"prompt": "hello", **item}])
    assert says in project.do("validate", "bare.json", code=2)


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["p/gpt@temperature=0", "p/gpt@temperature=0.7"], ("temperature=0", "temperature=0.7")),
        (["gpt@seed=1@temperature=0", "gpt@seed=1@temperature=1"], ("temperature=0", "temperature=1")),
        (["gpt", "gpt@temperature=1"], ("gpt", "gpt@temperature=1")),
        (["v/claude@20240620", "v/claude@20250101"], ("claude@20240620", "claude@20250101")),
        (["a@temperature=0", "b@temperature=0"], ("a@temperature=0", "b@temperature=0")),
    ],
)
def test_columns_are_named_by_what_differs(names, short):
    assert short_names(names) == short


def test_a_word_says_which_target_and_what_is_varied_of_it():
    assert split_word("vertex_ai/claude@20240620") == ("vertex_ai/claude@20240620", {})
    assert split_word("vertex_ai/claude@20240620@top_p=1") == ("vertex_ai/claude@20240620", {"top_p": 1})
    assert split_word("gpt@stream=false@effort=low@t=0.50") == ("gpt", {"stream": False, "effort": "low", "t": 0.5})
    assert split_word("command:send --to a@b=c") == ("command:send --to a@b=c", {})
    main = TargetConfig(name="main", model="openai/x", params={"seed": 1, "temperature": 1})
    made = swept([main], {"temperature": (0, 0.7), "seed": (2,)})
    assert [one.name for one in made] == ["main@temperature=0@seed=2", "main@temperature=0.7@seed=2"]
    assert made[1].params == {"seed": 2, "temperature": 0.7}
    settings = Settings(targets={"main": main})
    assert find_target(made[1].name, settings) == made[1] and swept([*made, *made], {}) == made


def test_a_varied_target_says_once_where_it_sends_what_and_a_matrix_is_written_out_for_others(project, prompts):
    project.configure(FREE)
    matrix = {"tone": ["dry", "warm"]}
    write(project, matrix=matrix)
    plan = json.loads(project.do("run", "bare.json", "-t", "main", *prompts, "-P", "seed=1,2", "--plan", "--json"))
    assert list(plan["destinations"]) == ["main"]
    project.do("convert", "bare.json", "--to", "csv", "-o", "out.csv")
    rows = list(csv.DictReader(io.StringIO((project.folder / "out.csv").read_text())))
    assert [row["tone"] for row in rows] == ["dry", "warm"] * 2
    assert "matrix (written out as 4 items)" in project.do("convert", "bare.json", "--to", "promptfoo", "-o", "p.yaml")
