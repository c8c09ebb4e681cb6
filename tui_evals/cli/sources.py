"""The parameters an eval of a registry suggests, for targets whose configuration says nothing of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from math import isfinite
from pathlib import Path
from typing import Any

import click

from tui_evals.datasets.document import Document, load
from tui_evals.datasets.inline import inline
from tui_evals.datasets.model import Dataset
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.prompts import prompt_of
from tui_evals.datasets.validate import dataset_of, typed
from tui_evals.evaluators.registry import Registry
from tui_evals.runs import start
from tui_evals.runs.plan import Plan, limited
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import Settings, target_named
from tui_evals.targets.opening import target_kind
from tui_evals.text import strictjson

from . import project
from .output import Stop

SOURCE = "registry:"
"""How the source of a run begins whose items come from a registry."""
_LENGTHS = {"max_tokens", "max_completion_tokens"}
# A registry comes from elsewhere, so nothing of it may say where a question goes or what key goes with it.
_SAMPLING = {"temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop", *_LENGTHS}


def settings_of(run: RunRow, reader: Reader, settings: Settings) -> Settings:
    """The settings in which a stored run was started, as far as its eval suggests parameters."""
    if not run.source.startswith(SOURCE):
        return settings
    judge = run.config.get("judge")
    named = [target["name"] for target in run.config.get("targets", ())]
    return suggested(settings, reader.snapshot(run.snapshot), named, judge["name"] if judge else None)


def suggested(settings: Settings, document: Mapping[str, Any], targets: Sequence[str], judge: str | None) -> Settings:
    """The settings with the parameters a document suggests under those that are configured.

    A target that also judges gets those alone that both roles share.
    """
    origin = (document.get("extensions") or {}).get("openai_evals") or {}
    answering, judging = (sampling(origin.get(part)) for part in ("params", "judge_params"))
    found = dict(settings.targets)
    for word in dict.fromkeys((*targets, *((judge,) if judge else ()))):
        wanted = judging if word not in targets else answering
        if word in targets and word == judge:
            wanted = {name: value for name, value in answering.items() if judging.get(name, value) == value}
        try:
            config = target_named(word, settings)
            asks_model = target_kind(config).asks_model
        except ConfigurationError:  # said where the targets are named
            continue
        if asks_model:
            found[word] = replace(config, params={**_unsaid(wanted, config.params), **config.params})
    return replace(settings, targets=found)


def sampling(params: object) -> dict[str, Any]:
    """The parameters that say how a model samples and for how long; all else is passed over."""
    given = params if isinstance(params, Mapping) else {}
    return {name: value for name, value in given.items() if name in _SAMPLING and _plain(value)}


def _plain(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(part, str) for part in value)
    return isinstance(value, int | str) or (isinstance(value, float) and isfinite(value))


def _unsaid(wanted: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """What is wanted and not configured; a length under one name is a length under the other."""
    said = set(configured) | (_LENGTHS if _LENGTHS & set(configured) else set())
    return {name: value for name, value in wanted.items() if name not in said}


_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?")


def evaluators_named(text: str) -> dict[str, Any]:
    """Evaluators as the command line names them."""
    if not text.lstrip().startswith("{"):
        return {name.strip(): {} for name in text.split(",") if name.strip()}
    try:
        found = strictjson.loads(text)
    except strictjson.JsonError as problem:
        raise Stop(f"--evaluators: {problem}") from None
    if not isinstance(found, dict) or not all(isinstance(options, dict) for options in found.values()):
        raise Stop("--evaluators: each name needs an object of options, such as {}")
    return found


def judged_by(answered: Dataset, judging: Dataset) -> Dataset:
    """The dataset that was run, judged by the evaluators of another of the same shape."""
    if [len(item.units) for item in answered.items] != [len(item.units) for item in judging.items]:
        raise Stop("the dataset has other items or turns than the run, so its evaluators do not fit its answers")
    return judging


def document_of(options: Mapping[str, Any]) -> tuple[Document, str]:
    """The dataset a run asks and a word for where it came from."""
    file = options["dataset"] or options["prompts_file"]
    given = [bool(file), bool(options["inline"]), options["interactive"], bool(options["snapshot"])]
    if sum(given) > 1:
        raise Stop("name one source: a dataset, --prompts, --interactive or --snapshot")
    if options["expected"] and not options["inline"]:
        raise Stop("--expected belongs to --prompts")
    stands_for: Path | None = options["stands_for"]
    if stands_for is not None and not options["snapshot"]:
        raise Stop("--as belongs to --snapshot: it names the file that the snapshot stands for")
    try:
        if options["inline"]:
            return in_memory(inline(options["inline"], options["expected"])), "prompts"
        if options["interactive"]:
            return in_memory(inline(*_asked())), "interactive"
        if options["snapshot"]:
            with project.reader() as reader:
                data = reader.snapshot(options["snapshot"])
            if stands_for is not None:
                return in_memory(data, stands_for), str(stands_for)
            return in_memory(data), f"snapshot {options['snapshot'][:12]}"
        path = file or project.found_or_started()
        return load(path), str(path)
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    except LookupError as problem:
        raise Stop(str(problem)) from None


def _asked() -> tuple[list[str], list[str]]:
    """Prompts typed one at a time, until an empty line."""
    if not sys.stdin.isatty():
        raise Stop("--interactive needs a terminal; give --prompts instead")
    prompts: list[str] = []
    expected: list[str] = []
    while prompt := click.prompt("Prompt (empty to run)", default="", show_default=False):
        prompts.append(prompt)
        expected.append(click.prompt("Expected response", default="", show_default=False))
    if not prompts:
        raise Stop("no prompt was given", 2)
    return prompts, expected if any(expected) else []


def in_memory(data: dict[str, Any], file: Path = Path("prompts")) -> Document:
    """A document that stands in no file, or that stands for a file whatever is in it now."""
    _, problems = typed(data)
    if problems:
        raise DatasetError(str(file), problems)
    return Document(file, strictjson.dumps(data), "", "document", data)


def prompt_file(document: Document, prompts: Sequence[Path]) -> Path | None:
    """The first prompt under test, beside which metrics are looked for."""
    try:
        return prompts[0] if prompts else prompt_of(document)
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def prompts_of(document: Document, files: Sequence[Path]) -> tuple[Any, ...]:
    """The prompts under test: those named, else the dataset's own."""
    try:
        named = prompt_of(document)
        return start.prompts_from(list(files) or ([named] if named else []))
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def checked_dataset(document: Document, registry: Registry) -> Dataset:
    """The typed dataset of a document, or the end of the command with what is wrong."""
    try:
        return dataset_of(document, registry.catalogue, registry.own)
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def targets_named(words: Sequence[str], settings: Settings) -> tuple[TargetConfig, ...]:
    """The targets that are named, or the ways to name one."""
    if not words:
        raise Stop(
            "no target is named. Name what answers with --target: a model such as openai/gpt-4o-mini, a section of "
            ".evals/config.toml, replay:FILE for answers you have, or demo to try tui-evals without a model",
            3,
        )
    found = [target_or_stop(word, settings) for word in words]
    return tuple(target for target in found if target is not None)


