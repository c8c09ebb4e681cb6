"""The table of the five originals: every command that it names is there, and every evaluator."""

import re
import shlex

import pytest

from tests.cli.test_compare_tools import test_every_command_and_option_is_there as is_there
from tui_evals.evaluators.registry import built_in
from tui_evals.text.manual import pages

PAGE = pages()["originals"]
ROWS = re.findall(r"^ {4}(\S.*?) {2,}(equal|by decision|missing) {2,}tui-evals (.+)$", PAGE, re.MULTILINE)
SYSTEMS = ("OpenAI Evals", "Arthur Bench", "PromptPex", "Microsoft 365 Copilot evals", "Prompt Foundry")


@pytest.mark.parametrize("line", sorted({line for _, _, line in ROWS}))
def test_every_command_is_there(line, shell):
    is_there(line)
    words = shlex.split(line)
    if words[0] == "evaluators":
        assert words[1] in built_in()
        assert shell(*words).code == 0


def test_each_system_has_its_rows_and_says_why_where_it_differs():
    for system in SYSTEMS:
        section = PAGE.partition(f"## {system}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"  (equal|by decision|missing)  +tui-evals", section)
        assert len(rows) >= 4, system
        assert section.rstrip().rpartition("\n\n")[2][:1].isupper(), system
