import string
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.evaluators.helpers import golden
from tests.evaluators.tables import each_row
from tui_evals.evaluators.grading_specs import (
    INVALID,
    ChoiceError,
    answer_instruction,
    choice_score,
    choice_scores,
    choice_strings,
    concat_completions,
    expand_args,
    last_answer,
    parse_choice,
    quoted_choices,
    shuffled_choices,
)
from tui_evals.text.templates import TemplateError, fill_template

FILE = "openai_evals.json"
MATCH_FNS = ("starts_or_endswith", "endswith", "exact", "include", "contains")
YES_NO = ("Yes", "No")


def wants_error(row: dict[str, Any]) -> bool:
    return isinstance(row["expected"], dict) and "error" in row["expected"]


@each_row("compat", [False, True])
@each_row("row", golden(FILE, "get_choice"))
def test_golden_choices(row: dict[str, Any], compat: bool) -> None:
    args = row["args"]

    def parse() -> str:
        return parse_choice(args["text"], args["choice_strings"], args["eval_type"], args["match_fn"], compat=compat)

    if wants_error(row):
        with pytest.raises(AttributeError):
            parse()
    else:
        assert parse() == row["expected"]


@each_row(
    ("reply", "match_fn", "ours", "original"),
    [
        ("It is Yes .", "starts_or_endswith", "Yes", INVALID),
        ("Yes .", "exact", "Yes", INVALID),
        ("答えはYes。", "endswith", "Yes", INVALID),
        ("It is Yes . .", "endswith", INVALID, INVALID),
        ("It is Yes .\nunclear", "endswith", INVALID, INVALID),
        ("It is Yes.", "endswith", "Yes", "Yes"),
    ],
)
def test_one_full_stop_at_the_end_is_lost(reply: str, match_fn: str, ours: str, original: str) -> None:
    assert parse_choice(reply, YES_NO, match_fn=match_fn) == ours
    assert parse_choice(reply, YES_NO, match_fn=match_fn, compat=True) == original


@each_row(
    ("match_fn", "fitting", "unfitting"),
    [
        ("starts_or_endswith", ("Yes", "Yes it is", "it is Yes"), ("it is Yes indeed", "Y", "yes")),
        ("endswith", ("Yes", "it is Yes"), ("Yes it is", "Y")),
        ("exact", ("Yes", "'Yes'"), ("it is Yes", "Yes it is", "Y")),
        ("include", ("Yes", "Y", "es"), ("it is Yes",)),
        ("contains", ("Yes", "it is Yes indeed", "Yesterday"), ("Y", "yes")),
    ],
)
def test_match_fns(match_fn: str, fitting: Sequence[str], unfitting: Sequence[str]) -> None:
    assert [parse_choice(line, ["Yes"], match_fn=match_fn) for line in fitting] == ["Yes"] * len(fitting)
    assert [parse_choice(line, ["Yes"], match_fn=match_fn) for line in unfitting] == [INVALID] * len(unfitting)


def test_an_unknown_match_fn_is_named() -> None:
    with pytest.raises(ChoiceError, match="no match_fn 'startswith'; the known ones are starts_or_endswith"):
        parse_choice("Yes", YES_NO, match_fn="startswith")


def as_written(text: str, choices: Sequence[str], eval_type: str, match_fn: str) -> str:
    """The rule line by line, as slow as it is plain."""
    fits = {
        "starts_or_endswith": lambda line, choice: line.startswith(choice) or line.endswith(choice),
        "endswith": lambda line, choice: line.endswith(choice),
        "exact": lambda line, choice: line == choice,
        "include": lambda line, choice: line in choice,
        "contains": lambda line, choice: choice in line,
    }[match_fn]
    lines = text.strip().split("\n")
    for line in reversed(lines) if eval_type.startswith("cot_classify") else lines:
        bare = "".join(character for character in line.strip() if character not in string.punctuation)
        for choice in choices:
            if bare and fits(bare, choice):
                return choice
    return INVALID


