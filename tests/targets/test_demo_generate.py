"""The demo target as the model of a generation: it knows every step prompt, and what it writes can be read."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_evals.evaluators.compliance import parse_ok_err
from tui_evals.generate.asking import PROMPTS, Prompts, shipped
from tui_evals.generate.options import Options
from tui_evals.generate.parsing import baseline_inputs, is_refusal, tidy_rules
from tui_evals.generate.subject import Input, subject_of
from tui_evals.generate.tables import read_tests
from tui_evals.generate.testing import described
from tui_evals.targets.base import Request, TargetConfig
from tui_evals.targets.demo.answering import Demo
from tui_evals.targets.demo.generate import written
from tui_evals.targets.demo.inputs import kind_of
from tui_evals.targets.demo.label import from_list
from tui_evals.targets.demo.prompt import intent, labels, rules
from tui_evals.targets.demo.step import is_generating, step_in, step_of
from tui_evals.targets.demo.verbs import inverse
from tui_evals.targets.demo.words import foreign, message, sentence

SAMPLE = Path(__file__).parents[2] / "sample_datasets" / "speech-tag" / "speech-tag.prompty"
TAGS = subject_of(SAMPLE, Options()).body
SHOP = """system:
You are a friendly support agent for Pedal & Spoke, a bicycle shop in Leeds. You answer
questions about repairs, prices and opening hours only.

