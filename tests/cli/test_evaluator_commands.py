"""Who judges, by command: with the checks of the workbench, on a dataset, its items and turns."""

import json
from pathlib import Path

import pytest

from tests.cli.test_item_commands import items, ok, refused

DATA = {
    "schemaVersion": "1.2.0",
    "items": [
        {"testId": "A", "prompt": "one", "evaluators": {"PartialMatch": {"threshold": 0.4}}},
        {"prompt": "two"},
        {"testId": "T", "turns": [{"prompt": "hi"}, {"prompt": "bye"}]},
    ],
}


@pytest.fixture
def file(project) -> Path:
    (project / "d.json").write_text(json.dumps(DATA, indent=2))
    return Path("d.json")


def defaults(file):
    return json.loads(file.read_text()).get("default_evaluators")


@pytest.mark.story
def test_the_list_and_one_of_it_are_shown_as_before(shell, file):
    assert "PartialMatch" in ok(shell("evaluators"))
    assert len(json.loads(ok(shell("evaluators", "--json")))) > 20
    for words in (("ExactMatch", "--json"), ("--json", "ExactMatch"), ("show", "ExactMatch", "--json")):
        assert json.loads(ok(shell("evaluators", *words)))["name"] == "ExactMatch"
    assert ok(shell("evaluators", "ExactMatch")) == ok(shell("evaluators", "show", "ExactMatch"))
    assert refused(shell("evaluators", "ExactMach"), "unknown evaluator 'ExactMach' (did you mean 'ExactMatch'?)")


def test_the_first_one_of_a_dataset_is_written_with_the_system_defaults(shell, file):
    done = shell("evaluators", "set", file, "ExactMatch", "case_sensitive=yes")
    assert "ExactMatch judges the dataset now" in ok(done)
    assert "from now on those that it names do: Relevance, Coherence, ExactMatch" in done.err
    assert defaults(file) == {"Relevance": {}, "Coherence": {}, "ExactMatch": {"case_sensitive": True}}
    assert shell("evaluators", "set", file, "Relevance", "threshold=4").err == ""
    ok(shell("evaluators", "rm", file, "Coherence"))
    assert defaults(file) == {"Relevance": {"threshold": 4}, "ExactMatch": {"case_sensitive": True}}
    for _ in range(3):
        ok(shell("dataset", "undo", file))
    assert json.loads(file.read_text()) == DATA


def test_one_that_every_dataset_has_is_taken_away_by_name(shell, file):
    done = shell("evaluators", "rm", file, "Relevance")
    assert done.code == 0 and "from now on those that it names do: Coherence" in done.err
    assert defaults(file) == {"Coherence": {}}


def test_options_are_added_to_those_an_evaluator_has_where_it_judges(shell, file):
    ok(shell("evaluators", "set", file, "PartialMatch", "threshold=0.7", "case_sensitive=no"))
    ok(shell("evaluators", "set", file, "PartialMatch", "case_sensitive=true", "--item", "1,2"))
    assert [item["evaluators"]["PartialMatch"] for item in items(file)[:2]] == [
        {"threshold": 0.4, "case_sensitive": True},
        {"threshold": 0.7, "case_sensitive": True},
    ]
    ok(shell("evaluators", "set", file, "PartialMatch", "--unset", "threshold", "--item", "A"))
    assert items(file)[0]["evaluators"]["PartialMatch"] == {"case_sensitive": True}


def test_an_item_extends_or_replaces_the_defaults(shell, file):
    out = ok(shell("evaluators", "set", file, "ExactMatch", "--item", 2, "--mode", "replace"))
    assert "ExactMatch judges item 2 now; item 2 replaces the dataset's evaluators" in out
    assert items(file)[1] == {"prompt": "two", "evaluators": {"ExactMatch": {}}, "evaluators_mode": "replace"}
    ok(shell("evaluators", "set", file, "--item", "1,2", "--mode", "replace"))
    ok(shell("evaluators", "rm", file, "ExactMatch", "--item", 2))
    assert items(file)[1] == {"prompt": "two", "evaluators": {}, "evaluators_mode": "replace"}
    ok(shell("evaluators", "set", file, "--item", 2, "--mode", "extend"))
    assert items(file)[1] == {"prompt": "two"}
    assert refused(shell("evaluators", "set", file, "ExactMatch", "--mode", "extend"), "add --item")


