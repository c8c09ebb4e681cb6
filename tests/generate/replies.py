"""What the model of a generation replies: good replies, made from the question alone, and bad ones."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence

from tests.generate.expected import Asked

REFUSAL = "I'm sorry, but I can't assist with that."
_Reply = Callable[[Asked, Sequence[int]], str]


def reply_to(asked: Asked, scores: Sequence[int]) -> str:
    """The good reply to a question."""
    return _REPLIES[asked.step](asked, scores)


def _intent(asked: Asked, scores: Sequence[int]) -> str:
    return f"Help as this says: {asked.texts['prompt'].split(chr(10))[1]}"


def _inputspec(asked: Asked, scores: Sequence[int]) -> str:
    names = dict.fromkeys(re.findall(r"\{\{(\w+)\}\}", asked.texts["prompt"]))
    return "\n".join(f"- The input {name} is a short text." for name in names)


def _rules(asked: Asked, scores: Sequence[int]) -> str:
    wanted = re.search(r"the (\d+) most important rules", asked.shown)
    found = [line[2:] for line in asked.texts["prompt"].split("\n") if line.startswith("- ")]
    return "Rules:\n" + "\n".join(f"{n}. The output obeys: {rule}" for n, rule in _numbered(found, wanted))


def _numbered(found: list[str], wanted: re.Match[str] | None) -> list[tuple[int, str]]:
    return list(enumerate(found[: int(wanted[1]) if wanted else None], 1))


def _inverse(asked: Asked, scores: Sequence[int]) -> str:
    return "\n".join(f"{n}. Not so: {rule}" for n, rule in enumerate(asked.texts["rules"].split("\n"), 1))


def _table(asked: Asked, names: Sequence[str] | None = None) -> str:
    """The CSV that is asked for; each round of the conversation has tests of its own."""
    count = int(re.findall(r"Write (\d+) tests for each rule", asked.shown)[0])
    before = count * sum(" more tests" in said["content"] for said in asked.messages if said["role"] == "user")
    numbers = [line.partition(".")[0] for line in asked.texts["rules"].split("\n")]
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(["ruleid", "testid", "expectedoutput", "reasoning", *(names or asked.names)])
    for number in numbers:
        for place in range(before + 1, before + count + 1):
            about = f"rule {number}, test {place}"
            fixed = "calm" if "calm" in asked.texts.get("scenario", "") else "open"
            write([number, place, f'say "{about}"', about, *(f"{name}: {about} ({fixed})" for name in asked.names)])
    return out.getvalue()


def _baseline(asked: Asked, scores: Sequence[int]) -> str:
    count = int(re.findall(r"Write (\d+) of them", asked.shown)[0])
    rows = [{name: f"{name} {place} of no rule" for name in asked.names} for place in range(1, count + 1)]
    return "\n===\n".join(json.dumps(row) if len(row) > 1 else next(iter(row.values())) for row in rows)


def _expansion(asked: Asked, scores: Sequence[int]) -> str:
    longer = "{} And so on, and so on.".format
    given = asked.texts["input"]
    if len(asked.names) < 2:
        return longer(given)
    return json.dumps({name: longer(value) for name, value in json.loads(given).items()})


def _verdict(asked: Asked, scores: Sequence[int]) -> str:
    bad = "test 1 " in asked.texts.get("input", "") or "Never" in asked.texts.get("rule", "")
    return f"This is my reason.\n{'ERR' if bad else 'OK'}"


def _coverage(asked: Asked, scores: Sequence[int]) -> str:
    return f"From the rules alone: {asked.messages[-1]['content']}"


def _answer(asked: Asked, scores: Sequence[int]) -> str:
    number = f" no. {asked.answers + 1}" if scores else ""
    return f"Answer{number} to {asked.messages[-1]['content']}"


def _referee(asked: Asked, scores: Sequence[int]) -> str:
    number = re.match(r"Answer no\. (\d+)", asked.texts["output"])
    score = scores[int(number[1]) - 1] if number else 90
    return json.dumps({"explanation": "I compared.", "score": score})


_REPLIES: Mapping[str, _Reply] = {
    "intent": _intent,
    "inputspec": _inputspec,
    "rules": _rules,
    "inverse": _inverse,
    "tests": lambda asked, scores: _table(asked),
    "more": lambda asked, scores: _table(asked),
    "repair": lambda asked, scores: _table(asked),
    "baseline": _baseline,
    "expansion": _expansion,
    "validity": _verdict,
    "groundedness": _verdict,
    "coverage": _coverage,
    "compliance": lambda asked, scores: "It keeps to them.\nOK",
    "groundtruth": _answer,
    "answer": _answer,
    "groundtruth-judge": _referee,
    "accuracy": _referee,
}


def _chatter(asked: Asked, scores: Sequence[int]) -> str:
    return f"Sure! Here you are, as wanted:\n\n```csv\n{reply_to(asked, scores)}\n```\nLet me know, if you, need more."


def _bare_chatter(asked: Asked, scores: Sequence[int]) -> str:
    return f"Sure, here they are:\n{reply_to(asked, scores)}\nI hope this helps, and that it, is enough, for you, ok?"


def _columns(asked: Asked, scores: Sequence[int]) -> str:
    """A first line that does not fit the rows."""
    return _table(asked, [*asked.names, "mood_of_the_day"])


def _some_columns(asked: Asked, scores: Sequence[int]) -> str:
    """The first row with a cell too many, the second with one too few."""
    head, first, second, *rest = reply_to(asked, scores).split("\n")
    return "\n".join([head, f"{first},extra", second.rpartition(',"')[0], *rest])


KINDS: Mapping[str, _Reply] = {
    "refusal": lambda asked, scores: REFUSAL,
    "empty": lambda asked, scores: "",
    "chatter": _chatter,
    "bare_chatter": _bare_chatter,
    "columns": _columns,
    "some_columns": _some_columns,
    "nonsense": lambda asked, scores: "I would rather talk about the weather.",
    "few": lambda asked, scores: reply_to(asked, scores).split("\n")[0],
    "none": lambda asked, scores: "Rules:\n",
    "many": lambda asked, scores: "\n".join(f"{n}. The output is no. {n}." for n in range(1, 501)),
}
