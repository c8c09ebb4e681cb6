"""`tui-evals registry` and `run --registry`: the evals of a registry of OpenAI Evals, each a run of its own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from tui_evals.cli import inputs, project
from tui_evals.cli.inputs import open_project
from tui_evals.cli.output import Stop, columns, say, say_json, say_json_line, warn
from tui_evals.cli.run.execution import ExecutionOptions, request_of, run_request, target_words
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.validate import document_of_data
from tui_evals.files import CannotSave, make_private_folder, write_atomically
from tui_evals.imports.base import Loss, Losses
from tui_evals.imports.openai_evals import EvalSpec, Listed, NoFolder, Registry, by_reason, load_named
from tui_evals.light_records import dataclass
from tui_evals.present.columns import table, wrap
from tui_evals.reports.oaieval import final_report
from tui_evals.runs.judges import SOURCE
from tui_evals.runs.project import Project
from tui_evals.runs.status import first_exit_code
from tui_evals.text import strictjson


def registry_at(paths: str, catalogue: Mapping[str, type[BaseModel]]) -> Registry:
    """The registry in the folders that are named by commas, or Stop with its problem."""
    try:
        return load_named(paths, catalogue)
    except (DatasetError, NoFolder) as problem:
        raise Stop(str(problem)) from None


def list_registry(paths: str, words: Sequence[str], as_json: bool) -> None:
    """List the evals of a registry, why some cannot run, its sets, and remarks."""
    registry = registry_at(paths, inputs.evaluators().catalogue)
    rows = [row for row in registry.listing() if row.fits(words)]
    sets = registry.sets({row.name for row in rows} if words else None)
    if as_json:
        evals = [{**asdict(row), "runs": row.runs, **_needs(registry, row)} for row in rows]
        say_json({"evals": evals, "sets": sets, "remarks": registry.remarks()})
        return
    running = [row.name for row in rows if row.runs]
    say(f"{len(running)} of {len(rows)} evals run here" + (f" ({' '.join(words)})" if words else ""), bold=True)
    for reason, names in by_reason({row.name: row.reasons for row in rows if not row.runs}).items():
        for line in wrap(f"{len(names):>5}  {reason}", columns()):
            say(line)
    say()
    _say_evals(rows)
    for name, evals_of_set in sets.items():
        say(f"set {name}: {', '.join(evals_of_set) or 'none of its evals is known'}")
    for remark in registry.remarks():
        warn(f"note: {remark}")
    if running:
        say(f"next: `tui-evals run --registry {paths} {running[0]} --target NAME`")


def _say_evals(rows: Sequence[Listed]) -> None:
    cells = [[row.name, row.kind, ", ".join(row.aliases), row.description] for row in rows if row.runs]
    if cells:
        heads = ["Eval", "Class", "Also", "Description"]
        first, *lines = table([heads, *cells], elastic=(3, 2, 0), room=columns())
        say(first, bold=True)
        for line in lines:
            say(line)
    others = [row for row in rows if not row.runs]
    if others:
        say("These do not run here:", bold=True)
    width = columns()
    for row in others:
        say(f"{row.name}  {row.where}")
        for reason in row.reasons:
            for line in wrap(reason, width - 2 if width is not None else None):
                say(f"  {line}")


def _needs(registry: Registry, row: Listed) -> dict[str, Any]:
    if not row.runs:
        return {}
    needs = registry.needs(row.name)
    return {"needs": {"judge": needs.judge, "answers": needs.answers, "targets": needs.targets, **needs.plain()}}


TAG = "oaieval"
_OTHER_SOURCES = ("prompts_file", "inline", "expected", "interactive", "snapshot", "stands_for")
_ASIDE = ("usage_", "boostrap_std")
_NAMED = 3
"""Evals that are named for each reason."""
_SAMPLED = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop")


@dataclass(slots=True)
class EvalOutcome:
    """The outcome of one eval: its run and figures, or why it has none."""

    eval: str
    run: str = ""
    code: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True)
class Manner:
    """How evals are run: how many samples, to the letter of the original or not, and with which data."""

    most: int | None = None
    faithful: bool = False
    data: Path | None = None


def run_evals(paths: str, manner: Manner, how: ExecutionOptions, options: Mapping[str, Any]) -> int:
    """Run the evals of a name, print those that cannot run, and a line for each."""
    if any(options[name] for name in _OTHER_SOURCES):
        raise Stop("--registry takes its items from an eval; leave out the other sources of items")
    if options["dataset"] is None:
        raise Stop(f"name an eval, a pattern or a set; `tui-evals registry {paths}` lists them")
    prompts = options["prompts"]
    here = open_project(how.env_name, how.trusting, prompts[0] if prompts else None)
    registry = registry_at(paths, here.registry.catalogue)
    try:
        named = registry.find(str(options["dataset"]))
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    _check_manner(named, how, manner)
    specs = [replace(spec, faithful=manner.faithful, data=manner.data) for spec in named]
    outcomes = _unfit(specs, paths, how) if len(specs) > 1 else []
    unfit = {outcome.eval for outcome in outcomes}
    noted: set[tuple[str, str]] = set()
    for spec in specs:
        if spec.name in unfit:
            continue
        try:
            outcomes.append(_run_one(spec, manner, here, how, {**options, "alone": len(specs) == 1}, noted))
        except Stop as stop:
            if len(specs) == 1:
                raise
            warn(str(stop) if str(stop).startswith(spec.name) else f"{spec.name} was not run: {stop}")
            outcomes.append(EvalOutcome(spec.name, code=stop.code, why=str(stop)))
        if outcomes[-1].code == 130:
            break
    if not how.plan_only and not how.detach:
        _say_outcomes([outcome for outcome in outcomes if outcome.eval not in unfit] or outcomes, outcomes, how)
    return _code(outcomes)


def _unfit(specs: Sequence[EvalSpec], paths: str, how: ExecutionOptions) -> list[EvalOutcome]:
    """The evals that cannot run here, told by their reasons, each reason once."""
    reasons = {spec.name: found for spec in specs if (found := spec.reasons())}
    if reasons and not how.as_json:
        warn(f"{len(reasons)} of {len(specs)} evals cannot run here (`tui-evals registry {paths}` has more):")
        for reason, names in by_reason(reasons).items():
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            warn(f"  {reason}: {', '.join(names[:_NAMED])}{more}")
    return [EvalOutcome(name, code=1, why="; ".join(found)) for name, found in reasons.items()]


def _check_manner(specs: Sequence[EvalSpec], how: ExecutionOptions, manner: Manner) -> None:
    """End the command where it can only be about one eval and there are several."""
    if len(specs) == 1:
        return
    if manner.data is not None:
        raise Stop(f"--data gives the samples of one eval, and there are {len(specs)}; name one of them")
    if how.detach:
        raise Stop(f"--detach runs one eval in the background, and there are {len(specs)}; name one of them")
    if how.outputs:
        raise Stop(f"--output writes one run, and there are {len(specs)} evals; `tui-evals export RUN` writes each")


def _run_one(
    spec: EvalSpec,
    manner: Manner,
    here: Project,
    how: ExecutionOptions,
    options: Mapping[str, Any],
    noted: set[tuple[str, str]],
) -> EvalOutcome:
    if reasons := spec.reasons():
        raise Stop(f"{spec.name} cannot run here: {'; '.join(reasons)} ({spec.entry.where})", 1)
    if not how.quiet:
        say_json_line({"event": "eval", "eval": spec.name}) if how.as_json else say(spec.name, bold=True)
    try:
        data, losses = spec.document(manner.most)
        data["extensions"]["openai_evals"]["command"] = shlex.join(("tui-evals", *sys.argv[1:]))
        target_names = _targets(spec, data, here, options)
        document = document_of_data(_fitted(spec, data, len(target_names)), Path(spec.name))
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    judge = options["judge"] or here.settings.judge
    _note_losses(losses, spec, target_names, judge, how, noted)
    if manner.faithful and not how.quiet:
        _say_comparison(spec, (*spec.unlike(), *_own_params(spec, here, target_names, judge)), how)
    name = " ".join(filter(None, (options["name"], "" if options["alone"] and options["name"] else spec.name)))
    request = request_of(document, here, options, source=SOURCE + spec.name, name=name)
    request = replace(request, targets=target_names, tags=tuple(dict.fromkeys((TAG, *request.tags))))
    run, code = run_request(request, here, how)
    if run is None or how.detach:
        return EvalOutcome(spec.name, run.key if run else "", code)
    with project.reader() as reader:
        return EvalOutcome(spec.name, run.key, code, final_report(reader, reader.run(run.id)))


def _targets(spec: EvalSpec, data: Mapping[str, Any], here: Project, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The answers in the samples, if all have one; else the named or configured targets."""
    if data["items"] and all("response" in item for item in data["items"]):
        return (_replayed(spec, here),)
    return target_words(options) or here.settings.usual_targets


