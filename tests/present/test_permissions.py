"""What is said of permissions that a project asks for or has."""

from pathlib import Path

import pytest

from tui_evals.present.permissions import agreed_before, agreed_lines, request_lines, request_title
from tui_evals.runs.approving import AgreedPermissions, PermissionRequest
from tui_evals.targets.permissions import Permission
from tui_evals.targets.user_code import CodeReview

ROOT = Path("/home/me/project")
RUNS = Permission("command", "runs ./agent.sh", where="config.toml")
YES = {"kind": "command", "does": "runs ./agent.sh", "where": "config.toml", "when": "2026-05-04 10:00"}


def a_request(review=None, agreed=()):
    return PermissionRequest(ROOT, (RUNS,), tuple(agreed), {RUNS.digest: review} if review else {})


def a_review(count=1, **given):
    files = tuple(f"f{number}.py" for number in range(count))
    return CodeReview(**{"files": files, "uncovered": (), "is_sealed": True, "is_new": True, **given})


@pytest.mark.parametrize("review", [None, a_review(), a_review(is_new=False)])
@pytest.mark.parametrize("agreed", [(), (YES,), ({**YES, "does": "runs ./other.sh"},)])
def test_a_change_of_code_is_said_where_the_same_was_agreed_to(review, agreed):
    (asked,) = request_lines(a_request(review, agreed))
    changed = YES in agreed or (review is not None and not review.is_new)
    since = " – its code has changed since you said yes" if changed else ""
    assert asked.line == f"runs ./agent.sh (config.toml){since}"
    assert asked.code == (() if review is None else ("runs f0.py",))


@pytest.mark.parametrize("count", range(18))
def test_of_many_files_the_first_are_named_and_the_others_counted(count):
    (asked,) = request_lines(a_request(a_review(count)))
    shown = ", ".join(f"f{number}.py" for number in range(min(count, 12)))
    left = max(count - 12, 0)
    more = f" and {left} more file{'' if left == 1 else 's'}" if left else ""
    assert asked.code == ((f"runs {shown}{more}",) if count else ())


def test_what_changed_and_what_is_not_covered_is_shown_on_lines_of_their_own():
    review = a_review(diff=("-old\x1b[2J", "+new"), uncovered=("data.txt",), is_sealed=False)
    (asked,) = request_lines(a_request(review))
    assert asked.code[0].startswith("-old") and "\x1b" not in asked.code[0]
    assert asked.code[1:] == (
        "+new",
        "not covered, may change without a question: data.txt",
        "what these files start or load is not covered",
    )
    assert request_lines(a_request(a_review(0, uncovered=("data.txt",), is_sealed=False)))[0].code == ()


def test_what_was_agreed_to_is_counted_and_listed():
    assert request_title(a_request()) == "/home/me/project asks for your yes before it"
    assert [agreed_before(a_request(agreed=[YES] * count)) for count in range(3)] == [
        "",
        "You agreed to 1 other thing here before. `tui-evals trust show` lists it.",
        "You agreed to 2 other things here before. `tui-evals trust show` lists them.",
    ]
    assert agreed_lines(AgreedPermissions(False, ()), ROOT) == ["nothing is agreed to in /home/me/project"]
    own, *entries = agreed_lines(AgreedPermissions(True, (YES, {**YES, "where": ""})), ROOT)
    assert own.startswith("/home/me/project is yours")
    assert entries == ["2026-05-04  runs ./agent.sh (config.toml)", "2026-05-04  runs ./agent.sh"]
