"""How values are shown in reasons, taken from answers and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import thread_time

from tui_evals.light_records import dataclass
from tui_evals.text.patterns import PatternTimeout

from .base import Evidence, Misconfigured, as_text, response_values


def quoted(text: str) -> str:
    """A text as a reason shows it: in quotes, at most 80 characters, nothing in it acting on a screen."""
    return repr(text if len(text) <= 80 else text[:79] + "…")


def quoted_list(texts: Sequence[str]) -> str:
    """The first three of some texts and how many more there are."""
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return ", ".join(map(quoted, texts[:3])) + more


def response_texts(evidence: Evidence, json_path: str | None) -> tuple[str, ...]:
    """`response_values` as text."""
    return tuple(map(as_text, response_values(evidence, json_path)))


def target_texts(evidence: Evidence, values: Sequence[str] | None, option: str = "value") -> tuple[str, ...]:
    """The texts to compare with: those of an option, else every reference of the item."""
    if values is not None:
        return tuple(values)
    if not evidence.references:
        reason = f"nothing to compare with: give the option {option}, or the item an expected_response or ideal"
        raise Misconfigured(reason)
    return evidence.references


def strictly_equal(left: object, right: object) -> bool:
    """Whether two JSON scalars are the same: 1 is 1.0 and is not true."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def same_json(left: object, right: object, scalars: Callable[[object, object], bool] = strictly_equal) -> bool:
    """Whether two JSON values are equal: objects in any order of keys, arrays in order."""
    pending = [(left, right)]
    while pending:  # no recursion, so no depth of nesting breaks it
        first, second = pending.pop()
        if isinstance(first, dict) and isinstance(second, dict):
            if first.keys() != second.keys():
                return False
            pending.extend((first[key], second[key]) for key in first)
        elif isinstance(first, list) and isinstance(second, list):
            if len(first) != len(second):
                return False
            pending.extend(zip(first, second, strict=True))
        elif not scalars(first, second):
            return False
    return True


@dataclass(slots=True)
class PatternBudget:
    """The time all patterns together may take on one answer."""

    seconds: float = 1.0

    def search(self, pattern: Callable[[str], bool], text: str) -> bool:
        """Whether the pattern matches the text; PatternTimeout when the time was already used up."""
        if self.seconds < 0:
            raise PatternTimeout("the patterns took more than a second on this answer; make them simpler")
        start = thread_time()
        result = pattern(text)
        self.seconds -= thread_time() - start
        return result
