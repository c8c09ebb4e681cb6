"""The output of a generation: the dataset of its tests, with the user's edits, and exports to other tools.

An export has a value for every input of a test, and templates in the syntax of its tool.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tui_evals.datasets.discover import project_of
from tui_evals.datasets.document import load
from tui_evals.datasets.paths import CURRENT_VERSION, pretty_json
from tui_evals.datasets.prompts import PARAMETERS, github_text
from tui_evals.datasets.save import save
from tui_evals.evaluators.compliance import discover_metrics
from tui_evals.generate.asking import CannotGenerate, model_slug
from tui_evals.generate.folder import Rule, Test, TestEval, Truth, evaluator_key, rule_lines, short_hash
from tui_evals.generate.steps import BAD_SCORE, known_test_evals
from tui_evals.generate.work import ONLY_INPUT, Generation, Subject, Unbindable, bind_inputs
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text
from tui_evals.text import strictjson
from tui_evals.text.chats import Prompty, PromptyError, Section, parse_prompty
from tui_evals.text.templates import TemplateError, render_template

Data = dict[str, Any]
_TEST_FACTS = ("ruleid", "rule", "inverse", "scenario", "generation", "baseline", "testid", "testinput")
_MORE_FACTS = ("testinputOriginal", "expectedoutput", "reasoning")


def dataset_path(work: Generation) -> Path:
    """The path of the dataset of a generation."""
    return work.folder.path / f"{work.subject.name}.json"


def build_dataset(work: Generation) -> Data:
    """The dataset made from the files of the folder."""
    rules = {rule.number: rule for rule in work.rules}
    evals, truths = known_test_evals(work), work.truths
    items = []
    for test in work.tests:
        truth = truths.get(test.testuid or "")
        current = truth if truth is not None and truth.testinput == test.testinput else None
        try:
            items.append(_item(work, test, rules, current, evals.get(test.testuid or "")))
        except Unbindable as problem:
            work.tell(f"dataset: the test {test.testuid} is left out: {problem}")
    if not items:
        raise CannotGenerate(f"none of the tests in {work.folder.path / 'tests.json'} can be used; look at them there")
    data: Data = {
        "schemaVersion": CURRENT_VERSION,
        "description": _description(work),
        "metadata": {"name": work.subject.name, "tags": ["promptpex"]},
        "prompt_file": _prompt_file(work),
        "default_evaluators": evaluators_of_tests(work),
    }
    if work.options.runs_per_test > 1:
        data["repeats"] = work.options.runs_per_test
    return {**data, "extensions": {"promptpex": _prompt_facts(work)}, "items": items}


def _description(work: Generation) -> str:
    return f"Tests of the prompt {work.subject.file.name}, made from its rules. {work.text('intent.txt')}".strip()


def _prompt_file(work: Generation) -> str:
    """The prompt as the dataset names it; one outside the dataset's project is copied next to the dataset."""
    folder, prompt = work.folder.path.resolve(), work.subject.file.resolve()
    if prompt.is_relative_to(project_of(folder / "dataset")):
        return Path(os.path.relpath(prompt, folder)).as_posix()
    for file in (prompt, *discover_metrics(prompt.parent).values()):
        work.folder.write(file.name, read_text(file))
    return prompt.name


def evaluators_of_tests(work: Generation) -> Data:
    """Compliance and the metrics next to the prompt, once for each judge that is named."""
    names = ["Compliance"] if work.options.compliance else []
    names += discover_metrics(work.subject.file.parent)
    if work.options.groundtruth:
        names += [] if "accuracy" in names else ["accuracy"]
    judges = [judge.config.name for judge in work.models.judges]
    evaluators: Data = {}
    for name in names:
        key = evaluator_key(name)
        settings: Data = {} if key == name else {"type": name}
        if len(judges) < 2:
            evaluators[key] = settings
            continue
        for judge in judges:
            evaluators[f"{key}_{evaluator_key(judge)}"] = {"type": name, "judge": judge}
    return evaluators


