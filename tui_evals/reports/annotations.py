"""What failed, as workflow commands that GitHub shows beside the lines of a dataset in a pull request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui_evals.compare.sides import column_name
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.problems import DatasetError
from tui_evals.present.answers import answer_name, complaints, shortened
from tui_evals.present.status import BAD, status_phrase
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.text.safe import safe, safe_line

from .comparison import broken_in
from .results import AnswerEntry, read

MOST = 10
"""How many of a level GitHub shows for one step."""

_LEVELS = {"error": "error", "fail": "error", "partial": "warning"}
_LONGEST = 1_000


def commands(reader: Reader, runs: Sequence[RunRow], root: Path, workspace: Path) -> Iterator[str]:
    """One line for each bad answer of a run, or for each that is broken in the last of several; then how many more.

    `root` is what the dataset's path may be relative to, `workspace` what GitHub's paths are.
    """
    run = runs[-1]
    repeated = reader.repeated(run.id)
    items = reader.dataset(run).items
    bad = sorted(_bad_rows(reader, runs), key=lambda row: BAD.index(row.status))
    places = _places(run, items, root)
    counts: Counter[str] = Counter()
    shown = []
    for row in bad:
        counts[_LEVELS[row.status]] += 1
        if counts[_LEVELS[row.status]] <= MOST:
            shown.append(row)
    for answered in read(reader, run, shown, items, requests=True):
        row = answered.row
        where = places.of(row, workspace) if places else {}
        told = {**where, "title": _title(answered, run, repeated, len(runs) > 1)}
        yield _command(_LEVELS[row.status], told, _message(answered))
    if more := [f"{count - MOST} more {level}s" for level, count in counts.items() if count > MOST]:
        keys = " ".join(run.key for run in runs)
        listing = f"compare {keys} --only broken" if len(runs) > 1 else f"show {run.key} --only '!status:pass'"
        yield _command("notice", {"title": "tui-evals"}, f"{' and '.join(more)}; `tui-evals {listing}` lists all")


def _bad_rows(reader: Reader, runs: Sequence[RunRow]) -> Iterable[AnswerRow]:
    broken = broken_in(reader, runs) if len(runs) > 1 else None
    rows = reader.all_rows(runs[-1].id)
    return (row for row in rows if (row.status in BAD if broken is None else row.id in broken))


def _title(answered: AnswerEntry, run: RunRow, repeated: bool, compared: bool) -> str:
    row = answered.row
    several = len(run.targets) * len(run.prompts) > 1
    column = f" · {column_name(run, row.prompt, row.target)}" if several else ""
    name = answer_name(row, "turns" in answered.item, repeated)
    status = "failed" if row.status == "fail" else status_phrase(row.status)
    return f"{name}{column}: {'broken' if compared else status}"


def _message(answered: AnswerEntry) -> str:
    text = "\n".join(complaints(answered.record, answered.scores)) or "no evaluator gave a reason"
    answer = answered.record.text if answered.record else None
    return shortened(text, _LONGEST) + (f"\nanswer: {safe_line(answer, _LONGEST)}" if answer else "")


def _command(level: str, properties: Mapping[str, str], message: str) -> str:
    """The command in one line that no text in it can end."""
    written = ",".join(f"{name}={_escaped_property(value)}" for name, value in properties.items())
    return f"::{level} {written}::{_escaped_data(message)}"


def _escaped_data(text: str) -> str:
    return safe(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped_data(safe_line(text, 200)).replace(":", "%3A").replace(",", "%2C")


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the items of a run stand in the dataset file as it is now; None for those that nobody can point at."""

    document: Document
    now: Sequence[int | None]
    whole: Sequence[bool]
    """Whether an item is as it was, so that its turns stand where they stood."""

    def of(self, row: AnswerRow, workspace: Path) -> dict[str, str]:
        number = self.now[row.item]
        if number is None:
            return {}
        turn = ("turns", row.turn) if self.whole[row.item] and "turns" in self.document.data["items"][number] else ()
        line = self.document.line(("items", number, *turn))
        if line is None:
            return {}
        file = self.document.file.resolve()
        inside = file.is_relative_to(workspace.resolve())
        return {"file": (file.relative_to(workspace.resolve()) if inside else file).as_posix(), "line": str(line)}


def _places(run: RunRow, items: Sequence[Mapping[str, Any]], root: Path) -> _Places | None:
    file = next((file for file in (root / run.source, Path(run.source)) if file.is_file()), None)
    if file is None or file.suffix == ".gz":
        return None
    try:
        document = load(file)
    except DatasetError:
        # The file has become something else since, so that there is no line to point at.
        return None
    current = document.data.get("items")
    if not isinstance(current, list):
        return None
    was, now = ([json.dumps(item, sort_keys=True) for item in side] for side in (items, current))
    places = _current_places([*map(_test_id, items)], [*map(_test_id, current)], was, now)
    whole = [place is not None and now[place] == was[number] for number, place in enumerate(places)]
    return _Places(document, places, whole)


def _test_id(item: object) -> str | None:
    test_id = item.get("testId") if isinstance(item, dict) else None
    return test_id if isinstance(test_id, str) else None


def _current_places(
    ids: Sequence[str | None], ids_now: Sequence[str | None], was: Sequence[str], now: Sequence[str]
) -> list[int | None]:
    """The place of each item: by a unique testId, by equal content in the same place, or by unique content."""
    by_id, by_text = _unique_places(ids, ids_now), _unique_places(was, now)
    return [
        by_id[test_id]
        if test_id in by_id
        else number
        if number < len(now) and now[number] == text
        else by_text.get(text)
        for number, (test_id, text) in enumerate(zip(ids, was, strict=True))
    ]


def _unique_places(was: Sequence[str | None], now: Sequence[str | None]) -> dict[str | None, int]:
    before, after = Counter(was), Counter(now)
    return {key: n for n, key in enumerate(now) if key is not None and after[key] == 1 == before[key]}
