"""The rules of the open dataset with the verdicts on their tests: read in the background, shown as rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, NamedTuple

from textual.widget import Widget
from textual.worker import Worker

from tui_evals.figures import percent
from tui_evals.light_records import dataclass
from tui_evals.present.columns import cell_width
from tui_evals.present.status import ANSWER_LOOKS, OVER
from tui_evals.store import run_figures
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, RunRow
from tui_evals.tui.latest_statuses import runs_of
from tui_evals.tui.rows import LazyRows, Piece, Row, Rows, Style, fit, paragraph, row, tone_style, wrapped
from tui_evals.tui.rules.state import BASELINE, LOOSE, RuleFiles, RuleLine, RuleSheet, read_rule_files, read_sheet
from tui_evals.tui.watch import Watch
from tui_evals.tui.workspace import Workspace

_JUDGE = "Compliance"
_MOST_ANSWERS = 200_000


class VerdictTally(NamedTuple):
    """Verdicts: those that passed, all of them, answers without one because something broke, answers to come."""

    passed: int = 0
    judged: int = 0
    errors: int = 0
    open: int = 0


NOTHING = VerdictTally()


@dataclass(frozen=True, slots=True)
class CollectedVerdicts:
    """The verdicts by target and name of a test, those of a newer run in place of an older one's."""

    by_target: Mapping[str, Mapping[str, VerdictTally]] = field(default_factory=dict)
    compliance: bool = False
    """Whether all were judged by their rules; else some count by what all evaluators said together."""


@dataclass(frozen=True, slots=True)
class _RunVerdicts:
    """The verdicts of one run."""

    by_target: Mapping[str, Mapping[str, VerdictTally]]
    compliance: bool
    answers: int


class VerdictReader:
    """Reads the runs of a dataset, the latest first; finished ones are read once."""

    def __init__(self, database: Path, root: Path) -> None:
        self._database = database
        self._root = root
        self._known: dict[int, tuple[Hashable, _RunVerdicts]] = {}

    def read(self, file: Path) -> CollectedVerdicts:
        """The verdicts on the tests of a dataset. For one thread at a time; StoreError if they cannot be read."""
        by_target: dict[str, dict[str, VerdictTally]] = {}
        compliance, answers = True, 0
        with Reader(self._database) as reader:
            for run in runs_of(reader, file, self._root):
                verdicts = self._run(reader, run)
                for target, tallies in verdicts.by_target.items():
                    own = by_target.setdefault(target, {})
                    fresh = [name for name, tally in tallies.items() if name not in own and tally != NOTHING]
                    own.update((name, tallies[name]) for name in fresh)
                    compliance = compliance and (verdicts.compliance or not fresh)
                answers += verdicts.answers
                if answers > _MOST_ANSWERS:
                    break
        return CollectedVerdicts({target: own for target, own in by_target.items() if own}, compliance)

    def _run(self, reader: Reader, run: RunRow) -> _RunVerdicts:
        mark = (run.status, run.scoring_pass, run.rejudgings, run.heartbeat)
        known = self._known.get(run.id)
        if known is not None and known[0] == mark and run.status in OVER:
            return known[1]
        verdicts = _verdicts(reader, run)
        self._known[run.id] = (mark, verdicts)
        return verdicts


def _verdicts(reader: Reader, run: RunRow) -> _RunVerdicts:
    """The verdicts of a run: those of Compliance, once for each judge, else what became of the answers."""
    keys = {
        mean.key
        for mean in run_figures.evaluator_means(reader, run.id)
        if mean.evaluator == _JUDGE and mean.scope == "answer"
    }
    judged: dict[int, list[bool]] = {}
    for score in run_figures.judged(reader, run.id) if keys else ():
        if score.key in keys and score.result in ("pass", "fail"):
            judged.setdefault(score.answer, []).append(score.result == "pass")
    by_target: dict[str, dict[str, VerdictTally]] = {}
    answers = 0
    for answer in reader.all_rows(run.id):
        answers += 1
        verdicts = judged.get(answer.id, [])
        if not keys and answer.status in ("pass", "partial", "fail"):
            verdicts = [answer.status == "pass"]
        waits = run.status not in OVER and answer.status in ("pending", "running", "answered")
        tally = VerdictTally(sum(verdicts), len(verdicts), int(answer.status == "error" and not verdicts), int(waits))
        own = by_target.setdefault(_column(run, answer.prompt, answer.target), {})
        own[answer.name] = add_tallies((own.get(answer.name, NOTHING), tally))
    return _RunVerdicts(by_target, bool(keys), answers)


