"""What every command that edits a dataset does with its file: check it, write it, say what became of it, undo it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tui_evals.atomic_files import CannotSave
from tui_evals.cli import inputs
from tui_evals.cli.output import Stop, say, say_json, warn
from tui_evals.datasets import history
from tui_evals.datasets.assignments import Assignment, parse_assignment
from tui_evals.datasets.attachments import attachment_problems
from tui_evals.datasets.document import Document
from tui_evals.datasets.file_edit import Change, Checks, FileEdit, Refused, edit_file
from tui_evals.datasets.paths import CannotEdit, Data
from tui_evals.datasets.problems import DatasetError, Problem, place_in_words
from tui_evals.datasets.prompts import prompt_of
from tui_evals.datasets.save import ChangedOnDisk
from tui_evals.datasets.validate import ValidationReport, validate
from tui_evals.evaluators.registry import Registry
from tui_evals.runs.own_code import own_code_problems
from tui_evals.runs.prompting import unfilled_items

_LARGEST = 2**26
_SHOWN = 3


def edited(file: Path, edit: Callable[[Data], Change], *, force: bool, new: bool = False) -> FileEdit:
    """Make an edit and write it, or end the command with why not."""
    try:
        return edit_file(file, edit, _checks(), force=force, new=new)
    except CannotEdit as problem:
        raise Stop(f"{file}: {problem}; nothing was written") from None
    except (Refused, DatasetError, CannotSave, ChangedOnDisk, history.CannotUndo) as problem:
        raise Stop(str(problem)) from None


def _checks() -> Checks:
    """What validation takes; the evaluators are found once for a command."""
    found = cache(lambda prompt: inputs.evaluators(prompt=prompt))

    def check(document: Document) -> ValidationReport:
        registry: Registry = found(_prompt_of(document))
        report = validate(document, registry.catalogue, registry.own)
        if report.dataset is None:
            return report
        return report.with_problems([*own_code_problems(document, registry), *attachment_problems(document)])

    return Checks(check, unfilled_items)


def registry_of(file: Path) -> Registry:
    """The evaluators the dataset of a file may name, those beside its prompt under test among them."""
    return inputs.evaluators(prompt=_prompt_of(inputs.read(file)))


def _prompt_of(document: Document) -> Path | None:
    try:
        return prompt_of(document)
    except DatasetError:  # that the prompt cannot be used is found in the dataset itself
        return None


def say_edit(file: Path, done: FileEdit, text: str, as_json: bool, **more: Any) -> None:
    """Say what an edit did, and what there is to know of the file since."""
    if as_json:
        problems = [{"place": place_in_words(one.path), "message": one.message} for one in done.standing]
        backup = None if done.backup is None else str(done.backup)
        say_json({"file": str(file), "changed": done.changed, **more, "backup": backup, "problems": problems})
        return
    if not done.changed:
        say(f"{file} is that way already; nothing was written")
        return
    say(text, fg="green")
    if done.backup is not None:
        say(f"the older shape is kept as {done.backup}")
    for problem in done.warnings:
        warn(f"note: {_sentence(problem)}")
    if done.standing:
        count = len(done.standing)
        warn(f"note: {file} is not valid, as it was before: {count} problem{'s' * (count != 1)}")
        for problem in done.standing[:_SHOWN]:
            warn(f"  {_sentence(problem)}")
        if count > _SHOWN:
            warn(f"  and {count - _SHOWN} more; `tui-evals validate {shlex.quote(str(file))}` says all")


def _sentence(problem: Problem) -> str:
    return f"{place_in_words(problem.path)}: {problem.message}"


def assignments_of(words: Sequence[str]) -> list[Assignment]:
    """The assignments of arguments; `-` stands for standard input, `@FILE` for what a file holds, `@@` for @ itself."""
    assignments = []
    for word in words:
        try:
            one = parse_assignment(word)
        except CannotEdit as problem:
            raise Stop(str(problem)) from None
        assignments.append(Assignment(one.names, _text_of(one.text), one.is_json))
    if sum(parse_assignment(word).text == "-" for word in words) > 1:
        raise Stop("only one value can be read from standard input; give the other as FIELD=@FILE")
    return assignments


def _text_of(text: str) -> str:
    if text.startswith("@@"):
        return text[1:]
    if text != "-" and not text.startswith("@"):
        return text
    return text_from("-" if text == "-" else text[1:]).removesuffix("\n").removesuffix("\r")


def text_from(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    called = "standard input" if name == "-" else name
    if name == "-" and sys.stdin is None:
        raise Stop("standard input is closed; give the value as FIELD=@FILE")
    try:
        if name == "-":
            raw = getattr(sys.stdin, "buffer", sys.stdin).read(_LARGEST + 1)
        else:
            with open(name, "rb") as stream:
                raw = stream.read(_LARGEST + 1)
    except OSError as problem:
        hint = "; a text that begins with @ is written with @@" if name != "-" else ""
        raise Stop(f"{called} cannot be read: {problem.strerror}{hint}") from None
    if len(raw) > _LARGEST:
        raise Stop(f"{called} is larger than {_LARGEST // 2**20} MiB, too large for a value")
    if isinstance(raw, str):
        return raw
    try:
        return str(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        raise Stop(f"{called}:{line}: is not UTF-8 text; save it as UTF-8") from None