REPLIES = st.lists(
    st.one_of(
        st.sampled_from(["Yes", "No", "\n", " ", ".", "-", "\r", "\x1f", "\x85", "。", "\ud800", "es"]), st.text()
    ),
    max_size=30,
).map("".join)


@given(
    REPLIES,
    st.sampled_from(["classify", "cot_classify"]),
    st.sampled_from(MATCH_FNS),
    st.sampled_from(["No", "\ud800"]),
)
def test_parsing_is_the_rule_as_written(text: str, eval_type: str, match_fn: str, other: str) -> None:
    choices = ["Yes", other]
    assert parse_choice(text, choices, eval_type, match_fn, compat=True) == as_written(
        text, choices, eval_type, match_fn
    )
    assert parse_choice(text, choices, eval_type, match_fn) in (*choices, INVALID)


@pytest.mark.nightly
@each_row("match_fn", ["starts_or_endswith", "include"])
@each_row(
    "reply",
    ["x" * 10_000_000, "é." * 5_000_000, ("x" * 79 + "\n") * 125_000, " " * 10_000_000 + "x", "\n" * 10_000_000 + "x"],
)
def test_ten_megabytes_are_read_in_linear_time(reply: str, match_fn: str) -> None:
    # In proportion to the square of its length it would take days.
    assert parse_choice(reply, YES_NO, match_fn=match_fn) == INVALID


@each_row("row", golden(FILE, "get_choice_strings"))
def test_golden_choice_strings(row: dict[str, Any]) -> None:
    if wants_error(row):
        with pytest.raises(ChoiceError):
            choice_strings(**_renamed(row["args"]))
    else:
        assert list(choice_strings(**_renamed(row["args"]))) == row["expected"]


def _renamed(args: dict[str, Any]) -> dict[str, Any]:
    return {"spec": args["choice_strings"], "n": args["n"]}


@each_row(
    ("spec", "n", "expected"),
    [
        ("ABC", 1, ("A", "B", "C")),
        (["Not sure", "はい"], 1, ("Not sure", "はい")),
        ("from_n", 3, ("1", "2", "3")),
        ("from_n_abc", 2, ("a", "b")),
        ("from_n_ABC", 2, ("A", "B")),
        ([], 1, ()),
    ],
)
def test_choice_strings(spec: Any, n: int, expected: tuple[str, ...]) -> None:
    assert choice_strings(spec, n) == expected


@each_row("choice", ["N/A", "a.", "", " ", "a\nb", "__invalid__"])
def test_choices_that_could_not_be_read_are_refused(choice: str) -> None:
    with pytest.raises(ChoiceError, match="cannot be found in a reply"):
        choice_strings([choice])


@each_row("n", [None, 0, -1])
def test_numbered_choices_need_a_number(n: int | None) -> None:
    with pytest.raises(ChoiceError, match="needs the number of answers"):
        choice_strings("from_n", n)


@each_row("row", golden(FILE, "get_choice_score"))
def test_golden_choice_scores(row: dict[str, Any]) -> None:
    args = row["args"]

    def score() -> float | None:
        return choice_score(args["choice"], choice_scores(args["choice_strings"], args["choice_scores"]), "lowest")

    if wants_error(row):
        with pytest.raises(ChoiceError, match="is not a number"):
            score()
    else:
        assert score() == row["expected"]


@each_row(
    ("choice", "scores", "invalid", "expected"),
    [
        ("Yes", {"Yes": 1, "No": 0}, "exclude", 1.0),
        ("No", {"Yes": 1, "No": -2.5}, "exclude", -2.5),
        ("Yes", None, "exclude", None),
        (INVALID, None, "lowest", None),
        (INVALID, {"Yes": 1, "No": 0.25}, "exclude", None),
        (INVALID, {"Yes": 1, "No": 0.25}, "lowest", 0.25),
    ],
)
def test_choice_score(choice: str, scores: Any, invalid: Any, expected: float | None) -> None:
    assert choice_score(choice, choice_scores(YES_NO, scores), invalid) == expected


