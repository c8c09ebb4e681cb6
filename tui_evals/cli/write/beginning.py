"""`init --from`: a few questions, a configuration with comments, a small dataset, one call, and the command to run."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from tui_evals.cli.inputs import open_project
from tui_evals.cli.output import Stop, asked, cell, keep_output_to_ourselves, say
from tui_evals.datasets.discover import STARTER, make_project, write_first_questions
from tui_evals.files import CannotSave, make_folder, write_atomically
from tui_evals.runs.approving import agree, missing_of_targets
from tui_evals.runs.project import Project
from tui_evals.runs.target_opening import items_of
from tui_evals.targets.answers import answer_path
from tui_evals.targets.base import ConfigurationError, Reply, Request, TargetConfig, TargetError, attempt_clock
from tui_evals.targets.config_file import BEGINNINGS, FUNCTION, Question, replace_section, write_setting
from tui_evals.targets.opening import open_target
from tui_evals.text.strictjson import PathError, find_by_path, loads

FIRST = "Hello! What can you help me with?"
_FUNCTION = re.compile(r"(?P<file>[\w./-]+\.py):(?P<name>[A-Za-z_]\w*)")


def begin_from(source: str, given: Mapping[str, str | None]) -> None:
    """Configure a first target of a kind, ask it once, and say how it is run."""
    beginning, root = BEGINNINGS[source], Path.cwd()
    needed = {question.option for question in beginning.questions}
    if unfit := [option for option, value in given.items() if value is not None and option not in (*needed, "ask")]:
        raise Stop(f"--{unfit[0]} is nothing that --from {source} takes; it takes {_options([*needed, 'ask'])}")
    said = {one.option: _said(one, given[one.option]) for one in beginning.questions}
    first = asked("What is it asked first?", FIRST, given["ask"], "ask")
    name = beginning.name
    try:
        make_project(root)
        if source == "python":
            _write_function(said["at"])
        file, had = replace_section(root, name, beginning.section(said))
        here = open_project(None, trusting=False)
        if not here.settings.run.targets:
            write_setting(root, ("run", "targets"), [name])
        say(f"{'replaced' if had else 'wrote'} [targets.{name}] in {file.relative_to(root)}", fg="green")
        if not STARTER.exists():
            write_first_questions(STARTER, first)
            say(f"wrote {STARTER}", fg="green")
    except ConfigurationError as problem:
        raise Stop(str(problem)) from None
    except (OSError, CannotSave) as problem:
        raise Stop(f"the project cannot be made here: {problem}") from None
    try:
        reply = _ask_once(here, here.settings.targets[name], first)
    except _NotLetIn as refusal:
        said["header"] = _header_asked(refusal, source, said, given)
        replace_section(root, name, beginning.section(said))
        here = open_project(None, trusting=False)
        reply = _ask_once(here, here.settings.targets[name], first)
    text = reply.text
    if source == "http" and not said["answer"]:
        text = _with_answer_path(root, name, text)
    say(f"✓ {name} answers: {cell(text, 70)!r}", fg="green")
    say(f"next: tui-evals run {STARTER} --target {name}", bold=True)


class _NotLetIn(Stop):
    """The service wants to know who asks."""


def _said(question: Question, given: str | None) -> str:
    """The answer to a question; without a person to confirm it, a guess is no answer."""
    if not question.text:
        return given or ""
    default = None if question.guessed and not sys.stdin.isatty() else question.default
    return asked(question.text, default, given, question.option)


def _header_asked(refusal: Stop, source: str, said: Mapping[str, str], given: Mapping[str, str | None]) -> str:
    """The header that a person says it needs, or the end of the command with how to give it."""
    if given.get("header") or not sys.stdin.isatty():
        words = shlex.join(["tui-evals", "init", "--from", source, "--at", said["at"], "--field", said["field"]])
        raise Stop(
            f"{refusal}\nName the header that it needs, and put its key into that variable:\n"
            f"{words} --header 'Authorization: Bearer env:NAME'",
            3,
        )
    say(str(refusal))
    return asked("Which header does it need, as in Authorization: Bearer env:NAME?", None, None, "header")


def _options(names: list[str]) -> str:
    return ", ".join(f"--{name}" for name in sorted(names))


def _write_function(at: str) -> None:
    """A function to begin with, where a file is named that is not there."""
    match = _FUNCTION.fullmatch(at)
    if match is None or Path(match["file"]).exists():
        return
    make_folder(Path(match["file"]).parent)
    write_atomically(Path(match["file"]), FUNCTION.format(name=match["name"]).encode())
    say(f"wrote {match['file']}, a function to begin with", fg="green")


def _ask_once(here: Project, config: TargetConfig, question: str) -> Reply:
    """The answer to one question; what was typed in this command is agreed to."""
    agree(missing_of_targets(here, [config]), here.root)
    keep_output_to_ourselves()

    async def ask() -> Reply:
        target = open_target(config, here.environment, here.root, items_of)
        try:
            async with attempt_clock(target, config.timeout):
                return await target.ask(Request(messages=({"role": "user", "content": question},)))
        finally:
            await target.close()

    try:
        return asyncio.run(ask())
    except (TargetError, ConfigurationError, TimeoutError) as problem:
        if config.http is not None and getattr(problem, "code", "") == "agentAuthenticationError":
            raise _NotLetIn(f"✗ {config.name}: {problem}", 3) from None
        says = str(problem) or f"no answer within {config.timeout:g} s"
        raise Stop(
            f"✗ {config.name}: {says}\nFix [targets.{config.name}] in .evals/config.toml, then: "
            f"tui-evals targets check {config.name}",
            3,
        ) from None


def _with_answer_path(root: Path, name: str, reply: str) -> str:
    """Write where the answer stands in a reply, if that can be told, and give the answer."""
    path = answer_path(reply)
    if path is None:
        return reply
    write_setting(root, ("targets", name, "http", "answer"), path)
    say(f'the answer is at {path}: set answer = "…" in .evals/config.toml if that is another place')
    try:
        return str(next(iter(find_by_path(path, loads(reply))), reply))
    except (PathError, ValueError):
        return reply