def _column(run: RunRow, prompt: int, target: int) -> str:
    """The name of a column: the target, and the prompt if there are several."""
    name = run.targets[target] if target < len(run.targets) else str(target)
    return f"{name} · {run.prompts[prompt]}" if len(run.prompts) > 1 and prompt < len(run.prompts) else name


def add_tallies(tallies: Iterable[VerdictTally]) -> VerdictTally:
    """Several together."""
    return VerdictTally(*map(sum, zip(*tallies, strict=True))) if (tallies := tuple(tallies)) else NOTHING


@dataclass(frozen=True, slots=True)
class VerdictBoard:
    """The verdicts next to the rules and tests of a sheet."""

    targets: tuple[str, ...] = ()
    by_row: Mapping[object, tuple[VerdictTally, ...]] = field(default_factory=dict)
    tests: Mapping[int, tuple[VerdictTally, ...]] = field(default_factory=dict)
    compliance: bool = True

    def row(self, key: object) -> tuple[VerdictTally, ...]:
        """The verdicts on a rule, by target."""
        return self.by_row.get(key, (NOTHING,) * len(self.targets))

    def test(self, position: int) -> tuple[VerdictTally, ...]:
        """The verdicts on a test, by target."""
        return self.tests.get(position, (NOTHING,) * len(self.targets))


def verdict_board(sheet: RuleSheet, rates: CollectedVerdicts) -> VerdictBoard:
    """Put the verdicts next to the rules; for a thread."""
    targets = tuple(rates.by_target)
    columns = [rates.by_target[target] for target in targets]
    tests = {
        position: tuple(column.get(case.name, NOTHING) for column in columns)
        for position, case in enumerate(sheet.cases)
        if any(case.name in column for column in columns)
    }
    rows: dict[object, tuple[VerdictTally, ...]] = {}
    for key in (*(line.key for line in sheet.lines), BASELINE, LOOSE):
        mine = [tests[position] for position in sheet.tests(key) if position in tests]
        rows[key] = tuple(add_tallies(tally[column] for tally in mine) for column in range(len(targets)))
    return VerdictBoard(targets, rows, tests, rates.compliance or not targets)


_NUMBER, _COUNT = 5, 7
_LEAST = 24  # columns a rule needs before there is room for a rate
_LEAST_TEXT = 12  # columns for its text after its number and marks
_WIDEST = 18
_STATUS = 9
_EXPECTED = 60  # columns from which the expected text is next to the question
_GROUPS = {BASELINE: "baseline tests, made without rules", LOOSE: "tests of no rule"}
_GROUNDED: Mapping[str, tuple[str, Style, str]] = {
    "ok": ("✓", "pass", "the prompt says so"),
    "err": ("✗", "fail", "the prompt does not say so"),
    "unknown": ("?", "dim", "unclear whether the prompt says so"),
}


def no_rules(prompt: object, width: int) -> Rows:
    """The options if a dataset was not generated from rules."""
    name = prompt if isinstance(prompt, str) else "PROMPT"
    text = (
        "This dataset was not made from rules, so there are none to show.\n\n"
        f"8 in the workbench, or tui-evals generate {name}, makes one that is: it finds the rules the answers of a "
        "prompt must keep, inverts each of them, writes tests for all, and what they should answer. Both say first "
        "what it costs (the command with --plan). Open what it writes and come back here."
    )
    return paragraph(text, width)


def head_rows(sheet: RuleSheet, board: VerdictBoard | None, news: Sequence[tuple[str, Style]], width: int) -> list[Row]:
    """The dataset, the meaning of the rates, and other remarks."""
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
        return "Reading the results of the tests…"
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
        """The row with the column titles."""
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
    """A rule with its facts and its tests; the key of a test is its position in the dataset."""

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
    """The result of a test: a word, or the number of its answers."""
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
    """The messages of a generation, one paragraph each."""
    rows = [line for text in messages for line in paragraph(text, width)]
    return rows or [row(("Nothing yet.", "dim"))]


