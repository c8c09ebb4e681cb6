"""Blind labelling: a random sample of a run's answers, judged by a person who does not see the scores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui_evals.compare.blind import (
    SAMPLE,
    SYSTEM_ROLES,
    BlindText,
    LabellingSession,
    Sample,
    Verdict,
    draw_sample,
    labelling_parts,
)
from tui_evals.compare.labels import AgreementLine, all_agreement_lines, evaluator_agreements
from tui_evals.light_records import dataclass
from tui_evals.store.baselines import author_here
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.rows import plain
from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import Where, bindings
from tui_evals.tui.diff_rows import filled_up
from tui_evals.tui.pane import FeatureScreen
from tui_evals.tui.rows import JoinedRows, LazyRows, Piece, Row, RowMaker, Rows, Style, heading, paragraph, row
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import Ask, Confirm
from tui_evals.tui.widgets.inputs import give_keys
from tui_evals.tui.widgets.lines import SEARCHING, Lines
from tui_evals.tui.workspace import StoreWriter


@dataclass(frozen=True, slots=True)
class DrawnSample:
    """The answers to label, and the items that were asked."""

    sample: Sample
    items: Sequence[Mapping[str, Any]]


def read_sample(database: Path, run: int, size: int, author: str) -> DrawnSample:
    """Draw the same sample as the command line; raises LookupError if the run was deleted."""
    with Reader(database) as reader:
        digest = reader.run(run).snapshot
        items = reader.snapshot(digest).get("items", ()) if digest else ()
        return DrawnSample(draw_sample(reader, run, size, author=author), items)


def read_sheet(database: Path, drawn: DrawnSample, answer: int) -> tuple[BlindText, ...]:
    """The labelled parts of one answer; raises LookupError if it was deleted."""
    with Reader(database) as reader:
        return labelling_parts(reader, drawn.items, answer)


def read_agreement(database: Path, run: int) -> list[AgreementLine]:
    """How far the evaluators agree with the labels; raises LookupError if the run was deleted."""
    with Reader(database) as reader:
        row = reader.run(run)
        return list(all_agreement_lines(evaluator_agreements(reader, row), row.key))


_STYLES: Mapping[str, Style] = {"user": "accent", "expected": "pass", "or expected": "pass", "answer": "strong"}
_INDENT = 2
_BAR = 20
_LEAST = 60  # columns from which there is room for a bar
_BESIDE = 120  # minimum width to show the answer next to the question


def head_rows(session: LabellingSession | None, width: int) -> list[Row]:
    """The number of the answer, the total, and the note on it."""
    if session is None or not session.total:
        return [row(("Labelling blind", "title"))]
    if session.answer is None:
        return [row((f"{session.done} of {session.total} labelled", "title"))]
    filled = _BAR * session.done // session.total
    bar = f"  {'█' * filled}{'░' * (_BAR - filled)}" if width >= _LEAST else ""
    note = session.note()
    return [
        row(
            (f"{session.number} of {session.total}", "title"),
            (f"{bar}  {session.done} labelled", "dim"),
            (f" · note: {safe_line(note, 200)}" if note else "", "accent"),
        )
    ]


def sheet_rows(parts: Sequence[BlindText], width: int) -> Rows:
    """The parts of an answer, starting with the question; on wide terminals the answer is next to the others."""
    if width >= _BESIDE and any(part.title == "answer" for part in parts):
        half = (width - 3) // 2
        asked = [part for part in parts if part.title != "answer"]
        asked.sort(key=lambda part: part.title not in SYSTEM_ROLES)
        return FacingRows(
            sheet_rows(asked, half), sheet_rows([part for part in parts if part not in asked], half), half
        )
    rows: list[Rows] = []
    for part in parts:
        rows.append([row((safe_line(part.title, width), _STYLES.get(part.title, "dim")))])
        rows.append(paragraph(part.text, width, "", _INDENT))
    return JoinedRows(rows)


class FacingRows(LazyRows):
    """Rows next to others, each side in its own half."""

    def __init__(self, left: Rows, right: Rows, half: int) -> None:
        self._sides = left, right
        self._half = half

    def __len__(self) -> int:
        return max(map(len, self._sides))

    def row_at(self, number: int) -> Row:
        left, right = (side[number].pieces if number < len(side) else () for side in self._sides)
        return Row((*filled_up(left, self._half), Piece(" │ ", "dim"), *right))


def end_rows(session: LabellingSession, lines: Iterable[AgreementLine], width: int) -> Rows:
    """The labels given, then how far the evaluators agree."""
    left = session.total - session.done
    skipped = f" What you skipped ({left}) comes again the next time." if left else ""
    rows: list[Rows] = [paragraph(f"{session.done} of {session.total} labelled, and kept.{skipped}", width, "strong")]
    for line in lines:
        if line.kind == "title":
            rows.append(heading(safe_line(line.text, width)))
        else:
            rows.append(paragraph(line.text, width, line.kind, line.indent))
    return JoinedRows(rows)


_NONE = "There is no answer to label in this run yet."
_READING = "the answer is still being read"
_OVER = "the verdicts are on screen now: no label would be blind from here on"


class AnswerSheet(Lines, inherit_bindings=False):
    """The text of an answer: a list without the letter keys that give verdicts here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "up", show=False),
        Binding("down,j", "step(1)", "down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "page up", show=False),
        Binding("space,pagedown,ctrl+d", "page(1)", "page down", show=False),
        Binding("home", "edge(-1)", "top", show=False),
        Binding("end,G", "edge(1)", "bottom", show=False),
        *SEARCHING,
    ]