def _replayed(spec: EvalSpec, here: Project) -> str:
    """A target that gives the answers which the samples of an eval hold already."""
    project.store_path()  # which makes the folder
    file = here.root / ".evals" / "registries" / f"{quote(spec.name, safe=' ')[:200]}.json"
    try:
        make_private_folder(file.parent)
        write_atomically(file, strictjson.dumps(spec.document()[0]).encode())
    except (OSError, CannotSave) as problem:
        raise Stop(f"{file} could not be written: {problem}", 1) from None
    return f"replay:{file.relative_to(here.root).as_posix()}"


def _fitted(spec: EvalSpec, data: dict[str, Any], targets: int) -> dict[str, Any]:
    """The document with as many repeats as it takes until there are enough answers to judge together."""
    if 0 < targets < spec.needs.targets:
        raise Stop(f"{spec.name} compares the answers of models: name two targets at least, as in --target ONE,OTHER")
    if targets < 2:
        return data
    items = [_without_repeats(spec, item, targets) for item in data["items"]]
    return _without_repeats(spec, {**data, "items": items}, targets)


def _without_repeats(spec: EvalSpec, part: Mapping[str, Any], targets: int) -> dict[str, Any]:
    """A dataset or item whose answers come one from each target."""
    repeats = part.get("repeats", targets)
    if repeats != targets:
        conflict = f"{spec.name} judges {repeats} answers together"
        raise Stop(f"{conflict}: name one target, which is asked {repeats} times, or {repeats} targets")
    return {name: value for name, value in part.items() if name != "repeats"}


