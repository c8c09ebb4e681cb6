"""`tui-evals init`, `validate`, `resolve`, `upgrade` and `convert`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.cli import inputs
from tui_evals.cli.output import Stop, cell, is_output, say, say_json, say_result, warn, write_file
from tui_evals.datasets import model, save
from tui_evals.datasets.discover import STARTER, make_project, project_root, write_starter
from tui_evals.datasets.document import Document, companion_of, companion_text, load
from tui_evals.datasets.matrix import expanded
from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Problem, problem_with_place
from tui_evals.datasets.prompts import is_prompt, load_prompt, prompt_of
from tui_evals.datasets.resolve import EffectiveEvaluator, resolve_evaluators
from tui_evals.datasets.save import upgrade
from tui_evals.datasets.validate import ValidationReport, dataset_of, validate
from tui_evals.files import CannotSave
from tui_evals.imports.dataset import converted, reads_back
from tui_evals.runs.experiments import Experiment, experiment_named, json_schema, problems_of, read_experiment
from tui_evals.runs.readiness import with_run_problems
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config_file import EMPTY, add_section, begin_configuration
from tui_evals.targets.permissions import Approvals, is_shared, is_unclaimed
from tui_evals.targets.providers import GUIDES, guide_lines
from tui_evals.text import strictjson
from tui_evals.text.safe import safe_line

_OF_RUNNING = ("ask", "examples", "prompt", "evaluators", "runs")
"""The options of `init` about questions and evaluators, not about the target."""


def initialise_from(what: str | None, source: str | None, provider: str | None, given: Mapping[str, Any]) -> int:
    """Begin a project with a target that is recognized, or of a kind."""
    from tui_evals.cli.write.beginning import begin

    if provider is not None:
        raise Stop("--from and --provider each configure a target; give one of them, and then the other")
    begun_here = is_unclaimed(Path.cwd())
    make_project(Path.cwd())
    if begun_here:
        Approvals(Path.cwd()).own()
    else:
        _say_whose()
    options = {name: given[name] for name in _OF_RUNNING}
    return begin(what, source, {name: value for name, value in given.items() if name not in options}, options)


def _say_whose() -> None:
    """Explain why the code of a project that you created here needs your approval."""
    if is_shared(Path.cwd()) and not Approvals(Path.cwd()).is_own:
        say("A pull can bring code of others into this repository, so what it runs needs your yes.")
        say("If all of it is your own: tui-evals trust --below .")


def initialise(template: str, provider: str | None, given: Mapping[str, Any]) -> int | None:
    """Start a project interactively; without a terminal, write a starter dataset and the project folder.

    The dataset is written where discovery finds it. A project that has one gets the provider added; `given` has options
    of another way to start.
    """
    if lost := [name for name, value in given.items() if name != "runs" and value not in (None, ())]:
        option = {"examples": "example"}.get(lost[0], lost[0])
        raise Stop(f"--{option} belongs to WHAT or --from; say what is evaluated: tui-evals init URL")
    if provider is None and template == "basic" and sys.stdin.isatty():
        from tui_evals.cli.write.beginning import what_is_evaluated

        if what := what_is_evaluated():
            return initialise_from(what, None, None, given)
    begun_here = is_unclaimed(Path.cwd())
    has_dataset = STARTER.exists() and provider is not None
    try:
        if not has_dataset:
            write_starter(STARTER, template)
        folder = make_project(Path.cwd())
        if provider is None:
            begin_configuration(Path.cwd(), EMPTY)
        if begun_here:
            Approvals(Path.cwd()).own()
    except FileExistsError as problem:
        raise Stop(str(problem)) from None
    except (OSError, CannotSave) as problem:
        raise Stop(f"the project cannot be made here: {problem}") from None
    if not has_dataset:
        say(f"wrote {STARTER} ({template}) and {folder.name}/", fg="green")
    if not begun_here and not has_dataset:
        _say_whose()
    if provider is not None:
        _add_provider(provider)
    else:
        say("next, offline: tui-evals run --target demo", bold=True)
        say("then edit the dataset (`tui-evals`, or an editor and `tui-evals validate`), and .evals/config.toml")
    say_result(None, {"dataset": str(STARTER), "target": provider, "answer": None, "run_exit_code": None})
    return None


def _add_provider(name: str) -> None:
    """Configure a target of a provider, and print what is needed before it can be asked."""
    guide = GUIDES[name]
    try:
        file = add_section(Path.cwd(), name, guide.section(name))
    except ConfigurationError as problem:
        raise Stop(str(problem)) from None
    say(f"wrote [targets.{name}] to {file.relative_to(Path.cwd())}", fg="green")
    for line in guide_lines(name, guide)[1:]:
        say(line)


def print_schema(kind: str) -> None:
    """Print the JSON Schema of a kind of file."""
    say_json(model.json_schema() if kind == "dataset" else json_schema())


def validate_files(files: tuple[Path, ...], strict_schema: bool, as_json: bool) -> int:
    """Print the problems of each file, and both verdicts."""
    findings = [_finding(file) for file in inputs.dataset_files(files)]
    failed = any(not _good(finding, strict_schema) for finding in findings)
    if as_json:
        say_json([_as_json(finding, strict_schema) for finding in findings])
    else:
        for finding in findings:
            _say_finding(finding, strict_schema, in_full=strict_schema or len(findings) == 1)
    return 2 if failed else 0


class _Finding:
    """A file with the result of its validation; prompt files and unreadable ones only have problems."""

    def __init__(
        self,
        file: Path,
        problems: Sequence[Problem],
        report: ValidationReport | None = None,
        kind: str = "prompt file",
        power: str = "",
    ) -> None:
        self.file = file
        self.kind = kind
        self.problems = tuple(problems)
        self.report = report
        self.power = power
        """The drop that the gate of an experiment can show."""


def _finding(file: Path) -> _Finding:
    try:
        if (named := experiment_named(file, project_root(Path.cwd()))) is not None:
            file = named
            return _finding_of_experiment(file)
        if is_prompt(file):
            load_prompt(file)
            return _Finding(file, ())
        document = load(file)
        registry = inputs.evaluators(prompt=prompt_of(document))
    except DatasetError as error:
        return _Finding(file, error.problems)
    report = validate(document, registry.catalogue, registry.own)
    report = with_run_problems(report, document, registry)
    return _Finding(file, report.problems, report)


def _finding_of_experiment(file: Path) -> _Finding:
    """The problems of an experiment, its references and its data."""
    here = inputs.open_project(None, trusting=False)
    experiment = read_experiment(file, here.root)
    problems, power = problems_of(experiment, here.settings), ""
    try:
        document, source = experiment.document()
        power = _power(experiment, document)
        rules = experiment.evaluators
        if rules is not None:
            document = document.with_data({**document.data, "default_evaluators": dict(rules)})
        report = validate(document, here.registry.catalogue, here.registry.own)
        named = "" if source == file else f"{source}: "
        of_data = [
            replace(one, message=f"{named}{one.message}", line=one.line if source == file else None)
            for one in report.problems
        ]
    except DatasetError as error:
        of_data = [Problem(str(error) if error.source != str(file) else one.message) for one in error.problems]
    return _Finding(file, [*problems, *of_data], kind="experiment", power=power)


def _power(experiment: Experiment, document: Document) -> str:
    """The drop that the regression gate can show with the items of an experiment; empty without that gate."""
    level = experiment.options.get("fail_on_regression")
    if level is None or experiment.model.items or experiment.model.filter:
        return ""
    from tui_evals.compare.baseline import drop_sentence  # few experiments have the gate

    items = min(len(expanded(document)[0].data["items"]), experiment.model.limit or sys.maxsize)
    return drop_sentence(items, items, level)


def _good(finding: _Finding, strict: bool) -> bool:
    broken = any(problem.severity == "error" for problem in finding.problems)
    return not broken and not (strict and finding.report is not None and finding.report.portability)


def _say_finding(finding: _Finding, strict: bool, in_full: bool) -> None:
    good, report = _good(finding, strict), finding.report
    errors = sum(problem.severity == "error" for problem in finding.problems)
    if report is None or not report.valid:
        verdict = f"valid {finding.kind}" if good else f"{errors} problem{'s' if errors != 1 else ''}"
    else:
        count = len(report.dataset.items) if report.dataset else 0
        verdict = f"valid · {count} item{'s' if count != 1 else ''} · "
        verdict += "portable to runevals" if report.portable else "not portable to runevals"
        verdict += "" if in_full or report.portable else " (--strict-schema says why)"
    say(f"{'✓' if good else '✗'} {safe_line(str(finding.file))}: {verdict}", fg="green" if good else "red")
    for problem in finding.problems:
        mark = "warning: " if problem.severity == "warning" else ""
        say(f"  {problem_with_place(str(finding.file), replace(problem, message=mark + problem.message))}")
    if finding.power:
        say(f"  {finding.power}")
    for problem in report.portability if report and in_full else ():
        say(f"  {'' if strict else 'portability: '}{problem_with_place(str(finding.file), problem)}", dim=not strict)


def _as_json(finding: _Finding, strict: bool) -> dict[str, Any]:
    def shown(problem: Problem) -> dict[str, Any]:
        return {
            "path": problem.where,
            "line": problem.line,
            "column": problem.column,
            "severity": problem.severity,
            "message": problem.message,
        }

    report = finding.report
    return {
        "file": str(finding.file),
        "valid": _good(finding, strict),
        "portable": bool(report and report.portable),
        "items": len(report.dataset.items) if report and report.dataset else None,
        "problems": [shown(problem) for problem in finding.problems],
        **({"power": finding.power} if finding.power else {}),
        "portability": [shown(problem) for problem in report.portability] if report else [],
    }


def show_resolved(file: Path | None, number: int | None, as_json: bool) -> None:
    """Show which evaluators judge each item and turn of a dataset, with which options, and where each comes from."""
    file = file or inputs.found_or_started()
    dataset = _dataset(inputs.read(file))
    if number is not None and number > len(dataset.items):
        raise Stop(f"{file} has {len(dataset.items)} items; there is no item {number}")
    chosen = range(len(dataset.items)) if number is None else range(number - 1, number)
    rows = [
        (index, place, item, resolve_evaluators(dataset, unit))
        for index in chosen
        for item in (dataset.items[index],)
        for place, unit in enumerate(item.units)
    ]
    if as_json:
        say_json([_resolved(index, place, item, entries) for index, place, item, entries in rows])
        return
    for index, place, item, entries in rows:
        turn = f", turn {place + 1}" if item.turns else ""
        say(f"#{index + 1}{turn}  {cell(_title(item, place), 90)}", bold=True)
        for entry in entries:
            say(f"    {_line(entry)}")
        if not entries:
            say("    nothing judges it")


def _dataset(document: Document) -> Dataset:
    try:
        registry = inputs.evaluators(prompt=prompt_of(document))
        return dataset_of(document, registry.catalogue, registry.own)
    except DatasetError as problem:
        raise Stop(str(problem)) from None


def _title(item: Item, place: int) -> str:
    prompt = item.units[place].prompt or ""
    return " · ".join(part for part in (item.testId, item.name, prompt) if part)


def _line(entry: EffectiveEvaluator) -> str:
    label = entry.key if entry.evaluator == entry.key else f"{entry.key} ({entry.evaluator})"
    text = f"{label:<24} {entry.origin:<8} {strictjson.dumps(entry.settings) if entry.settings else '{}'}"
    if entry.overridden is not None:
        text += f"   instead of the default {strictjson.dumps(dict(entry.overridden))}"
    return text


def _resolved(index: int, place: int, item: Item, entries: Sequence[EffectiveEvaluator]) -> dict[str, Any]:
    return {
        "item": index + 1,
        "turn": place + 1 if item.turns else None,
        "testId": item.testId,
        "evaluators": [
            {
                "key": entry.key,
                "evaluator": entry.evaluator,
                "options": entry.settings,
                "origin": entry.origin,
                "overridden": None if entry.overridden is None else dict(entry.overridden),
            }
            for entry in entries
        ],
    }


def upgrade_file(file: Path) -> None:
    """Upgrade a file and print the changes."""
    try:
        done = upgrade(inputs.read(file))
    except (DatasetError, save.ChangedOnDisk, CannotSave) as problem:
        raise Stop(str(problem)) from None
    if done.before == CURRENT_VERSION:
        say(f"{file} is already at version {CURRENT_VERSION}")
        return
    say(f"{file}: {done.before or 'unversioned'} → {CURRENT_VERSION}", fg="green")
    if done.backup:
        say(f"the original is kept as {done.backup}")


def convert_file(file: Path, kind: str, output: Path | None, raw_csv: bool, bare: bool) -> None:
    """Write a dataset in another format to a file or to standard output, with a companion next to the file."""
    source = inputs.read(file)
    try:
        registry = inputs.evaluators(prompt=prompt_of(source))
        dataset_of(source, registry.catalogue, registry.own)
        text, lost = converted(source, kind, registry.own, raw_csv=raw_csv)
    except DatasetError as problem:
        raise Stop(str(problem)) from None
    file = output or Path("-")
    write_file(file, [text], new=True)
    for line in lost:
        warn(f"note: {line}")
    if is_output(file):
        return
    say(f"wrote {file}", fg="green")
    if kind == "m365" and lost:
        say(f"for reading it back here: tui-evals import {shlex.quote(str(file))} --into NEW.json")
    if not (bare or kind == "m365" or reads_back(source, text, kind)):
        beside = companion_of(file)
        write_file(beside, [companion_text(text, source.data)], new=True)
        say(f"wrote {beside}: the whole dataset, its prompts too, for reading it back here (--bare writes none)")
