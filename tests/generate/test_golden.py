"""The cases every implementation of PromptPex has to agree on, by number.

Case 6 and the average of case 10 are about the overview: tests/reports/test_overview.py.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from tests.generate.scripted import Script, notes_of, work_on
from tui_evals.datasets.prompts import load_prompt
from tui_evals.evaluators.base import Evidence, Question, evaluate
from tui_evals.evaluators.compliance import discover_metrics, metric_evaluator, parse_metric, parse_ok_err
from tui_evals.generate import steps
from tui_evals.generate.asking import model_slug, read_tests, split_baseline_inputs, tidy_rules
from tui_evals.generate.folder import Test, chunk_rules, number_rules, parse_rows, rows_text, rule_lines
from tui_evals.generate.work import bind_inputs, effective_options, split_names

SPEECH = """---
inputs:
  sentence:
    type: string
  word:
    type: string
---
system:
Name the part of speech of the word.

user:
sentence: {{sentence}}, word: {{word}}
"""


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("No violation.\nOK", "ok"),
        ("reason\nERR  \n", "err"),
        ("OK or ERR", "err"),
        ("It is not OK", "ok"),
        *((text, "unknown") for text in ("OK.", "ok", "ERROR", "**OK**", "NotOK")),
    ],
)
def test_golden_01_the_verdict_a_reply_ends_with(reply, outcome):
    assert parse_ok_err(reply) == outcome


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ('{"explanation":"x","score":85}', 85),
        ('```json\n{"explanation":"x","score":85}\n```', 85),
        ("The score is 85 of 100", 85),
        ("score=-5", 5),
        ("score 7.5", 7),
        ("compliance score (0-100): 90", 0),
        ('{"score":null}', 0),
    ],
)
def test_golden_02_the_score_of_a_reply(reply, score):
    found = parse_metric(reply)
    assert (found.score, found.outcome) == (score, None)


def test_golden_02_a_capital_score_is_none():
    assert (parse_metric("Score: 85").score, parse_metric("Score: 85").outcome) == (None, "unknown")


def test_golden_03_rules_are_tidied():
    assert tidy_rules('Rules:\n1. A\n2. B\n- C\n* D\n["E"]\n\n') == "A\nB\nC\nD\nE"
    assert tidy_rules("  - F\n10) G") == "  - F\n10) G"


def test_golden_04_lists_baseline_texts_and_model_names():
    assert split_names("a; b;;c") == ["a", "b", "c"]
    assert split_baseline_inputs("Test case 1:\nfoo\n===\n## Test Case 2\nbar") == ["foo", "bar"]
    assert model_slug("ollama:llama3.3:70b") == "llama3.3_70b"


def _csv_for(text: str, inputs: tuple[str, ...] = ("sentence", "word"), count: int = 3) -> str:
    """A reply to a question for tests: as many as it asks for, for the rules it shows."""
    shown = text.partition(" rules>\n")[2].partition("\n</data-")[0]
    numbers = [int(line.partition(". ")[0]) for line in shown.split("\n")]
    lines = [",".join(["ruleid", "testid", "expectedoutput", "reasoning", *inputs])]
    for number in numbers:
        for test in range(1, count + 1):
            lines.append(f'{number},{test},"NN","why",' + ",".join(f'"{name} {number} {test}"' for name in inputs))
    return "\n".join(lines)


def _rules(many: int) -> dict[str, str]:
    return {
        "input_spec.txt": "A sentence and a word.\n",
        "rules.txt": "".join(f"The output keeps {n}.\n" for n in range(1, many + 1)),
        "inverse_rules.txt": "".join(f"The output breaks {n}.\n" for n in range(1, many + 1)),
    }


async def test_golden_05_seven_rules_make_42_tests(tmp_path):
    options = {"tests_per_rule": 3, "test_generations": 1, "max_rules_per_test_generation": 3}
    work = work_on(tmp_path, SPEECH, lambda name, text, attempt: _csv_for(text), files=_rules(7), **options)
    tests = parse_rows(Test, "tests.json", await steps.write_tests(work))
    assert len(tests) == 42
    assert sorted({test.ruleid for test in tests}) == list(range(1, 15))
    assert {test.ruleid for test in tests if test.inverse} == set(range(8, 15))
    assert sum(not test.inverse for test in tests) == 21


def test_golden_07_inputs_are_found_in_the_text(tmp_path):
    bare = "Tell me whether this is funny, in {{locale}}.\n\nuser:\n{{joke}}\n"
    work = work_on(tmp_path, bare, name="bare.prompty")
    assert [(one.name, one.type) for one in work.subject.inputs] == [("locale", "string"), ("joke", "string")]
    assert [section.role for section in work.subject.prompty.sections] == ["system", "user"]


def test_golden_07_a_prompt_without_inputs_gets_one(tmp_path):
    work = work_on(tmp_path, "Translate what follows.\n", name="plain.md")
    assert work.subject.body == "Translate what follows.\n{{input_text}}"
    assert [one.name for one in work.subject.inputs] == ["input_text"]


DEMO = """---
inputs:
  joke:
    type: string
    description: The joke.
  locale: en-us
