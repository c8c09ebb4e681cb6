"""Choices of a grader: list them, read one from a reply, score it. Scripts use this too.

>>> parse_choice("Two facts agree.\\nYes.", ["Yes", "No"])
'Yes'
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from random import Random
from typing import Literal

from tui_evals.text.templates import fill_template

EvalType = Literal["classify", "classify_cot", "cot_classify", "cot_classify_jp"]
MatchFn = Literal["starts_or_endswith", "endswith", "exact", "include", "contains"]
ChoiceScores = Literal["from_strings"] | Mapping[str, float]

INVALID = "__invalid__"
MAX_CALLS = 100
_FULL_STOPS = (".", "。")

_MATCHERS: Mapping[str, Callable[[str, str], bool]] = {
    "starts_or_endswith": lambda line, choice: line.startswith(choice) or line.endswith(choice),
    "endswith": str.endswith,
    "exact": str.__eq__,
    "include": lambda line, choice: line in choice,
    "contains": lambda line, choice: choice in line,
}

_INSTRUCTIONS: Mapping[str, str] = {
    "classify": (
        "Reply with your choice and nothing else: {choices}. Write it bare, without quotes and without punctuation."
    ),
    "classify_cot": (
        "Let the first line of your reply hold your choice and nothing else: {choices}, bare, without quotes and "
        "without punctuation. Give your reasons from the second line on."
    ),
    "cot_classify": (
        "Begin with your reasons, one step after another, and commit yourself to nothing before they are complete. "
        "Next comes a line that holds your choice alone: {choices}, bare, without quotes and without punctuation. "
        "The last line of your reply holds that choice again, and nothing else."
    ),
    "cot_classify_jp": (
        "結論を急がず、はじめに判断の根拠を順序立てて述べてください。続いて {choices} の中からひとつを選び、"
        "かぎ括弧・引用符・句読点を付けず、それだけを一行に記してください。"
        "返答の最終行には、選んだものだけを改めて記してください。"
    ),
}


def _lower_letter(position: int) -> str:
    return string.ascii_lowercase[(position - 1) % 26]


def _upper_letter(position: int) -> str:
    return string.ascii_uppercase[(position - 1) % 26]


NUMBERED: Mapping[str, Callable[[int], str]] = {"from_n": str, "from_n_abc": _lower_letter, "from_n_ABC": _upper_letter}


class ChoiceError(ValueError):
    """Choices or their scores that cannot be used; the message says which and why."""


def parse_choice(
    text: str,
    choices: Sequence[str],
    eval_type: str = "cot_classify",
    match_fn: str = "starts_or_endswith",
    *,
    compat: bool = False,
) -> str:
    """The choice a grader's reply makes, or `__invalid__`.

    The reply is trimmed and loses one full stop at its end (not with `compat`, which reads as OpenAI Evals does). Its
    lines are read from the top, or from the bottom when `eval_type` starts with `cot_classify`. Each is trimmed and
    freed of ASCII punctuation. The first line that any choice fits decides; in it, the choice declared first.

    `match_fn` says what fits, always case-sensitively: `starts_or_endswith` (the line starts or ends with the
    choice), `endswith`, `exact`, `contains` (the choice stands somewhere in the line), and `include`, which is the
    reverse: the line is a part of the choice.
    """
    if match_fn not in _MATCHERS:
        raise ChoiceError(f"there is no match_fn {match_fn!r}; the known ones are {', '.join(_MATCHERS)}")
    fits, text = _MATCHERS[match_fn], text.strip()
    if not compat and text.endswith(_FULL_STOPS):
        text = text[:-1]
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    if eval_type.startswith("cot_classify"):
        lines.reverse()
    body = "\n".join(lines)
    for mark in string.punctuation:  # on the whole reply, because that takes a tenth of the time of every line alone
        body = body.replace(mark, "")
    for line in filter(None, dict.fromkeys(body.split("\n"))):
        for choice in choices:
            if fits(line, choice):
                return choice
    return INVALID


def choice_strings(spec: str | Sequence[str], n: int | None = 1) -> tuple[str, ...]:
    """The choices a spec names: a list, the characters of a string, or one for each of n answers.

    `from_n` means 1, 2, 3 ... n; `from_n_abc` a, b, c ...; `from_n_ABC` A, B, C ... (after 26 letters from the first
    again). A choice with ASCII punctuation could never be read, so it is refused.
    """
    if isinstance(spec, str) and spec in NUMBERED:
        if n is None or n < 1:
            raise ChoiceError(f"choice_strings {spec!r} needs the number of answers, 1 or more, and got {n}")
        return tuple(map(NUMBERED[spec], range(1, n + 1)))
    choices = tuple(spec)
    for choice in choices:
        if not choice.strip() or "\n" in choice or not set(string.punctuation).isdisjoint(choice):
            raise ChoiceError(
                f"the choice {choice[:40]!r} cannot be told from a reply; use one line of letters, digits and spaces"
            )
    return choices


def choice_scores(choices: Sequence[str], scores: ChoiceScores | None) -> dict[str, float] | None:
    """The score of every choice: as the mapping says, or with `from_strings` the choice read as a number."""
    if scores is None:
        return None
    if scores == "from_strings":
        table = {choice: _choice_number(choice) for choice in choices}
    elif isinstance(scores, Mapping):
        table = {choice: float(score) for choice, score in scores.items()}
    else:
        raise ChoiceError(f"choice_scores is {scores!r}; write 'from_strings' or a score for each choice")
    if missing := [choice for choice in choices if choice not in table]:
        raise ChoiceError(f"choice_scores gives no score for {quoted_choices(missing)}; every choice needs one")
    if not all(map(math.isfinite, table.values())):
        raise ChoiceError("choice_scores holds a number that is not finite")
    return table


def _choice_number(choice: str) -> float:
    try:
        return float(choice)
    except ValueError:
        raise ChoiceError(f"the choice {choice!r} is not a number, so 'from_strings' cannot score it") from None


def choice_score(
    choice: str, table: Mapping[str, float] | None, invalid: Literal["exclude", "lowest"] = "exclude"
) -> float | None:
    """What a choice scores; `__invalid__` scores nothing, or with `lowest` the smallest score there is."""
    if not table:
        return None
    if choice == INVALID:
        return min(table.values()) if invalid == "lowest" else None
    return table[choice]


def expand_args(args: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, tuple[str, object]]]:
    """One grading call for each combination of labelled values: its metric's name, and name -> (label, value).

    The metric is called by its `name=label` pairs, sorted by name and joined with colons; no args make one metric
    without a name.
    """
    calls = math.prod(map(len, args.values()))
    if not 1 <= calls <= MAX_CALLS:
        raise ChoiceError(f"args make {calls:,} combinations, each a grading call; write 1 to {MAX_CALLS}")
    names = sorted(args)
    return {
        ":".join(f"{name}={label}" for name, (label, _) in zip(names, combination, strict=True)): dict(
            zip(names, combination, strict=True)
        )
        for combination in product(*(args[name].items() for name in names))
    }


def quoted_choices(choices: Sequence[str], word: str = "or") -> str:
    """The choices as a sentence names them: "Yes" or "No"."""
    return f" {word} ".join(f'"{choice}"' for choice in choices)


def answer_instruction(choices: Sequence[str], eval_type: EvalType = "cot_classify") -> str:
    """How a grader is told in what form to answer."""
    word = "または" if eval_type == "cot_classify_jp" else "or"
    return _INSTRUCTIONS[eval_type].replace("{choices}", quoted_choices(choices, word))


def concat_completions(completions: Sequence[str], template: str) -> str:
    """Several answers as one text: the template filled for each, one after the other, and the whole trimmed.

    Its fields are `{output}`, the answer's place `{i}` (from 1), `{i_abc}` or `{i_ABC}`, and their number `{n}`.
    """
    pieces = (
        fill_template(
            template,
            {
                "i": str(i),
                "i_abc": _lower_letter(i),
                "i_ABC": _upper_letter(i),
                "n": str(len(completions)),
                "output": text,
            },
        )
        for i, text in enumerate(completions, 1)
    )
    return "".join(pieces).strip()


def last_answer(text: str, mark: str, ignore_case: bool = False) -> str | None:
    """The text from the last occurrence of a mark on, or None where the mark does not occur."""
    start = text.lower().rfind(mark.lower()) if ignore_case else text.rfind(mark)
    return None if start == -1 else text[start:]


def shuffled_choices(answers: Sequence[str], right: int, random: Random) -> tuple[str, str]:
    """Answers in shuffled order, each on its line after a letter, and the letter of the right one."""
    order = list(range(len(answers)))
    random.shuffle(order)
    lines = (f"{_upper_letter(position)}) {answers[index]}" for position, index in enumerate(order, 1))
    return "\n".join(lines), _upper_letter(order.index(right) + 1)