def _prompt_facts(work: Generation) -> Data:
    """The facts about the prompt, which judges are shown."""
    facts: Data = {"prompt": work.subject.name, "promptid": work.subject.id}
    for key, file in (("intent", "intent.txt"), ("inputSpec", "input_spec.txt")):
        facts[key] = work.text(file)
    for key, file in (("rules", "rules.txt"), ("inverseRules", "inverse_rules.txt")):
        facts[key] = "\n".join(rule_lines(work.folder.read(file)))
    if text := work.folder.read("rule_evals.json"):
        facts["ruleEvals"] = json.loads(text)
    return facts


def _item(
    work: Generation, test: Test, rules: Mapping[int, Rule], truth: Truth | None, evaluation: TestEval | None
) -> Data:
    rule = rules.get(test.ruleid or 0)
    category = "baseline" if test.baseline else f"rule-{test.ruleid}" if test.ruleid else "no-rule"
    item: Data = {"testId": test.testuid, "category": category}
    if tags := [*([test.scenario] if test.scenario else []), *(["inverse"] if test.inverse else [])]:
        item["tags"] = tags
    if work.subject.declared:
        item["variables"] = bind_inputs(work.subject, work.subject.scenario(test.scenario), test.testinput)
    else:
        item["prompt"] = test.testinput
    trusted = truth is not None and (truth.groundtruthScore is None or truth.groundtruthScore >= BAD_SCORE)
    expected = truth.output if truth is not None and trusted else test.expectedoutput
    if expected:
        item["expected_response"] = expected
    columns = test.dumped()
    facts: Data = {name: columns[name] for name in (*_TEST_FACTS, *_MORE_FACTS) if name in columns}
    if rule is not None:
        facts |= {"rule": rule.text, "inverse": rule.inverse, "of": rule.of}
    if truth is not None:
        facts |= {"groundtruth": truth.output, "groundtruthModel": truth.model}
        facts |= {} if truth.groundtruthScore is None else {"groundtruthScore": truth.groundtruthScore}
    if evaluation is not None:
        facts |= {name: value for name in ("validity", "coverage") if (value := getattr(evaluation, name)) is not None}
    return {**item, "extensions": {"promptpex": facts}}


def write_dataset(work: Generation) -> str:
    """Write the dataset, or bring an existing one up to date; a sentence about it."""
    fresh, file = _replace_surrogates(build_dataset(work)), dataset_path(work)
    if stray := [item["testId"] for item in fresh["items"] if item["category"] == "no-rule"]:
        shown = ", ".join(stray[:3]) + (", …" if len(stray) > 3 else "")
        work.tell(
            f"dataset: {_count_items(stray)} of no rule that is tested ({shown}); delete those without a rule "
            "from tests.json"
        )
    recorded = work.folder.record.get("items")
    written_hashes = recorded if isinstance(recorded, dict) else {}
    if not file.exists():
        work.folder.write(file.name, pretty_json(fresh))
        summary = _count_items(fresh["items"])
    else:
        document = load(file)
        settings_edited = work.folder.record.get("root") != _item_hash(_dataset_settings(document.data))
        merged, edited = _merge_edits(document.data, fresh, written_hashes, settings_edited)
        save(document, merged)
        summary = _count_items(merged["items"]) + (f", {edited} of them as you changed them" if edited else "")
    items = {item["testId"]: _item_hash(item) for item in fresh["items"]}
    work.folder.note(items=items, root=_item_hash(_dataset_settings(fresh)))
    return summary


def _count_items(items: Sequence[object]) -> str:
    return f"{len(items)} item{'' if len(items) == 1 else 's'}"


def _replace_surrogates(data: Data) -> Data:
    """The data with question marks for lone surrogates, which no file can hold."""
    encodable: Data = json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"))
    return encodable


def _item_hash(value: Mapping[str, Any]) -> str:
    return short_hash(strictjson.dumps(dict(sorted(value.items()))))


def _dataset_settings(data: Data) -> Data:
    return {key: value for key, value in data.items() if key not in ("items", "extensions", "schemaVersion")}


