"""Items that share a testId: each face says what becomes of it, and no item loses its id."""

from __future__ import annotations

import json

import pytest

from tui_evals.store.reader import Reader

RUN = ("run", "data.json", "-t", "replay:answers.jsonl", "--no-cache")
SAYS = (
    "The testId 'refund' is that of 2 items. The run names them refund#1 and refund#3, and comparisons match them by "
    "what they ask. To match them by testId, give each its own."
)


@pytest.fixture
def repeated(project):
    """Three items with answers, of which the first and the last have one testId."""
    ids = ("refund", "greeting", "refund")
    items = [{"testId": name, "prompt": f"ask {n}", "expected_response": str(n)} for n, name in enumerate(ids)]
    write(project, items)
    rows = [{**item, "response": item["expected_response"]} for item in items]
    (project / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return items


def write(project, items):
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}
    (project / "data.json").write_text(json.dumps(document))


def names(project):
    with Reader(project / ".evals" / "evals.db") as reader:
        return [row.name for row in reader.all_rows(reader.find_run("last").id)]


def test_validate_says_how_a_run_names_them(repeated, shell):
    said = shell("validate", "data.json").out
    assert "testId 'refund' is also that of items[0]. Runs name this item refund#3" in said


def test_a_plan_and_a_run_say_it_and_the_run_keeps_the_id(repeated, project, shell):
    assert SAYS in shell(*RUN, "--plan").err
    done = shell(*RUN, "--quiet")
    assert done.code == 0 and SAYS in done.err
    assert names(project) == ["refund#1", "greeting", "refund#3"]


def test_only_items_that_are_asked_are_spoken_of(repeated, shell):
    assert "refund" not in shell(*RUN, "--items", "2", "--plan").err


def test_several_repeated_ids_are_said_in_one_sentence(repeated, project, shell):
    write(project, [*repeated, *({"testId": "greeting", "prompt": f"hello {n}"} for n in range(4))])
    said = shell(*RUN, "--plan").err
    assert "The testId 'refund' is that of 2 items, and another testId is repeated too. The run names them" in said


def test_an_item_is_shown_by_the_name_it_has_there(repeated, project, shell):
    shell(*RUN, "--quiet")
    assert "ask 2" in shell("show", "last", "--item", "refund#3").out
    assert "ask 2" in shell("show", "last", "--item", "#3").out
    assert "refund#3" in shell("show", "last", "--only", "id:refund#3").out
    refused = shell("show", "last", "--item", "refund")
    assert refused.code == 2
    assert "Several items of" in refused.err and "Name one of them: refund#1, refund#3" in refused.err


@pytest.mark.story
def test_runs_of_them_are_compared_by_what_they_ask(repeated, project, shell):
    answered = [{**item, "response": item["expected_response"]} for item in repeated]
    for name, items in (("before", answered), ("after", [answered[2], answered[1], {**answered[0], "response": "no"}])):
        write(project, items)
        shell("run", "data.json", "-t", "replay:data.json", "--name", name, "--quiet")
    said = shell("compare", "before", "after").out
    assert "broken  refund#1" in said and "1 broken" in said and "2 same" in said


def test_a_name_that_another_item_has_is_not_given_twice(repeated, project, shell):
    write(project, [*repeated[:2], {"testId": "refund#3", "prompt": "ask 9"}, repeated[2], repeated[2]])
    shell(*RUN, "--quiet")
    assert names(project) == ["refund#1", "greeting", "refund#3", "refund#4", "refund#5"]
    write(project, [repeated[0], {"testId": "refund#1", "prompt": "ask 9"}, repeated[2]])
    shell(*RUN, "--quiet")
    assert names(project) == ["#1", "refund#1", "refund#3"]