def _note_losses(
    losses: Losses,
    spec: EvalSpec,
    target_names: Sequence[str],
    judge: str | None,
    how: ExecutionOptions,
    noted: set[tuple[str, str]],
) -> None:
    """Print differences to the original, each of them once."""
    if how.quiet or how.as_json:
        return
    for loss in (*losses.of("left out"), *losses.of("changed")):
        if (loss.what, loss.why) not in noted and not _sent(loss):
            warn(f"note: {loss}")
        noted.add((loss.what, loss.why))
    if spec.needs.judge and len(target_names) > 1 and ("judge", "") not in noted:
        noted.add(("judge", ""))
        who = f"{judge} judges" if judge else "name the one that judges with --judge"
        warn(f"note: each of {', '.join(target_names)} answers, the last one too, which in the original judges; {who}")


def _say_comparison(spec: EvalSpec, why: Sequence[str], how: ExecutionOptions) -> None:
    """Print whether the figures of a faithful run are comparable with the original, or why not."""
    if how.as_json:
        aside = ["usage_*"] if spec.needs.judge else []
        told = {"compares": not why, "why": list(why), "except": aside}
        say_json_line({"event": "compares", "eval": spec.name, **told})
    elif why:
        say(f"figures do not compare with oaieval: {'; '.join(why)}")
    elif spec.needs.judge:
        say("figures compare with oaieval, except usage_*: oaieval counts the tokens of the judge too")
    else:
        say("figures compare with oaieval")


def _own_params(spec: EvalSpec, here: Project, target_names: Sequence[str], judge: str | None) -> Iterator[str]:
    """The parameters of targets that are not those the original sends."""
    judges = ((judge, spec.needs.judge_params),) if judge and spec.needs.judge else ()
    for name, sent in (*((name, spec.needs.params) for name in target_names), *judges):
        config = here.settings.targets.get(name)
        for param, value in (config.params if config else {}).items():
            if param in _SAMPLED and sent.get(param) != value:
                yield f"{name} is configured with {param} {value}"


def _sent(loss: Loss) -> bool:
    """Whether a loss is about parameters, which a run sends unless the configuration says otherwise."""
    return loss.what.startswith("the original sends")


def _say_outcomes(tried: Sequence[EvalOutcome], outcomes: Sequence[EvalOutcome], how: ExecutionOptions) -> None:
    """A line for each eval that was tried, and how many of all ran."""
    ran, count = sum(bool(outcome.run) for outcome in outcomes), len(outcomes)
    if how.as_json:
        evals = [asdict(outcome) for outcome in outcomes]
        say_json_line({"event": "evals", "ran": ran, "of": count, "evals": evals, "exit_code": _code(outcomes)})
    elif not how.quiet:
        rows = [[outcome.eval, outcome.run or "not run", ", ".join(_figures(outcome))] for outcome in tried]
        for line in table(rows, elastic=(2, 0), room=columns()):
            say(line)
        if count > 1:
            say(f"{ran} of {count} evals ran", bold=True)


def _figures(outcome: EvalOutcome) -> Iterator[str]:
    for name, value in outcome.figures.items():
        if not name.startswith(_ASIDE):
            yield f"{name.removeprefix('counts/')} {value:.4g}"
    if outcome.run and not outcome.figures:
        yield "nothing was judged"


def _code(outcomes: Sequence[EvalOutcome]) -> int:
    """The first exit code of the runs; without any 1, or 3 if only the configuration prevented them."""
    ran = [outcome.code for outcome in outcomes if outcome.run or not outcome.why]
    if ran:
        return first_exit_code(ran)
    return 3 if all(outcome.code == 3 for outcome in outcomes) else 1
