"""Results that tui-evals exported as CSV, read back as a run as far as a table holds one."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.imports.base import Losses
from tui_evals.project_files import read_head
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.text import strictjson
from tui_evals.text.safe import escape_formula

from .answer_lines import AnswerLine, recording_of_lines
from .base import Importer
from .keeping import keep_run, text_of
from .recording import Recording

_HEAD = "kind,item,thread,turn,target,"
_NAMED = "prompt_under_test"
_PARTS = ("score", "result", "threshold", "reason")
_TOGETHER = "together."
_JSON = ("tags", "extensions")
_RESULTS = ("", "pass", "fail", "error", "skipped")


def recognises(path: Path) -> bool:
    """Whether a file is a table as `tui-evals export --to csv` writes it."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    head = read_head(path, 4096, follow_out=True).partition(b"\n")[0].decode("utf-8-sig", "replace")
    return head.startswith(_HEAD) and ",response," in head and ",status,score," in head


def read(path: Path) -> tuple[Recording, Losses]:
    """The run of a table; DatasetError says which line is wrong."""
    losses = Losses()
    lines = list(_lines(path, losses))
    losses.left_out(
        "labels and details of scores, their evaluators and weights, tool calls, models, times with their fractions",
        why="no columns",
    )
    return recording_of_lines(path, lines, path.stem, losses), losses


def _lines(path: Path, losses: Losses) -> Iterator[AnswerLine]:
    csv.field_size_limit(sys.maxsize)
    table = csv.DictReader(StringIO(text_of(path), newline=""))
    keys = [name.removesuffix(".score") for name in map(_plain, table.fieldnames or ()) if name.endswith(".score")]
    prompts: Counter[tuple[object, ...]] = Counter()
    for row in table:
        line = table.line_num
        if None in row or None in row.values():
            raise DatasetError(str(path), [Problem("has not as many cells as the first line", line=line)])
        cells = _Cells(path, line, {_plain(name): _plain(cell) for name, cell in row.items()})
        item, turn, repeat = cells["item"], cells.whole("turn") or 1, cells.whole("repeat") or 1
        answered = (item, turn, cells["target"], repeat)
        prompts[answered] += 1
        prompt = cells[_NAMED]
        if _NAMED not in row and prompts[answered] > 1:  # tables of the first version name no prompts
            prompt = f"prompt {prompts[answered]}"
            losses.changed("the prompts under test", why="the table does not name them, so they are numbered")
        status = cells["status"]
        scores = [score for key in keys if (score := cells.of_key(key))]
        yield AnswerLine(
            line=line,
            item=item,
            turn=turn - 1,
            target=cells["target"],
            repeat=repeat - 1,
            prompt=prompt,
            asked=cells.given("prompt", "expected_response"),
            about=cells.about(),
            status=status,
            score=cells.number("score"),
            answer=None if status in ("pending", "running") else cells.answer(),
            scores=tuple(score for score in scores if not score.key.startswith(_TOGETHER)),
            together=tuple(
                ScoreRecord(
                    key=score.key.removeprefix(_TOGETHER),
                    evaluator=score.key.removeprefix(_TOGETHER),
                    score=score.score,
                    result=score.result,
                    threshold=score.threshold,
                    reason=score.reason,
                )
                for score in scores
                if score.key.startswith(_TOGETHER)
            ),
            is_turn=cells["kind"] == "turn",
        )


def _plain(cell: str) -> str:
    """The text of a cell, without the quote that keeps a spreadsheet from running it."""
    return cell[1:] if cell[:1] == "'" and escape_formula(cell[1:]) == cell else cell


class _Cells:
    """The cells of one line, and how what is wrong in them is named."""

    def __init__(self, path: Path, line: int, cells: Mapping[str, str]) -> None:
        self._path, self._line, self._cells = path, line, cells

    def __getitem__(self, name: str) -> str:
        return self._cells.get(name, "")

    def given(self, *names: str) -> dict[str, str]:
        """Those that are not blank."""
        return {name: text for name in names if (text := self[name])}

    def number(self, name: str) -> float | None:
        """A cell as a number; None where it is blank."""
        try:
            return float(self[name]) if self[name] else None
        except ValueError:
            raise self._wrong(f"{name} must be a number, not {self[name]!r}") from None

    def whole(self, name: str) -> int | None:
        """A cell as a whole number of at least 0; None where it is blank."""
        text = self[name]
        if text and not (text.isascii() and text.isdigit() and len(text) < 16):
            raise self._wrong(f"{name} must be a whole number, not {text!r}")
        return int(text) if text else None

    def about(self) -> dict[str, Any]:
        """What the line tells of its item."""
        about: dict[str, Any] = self.given("conversation_id", "category")
        if self["thread"]:
            about["name"] = self["thread"]
        for name in _JSON:
            if self[name]:
                try:
                    about[name] = strictjson.loads(self[name])
                except strictjson.JsonError as problem:
                    raise self._wrong(f"{name} is no JSON: {problem}") from None
        return about

    def answer(self) -> AnswerRecord:
        """What was answered, or the error instead."""
        code = self["error_code"] or None
        return AnswerRecord(
            text=None if code and not self["response"] else self["response"],
            request={},
            code=code,
            message=self["error_message"] or None,
            latency_ms=self.number("latency_ms"),
            first_token_ms=self.number("first_token_ms"),
            from_cache=self["from_cache"] == "true",
            input_tokens=self.whole("input_tokens"),
            output_tokens=self.whole("output_tokens"),
            cached_tokens=self.whole("cached_tokens") or 0,
            reasoning_tokens=self.whole("reasoning_tokens") or 0,
            cost=self.number("cost"),
            attempts=self.whole("attempts") or 1,
            finish_reason=self["ending"] or None,
        )

    def of_key(self, key: str) -> ScoreRecord | None:
        """The score in the columns of a key; None where all of them are blank."""
        if not any(self[f"{key}.{part}"] for part in _PARTS):
            return None
        result = self[f"{key}.result"]
        if result not in _RESULTS:
            raise self._wrong(f"{key}.result must be pass, fail, error, skipped or blank, not {result!r}")
        return ScoreRecord(
            key=key,
            evaluator=key,
            score=self.number(f"{key}.score"),
            result=result or None,
            threshold=self.number(f"{key}.threshold"),
            reason=self[f"{key}.reason"],
        )

    def _wrong(self, message: str) -> DatasetError:
        return DatasetError(str(self._path), [Problem(message, line=self._line)])


IMPORTER = Importer(
    kind="results-csv",
    about="results that tui-evals exported (.csv)",
    recognises=recognises,
    read=lambda request: keep_run(request, read),
    recordings=lambda request: (read(request.path)[0],),
    order=72,
)