def target_or_stop(word: str | None, settings: Settings) -> TargetConfig | None:
    """The target of a name or spelling, or the end of the command."""
    if word is None:
        return None
    try:
        return target_named(word, settings)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None


def chosen_items(plan: Plan, options: Mapping[str, Any]) -> frozenset[int] | None:
    """The items that are run, where not all are."""
    text, limit = options["only"], options["limit"]
    if options["items"] is not None:
        if text is not None or limit is not None or options["from_run"]:
            raise Stop("--items names the items itself; leave out --only, --from and --limit")
        return items_named(options["items"], len(plan.dataset.items))
    if text is None and limit is None:
        return None
    if options["from_run"]:
        with project.reader() as reader:
            run = project.run_named(reader, options["from_run"])
            found = sorted(set(items_found(reader, run, text or "")) & set(range(len(plan.dataset.items))))
    else:
        found = [number for number in range(len(plan.dataset.items)) if _matches(plan, number, text or "")]
    if not found:
        raise Stop(f"no item of the dataset fits --only {text!r}")
    return frozenset(limited(found, limit, options["seed"]))


def items_named(text: str, count: int) -> frozenset[int]:
    """The items of a list such as 1,4-9, by their places from 0."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise Stop(f"--items: {part.strip()!r} is no position and no range; write them as in 1,4-9")
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise Stop(f"--items: {part.strip()} runs backwards; write {last}-{first}")
        if first < 1 or last > count:
            raise Stop(f"--items: there is no item {first if first < 1 else last}; the dataset has items 1 to {count}")
        found.update(range(first - 1, last))
    return frozenset(found)


def _matches(plan: Plan, number: int, text: str) -> bool:
    """Whether an item fits a filter that needs no run to look at."""
    item = plan.dataset.items[number]
    words = " ".join([item.name or "", *(unit.prompt or "" for unit in item.units)]).casefold()
    for term in text.split():
        wanted, negated = term.removeprefix("!"), term.startswith("!")
        field, _, value = wanted.partition(":")
        if field == "id":
            fits = fnmatchcase(plan.name_of(number), value)
        elif field == "category":
            fits = (item.category or "") == value
        elif field == "tag":
            fits = value in (item.tags or ())
        elif ":" in wanted or wanted in ("failed", "errored", "flaky"):
            raise Stop(f"--only {term} looks at answers; say of which run with --from RUN")
        else:
            fits = wanted.casefold() in words
        if fits == negated:
            return False
    return True


def items_found(reader: Reader, run: RunRow, text: str) -> list[int]:
    """The items of a run that a filter finds."""
    try:
        ids = reader.ids(run.id, parse_filter(text))
    except FilterError as problem:
        raise Stop(str(problem)) from None
    items = sorted({row.item for row in reader.rows(ids)})
    if not items:
        raise Stop(f"no answer of {run.key} fits {text!r}; nothing was started")
    return items
