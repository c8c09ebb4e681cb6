"""Every command in a stranger's project: nothing runs, is sent or is written outside the project without a yes.

The list of commands is the command table itself, so that a new command is covered the day it appears.
"""

from __future__ import annotations

import click
import pytest

from tests.hostile.clone import watched
from tui_evals.cli.main import SECTIONS, cli
from tui_evals.evaluators.sandbox import isolation_kind

OWN_WORDS = {"demo", "watch"}  # a project of its own elsewhere; and who watches waits for somebody else
GIVEN = {
    "run": "last",
    "runs": "last",
    "file": "data.json",
    "files": "data.json",
    "dataset": "data.json",
    "prompt": "tags/tags.prompty",
    "name": "shell",
    "evaluator": "Mine",
    "text": "two",
    "item": "1",
    "items": "1",
    "to": "2",
    "fields": "prompt=@data.json",
    "tags": "new",
    "field": "prompt",
}


def leaves(command: click.Command, words: tuple[str, ...]) -> list[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        inner = [
            leaf
            for name in command.list_commands(context)
            if (sub := command.get_command(context, name)) is not None
            for leaf in leaves(sub, (*words, name))
        ]
        return [*inner, *([(words, command)] if command.invoke_without_command else [])]
    return [(words, command)]


def table() -> list[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(cli)
    names = [name for commands in SECTIONS.values() for name in commands if name not in OWN_WORDS]
    commands = [(name, cli.get_command(context, name)) for name in names]
    return [leaf for name, command in commands if command is not None for leaf in leaves(command, (name,))]


def words_for(command: click.Command) -> list[str]:
    """Words that satisfy the parameters a command cannot do without."""
    words: list[str] = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            if isinstance(parameter.type, click.Choice):
                words.append(parameter.type.choices[0])
            else:
                words.append(GIVEN.get(parameter.name or "", "data.json"))
        elif parameter.required:
            words += [parameter.opts[0], GIVEN.get(parameter.name or "", "data.json")]
    names = {parameter.name for parameter in command.params}
    return [*words, *(["--yes"] if "sure" in names else [])]


CASES = {" ".join(words): (words, command) for words, command in table()}


@pytest.mark.parametrize("name", CASES)
def test_a_command_does_nothing_without_a_yes(name, clone, shell, tmp_path, stranger):
    words, command = CASES[name]
    isolation_kind()  # what doctor tries of this machine has nothing to do with the project
    allowed = (clone.root, stranger, tmp_path / "scratch")
    with watched(*allowed) as seen:
        told = [shell(*words, *arguments).err for arguments in (words_for(command), [])]
    if any("for this once with --trust" in text for text in told):
        assert "--trust" in {option for parameter in command.params for option in parameter.opts}
    assert clone.marks == []
    assert clone.attacker.heard == []
    # A look at what our own Python has installed is a process of that Python, apart from the project.
    assert [each for each in seen.anything if "libraries/child" not in each and "child.listing" not in each] == []


def test_the_witness_sees_what_a_yes_allows(clone, shell, stranger, tmp_path):
    """The same attacks succeed once they are agreed to: the suite can fail."""
    with watched(clone.root, stranger, tmp_path / "scratch") as seen:
        done = shell(
            "run", "data.json", "-t", "shell", "-t", "function", "-t", "address", "--without-judges", "--trust"
        )
    assert done.code in (0, 1), done.err
    assert {"command", "evaluator", "function-imported"} <= set(clone.marks)
    assert clone.attacker.heard
    assert seen.started
    assert seen.connected
