"""Annotations as GitHub's runner reads them: one command a line, at the line of the item in the dataset file."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports.stores import Ran, bad, errored, every, good, store, unjudged
from tui_evals.reports.junit import _command, commands
from tui_evals.store.reader import Reader


def parsed(line):
    """The level, properties and message of a command, as the runner takes it apart."""
    assert line.startswith("::") and "\n" not in line and "\r" not in line
    head, message = line[2:].split("::", 1)
    level, _, rest = head.partition(" ")
    properties = dict(part.split("=", 1) for part in rest.split(","))
    return level, {name: unescaped(value) for name, value in properties.items()}, unescaped(message)


def unescaped(text):
    for code, character in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, character)
    return text


def said_of(path, folder, *runs):
    with Reader(path) as reader:
        return [parsed(line) for line in commands(reader, [reader.run(n) for n in runs or (1,)], folder, folder)]


def item(name, **more):
    return {"testId": name, "prompt": f"ask {name}", "expected_response": "yes", **more}


def by_name(answers):
    return lambda row: answers[row.name]


def write(folder, items, name="evals.json", **dump):
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"schemaVersion": "1.11.0", "items": items}, indent=1, **dump))
    return file


def line_of(file, text):
    """The line of the item that holds a text: that of the brace before it."""
    lines = file.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if text in line)
    return str(max(number for number in range(at + 1) if lines[number].strip().startswith("{")) + 1)


def test_bad_answers_are_errors_and_warnings_with_the_reasons(tmp_path):
    answers = {"a": good(), "b": bad("nope", reason="too short"), "c": errored(), "d": unjudged()}
    items = [item(name) for name in answers]
    file = write(tmp_path, items)
    assert said_of(store(tmp_path, Ran(items, by_name(answers))), tmp_path) == [
        (
            "error",
            {"file": "evals.json", "line": line_of(file, '"c"'), "title": "c: without an answer"},
            "timeout: nobody answered",
        ),
        (
            "error",
            {"file": "evals.json", "line": line_of(file, '"b"'), "title": "b: failed"},
            "Match 0 (at least 0.5): too short\nanswer: nope",
        ),
        (
            "warning",
            {"file": "evals.json", "line": line_of(file, '"d"'), "title": "d: could not be judged"},
            "Judge could not judge: the judge is silent\nanswer: perhaps",
        ),
    ]


def test_what_github_would_not_show_is_counted(tmp_path):
    answers = [bad(), bad(), unjudged()]
    path = store(tmp_path, Ran([item(f"i{n}") for n in range(36)], lambda row: answers[row.item % 3]))
    found = said_of(path, tmp_path)
    assert [level for level, *_ in found] == ["error"] * 10 + ["warning"] * 10 + ["notice"]
    assert found[-1][2].startswith("14 more errors and 2 more warnings; `tui-evals show ")


def test_of_two_runs_only_what_is_broken_is_said(tmp_path):
    items = [item(name) for name in "abc"]
    before, after = {"a": good(), "b": bad(), "c": good()}, {"a": bad(), "b": bad(), "c": errored()}
    path = store(tmp_path, Ran(items, by_name(before)), Ran(items, by_name(after)))
    assert [properties["title"] for _, properties, _ in said_of(path, tmp_path, 1, 2)] == ["a: broken"]
    assert said_of(path, tmp_path, 2, 1) == []


def places(path, folder):
    return [properties.get("line") for _, properties, _ in said_of(path, folder)]


def test_an_item_is_found_where_it_is_now(tmp_path):
    named, unnamed = [item("a"), item("b")], {"prompt": "ask", "expected_response": "yes"}
    path = store(tmp_path, Ran([*named, unnamed], every(bad())))
    file = write(tmp_path, [item("new"), unnamed, {**named[1], "prompt": "edited"}, named[0]])
    assert places(path, tmp_path) == [line_of(file, '"a"'), line_of(file, '"b"'), line_of(file, '"ask"')]


def test_nothing_is_pointed_at_that_may_be_something_else(tmp_path):
    twice, edited = {"prompt": "twice", "expected_response": "yes"}, {"prompt": "before", "expected_response": "yes"}
    path = store(tmp_path, Ran([item("gone"), twice, twice, edited, item("same"), item("same")], every(bad())))
    write(tmp_path, [twice, {**edited, "prompt": "after"}, item("other"), twice, item("same", prompt="?"), item("x")])
    assert places(path, tmp_path) == [None] * 6


def test_turns_are_pointed_at_as_long_as_the_conversation_is_as_it_was(tmp_path):
    turns = [{"prompt": "first", "expected_response": "x"}, {"prompt": "second", "expected_response": "y"}]
    talk = {"testId": "talk", "turns": turns}
    path = store(tmp_path, Ran([talk], every(bad())))
    file = write(tmp_path, [talk])
    assert places(path, tmp_path) == [line_of(file, '"first"'), line_of(file, '"second"')]
    file = write(tmp_path, [{**talk, "turns": turns[::-1]}])
    assert places(path, tmp_path) == [line_of(file, '"talk"')] * 2


@pytest.mark.parametrize("content", [None, "not JSON", "[1, 2]", '{"items": 5}', '{"items": [3, null]}', "{}"])
def test_a_file_that_is_gone_or_became_something_else_is_not_pointed_at(tmp_path, content):
    path = store(tmp_path, Ran([item("a")], every(bad())))
    if content is not None:
        (tmp_path / "evals.json").write_text(content)
    assert places(path, tmp_path) == [None]


def test_a_packed_file_has_no_lines(tmp_path):
    path = store(tmp_path, Ran([item("a")], every(bad()), source="evals.json.gz"))
    (tmp_path / "evals.json.gz").write_bytes(gzip.compress(json.dumps({"items": [item("a")]}).encode()))
    assert places(path, tmp_path) == [None]


def test_the_file_is_named_as_the_repository_knows_it(tmp_path):
    project = tmp_path / "tools" / "project"
    project.mkdir(parents=True)
    path = store(project, Ran([item("a")], every(bad())))
    write(project, [item("a")])
    with Reader(path) as reader:
        inside, outside = (
            next(commands(reader, [reader.run(1)], project, workspace)) for workspace in (tmp_path, tmp_path / "other")
        )
    assert parsed(inside)[1]["file"] == "tools/project/evals.json"
    assert parsed(outside)[1]["file"] == str(project.resolve() / "evals.json")


HOSTILE = [
    "\n::error::injected",
    "\r\n::set-output name=x::y",
    "a,line=1,file=/etc/passwd::b",
    "%0A::add-mask::x",
    "::stop-commands::t",
    "\u2028::error::x\x85::error::x\x0b",
    "\x1b[2J##[error]x",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_can_end_the_command_or_begin_another(tmp_path, text):
    items = [{"testId": text, "prompt": text, "expected_response": text}]
    path = store(tmp_path, Ran(items, every(bad(text, text, text)), name=text, targets=(text, "b")))
    found = said_of(path, tmp_path)
    assert [(level, set(properties)) for level, properties, _ in found] == [("error", {"title"})] * 2


@given(st.sampled_from(["error", "notice"]), st.text() | st.text(":,%=\r\n 0ADC2"), st.text() | st.text(":,%=\r\n0AD"))
def test_any_text_stays_in_its_place(level, title, message):
    found = _command(level, {"title": title, "line": "1"}, message)
    assert len(found.splitlines()) == 1 and "\x1b" not in found
    assert parsed(found)[0] == level and set(parsed(found)[1]) == {"title", "line"}
    if title.isascii() and title.isprintable():
        assert parsed(found)[1]["title"] == title
    if message.isascii() and message.replace("\n", "").isprintable():
        assert parsed(found)[2] == message
