"""Nothing that is edited opens as raw JSON, whatever it holds; JSON is behind the key v alone."""

from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tui.story import Person, at_the_workbench, write
from tui_evals.datasets.fields import parts_of, shape_of
from tui_evals.datasets.model import Dataset, Item, Metadata, Turn
from tui_evals.evaluators.registry import load_registry
from tui_evals.evaluators.trust import Trust
from tui_evals.runs.readiness import options_of
from tui_evals.tui.item.forms import has_form, part_has_form
from tui_evals.tui.item.rows import JUDGING, kind_of, read_only
from tui_evals.tui.judges.options import nested_evaluators
from tui_evals.tui.model_form import dataset_field, entry_field, form_fields, form_values
from tui_evals.tui.widgets.form_fields import written_value

REGISTRY = load_registry(None, Trust())
EVALUATORS = nested_evaluators(REGISTRY)
FIELDS = [
    *((name, ()) for name in Dataset.model_fields if name != "items"),
    *((f"metadata.{name}", ()) for name in Metadata.model_fields),
    *((name, ("items", 0)) for name in Item.model_fields if name != "turns"),
    *((name, ("items", 0, "turns", 0)) for name in Turn.model_fields),
]
KEYWORDS = (
    *("properties", "required", "items", "enum", "pattern", "minimum", "maximum", "minItems", "maxItems"),
    "additionalProperties",
)
EXCEPTIONS: dict[str, str] = {}
"""Fields and options that open as JSON, each with its reason. There are none."""

texts = st.text(max_size=6) | st.sampled_from(["two\nlines", "\x1b[2J", "3", "true", '{"a": 1}', "string"])
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-2, 2) | texts
data = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)


def opened(one, value, path, depth=0):
    """Every field that can be opened from one, with its value and the names that lead to it."""
    yield path, one, value
    if depth > 4:
        return
    if one.kind == "object":
        before = value if isinstance(value, dict) else {}
        values = one.shape.values(before)
        for inner in one.shape.fields(before):
            yield from opened(inner, values.get(inner.name), f"{path}.{inner.name}", depth + 1)
    elif one.kind == "rows":
        for name, part in value.items() if isinstance(value, dict) else enumerate(value or ()):
            yield from opened(one.rows.entry(str(name), part), part, f"{path}.{name}", depth + 1)
        for start in one.rows.starts[:4]:
            entry = one.rows.entry(start.key or "new", start.value)
            yield from opened(entry, start.value, f"{path}+{start.name}", depth + 3)


def raw(one, value, path):
    """What of this is written as JSON."""
    for where, field, inner in islice(opened(one, value, path), 2000):
        if field.kind == "json":
            yield where
        elif field.kind in ("map", "values", "value") and inner is not None:
            parts = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()
            if any(isinstance(part, (dict, list)) for part in parts):
                yield where, written_value(field.kind, inner)


def raw_of_field(name, where, value):
    """What of a field of the dataset opens as JSON: its parts, its form, or the box of its text."""
    if read_only(name, where) or name in JUDGING:
        return []
    shape = shape_of(name, value)
    if shape is not None:
        boxes = [part for part in parts_of(shape, value) if not part_has_form(part.value)]
        assert all(not isinstance(part.value, (dict, list)) for part in boxes)
        forms = [part for part in parts_of(shape, value) if part_has_form(part.value)]
        return [said for part in forms for said in raw(entry_field(name, part.label, part.value), part.value, name)]
    if has_form(name, value):
        return list(raw(dataset_field(name, where, value), value, name))
    return [name] if kind_of(name, value) == "json" else []


@pytest.mark.parametrize("kind", REGISTRY.kinds, ids=lambda kind: kind.name)
def test_no_option_of_an_evaluator_opens_as_json(kind):
    example = {name: value for name, value in (kind.example or {}).items() if name != "type"}
    for options in ({}, example):
        values = form_values(options_of(kind), options) if isinstance(options, dict) else {}
        for one in form_fields(options_of(kind), values, evaluators=EVALUATORS):
            assert not list(raw(one, values.get(one.name), f"{kind.name}.{one.name}"))


@pytest.mark.parametrize(("name", "where"), FIELDS, ids=lambda one: one if isinstance(one, str) else str(len(one)))
def test_no_field_of_a_dataset_an_item_or_a_turn_opens_as_json(name, where):
    for value in (None, {}, [], 3, {"a": [1]}, [{"a": 1}], [["a"]], "x", [{"type": "function", "name": "f"}]):
        assert not raw_of_field(name, where, value)


@given(kind=st.sampled_from(REGISTRY.kinds), value=data, chosen=st.data())
def test_no_value_makes_an_option_open_as_json(kind, value, chosen):
    option = chosen.draw(st.sampled_from(options_of(kind)))
    for one in form_fields(options_of(kind), {option.name: value}, evaluators=EVALUATORS):
        assert not list(raw(one, value if one.name == option.name else None, one.name))


@given(field=st.sampled_from(FIELDS), value=data)
@example(field=("response_format", ("items", 0)), value={"type": "object", "properties": {"a": True}, "items": [{}]})
@example(field=("other_questions", ("items", 0)), value=["one", [{"role": "user", "content": [{"type": "text"}]}]])
@example(field=("matrix", ()), value={"city": ["Paris", "Rome"], "n": [1, [2]]})
def test_no_value_makes_a_field_open_as_json(field, value):
    assert not raw_of_field(*field, value)


