"""The rules of a dataset as rows: a list with how often each was kept, and one rule in full with its tests."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from tui_evals.compare.statistics import percent
from tui_evals.present.columns import cell_width
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.store.records import AnswerStatus
from tui_evals.tui.rows import LazyRows, Piece, Row, Rows, Style, fit, paragraph, row, tone_style, wrapped

from .rates import NOTHING, VerdictBoard, VerdictTally
from .state import BASELINE, LOOSE, RuleLine, RuleSheet

_NUMBER, _COUNT = 5, 7
_LEAST = 24  # columns a rule needs before there is room for a rate
_LEAST_TEXT = 12  # columns of its text beside what stands before it
_WIDEST = 18
_STATUS = 9
_EXPECTED = 60  # columns from which what is expected stands beside what is asked
_GROUPS = {BASELINE: "baseline tests, made without rules", LOOSE: "tests of no rule"}
_GROUNDED: Mapping[str, tuple[str, Style, str]] = {
    "ok": ("✓", "pass", "the prompt says so"),
    "err": ("✗", "fail", "the prompt does not say so"),
    "unknown": ("?", "dim", "nobody could tell whether the prompt says so"),
}


def no_rules(prompt: object, width: int) -> Rows:
    """What there is to do where a dataset was not made from rules."""
    name = prompt if isinstance(prompt, str) else "PROMPT"
    text = (
        "This dataset was not made from rules, so there are none to show.\n\n"
        f"    tui-evals generate {name}\n\n"
        "makes one that is: it finds the rules the answers of a prompt must keep, inverts each of them, writes tests "
        "for all, and what they should answer. Open what it writes and come back here. "
        "With --plan it first says what it costs."
    )
    return paragraph(text, width)


def head_rows(sheet: RuleSheet, board: VerdictBoard | None, news: Sequence[tuple[str, Style]], width: int) -> list[Row]:
    """What dataset this is, what the rates say, and what there is to say besides."""
    output, inverse = len(sheet.texts.output), len(sheet.texts.inverse)
    tests = sum(len(line.tests) for line in sheet.lines)
    about = f" · {_count_of(output, 'rule')} and {inverse} inverse · {_count_of(tests, 'test')}"
    if sheet.most is not None and sheet.most < max(output, inverse):
        about += f" · tested: the first {sheet.most}"
    rows = [row(("Rules of ", "dim"), (sheet.name or "this dataset", "title"), fit(about, max(width - 30, 0), "dim"))]
    rows += [row((line, "dim")) for line in wrapped(_meaning(board), width)]
    for text, style in news:
        rows.append(row(fit(text, width, style)))
    return rows


def _meaning(board: VerdictBoard | None) -> str:
    if board is None:
        return "Reading what came of the tests…"
    if not board.targets:
        return "No test has been run yet: r runs those of a rule, R runs all."
    by = "passed Compliance" if board.compliance else "passed all evaluators"
    return f"Rates: judged answers that {by}, each test as it was asked last."


# -- the list


class Columns:
    """How wide the parts of a row are, and which targets have room."""

    def __init__(self, board: VerdictBoard, keys: Sequence[object], width: int) -> None:
        self.rates: list[int] = []
        left = width - _NUMBER - _COUNT
        for place, target in enumerate(board.targets):
            longest = max((len(rate_text(board.row(key)[place])) for key in keys), default=0)
            wide = min(max(longest, cell_width(target)), _WIDEST) + 2
            if left - wide < _LEAST:
                break
            self.rates.append(wide)
            left -= wide
        self.text = max(left, 0)

    def title(self, board: VerdictBoard) -> Row:
        """What stands over the columns."""
        names = [fit(name, wide, "dim", right=True) for name, wide in zip(board.targets, self.rates, strict=False)]
        left = len(board.targets) - len(self.rates)
        text = "rule" + (f" (+{left} {'models' if left > 1 else 'model'} below)" if left else "")
        return row(
            fit("", _NUMBER), fit(text, self.text, "dim"), fit("tests", _COUNT - 1, "dim", right=True), " ", *names
        )


def rule_rows(
    sheet: RuleSheet, board: VerdictBoard, shown: Mapping[object, tuple[int, ...]], columns: Columns
) -> list[Row]:
    """Each rule on as many rows as its text needs, and a row for the tests that belong to none."""
    rows: list[Row] = []
    for key, tests in shown.items():
        line = sheet.line(key)
        number = "" if line is None else str(line.rule.number or "–")
        rates = [
            fit(rate_text(tally), wide, rate_style(tally), right=True)
            for tally, wide in zip(board.row(key), columns.rates, strict=False)
        ]
        count = Piece(f"{len(tests):,}".rjust(_COUNT - 1) + " ", "" if tests else "warn")
        first, *more = _rule_lines(line, key, columns.text)
        rows.append(Row((fit(number, _NUMBER, "dim"), *first, count, *rates), key))
        rows += [Row((fit("", _NUMBER), *pieces)) for pieces in more]
    return rows


def _rule_lines(line: RuleLine | None, key: object, width: int) -> list[tuple[Piece, ...]]:
    if line is None:
        return [(fit(_GROUPS[str(key)], width, "dim"),)]
    mark = f"inverts {line.rule.of}: " if line.rule.inverse else ""
    glyph, style, _ = _GROUNDED.get(line.grounded, ("", "", ""))
    pieces = [Piece(glyph + " ", style)] if glyph and line.grounded != "ok" else []
    before = min(len(mark) + 2 * len(pieces), max(width - _LEAST_TEXT, 0))
    first, *more = wrapped(line.rule.text, max(width - before - 1, 1))
    head = (*pieces, Piece(mark, "accent")) if before == len(mark) + 2 * len(pieces) else (fit(mark, before, "accent"),)
    return [(*head, fit(first, width - before)), *((fit("", before), fit(text, width - before)) for text in more)]


def rate_text(tally: VerdictTally) -> str:
    """A rate as sign, share and numbers."""
    if not tally.judged:
        return "▸ under way" if tally.open else f"! {_count_of(tally.errors, 'error')}" if tally.errors else "–"
    sign = ANSWER_LOOKS[_status(tally)].glyph
    more = " ▸" if tally.open else " !" if tally.errors else ""
    return f"{sign} {percent(tally.passed / tally.judged, 0)} {tally.passed:,}/{tally.judged:,}{more}"


def rate_style(tally: VerdictTally) -> Style:
    """The colour that goes with the sign."""
    if not tally.judged:
        return "running" if tally.open else "error" if tally.errors else "dim"
    return tone_style(ANSWER_LOOKS[_status(tally)].tone)


def _status(tally: VerdictTally) -> AnswerStatus:
    if tally.passed == tally.judged:
        return "pass"
    return "partial" if tally.passed else "fail"


# -- a rule in full


class RuleRows(LazyRows):
    """A rule, what is known of it, and its tests; the key of a test is its position in the dataset."""

    def __init__(self, sheet: RuleSheet, board: VerdictBoard, key: object, tests: Sequence[int], width: int) -> None:
        self._head = _head(sheet, board, key, len(tests), width)
        self._sheet = sheet
        self._board = board
        self._tests = tests
        self._rows = {test: number for number, test in enumerate(tests, len(self._head))}
        room = width - len(board.targets) * _STATUS
        self._targets = len(board.targets) if room >= _LEAST else 0
        room = width - self._targets * _STATUS
        self._expected = room // 3 if room >= _EXPECTED else 0
        self._asked = room - self._expected

    def __len__(self) -> int:
        return len(self._head) + len(self._tests)

    def row_at(self, number: int) -> Row:
        """A row of the head, or a test."""
        if number < len(self._head):
            return self._head[number]
        test = self._tests[number - len(self._head)]
        case, tallies = self._sheet.cases[test], self._board.test(test)
        statuses = [fit(status_text(tally), _STATUS, rate_style(tally)) for tally in tallies[: self._targets]]
        question = case.question or case.name
        if not self._expected:
            return Row((*statuses, fit(question, self._asked)), test)
        return Row(
            (*statuses, fit(question, self._asked - 1), Piece(" "), fit(case.expected, self._expected, "dim")), test
        )

    def find(self, key: Hashable) -> int | None:
        """The row of a test."""
        return self._rows.get(key) if isinstance(key, int) else None


def status_text(tally: VerdictTally) -> str:
    """What came of a test: a word, or how many of its answers."""
    if not tally.judged:
        return "▸" if tally.open else "! error" if tally.errors else "–"
    status = _status(tally)
    return f"{ANSWER_LOOKS[status].glyph} " + (status if tally.judged == 1 else f"{tally.passed}/{tally.judged}")


def _head(sheet: RuleSheet, board: VerdictBoard, key: object, tests: int, width: int) -> list[Row]:
    line = sheet.line(key)
    rows: list[Row] = []
    if line is None:
        rows.append(row(fit(_GROUPS[str(key)].capitalize(), width, "title")))
    else:
        rows += _about(sheet, line, width)
    for target, tally in zip(board.targets, board.row(key), strict=True):
        if tally != NOTHING:
            rate = rate_text(tally)
            rows.append(row((rate, rate_style(tally)), fit(f"  {target}", max(width - len(rate), 0), "dim")))
    return [*rows, _tests_title(line, board, tests, width)]


def _tests_title(line: RuleLine | None, board: VerdictBoard, tests: int, width: int) -> Row:
    if tests:
        judged_by = f", by {'Compliance' if board.compliance else 'all evaluators'}: " if board.targets else ""
        text = _count_of(tests, "test") + judged_by + ", ".join(board.targets)
    elif line is not None and not line.rule.number:
        text = "It is not tested; t has tests made for it."
    else:
        text = "It has no tests yet; t has some made." if line is not None else "none"
    return row(fit(text, width, "title"), ground="title")


def _about(sheet: RuleSheet, line: RuleLine, width: int) -> list[Row]:
    rule, other = line.rule, sheet.line((not line.rule.inverse, line.rule.of))
    name = f"Inverse rule {rule.number or ''}".rstrip() if rule.inverse else f"Rule {rule.number or rule.of}"
    rows = [row((name, "title")), *paragraph(rule.text, width, "strong")]
    if line.grounded in _GROUNDED:
        glyph, style, message = _GROUNDED[line.grounded]
        rows += paragraph(f"{glyph} {message}" + (f": {line.why}" if line.why else ""), width, style)
    if other is None:
        return rows
    number = f" {other.rule.number}" if other.rule.number else ""
    message = f"inverts rule{number}: " if rule.inverse else f"its inverse{number}: "
    return [*rows, *paragraph(message + other.rule.text, width, "dim")]


def _count_of(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def message_rows(messages: Sequence[str], width: int) -> list[Row]:
    """What a generation said, a paragraph for each."""
    rows = [line for text in messages for line in paragraph(text, width)]
    return rows or [row(("Nothing yet.", "dim"))]
