"""Writes what Inspect's own scorers say of answers, as the golden rows of ours; run by hand only.

In an environment with `inspect-ai` installed: `python tests/interop/inspect_scorers.py`. No model is asked.
"""

from __future__ import annotations

import asyncio
import json
from itertools import product
from pathlib import Path

from inspect_ai.model import ChatMessageUser, ModelName, ModelOutput
from inspect_ai.scorer import Target, choice, exact, f1, includes, match, pattern
from inspect_ai.solver import TaskState
from inspect_ai.solver._multiple_choice import parse_answers

GOLDEN = Path(__file__).parent.parent / "golden" / "inspect_scorers.json"
TEXTS = (
    "Paris", "paris.", "It is Paris.", "**Paris**", "The answer is (Paris)", " Paris is it", "Par is", "", "42", "42.0",
    "It costs $1,042.", "25", "5", "1e3", "2½", "−5", "60%", "~42", "(42)!", "The Eiffel Tower!", "Eiffel-Tower",
    "a an the", "the 3.14.", "Straße", "STRASSE", "No. 42, or 43", "answer: 42 apples", "x 42 y 5", "0.1 + 0.2 = 0.3",
)  # fmt: skip
TARGETS = (
    ["Paris"],
    ["rome", "paris"],
    ["42"],
    ["5"],
    ["1000"],
    ["2.5"],
    ["-5"],
    ["eiffel tower"],
    ["the"],
    ["strasse"],
    ["1042"],
)
CHOSEN = (
    "ANSWER: B", "ANSWER: b.", "I think B", "ANSWER: A\nno wait\nANSWER: B", "ANSWER: **B**", "ANSWER: (B)",
    "ANSWER: $B$", "ANSWER: A, B", "ANSWER: AB", "ANSWER: A and B", "ANSWER: D", "ANSWER: Z", "",
    "So the ANSWER: B is right", "answer : B", "ANSWER: BB", "ANSWER: A,B,C",
)  # fmt: skip
LOCATIONS = product(("begin", "end", "any", "exact"), (False, True), (False, True))
OPTIONS = {
    "match": (match, [{"location": at, "numeric": numeric, "ignore_case": fold} for at, numeric, fold in LOCATIONS]),
    "includes": (includes, [{}, {"ignore_case": False}]),
    "exact": (exact, [{}]),
    "f1": (f1, [{}, {"stop_words": ["it", "is"]}]),
    "pattern": (
        pattern,
        [{"pattern": r"(\w+)\W*$"}, {"pattern": r"(\d+)\D+(\d+)", "match_all": True}, {"pattern": "par.s"}],
    ),
}


def state(text: str, choices: list[str] | None = None) -> TaskState:
    return TaskState(
        model=ModelName("mockllm/model"), sample_id="1", epoch=1, input="q", messages=[ChatMessageUser(content="q")],
        output=ModelOutput.from_content("mockllm/model", text), choices=choices,
    )  # fmt: skip


async def rows() -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for name, (scorer, all_options) in OPTIONS.items():
        for options, text, target in product(all_options, TEXTS, TARGETS):
            score = await scorer(**options)(state(text), Target(target))
            made.append(
                {
                    "function": name,
                    "options": options,
                    "response": text,
                    "references": target,
                    "score": score.as_float() if name == "f1" else float(score.value == "C"),
                }
            )
    for text, target in product(CHOSEN, (["B"], ["A", "B"])):
        asked = state(text, ["a stone", "a pear", "a chair"])
        for answer in parse_answers(asked, len(target) > 1):
            asked.choices.mark_choice(ord(answer) - ord("A"), True)
        score = await choice()(asked, Target(target))
        made.append(
            {
                "function": "choice",
                "options": {"choices": ["a stone", "a pear", "a chair"]},
                "response": text,
                "references": target,
                "score": float(score.value == "C"),
            }
        )
    return made


def main() -> None:
    every = asyncio.run(rows())
    # All of them were compared once by hand; a thirteenth of them keeps the file small and still meets every branch.
    found = [row for place, row in enumerate(every) if row["function"] == "choice" or place % 13 == 0]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in found)
    GOLDEN.write_text(f'{{"rows": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
