"""Proposed items: replies read, texts of models made harmless, duplicates found, provenance kept, failures as items."""

import json

import pytest

from tui_evals.generate.asking import Prompts
from tui_evals.generate.proposals import (
    Proposal,
    ProposalRequest,
    Seed,
    failed_proposals,
    find_duplicates,
    item_texts,
    named_item,
    place_for,
    read_proposals,
    stored_proposals,
    text_label,
)
from tui_evals.targets.base import TargetConfig

WRITER = TargetConfig(name="writer", model="openai/writer")
PLAIN = {"testId": "A", "prompt": "Where is my order?", "expected_response": "On its way.", "tags": ["shop"]}
TALK = {"turns": [{"prompt": "Hello", "expected_response": "Hi"}, {"prompt": "And now?"}], "category": "talk"}
FILLED = {"variables": {"town": "Millbrook", "count": 3}, "expected_response": "fine"}


def seed(item, place=0, name="A"):
    return Seed(place, name, item)


def request(*seeds, count=3, **more):
    return ProposalRequest(instruction="make it harder", seeds=seeds, target=WRITER, count=count, **more)


def read(reply, item=PLAIN, count=3):
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return [proposal.item for proposal in read_proposals(text, request(count=count), seed(item), "2026-11-28")]


def proposed(prompt, of=PLAIN, place=0, name="A"):
    return Proposal({"prompt": prompt, "extensions": {"proposal": {"from": name}}}, seed(of, place, name))


ONE = {"prompt": "Where is order 12 of two?", "expected_response": "Late."}


@pytest.mark.parametrize(
    "reply",
    [
        [ONE],
        {"items": [ONE]},
        ONE,
        f"Here they are:\n```json\n{json.dumps([ONE])}\n```",
        f"```json\n{json.dumps([ONE])}\n```",
        f"Sure: {json.dumps(ONE)} I hope this helps.",
        [ONE, {"question": "no prompt"}, {"prompt": "   "}, {"prompt": 3}, "text"],
    ],
)
def test_an_item_is_read_whatever_is_around_it(reply):
    (item,) = read(reply)
    assert {name: item[name] for name in ("prompt", "expected_response", "tags")} == {**ONE, "tags": ["shop"]}
    assert "testId" not in item


@pytest.mark.parametrize("reply", ["", "I cannot help with that.", "[]", "{", "[[[", "null", '{"a": [1]}', "[" * 5000])
def test_a_reply_without_items_proposes_nothing(reply):
    assert read(reply) == []


def test_no_more_items_are_read_than_were_asked_for_and_never_endless_ones():
    many = [{"prompt": f"question {number}"} for number in range(200)]
    assert [item["prompt"] for item in read(many)] == ["question 0", "question 1", "question 2"]
    assert len(read(many, count=None)) == 50


def test_a_model_sets_nothing_but_the_texts_that_the_item_has():
    hostile = {**ONE, "evaluators": {"PythonCode": {}}, "attachments": ["/etc/passwd"], "testId": "B", "tools": []}
    (item,) = read([hostile], {**PLAIN, "evaluators": {"ContainsAny": {"values": ["order"]}}})
    assert set(item) == {"prompt", "expected_response", "tags", "extensions"}


def test_hostile_texts_are_kept_as_they_are_and_can_be_written():
    (item,) = read([{"prompt": "\x1b]52;c;aGk=\x07a\x1b[2J\u200bb\0\ud800", "expected_response": "\ud800"}])
    assert item["prompt"] == "\x1b]52;c;aGk=\x07a\x1b[2J\u200bb?"
    assert json.dumps(item, ensure_ascii=False).encode()


def test_the_turns_of_a_conversation_are_read_up_to_the_first_that_asks_nothing():
    turns = [{"prompt": "Good day", "expected_response": "Hi"}, {"prompt": "so?", "response": "x"}, {"prompt": ""}]
    (item,) = read([{"turns": turns}, {"turns": "none"}, {"turns": [{}]}], TALK)
    assert item["turns"] == [{"prompt": "Good day", "expected_response": "Hi"}, {"prompt": "so?"}]
    assert item["category"] == "talk"


def test_variables_keep_what_is_no_text_and_an_item_of_the_same_values_is_none():
    same, other = {"variables": {"town": "Millbrook"}}, {"variables": {"town": "Ash", "count": "9", "new": "x"}}
    (item,) = read([same, other], FILLED)
    assert item["variables"] == {"town": "Ash", "count": 3}