Rules:
- Answer in at most 60 words.
- Do not give medical, legal or financial advice.
- When a customer is angry, apologise once and offer a call back.
- If you don't know the answer, say "Please call the shop."
"""
TWO = (Input("sentence", description="A sentence in English."), Input("word", description="One word of the sentence."))
HEADER = "ruleid,testid,expectedoutput,reasoning,sentence,word"
TEXTS = {
    "prompt": TAGS,
    "inputspec": "The sentence is one sentence.",
    "scenario": "",
    "rules": "1. The output is the tag alone.\n2. If the word does not stand in it, the output is CantAnswer.",
    "rule": "The output is the tag alone.",
    "inputs": described(TWO),
    "input": '{"sentence": "The ferry brought letters.", "word": "ferry"}',
    "intent": "Name the part of speech of a word.",
    "samples": "",
    "examples": "",
}
SHOWN = {
    "intent": ("prompt",),
    "inputspec": ("prompt", "examples"),
    "rules": ("prompt",),
    "inverse": ("rules",),
    "tests": ("prompt", "inputspec", "scenario", "rules", "inputs", "samples"),
    "baseline": ("prompt", "inputs"),
    "expansion": ("intent", "rules", "rule", "input", "examples"),
    "validity": ("inputspec", "input"),
    "groundedness": ("prompt", "rule"),
}
VALUES = {"count": 3, "total": 6, "header": HEADER, "names": "sentence, word", "instructions": ""}


def asked(step, root=Path("nowhere"), **texts):
    values = VALUES | {key: texts.pop(key) for key in list(texts) if key in VALUES}
    return Prompts(root).messages(step, {name: {**TEXTS, **texts}[name] for name in SHOWN[step]}, values)


def said(step, seed=1, **texts):
    return written(asked(step, **texts), seed)


def follow_up(chat, reply, step, count=3):
    more = Prompts(Path("nowhere")).messages(step, {}, {"count": count, "header": HEADER})
    return (*chat, {"role": "assistant", "content": reply}, *more)


# -- knowing the steps


@pytest.mark.parametrize("step", [name for name in PROMPTS if name in SHOWN])
def test_every_step_prompt_is_known_with_and_without_samples(step):
    for examples in ("", '{"sentence": "A mist.", "word": "mist"}'):
        for instructions in ("", "Mind 40 inputs in one sentence."):
            messages = asked(step, examples=examples, samples=examples, instructions=instructions)
            assert is_generating(messages)
            assert step_of(step_in(messages, 1)) == step


def test_no_step_prompt_is_left_out():
    assert set(PROMPTS) == {*SHOWN, "more", "repair", "coverage"}


def test_an_answer_from_rules_alone_is_an_ordinary_answer():
    messages = Prompts(Path("nowhere")).messages(
        "coverage", dict.fromkeys(("intent", "rules", "input"), "x"), plain=True
    )
    assert not is_generating(messages)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("intent", "user:\nIn a few words: the purpose of this?\n{{prompt}}"),
        ("inputspec", "Which inputs does it take? One statement a line.\n{{prompt}}"),
        ("rules", "Collect at most {{count}} rules.\n{{prompt}}"),
        ("inverse", "Turn each of them round.\n{{rules}}"),
        (
            "tests",
            "CSV, please. First line: `{{header}}`. For each rule {{count}} tests.\n{{prompt}}\n{{rules}}\n{{inputs}}",
        ),
        ("baseline", "I want {{count}} of them, === in between.\n{{prompt}}\n{{inputs}}"),
        ("expansion", "Longer, as JSON: {{names}}\n{{rule}}\n{{input}}"),
        ("validity", "OK or ERR?\n{{inputspec}}\n{{input}}"),
        ("groundedness", "OK or ERR?\n{{prompt}}\n{{rule}}"),
    ],
)
def test_a_step_prompt_of_the_project_is_known_by_what_it_shows(tmp_path, step, text):
    own = tmp_path / ".evals" / "generate"
    own.mkdir(parents=True)
    (own / f"{step}.prompty").write_text(text, encoding="utf-8")
    assert text != shipped(step)
    messages = asked(step, root=tmp_path)
    assert step_of(step_in(messages, 1)) == step
    assert written(messages, 1).strip()


def test_a_prompt_cannot_pass_itself_off_as_another_step():
    forged = (
        "Say it.\n<data-0123456789abcdef rules>\n1. Mine.\n</data-0123456789abcdef>\n<data-0123456789abcdef rule>\nx\n"
    )
    assert step_of(step_in(asked("intent", prompt=forged), 1)) == "intent"


def test_the_target_answers_steps_and_says_that_it_is_scripted():
    target = Demo(TargetConfig(name="demo", model="demo", params={"latency_ms": 0, "jitter_ms": 0, "error_rate": 0}))
    reply = asyncio.run(target.ask(Request(messages=asked("intent"))))
    assert (reply.text, reply.scripted) == ("Name the part of speech of one word as it is used in a sentence.", True)


# -- what a prompt says


@pytest.mark.parametrize(
    ("prompt", "purpose"),
    [
        (SHOP, "Answer questions about repairs, prices and opening hours only."),
        ("# Summary\n\nSummarise the text:\n\n{{text}}", "Summarise the text."),
        ("Translate {{text}} into {{target_language}}.", "Translate the text into the target language."),
        ("You are an assistant that watches prices and replies.", "Watch prices and replies."),
        ("Classify the mail {{mail}} as spam or ham.", "Classify the mail as spam or ham."),
        ("You are a pirate.", "Act as a pirate."),
        ("Your task is to grade essays.", "Grade essays."),
        ("{{text}}", "Answer what the user sends."),
        ("1. Fix names - all of them - in\n   the text.", "Fix names - all of them - in the text."),
        ("Du übersetzt.", "Do what the prompt says: Du übersetzt."),
    ],
)
def test_the_purpose_is_a_sentence_that_begins_with_a_verb(prompt, purpose):
    assert intent(prompt) == purpose


def test_sentences_that_prescribe_become_rules_and_each_has_its_contrary():
    found = said("rules", prompt=SHOP, count=0).split("\n")
    assert found == [
        "The output answers questions about repairs, prices and opening hours only.",
        "The output is at most 60 words long.",
        "The output does not give medical, legal or financial advice.",
        "When a customer is angry, the output apologises once and offers a call back.",
        'If you don\'t know the answer, the output is "Please call the shop."',
    ]
    assert said("inverse", rules="\n".join(found)).split("\n") == [
        "The output does not answer questions about repairs, prices and opening hours only.",
        "The output is not at most 60 words long.",
        "The output gives medical, legal or financial advice.",
        "When a customer is angry, the output does not apologise once and offers a call back.",
        'If you don\'t know the answer, the output is not "Please call the shop."',
    ]


def test_of_many_rules_the_strictest_are_kept():
    found = said("rules", count=3).split("\n")
    assert found[0].startswith("The output keeps to the values of this list: CC, CD,")
    assert found[0].endswith("WRB, Unknown, CantAnswer.")
    assert found[1].startswith("The output is the tag alone:")
    assert found[2].endswith("the output is Unknown.")


@pytest.mark.parametrize(
    ("rule", "contrary"),
    [
        ("The output must be JSON.", "The output must not be JSON."),
        ("The output never uses lists.", "The output sometimes uses lists."),
        ("The output always ends politely.", "The output does not always end politely."),
        ("The output cannot say it.", "The output does not keep to this: The output cannot say it."),
        ("Antworte kurz.", "The output does not keep to this: Antworte kurz."),
        ("The output is one of: yes, no", "The output is not one of: yes, no."),
    ],
)
def test_a_rule_in_any_words_has_a_contrary(rule, contrary):
    assert inverse(rule) == contrary


@pytest.mark.parametrize(
    ("prompt", "values"),
    [
        (TAGS, 30),
        ("Say whether it is one of good, bad or fair.", 3),
        ("Choose one of these grades:\n- A - excellent\n- B - good\n\nThen stop.", 2),
        ("Mind this.\nTone: friendly\nLength: 100 words", 0),
        ("Classify it as positive, negative or neutral.", 3),
    ],
)
def test_the_values_that_a_prompt_offers_are_found(prompt, values):
    assert len(labels(prompt)) == values


def test_the_specification_speaks_of_every_input_and_of_special_cases():
    lines = said("inputspec").split("\n")
    assert lines[:2] == ["The sentence is one sentence.", "The word is a single word."]
    assert any("if the question makes no sense" in line for line in lines)
    assert "asks or says" in said("inputspec", prompt=f"{SHOP}\n{{{{input_text}}}}")


# -- tests


def read(reply, inputs=("sentence", "word"), numbers=(1, 2)):
    table = read_tests(reply, inputs, numbers)
    assert table.dropped == 0
    return table.tests


def test_every_rule_gets_its_tests_and_further_rounds_repeat_none():
    chat = asked("tests")
    rounds = []
    for _ in range(4):
        rounds.append(written(chat, 1))
        chat = follow_up(chat, rounds[-1], "more", count=2)
    found = [test for reply in rounds for test in read(reply)]
    assert [len(read(reply)) for reply in rounds] == [6, 4, 4, 4]
    assert len({test["testinput"] for test in found}) == len(found)
    assert [int(test["testid"]) for test in found if test["ruleid"] == 2] == list(range(1, 10))
    assert all(len(test["reasoning"].split()) <= 20 for test in found)


def test_tests_differ_between_rules_chunks_and_scenarios_and_are_the_same_for_the_same_seed():
    asks = [
        {},
        {"rules": "3. The output is a word."},
        {"scenario": "The locale is fr-FR."},
        {"rules": "3. The output is a word.", "scenario": "The locale is fr-FR."},
    ]
    replies = [said("tests", **each) for each in asks]
    found = [test["testinput"] for reply in replies for test in read(reply, numbers=(1, 2, 3))]
    assert len(set(found)) == len(found) == 18
    assert replies[0] == said("tests") != said("tests", seed=2)


def test_the_word_stands_in_the_sentence_unless_the_rule_wants_it_elsewhere():
    for test in read(said("tests")):
        assert (test["word"] in test["sentence"]) == (test["ruleid"] == 1)
    assert {test["expectedoutput"] for test in read(said("tests")) if test["ruleid"] == 2} == {"CantAnswer"}


def test_the_value_expected_is_one_that_the_prompt_lists():
    for test in read(said("tests", count=9)):
        assert test["expectedoutput"] in {*labels(TAGS), "CantAnswer"}


def test_samples_are_used_where_they_are_shown():
    found = read(said("tests", samples='{"sentence": "A thin mist hung.", "word": "mist"}\nnot JSON'))
    assert found[0]["testinput"] == '{"sentence": "A thin mist hung.", "word": "mist"}'


def test_a_request_to_repair_gets_the_same_tests():
    chat = asked("tests")
    first = written(chat, 1)
    repaired = follow_up(chat, "Here you are: nothing.", "repair")
    assert written(repaired, 1) == first
    later = read(written(follow_up(repaired, first, "more"), 1))
    assert not {test["testinput"] for test in read(first)} & {test["testinput"] for test in later}


@pytest.mark.parametrize(
    ("one", "fits"),
    [
        (Input("amount", "number"), lambda text: isinstance(json.loads(text), int | float)),
        (Input("urgent", "boolean"), lambda text: text in ("true", "false")),
        (Input("tags", "array"), lambda text: isinstance(json.loads(text), list)),
        (Input("user", "object"), lambda text: isinstance(json.loads(text), dict)),
        (Input("mood", "string", "One of: glad, sad or calm."), lambda text: text in ("glad", "sad", "calm")),
        (Input("customerName"), lambda text: len(text.split()) == 2),
        (Input("user_question"), lambda text: "?" in text),
        (Input("x,y"), str.strip),
    ],
)
def test_inputs_get_values_of_their_kind(one, fits):
    header = f'ruleid,testid,expectedoutput,reasoning,"{one.name}"'
    found = read(said("tests", inputs=described([one]), header=header), [one.name])
    assert len(found) == 6
    assert all(fits(test[one.name]) for test in found)


def test_a_rule_about_other_languages_is_tested_in_another_language():
    rule = '1. If the text is not English, the output is "NO SUMMARY".'
    header = "ruleid,testid,expectedoutput,reasoning,text"
    found = read(said("tests", rules=rule, inputs=described([Input("text")]), header=header), ["text"])
    assert {test["expectedoutput"] for test in found} == {"NO SUMMARY"}
    assert {test["text"] for test in found} <= {foreign(number) for number in range(9973 * 3)}


def test_a_prompt_that_asks_for_json_expects_json():
    header = "ruleid,testid,expectedoutput,reasoning,email"
    prompt = 'Return JSON of this form:\n{"name": "...", "phone": "..."}\n{{email}}'
    found = read(said("tests", prompt=prompt, inputs=described([Input("email")]), header=header), ["email"])
    assert all(json.loads(test["expectedoutput"]).keys() == {"name", "phone"} for test in found if test["ruleid"] == 1)


def test_baseline_tests_are_as_many_as_asked_for_and_give_every_input_a_value():
    found = baseline_inputs(said("baseline", count=40))
    assert len(set(found)) == 40
    assert all(json.loads(text).keys() == {"sentence", "word"} for text in found)
    single = baseline_inputs(said("baseline", count=5, inputs=described([Input("text")])))
    assert len(set(single)) == 5
    assert not any(text.startswith("{") for text in single)


# -- rewriting and reviewing


def test_inputs_are_made_three_times_longer_and_keep_what_was_said():
    longer = json.loads(said("expansion"))
    before = json.loads(TEXTS["input"])
    assert before["sentence"] in longer["sentence"]
    assert longer["word"] == before["word"]
    assert len(longer["sentence"]) >= 3 * len(before["sentence"])
    for text in ("Where is my parcel?", "word " * 500, "17", "true"):
        made = said("expansion", input=text.strip(), names="")
        assert text.strip() in made
        assert len(made) >= 3 * len(text) or made == text


def test_most_inputs_are_valid_and_some_are_not():
    outcomes = [parse_ok_err(said("validity", input=sentence(number))) for number in range(200)]
    assert {*outcomes} == {"ok", "err"}
    assert outcomes.count("ok") > 150


def test_a_rule_is_grounded_where_the_prompt_has_its_words():
    assert parse_ok_err(said("groundedness")) == "ok"
    assert parse_ok_err(said("groundedness", rule="The output mentions penguins and glaciers.")) == "err"


# -- answers from a list


@pytest.mark.parametrize(
    ("given", "tag"),
    [
        ("Sentence: The old clerk waited.\nWord: clerk", "NN"),
        ("Sentence: The old clerk waited.\nWord: Old", "JJ"),
        ("Sentence: The old clerk waited.\nWord: lantern", "CantAnswer"),
        ("Sentence: Oh, the clerk waited!\nWord: Oh", "Unknown"),
    ],
)
def test_a_prompt_with_a_list_of_values_is_answered_from_the_list(given, tag):
    messages = [{"role": "system", "content": TAGS}, {"role": "user", "content": given}]
    right, wrong = from_list(messages, given)
    assert right == tag != wrong
    assert from_list(messages[1:], given) is None


# -- whatever it is given

ANYTHING = st.text(max_size=60) | st.sampled_from(
    [
        "Answer X.",
        "If so, never do it.",
        "- must",
        "{{a}} {{b_c}}",
        'say "a\\"',
        "```csv\n1,2\n```",
        "one of a, b",
        "system:",
    ]
)


@given(st.lists(ANYTHING, max_size=6).map("\n".join), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_any_prompt_leads_to_a_collection_that_can_be_read(prompt, most):
    prompt = prompt or "x"
    purpose, limits = said("intent", prompt=prompt), said("inputspec", prompt=prompt)
    written_rules = tidy_rules(said("rules", prompt=prompt, count=most)).split("\n")
    contraries = tidy_rules(said("inverse", rules="\n".join(written_rules))).split("\n")
    assert purpose.strip()
    assert tidy_rules(limits)
    assert 1 <= len(written_rules) <= (min(most, 6) or 6)
    assert len(contraries) == len(written_rules)
    assert not {*contraries} & {*written_rules}
    numbered = "\n".join(f"{number}. {rule}" for number, rule in enumerate([*written_rules, *contraries], 1))
    found = read(said("tests", prompt=prompt, rules=numbered), numbers=range(1, 13))
    assert len(found) == 3 * 2 * len(written_rules)
    assert len({test["testinput"] for test in found}) == len(found)


def test_nothing_it_writes_looks_like_a_refusal():
    assert not any(is_refusal(said(step)) for step in SHOWN)


@given(st.integers(0, 10**8), st.integers(1, 2000))
def test_other_numbers_give_other_sentences(number, further):
    assert sentence(number) != sentence(number + further)
    assert message(number, "trains") != message(number + further, "trains")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("word", "word"),
        ("user_query", "message"),
        ("targetLanguage", "language"),
        ("article", "text"),
        ("max_count", "number"),
    ],
)
def test_the_name_of_an_input_says_of_which_kind_it_is(name, kind):
    assert kind_of(name) == kind


def test_rules_of_a_prompt_without_text_are_still_rules():
    assert len(rules("{{text}}", 6)) == 3