def test_the_turns_of_a_conversation_have_evaluators(shell, file):
    assert refused(
        shell("evaluators", "set", file, "ExactMatch", "--item", "T"), "item 3 (T) is a conversation", "--turn"
    )
    ok(shell("evaluators", "set", file, "ExactMatch", "--item", "T", "--turn", 2))
    assert items(file)[2]["turns"][1]["evaluators"] == {"ExactMatch": {}}
    assert "turn 2 of item 3 (T)" in ok(shell("evaluators", "rm", file, "ExactMatch", "--item", "T", "--turn", 2))
    assert items(file) == DATA["items"]


def test_values_are_read_as_the_options_have_them(shell, file):
    ok(shell("evaluators", "set", file, "Second", "type=ContainsAll", "values=a, b", "weight=0.5", "--item", 2))
    assert items(file)[1]["evaluators"] == {"Second": {"type": "ContainsAll", "values": ["a", "b"], "weight": 0.5}}
    ok(shell("evaluators", "set", file, "Second", 'values=["a,b"]', "negate:=true", "--item", 2))
    assert items(file)[1]["evaluators"]["Second"]["values"] == ["a,b"]
    ok(shell("evaluators", "set", file, "ModelGraded", "prompt=Is {x} good?", "choice_strings=A", "--item", 1))
    options = items(file)[0]["evaluators"]["ModelGraded"]
    assert options == {"prompt": "Is {x} good?", "choice_strings": "A"}


WRONG = {
    "an unknown one": (("set", "Relevnce"), "unknown evaluator 'Relevnce' (did you mean 'Relevance'?)"),
    "an unknown option": (
        ("set", "PartialMatch", "thresold=1"),
        "unknown field 'thresold' (did you mean 'threshold'?)",
    ),
    "a value out of bounds": (("set", "PartialMatch", "threshold=2"), "threshold: must be at most 1, not 2"),
    "a value of another kind": (("set", "PartialMatch", "threshold=x"), 'threshold: must be a number, not "x"'),
    "an option that is missing": (("set", "JsonSchema"), "default_evaluators, JsonSchema"),
    "an option it has not": (("set", "PartialMatch", "--unset", "threshold"), "has no option 'threshold' here"),
    "a part of an option": (("set", "PartialMatch", "a.b=1"), "an option is set as a whole"),
    "no name": (("set",), "name the evaluator"),
    "an item there is none of": (("set", "ExactMatch", "--item", "9"), "there is no item 9"),
    "a turn there is none of": (("set", "ExactMatch", "--item", "T", "--turn", "3"), "item 3 (T) has 2 turns"),
    "a turn of no item": (("set", "ExactMatch", "--turn", "3"), "name it with --item"),
    "one that is not written there": (("rm", "Coherense"), "is not written on the dataset (did you mean 'Coherence'?)"),
    "one that is inherited": (
        ("rm", "Relevance", "--item", "A"),
        "To judge without inherited evaluators, switch to replace",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_a_sentence_and_nothing_is_written(shell, file, name):
    (verb, *words), sentence = WRONG[name]
    before = file.read_bytes()
    assert refused(shell("evaluators", verb, file, *words), sentence)
    assert file.read_bytes() == before and not Path(".evals").exists()


def test_what_was_done_is_told_as_data(shell, file):
    told = json.loads(ok(shell("evaluators", "set", file, "ExactMatch", "--item", "A", "--json")))
    assert told["changed"] is True and told["evaluator"] == "ExactMatch" and told["item"] == "A"
