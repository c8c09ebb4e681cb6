"""Writes a dataset as the JSON of Prompt Foundry's SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tui_evals.datasets.paths import Problem, pretty_json
from tui_evals.datasets.resolve import EffectiveEvaluator, effective_evaluators
from tui_evals.imports.base import Losses
from tui_evals.imports.foundry.assertions import (
    Data,
    Evaluation,
    Prompt,
    Style,
    Tool,
    absent_in,
    check,
    edited,
    original_of,
    spelled,
)

from .assertions import AnyAssertion, NoEqual, check_assertion, evaluator_of
from .messages import (
    ASKED,
    KEEP,
    PROMPTED,
    chat_in,
    check_messages,
    evaluation_of,
    fields_of,
    form_of,
    item_of,
    prompt_of,
    rebuilt,
    tool_of,
)

_USED = frozenset((*ASKED, "turns", "evaluators", "evaluators_mode", "expected_response", "ideal", "extensions"))
_HOLDS = frozenset((*PROMPTED, "schemaVersion", "default_evaluators", "variables", "extensions", "items"))
_TARGETS = frozenset(("value", "values", "targetValue", "targetValues", "target_value", "target_values"))


def write(data: Mapping[str, Any], style: Style = "camel") -> tuple[str, Losses]:
    """The evaluations with their assertions and prompt, and what became of the dataset's parts."""
    writer = _Writer(data)
    for number, item in enumerate(data["items"]):
        writer.add(item, f"items[{number}]")
    document = writer.document()
    listed = "evaluations" if writer.notes.get("top") == "list" and document.keys() == {"evaluations"} else None
    shape = spelled(document[listed], "evaluation", style, []) if listed else spelled(document, "document", style, [])
    return pretty_json(shape), writer.losses


def _object(value: Any) -> Data:
    return value if isinstance(value, dict) else {}


def _notes(part: Mapping[str, Any]) -> Data:
    """The note that an import left in a dataset or item."""
    return _object(_object(part.get("extensions")).get(KEEP))