@each_row(
    ("choices", "scores", "problem"),
    [
        (YES_NO, {"Yes": 1}, 'no score for "No"'),
        (YES_NO, "from_string", "write 'from_strings'"),
        (YES_NO, "from_strings", "'Yes' is not a number"),
        (["nan"], "from_strings", "not finite"),
        (["1"], {"1": float("inf")}, "not finite"),
    ],
)
def test_scores_that_cannot_be_used(choices: Sequence[str], scores: Any, problem: str) -> None:
    with pytest.raises(ChoiceError, match=problem):
        choice_scores(choices, scores)


@each_row("row", golden(FILE, "expand_args_dict__legacy_2023_03_29"))
def test_golden_args(row: dict[str, Any]) -> None:
    expanded = expand_args(row["args"]["args_dict"])
    assert {metric: {name: list(pair) for name, pair in values.items()} for metric, values in expanded.items()} == row[
        "expected"
    ]


@each_row("args", [{"a": {}}, {name: dict.fromkeys("0123456789", "x") for name in "abcdefghij"}])
def test_args_make_at_least_one_call_and_not_too_many(args: Any) -> None:
    with pytest.raises(ChoiceError, match="combinations, each a grading call; write 1 to 100"):
        expand_args(args)


@each_row("row", golden(FILE, "choice_to_str"))
def test_golden_quoted_choices(row: dict[str, Any]) -> None:
    assert quoted_choices(row["args"]["choice_strings"]) == row["expected"]


@each_row(
    ("eval_type", "words"),
    [
        ("classify", ("nothing else", '"Yes" or "No"', "without quotes")),
        ("classify_cot", ("first line", '"Yes" or "No"', "reasons from the second line")),
        ("cot_classify", ("Begin with your reasons", '"Yes" or "No"', "last line")),
        ("cot_classify_jp", ("判断の根拠", '"Yes" または "No"', "最終行")),
    ],
)
def test_answer_instructions(eval_type: Any, words: tuple[str, ...]) -> None:
    instruction = answer_instruction(YES_NO, eval_type)
    assert [word for word in words if word not in instruction] == []


@each_row("row", golden(FILE, "concat_n_completions"))
def test_golden_joined_completions(row: dict[str, Any]) -> None:
    assert concat_completions(row["args"]["completions"], row["args"]["template_i"]) == row["expected"]


def test_every_field_of_an_output_template() -> None:
    assert concat_completions(["x", "y"], "{i}/{n} {i_abc}{i_ABC} {output};") == "1/2 aA x;2/2 bB y;"
    assert concat_completions(["x"] * 27, "{i_abc}").endswith("za")
    with pytest.raises(TemplateError, match="missing: nobody"):
        concat_completions(["x"], "{nobody}")


@each_row("row", golden(FILE, "format_necessary"))
def test_golden_filling(row: dict[str, Any]) -> None:
    args = row["args"]
    if wants_error(row):
        with pytest.raises(TemplateError, match="missing: a"):
            fill_template(args["template"], args["kwargs"])
    else:
        assert fill_template(args["template"], args["kwargs"]) == row["expected"]


@each_row("row", golden(FILE, "get_answer"))
def test_golden_last_answer(row: dict[str, Any]) -> None:
    args = row["args"]
    assert last_answer(args["text"], args["answer_prompt"], args["ignore_case"]) == row["expected"]


def test_no_last_answer() -> None:
    assert last_answer("abc", "ABC") is None


@each_row("row", golden(FILE, "make_abc"))
def test_golden_lettered(row: dict[str, Any]) -> None:
    args = row["args"]
    options, correct = shuffled_choices(
        args["answers"], args["correct_idx"], Random(f"{args['sample_id']}:{args['seed']}".encode())
    )
    assert {"options": options, "correct": correct} == row["expected"]