def _merge_edits(
    current: Data, fresh: Data, written_hashes: Mapping[str, Any], settings_edited: bool
) -> tuple[Data, int]:
    """The fresh dataset with manual edits of the current one, and the number of edited items.

    Changed and added items stay. Deleted items stay deleted while their test is the same. Other items are replaced by
    their fresh version, or removed with their test. If `settings_edited`, edits of how the dataset is asked and judged
    stay too.
    """
    fresh_items = {item["testId"]: item for item in fresh["items"]}
    items: list[Data] = []
    places: dict[str, int] = {}
    edited_count = 0
    for item in current.get("items", []):
        name = str(item.get("testId"))
        edited = written_hashes.get(name) != _item_hash(item) and item != fresh_items.get(name)
        if edited or name in fresh_items:
            items.append(item if edited else fresh_items[name])
            edited_count += edited
        places[name] = len(items)
    facts = {**current.get("extensions", {}), **fresh["extensions"]}
    items = _insert_new(items, places, fresh_items, written_hashes)
    return {
        **fresh,
        **(_dataset_settings(current) if settings_edited else {}),
        "extensions": facts,
        "items": items,
    }, edited_count


def _insert_new(
    items: list[Data], places: Mapping[str, int], fresh_items: Mapping[str, Data], written_hashes: Mapping[str, Any]
) -> list[Data]:
    """The items with new ones inserted after their predecessors; an item that the user deleted is not new."""
    items_after: dict[int, list[Data]] = {}
    place = 0
    for name, item in fresh_items.items():
        if name in places:
            place = max(place, places[name])
        elif written_hashes.get(name) != _item_hash(item):
            items_after.setdefault(place, []).append(item)
    merged = items_after.get(0, [])
    for number, item in enumerate(items, 1):
        merged += [item, *items_after.get(number, [])]
    return merged


_NO_RULE = 1_000_000


def spread_items(items: Sequence[Mapping[str, Any]], count: int) -> list[int]:
    """The positions of `count` items in dataset order, with a test of each rule before a second one of any.

    A rule and its inverse follow each other, so that a small count has as many of one kind as of the other; then come
    the next scenarios.
    """
    facts = [(item.get("extensions") or {}).get("promptpex") or {} for item in items]
    scenarios = list(dict.fromkeys(str(own.get("scenario") or "") for own in facts))
    seen: Counter[tuple[object, ...]] = Counter()
    ranked = []
    for place, own in enumerate(facts):
        scenario = scenarios.index(str(own.get("scenario") or ""))
        number = own.get("of") or own.get("ruleid") or _NO_RULE
        inverse = own.get("inverse") is True
        rank = seen[scenario, number, inverse]
        seen[scenario, number, inverse] += 1
        ranked.append((rank, scenario, number, inverse, place))
    return sorted(place for *_, place in sorted(ranked)[:count])


JUDGE = "gpt-4o"
_NAME = re.compile(r"\{\{\s*([^\W\d]\w*)\s*\}\}")
_COMPUTED = re.compile(r"\{\{|\{%|\{#")
_MODEL = re.compile(r"([a-z_]+)[:/](.+)")

Spelling = Callable[[str], str]
Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """The texts of the first steps."""

    intent: str = ""
    input_spec: str = ""
    rules: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """A file to write, and a sentence for each test or metric that could not be put in it."""

    filename: str
    text: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportRow:
    """A test with a value for every input."""

    test: Test
    values: Mapping[str, Any]
    computed: Mapping[str, str]
    expected: str


def provider_model(model: str, *providers: str) -> str | None:
    """The model without its provider, when it is one of these."""
    match = _MODEL.fullmatch(model)
    return match[2] if match and match[1] in providers else None


def export_messages(subject: Subject, spell: Spelling) -> tuple[Messages, dict[str, str]]:
    """The prompt's messages with names spelled for another program, and the templates to render for each test."""
    sections = subject.prompty.sections
    if not subject.declared:
        sections = (*sections, Section("user", f"{{{{{ONLY_INPUT}}}}}", 0))
    messages, computed = [], {}
    for number, section in enumerate(sections, 1):
        text = _respell(section.text, spell)
        if text is None:
            key = free_name(f"message_{number}", subject)
            computed[key] = section.text
            text = spell(key)
        messages.append({"role": section.role, "content": text})
    return messages, computed


