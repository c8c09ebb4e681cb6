"""An answer with its run, its item as it was asked, its conversation, and its place in the current dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.datasets.matrix import place_of, units
from tui_evals.datasets.paths import Path as DataPath
from tui_evals.light_records import dataclass
from tui_evals.present.answers import prompt_text, reference_text
from tui_evals.project_files import resolved
from tui_evals.store.details import asked_again, read_details
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRecord, AnswerRow, RunRow
from tui_evals.store.rows import AnswerDetail, Detail, EarlierAttempt, expected_item, rejudged_now

from .diff_rows import diff_texts

if TYPE_CHECKING:
    from tui_evals.compare.diff import Diff

Unit = Mapping[str, Any]
_AGAIN = -1
"""Used as turn number: the answer of a later run."""


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """The answer of a later run to the same question."""

    run: RunRow
    told: AnswerDetail


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """One answer with its run, item and scores."""

    run: RunRow
    detail: Detail
    item: Unit
    """The item as it was asked, with its expectations; empty if the snapshot does not have it."""
    turns: tuple[AnswerDetail, ...]
    """The answers of the same conversation in order, including this one."""
    again: AskedAgain | None = None
    """The answer to the same in a later run that goes back to this one."""

    @property
    def row(self) -> AnswerRow:
        """The answer as lists show it."""
        return self.detail.row

    @property
    def rejudged(self) -> EarlierAttempt | None:
        """The attempt before this answer was judged again individually, in the pass that counts."""
        return rejudged_now(self.detail.earlier, self.run.scoring_pass)

    @property
    def text(self) -> str | None:
        """The text of the answer; None without an answer."""
        return text_of(self.detail)

    @property
    def reference(self) -> str | None:
        """The text that the answer is compared with."""
        return reference_text(unit_of(self.item, self.row.turn), self.text)

    @property
    def prompt(self) -> str:
        """The prompt of the answer."""
        return prompt_of(self.item, self.detail)

    @property
    def messages(self) -> list[Unit]:
        """The chat that was sent."""
        return messages_of(self.detail)


@dataclass
class ComparedAnswer:
    """A case with the diffs that were made of it."""

    case: AnswerContext
    _diffs: dict[tuple[int, bool], Diff] = field(default_factory=dict)

    def diff(self, turn: Detail | AnswerDetail, raw: bool) -> Diff | None:
        """The diff between the expected text and a turn; None if one of them is missing."""
        text = text_of(turn)
        reference = reference_text(unit_of(self.case.item, turn.row.turn), text)
        if reference is None or text is None:
            return None
        key = (turn.row.turn, raw)
        if key not in self._diffs:
            self._diffs[key] = diff_texts(reference, text, raw)
        return self._diffs[key]

    def diff_again(self, raw: bool) -> Diff | None:
        """The diff between this answer and the one of a later run; None if one of them is missing."""
        after = text_of(self.case.again.told) if self.case.again else None
        before = self.case.text
        if before is None or after is None:
            return None
        key = (_AGAIN, raw)
        if key not in self._diffs:
            self._diffs[key] = diff_texts(before, after, raw)
        return self._diffs[key]

    def size(self) -> int:
        """The number of characters to compare first; 0 if that is done or there is nothing to compare."""
        reference, text = self.case.reference, self.case.text
        return 0 if reference is None or text is None or self._diffs else len(reference) + len(text)


class AnswerFinder:
    """Finds cases; keeps only the last dataset, because datasets can be large."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._judging = (0, 0)
        self._items: Sequence[Any] = ()

    def find(self, answer: int) -> AnswerContext:
        """An answer with its context, read in a worker thread; raises LookupError if it was deleted."""
        with Reader(self._database) as reader:
            detail = reader.detail(answer)
            row, run = detail.row, reader.run(detail.row.run)
            if (run.id, run.scoring_pass) != self._judging:
                self._items = _items(reader, run)
                self._judging = (run.id, run.scoring_pass)
            item: Any = self._items[row.item] if row.item < len(self._items) else {}
            item = item if isinstance(item, dict) else {}
            now = rejudged_now(detail.earlier, run.scoring_pass)
            if now is not None:
                item = expected_item(now, item, row.turn)
            start, count = row.pos - row.turn, len(units(item))
            cell = [one for one in reader.window(run.id, start, count) if one.cell == row.cell]
            turns = tuple(read_details(reader, run, cell))
            again = asked_again(reader, run, row)
            return AnswerContext(run, detail, item, turns, AskedAgain(*again) if again else None)


def _items(reader: Reader, run: RunRow) -> Sequence[Any]:
    """The items as they were asked, with their expectations; empty for a run without a snapshot."""
    items = reader.judged_by(run).document.get("items")
    return items if isinstance(items, list) else ()


def unit_of(item: Unit, turn: int) -> Unit:
    """The data of one turn of an item."""
    turns = item.get("turns")
    if not isinstance(turns, list) or not turns:
        return item if turn == 0 else {}
    return turns[turn] if turn < len(turns) and isinstance(turns[turn], dict) else {}


def text_of(detail: Detail | AnswerDetail) -> str | None:
    """The text of an answer, if there is one."""
    return detail.answer.text if detail.answer else None


def messages_of(detail: Detail) -> list[Unit]:
    """The chat that was sent."""
    sent = detail.answer.request.get("messages") if detail.answer else None
    return [message for message in sent if isinstance(message, dict)] if isinstance(sent, list) else []


def prompt_of(item: Unit, detail: Detail | AnswerDetail) -> str:
    """The prompt of a turn, otherwise the last user message."""
    return prompt_text(unit_of(item, detail.row.turn), detail.answer)


def source_file(root: Path, run: RunRow, known: Sequence[Path] = ()) -> Path | None:
    """The dataset file of a run; None if the run has another source, or the file is neither present nor open."""
    file = resolved(root / run.source)
    return file if file in known or file.is_file() else None


def unit_place(items: Sequence[Any], case: AnswerContext) -> DataPath | None:
    """The path, in the current items, of the unit that was asked."""
    number = place_of(items, case.item, case.row.item)
    if number is None:
        return None
    turns = items[number].get("turns")
    if not isinstance(turns, list):
        return ("items", number) if case.row.turn == 0 else None
    return ("items", number, "turns", case.row.turn) if case.row.turn < len(turns) else None


def answer_title(case: AnswerContext) -> str:
    """How an answer is called: its item, its turn and its repeat where there are several."""
    turn = f" · turn {case.row.turn + 1} of {len(units(case.item))}" if _several(case) else ""
    repeat = f" · repeat {case.row.repeat + 1}" if case.row.repeat else ""
    return f"{case.row.name}{turn}{repeat}"


def _several(case: AnswerContext) -> bool:
    return len(units(case.item)) > 1 or case.row.turn > 0


def answer_as_text(answer: AnswerRecord | None) -> str:
    """A target's output as one text: the answer and its tool calls, or why there is none."""
    if answer is None:
        return ""
    parts = [answer.text] if answer.text else []
    parts += [f"→ {call.get('name')}({_as_text(call.get('arguments'))})" for call in answer.tool_calls]
    if answer.code:
        parts.append(f"{answer.code}: {answer.message or ''}")
    return "\n".join(parts)


def _as_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