def test_where_an_item_comes_from_is_kept_in_its_extensions():
    asked = request(rule="Be short.")
    (proposal,) = read_proposals(json.dumps([ONE]), asked, seed(PLAIN), "2026-11-28T18:00:00+00:00")
    assert proposal.facts == {
        "from": "A",
        "by": "openai/writer",
        "instruction": "make it harder",
        "when": "2026-11-28T18:00:00+00:00",
        "rule": "Be short.",
    }
    assert stored_proposals(json.loads(json.dumps([proposal.stored()]))) == [proposal]
    assert stored_proposals([{"item": 3}, None]) == stored_proposals("x") == []


def test_the_question_holds_the_item_between_marks_and_the_instruction_outside(tmp_path):
    asked = request(count=None, about="You sell shoes.")
    system, user = asked.messages(seed({**TALK, "prompt": None}), Prompts(tmp_path))
    assert "make it harder" in system["content"] and "as many items as the instruction says" in system["content"]
    assert "You sell shoes." in user["content"] and '"And now?"' in user["content"]
    assert "<data-" in user["content"]


def test_duplicates_are_found_in_the_dataset_and_among_proposals():
    long = "Please tell me where the parcel is that I ordered two weeks ago in your shop"
    items = [("A", PLAIN), ("B", {"prompt": long}), ("#3", "no item"), ("#4", {})]
    queue = [proposed(text) for text in ("where is  MY order?", f"{long}!", "new", "NEW", "quite different")]
    same, near, new, again, different = find_duplicates(queue, items)
    assert same == "asks the same as A"
    assert near.endswith("% like B")
    assert (new, again, different) == ("", "asks the same as proposal 3", "")


def test_a_kept_proposal_goes_after_its_item_and_those_kept_before():
    items = [{"prompt": "first"}, PLAIN, {"prompt": "last"}]
    one, two = proposed("one", place=1), proposed("two", place=1)
    assert place_for(items, one) == 2
    assert place_for([*items[:2], one.item, items[2]], two) == 3
    assert place_for([PLAIN, *items[:1]], one) == 1
    assert place_for(items[:1], one) == 1
    assert place_for([], one) == 0


def test_a_kept_item_is_named_after_its_seed_where_that_has_a_name():
    assert named_item(proposed("x"), {"A", "A-1"})["testId"] == "A-2"
    assert "testId" not in named_item(proposed("x", of={"prompt": "y"}), set())


def test_texts_are_named_as_a_person_reads_them():
    assert [text_label(path) for path, _ in item_texts({**FILLED, **TALK})] == [
        "variables.town",
        "expected_response",
        "turn 1 prompt",
        "turn 1 expected_response",
        "turn 2 prompt",
    ]


def test_failed_answers_become_the_items_that_were_asked(tmp_path, one_run):
    run, reader, rows = one_run
    proposals = failed_proposals(run, reader)
    assert [proposal.seed.name for proposal in proposals] == [row.name for row in rows]
    assert [proposal.item["prompt"] for proposal in proposals] == ["question 1"]
    facts = proposals[0].facts
    assert (facts["run"], facts["answer"]) == (run.key, rows[0].id)
    assert proposals[0].item["expected_response"] == "never"


@pytest.fixture
def one_run(tmp_path):
    class Row:
        def __init__(self, id, item, turn, status):
            self.id, self.item, self.turn, self.status, self.name = id, item, turn, status, f"#{item + 1}"

    class Kept:
        """A stored run of two items, of which the second failed in both repeats."""

        key, id, snapshot = "abc", 1, "digest"

        def all_rows(self, run):
            return [Row(1, 0, 0, "pass"), Row(2, 1, 0, "fail"), Row(3, 1, 0, "partial"), Row(4, 2, 0, "error")]

    class Store(Kept):
        def snapshot(self, digest):
            expected = {"prompt": "question 1", "expected_response": "never", "response": "said", "scores": {}}
            return {"items": [{"prompt": "question 0"}, expected, {"prompt": "question 2"}]}

    return Kept(), Store(), [Row(2, 1, 0, "fail")]


def test_a_failed_conversation_ends_with_the_turn_that_failed(one_run):
    run, reader, _ = one_run
    reader.snapshot = lambda digest: {"items": [{"prompt": "x"}, {"turns": [{"prompt": "a"}, {"prompt": "b"}]}]}
    (proposal,) = failed_proposals(run, reader)
    assert proposal.item["turns"] == [{"prompt": "a"}]
