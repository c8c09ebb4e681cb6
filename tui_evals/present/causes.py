"""Why answers of a run are missing, cut or not judged: each cause in words, with its remedy and what lists its rows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tui_evals.store.records import FailureCause, RunRow
from tui_evals.text.endings import ENDINGS

_PREFIXES = ("Agent request failed: ", "Evaluator failed: ")
_UNQUOTABLE = re.compile(r"[\"'`\\]|(?<!answered )\b\d+(?:\.\d+)?|[^ -~]+")
"""What stands for itself neither in a filter nor in a shell, and numbers, which differ between messages of a cause."""
_PATTERN = 60
_RAISED = " failed with "
_REMEDIES: Mapping[str, str] = {
    "agentRateLimited": "lower concurrency or set requests_per_minute; then {again}",
    "turnSkipped": "it follows from the turn before it, which has a cause of its own",
    "length": "raise max_tokens of the target; then {again}",
    "content_filter": "look at the question, or at the filter of the provider: {look}",
    **dict.fromkeys(("max_turns", "given_up"), "read the conversation: {look}"),
    "refusal": "look at the question: {look}",
    "evaluatorError": "{look} shows more; once it is mended, {again}",
    "evaluatorLoadError": "{look} shows more; once it is mended, {again}",
    "evaluatorConfigurationError": "mend the evaluator or the item; then {again}",
}


@dataclass(frozen=True, slots=True)
class CauseText:
    """A cause as every face tells it."""

    cause: FailureCause
    text: str
    """How many answers, and why."""
    remedy: str
    """What to do about it."""
    filter: str
    """What lists its answers, in `--only` and in the workbench."""
    command: str
    """The command that lists them."""

    @property
    def data(self) -> dict[str, Any]:
        """The cause as plain data."""
        return {**asdict(self.cause), "remedy": self.remedy, "filter": self.filter, "command": self.command}


def cause_texts(run: RunRow, causes: Sequence[FailureCause]) -> tuple[CauseText, ...]:
    """The causes of a run in words, in the order they came."""
    return tuple(_text(run, cause, causes) for cause in causes)


def _text(run: RunRow, cause: FailureCause, causes: Sequence[FailureCause]) -> CauseText:
    condition = cause_filter(cause, causes)
    only = f"--only {shlex.quote(condition)}"
    again = f"`tui-evals rerun {run.key} {only}` asks again"
    if cause.evaluator:
        again = f"`tui-evals rescore {run.key}` judges again and asks no target"
    look = f"`tui-evals show {run.key} --item {shlex.quote(cause.item)}`"
    template = _REMEDIES.get(cause.code, "once it is mended, {again}")
    if _RAISED in cause.message:
        template = "{look} shows where it was raised; once it is mended, {again}"
    return CauseText(
        cause,
        f"{cause.count:,}× {cause_sentence(cause)}",
        template.format(again=again, look=look),
        condition,
        f"tui-evals show {run.key} {only}",
    )


def cause_sentence(cause: FailureCause) -> str:
    """Why, without how often."""
    who = f"{cause.evaluator} could not judge: " if cause.evaluator else ""
    return who + plain_reason(cause.message)


def plain_reason(message: str) -> str:
    """A stored message without the words before it that say only that it is an error."""
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    return message


def cause_filter(cause: FailureCause, causes: Sequence[FailureCause]) -> str:
    """The shortest filter that finds the answers of a cause and those of no other."""
    if cause.code in ENDINGS and not cause.evaluator:
        return cause.code
    alike = [one for one in causes if bool(one.evaluator) == bool(cause.evaluator) and one.code not in ENDINGS]
    if len(alike) == 1:
        return "partial" if cause.evaluator else "error"
    if not cause.evaluator and sum(one.code == cause.code for one in alike) == 1:
        return f"cause:{cause.code}"
    pattern = _UNQUOTABLE.sub("*", plain_reason(cause.message))
    if len(pattern) > _PATTERN:
        pattern = pattern[:_PATTERN].rpartition(" ")[0] or pattern[:_PATTERN]
    return f'cause:"{pattern}"'


def cause_line(causes: Sequence[FailureCause]) -> str:
    """The most frequent cause and how many others there are, for where there is one line; empty where there is none."""
    if not causes:
        return ""
    more = f"; {len(causes) - 1} more causes" if len(causes) > 2 else "; 1 more cause" if len(causes) == 2 else ""
    return f"{causes[0].count:,}× {cause_sentence(causes[0]).rstrip('.')}{more}"
