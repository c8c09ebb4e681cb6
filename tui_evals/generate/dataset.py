"""Makes a dataset of the tests, keeps what the user changed, and picks tests evenly from all rules."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tui_evals.datasets.discover import project_of
from tui_evals.datasets.document import load
from tui_evals.datasets.paths import CURRENT_VERSION, pretty_json
from tui_evals.datasets.save import save
from tui_evals.evaluators.compliance import discover_metrics
from tui_evals.generate.asking import CannotGenerate
from tui_evals.generate.folder import Rule, Test, TestEval, Truth, evaluator_key, rule_lines, short_hash
from tui_evals.generate.reviewing import BAD_SCORE, known_test_evals
from tui_evals.generate.work import Generation, Unbindable, bind_inputs
from tui_evals.project_files import read_text
from tui_evals.text import strictjson

Data = dict[str, Any]
_TEST_FACTS = ("ruleid", "rule", "inverse", "scenario", "generation", "baseline", "testid", "testinput")
_MORE_FACTS = ("testinputOriginal", "expectedoutput", "reasoning")


def dataset_path(work: Generation) -> Path:
    """Where the dataset of a generation lies."""
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
            f"dataset: {_count_items(stray)} of no rule that is tested ({shown}); delete from tests.json those whose "
            "rule is gone"
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
    """The fresh dataset, except where the one that is there was changed by hand; how many items that are.

    An item that was changed or added stays; one that was deleted stays deleted as long as its test is the same; one
    that was not edited is replaced by its fresh version, or goes when its test is gone. With `own`, how the dataset is
    asked and judged was changed too, and stays.
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
    """The items with the new ones, each behind all that come before it; one that a person deleted is not new."""
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
    """The positions of so many items, in the order of the dataset: a test of each rule before a second of any.

    A rule and the one that inverts it come one after the other, so that a number too small for all of them still
    holds as many of the one kind as of the other; then come the next scenarios.
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