def _respell(text: str, spell: Spelling) -> str | None:
    """A template with its names spelled otherwise; None where it holds more than text and names."""
    if _COMPUTED.search(_NAME.sub(" ", text)):
        return None
    return _NAME.sub(lambda match: spell(match[1]), text)


def export_rows(
    subject: Subject, tests: Sequence[Test], truths: Sequence[Truth], computed: Mapping[str, str]
) -> tuple[list[ExportRow], tuple[str, ...]]:
    """The tests whose input fits the prompt, and a sentence for each other one."""
    truth_by_test = {truth.testuid: truth for truth in truths}
    rows, left_out = [], []
    for place, test in enumerate(tests, 1):
        try:
            values = bind_inputs(subject, subject.scenario(test.scenario), test.testinput)
            values = {name: "" if value is None else value for name, value in values.items()}
            rendered = {key: render_template(template, values) for key, template in computed.items()}
        except (Unbindable, TemplateError) as problem:
            left_out.append(f"{test.testuid or f'test {place}'}: {problem}")
            continue
        rows.append(ExportRow(test, values, rendered, _expected_text(test, truth_by_test.get(test.testuid or ""))))
    return rows, tuple(left_out)


def _expected_text(test: Test, truth: Truth | None) -> str:
    """The groundtruth unless its judges rated it poor or the test was changed since, else the test's expectation."""
    if truth is None or truth.testinput != test.testinput:
        return test.expectedoutput or ""
    poor = truth.groundtruthScore is not None and truth.groundtruthScore < BAD_SCORE
    return test.expectedoutput or "" if poor else truth.output


def read_metrics(metrics: Mapping[str, Path], left_out: list[str], tag: str = "") -> list[tuple[str, Prompty]]:
    """The metrics with a tag, or all; unreadable ones are left out."""
    readable = []
    for name, path in metrics.items():
        try:
            prompt = parse_prompty(read_text(path))
        except (OSError, UnicodeError, PromptyError) as problem:
            left_out.append(f"the metric {name} cannot be read: {problem}")
            continue
        if not tag or tag in tags_of(prompt):
            readable.append((name, prompt))
    return readable


def metric_messages(name: str, prompt: Prompty, spell: Spelling, left_out: list[str]) -> Messages:
    """The messages of a metric; none when it computes what other programs cannot."""
    texts = [(section.role, _respell(section.text, spell)) for section in prompt.sections]
    if not texts or any(text is None for _, text in texts):
        left_out.append(f"the metric {name} is left out: it must hold text, and of {{{{ }}}} and {{% %}} only names")
        return []
    return [{"role": role, "content": text} for role, text in texts if text is not None]


def metric_constants(subject: Subject, facts: PromptFacts) -> dict[str, str]:
    """The values metrics may name that are the same for every test."""
    prompt = "\n\n".join(section.text for section in subject.prompty.sections)
    return {"prompt": prompt, "intent": facts.intent, "inputSpec": facts.input_spec, "rules": facts.rules}


def free_name(name: str, subject: Subject) -> str:
    """The name, lengthened where an input of the prompt has it already."""
    while any(one.name == name for one in subject.inputs):
        name += "_"
    return name


def template_name(name: str) -> str:
    """A name as a template has it."""
    return f"{{{{{name}}}}}"


def tags_of(prompt: Prompty) -> list[str]:
    """The tags of a metric."""
    tags = prompt.front.get("tags")
    return list(map(str, tags)) if isinstance(tags, list) else []


def github_prompt(
    subject: Subject,
    tests: Sequence[Test],
    truths: Sequence[Truth],
    facts: PromptFacts,
    model: str,
    metrics: Mapping[str, Path],
) -> Export | None:
    """The prompt file for a model of GitHub, with the tests and evaluators; None for any other model."""
    name = provider_model(model, "github")
    if not name:
        return None
    messages, computed = export_messages(subject, template_name)
    rows, unbound = export_rows(subject, tests, truths, computed)
    left_out = list(unbound)
    expected = free_name("expected", subject)
    shown = "\n\n".join(message["content"] for message in messages)
    front = subject.prompty.front
    document = {
        "name": front.get("name") or subject.name,
        "description": front.get("description"),
        "model": name,
        "modelParameters": _parameters(front.get("model")),
        "messages": messages,
        "testData": [_test_datum(subject, row, expected) for row in rows],
        "evaluators": [
            {"name": "like-expected", "llm": _likeness_judge(_inputs_shown(subject), expected)},
            *_github_metrics(
                subject, metric_constants(subject, facts) | {"prompt": shown}, metrics, expected, left_out
            ),
        ],
    }
    text = github_text({key: value for key, value in document.items() if value is not None})
    return Export(f"{model_slug('github:' + name)}.prompt.yml", text, tuple(left_out))