_SHARE = 4  # reading verdicts takes a fifth of the time at most


class Rulebook:
    """The sheet of the open dataset and its board; `changed` is called when one of them is another."""

    def __init__(self, widget: Widget, workspace: Workspace, watch: Watch, changed: Callable[[], None]) -> None:
        self.sheet = RuleSheet()
        self.board: VerdictBoard | None = None
        self.origin = RuleFiles()
        self.problem = ""
        """Why nothing can be said of the runs."""
        self._widget = widget
        self._workspace = workspace
        self._watch = watch
        self._changed = changed
        self._rater = VerdictReader(workspace.database, workspace.root)
        self._rates = CollectedVerdicts()
        self._read: object = None
        self._rated: object = None
        self._touched = 0
        self._busy = False
        self._work: Worker[None] | None = None
        self._rest = 0.0
        """Until when the verdicts are not read again, though others may have come."""

    @property
    def differs(self) -> bool:
        """Whether the files next to the dataset hold other rules than it does."""
        return self.origin.texts is not None and self.origin.texts != self.sheet.texts

    @property
    def ready(self) -> bool:
        """Whether the sheet is that of the current dataset."""
        return self._read is not None and self._read == self._mark

    @property
    def _mark(self) -> object:
        """The values that the sheet depends on."""
        editing = self._workspace.editing
        return (id(editing), editing.version, editing.document.digest, self._touched) if editing else None

    def touch(self) -> None:
        """The files next to the dataset have changed."""
        self._touched += 1
        self.soon()

    def soon(self) -> None:
        """Read again what has changed."""
        if not self._busy and self._stale():
            self._busy = True
            self._work = self._widget.run_worker(
                self._go_on(), group="rules", name="reading the rules", exit_on_error=False
            )

    async def settled(self) -> None:
        """Wait until the rules are those of now."""
        while self._work is not None and not self.ready and not self._work.is_finished:
            await self._work.wait()

    def _stale(self) -> bool:
        if self._mark is None or (self.ready and time.monotonic() < self._rest):
            return False
        return self._rated != (self._mark, self._watch.reader.data_version())

    async def _go_on(self) -> None:
        """Read until the rules are current; the verdicts only once, because they keep changing during a run."""
        try:
            while self._mark is not None and not self.ready:
                await self._sheet()
            await self._verdicts()
        finally:
            self._busy = False
        self._again()

    def _again(self) -> None:
        if not self.ready:
            self.soon()

    async def _sheet(self) -> None:
        mark, editing = self._mark, self._workspace.editing
        if editing is None:
            return
        data, file = editing.data, editing.document.file
        origin, sheet, new_board = await asyncio.to_thread(_read, data, file, self._rates)
        if mark == self._mark:
            another = self._read is None or not isinstance(self._read, tuple) or self._read[0] != id(editing)
            self.origin, self.sheet, self._read = origin, sheet, mark
            self.board = None if another else new_board
            self._changed()

    async def _verdicts(self) -> None:
        editing, sheet, mark = self._workspace.editing, self.sheet, self._read
        if editing is None:
            return
        version, began = (mark, self._watch.reader.data_version()), time.monotonic()
        try:
            rates = await asyncio.to_thread(self._rater.read, editing.document.file)
            new_board = await asyncio.to_thread(verdict_board, sheet, rates)
        except StoreError as problem:
            self.problem = str(problem)
        else:
            self.problem = ""
            self._rest = time.monotonic() + _SHARE * (time.monotonic() - began)
            if mark == self._read:
                self._rates, self.board, self._rated = rates, new_board, version
        self._changed()


def _read(data: dict[str, Any], file: Path, rates: CollectedVerdicts) -> tuple[RuleFiles, RuleSheet, VerdictBoard]:
    origin = read_rule_files(file)
    sheet = read_sheet(data, origin.most)
    return origin, sheet, verdict_board(sheet, rates)
