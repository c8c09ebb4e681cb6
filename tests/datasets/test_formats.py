"""The dialects: what each becomes as items, and that writing them back loses nothing without saying so."""

import gzip
import json
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets import rows
from tui_evals.datasets.discover import dataset_files
from tui_evals.datasets.document import load, shape_of, written_path
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.portable import PUBLIC
from tui_evals.datasets.save import save
from tui_evals.datasets.validate import runevals_refusal, validate
from tui_evals.files import CannotSave
from tui_evals.imports import dataset
from tui_evals.text import strictjson


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("Question,Expected Answer,Answer", {"prompt": "Question", "expected_response": "Answer"}),
        ("id,user-message,text,Ground Truth", {"prompt": "text", "expected_response": "Ground Truth"}),
        ("prompt,target,model_output,passage", None),
        ("a,b", {}),
        ('"torn', {}),
    ],
)
def test_the_columns_of_another_table_are_guessed_by_their_names(header, found):
    if found is None:
        found = dict(zip(("prompt", "expected_response", "response", "context"), header.split(","), strict=True))
    assert rows.likely_columns(rows.header_of(header + "\n")) == found


def test_a_table_reads_cells_as_text_and_blanks_as_absent(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text(
        "\ufeffinput, reference_output,candidate_output,context,locale,testId\n"
        '007,NA,"two\nlines",,de,T-1\n'
        "\n"
        "True,,None, ,,\n",
        encoding="utf-8",
    )
    document = load(file)
    assert document.data["items"] == [
        {
            "prompt": "007",
            "expected_response": "NA",
            "response": "two\nlines",
            "variables": {"locale": "de"},
            "testId": "T-1",
        },
        {"prompt": "True", "response": "None"},
    ]
    assert [document.line(("items", number)) for number in (0, 1)] == [2, 5]


def test_the_columns_of_a_table_can_be_named(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("question,answer\nq,a\n")
    document = load(file, {"prompt": "question", "expected_response": "answer"})
    assert document.data["items"] == [{"prompt": "q", "expected_response": "a"}]
    with pytest.raises(DatasetError, match=r"no column 'answers' .did you mean 'answer'"):
        load(file, {"prompt": "question", "expected_response": "answers"})


def test_samples_keep_chat_ideals_and_other_keys(tmp_path):
    chat = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+1"}]
    lines = [
        {"input": "2+2=", "ideal": "4"},
        {"input": chat, "ideal": ["2", "two"], "level": 1},
        {"input": chat[:1], "completion": "ok"},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    for file, content in (
        (tmp_path / "s.jsonl", text.encode()),
        (tmp_path / "s.jsonl.gz", gzip.compress(text.encode())),
    ):
        file.write_bytes(content)
        document = load(file)
        assert document.data["items"] == [
            {"prompt": "2+2=", "expected_response": "4"},
            {"messages": chat[:1], "prompt": "1+1", "ideal": ["2", "two"], "variables": {"level": 1}},
            {"messages": chat[:1], "response": "ok"},
        ]
        report = validate(document, PUBLIC)
        assert report.valid and report.dataset is not None
        assert [item.reference for item in report.dataset.items] == ["4", "2", None]


plain = st.text(min_size=1, alphabet=st.characters(codec="utf-8"))
message = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": plain})
sample = st.fixed_dictionaries(
    {"input": plain | st.lists(message, min_size=1, max_size=3)},
    optional={"ideal": plain | st.lists(plain, max_size=3), "completion": plain, "criteria": plain},
)


@given(st.lists(sample, min_size=1, max_size=4))
def test_samples_read_and_written_are_the_same_samples(given_samples):
    text = "".join(strictjson.dumps(one) + "\n" for one in given_samples)
    items, _ = rows.read_jsonl(text)
    written, lost = rows.write_jsonl(items)
    assert [json.loads(line) for line in written.split("\n")[:-1]] == given_samples
    assert not lost


cells = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\x00")).filter(str.strip)
row = st.fixed_dictionaries(
    {"prompt": cells}, optional={"expected_response": cells, "response": cells, "context": cells, "category": cells}
)


@given(st.lists(row, min_size=1, max_size=4))
def test_a_table_written_raw_reads_back(items):
    text, lost = rows.write_csv(items, raw=True)
    assert not lost
    assert rows.read_csv(text)[0] == items


def test_a_table_guards_formulas_and_says_so():
    text, lost = rows.write_csv([{"prompt": "=1+1", "expected_response": "-5", "context": "＝cmd"}])
    assert text.splitlines()[1] == "'=1+1,-5,'＝cmd"
    assert lost == ["2 cells that a spreadsheet would run as a formula now start with ' (--raw-csv keeps them)"]


def test_what_a_table_or_samples_cannot_hold_is_said():
    item = {"name": "flow", "evaluators": {}, "turns": [{"prompt": "a", "expected_response": "b"}, {"prompt": "c"}]}
    text, lost = rows.write_csv([item])
    assert [line.split(",")[0] for line in text.splitlines()] == ["input", "a", "c"]
    assert any("evaluators" in line for line in lost) and any("turns" in line for line in lost)
    text, lost = rows.write_jsonl([item])
    assert [json.loads(line)["input"] for line in text.splitlines()][1] == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    assert any("evaluators" in line for line in lost)
    both = {"prompt": "a", "expected_response": "b", "ideal": ["c"]}
    assert rows.write_jsonl([both])[1] == ["items[0]: a sample has no place for expected_response next to ideal"]
    shadowed = {"prompt": "a", "variables": {"input": "z", "ideal": "z", "completion": 5, "city": "Rome"}}
    text, lost = rows.write_jsonl([shadowed])
    assert json.loads(text) == {"input": "a", "completion": 5, "city": "Rome"}
    assert lost == ["items[0]: a sample has no place for the variables ideal, input"]


def test_the_portable_form_is_portable_and_keeps_the_rest_under_extensions(tmp_path):
    data = {
        "schemaVersion": "1.2.0",
        "default_evaluators": {"Relevance": {}, "Equals": {"value": "x"}},
        "items": [
            {"prompt": "a", "testId": "T", "ideal": ["x", "y"], "evaluators": {"Relevance": {"weight": 0.5}}},
            {"name": "c", "category": "k", "turns": [{"prompt": "b", "messages": []}]},
            {"messages": [{"role": "user", "content": "hello"}]},
            {"turns": [{"prompt": f"{number}"} for number in range(22)], "extensions": {"tui_evals": {"x": 1}}},
        ],
    }
    document, lost = dataset.portable(data, runevals_refusal)
    file = tmp_path / "d.json"
    file.write_text(json.dumps(document))
    assert validate(load(file), PUBLIC).portable
    first = document["items"][0]
    assert first["expected_response"] == "x"
    assert first["extensions"]["tui_evals"] == {
        "testId": "T",
        "ideal": ["x", "y"],
        "evaluators": {"Relevance": {"weight": 0.5}},
        "added": ["expected_response"],
    }
    assert dataset.with_moved_back(document) == data and dataset.with_moved_back(data) is None
    assert document["metadata"]["extensions"]["tui_evals"] == {"default_evaluators": {"Equals": {"value": "x"}}}
    assert document["items"][2]["prompt"] == "hello"
    assert any("Equals" in line for line in lost)
    long = document["items"][3]
    assert len(long["turns"]) == 20
    assert long["extensions"]["tui_evals"] == {"x": 1, "turns": [{"prompt": "20"}, {"prompt": "21"}]}
    assert "items[3]: the turns from number 21 on moved under extensions.tui_evals" in lost


@pytest.mark.parametrize("name", ["folder.json", "fifo.json", "absent.json", "nul\x00.json"])
def test_what_is_no_file_is_refused_with_a_sentence(tmp_path, name):
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "fifo.json")
    with pytest.raises(DatasetError, match=r"not a file|no such file|cannot be read"):
        load(tmp_path / name)


def test_parallel_lists_are_read_and_their_lines_found(tmp_path):
    file = tmp_path / "p.json"
    file.write_text('{\n"prompts": ["a",\n""],\n"expected_responses": ["x", null]}')
    report = validate(load(file), PUBLIC)
    assert [str(problem) for problem in report.problems] == ["items[1].prompt: must not be empty"]
    assert report.problems[0].line == 3


def test_a_table_may_name_its_columns_as_an_item_does():
    items, _ = rows.read_csv("prompt,expected_response,lang\nHi?,Hello,en\n")
    assert items == [{"prompt": "Hi?", "expected_response": "Hello", "variables": {"lang": "en"}}]
    items, _ = rows.read_csv("input,prompt\nHi?,kept as a variable\n")
    assert items == [{"prompt": "Hi?", "variables": {"prompt": "kept as a variable"}}]


YAML = """\
# a comment
default_evaluators:
  ExactMatch: {}
items:
  - prompt: How long?
    expected_response: 30 days
  - prompt: Where?
    expected: here
"""


def test_yaml_is_read_as_the_json_it_says_with_the_lines_of_its_values(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text(YAML)
    document = load(file)
    assert document.data["items"][0] == {"prompt": "How long?", "expected_response": "30 days"}
    (problem,) = validate(document, PUBLIC).problems
    assert problem.line == 7 and problem.message == "unknown field 'expected' (did you mean 'expected_response'?)"


@pytest.mark.parametrize("items", [1, 3])
def test_a_value_of_the_document_is_found_in_the_file_whatever_its_shape(items):
    rows = [{"prompt": f"p{number}", "expected_response": f"e{number}"} for number in range(items)]
    parallel = {f"{key}s": [row[key] for row in rows] for key in ("prompt", "expected_response")}
    for shape, raw in (("document", {"items": rows}), ("array", rows), ("parallel", parallel)):
        assert shape_of(raw) == shape
        for number, row in enumerate(rows):
            for key, text in row.items():
                found = raw
                for step in written_path(("items", number, key), shape):
                    found = found[step]
                assert found == text
        assert written_path(("description",), shape) == ("description",)


def test_a_broken_json_says_where(tmp_path):
    file, text = tmp_path / "t.json", json.dumps({"items": [{"prompt": "@"}, {"prompt": "@"}]}, indent=1)
    for at in range(len(text)):
        file.write_text(f"{text[:at]}@{text[at:]}")
        if text[:at].count('"') % 2 == 0:  # not within a text
            line, column = text[:at].count("\n") + 1, at - text[:at].rfind("\n")
            with pytest.raises(DatasetError, match=rf"t\.json:{line}: not valid JSON: .* \(column {column}\)$"):
                load(file)
    file.write_text('{"items": [\nNaN]}')
    with pytest.raises(DatasetError, match=r"t\.json:2: NaN is not a JSON number; use null or leave the field out$"):
        load(file)


def test_a_broken_yaml_says_where(tmp_path):
    file = tmp_path / "t.yml"
    file.write_text("items:\n  - prompt: [\n")
    with pytest.raises(DatasetError, match=r"t\.yml:\d+: .*column \d+"):
        load(file)


def test_yaml_is_read_and_not_written(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text(YAML)
    document = load(file)
    with pytest.raises(CannotSave, match=r"only read.*convert .*--to m365 -o t\.json"):
        save(document, {**document.data, "items": []})
    assert file.read_text() == YAML


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "question,answer,city\nWhere?,here,Rome\n"),
        ("t.jsonl", '{"question": "Where?", "answer": "here", "city": "Rome"}\n'),
        ("t.json", '[{"question": "Where?", "answer": "here", "city": "Rome"}]'),
        ("t.yaml", "- {question: Where?, answer: here, city: Rome}\n"),
    ],
)
def test_columns_are_mapped_in_every_kind_of_file(tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    mapped = {"prompt": "question", "expected_response": "answer"}
    assert load(file, mapped).data["items"] == [
        {"prompt": "Where?", "expected_response": "here", "variables": {"city": "Rome"}}
    ]
    with pytest.raises(DatasetError, match=r"no column 'questoin' \(did you mean 'question'\?\)"):
        load(file, {"prompt": "questoin"})


def test_parquet_is_read_with_the_types_of_its_values(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    file = tmp_path / "t.parquet"
    table = pyarrow.Table.from_pylist([{"question": "How many?", "answer": 7, "count": 3}, {"question": "Who?"}])
    parquet.write_table(table, file)
    assert load(file, {"prompt": "question", "expected_response": "answer"}).data["items"] == [
        {"prompt": "How many?", "expected_response": "7", "variables": {"count": 3}},
        {"prompt": "Who?"},
    ]
    file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DatasetError, match="cannot be read as Parquet"):
        load(file)


def test_parquet_says_what_it_needs_where_it_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    file = tmp_path / "t.parquet"
    file.write_bytes(b"PAR1")
    with pytest.raises(DatasetError, match=r"pip install 'tui-evals\[parquet\]'"):
        load(file)


def test_other_yaml_files_of_a_project_are_no_datasets(tmp_path):
    (tmp_path / "compose.yaml").write_text("services:\n  web: {image: nginx}\n")
    (tmp_path / "ci.yml").write_text("steps:\n  - prompt: x\n")
    (tmp_path / "asked.yaml").write_text("# mine\n- prompt: Who?\n")
    (tmp_path / "whole.yaml").write_text(YAML)
    assert sorted(file.name for file in dataset_files(tmp_path)) == ["asked.yaml", "whole.yaml"]
