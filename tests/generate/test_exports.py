"""What is written for OpenAI's Evals and for GitHub Models, and that nothing is lost on the way."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui_evals.datasets.prompts import load_prompt
from tui_evals.generate.exports import PromptFacts, all_exports, evals_create, evals_run, github_prompt
from tui_evals.generate.folder import Test, Truth
from tui_evals.generate.work import Options, read_subject
from tui_evals.text.yamls import load_yaml

SPEECH = """\
---
name: Speech tagger
description: Tags words.
model:
  configuration: {name: gpt-4o}
  parameters: {temperature: 0.2, max_tokens: 20}
inputs:
  sentence: {type: string, description: A sentence.}
  word: {type: string}
---
system:
Tag the word.

user:
sentence: {{sentence}}, word: {{ word }}
"""
SCORER = "---\ntags: [scorer]\n---\nsystem:\nRules: {{rules}}\nuser:\n{{ output }} for {{input}} of {{word}} {{none}}\n"
LABEL = (
    "---\ntags: [github]\n---\nsystem:\nJudge.\nuser:\n{{prompt}}\n{{intent}} {{input}} {{groundtruth}}: {{output}}\n"
)
FACTS = PromptFacts("Tag a word.", "A sentence and a word.", "One tag.\nNothing else.")
TESTS = (
    Test(testuid="test-1", ruleid=1, testinput='{"sentence": "A: b", "word": "b"}', expectedoutput="JJ", reasoning="r"),
    Test(testuid="test-2", ruleid=1, testinput="no object", expectedoutput="NN"),
    Test(testuid="test-3", ruleid=2, testinput='{"sentence": "{{a}}", "word": "12"}', expectedoutput="CD"),
    Test(testuid="test-4", ruleid=2, testinput='{"sentence": "c", "word": "d"}'),
)
TRUTHS = (
    Truth(testuid="test-1", testinput=TESTS[0].testinput, output="NN\n", model="m", groundtruthScore=85),
    Truth(testuid="test-3", testinput=TESTS[2].testinput, output="poor", model="m", groundtruthScore=-1),
    Truth(testuid="test-4", testinput="before an edit", output="VB", model="m"),
)
UNBOUND = "test-2: Invalid test input format, expected JSON object: no object"


def prompt(folder: Path, text: str = SPEECH, name: str = "speech-tag.prompty", options: Options | None = None):
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return read_subject(file, options or Options())


@pytest.fixture
def speech(tmp_path):
    return prompt(tmp_path)


def metrics(folder: Path, **texts: str) -> dict[str, Path]:
    for name, text in texts.items():
        (folder / f"{name}.metric.prompty").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.metric.prompty" for name in texts}


def test_the_body_that_creates_an_eval_has_a_grader_for_each_metric(tmp_path, speech):
    made = evals_create(speech, metrics(tmp_path, nice=SCORER, good=LABEL))
    text = {"type": "string"}
    assert (made.filename, made.left_out) == ("evals.create.json", ())
    assert json.loads(made.text) == {
        "name": "speech-tag (promptpex)",
        "data_source_config": {
            "type": "custom",
            "item_schema": {
                "type": "object",
                "properties": {
                    "sentence": {"type": "string", "description": "A sentence."},
                    **dict.fromkeys(("word", "prompt", "input", "intent", "inputSpec", "rules", "groundtruth"), text),
                },
                "required": ["sentence", "word", "prompt", "input"],
            },
            "include_sample_schema": True,
        },
        "testing_criteria": [
            {
                "type": "score_model",
                "name": "nice",
                "model": "gpt-4o",
                "input": [
                    {"type": "message", "role": "system", "content": "Rules: {{item.rules}}"},
                    {
                        "type": "message",
                        "role": "user",
                        "content": "{{sample.output_text}} for {{item.input}} of {{item.word}} ",
                    },
                ],
                "range": [0, 100],
                "pass_threshold": 50,
            },
            {
                "type": "label_model",
                "name": "good",
                "model": "gpt-4o",
                "input": [
                    {"type": "message", "role": "system", "content": "Judge."},
                    {
                        "type": "message",
                        "role": "user",
                        "content": "{{item.prompt}}\n{{item.intent}} {{item.input}} {{item.groundtruth}}: "
                        "{{sample.output_text}}",
                    },
                ],
                "labels": ["OK", "ERR"],
                "passing_labels": ["OK"],
            },
        ],
    }


def test_there_is_a_run_for_each_model_of_openai_or_azure_and_no_other(speech):
    models = [
        "openai:gpt-4o-mini",
        "azure/gpt-4",
        "github:openai/gpt-4o",
        "ollama:llama3.3:70b",
        "azure:ft:x",
        "openai",
    ]
    made = evals_run(speech, TESTS, TRUTHS, FACTS, models)
    assert made is not None
    assert (made.filename, made.left_out) == ("evals.run.json", (UNBOUND,))
    bodies = json.loads(made.text)
    assert [body["data_source"]["model"] for body in bodies] == ["gpt-4o-mini", "gpt-4", "ft:x"]
    body = bodies[0]
    assert body.keys() == {"name", "data_source"}
    assert body["name"] == "speech-tag · gpt-4o-mini"
    assert body["data_source"].keys() == {"type", "model", "input_messages", "source"}
    assert body["data_source"]["type"] == "completions"
    assert body["data_source"]["input_messages"] == {
        "type": "template",
        "template": [
            {"type": "message", "role": "system", "content": "Tag the word."},
            {"type": "message", "role": "user", "content": "sentence: {{item.sentence}}, word: {{item.word}}"},
        ],
    }
    assert body["data_source"]["source"]["type"] == "file_content"
    assert body["data_source"]["source"]["content"][0] == {
        "item": {
            "sentence": "A: b",
            "word": "b",
            "prompt": "Tag the word.\n\nsentence: {{sentence}}, word: {{ word }}",
            "input": '{"sentence": "A: b", "word": "b"}',
            "intent": "Tag a word.",
            "inputSpec": "A sentence and a word.",
            "rules": "One tag.\nNothing else.",
            "groundtruth": "NN\n",
        }
    }


def test_what_is_expected_is_the_groundtruth_unless_it_is_poor_or_old(speech):
    made = evals_run(speech, TESTS, TRUTHS, FACTS, ["openai:x"])
    rows = json.loads(made.text)[0]["data_source"]["source"]["content"]
    assert [row["item"]["groundtruth"] for row in rows] == ["NN\n", "CD", ""]
    assert all(isinstance(value, str) for row in rows for value in row["item"].values())


def test_without_a_fitting_model_only_the_grading_is_written(tmp_path, speech):
    assert evals_run(speech, TESTS, TRUTHS, FACTS, ["github:gpt-4o", "openai:"]) is None
    assert github_prompt(speech, TESTS, TRUTHS, FACTS, "openai:gpt-4o", {}) is None
    assert [one.filename for one in all_exports(speech, TESTS, TRUTHS, FACTS, {}, [])] == ["evals.create.json"]


def test_everything_is_written_for_models_of_every_kind(speech):
    made = all_exports(speech, TESTS, TRUTHS, FACTS, {}, ["openai:x", "github:openai/gpt-4o", "github/Phi-4"])
    names = ["evals.create.json", "evals.run.json", "openai_gpt-4o.prompt.yml", "phi-4.prompt.yml"]
    assert [one.filename for one in made] == names
    assert load_yaml(made[3].text)["model"] == "Phi-4"


def test_a_github_prompt_holds_messages_tests_and_judges(tmp_path, speech):
    made = github_prompt(
        speech, TESTS, TRUTHS, FACTS, "github:openai/gpt-4o", metrics(tmp_path, good=LABEL, nice=SCORER)
    )
    assert (made.filename, made.left_out) == ("openai_gpt-4o.prompt.yml", (UNBOUND,))
    document = load_yaml(made.text)
    like, good = document.pop("evaluators")
    assert document == {
        "name": "Speech tagger",
        "description": "Tags words.",
        "model": "openai/gpt-4o",
        "modelParameters": {"temperature": 0.2, "maxTokens": 20},
        "messages": [
            {"role": "system", "content": "Tag the word."},
            {"role": "user", "content": "sentence: {{sentence}}, word: {{word}}"},
        ],
        "testData": [
            {"sentence": "A: b", "word": "b", "reasoning": "r", "expected": "NN\n"},
            {"sentence": "{{a}}", "word": "12", "expected": "CD"},
            {"sentence": "c", "word": "d", "expected": ""},
        ],
    }
    scores = {choice["choice"]: choice["score"] for choice in like["llm"]["choices"]}
    assert scores == {"1": 0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1}
    assert "sentence: {{sentence}}\nword: {{word}}" in like["llm"]["prompt"]
    assert "{{expected}}" in like["llm"]["prompt"] and "{{completion}}" in like["llm"]["prompt"]
    assert good == {
        "name": "good",
        "llm": {
            "modelId": "openai/gpt-4o",
            "systemPrompt": "Judge.",
            "prompt": "Tag the word.\n\nsentence: {{sentence}}, word: {{word}}\nTag a word. "
            "sentence: {{sentence}}\nword: {{word}} {{expected}}: {{completion}}",
            "choices": [{"choice": "ERR", "score": 0}, {"choice": "OK", "score": 1}],
        },
    }


def test_a_judge_whose_system_message_names_the_output_has_it_in_its_prompt(tmp_path, speech):
    texts = {
        "a": "---\ntags: [github]\n---\nJudge {{output}}\nuser:\nOK or ERR?\n",
        "b": "---\ntags: [github]\n---\nEND",
    }
    made = github_prompt(speech, (), (), FACTS, "github:x", metrics(tmp_path, **texts))
    a, b = (one["llm"] for one in load_yaml(made.text)["evaluators"][1:])
    assert a["prompt"] == "Judge {{completion}}\n\nOK or ERR?"
    assert b["prompt"] == "END"
    assert "systemPrompt" not in a and "systemPrompt" not in b


def test_an_exported_github_prompt_is_the_same_prompt_again(tmp_path, speech):
    made = github_prompt(speech, TESTS, TRUTHS, FACTS, "github:openai/gpt-4o", {})
    (tmp_path / made.filename).write_text(made.text, encoding="utf-8")
    again = load_prompt(tmp_path / made.filename)
    assert again.front["model"] == {
        "configuration": {"name": "github:openai/gpt-4o"},
        "parameters": {"temperature": 0.2, "max_tokens": 20},
    }
    assert [(one.role, one.text) for one in again.sections] == [
        ("system", "Tag the word."),
        ("user", "sentence: {{sentence}}, word: {{word}}"),
    ]
    assert len(again.front["testSamples"]) == 3


def test_a_prompt_without_inputs_is_followed_by_what_it_works_on(tmp_path):
    subject = prompt(tmp_path, "Be kind.", "kind.md")
    body = json.loads(evals_run(subject, [Test(testinput="hi")], (), FACTS, ["openai:x"]).text)[0]["data_source"]
    assert body["input_messages"]["template"] == [
        {"type": "message", "role": "system", "content": "Be kind."},
        {"type": "message", "role": "user", "content": "{{item.input_text}}"},
    ]
    assert body["source"]["content"][0]["item"]["input_text"] == "hi"


def test_what_other_tools_cannot_compute_is_rendered_for_each_test(tmp_path):
    subject = prompt(tmp_path, "Sum {{n}}.\nuser:\n{% if n == 1 %}one{% else %}{{ n + 1 }}{% endif %}\n", "sum.txt")
    tests = [Test(testuid="a", testinput="{n: 1}"), Test(testuid="b", testinput="{n: 2}"), Test(testinput="x")]
    made = evals_run(subject, tests, (), FACTS, ["openai:x"])
    body = json.loads(made.text)[0]["data_source"]
    assert [one["content"] for one in body["input_messages"]["template"]] == ["Sum {{item.n}}.", "{{item.message_2}}"]
    assert [row["item"]["message_2"] for row in body["source"]["content"]] == ["one", "3"]
    assert [row["item"]["n"] for row in body["source"]["content"]] == ["1", "2"]
    assert made.left_out[0].startswith("test 3: ")
    assert "message_2" in json.loads(evals_create(subject, {}).text)["data_source_config"]["item_schema"]["properties"]
    document = load_yaml(github_prompt(subject, tests, (), FACTS, "github:x", {}).text)
    assert document["messages"][1]["content"] == "{{message_2}}"
    assert document["testData"][1] == {"n": 2, "message_2": "3", "expected": ""}


def test_null_leaves_a_place_empty(tmp_path, speech):
    made = evals_run(speech, [Test(testinput='{"sentence": null, "word": "b"}')], (), FACTS, ["openai:x"])
    assert json.loads(made.text)[0]["data_source"]["source"]["content"][0]["item"]["sentence"] == ""


def test_inputs_named_like_our_own_facts_keep_their_values(tmp_path):
    subject = prompt(tmp_path, "{{rules}} {{expected}}", "p.txt")
    tests = [Test(testinput='{"rules": "mine", "expected": "too"}', expectedoutput="out")]
    item = json.loads(evals_run(subject, tests, (), FACTS, ["openai:x"]).text)[0]["data_source"]["source"]["content"]
    assert (item[0]["item"]["rules"], item[0]["item"]["rules_"]) == ("mine", FACTS.rules)
    create = json.loads(evals_create(subject, metrics(tmp_path, m="{{rules}}")).text)
    assert create["testing_criteria"][0]["input"][0]["content"] == "{{item.rules_}}"
    document = load_yaml(github_prompt(subject, tests, (), FACTS, "github:x", {}).text)
    assert document["testData"] == [{"rules": "mine", "expected": "too", "expected_": "out"}]
    assert "{{expected_}}" in document["evaluators"][0]["llm"]["prompt"]


def test_a_scenario_fixes_its_inputs(tmp_path):
    front = (
        "inputs:\n  locale: en-us\n  joke: {type: string}\nscenarios:\n- name: French\n  parameters: {locale: fr-FR}\n"
    )
    subject = prompt(tmp_path, f"---\n{front}---\n{{{{joke}}}} in {{{{locale}}}}\n")
    tests = [Test(testinput="ha", scenario="French"), Test(testinput="hi", scenario="gone")]
    data = load_yaml(github_prompt(subject, tests, (), FACTS, "github:x", {}).text)["testData"]
    assert [(one["locale"], one["joke"]) for one in data] == [("fr-FR", "ha"), ("en-us", "hi")]


def test_metrics_that_cannot_be_exported_are_named(tmp_path, speech):
    broken = metrics(
        tmp_path, loop="{% for a in output %}{{a}}{% endfor %}", bad="---\nx: [\n---\na", empty="---\na: 1\n---\n"
    )
    made = evals_create(speech, {**broken, "gone": tmp_path / "gone"})
    assert json.loads(made.text)["testing_criteria"] == []
    assert [said.split(" is left out")[0].split(" cannot be read")[0] for said in made.left_out] == [
        "the metric bad",
        "the metric gone",
        "the metric loop",
        "the metric empty",
    ]


HOSTILE = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.text("ab \n\t\r:-#'\"{}[]&*!|>%\x85\u2028é😀", max_size=20),
    st.sampled_from(
        ["a: b", " lead", "- x", "x\x85y\nz", "a\n", "12", "1e3", "no", "{{a}}", "{% a %}", "---", "a\n \n"]
    ),
)


@given(texts=st.lists(st.tuples(HOSTILE, HOSTILE, HOSTILE), max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_texts_of_tests_arrive_as_they_are(speech, texts):
    tests = [
        Test(testinput=json.dumps({"sentence": one, "word": two}), expectedoutput=three, reasoning=three)
        for one, two, three in texts
    ]
    document = load_yaml(github_prompt(speech, tests, (), FACTS, "github:x", {}).text)
    assert [(one["sentence"], one["word"], one["expected"]) for one in document["testData"]] == texts
    rows = json.loads(evals_run(speech, tests, (), FACTS, ["openai:x"]).text)[0]["data_source"]["source"]["content"]
    assert [(row["item"]["sentence"], row["item"]["word"], row["item"]["groundtruth"]) for row in rows] == texts


def test_half_a_surrogate_pair_can_be_written_to_a_file(speech):
    tests = [Test(testinput='{"sentence": "a", "word": "b"}', expectedoutput="x\ud800")]
    for one in all_exports(speech, tests, (), FACTS, {}, ["openai:x", "github:x"]):
        assert "\ud800" not in one.text and one.text.encode("utf-8")