def _test_datum(subject: Subject, row: ExportRow, expected: str) -> dict[str, Any]:
    reasoning = {free_name("reasoning", subject): row.test.reasoning} if row.test.reasoning else {}
    return {**row.values, **row.computed, **reasoning, expected: row.expected}


def _parameters(model: object) -> dict[str, Any] | None:
    """The parameters of the front matter's model as GitHub Models spells them."""
    parameters = model.get("parameters") if isinstance(model, dict) else None
    if not isinstance(parameters, dict):
        return None
    spelled = {our_name: their_name for their_name, our_name in PARAMETERS.items()}
    return {spelled.get(str(name), str(name)): value for name, value in parameters.items()}


def _likeness_judge(inputs: str, expected: str) -> dict[str, Any]:
    """A judge that compares the completion with the expected text, from 1 to 5."""
    return {
        "modelId": f"openai/{JUDGE}",
        "systemPrompt": (
            "You grade an answer against a reference answer to the same input.\n"
            "5: it says the same, in the same form\n"
            "4: it says the same, and differs in form only\n"
            "3: it says most of it\n"
            "2: it says little of it, or adds what is wrong\n"
            "1: it says something else\n"
            "Reply with one digit and nothing else."
        ),
        "prompt": f"Input:\n{inputs}\n\nReference answer:\n{{{{{expected}}}}}\n\nAnswer:\n{{{{completion}}}}\n\nGrade:",
        "choices": [{"choice": str(grade), "score": (grade - 1) / 4} for grade in range(1, 6)],
    }


def _github_metrics(
    subject: Subject, texts: Mapping[str, str], metrics: Mapping[str, Path], expected: str, left_out: list[str]
) -> list[dict[str, Any]]:
    """An evaluator for each metric tagged `github`."""
    spellings = {"output": "{{completion}}", "groundtruth": template_name(expected), "input": _inputs_shown(subject)}
    spellings = {one.name: template_name(one.name) for one in subject.inputs} | spellings | dict(texts)
    evaluators = []
    for name, prompt in read_metrics(metrics, left_out, tag="github"):
        if messages := metric_messages(name, prompt, lambda word: spellings.get(word, ""), left_out):
            evaluators.append({"name": name, "llm": _ok_err_judge(messages)})
    return evaluators


def _ok_err_judge(messages: Messages) -> dict[str, Any]:
    """A judge that ends with OK or ERR; only its prompt is a template, so a system message with names moves there."""
    system_texts = [one["content"] for one in messages if one["role"] == "system" and "{{" not in one["content"]]
    user_texts = [one["content"] for one in messages if one["role"] != "system" or "{{" in one["content"]]
    # ERR is first because the first choice that is part of a reply is taken, and "looks" holds an OK.
    choices = [{"choice": "ERR", "score": 0}, {"choice": "OK", "score": 1}]
    system = {"systemPrompt": "\n\n".join(system_texts)} if system_texts and user_texts else {}
    return {
        "modelId": f"openai/{JUDGE}",
        **system,
        "prompt": "\n\n".join(user_texts or system_texts),
        "choices": choices,
    }


def _inputs_shown(subject: Subject) -> str:
    names = [one.name for one in subject.inputs]
    return template_name(names[0]) if len(names) == 1 else "\n".join(f"{name}: {template_name(name)}" for name in names)


METRIC_NAMES = ("prompt", "input", "intent", "inputSpec", "rules", "groundtruth")
"""The names that metrics may use besides the inputs of the prompt and the output."""