scenarios:
  - name: English
    instructions: The user speaks English.
  - name: French
    instructions: The user speaks French.
    parameters:
      locale: fr-FR
---
system:
Answer in {{locale}}.
user:
{{joke}}
"""


async def test_golden_08_scenarios_fix_inputs(tmp_path):
    def reply(name: str, text: str, attempt: int) -> str:
        return _csv_for(text, ("joke",), 1)

    work = work_on(tmp_path, DEMO, reply, name="demo.prompty", files=_rules(1), test_generations=1, tests_per_rule=1)
    english, french = work.subject.scenarios
    assert bind_inputs(work.subject, english, "Knock") == {"joke": "Knock", "locale": "en-us"}
    assert bind_inputs(work.subject, french, "Toc") == {"joke": "Toc", "locale": "fr-FR"}
    assert bind_inputs(work.subject, french, '{joke: "Toc", locale: "de"}') == {"joke": "Toc", "locale": "fr-FR"}
    tests = parse_rows(Test, "tests.json", await steps.write_tests(work))
    assert [test.scenario for test in tests] == ["English", "French"] * 2
    questions = [text for _, text in _script(work).questions]
    assert all("reasoning,joke\n" in text for text in questions)
    french_ones = [text for text in questions if "speaks French" in text]
    assert len(french_ones) == 2 and all("locale is always: fr-FR" in text for text in french_ones)


def test_golden_09_two_inputs_make_one_json_input():
    header = "ruleid,testid,expectedoutput,reasoning,sentence,word\n"
    row = '1,1,"NN","noun","An aura of mystery surrounded them.","aura"\n'
    found = read_tests(
        header + row + "2,1,NN,noun,No word here.\nI hope, these tests help!\n", ["sentence", "word"], [1, 2]
    )
    assert len(found.tests) == 1 and found.dropped == 2
    values = {"sentence": "An aura of mystery surrounded them.", "word": "aura"}
    assert json.loads(found.tests[0]["testinput"]) == values
    assert found.tests[0]["expectedoutput"] == "NN"


def test_golden_10_metrics_beside_the_prompt(tmp_path):
    tagged = "---\ntags:\n  - {}\n---\nsystem:\nJudge {{{{output}}}}.\n"
    for name, tag in (("nice", "scorer"), ("odd", "experimental"), ("true", "groundtruth")):
        (tmp_path / f"{name}.metric.prompty").write_text(tagged.format(tag))
    assert list(discover_metrics(tmp_path)) == ["nice"]
    assert list(discover_metrics(tmp_path, groundtruth=True)) == ["true"]


@pytest.mark.parametrize(
    ("split", "shown"), [(True, [[1, 2, 3], [4], [5, 6, 7], [8]]), (False, [[1, 2, 3], [4, 5, 6], [7, 8]])]
)
def test_golden_11_rules_in_chunks(split, shown):
    rules = number_rules([f"r{n}" for n in range(4)], [f"i{n}" for n in range(4)])
    assert [[rule.number for rule in chunk] for chunk in chunk_rules(rules, 3, split)] == shown


@pytest.mark.parametrize(
    ("scores", "kept", "asked"),
    [([70, 75, 60, 85], 85, 4), ([40, 40, 40, 40], -1, 4), ([60, 60, 60, 60], 60, 4), ([80], 80, 1), ([79, 92], 92, 2)],
)
async def test_golden_12_ground_truth_is_asked_again(tmp_path, scores, kept, asked):
    def reply(name: str, text: str, attempt: int) -> str:
        return json.dumps({"score": scores[attempt]}) if name == "jury" else f"answer {attempt}"

    files = {"tests.json": rows_text([Test(testuid="test-1", testinput='{"sentence": "a b", "word": "a"}')])}
    work = work_on(tmp_path, SPEECH, reply, judges=["jury"], files=files)
    (found,) = parse_rows(steps.Truth, "test_groundtruth.json", await steps.write_groundtruth(work))
    assert found.groundtruthScore == kept
    assert found.output == f"answer {asked - 1}"
    assert found.metrics["groundtruth-eval with jury"]["score"] == scores[asked - 1]
    assert sum(1 for _, text in _script(work).questions if "data-" not in text) == asked


async def test_golden_12_without_a_number_nothing_is_asked_again(tmp_path):
    files = {"tests.json": rows_text([Test(testuid="test-1", testinput='{"sentence": "a b", "word": "a"}')])}
    work = work_on(tmp_path, SPEECH, lambda name, text, attempt: "fine\nOK", judges=["jury"], files=files)
    (found,) = parse_rows(steps.Truth, "test_groundtruth.json", await steps.write_groundtruth(work))
    assert found.groundtruthScore is None and found.output == "fine\nOK"


@pytest.mark.parametrize(("counts", "asked"), [([3, 4], 2), ([4], 1), ([3, 3, 3, 3], 4), ([5, 6, 7, 8], 4)])
async def test_golden_13_inverse_rules_are_counted(tmp_path, counts, asked):
    def reply(name: str, text: str, attempt: int) -> str:
        return "\n".join(f"No {number} of {attempt}." for number in range(counts[attempt]))

    work, told = notes_of(work_on(tmp_path, SPEECH, reply, files={"rules.txt": _rules(4)["rules.txt"]}))
    lines = rule_lines(await steps.write_inverse_rules(work))
    assert len(_script(work).questions) == asked
    assert lines == [f"No {number} of {asked - 1}." for number in range(counts[asked - 1])]
    assert bool(told) == (len(lines) != 4)


def test_golden_14_what_is_given_wins_over_effort():
    found = effective_options({"effort": "min", "tests_per_rule": 5})
    assert (found.tests_per_rule, found.max_rules, found.split_rules) == (5, 6, False)
    assert effective_options({"effort": None}).effort == "low"


async def test_golden_15_a_metric_is_shown_rules_and_output(tmp_path):
    path = tmp_path / "use_rules.metric.prompty"
    path.write_text("system:\nThe rules:\n{{rules}}\n\nuser:\n{{output}}\n")
    asked: list[str] = []

    async def ask(question: Question) -> str:
        asked.append("\n".join(message["content"] for message in question.messages))
        return '{"explanation": "half", "score": 37}'

    kind = metric_evaluator("use_rules", path)
    found = await evaluate(kind(None, ask), Evidence(response="NN", rules="Only a tag.\nNo text."))
    assert (kind.name, found.score, found.result) == ("use_rules", 37, None)
    assert "Only a tag.\nNo text." in asked[0] and "\nNN\n" in asked[0]


async def test_golden_16_the_pipeline_of_the_seed(tmp_path):
    said = {
        "inputspec": "1. The input is a sentence and a word.\n2. The sentence is English.\n3. The word is in it.",
        "rules": "- Only the tag.\n- The tag is from the list.\n- Else Unknown.\n- Else CantAnswer.",
        "inverse": "More than the tag.\nNo tag of the list.\nNot Unknown.\nNot CantAnswer.",
    }

    def reply(name: str, text: str, attempt: int) -> str:
        asked = "inverse" if "contradicts" in text else "inputspec" if "describe the input" in text else "rules"
        return said[asked]

    work = work_on(tmp_path, SPEECH, reply)
    assert "sentence: {{sentence}}, word: {{word}}" in load_prompt(work.subject.file).body
    spec, rules = await asyncio.gather(steps.write_input_spec(work), steps.write_rules(work))
    work.folder.write("rules.txt", rules)
    inverse = await steps.write_inverse_rules(work)
    assert [len(rule_lines(text)) for text in (spec, rules, inverse)] == [3, 4, 4]
    assert rule_lines(rules)[0] == "Only the tag." and rule_lines(spec)[2] == "The word is in it."
    assert all(
        "sentence: {{sentence}}" in text for step, text in _script(work).questions if step != "inverse_rules.txt"
    )


def _script(work: object) -> Script:
    script = getattr(work, "asker", None)
    assert isinstance(script, Script)
    return script


async def test_tests_of_one_rule_are_made_anew_and_the_others_stay(tmp_path):
    work = work_on(
        tmp_path,
        SPEECH,
        lambda name, text, attempt: _csv_for(text).replace('"sentence', '"fresh'),
        files={**_rules(2), "tests.json": rows_text([Test(ruleid=n, testinput=f"old {n}") for n in (1, 2, 3, 4)])},
        test_generations=1,
    )
    tests = parse_rows(Test, "tests.json", await steps.write_tests(replace(work, again=frozenset({3}))))
    assert [test.testinput for test in tests if test.ruleid != 3] == ["old 1", "old 2", "old 4"]
    assert sum("fresh" in test.testinput for test in tests if test.ruleid == 3) == 3
