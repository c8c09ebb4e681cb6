"""The options of every evaluator make a form, come out of it as they went in, and faults stand beside them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.evaluators.registry import Registry, load_registry
from tui_evals.evaluators.trust import Trust
from tui_evals.text.safe import safe_line, spelled, unspelled
from tui_evals.tui.judges.options import evaluator_help, evaluator_summary, faults, options_of
from tui_evals.tui.model_form import file_options, form_fields, form_values
from tui_evals.tui.widgets.form_fields import can_write, fits_line, read_value, written_value

BUILT_IN = load_registry(None, Trust())
KINDS = BUILT_IN.kinds


def fields(name, given_options=None):
    options = options_of(BUILT_IN.find(name))
    return {field.name: field for field in form_fields(options, form_values(options, given_options or {}))}


def through(name, before, **changes):
    options = options_of(BUILT_IN.find(name))
    values = {**form_values(options, before), **changes}
    return file_options(options, before, {key: value for key, value in values.items() if value is not None})


def wrong(name, options):
    return faults(BUILT_IN.find(name), options)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_option_of_every_evaluator_has_a_field_that_explains_itself(kind):
    found = form_fields(options_of(kind), {})
    assert len(found) == len(kind.Options.model_fields)
    assert all(field.about for field in found)
    assert all(field.choices for field in found if field.kind == "choice")
    assert evaluator_summary(kind) and evaluator_help(kind).startswith(evaluator_summary(kind)[:40])


def test_the_kind_of_a_field_is_that_of_the_model():
    kinds = {name: fields("ExactMatch")[name].kind for name in ("mode", "case_sensitive", "weight", "json_path")}
    assert kinds == {"mode": "choice", "case_sensitive": "yes", "weight": "number", "json_path": "text"}
    assert fields("ExactMatch")["mode"].choices == ("contains", "equals")
    assert fields("Citations")["threshold"].kind == "whole"
    assert fields("ContainsAll")["values"].kind == "list"
    assert fields("ToolCalledWith")["arguments"].kind == "map"
    assert fields("PersonalData")["kinds"].kind == "several" and "iban" in fields("PersonalData")["kinds"].choices
    assert fields("ToolCallSelection")["calls"].kind == "rows"
    assert fields("JsonSchema")["schema"].kind == "object"


def test_lists_and_maps_are_written_in_lines_and_read_back_as_they_were():
    for kind, value, text in (
        ("list", ["one", "two, three", " four"], "one\ntwo, three\n four"),
        ("map", {"city": "Paris", "n": 3, "zip": "075"}, "city: Paris\nn: 3\nzip: 075"),
        ("values", ["red", 3, "4", True], 'red\n3\n"4"\ntrue'),
        ("map", {"yes": "true", "time": "9:30"}, 'yes: "true"\ntime: 9:30'),
    ):
        assert written_value(kind, value) == text and read_value(kind, text) == (value, None) and can_write(kind, value)
    for kind, value in (
        ("list", ["two\nlines"]),
        ("list", [""]),
        ("list", [3]),
        ("map", {"a:b": 1}),
        ("map", [1]),
        ("map", {"a": {}}),
    ):
        assert not can_write(kind, value), value
    assert not can_write("map", {"a": {}}) and not can_write("values", [[]]) and not can_write("value", [])
    assert read_value("map", "no colon")[1] == "no name before a colon in 'no colon'"
    assert read_value("map", "a: 1\na: 2")[1] == "a is given twice"


def test_a_schema_is_made_from_the_answer_on_screen():
    answer = '{"total": 12.5, "lines": [{"n": 1}, {"n": 2}], "note": null, "mixed": [1, "a"], "none": []}'
    options = options_of(BUILT_IN.find("JsonSchema"))
    name, made = {one.name: one for one in form_fields(options, {}, answer)}["schema"].make
    assert name == "make one from this answer"
    assert made["properties"]["lines"]["items"]["properties"]["n"] == {"type": "integer"}
    assert made["properties"]["mixed"]["items"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert made["required"] == ["total", "lines", "note", "mixed", "none"]
    assert made["properties"]["none"] == {"type": "array"} and wrong("JsonSchema", {"schema": made}) == {}
    assert all(one.make is None for one in form_fields(options, {}, "no JSON"))


def test_defaults_and_limits_are_said_in_words():
    threshold = fields("PartialMatch")["threshold"]
    assert threshold.default == "default: 0.5"
    assert threshold.about.endswith("At least 0, at most 1.")
    assert fields("Rubric")["criteria"].default == "needed"
    assert fields("ExactMatch")["case_sensitive"].default == "default: no"


def test_what_is_needed_comes_first_and_what_all_have_last():
    own = ["criteria", "threshold", "applies", "scale", "examples", "expected_score", "judge"]
    assert list(fields("Rubric")) == [*own, "negate", "weight"]
    assert list(fields("Relevance"))[:4] == ["threshold", "examples", "expected_score", "rubric"]


def test_faults_stand_beside_their_field_whatever_spelling_the_file_uses():
    assert wrong("Relevance", {"threshold": 9}) == {"threshold": "must be at most 5, not 9"}
    assert wrong("ToolCalled", {}) == {"tool_name": "must be given"}
    assert wrong("ToolCalled", {"toolName": 3}) == {"tool_name": "must be text, not 3"}
    assert wrong("JsonSchema", {"schema": 3}) == {"schema": "must be an object, not 3"}
    assert "did you mean 'threshold'" in wrong("Relevance", {"treshold": 3})["treshold"]
    assert wrong("ToolCalled", {"toolName": "a", "tool_name": "b"})["tool_name"].startswith("is given twice")


def test_a_fault_inside_a_value_says_where():
    said = wrong("ToolCallSelection", {"calls": [{"tool": {"plugin_name": 3, "function_name": "f"}}]})
    assert said == {"calls": "[0].tool.plugin_name: must be text, not 3"}


def test_a_fault_of_no_single_option_stands_under_no_name():
    assert set(wrong("ModelGraded", {})) == {""}


def test_the_spelling_and_the_order_of_the_file_are_kept():
    before = {"type": "ExactMatch", "jsonPath": "$.a", "weight": 0.5}
    after = through("ExactMatch", before, json_path="$.b", mode="equals")
    assert json.dumps(after) == '{"type": "ExactMatch", "jsonPath": "$.b", "weight": 0.5, "mode": "equals"}'


def test_what_is_left_out_is_not_written_and_unknown_options_can_be_left_out():
    assert through("ExactMatch", {"weight": 0.5, "mod": 1}, weight=None) == {"mod": 1}
    assert through("ExactMatch", {"weight": 0.5, "mod": 1}, mod=None) == {"weight": 0.5}
    assert fields("ExactMatch", {"mod": 1})["mod"].about == "No option of this evaluator; take it away."


def test_a_whole_number_typed_as_any_number_stays_whole():
    assert json.dumps(through("Relevance", {}, threshold=read_value("number", "4")[0])) == '{"threshold": 4}'


@pytest.mark.parametrize("value", ["tab\there", "\x1b[2J", "two\n\x1b[2J", "\u202e", "two\nlines"])
def test_a_text_that_a_line_cannot_hold_is_spelled_in_a_box(value):
    assert fields("Rubric", {"criteria": value})["criteria"].kind == "text" and not fits_line(value)
    assert unspelled(spelled(value)) == value


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        *(("case_sensitive", "yes", "value"), ("mode", ["contains"], "values"), ("case_sensitive", 1, "value")),
        *(("mode", {"a": 1}, "map"), ("mode", {"a": {}}, "rows"), ("mode", [[1]], "rows"), ("mode", "  ", "value")),
    ],
)
def test_a_value_of_a_wrong_kind_is_edited_as_what_it_is(name, value, kind):
    assert fields("ExactMatch", {name: value})[name].kind == kind


def test_evaluators_of_the_project_offer_what_validation_takes(tmp_path):
    folder = tmp_path / "custom-evaluators" / "Mine"
    folder.mkdir(parents=True)
    (folder / "Mine.py").write_text("class Mine: ...")
    own: Registry = load_registry(tmp_path, Trust())
    kind = own.find("Mine")
    assert [option.name for option in options_of(kind)] == ["threshold", "options", "scale", "negate", "weight"]
    assert faults(kind, {"threshold": 2, "options": {"a": 1}, "scale": [1, 10], "negate": True}) == {}
    assert "a scale is [lowest, highest]" in faults(kind, {"scale": [10, 1]})["scale"]


values = st.one_of(st.none(), st.booleans(), st.integers(-3, 9), st.text(max_size=5), st.lists(st.text(max_size=3)))


@given(kind=st.sampled_from(KINDS), data=st.data())
def test_whatever_stands_in_a_file_comes_out_of_an_untouched_form_as_it_was(kind, data):
    spellings = [spelling for option in options_of(kind) for spelling in option.spellings]
    keys = st.sampled_from([*spellings, "type", "unheard"])
    before = data.draw(st.dictionaries(keys, values.filter(lambda value: value is not None), max_size=5))
    after = through(kind.name, before)
    assert after == before
    assert list(after) == sorted(before, key=lambda key: key != "type")


@given(kind=st.sampled_from(KINDS), data=st.data())
def test_every_fault_belongs_to_a_field_of_the_form_or_to_all(kind, data):
    options = options_of(kind)
    keys = st.sampled_from([*(spelling for option in options for spelling in option.spellings), "unheard"])
    given_options = data.draw(st.dictionaries(keys, values.filter(lambda value: value is not None), max_size=5))
    names = {field.name for field in form_fields(options, form_values(options, given_options))}
    found = faults(kind, given_options)
    assert found.keys() <= {*names, ""}
    assert all(said and safe_line(said) for said in found.values())