def all_exports(
    subject: Subject,
    tests: Sequence[Test],
    truths: Sequence[Truth],
    facts: PromptFacts,
    metrics: Mapping[str, Path],
    models: Sequence[str],
) -> list[Export]:
    """All files: how OpenAI grades answers, and what each model under test takes."""
    run = evals_run(subject, tests, truths, facts, models)
    prompts = [github_prompt(subject, tests, truths, facts, model, metrics) for model in models]
    return [evals_create(subject, metrics), *(one for one in (run, *prompts) if one is not None)]


def evals_create(subject: Subject, metrics: Mapping[str, Path]) -> Export:
    """The body that creates an eval: what its rows hold, and a grader for each metric."""
    keys = _item_keys(subject)
    computed = export_messages(subject, _item_reference)[1]
    properties: dict[str, Any] = {
        one.name: {"type": "string"} | ({"description": one.description} if one.description else {})
        for one in subject.inputs
    }
    properties |= {key: {"type": "string"} for key in (*keys.values(), *computed)}
    required = [*(one.name for one in subject.inputs), keys["prompt"], keys["input"]]
    left_out: list[str] = []
    body = {
        "name": f"{subject.name} (promptpex)",
        "data_source_config": {
            "type": "custom",
            "item_schema": {"type": "object", "properties": properties, "required": required},
            "include_sample_schema": True,
        },
        "testing_criteria": [
            _grader(name, prompt, messages)
            for name, prompt in read_metrics(metrics, left_out)
            if (messages := metric_messages(name, prompt, _grader_spelling(subject), left_out))
        ],
    }
    return Export("evals.create.json", _dump_json(body), tuple(left_out))


def _grader(name: str, prompt: Prompty, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    shared = {"name": name, "model": JUDGE, "input": [{"type": "message", **message} for message in messages]}
    if "scorer" in tags_of(prompt):
        return {"type": "score_model", **shared, "range": [0, 100], "pass_threshold": 50}
    return {"type": "label_model", **shared, "labels": ["OK", "ERR"], "passing_labels": ["OK"]}


def evals_run(
    subject: Subject, tests: Sequence[Test], truths: Sequence[Truth], facts: PromptFacts, models: Sequence[str]
) -> Export | None:
    """The bodies that start a run of the eval, one for each model of OpenAI or Azure; None when there is none."""
    names = [name for model in models if (name := provider_model(model, "openai", "azure"))]
    if not names:
        return None
    messages, computed = export_messages(subject, _item_reference)
    rows, left_out = export_rows(subject, tests, truths, computed)
    source = {"type": "file_content", "content": [{"item": _item_values(subject, row, facts)} for row in rows]}
    template = [{"type": "message", **message} for message in messages]
    bodies = [
        {
            "name": f"{subject.name} · {name}",
            "data_source": {
                "type": "completions",
                "model": name,
                "input_messages": {"type": "template", "template": template},
                "source": source,
            },
        }
        for name in names
    ]
    return Export("evals.run.json", _dump_json(bodies), left_out)


def _item_values(subject: Subject, row: ExportRow, facts: PromptFacts) -> dict[str, str]:
    """One row of the data: every value as text for the prompt."""
    keys = _item_keys(subject)
    metric_values = {**metric_constants(subject, facts), "input": row.test.testinput, "groundtruth": row.expected}
    values = {name: str(value) for name, value in row.values.items()}
    return {**values, **{keys[name]: metric_values[name] for name in METRIC_NAMES}, **row.computed}


def _grader_spelling(subject: Subject) -> Spelling:
    """How a metric's names are spelled for OpenAI; a name that no row holds is empty, as in a run of ours."""
    keys = {one.name: one.name for one in subject.inputs} | _item_keys(subject)
    return lambda name: (
        "{{sample.output_text}}" if name == "output" else _item_reference(keys[name]) if name in keys else ""
    )


def _item_keys(subject: Subject) -> dict[str, str]:
    return {name: free_name(name, subject) for name in METRIC_NAMES}


def _item_reference(name: str) -> str:
    return f"{{{{item.{name}}}}}"


def _dump_json(value: object) -> str:
    """The value as JSON, with question marks for lone surrogates, which no file can hold."""
    return json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace").decode("utf-8") + "\n"
