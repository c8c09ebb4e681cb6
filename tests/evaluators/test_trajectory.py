import pytest
from pydantic import ValidationError

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.base import ToolCall
from tui_evals.evaluators.trajectory import NoTools, Steps, ToolOrder, ToolsSucceeded, ToolTrajectory


def calls(*names):
    """`find:7` is a call of find with the id 7, `find!` one that failed."""
    made = []
    for name in names:
        tool, _, number = name.rstrip("!").partition(":")
        arguments = {"id": int(number), "more": {"deep": True}} if number else {}
        made.append(ToolCall(tool, arguments, "no" if name.endswith("!") else "yes", name.endswith("!")))
    return tuple(made)


def steps(*names):
    parts = (name.split(":") for name in names)
    return [{"tool": part[0], "arguments": {"id": int(part[1])}} if len(part) > 1 else part[0] for part in parts]


@each_row(
    ("expected", "made", "exact", "in_order", "any_order"),
    [
        (["find", "pay"], ["find", "pay"], 1, 1, 1),
        (["find", "pay"], ["find", "look", "pay"], 0, 1, 1),
        (["find", "pay"], ["pay", "find"], 0, 0, 1),
        (["find", "pay"], ["find"], 0, 0, 0),
        (["find", "find"], ["find"], 0, 0, 0),
        (["find"], [], 0, 0, 0),
        (["find:7", "find:8"], ["find:7", "find:8"], 1, 1, 1),
        (["find:7", "find:8"], ["find:8", "find:7"], 0, 0, 1),
        (["find", "find:7"], ["find:7", "find:8"], 0, 0, 1),
        (["find:7"], ["find:8", "find:7"], 0, 1, 1),
        (["Find"], ["find"], 0, 0, 0),
    ],
)
def test_the_calls_are_compared_as_closely_as_is_wanted(expected, made, exact, in_order, any_order):
    for match, wanted in (("exact", exact), ("in_order", in_order), ("any_order", any_order)):
        record = score(
            ToolTrajectory, {"calls": steps(*expected), "match": match}, response="x", tool_calls=calls(*made)
        )
        assert record.score == wanted and record.result == ("pass" if wanted else "fail"), (match, record.reason)
        assert record.details["called"] == [name.split(":")[0] for name in made]


@each_row(
    ("step", "result"),
    [
        ({"arguments": {"id": 7}}, "pass"),
        ({"arguments": {"id": 7}, "match": "exact"}, "fail"),
        ({"arguments": {"id": 7, "more": {"deep": True}}, "match": "exact"}, "pass"),
        ({"arguments": {"id": 7, "more": {}}, "match": "exact"}, "fail"),
        ({"arguments": {"id": 7}, "match": "exact", "ignore": ["more"]}, "pass"),
        ({"arguments": {"id": 8}, "ignore": ["id"]}, "pass"),
        ({"arguments": {}, "match": "exact"}, "fail"),
        ({"arguments": {}}, "pass"),
        ({"match": "exact"}, "pass"),
    ],
)
def test_the_arguments_of_an_expected_call_are_compared_in_part_or_exactly(step, result):
    options = {"calls": [{"tool": "find", **step}]}
    assert score(ToolTrajectory, options, response="x", tool_calls=calls("find:7")).result == result


def test_the_reason_says_which_call_is_missing():
    record = score(ToolOrder, {"tools": ["find", "pay"]}, response="x", tool_calls=calls("find", "look"))
    assert record.result == "fail" and record.reason == "pay was not called after find; called was find → look"
    record = score(ToolTrajectory, {"calls": steps("find:7")}, response="x", tool_calls=calls("find:8"))
    assert record.reason == "call 1 should be find with id 7; called was find"
    many = score(ToolOrder, {"tools": ["pay"]}, response="x", tool_calls=calls(*["a\x1b[2Jb"] * 40))
    assert "… 28 more" in many.reason and "\x1b" not in many.reason


@each_row(
    ("options", "made", "result"),
    [
        ({}, [], "pass"),
        ({}, ["find"], "fail"),
        ({"tools": ["pay"]}, ["find"], "pass"),
        ({"tools": ["pay"]}, ["pay"], "fail"),
    ],
)
def test_no_tools(options, made, result):
    assert score(NoTools, options, response="x", tool_calls=calls(*made)).result == result


def test_the_share_of_calls_that_gave_a_result():
    record = score(ToolsSucceeded, {}, response="x", tool_calls=calls("find", "pay!"))
    assert (record.score, record.result, record.reason) == (0.5, "fail", "pay failed: 'no'")
    assert score(ToolsSucceeded, {}, response="x", tool_calls=calls("find")).result == "pass"
    assert score(ToolsSucceeded, {}, response="x", tool_calls=(ToolCall("find"),)).result == "skipped"


@each_row(
    ("options", "taken", "result"),
    [
        ({}, 3, None),
        ({"most": 3}, 3, "pass"),
        ({"most": 2}, 3, "fail"),
        ({"least": 2}, None, "fail"),
        ({"least": 2, "most": 5}, 3, "pass"),
    ],
)
def test_steps(options, taken, result):
    record = score(Steps, options, response="x", steps=taken)
    assert (record.score, record.result) == (taken or 1, result)


@each_row(
    ("kind", "options"),
    [
        (ToolTrajectory, {"calls": []}),
        (ToolTrajectory, {"calls": ["find"], "match": "nearly"}),
        (ToolTrajectory, {"calls": [{"name": "find"}]}),
        (ToolOrder, {"tools": [""]}),
        (NoTools, {"tools": []}),
        (Steps, {"least": 3, "most": 2}),
        (Steps, {"most": 0}),
    ],
)
def test_options_that_mean_nothing_are_refused(kind, options):
    with pytest.raises(ValidationError):
        kind.Options.model_validate(options)
