"""The wording of permissions that a project asks for or has, for every interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tui_evals.light_records import dataclass
from tui_evals.runs.approving import AgreedPermissions, PermissionRequest
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe_line

_MOST_NAMES = 12


def request_title(request: PermissionRequest) -> str:
    """The title of the question."""
    return f"{request.root} asks for your yes before it"


@dataclass(frozen=True, slots=True)
class RequestLines:
    """One permission in the question."""

    line: str
    """The action, the file that asks for it, and whether its code is new since the last approval."""
    code: tuple[str, ...]
    """The code to read before a yes: its files at first, afterwards what changed, like a pull request."""


def request_lines(request: PermissionRequest) -> list[RequestLines]:
    """Everything that is asked about."""
    lines = []
    for permission in request.missing:
        since = " – its code has changed since you said yes" if request.has_changed(permission) else ""
        code = _code_lines(request, permission.digest)
        lines.append(RequestLines(f"{permission.sentence}{since}", tuple(code)))
    return lines


def _code_lines(request: PermissionRequest, digest: str) -> Iterator[str]:
    review = request.reviews.get(digest)
    if review is None or not review.files:
        return
    yield from (safe_line(line) for line in review.diff or (f"runs {_listed(review.files)}",))
    if review.uncovered:
        yield f"not covered, may change without a question: {_listed(review.uncovered)}"
    if not review.is_sealed:
        yield "what these files start or load is not covered"


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence, of many the first."""
    more = f" and {counted(len(names) - _MOST_NAMES, 'more file')}" if len(names) > _MOST_NAMES else ""
    return safe_line(", ".join(names[:_MOST_NAMES])) + more


def agreed_before(request: PermissionRequest) -> str:
    """How many permissions were given before; empty without any."""
    count = len(request.agreed)
    if not count:
        return ""
    them = "it" if count == 1 else "them"
    return f"You agreed to {counted(count, 'other thing')} here before. `tui-evals trust show` lists {them}."


def agreed_lines(agreed: AgreedPermissions, root: Path) -> list[str]:
    """Everything agreed to in a project, one thing a line."""
    lines = []
    if agreed.is_own:
        lines.append(f"{root} is yours: it was begun here, or you trusted the folder, and is asked nothing")
    for entry in agreed.entries:
        where = f" ({entry['where']})" if entry["where"] else ""
        lines.append(f"{entry['when'][:10]}  {entry['does']}{where}")
    return lines or [f"nothing is agreed to in {root}"]
