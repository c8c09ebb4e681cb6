"""promptfoo's configuration: read, written, both ways, and what is said of what does not fit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.validate import parse_dataset
from tui_evals.evaluators.base import Evidence, evaluate
from tui_evals.evaluators.registry import load_registry
from tui_evals.imports.promptfoo import Prompt, prompty_text, read_config, recognises
from tui_evals.imports.promptfoo.prompts import model_of, written_model
from tui_evals.imports.promptfoo.writing import write_config
from tui_evals.text.chats import parse_prompty, render_messages
from tui_evals.text.yamls import load_mapping, load_yaml

FIXTURES = Path(__file__).parent / "promptfoo"
NOWHERE = Path("/nonexistent")


def read(text: str, folder: Path = NOWHERE) -> Any:
    return read_config(text, "c.yaml", folder)


def case(asserts: str, options: str = "") -> Any:
    """The item of a configuration with one test that has these assertions, and the report."""
    text = f"prompts: '{{{{q}}}}'\ntests:\n- vars: {{q: hi, name: Ada}}\n  assert:\n  - {asserts}\n{options}"
    found, losses = read(text)
    return found.data["items"][0], losses


# each assertion

EQUALS = {
    "{type: is-xml}": {"Xml": {}},
    "{type: is-xml, value: 'a.b, c'}": {"Xml": {"elements": ["a.b", "c"]}},
    "{type: contains-xml, value: {requiredElements: [a]}}": {"Xml": {"anywhere": True, "elements": ["a"]}},
    "{type: is-html}": {"Html": {}},
    "{type: not-contains-html}": {"Html": {"anywhere": True, "negate": True}},
    "{type: bleu, value: [a, b], threshold: 0.3}": {"Bleu": {"compat": True, "values": ["a", "b"], "threshold": 0.3}},
    "{type: gleu, value: x}": {"Gleu": {"values": ["x"]}},
    "{type: equals, value: 5.0}": {"Equals": {"value": "5"}},
    "{type: equals, value: ''}": {"Equals": {"value": ""}},
    "{type: not-equals, value: true}": {"Equals": {"value": "true", "negate": True}},
    "{type: equals, value: {a: [1]}}": {"Equals": {"value": '{"a":[1]}', "json_path": "$"}},
    "{type: contains, value: '{{name}}!'}": {"ContainsAll": {"values": ["Ada!"]}},
    "{type: icontains, value: x, weight: 0.5}": {"ContainsAll": {"values": ["x"], "ignore_case": True, "weight": 0.5}},
    "{type: contains-all, value: [a, '1']}": {"ContainsAll": {"values": ["a", "1"]}},
    "{type: contains-all, value: 'a, \"b, c\"'}": {"ContainsAll": {"values": ["a", '"b', 'c"']}},
    "{type: contains-any, value: '\"b, c\", a'}": {"ContainsAny": {"values": ["b, c", "a"]}},
    "{type: word-count, value: '4'}": {"Length": {"unit": "words", "at_least": 4, "at_most": 4}},
    "{type: word-count, value: {max: 9}}": {"Length": {"unit": "words", "at_most": 9}},
    "{type: 'similar:cosine', value: x}": {"EmbeddingSimilarity": {"value": "x", "threshold": 0.75}},
    "{type: not-levenshtein, value: x}": {"Levenshtein": {"value": "x", "most_edits": 5, "negate": True}},
    "{type: assert-set, threshold: 0.5, metric: Half, assert: [{type: is-json, weight: 3}, {type: not-is-json}]}": {
        "Half": {
            "type": "AtLeast",
            "evaluators": {"JsonValid": {}, "JsonValid_2": {"type": "JsonValid", "negate": True, "weight": 1 / 3}},
            "threshold": 0.5,
        }
    },
    "{type: assert-set, weight: 0.5, assert: [{type: llm-rubric, value: kind, provider: 'openai:gpt-4o'}]}": {
        "AtLeast": {"evaluators": {"Rubric": {"criteria": "kind"}}, "judge": "openai/gpt-4o", "weight": 0.5}
    },
    "{type: contains, value: a, weight: 0}": {
        "AtLeast": {"evaluators": {"ContainsAll": {"values": ["a"]}}, "threshold": 0, "weight": 0.0}
    },
    "{type: icontains-all, value: [a]}": {"ContainsAll": {"values": ["a"], "ignore_case": True}},
    "{type: not-contains-any, value: [a, b]}": {"ContainsAny": {"values": ["a", "b"], "negate": True}},
    "{type: icontains-any, value: [a]}": {"ContainsAny": {"values": ["a"], "ignore_case": True}},
    "{type: starts-with, value: a, metric: Start}": {"Start": {"type": "StartsWith", "value": "a"}},
    "{type: regex, value: 'a+'}": {"Regex": {"pattern": "a+"}},
    "{type: regex, value: '^[A-Z][a-z]{2,}(?:x|y)'}": {"Regex": {"pattern": "^[A-Z][a-z]{2,}(?:x|y)"}},
    "{type: not-regex, value: '\\d$'}": {"JavaScript": {"code": 'new RegExp("\\\\d$").test(output)', "negate": True}},
    "{type: regex, value: '(?i)a'}": {"JavaScript": {"code": 'new RegExp("(?i)a").test(output)'}},
    "{type: javascript, value: 'output.length > 3', threshold: 0.5, config: {a: 1}}": {
        "JavaScript": {"code": "output.length > 3", "threshold": 0.5, "config": {"a": 1}}
    },
    "{type: not-javascript, value: 'output.length', metric: Long, weight: 0.5}": {
        "Long": {"type": "JavaScript", "code": "output.length", "negate": True, "weight": 0.5}
    },
    "{type: javascript, value: 'output.length', weight: 0}": {
        "AtLeast": {"evaluators": {"JavaScript": {"code": "output.length"}}, "threshold": 0, "weight": 0.0}
    },
    "{type: is-json}": {"JsonValid": {}},
    "{type: finish-reason, value: stop}": {"FinishReason": {"allowed": ["stop"]}},
    "{type: is-json, value: {required: [a]}}": {"JsonSchema": {"schema": {"required": ["a"]}}},
    "{type: latency, threshold: 100}": {"Latency": {"threshold": 100}},
    "{type: cost, threshold: 0.01}": {"Cost": {"threshold": 0.01}},
    "{type: cost, metric: Money}": {"Money": {"type": "Cost"}},
    "{type: llm-rubric, value: kind}": {"Rubric": {"criteria": "kind"}},
    "{type: llm-rubric, value: kind, threshold: 0.8}": {"Rubric": {"criteria": "kind", "threshold": 4.2}},
    "{type: llm-rubric, value: kind, provider: 'openai:gpt-4o'}": {
        "Rubric": {"criteria": "kind", "judge": "openai/gpt-4o"}
    },
    "{type: model-graded-closedqa, value: short}": {
        "ModelGraded": {"spec": "closedqa", "spec_args": {"criteria": "short"}}
    },
    "{type: factuality, value: Rome}": {
        "ModelGraded": {
            "spec": "fact",
            "spec_args": {"ideal": "Rome"},
            "choice_scores": {"A": 1.0, "B": 1.0, "C": 1.0, "D": 0.0, "E": 1.0},
            "passing": ["A", "B", "C", "E"],
        }
    },
    "{type: contains-json}": {"ContainsJson": {}},
    "{type: not-contains-json, value: {type: object}}": {
        "ContainsJson": {"schema": {"type": "object"}, "negate": True}
    },
    "{type: levenshtein, value: x}": {"Levenshtein": {"value": "x", "most_edits": 5}},
    "{type: rouge-n, value: x, threshold: 0.5}": {"RougeN": {"value": "x", "threshold": 0.5}},
    "{type: similar, value: x}": {"EmbeddingSimilarity": {"value": "x", "threshold": 0.75}},
    "{type: is-valid-openai-tools-call}": {"ValidToolCalls": {}},
    "{type: 'trajectory:tool-used', value: search}": {"ToolCalled": {"tool_name": "search"}},
    "{type: 'trajectory:tool-used', value: [a, b]}": {"ToolTrajectory": {"calls": ["a", "b"], "match": "any_order"}},
    "{type: 'trajectory:tool-used', value: {name: a}}": {"ToolCalled": {"tool_name": "a"}},
    "{type: 'trajectory:tool-used', value: {name: a, min: 2}}": {"ToolCallCount": {"tool": "a", "least": 2}},
    "{type: 'trajectory:tool-args-match', value: {name: f, mode: exact, args: {}}}": {
        "ToolCalledWith": {"tool_name": "f", "arguments": {}, "match": "exact"}
    },
    "{type: 'trace-error-spans', value: {max_count: 0}}": {"ToolsSucceeded": {}},
    "{type: 'trajectory:tool-sequence', value: [a, b]}": {"ToolOrder": {"tools": ["a", "b"]}},
    "{type: 'trajectory:tool-sequence', value: {mode: exact, steps: [a]}}": {"ToolTrajectory": {"calls": ["a"]}},
    "{type: 'trajectory:step-count', value: {min: 1, max: 4}}": {"Steps": {"least": 1, "most": 4}},
    "{type: 'trajectory:step-count', value: {max: 4, type: tool}}": {"ToolCallCount": {"most": 4}},
    "{type: 'skill-used', value: pdf}": {"ToolCalledWith": {"tool_name": "Skill", "arguments": {"skill": "pdf"}}},
    "{type: 'trace-span-count', value: {pattern: search, max: 2}}": {"ToolCallCount": {"tool": "search", "most": 2}},
    "{type: 'trace-span-duration', value: {max: 500}}": {"StepTime": {"threshold": 500.0}},
    "{type: 'trace-error-spans'}": {"ToolsSucceeded": {}},
    "{type: 'not-trajectory:tool-used', value: search}": {"ToolCalled": {"tool_name": "search", "negate": True}},
    "{type: 'trajectory:tool-args-match', value: {name: f, args: {a: 1}}}": {
        "ToolCalledWith": {"tool_name": "f", "arguments": {"a": 1}}
    },
    "{type: assert-set, assert: [{type: is-json}, {type: contains, value: a}]}": {
        "JsonValid": {},
        "ContainsAll": {"values": ["a"]},
    },
}


@pytest.mark.parametrize("written", EQUALS)
def test_an_assertion_with_an_equal_becomes_that_evaluator(written: str) -> None:
    item, losses = case(written)
    assert item["evaluators"] == EQUALS[written]
    assert list(losses.of("left out")) == []


EQUALS_BUT_CHANGED = {
    "{type: is-sql, value: {databaseType: PostgreSQL, allowedTables: ['select::null::t']}}": {
        "Sql": {"database": "PostgreSQL", "tables": ["select::null::t"]}
    },
    "{type: contains-sql}": {"Sql": {"anywhere": True}},
    "{type: is-refusal}": {"RefusalWords": {}},
    "{type: not-is-refusal}": {"RefusalWords": {"negate": True}},
    "{type: tool-call-f1, value: 'a, b'}": {"ToolsF1": {"tools": ["a", "b"]}},
    "{type: is-valid-function-call}": {"ValidToolCalls": {}},
    "{type: is-valid-openai-function-call}": {"ValidToolCalls": {}},
    "{type: g-eval, value: [kind, short]}": {"Rubric": {"criteria": "kind\nshort", "threshold": 3.8}},
    "{type: answer-relevance, threshold: 0.5}": {"Relevance": {"threshold": 3.0}},
    "{type: conversation-relevance}": {"Relevance": {"threshold": 3.0}},
}


@pytest.mark.parametrize("written", EQUALS_BUT_CHANGED)
def test_an_assertion_that_is_judged_much_the_same_says_what_differs(written: str) -> None:
    item, losses = case(written)
    assert item["evaluators"] == EQUALS_BUT_CHANGED[written]
    assert list(losses.of("left out")) == [] and len(list(losses.of("changed"))) == 1


LEFT_OUT = {
    "{type: javascript}": "it holds no code",
    "{type: javascript, value: 'package:checks:long'}": "it is code of a package",
    "{type: not-ruby, value: x}": "it is code of another language",
    "{type: select-best, value: x}": "no evaluator means the same",
    "{type: moderation}": "it asks a moderation service; Safety asks a judge",
    "{type: guardrails}": "it asks the guardrails of a provider",
    "{type: classifier, value: x}": "it asks a model of Hugging Face",
    "{type: perplexity}": "it needs the probabilities of tokens",
    "{type: search-rubric, value: x}": "it asks a judge that searches the web",
    "{type: meteor, value: x}": "it needs the synonyms of WordNet",
    "{type: is-sql, value: {databaseType: DB2}}": "the SQL of DB2 is not read here",
    "{type: context-recall, value: x}": "no evaluator means the same; ContextRecall is near",
    "{type: similar, value: [a, b]}": "several texts, of which one has to be near",
    "{type: contians, value: x}": "did you mean 'contains'?",
    "{type: contains, value: x, transform: 'file://t.py'}": "which is a file of another language",
    "{type: similar, value: x, transform: output.trim()}": "cannot judge what a transform makes of the answer",
    "{type: python, value: 'True', transform: output.trim()}": "a transform makes of the answer",
    "{type: contains, value: '{{other}}'}": "uses {{ other }}, which has no value",
    "{type: contains, value: '{{name | center}}'}": "its template",
    "{type: regex, value: 'a**'}": "the pattern is not valid",
    "{type: llm-rubric, value: {a: b}}": "its rubric is not plain text",
    "{type: assert-set, threshold: 0.5, assert: [{type: similar, value: x}]}": "cannot be in a group",
    "{type: contains, value: file://x.js}": "code makes its value",
    "{type: 'trajectory:tool-used', value: {pattern: 's*'}}": "only the names of tools",
    "{type: 'trace-span-count', value: {pattern: 'a*b', max: 2}}": "only spans of one name",
    "{type: 'trajectory:step-count', value: {max: 4, type: reasoning}}": "have no equal",
    "{type: 'trajectory:tool-args-match', value: {name: f, mode: near, args: {}}}": "a tool with its arguments",
    "{type: 'trace-error-spans', value: {max_count: 2}}": "only a max_count of 0",
    "{type: 'trace-error-spans', value: {max_percentage: 5}}": "only a max_count of 0",
    "{type: 'not-trajectory:tool-used', value: [a, b]}": "only the names of tools",
}


@pytest.mark.parametrize("written", LEFT_OUT)
def test_an_assertion_without_an_equal_is_named_with_its_line(written: str) -> None:
    item, losses = case(written)
    (held,) = item["evaluators"].values()
    (loss,) = losses.of("left out")
    assert (held["type"], held["why"]) == ("LeftOut", loss.why)
    assert loss.where == "c.yaml:5"
    assert LEFT_OUT[written] in str(loss)
    assert load_yaml(write_config({"items": [{"prompt": "a", **item}]})[0])["tests"][0]["assert"] == [
        load_yaml(written)
    ]


def test_evaluators_that_mean_not_quite_the_same_are_called_changed() -> None:
    code = "{type: javascript, value: \"require('fs') !== null\"}"
    for written in ("{type: latency, threshold: 1}", code, "{type: llm-rubric, value: a}"):
        assert [loss.where for loss in case(written)[1].of("changed")] == ["c.yaml:5"]


def test_the_judge_of_a_test_judges_its_rubrics() -> None:
    item, _ = case("{type: llm-rubric, value: kind}", "  options: {provider: 'anthropic:messages:claude-x'}\n")
    assert item["evaluators"]["Rubric"]["judge"] == "anthropic/claude-x"
    named = "{text: {id: 'openai:gpt-4o', config: {}}, embedding: 'openai:embedding:x'}"
    item, _ = case(f"{{type: llm-rubric, value: kind, provider: {named}}}")
    assert item["evaluators"]["Rubric"]["judge"] == "openai/gpt-4o"


def test_weights_become_shares_of_the_heaviest() -> None:
    item, losses = case("{type: contains, value: a, weight: 4}\n  - {type: is-json}")
    assert item["evaluators"] == {"ContainsAll": {"values": ["a"]}, "JsonValid": {"weight": 0.25}}
    assert "each is divided by 4" in "".join(losses.sentences())


def test_evaluators_of_one_kind_and_one_metric_are_told_apart() -> None:
    item, losses = case(
        "{type: contains, value: a, metric: Tone}\n"
        "  - {type: contains, value: b, metric: Tone}\n"
        "  - {type: contains, value: c}\n"
        "  - {type: contains, value: d}\n"
        "  - {type: contains, value: e, metric: 7 & up}"
    )
    assert list(item["evaluators"]) == ["Tone", "Tone_2", "ContainsAll", "ContainsAll_2", "metric_7_up"]
    assert [loss.what for loss in losses.of("changed")] == ["the metric 'Tone'", "the metric '7 & up'"]


# the configuration


def test_the_letters_say_all_that_is_lost() -> None:
    text = (FIXTURES / "letters.yaml").read_text(encoding="utf-8")
    found, losses = read_config(text, "letters.yaml", FIXTURES)
    lines = {(loss.where.removeprefix("letters.yaml:"), loss.what) for loss in losses.of("left out")}
    assert lines == {
        ("11", "the provider echo"),
        ("18", "apiKey of the provider"),
        ("21", "the provider exec:./answer.sh"),
        ("22", "the provider file://provider.js"),
        ("43", "evaluateOptions.maxConcurrency"),
        ("45", "env"),
        ("88", "contains"),
        ("91", "similar"),
    }
    assert "sk-not-a-real-key" not in repr((found, losses))
    assert "letters.yaml:18: left out: apiKey of the provider (keys are not kept" in "\n".join(losses.sentences())
    assert [prompt.name for prompt in found.prompts][1:] == ["short", "short 2", "prompts/chat.json"]
    named = {target.model: (target.name, target.api_key, target.base_url) for target in found.targets}
    assert named["openai/gpt-4o"] == ("", "env:MY_KEY", "http://127.0.0.1:8000/v1")
    assert ("37", "options.transform", "it runs before what judges") in {
        (loss.where.removeprefix("letters.yaml:"), loss.what, loss.why) for loss in losses.of("carried")
    }
    assert found.targets[1].params == {"temperature": 0.2, "max_tokens": 300}
    assert found.data["items"][2]["variables"]["topic"] == "two things:\nthe bill and Zoë"


def test_a_prompt_that_is_one_variable_becomes_the_prompt_of_each_item() -> None:
    found, _ = read("prompts: ['{{ ask }}']\ntests:\n- vars: {ask: Why?, tone: dry}\n- vars: {ask: 7}")
    assert found.data["items"] == [{"prompt": "Why?", "variables": {"tone": "dry"}}, {"prompt": "7"}]
    assert "messages" not in found.data


def test_a_chat_that_ends_in_one_variable_keeps_its_beginning() -> None:
    chat = '[{"role": "system", "content": "Be {{tone}}."}, {"role": "user", "content": "{{ask}}"}]'
    found, _ = read(f"prompts: ['{chat}']\ndefaultTest: {{vars: {{tone: dry}}}}\ntests: [{{vars: {{ask: Why?}}}}]")
    assert found.data["messages"] == [{"role": "system", "content": "Be {{tone}}."}]
    assert found.data["variables"] == {"tone": "dry"}
    assert found.data["items"] == [{"prompt": "Why?"}]


def test_a_configuration_without_tests_asks_its_prompt_once() -> None:
    found, _ = read("prompts: [Say hello to me]\nproviders: openai:gpt-4o")
    assert found.data["items"] == [{}]
    assert found.data["messages"] == [{"role": "user", "content": "Say hello to me"}]
    assert found.data["default_evaluators"] == {}


def test_a_missing_variable_is_empty_and_said_to_be() -> None:
    found, losses = read("prompts: ['{{a}} and {{b}}']\ntests: [{vars: {a: x}}, {vars: {a: y, b: z}}]")
    assert found.data["variables"] == {"b": ""}
    assert "some tests give it no value" in "".join(losses.sentences())


def test_aliases_and_references_are_followed_and_each_copy_is_its_own() -> None:
    found, _ = read(
        "prompts: 'To {{a}}'\nassertionTemplates: {short: {type: contains, value: x}}\n"
        "tests:\n- &one\n  vars: {a: b}\n  assert: [{$ref: '#/assertionTemplates/short'}]\n- *one\n"
    )
    first, second = found.data["items"]
    assert first == second == {"variables": {"a": "b"}, "evaluators": {"ContainsAll": {"values": ["x"]}}}
    assert first["evaluators"] is not second["evaluators"]


def test_recorded_outputs_and_metadata_are_kept() -> None:
    found, _ = read(
        "prompts: '{{q}}'\ntests:\n- vars: {q: a}\n  providerOutput: said\n"
        "  metadata: {ticket: 7, tui_evals: {testId: T-1, tags: [x], expected_response: b}}"
    )
    assert found.data["items"] == [
        {
            "prompt": "a",
            "testId": "T-1",
            "tags": ["x"],
            "expected_response": "b",
            "extensions": {"promptfoo": {"metadata": {"ticket": 7}}},
            "response": "said",
        }
    ]


def test_a_configuration_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "promptfooconfig.yaml").write_text("x", encoding="utf-8")
    assert recognises(tmp_path)
    assert recognises(tmp_path / "promptfooconfig.yaml")
    assert not recognises(FIXTURES)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("openai:gpt-4o", "openai/gpt-4o"),
        ("openai:chat:gpt-4o", "openai/gpt-4o"),
        ("openai:embedding:x", None),
        ("openai:chat", None),
        ("anthropic:messages:claude-x", "anthropic/claude-x"),
        ("ollama:chat:llama3.3:70b", "ollama_chat/llama3.3:70b"),
        ("bedrock:us.anthropic.claude-x:0", "bedrock/us.anthropic.claude-x:0"),
        ("openrouter:meta/llama", "openrouter/meta/llama"),
        ("litellm:groq/llama", "groq/llama"),
        ("python:p.py", None),
        ("https://example.org", None),
        ("unknown:x", None),
        ("echo", None),
    ],
)
def test_a_provider_is_spelled_as_a_target(theirs: str, ours: str | None) -> None:
    assert model_of(theirs) == ours
    if ours:
        back = written_model(ours)
        assert back is not None
        assert model_of(back) == ours


def test_a_target_that_is_no_model_has_no_provider() -> None:
    assert [written_model(name) for name in ("demo", "replay:a/b.csv", "python:m:f", "command:a/b")] == [None] * 4


def test_groups_and_what_never_fails_are_written_as_sets_and_without_weight() -> None:
    evaluators = {
        "Most": {"type": "AtLeast", "threshold": 0.5, "evaluators": {"JsonValid": {}, "Regex": {"pattern": "a"}}},
        "Seen": {"type": "AtLeast", "threshold": 0, "weight": 0.0, "evaluators": {"JsonValid": {}}},
        "Cost": {"threshold": 1.0, "negate": True},
    }
    data = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": [{"prompt": "a"}]}
    text, losses = write_config(data)
    assert "from 0.121 on" in next(loss.why for loss in losses.of("changed") if loss.what == "Cost")
    back, _ = read(text)
    assert back.data["default_evaluators"] == evaluators


# files


def test_a_file_outside_the_folder_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (inside / "folder").mkdir()
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    for name in (
        "file://../secret.txt",
        f"file://{tmp_path}/secret.txt",
        "file://link.txt",
        "file://*.txt",
        "file://*/../../*.txt",
    ):
        with pytest.raises(DatasetError, match=r"c\.yaml:1: prompts.*"):
            read(f"prompts: ['{name}']", inside)


def test_tests_of_every_kind_of_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"vars": {"q": "json"}}]', encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"vars": {"q": "one"}}\n\n{"vars": {"q": "two"}}\n', encoding="utf-8")
    (tmp_path / "c.yaml").write_text("- vars: {q: yaml}\n- vars: v.yaml\n", encoding="utf-8")
    (tmp_path / "v.yaml").write_text("q: from a file\n", encoding="utf-8")
    (tmp_path / "d.csv").write_text("q,__expected\ncsv,not-contains: x\n", encoding="utf-8-sig")
    found, _ = read("prompts: '{{q}}'\ntests: ['file://*.json*', c.yaml, file://d.csv, file://gen.py:make]", tmp_path)
    assert [item["prompt"] for item in found.data["items"]] == ["json", "one", "two", "yaml", "from a file", "csv"]
    assert found.data["items"][-1]["evaluators"] == {"ContainsAll": {"values": ["x"], "negate": True}}


def test_columns_of_a_table_that_say_more_about_assertions_are_read(tmp_path: Path) -> None:
    head = "q,__expected1,__expected2,__metric,__config:__expected2:threshold,__other,__metadata:tags[]"
    (tmp_path / "t.csv").write_text(f'{head}\na,fn:x,latency,Speed,900,Hi,"a, b"\n', encoding="utf-8")
    found, losses = read("prompts: '{{q}}'\ntests: file://t.csv", tmp_path)
    (item,) = found.data["items"]
    assert item["evaluators"] == {
        "Speed": {"type": "JavaScript", "code": "x"},
        "Speed_2": {"type": "Latency", "threshold": 900.0},
    }
    assert item["extensions"] == {"promptfoo": {"metadata": {"tags": ["a", "b"]}}}
    assert [(loss.what, loss.where) for loss in losses.of("left out")] == [
        ("the column __other", "t.csv:2"),
    ]


# malformed

BROKEN = {
    "prompts: [\n": "c.yaml:2: not valid YAML",
    "- a\n- b\n": "c.yaml:1: must be a mapping, not a list",
    "name: x\n": "c.yaml:1: the file has none of prompts, providers and tests",
    "prompts:\n- 7\n": "c.yaml:2: prompts[0]: must be text, the name of a file, or a mapping with raw or id, not a",
    "prompts:\n- label: x\n  config: {}\n": "c.yaml:2: prompts[0]: raw is missing",
    "prompts: file://gone.txt\n": "c.yaml:1: prompts: there is no file 'file://gone.txt'",
    "prompts: a b\nproviders:\n- label: x\n  config: {}\n": "c.yaml:3: providers[0]: id is missing",
    "prompts: a b\nproviders:\n- id: openai:x\n  config: [a]\n": "c.yaml:4: providers[0].config: must be a mapping",
    "prompts: a b\ntests: 7\n": "c.yaml:2: tests: must be a list, not a number",
    "prompts: a b\ntests:\n- vars: 3\n": "c.yaml:3: tests[0].vars: must be text, not a number",
    "prompts: a b\ntests:\n- assert: {type: x}\n": "c.yaml:3: tests[0].assert: must be a list, not a mapping",
    "prompts: a b\ntests:\n- assert:\n  - value: x\n": "c.yaml:4: tests[0].assert[0]: type is missing",
    "prompts: a b\ntests:\n- assert:\n  - type: is-json\n    weight: -1\n": "c.yaml:5: tests[0].assert[0].weight: must",
    "prompts: a b\ntests:\n- options: [a]\n": "c.yaml:3: tests[0].options: must be a mapping, not a list",
    "prompts: a b\ntests:\n- threshold: 2\n": "c.yaml:3: tests[0].threshold: must be at most 1, not 2",
    "prompts: a b\ntests:\n- metadata:\n    tui_evals: {test: x}\n": "c.yaml:4: tests[0].metadata.tui_evals.test: ",
    "prompts: a b\ntests: []\n": "c.yaml:1: the configuration holds no test",
    "prompts: a b\ntests:\n- $ref: '#/gone'\n": "c.yaml:3: tests[0]: $ref names #/gone, which is not in this file",
    "a: {$ref: '#/a'}\nprompts: a b\ntests:\n- $ref: '#/a'\n": "$ref leads over more than 8 references",
    "prompts: a b\nscenarios:\n- tests: []\n": "c.yaml:3: scenarios[0]: config is missing",
    "prompts: a b\nevaluateOptions:\n  repeat: 0\n": "c.yaml:3: evaluateOptions.repeat: must be a whole number",
    "prompts: a b\nprompts: b c\n": "c.yaml:2: the key 'prompts' appears twice",
    "prompts: a b\ntests:\n- vars: {a: [b, c]}\n  <<: 3\n": "c.yaml:4: << takes a mapping, or a list of mappings",
}


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_malformed_is_said_with_file_line_and_field(text: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        read(text, tmp_path)
    assert BROKEN[text] in str(caught.value)
    assert str(caught.value).startswith("c.yaml:")


UNUSABLE = {
    "{type: contains, value: [a]}": "contains (value of contains must be text or a number, not a list)",
    "{type: contains-all, value: {a: b}}": "contains-all (value of contains-all must be a list of texts, not a ",
    "{type: cost, threshold: low}": "cost (must be a number, not text)",
    "{type: word-count, value: {}}": "word-count (value of word-count must be a whole number, or hold min or max)",
    "{type: equals}": "equals (value of equals must be text or a number, not nothing)",
    "{type: is-json, value: 'file://gone.json'}": "is-json (there is no file 'file://gone.json' in the folder of the",
    "{type: javascript, value: 'file://../out.js'}": "javascript ('../out.js' is outside the folder",
}
"""Assertions that cannot be evaluated there either, with what is said of them."""


@pytest.mark.parametrize("assertion", UNUSABLE)
def test_an_assertion_that_cannot_be_used_is_left_out_alone(assertion: str, tmp_path: Path) -> None:
    config = f"prompts: a b\ntests:\n- assert:\n  - {assertion}\n  - {{type: contains, value: x}}\n"
    found, losses = read(config, tmp_path)
    assert list(found.data["items"][0]["evaluators"].values())[1] == {"values": ["x"]}
    (said,) = losses.of("left out")
    assert str(said).startswith(f"c.yaml:4: left out: {UNUSABLE[assertion]}")


def test_a_date_without_quotes_is_text_here_and_said_to_be_none_there(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("- vars:\n    day: 2024-05-06\n", encoding="utf-8")
    config = (
        "prompts: 'On {{day}}'\ndefaultTest:\n  vars: {day: 2024-01-02T10:00:00Z}\n"
        "tests: ['file://more.yaml', {vars: {day: '2024-07-08'}}, {vars: {day: 24-01-02}}]\n"
    )
    found, losses = read(config, tmp_path)
    days = [item["variables"]["day"] for item in found.data["items"]]
    assert days == ["2024-05-06", "2024-07-08", "24-01-02"]
    why = "promptfoo reads a date without quotes as a point in time, not as this text. Put quotes around it"
    assert [(loss.what, loss.where, loss.why) for loss in losses.of("changed")][:2] == [
        ("2024-01-02T10:00:00Z", "c.yaml:3", why),
        ("2024-05-06", "more.yaml:2", why),
    ]


def test_a_macro_is_named_where_it_leaves_out_its_prompt_variable_or_assertion() -> None:
    macro = "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{{ twice('a') }}"
    found, losses = read(
        f'prompts: ["{macro}", "Say {{{{word}}}}"]\n'
        f'tests: [{{vars: {{word: "{macro}"}}, assert: [{{type: equals, value: "{macro}"}}]}}]\n'
    )
    assert [prompt.name for prompt in found.prompts] == ["Say {{word}}"]
    assert found.data["items"][0]["evaluators"]["equals"]["type"] == "LeftOut"
    told = [line.partition("c.yaml:")[2] for line in losses.sentences() if "'Macro'" in line]
    assert [line.split(" (")[0] for line in told] == [
        "1: left out: the prompt {% macro twice(x) %}{{ x }}{{ x }}{% en…",
        "2: left out: equals",
        "2: changed: the variable word",
    ]


BROKEN_FILES = {
    "t.csv": ("a,a\n", "t.csv:1: the header must name each column"),
    "u.csv": ("a,b\n1,2,3\n", "u.csv:2: the row has 3 cells but the header has 2"),
    "v.csv": ('a\n"x\n', "v.csv:2: the table cannot be read"),
    "w.csv": ("a,__threshold\nx,high\n", "w.csv:2: [0]: __threshold must be a number, not 'high'"),
    "t.json": ('[{"vars": }]', "t.json:1: not valid JSON"),
    "u.json": ('[\n{"vars": 1}]', "u.json:2: [0].vars: must be text, not a number"),
    "t.jsonl": ('{"vars": {}}\n{"vars"\n', "t.jsonl:2: not valid JSON"),
    "t.yaml": ("- vars: {a: 1}\n- 7\n", "t.yaml:2: [1]: must be a mapping, not a number"),
    "t.txt": ("x", "t.txt: is no file that can be read here"),
}


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_what_is_malformed_in_a_file_is_said_with_its_own_line(name: str, tmp_path: Path) -> None:
    text, sentence = BROKEN_FILES[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DatasetError) as caught:
        read(f"prompts: a b\ntests: file://{name}\n", tmp_path)
    assert str(caught.value).startswith(sentence)


def test_lists_that_combine_to_too_many_tests_are_refused() -> None:
    many = json.dumps([str(number) for number in range(200)])
    with pytest.raises(DatasetError, match=r"c\.yaml:2: tests\[0\]: .* combine to 8,000,000 tests"):
        read(f"prompts: a b\ntests: [{{vars: {{a: {many}, b: {many}, c: {many}}}}}]")


def test_a_variable_that_code_makes_is_left_out() -> None:
    found, losses = read("prompts: 'To {{a}} and {{b}}'\ntests: [{vars: {a: 'file://make.py', b: x}}]")
    assert found.data["items"] == [{"variables": {"b": "x"}}]
    assert "c.yaml:2: left out: the variable a (it is made by code)" in losses.sentences()


# prompt files


def test_prompts_of_one_name_are_told_apart() -> None:
    found, _ = read("prompts: [{raw: a b, label: x}, {raw: b c, label: x}, {raw: c d, label: x}]")
    assert [prompt.name for prompt in found.prompts] == ["x", "x 2", "x 3"]


@pytest.mark.parametrize("text", ["read notes.md", "a/b c", "say *", "one", "[ x", "- role: y", "http: z", "a b.c"])
def test_a_prompt_that_could_be_the_name_of_a_file_or_a_chat_is_written_as_a_chat(text: str) -> None:
    data = {"default_evaluators": {}, "messages": [{"role": "user", "content": text}], "items": [{}]}
    written, _ = write_config(data)
    prompts: Any = load_mapping(written)[0]["prompts"]
    assert json.loads(prompts[0]) == data["messages"]
    assert read(written)[0].data["messages"] == data["messages"]


def test_a_prompt_becomes_a_prompt_file() -> None:
    prompt = Prompt("a: b", ({"role": "system", "content": "Be\nkind."}, {"role": "user", "content": "{{q}}"}))
    text = prompty_text(prompt)
    assert text is not None
    read_back = parse_prompty(text)
    assert read_back.front == {"name": "a: b"}
    assert [(section.role, section.text) for section in read_back.sections] == [
        ("system", "Be\nkind."),
        ("user", "{{q}}"),
    ]


def test_a_prompt_that_no_prompt_file_can_hold_becomes_none() -> None:
    assert prompty_text(Prompt("x", ({"role": "tool", "content": "a"},))) is None


def test_a_line_that_reads_as_a_role_stays_in_its_message() -> None:
    text = prompty_text(Prompt("x", ({"role": "user", "content": "a\n Assistant: \nb"},))) or ""
    assert render_messages(parse_prompty(text), {}) == [{"role": "user", "content": "a\n Assistant: \nb"}]
    assert prompty_text(Prompt("x", ({"role": "tool", "content": "a", "tool_call_id": "1"},))) is None


# both ways

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("{}%#'\"\n\t"), max_size=12).filter(
    lambda text: not text.endswith("\n")
)
SOME = TEXT.filter(str.strip) | st.sampled_from(
    ("{{ name }}", "file://x", "{% raw", "{# a #}", "{{{", "package:a", "no", "1e3")
)
NAMES = st.from_regex(r"[a-z][a-z_]{0,5}", fullmatch=True)
SHARE = st.integers(1, 100).map(lambda number: number / 100)
LEAF = TEXT | st.integers(-5, 5) | st.lists(TEXT, max_size=2)
REGEX = st.sampled_from(("a+", "^[0-9]{4}", "[äö]|x", r"\{\{x\}\}", "(?:a|b) "))
SCHEMA = st.sampled_from(({"type": "object", "required": ["ä"]}, {"enum": ["{{x}}", 1, None]}, {}))
ALONE = [{"role": "user", "content": "Tell me about it, {{name}}"}]
CHAT = [{"role": "system", "content": 'Be "kind" to {{ name }}.\nReally.'}]
KINDS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "Equals": st.fixed_dictionaries({"value": TEXT}) | st.just({"value": '{"a":[1,"ü"]}', "json_path": "$"}),
    "StartsWith": st.fixed_dictionaries({"value": SOME}),
    "ContainsAll": st.fixed_dictionaries(
        {"values": st.lists(TEXT, max_size=3)}, optional={"ignore_case": st.just(True)}
    ),
    "ContainsAny": st.fixed_dictionaries(
        {"values": st.lists(TEXT, max_size=3)}, optional={"ignore_case": st.just(True)}
    ),
    "Regex": st.fixed_dictionaries({"pattern": REGEX}),
    "JsonValid": st.just({}),
    "JsonSchema": st.fixed_dictionaries({"schema": SCHEMA}),
    "Latency": st.fixed_dictionaries({"threshold": st.integers(0, 9000)}),
    "Cost": st.fixed_dictionaries({"threshold": SHARE}),
    "Rubric": st.fixed_dictionaries(
        {"criteria": SOME}, optional={"threshold": st.integers(10, 50).map(lambda n: n / 10)}
    ),
    "ModelGraded": st.fixed_dictionaries(
        {"spec": st.just("closedqa"), "spec_args": st.fixed_dictionaries({"criteria": SOME})},
        optional={"judge": st.just("openai/gpt-4o")},
    ),
    "ToolCalled": st.fixed_dictionaries({"tool_name": SOME}),
}


@st.composite
def evaluators(draw: st.DrawFn, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=3)):
        key = name if prefix == "d" and name not in found else f"{prefix}_{name}_{len(found)}"
        options = draw(KINDS[name])
        more = draw(
            st.fixed_dictionaries({}, optional={"negate": st.just(True), "weight": SHARE.filter(lambda w: w < 1)})
        )
        if name in ("Latency", "Cost"):
            more.pop("negate", None)
        if name == "JsonSchema" and "negate" in more:
            more["no_json"] = "violation"  # as promptfoo has it; the other way is named as changed
        found[key] = {**({} if key == name else {"type": name}), **options, **more}
    return found


@st.composite
def items(draw: st.DrawFn, asked: bool) -> dict[str, Any]:
    optional: dict[str, st.SearchStrategy[Any]] = {
        "variables": st.dictionaries(NAMES, LEAF, min_size=1, max_size=3),
        "evaluators": evaluators("i").filter(bool),
        "name": SOME,
        "threshold": SHARE.filter(lambda share: share < 1),
        "testId": SOME,
        "tags": st.lists(TEXT, max_size=2),
        "ideal": st.lists(TEXT, max_size=2),
        "extensions": st.fixed_dictionaries(
            {"promptfoo": st.fixed_dictionaries({"metadata": st.just({"ticket": [1]})})}
        ),
    }
    return draw(st.fixed_dictionaries({"prompt": SOME} if asked else {}, optional=optional))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    asked = draw(st.booleans())
    messages = draw(
        st.sampled_from((None, CHAT) if asked else (ALONE, [*CHAT, *ALONE], [{**ALONE[0], "content": "a/b c"}]))
    )
    data: dict[str, Any] = {"schemaVersion": "1.11.0"}
    if draw(st.booleans()):
        data["description"] = draw(SOME)
    data["default_evaluators"] = draw(evaluators("d"))
    data["variables"] = {"name": "Ada", **draw(st.dictionaries(NAMES, LEAF, max_size=2))}
    if messages:
        data["messages"] = messages
    if draw(st.booleans()):
        data["repeats"] = draw(st.integers(1, 5))
    return {**data, "items": draw(st.lists(items(asked), min_size=1, max_size=3))}


def stays(data: dict[str, Any]) -> bool:
    """Whether no value could be taken for a file or a template, which only a text prompt can prevent."""
    values = [value for unit in (data, *data["items"]) for value in (unit.get("variables") or {}).values()]
    values += [item["prompt"] for item in data["items"] if "prompt" in item]
    taken = any(str(value).startswith(("file://", "package:")) or "{{" in str(value) for value in values)
    return not taken or "messages" not in data or data["messages"] == ALONE


@pytest.mark.story
@given(documents().filter(stays))
def test_what_both_can_say_survives_the_way_there_and_back(data: dict[str, Any]) -> None:
    assert parse_dataset(data)[1] == []
    text, losses = write_config(data)
    assert [loss.what for loss in losses.of("left out")] == ["providers"]
    back, found = read(text)
    assert [str(loss) for loss in found.of("left out")] == []
    assert back.data == data
    assert write_config(back.data)[0] == text


def test_the_written_configuration_is_one_a_person_would_write() -> None:
    data = {
        "items": [{"prompt": "Why?\nReally?", "evaluators": {"ContainsAll": {"values": ["because"], "negate": True}}}],
        "default_evaluators": {"JsonValid": {}},
    }
    text, _ = write_config(data, targets=["openai/gpt-4o", "demo"])
    assert load_mapping(text)[0] == {
        "prompts": ["{{prompt}}"],
        "providers": ["openai:gpt-4o"],
        "defaultTest": {"assert": [{"type": "is-json"}]},
        "tests": [{"vars": {"prompt": "Why?\nReally?"}, "assert": [{"type": "not-contains", "value": "because"}]}],
    }


def test_what_a_configuration_cannot_hold_is_named() -> None:
    data = {
        "items": [
            {"turns": [{"prompt": "a"}]},
            {"messages": [{"role": "user", "content": "a"}]},
            {"prompt": "a", "response": "b", "evaluators": {"Equals": {"value": "x", "ignore_case": True}}},
            {"prompt": "a", "context": "c", "evaluators": {"Regex": {"pattern": "(?i)a"}, "Fluency": {}}},
            {"variables": {"a": "b"}},
        ],
        "tools": [],
    }
    text, losses = write_config(data, targets=["demo"])
    assert len(load_mapping(text)[0]["tests"]) == 2
    assert [(loss.what, loss.where) for loss in losses.of("left out")] == [
        ("a conversation", "items[0]"),
        ("an item with messages of its own", "items[1]"),
        ("an item without a prompt", "items[4]"),
        ("Relevance and Coherence", ""),
        ("Equals", "items[2].evaluators"),
        ("response", "items[2]"),
        ("Regex", "items[3].evaluators"),
        ("Fluency", "items[3].evaluators"),
        ("the target demo", ""),
        ("providers", ""),
        ("tools", ""),
    ]
    assert [loss.what for loss in losses.of("changed")] == ["context"]


def test_references_of_an_item_stand_in_its_assertions() -> None:
    data = {"default_evaluators": {}, "items": [{"prompt": "a", "ideal": ["b"], "evaluators": {"EXACT_MATCH": {}}}]}
    tests: Any = load_mapping(write_config(data)[0])[0]["tests"]
    assert tests[0]["assert"] == [{"type": "equals", "value": "b"}]
    assert tests[0]["metadata"] == {"tui_evals": {"ideal": ["b"]}}


def test_an_item_that_replaces_the_defaults_gets_every_test_its_own() -> None:
    replacing = {"prompt": "a", "evaluators_mode": "replace", "evaluators": {"JsonValid": {}}}
    data = {"default_evaluators": {"Regex": {"pattern": "x"}}, "items": [replacing, {"prompt": "b"}]}
    written: Any = load_mapping(write_config(data)[0])[0]
    assert "defaultTest" not in written
    assert [[one["type"] for one in test["assert"]] for test in written["tests"]] == [["is-json"], ["regex"]]


def test_several_prompts_are_written_with_their_names() -> None:
    prompts = [
        Prompt("short", ({"role": "user", "content": "Say {{x}} now"},)),
        Prompt("long", ({"role": "user", "content": "Say {{x}} later"},)),
    ]
    text, _ = write_config({"default_evaluators": {}, "items": [{"variables": {"x": "hi"}}]}, prompts)
    back, _ = read(text)
    assert [(prompt.name, prompt.messages) for prompt in back.prompts] == [(p.name, p.messages) for p in prompts]


def test_the_one_way_in_which_answers_may_end_is_written() -> None:
    evaluators = {"FinishReason": {"allowed": "length"}}
    data: dict[str, Any] = {
        "default_evaluators": {},
        "items": [{"prompt": "a", "evaluators": evaluators}, {"prompt": "b"}],
    }
    tests: Any = load_mapping(write_config(data)[0])[0]["tests"]
    assert tests[0]["assert"] == [{"type": "finish-reason", "value": "length"}]
    data["items"][1]["evaluators"] = {"FinishReason": {}}
    assert "FinishReason" in [loss.what for loss in write_config(data)[1].of("left out")]


def test_a_pattern_that_javascript_reads_otherwise_is_called_changed() -> None:
    for pattern, told in ((r"\d+", ["Regex"]), ("[0-9]+", [])):
        data = {"default_evaluators": {"Regex": {"pattern": pattern}}, "messages": ALONE, "items": [{"prompt": "a"}]}
        assert [loss.what for loss in write_config(data)[1].of("changed")] == told


def test_code_survives_the_way_there_and_back() -> None:
    evaluators = {
        "JavaScript": {"code": "output.length > 3 && output !== '{{x}}'", "threshold": 0.5},
        "Short": {"type": "JavaScript", "code": "output.length < 9", "transform": "output.trim()", "negate": True},
    }
    data = {"default_evaluators": evaluators, "messages": ALONE, "items": [{"variables": {"name": "Ada"}}]}
    back, _ = read(write_config(data)[0])
    assert back.data["default_evaluators"] == evaluators


# what transforms make of an answer


def test_assertions_judge_what_the_transforms_of_test_and_assertion_return() -> None:
    found, losses = read(
        "prompts: ['{{q}} now']\n"
        "defaultTest:\n"
        "  options: {transform: JSON.parse(output).result}\n"
        "  assert:\n"
        "  - {type: not-equals, value: '4', weight: 0.5}\n"
        "  - {type: contains, value: x, transform: output.text}\n"
        "  - {type: javascript, value: output.length}\n"
        "  - {type: latency, threshold: 5}\n"
        "  - {type: llm-rubric, value: is kind, provider: 'openai:gpt-4o'}\n"
        "tests: [{vars: {q: a}}]"
    )
    first = {"type": "Transformed", "transform": "JSON.parse(output).result"}
    assert found.data["default_evaluators"] == {
        "Equals": {**first, "evaluator": {"Equals": {"value": "4", "negate": True}}, "weight": 0.5},
        "ContainsAll": {
            "type": "Transformed",
            "transform": ["JSON.parse(output).result", "output.text"],
            "evaluator": {"ContainsAll": {"values": ["x"]}},
        },
        "JavaScript": {"code": "output.length", "transform": "JSON.parse(output).result"},
        "Latency": {"threshold": 5},
        "Rubric": {**first, "evaluator": {"Rubric": {"criteria": "is kind"}}, "judge": "openai/gpt-4o"},
    }
    assert list(losses.of("left out")) == []
    assert "options.transform" in {loss.what for loss in losses.of("carried")}
    for key, options in found.data["default_evaluators"].items():
        load_registry().build(options.get("type", key), {name: o for name, o in options.items() if name != "type"})


def test_a_transform_that_is_a_file_runs_before_what_judges(tmp_path: Path) -> None:
    (tmp_path / "t.js").write_text("// last word\nmodule.exports = { last: (output) => output.split(' ').pop() };\n")
    (tmp_path / "es.js").write_text("export default (output) => output.trim();\n")
    found, losses = read(
        "prompts: ['{{q}} now']\n"
        "tests:\n"
        "- {vars: {q: a}, options: {transform: 'file://t.js:last'}, assert: [{type: equals, value: cherry}]}\n"
        "- {vars: {q: b}, options: {transform: file://es.js}, assert: [{type: equals, value: b}]}",
        tmp_path,
    )
    first, second = found.data["items"]
    (options,) = first["evaluators"].values()
    judged = load_registry().build("Transformed", {name: part for name, part in options.items() if name != "type"})
    assert asyncio.run(evaluate(judged, Evidence(response="apple banana cherry"))).result == "pass"
    assert asyncio.run(evaluate(judged, Evidence(response="cherry banana"))).result == "fail"
    assert second["evaluators"]["equals"]["type"] == "LeftOut"
    why = {loss.what: loss.why for loss in losses.of("left out")}
    assert why["equals"].endswith("which is an ES module; write it with module.exports")
    assert "What judges its outcome is left out too" in why["options.transform"]


@pytest.mark.parametrize(
    ("assertion", "answer", "passes"),
    [
        ("{type: equals, value: a.c}", " a.c\n", True),
        ("{type: equals, value: a.c}", "abc", False),
        ("{type: starts-with, value: a}", "  ab", True),
        ("{type: contains, value: a}", " a ", True),
    ],
)
async def test_a_trimmed_answer_is_judged_as_before(assertion: str, answer: str, passes: bool) -> None:
    test = f"{{vars: {{q: a}}, options: {{transform: output.trim()}}, assert: [{assertion}]}}"
    found, _ = read(f"prompts: ['{{{{q}}}} now']\ntests: [{test}]")
    (options,) = found.data["items"][0]["evaluators"].values()
    evaluator = load_registry().build(options["type"], {name: o for name, o in options.items() if name != "type"})
    assert (await evaluate(evaluator, Evidence(response=answer))).result == ("pass" if passes else "fail")


# prompts that are chats once they are filled

TALK = """[
  {"role": "system", "content": "Be {{ tone.kind }}."},
  {% for turn in _conversation %}{"role": "user", "content": "{{ turn.input }}"},{% endfor %}
  {"role": "user", "content": {{ question | dump }} }
]"""


def with_chat(folder: Path, chat: str, tests: str) -> Any:
    (folder / "chat.json").write_text(chat, encoding="utf-8")
    return read(f"prompts: file://chat.json\ndefaultTest: {{vars: {{tone: {{kind: dry}}}}}}\ntests:\n{tests}", folder)


def test_a_conversation_of_promptfoo_becomes_the_turns_of_an_item(tmp_path: Path) -> None:
    found, losses = with_chat(
        tmp_path,
        TALK,
        "- {vars: {question: 'Who \"founded\" {it}?'}, assert: [{type: contains, value: x}]}\n"
        "- {vars: {question: 'And {{ when }}?'}}\n"
        "- {vars: {question: Other}, metadata: {conversationId: b}}",
    )
    system = [{"role": "system", "content": "Be dry."}]
    first, second = found.data["items"]
    assert first["messages"] == second["messages"] == system
    assert first["turns"][0] == {"prompt": 'Who "founded" {it}?', "evaluators": {"ContainsAll": {"values": ["x"]}}}
    assert [len(first["turns"]), second["turns"]] == [2, [{"prompt": "Other"}]]
    assert "messages" not in found.data
    assert any("is 2 conversations" in loss.why for loss in losses.of("changed"))
    assert "1 evaluator" in {loss.what for loss in losses.of("carried")}


def test_a_chat_with_a_condition_is_filled_for_every_item(tmp_path: Path) -> None:
    system = '{% if kind == "long" %}{"role": "system", "content": "At length."},{% endif %}'
    chat = f'[{system}{{"role": "user", "content": "{{{{q}}}}"}}]'
    found, _ = with_chat(tmp_path, chat, "- {vars: {q: a, kind: long}}\n- {vars: {q: b}}")
    assert found.data["items"] == [
        {"prompt": "a", "messages": [{"role": "system", "content": "At length."}]},
        {"prompt": "b"},
    ]


def test_a_value_that_is_dumped_into_a_chat_stays_a_variable(tmp_path: Path) -> None:
    chat = '[{"role": "system", "content": "Be kind."}, {"role": "user", "content": {{ q | tojson }}}]'
    found, _ = with_chat(tmp_path, chat, "- {vars: {q: a}}")
    assert found.data["items"] == [{"prompt": "a"}]


def test_variables_are_found_beside_the_file_of_tests_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "tests" / "vars").mkdir(parents=True)
    (tmp_path / "shared.yaml").write_text("tone: dry")
    (tmp_path / "tests" / "vars" / "one.yaml").write_text("q: one\nflag: false")
    (tmp_path / "tests" / "all.yaml").write_text("- vars: [vars/*.yaml, ../shared.yaml]\n- vars: shared.yaml")
    found, _ = read("prompts: ['{{q}} {{tone}} {{flag}}']\ntests: file://tests/all.yaml", tmp_path)
    assert [item["variables"] for item in found.data["items"]] == [
        {"q": "one", "flag": "false", "tone": "dry"},
        {"tone": "dry"},
    ]


def test_true_stays_true_where_a_condition_asks_for_it() -> None:
    found, losses = read(
        "prompts: ['{% if yes %}{{q}}{% endif %}{{no}}']\ntests: [{vars: {q: a, yes: true, no: false}}]"
    )
    assert found.data["items"][0]["variables"] == {"q": "a", "yes": True, "no": "false"}
    assert [loss.what for loss in losses.of("changed")] == ["1 test without assertions", "the variable yes"]


@pytest.mark.parametrize("tests", ["file://make.py:all", "{path: 'file://make.py:all', config: {n: 3}}"])
def test_what_code_makes_is_left_to_bring_and_the_rest_is_imported(tests: str) -> None:
    found, losses = read(f"prompts: ['Say {{{{x}}}}']\ntests: {tests}\ndefaultTest: {{assert: [{{type: is-json}}]}}")
    assert found.data["items"] == [] and found.data["default_evaluators"] == {"JsonValid": {}}
    assert [loss.why for loss in losses.of("left out")] == [
        "they are made by code; write what it returns to tests.json, name that file here and import again"
    ]


def test_what_is_said_to_be_nothing_is_not_called_left_out() -> None:
    _, losses = read("prompts: ['{{x}}']\ntests: [{vars: {x: 1}, options: {transform: null}}]\n")
    assert list(losses.of("left out")) == []


def test_a_secret_of_the_environment_that_no_prompt_names_stays_where_it_is() -> None:
    found, _ = read("env: {CITY: Oslo, KEY: secret}\nprompts: ['{{env.CITY}} {{x}}']\ntests: [{vars: {x: '1'}}]\n")
    assert found.data["variables"] == {"env": {"CITY": "Oslo"}} and "secret" not in json.dumps(found.data)


def test_parameters_that_a_provider_calls_otherwise_are_carried_under_their_usual_names() -> None:
    google = "{generationConfig: {temperature: 0.3, maxOutputTokens: 99, topK: 4, responseSchema: {}}, projectId: p}"
    claude = "{stop_sequences: [END], max_tokens: 50, top_p: '{{env.TOP}}'}"
    providers = f"[{{id: 'google:gemini-x', config: {google}}}, {{id: 'anthropic:messages:c', config: {claude}}}]"
    found, losses = read(f"x-common: 1\nprompts: ['{{{{q}}}}']\nproviders: {providers}\ntests: [{{vars: {{q: hi}}}}]\n")
    assert [one.section().get("params") for one in found.targets] == [
        {"temperature": 0.3, "max_tokens": 99, "top_k": 4},
        {"stop": ["END"], "max_tokens": 50},
    ]
    assert [loss.what for loss in losses.of("left out")] == [
        "responseSchema of the provider",
        "projectId of the provider",
        "top_p of the provider",
    ]