class _Writer:
    """Collects a document and its losses."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.notes = _notes(data)
        self.losses = Losses()
        self.prompted = "prompt" in self.notes or any(name in data for name in PROMPTED)
        self.form = form_of(data) if self.prompted else None
        self.sparse = self.notes.get("defaults") == "left out"
        self.beside = self.notes.get("assertions") == "beside"
        self.evaluations: list[Data] = []
        self.assertions: list[Data] = []
        self.unused(set(data) - _HOLDS, data, "")

    def document(self) -> Data:
        """The whole, in camelCase."""
        document: Data = dict(_object(self.notes.get("document")))
        if self.prompted:
            prompt = _prompt(self.data, self.notes, self.losses)
            document |= {"prompts": [prompt]} if "prompts" in self.notes else {"prompt": prompt}
        document["evaluations"] = self.evaluations
        if self.beside:
            document["assertions"] = _in_order(self.assertions, self.notes.get("order"))
        count = len(self.evaluations)
        self.losses.carried(f"{count} evaluation{'' if count == 1 else 's'}")
        return document

    def add(self, item: Mapping[str, Any], where: str) -> None:
        """Add an item as an evaluation, or a conversation as one for each turn."""
        self.unused({name for name in set(item) - _USED if item[name] != self.data.get(name)}, item, where)
        variables = {**(self.data.get("variables") or {}), **(item.get("variables") or {})}
        case = {**item, "variables": variables}
        if "turns" not in item:
            note = _notes(item)
            written = evaluation_of(case, chat_in(item), self.sparse, self.losses, where)
            evaluation = _evaluation(item, written, note, self.prompted)
            checks = self.checks(item, evaluation.get("id"), _object(note.get("assertions")), where)
            self.put(evaluation, checks, bare="assertions" in absent_in(note))
            return
        why = f"it became {len(item['turns'])} evaluations, each with what was said before"
        self.losses.changed("the conversation", where, why)
        past = [*(item.get("messages") or ())]
        for number, turn in enumerate(item["turns"]):
            place = f"{where}.turns[{number}]"
            self.unused(set(turn) - _USED, turn, place)
            past += chat_in(turn)
            evaluation = evaluation_of(case, past, self.sparse, self.losses, place)
            self.put(evaluation, self.checks(turn, None, {}, place))
            if answer := turn.get("expected_response") or turn.get("response"):
                past.append({"role": "assistant", "content": answer})

    def put(self, evaluation: Data, checks: list[Data], bare: bool = False) -> None:
        """Keep an evaluation with its assertions; a bare one does not say that it has none."""
        if self.beside and checks:
            owner = evaluation.setdefault("id", f"evaluation-{len(self.evaluations) + 1}")
            self.assertions += [{**check, "evaluationId": owner} for check in checks]
        elif not self.beside and (checks or not bare):
            evaluation["assertions"] = checks
        self.evaluations.append(evaluation)

    def checks(self, unit: Mapping[str, Any], owner: str | None, notes: Mapping[str, Any], where: str) -> list[Data]:
        """The assertions of a unit; those without an equal are reported as losses."""
        given = [unit.get("expected_response"), *(unit.get("ideal") or ())]
        references = list(dict.fromkeys(text for text in given if text is not None))
        assertions, compared = [], False
        own = effective_evaluators(
            self.data.get("default_evaluators"), unit.get("evaluators"), unit.get("evaluators_mode"), "item"
        )
        for evaluator in own:
            place = f"{where}.evaluators" if evaluator.origin == "item" else "default_evaluators"
            try:
                check = self.check(evaluator, references, owner, _object(notes.get(evaluator.key)))
            except NoEqual as problem:
                self.losses.left_out(f"the evaluator {evaluator.key}", place, str(problem))
                continue
            assertions.append(check)
            compared |= bool(_TARGETS & check.keys()) and not _TARGETS & evaluator.settings.keys()
        if references and not compared:
            self.losses.left_out("the expected response", where, "no assertion compares with it")
        return assertions

    def check(self, evaluator: EffectiveEvaluator, references: Sequence[str], owner: str | None, note: Data) -> Data:
        """The assertion as it was imported if it is unchanged, else in its current form."""
        name, options = evaluator.evaluator, evaluator.settings
        owner = None if "evaluationId" in self.notes else owner
        written: Data = {}
        missing: NoEqual | None = None
        try:
            written = rebuilt(name, options, self.form, references, owner, self.sparse)
        except NoEqual as problem:
            missing = problem
        original = original_of(written, note)
        problems: list[Problem] = []
        check_assertion(original, (), problems)
        if not problems and evaluator_of(original, self.form) == (name, options):
            return original
        if missing is not None:
            raise missing
        return edited(written, note, AnyAssertion)

    def unused(self, names: set[str], part: Mapping[str, Any], where: str) -> None:
        """Note the fields that have no place there."""
        others = {f"extensions.{name}" for name in _object(part.get("extensions")) if name != KEEP}
        if gone := sorted(names | others):
            self.losses.left_out(", ".join(gone), where, "Prompt Foundry has no field for it")


def _evaluation(item: Mapping[str, Any], written: Data, note: Mapping[str, Any], prompted: bool) -> Data:
    """The evaluation as it was imported if it is unchanged, else in its current form."""
    kept = {name: value for name, value in note.items() if name != "assertions"}
    original = original_of(written, kept)
    problems: list[Problem] = []
    if check(Evaluation, original, (), problems):
        check_messages(original.get("appendedMessages", ()), (), problems)
    current = {name: item[name] for name in ASKED if name in item}
    same = not problems and item_of(original, prompted) == current
    return original if same else edited(written, kept, Evaluation)


def _prompt(data: Mapping[str, Any], notes: Mapping[str, Any], losses: Losses) -> Data:
    """The prompt as it was imported if it is unchanged, else in its current form."""
    note, kept = _object(notes.get("prompt")), _object(notes.get("tools"))
    written = prompt_of(data, _object(note.get("parameters")), losses)
    written["tools"] = [_tool(tool, _object(kept.get(tool["name"]))) for tool in written["tools"]]
    original = original_of(written, note)
    problems: list[Problem] = []
    if check(Prompt, original, (), problems):
        check_messages(original.get("messages", ()), (), problems)
    current = {name: data[name] for name in PROMPTED if name in data}
    same = not problems and fields_of(original) == current
    return original if same else edited(written, note, Prompt)


def _tool(tool: Data, note: Data) -> Data:
    original = original_of(tool, note)
    same = "name" in original and tool_of(original) == tool_of(tool)
    return original if same else edited(tool, note, Tool)


def _in_order(assertions: list[Data], places: Any) -> list[Data]:
    """The assertions in the order of the original file, if their number is unchanged."""
    if not isinstance(places, list) or len(places) != len(assertions) or not all(type(one) is int for one in places):
        return assertions
    return [one for _, one in sorted(zip(places, assertions, strict=True), key=lambda pair: pair[0])]
