"""`tui-evals import`: what kind of file it is, who takes it in, and saying what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tui_evals.cli.output import Stop, columns, say, say_json, warn
from tui_evals.imports import bench, promptfoo, results
from tui_evals.imports.inspect import log
from tui_evals.imports.losses import Losses
from tui_evals.imports.promptpex import artefacts
from tui_evals.present.columns import table
from tui_evals.text.nearest import did_you_mean

from . import importing_bench, importing_datasets, importing_messages, importing_promptpex, importing_runs
from .imported import Imported, ImportOptions


@dataclass(frozen=True, slots=True)
class Door:
    """One kind of files that can be taken in: what they are, how they are known, and who takes them in."""

    kind: str
    files: str
    recognises: Callable[[Path], bool]
    take: Callable[[Path, ImportOptions], Imported]


def _recorded(path: Path) -> bool:
    """Whether PromptPex wrote it; datasets may be named like files of PromptPex."""
    value = importing_datasets.parsed(path) if path.suffix.lower() == ".json" else None
    return artefacts.recognises(path) and not (isinstance(value, dict) and isinstance(value.get("items"), list))


def _named_config(path: Path) -> bool:
    named_prompt = path.name.lower().endswith((".prompt.yml", ".prompt.yaml"))
    return promptfoo.recognises(path) or (path.suffix.lower() in (".yaml", ".yml") and not named_prompt)


DOORS = (
    Door(
        "promptpex",
        f"a folder of PromptPex, or a file of it: {artefacts.known_files()}",
        _recorded,
        importing_promptpex.take,
    ),
    Door("inspect", "a log of Inspect (.eval or .json)", log.recognises, importing_runs.take_log),
    Door("bench", "a folder bench_runs of Arthur Bench, or a suite in it", bench.recognises, importing_bench.take),
    Door("foundry", "evaluations of Prompt Foundry (.json)", importing_datasets.is_foundry, importing_datasets.foundry),
    Door("promptfoo", "a promptfooconfig.yaml of promptfoo, or its folder", _named_config, importing_datasets.config),
    Door("results", "results that tui-evals exported (.json)", results.recognises, importing_runs.take_results),
    Door("messages", "OpenAI messages (.json, .jsonl)", importing_messages.recognises, importing_messages.take),
    Door("dataset", "a dataset, which needs no import", importing_datasets.is_dataset, importing_datasets.dataset),
)


def import_from(path: Path, kind: str | None, wish: ImportOptions, as_json: bool) -> None:
    """Take in what a path holds, as what a person says it is, or else as the first kind that recognises it."""
    if wish.into is not None and (wish.out is not None or wish.name is not None):
        raise Stop("--into names the file of the dataset itself; leave --out and --name out")
    door = _chosen(path, kind)
    if wish.prompt is not None and door.kind != "foundry":
        raise Stop(f"--prompt chooses among the prompts of a file of Prompt Foundry, and {path} is {door.files}")
    done = replace(door.take(path, wish), kind=door.kind)
    if as_json:
        say_json({key: list(value) if isinstance(value, tuple) else value for key, value in asdict(done).items()})
        return
    _say(done)


def _chosen(path: Path, kind: str | None) -> Door:
    if kind is not None and kind not in [door.kind for door in DOORS]:
        names = [door.kind for door in DOORS]
        raise Stop(
            f"--from {kind!r} is no kind that can be read{did_you_mean(kind, names)}; the kinds are {_listed(names)}"
        )
    try:
        if not path.exists():
            raise Stop(f"{path}: there is no such file or folder")
        chosen = (door for door in DOORS if (door.kind == kind if kind is not None else door.recognises(path)))
        found = next(chosen, None)
    except OSError as problem:
        raise Stop(f"{path} cannot be read: {problem.strerror}") from None
    if found is None:
        raise Stop(f"{path} is of no kind that can be read; name a file or folder of these:\n{_kinds()}")
    return found


def _kinds() -> str:
    return "\n".join(f"  {door.kind:<10} {door.files}" for door in DOORS)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _say(done: Imported) -> None:
    if done.dataset_is == "none needed":
        say(f"{done.read} is a dataset already, with {_many(done.items, 'item')}, and needs no import", bold=True)
    elif done.dataset is None and done.run is None and not done.suites:
        say(f"{done.read} holds only totals, no answers, so there is no run to open; these are they:")
        for line in _totals(done.overview):
            say(f"  {line}")
    else:
        say(f"read {_counted(done)} from {done.read}", bold=True)
    for line in Losses(list(done.losses)).sentences():
        say(line)
    for line in done.notes:
        warn(f"note: {line}")
    for prompt in done.prompts:
        say(f"prompt: {prompt} (written)")
    if done.dataset is not None and done.dataset_is != "none needed":
        say(f"dataset: {done.dataset} ({_DATASET[done.dataset_is]})", fg="green")
    for suite in done.suites:
        say(f"suite: {suite}", fg="green")
    for run in done.runs:
        say(f"run: {run.key} {run.name} of {run.suite} ({_RUN[run.run_is]})", fg="green")
    if done.run is not None and not done.runs:
        say(f"run: {done.run} ({_RUN[done.run_is]})", fg="green")
    if done.next:
        say(f"next: `{done.next}`")


_DATASET = {
    "written": "written",
    "added to": "added at its end",
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
    tests = _many(done.items, "test" if done.kind == "promptpex" else "item")
    if not done.results:
        return f"{tests} and no answers" if done.kind == "promptpex" else tests
    answers = "result" if done.kind == "promptpex" else "answer"
    return f"{tests}, {_many(done.results, answers)} of {_many(len(done.models), 'model')}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _totals(rows: Sequence[dict[str, Any]]) -> list[str]:
    if not rows:
        return ["there is no row in it"]
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [heads, *([str(row.get(head, "")) for head in heads] for row in rows)]
    return table(cells, right=range(1, len(heads)), elastic=range(len(heads)), room=columns())