@given(field=st.sampled_from(FIELDS), value=st.dictionaries(texts, data, max_size=3))
def test_an_object_comes_out_of_an_untouched_form_as_it_was(field, value):
    """A schema, a tool and a model keep what they do not know."""
    for _, one, inner in islice(opened(dataset_field(*field, value), value, field[0]), 50):
        if one.kind == "object" and isinstance(inner, dict):
            written = one.shape.written(inner, one.shape.values(inner))
            kept = {name: part for name, part in inner.items() if part is not None}
            assert {name: part for name, part in written.items() if part is not None} == kept or not inner


def test_the_exceptions_are_named():
    assert not EXCEPTIONS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(Person.until, "__defaults__", (20.0,))
    monkeypatch.setattr(Person.sees, "__defaults__", (20.0,))
    write(tmp_path / "data.json", {"items": [{"testId": "A-1", "prompt": "first"}]})
    return tmp_path


async def add(person, field):
    await person.press("1", "g", "j", "2", "a")
    await person.type(field)
    await person.press("enter")


@pytest.mark.nightly
async def test_a_tool_is_written_in_fields_and_its_parameters_as_name_and_type(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        await add(person, "tools")
        await person.sees("new tool")
        await person.type("find_order")
        await person.press("tab")
        await person.type("Finds an order.")
        await person.press("tab", "enter")
        await person.sees("properties")
        await person.press("j", "j", "enter")
        await person.type("id: integer")
        await person.press("enter", "escape", "j", "enter", "enter", "escape", "escape")
        assert person.app.workspace.items[0]["tools"] == [
            {
                "type": "function",
                "function": {
                    "name": "find_order",
                    "description": "Finds an order.",
                    "parameters": {
                        "type": "object",
                        "properties": {"id": {"type": "integer"}},
                        "required": ["id"],
                    },
                },
            }
        ]
        await person.press("enter")
        await person.sees("Finds an order.")
        await person.press("escape", "v")
        await person.sees('"parameters"')


async def test_the_parameters_of_a_tool_show_the_keywords_of_their_type_alone(folder):
    def shown(person):
        return [name for name in KEYWORDS if f" {name} " in person.screen()]

    async with at_the_workbench(folder, dataset="data.json") as person:
        await add(person, "tools")
        await person.sees("new tool")
        await person.type("find_order")
        await person.press("tab", "tab", "enter")
        await person.sees("additionalProperties")
        assert shown(person) == ["properties", "required", "additionalProperties"]
        await person.press("g", "enter")
        await person.type("integer")
        await person.press("enter")
        await person.sees("minimum")
        assert shown(person) == ["properties", "enum", "minimum", "maximum"], "what is given stays"
        await person.press("g", "enter")
        await person.type("string")
        await person.press("enter")
        await person.sees("pattern")
        assert shown(person) == ["properties", "enum", "pattern"]
        await person.press("g", "D")
        await person.sees("minItems")
        assert shown(person) == list(KEYWORDS), "without a type every keyword says something"


@pytest.mark.nightly
async def test_a_matrix_and_extensions_are_rows(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        await add(person, "matrix")
        await person.type("city")
        await person.press("enter")
        await person.type("Paris\nRome")
        await person.press("escape", "escape")
        assert person.app.workspace.items[0]["matrix"] == {"city": ["Paris", "Rome"]}
        await add(person, "extensions")
        await person.type("owner: Ada")
        await person.press("enter", "a")
        await person.type("limits")
        await person.press("enter", "down", "down", "enter")
        await person.type("n: 3")
        await person.press("enter", "escape", "escape")
        assert person.app.workspace.items[0]["extensions"] == {"owner": "Ada", "limits": {"n": 3}}


@pytest.mark.nightly
async def test_an_evaluator_within_another_is_chosen_by_name_and_has_its_own_form(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        await person.press("1", "g", "j", "3", "a")
        await person.type("atleast")
        await person.press("enter", "enter")
        await person.type("ContainsAll")
        await person.sees("Passes when every one")
        await person.press("enter", "enter")
        await person.sees("one a line")
        await person.type("red\nblue")
        await person.press("escape", "escape", "a")
        await person.type("ExactMatch")
        await person.press("enter", "c")
        await person.type("2")
        await person.press("enter", "escape", "escape")
        written = person.app.workspace.items[0]["evaluators"]["AtLeast"]["evaluators"]
        assert written == {"ContainsAll": {"values": ["red", "blue"]}, "ExactMatch2": {"type": "ExactMatch"}}


@pytest.mark.nightly
async def test_a_schema_of_the_answer_is_made_from_one_or_written_by_its_fields(folder):
    kept = {"testId": "A-1", "prompt": "first", "response": '{"total": 3}', "status": "pass"}
    write(folder / "data.json", {"items": [kept]})
    made = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    async with at_the_workbench(folder, dataset="data.json") as person:
        await add(person, "response_f")
        await person.type("make")
        await person.press("enter")
        await person.until(lambda: person.app.workspace.items[0].get("response_format") == made)
        await add(person, "repeats")
        await person.type("2")
        await person.press("escape", "u", "u")
        assert person.app.workspace.items[0] == kept
