"""Questions that engineers have are answered by `tui-evals help WORDS` within two lines."""

import re

import pytest
from click.testing import CliRunner

from tui_evals.cli.main import cli
from tui_evals.cli.manual import laid_out
from tui_evals.text.manual import pages, search, sections

pytestmark = pytest.mark.story

QUESTIONS = {
    "http agent": "init URL",
    "test my HTTP agent": "init URL",
    "pull request": "--fail-under",
    "gate": "--fail-",
    "why did it fail": "show last --only fail",
    "compare two prompts": "-p a.prompty -p b.prompty",
    "trust my judge": "label last --blind",
    "resume": "resume last",
    "spend at most $1": "--max-cost 1",
    "budget": "--max-cost 1",
    "import promptfoo": "import promptfooconfig.yaml",
    "add an evaluator": "evaluators new",
    "pandas": "report last --to parquet",
    "timeout": "timeout = 60",
    "rate limit": "requests_per_minute",
    "trust project": "tui-evals trust",
    "exit code": "--fail-under 90 --quiet",
}


def said(*words):
    done = CliRunner().invoke(cli, ["help", *words])
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


@pytest.mark.nightly
def test_questions_are_answered_within_two_lines():
    for question, answer in QUESTIONS.items():
        assert answer in "\n".join(said(*question.split())[:2]), question


def test_a_heading_shows_its_section():
    lines = said("Gate", "a", "pull", "request", "in", "CI")
    assert lines[0] == "Gate a pull request in CI" and any("See `help gates`" in line for line in lines)


def test_a_section_with_all_words_comes_before_one_with_some():
    found = search("resume errors", pages())
    assert found[0].heading == "Retry errors"
    assert all(re.search("error", f"{one.heading} {one.text}", re.IGNORECASE) for one in found)


def test_pages_are_wrapped_to_the_terminal():
    for name, page in pages().items():
        for line, _ in laid_out(page, 60):
            prose = not line.startswith((" ", "|", "```"))
            assert not prose or len(line) <= 60 or " " not in line, f"{name}: {line}"


def test_a_table_is_shown_in_columns_that_fit_the_terminal():
    table = "| word | meaning |\n|---|---|\n| `a` | first |\n| `b` | " + "several words " * 10 + "|"
    lines = [line for line, _ in laid_out(table, 60)]
    assert lines[:2] == ["word  meaning", "`a`   first"] and lines[-1].startswith("      ") and len(lines) > 4
    for name, page in pages().items():
        for line, _ in laid_out(page, 80):
            assert not line.startswith("|") and ("   " not in line or line.startswith("    ") or len(line) <= 80), name
    assert laid_out(table, None)[1][0] == "|---|---|"


def test_headings_of_a_page_are_told_apart():
    headings = [line for line, bold in laid_out(pages()["gates"], 80) if bold]
    assert headings == [section.heading for section in sections({"gates": pages()["gates"]})]


def test_every_task_names_a_page_that_exists():
    for section in sections({"tasks": pages()["tasks"]}):
        assert set(re.findall(r"`help ([\w-]+)`", section.text)) <= set(pages()), section.heading
