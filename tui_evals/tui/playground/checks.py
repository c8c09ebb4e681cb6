"""Checks that an answer suggests: evaluators that this very answer would pass, for a person to choose from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tui_evals.evaluators.base import CannotJudge, Evidence, NoValueToJudge, Score, ToolCall
from tui_evals.evaluators.registry import built_in
from tui_evals.text import strictjson
from tui_evals.text.tokens import estimate_tokens

Check = tuple[str, dict[str, Any]]
"""What a check asks for in words, and the evaluator with its options as a dataset holds them."""

_MOST = 8
_LONG = 20_000
"""An answer of more characters is hardly expected word for word, and comparing it takes a while."""
_NUMBER = re.compile(r"(?<![\w.,-])-?\d{1,20}(?:[.,:]\d{1,20}){0,4}%?(?!\w)")
_QUOTED = re.compile(r'"([^"\n]{1,60})"|“([^“”\n]{1,60})”|„([^„“”\n]{1,60})[“”]|«([^«»\n]{1,60})»|`([^`\n]{1,60})`')
_CITED = {"oai_unicode": "cite marks", "bracket": "[1]", "markdown": "[1](address)"}


def suggested_checks(reply_text: str, tool_calls: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Checks for an answer like this one; each passes on the answer itself, except those that ask a judge."""
    names = list(dict.fromkeys(str(call.get("name") or "") for call in tool_calls))
    calls = tuple(ToolCall(name) for name in names)
    evidence = Evidence(response=reply_text, expected=reply_text, tool_calls=calls)
    checks = list(_of_text(reply_text)) if reply_text.strip() else []
    checks += [(f"{name} is called", {"ToolCalled": {"tool_name": name}}) for name in names if name][:_MOST]
    return [check for check in checks if _passes(check[1], evidence)]


def _of_text(text: str) -> Iterator[Check]:
    values = _values(text)
    is_json = _is_json(text)
    if is_json:
        yield "the answer is valid JSON", {"JsonValid": {}}
        yield "it is the same JSON value as this answer", {"JsonMatch": {}}
    if len(text) <= _LONG:
        yield "it contains this answer word for word", {"ExactMatch": {}}
        yield "half of its words are those of this answer", {"PartialMatch": {"threshold": 0.5}}
        yield "it is about as long as this answer", {"WordCountMatch": {"threshold": 0.8}}
    yield "a judge finds that it means the same", {"Similarity": {}}
    if values and not is_json:
        yield f"any of {', '.join(values)}", {"ContainsAny": {"values": values, "ignore_case": True}}
    limit = -(-estimate_tokens(text) // 5) * 10
    yield f"fewer than {limit:,} tokens", {"Tokens": {"threshold": limit}}
    for form, looks in _CITED.items():
        yield f"it cites with {looks}", {"Citations": {"citation_format": form}}


def _values(text: str) -> list[str]:
    """Quoted words and numbers of a text, each once, the first of them."""
    values: dict[str, None] = {}
    for pattern in (_QUOTED, _NUMBER):
        for match in pattern.finditer(text):
            values[next(filter(None, match.groups()), match.group()).strip()] = None
            if len(values) >= _MOST:
                break
    return [value for value in values if value][:_MOST]


def _is_json(text: str) -> bool:
    """Whether a text is a JSON object or list; a lone number or word is no sign that JSON was wanted."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        strictjson.loads(text, duplicates=True)
    except strictjson.JsonError:
        return False
    return True


def _passes(check: Mapping[str, Any], evidence: Evidence) -> bool:
    ((name, options),) = check.items()
    kind = built_in()[name]
    if kind.judged:
        return True
    try:
        score = kind(kind.Options.model_validate(options)).score(evidence)
    except (NoValueToJudge, CannotJudge):
        return False
    return isinstance(score, Score) and score.result == "pass"


def as_evaluators(checks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several checks as the evaluators of one unit; of two of a kind the second gets a name of its own."""
    evaluators: dict[str, Any] = {}
    for check in checks:
        for name, options in check.items():
            key, number = name, 2
            while key in evaluators:
                key, number = f"{name}_{number}", number + 1
            evaluators[key] = dict(options) if key == name else {"type": name, **options}
    return evaluators


def with_checks(item: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The item judged by some checks: a conversation in its last turn."""
    if not checks:
        return dict(item)
    if turns := item.get("turns"):
        return {**item, "turns": [*turns[:-1], {**turns[-1], "evaluators": as_evaluators(checks)}]}
    return {**item, "evaluators": as_evaluators(checks)}
