"""The causes at the end of a run: alike ones together whatever is quoted, each with a filter that finds its rows."""

import json
import shlex

from tests.runs.conftest import FREE

KINDS = ("not_chat", "wrong_json", "html", "empty", "400", "echo", "500", "stated529", "cut")


def causes_of(project, *marks):
    """The causes of a run whose questions meet these kinds, in their order."""
    project.configure(FREE, retries=0)
    project.dataset(len(marks), lambda number: f"question {number} [[{marks[number]}]]")
    said = project.as_call("run", "data.json", "--target", "main", "--json", "--no-cache")[1]
    return json.loads(said.strip().splitlines()[-1])["causes"]


def listed(project, command):
    """The questions that a command lists which was printed for a person to type."""
    words = shlex.split(command)
    assert words[:2] == ["tui-evals", "show"]
    return {int(row["name"].removeprefix("#")) - 1 for row in json.loads(project.do(*words[1:], "--json"))["answers"]}


def test_causes_that_differ_in_what_is_quoted_are_one_and_each_filter_finds_its_rows_alone(project):
    causes = causes_of(project, *KINDS, "answer")
    rows = [listed(project, cause["command"]) for cause in causes]
    assert [len(found) for found in rows] == [cause["count"] for cause in causes]
    assert {0, 1, 2, 3} in rows, "unreadable answers are one cause, whatever was answered"
    assert {4, 5} in rows and {6} in rows and {7} in rows and {8} in rows
    filters = [cause["filter"] for cause in causes]
    assert len(set(filters)) == len(filters) and not any("*" in one for one in filters)
    assert 'cause:"answered 400"' in filters and 'cause:"answered what is not a chat completion"' in filters


def test_two_causes_of_one_code_whose_messages_begin_alike_have_filters_of_their_own(project):
    (project.folder / "alike.py").write_text(
        "def answer(prompt):\n"
        "    number = int(prompt.split()[1])\n"
        "    long = 'the backend that keeps all the orders of this shop in this country and every other one'\n"
        "    raise RuntimeError(f'{long} is down' if number % 2 else f'{long} is full')\n"
    )
    project.dataset(4)
    said = project.as_call("run", "data.json", "--target", "python:alike.py:answer", "--json", "--trust")[1]
    causes = json.loads(said.strip().splitlines()[-1])["causes"]
    assert sorted(listed(project, cause["command"]) for cause in causes) == [{0, 2}, {1, 3}]
