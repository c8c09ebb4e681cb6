"""`tui-evals import`: whose recording it is, and saying what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tui_evals.generate.recorded import artefacts

from .output import Stop, columns, say, say_json, warn
from .tables import table


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What was read and where it went; without a dataset there were only totals."""

    read: str
    dataset: str | None = None
    dataset_is: Literal["written", "unchanged", "kept", ""] = ""
    prompt: str | None = None
    """The prompt file that was written because there was none."""
    items: int = 0
    results: int = 0
    models: tuple[str, ...] = ()
    run: str | None = None
    run_is: Literal["new", "finished now", "known", ""] = ""
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    overview: Sequence[dict[str, Any]] = ()
    next: str = ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One tool whose recordings can be read: how they are known, and who takes them in."""

    name: str
    files: Callable[[], str]
    recognises: Callable[[Path], bool]
    take: Callable[[Path, Path | None, str | None], Imported]


def _promptpex(path: Path, out: Path | None, name: str | None) -> Imported:
    from .importing_promptpex import take

    return take(path, out, name)


DIALECTS = (Dialect("PromptPex", artefacts.known_files, artefacts.recognises, _promptpex),)


def import_from(path: Path, out: Path | None, name: str | None, as_json: bool) -> None:
    """Take in what a path holds, by the first dialect that recognises it."""
    try:
        known = next((dialect for dialect in DIALECTS if dialect.recognises(path)), None)
        there = path.exists()
    except OSError as problem:
        raise Stop(f"{path} cannot be read: {problem.strerror}") from None
    if not there:
        raise Stop(f"{path}: there is no such file or folder")
    if known is None:
        kinds = "; ".join(f"{dialect.name}: {dialect.files()}" for dialect in DIALECTS)
        raise Stop(f"{path} is no recording that can be read; name a folder or file of these: {kinds}")
    done = known.take(path, out, name)
    if as_json:
        say_json({key: list(value) if isinstance(value, tuple) else value for key, value in asdict(done).items()})
        return
    _say(done)


def _say(done: Imported) -> None:
    if done.dataset is None:
        say(f"{done.read} holds only totals, no answers, so there is no run to open; these are they:")
        for line in _totals(done.overview):
            say(f"  {line}")
    else:
        say(f"read {_counted(done)} from {done.read}", bold=True)
    for line in done.left_out:
        say(f"left out: {line}")
    for line in done.notes:
        warn(f"note: {line}")
    if done.prompt is not None:
        say(f"prompt: {done.prompt} (written)")
    if done.dataset is not None:
        say(f"dataset: {done.dataset} ({_DATASET[done.dataset_is]})", fg="green")
    if done.run is not None:
        say(f"run: {done.run} ({_RUN[done.run_is]})", fg="green")
    if done.next:
        say(f"next: `{done.next}`")


_DATASET = {
    "written": "written",
    "unchanged": "was there already, the same",
    "kept": "was changed since it was imported, and stays as it is",
    "": "",
}
_RUN = {
    "new": "new",
    "finished now": "was begun by an earlier import, and is whole now",
    "known": "was imported before; no second one was made",
    "": "",
}


def _counted(done: Imported) -> str:
    tests = _many(done.items, "test")
    if not done.results:
        return f"{tests} and no answers"
    return f"{tests}, {_many(done.results, 'result')} of {_many(len(done.models), 'model')}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _totals(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return ["there is no row in it"]
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [heads, *([str(row.get(head, "")) for head in heads] for row in rows)]
    return table(cells, right=range(1, len(heads)), elastic=range(len(heads)), room=columns())