class LabelScreen(FeatureScreen):
    """Draws a sample of a run and goes through it; nothing that was said of an answer is shown before the end."""

    where: ClassVar[Where] = "labelling"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("labelling")]
    DEFAULT_CSS = """
    LabelScreen { layout: vertical; background: $background; }
    LabelScreen #head { max-height: 2; scrollbar-size-horizontal: 0; border-bottom: solid $border-blurred; }
    """

    def __init__(self, database: Path, run: int, writer: StoreWriter) -> None:
        super().__init__()
        self._database = database
        self._run = run
        self._writer = writer
        self._author = author_here()
        self._drawn: DrawnSample | None = None
        self._session: LabellingSession | None = None
        self._answer: int | None = None
        """The answer that is on screen and waits for a verdict."""

    def compose(self) -> ComposeResult:
        self.top = Lines(choosing=False, id="head")
        self.top.can_focus = False
        self.top.styles.height = "auto"
        self.sheet = AnswerSheet(choosing=False, id="sheet")
        yield self.top
        yield self.sheet
        yield Status()
        yield Keys()

    def on_mount(self) -> None:
        give_keys(self.sheet)
        self.offer_keys()
        self.run_worker(self._begin(), group="acts", name="drawing a sample", exit_on_error=False)

    # -- the way through

    async def _begin(self) -> None:
        try:
            pool = (await asyncio.to_thread(read_sample, self._database, self._run, 0, self._author)).sample.pool
            if not pool:
                self._show(lambda width: paragraph(_NONE, width))
                return
            size = await self.app.push_screen_wait(_sample_size_dialog(pool))
            if size is None:
                self.dismiss(None)
                return
            self._drawn = await asyncio.to_thread(read_sample, self._database, self._run, int(size), self._author)
        except (LookupError, StoreError) as problem:
            self._cannot(problem)
            return
        session = self._session = LabellingSession(self._drawn.sample)
        await self._next()
        if session.before:
            self.tell(f"{session.before} of {session.total} labelled already: on with the others")

    async def _next(self) -> None:
        """Show the next answer to label, or the agreement at the end."""
        session, drawn = self._session, self._drawn
        assert session is not None and drawn is not None
        self._answer = None
        answer, width = session.answer, self.sheet.scrollable_content_region.width
        try:
            if answer is None:
                lines = await asyncio.to_thread(read_agreement, self._database, self._run)
                self._show(lambda width: end_rows(session, lines, width))
            else:
                parts = await asyncio.to_thread(read_sheet, self._database, drawn, answer)
                ready = await asyncio.to_thread(sheet_rows, parts, width)
                self._show(lambda now: ready if now == width else sheet_rows(parts, now))
        except (LookupError, StoreError) as problem:
            self._cannot(problem)
            return
        self._answer = answer
        self.offer_keys()

    def _show(self, maker: RowMaker) -> None:
        session = self._session
        self.top.show(lambda width: head_rows(session, width))
        self.sheet.show(maker)
        self.sheet.scroll_home(animate=False)

    def _cannot(self, problem: Exception) -> None:
        message = f"This cannot continue: {problem}"
        self._show(lambda width: paragraph(message, width, "error"))

    async def _keep(self, answer: int, verdict: Verdict | None, note: str = "") -> bool:
        """Store or remove a verdict; reports a failure and returns False."""
        shown, self._answer = self._answer, None  # no second key is of this answer while its label is being written
        try:
            await self._writer.write(lambda writer: writer.label(answer, verdict, self._author, note=note, blind=True))
        except (StoreError, LookupError) as problem:
            self._answer = shown
            self.tell(str(problem), "error")
            return False
        return True

    # -- saying

    def why_not(self, action: str) -> str | None:
        if action in ("leave", "help"):
            return None
        session = self._session
        if session is not None and session.answer is None:
            return _OVER
        if self._answer is None or session is None:
            return _READING
        return "this is the first answer" if action == "undo" and session.previous is None else None

    # -- doing

    async def do_good(self) -> None:
        await self._give("pass")

    async def do_bad(self) -> None:
        await self._give("fail")

    async def _give(self, verdict: Verdict) -> None:
        session, answer = self._session, self._answer
        if session is None or answer is None or not await self._keep(answer, verdict, session.note()):
            return
        session.go_on(verdict)
        self.tell(f"kept as {'good' if verdict == 'pass' else 'bad'}; u undoes it")
        await self._next()

    async def do_skip(self) -> None:
        if self._session is not None and self._answer is not None:
            self._session.go_on(None)
            await self._next()

    async def do_undo(self) -> None:
        session = self._session
        before = session.previous if session is not None else None
        if session is None or before is None or self._answer is None:
            return
        if before in session.given and not await self._keep(before, None):
            return
        session.go_back()
        self.tell("back; your label of this answer was removed")
        await self._next()

    async def do_note(self) -> None:
        session, answer = self._session, self._answer
        if session is None or answer is None:
            return
        note = await self.app.push_screen_wait(Ask("Why?", session.note(), hint="kept with the label", keeps=True))
        if note is not None:
            session.notes[answer] = plain(note.strip())
            self.top.show(lambda width: head_rows(session, width))

    async def do_leave(self) -> None:
        session = self._session
        notes = [] if session is None else [text for one, text in session.notes.items() if one not in session.given]
        if any(notes):
            question = "A note is kept with a verdict, and an answer with a note has none yet."
            if not await self.app.push_screen_wait(Confirm("The note would be lost", question, "leave all the same")):
                return
        self.dismiss(None)

    async def do_search(self) -> None:
        await self.sheet.action_search()


def _sample_size_dialog(pool: int) -> Ask:
    """A small dialog that asks for the size of the sample."""

    def problem(text: str) -> str | None:
        number = int(text) if text.strip().isdecimal() and len(text.strip()) < 10 else 0
        return None if number else "give a whole number from 1"

    hint = "drawn at random, nothing of what judges said is shown"
    return Ask(f"Label how many of {pool:,} answers?", str(min(SAMPLE, pool)), hint=hint, check=problem)
