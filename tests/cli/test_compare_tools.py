"""The peers' table: every command, option, evaluator and setting that it names for our side is there."""

import re
import shlex

import click
import pytest

from tui_evals.cli.main import cli
from tui_evals.evaluators.registry import built_in
from tui_evals.text.manual import pages

PAGE = pages()["compare-tools"]
TYPED = re.findall(r"^ {16}tui-evals (.+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", TYPED)
def test_every_command_and_option_is_there(line):
    words = shlex.split(line)
    command, context = cli, click.Context(cli)
    while isinstance(command, click.Group) and words and (found := command.get_command(context, words[0])):
        command, context, words = found, click.Context(found, context, words[0]), words[1:]
    assert command is not cli, line
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known, line


def test_every_entry_ends_with_what_to_type():
    entries = re.findall(r"^[A-Z].*\n(?: {4}.*\n)+", PAGE, re.MULTILINE)
    assert len(entries) > 25
    for entry in entries:
        assert re.search(r"^ {4}(promptfoo|Inspect|here) ", entry, re.MULTILINE)
        assert "    here " in entry and re.search(r"^ {16}tui-evals \S", entry, re.MULTILINE), entry


def test_every_evaluator_is_there():
    named = set(re.findall(r"`([A-Z]\w+)`", PAGE))
    assert len(named) > 20
    assert [name for name in sorted(named) if name not in built_in()] == []


def test_a_command_that_is_not_there_would_be_found():
    with pytest.raises(AssertionError):
        test_every_command_and_option_is_there("show last --onyl x")
