"""`tui-evals compare`: runs beside each other, whether the difference is real, and the answers that changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tui_evals.compare.caveats import caveats
from tui_evals.compare.match import Kind
from tui_evals.compare.opponent import How, opponent
from tui_evals.compare.runs import KINDS, MOST, Comparison, Line, read_comparison
from tui_evals.compare.verdicts import NAMES, sentence
from tui_evals.datasets.discover import project_root
from tui_evals.store.baselines import baseline_of, dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow

from . import project
from .comparing_tables import category_table, count_line, evaluator_tables, run_table
from .output import Stop, columns, say, say_json
from .reading import MARKS
from .tables import fit, wrapped

KIND_MARKS: dict[Kind, tuple[str, str | None]] = {
    "broken": ("✗", "red"),
    "fixed": ("✓", "green"),
    "changed": ("~", "yellow"),
    "same": ("=", None),
    "gone": ("‹", None),
    "new": ("›", None),
    "not comparable": ("?", None),
}
_PAGE = 200
_PREVIEW = 80
"""Characters of an answer that lists hold; there may be more."""


def compare(words: Sequence[str], *, only: Sequence[Kind], limit: int, as_json: bool) -> None:
    """Compare the runs that a person means, the first with every later one."""
    with project.reader() as reader:
        runs, why = _chosen(reader, words)
        if as_json:
            say_json(_data(reader, runs, only))
            return
        found = read_comparison(reader, [run.id for run in runs])
        kinds = tuple(only) or tuple(kind for kind in KINDS if kind != "same")
        chosen = (line for line in found.lines if set(kinds) & set(line.kinds))
        _say_numbers(found, why)
        _say_lines(reader, sorted(chosen, key=lambda line: KINDS.index(line.kind)), limit, kinds)


def _data(reader: Reader, runs: Sequence[RunRow], only: Sequence[Kind]) -> dict[str, Any]:
    """Everything a comparison says, with every line of it, or those of some kinds."""
    from tui_evals.reports.comparison import document

    found = document(reader, runs)
    if only:
        found["lines"] = [line for line in found["lines"] if set(only) & set(line["kinds"].values())]
    return found


# -- which runs


def other_of(reader: Reader, run: RunRow) -> tuple[RunRow, str] | None:
    """The run that a single one is compared with, and why."""
    root = project_root(Path.cwd())
    # What a run was made of is named from the project's folder, wherever the command is given.
    key = cache(lambda source: dataset_key(source, root, root))
    dataset = key(run.source)
    chosen = baseline_of(reader, dataset)
    baseline = reader.run(chosen.run) if chosen else None
    others = (other for other in every_run(reader) if key(other.source) == dataset)
    found = opponent(run, baseline, _parent(reader, run), others)
    if found is None:
        return None
    reasons: Mapping[How, str] = {
        "baseline": f"the baseline of {dataset}" + (f", set by {chosen.author}" if chosen else ""),
        "parent": f"the run that {run.key} was made from",
        "before": f"the finished run of {dataset} before {run.key}",
    }
    return found[0], reasons[found[1]]


def _parent(reader: Reader, run: RunRow) -> RunRow | None:
    try:
        return None if run.parent is None else reader.run(run.parent)
    except LookupError:
        return None  # Somebody deleted it; the run before is as good as anything.


def every_run(reader: Reader) -> Iterator[RunRow]:
    """All runs, the latest first."""
    offset = 0
    while page := reader.runs(limit=_PAGE, offset=offset):
        yield from page
        offset += len(page)


def _chosen(reader: Reader, words: Sequence[str]) -> tuple[list[RunRow], str]:
    """The runs to compare, and what is to be said of how they were chosen."""
    if len(words) > MOST:
        raise Stop(f"{len(words)} runs are too many beside each other; give {MOST} at most")
    runs = project.runs_meant(reader, words or ("last",))
    if len(runs) == 1:
        other = other_of(reader, runs[0])
        if other is None:
            raise Stop(
                f"there is nothing to compare {runs[0].key} ({runs[0].name}) with: it has no baseline and no parent, "
                "and no finished run of its dataset comes before it; name another run"
            )
        return [other[0], runs[0]], f"A is {other[1]}."
    for number, run in enumerate(runs):
        if run.id in [before.id for before in runs[:number]]:
            raise Stop(f"{run.key} ({run.name}) was given twice; a run is compared with other runs")
    return runs, ""


# -- in numbers


def _say_numbers(found: Comparison, why: str) -> None:
    room = columns()
    for number, line in enumerate(run_table(found, room)):
        say(line, dim=number == 0)
    for note in (why, *caveats(found)):
        for line in wrapped(note, room) if note else ():
            say(line, dim=True)
    for name, against in zip(NAMES[1:], found.against, strict=False):
        say()
        for line in wrapped(sentence(against, "A", name), room):
            say(line, bold=True)
        for line in wrapped(count_line(against), room):
            say(line)
        for line, style in evaluator_tables(against, name, room):
            say(line, **style)
    if found.categories:
        say()
        for number, line in enumerate(category_table(found, room)):
            say(line, dim=number == 0)


# -- answer by answer


def _say_lines(reader: Reader, lines: Sequence[Line], limit: int, kinds: Sequence[Kind]) -> None:
    say()
    if not lines:
        every = len(kinds) == len(KINDS) - 1
        say("No answer changed." if every else f"No answer is {' or '.join(kinds)}.")
        return
    shown = lines[:limit]
    previews = {row.id: row.preview for row in reader.rows(_ids(shown))}
    for line in shown:
        _say_line(line, previews)
    if left := len(lines) - len(shown):
        say(f"{left:,} more; `--limit {len(lines)}` shows all, `--only` one kind", dim=True)


def _say_line(line: Line, previews: dict[int, str]) -> None:
    room = columns()
    glyph, colour = KIND_MARKS[line.kind]
    place = [line.item]
    if line.turn is not None:
        place.append(f"turn {line.turn + 1}")
    if line.repeat is not None:
        place.append(f"repeat {line.repeat + 1}")
    place += [part for part in (line.column, line.category) if part]
    say(_cut(f"{glyph} {line.kind}  {' · '.join(place)}", room), fg=colour, bold=True)
    several = len(line.kinds) > 1
    for name, answer, kind in zip(NAMES, line.answers, (None, *line.kinds), strict=False):
        if answer is None:
            if several:
                say(f"    {name} – not asked", dim=True)
            continue
        # What a run that stopped had in flight is no more running than what it never began.
        status = "pending" if answer.status == "running" else answer.status
        mark, fg = MARKS[status]
        what = f"{kind or '':<15}" if several else ""
        text = previews.get(answer.id, "")
        text = text.rstrip() + "…" if len(text) >= _PREVIEW else text
        say(_cut(f"    {name} {mark} {status:<8} {what}{text}", room), fg=fg)


def _ids(lines: Sequence[Line]) -> Iterator[int]:
    return (answer.id for line in lines for answer in line.answers if answer is not None)


def _cut(text: str, room: int | None) -> str:
    return text if room is None else fit(text, room).rstrip()
