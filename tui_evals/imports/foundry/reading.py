"""From a file of Prompt Foundry to the dataset that asks and judges the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Path, Problem, path_text
from tui_evals.imports.losses import Losses

from .assertions import AnyAssertion, defaults_of, evaluator_of, report
from .file import Case, FoundryFile, load
from .messages import (
    CASE_DEFAULTS,
    KEEP,
    fields_of,
    has_places,
    item_of,
    prompt_of,
    rebuilt_case,
    rebuilt_or_nothing,
    tool_of,
    wire_tool,
)
from .wire import ABSENT, Data, Evaluation, Prompt, Wire, note_of

_TOP = frozenset(("evaluations", "assertions", "prompt", "prompts"))
_KEPT = f"kept under extensions.{KEEP}"


def read(text: str, source: str, prompt: str | None = None) -> tuple[Data, Losses]:
    """The dataset of a file, and what became of its parts; `prompt` is an id or name, for a file with several."""
    try:
        return _read(text, source, prompt)
    except RecursionError:
        raise DatasetError(source, [Problem("the brackets are nested too deeply to convert the file")]) from None


def _read(text: str, source: str, prompt: str | None) -> tuple[Data, Losses]:
    losses = Losses()
    file = load(text, source, prompt, losses)
    notes = _layout(file)
    data: Data = {"schemaVersion": CURRENT_VERSION}
    if file.prompt is not None:
        data |= fields_of(file.prompt)
        notes |= _prompt_notes(file.prompt, data, losses)
    data["default_evaluators"] = {}
    if notes:
        data["extensions"] = {KEEP: notes}
    data["items"] = [_item(case, file, notes, losses) for case in file.cases]
    _report(file, data, losses)
    return data, losses


def _layout(file: FoundryFile) -> Data:
    """How the file is laid out, where that is not how we write one."""
    notes: Data = {"top": "list"} if file.listed else {}
    if more := {key: value for key, value in file.document.items() if key not in _TOP}:
        notes["document"] = more
    if "prompts" in file.document:
        notes["prompts"] = "list"
    owned = [(case.evaluation, path, one) for case in file.cases for path, one in case.assertions]
    if "assertions" in file.document:
        notes["assertions"] = "beside"
        places = [path[1] for _, path, _ in owned]
        if places != sorted(places, key=int):
            notes["order"] = places
    elif any("id" in evaluation for evaluation, _, _ in owned) and not any("evaluationId" in one for *_, one in owned):
        notes["evaluationId"] = "left out"
    if _leaves_out_defaults(file):
        notes["defaults"] = "left out"
    return notes


def _leaves_out_defaults(file: FoundryFile) -> bool:
    """Whether what is so by default is left out somewhere, and never said."""
    parts = [(case.evaluation, CASE_DEFAULTS) for case in file.cases]
    parts += [(one, defaults_of(one)) for case in file.cases for _, one in case.assertions]
    stated = any(name in part and part[name] == value for part, defaults in parts for name, value in defaults.items())
    return not stated and any(name not in part for part, defaults in parts for name in defaults)


def _prompt_notes(prompt: Data, data: Data, losses: Losses) -> Data:
    """What of the prompt the dataset has no place for."""
    written = prompt_of(data, {}, Losses())
    tools = {}
    for tool in prompt.get("tools", ()):
        if note := note_of(tool, wire_tool(tool_of(tool), Losses(), "") or {}):
            tools[tool["name"]] = note
    note = note_of({**prompt, **({"tools": written["tools"]} if "tools" in prompt else {})}, written)
    _report_kept(prompt, Prompt, losses, "prompt")
    parameters = prompt.get("parameters") or {}
    if beside := sorted(set(parameters) - {"responseFormat"}):
        provider, name = (parameters.get(key) or parameters.get(f"model{key.title()}") for key in ("provider", "name"))
        target = f"; --target {str(provider).lower()}/{name} asks the same model" if provider and name else ""
        losses.changed(f"parameters ({', '.join(beside)})", "prompt", f"they belong to the target{target}; {_KEPT}")
    return {**({"prompt": note} if note else {}), **({"tools": tools} if tools else {})}


def _item(case: Case, file: FoundryFile, notes: Mapping[str, Any], losses: Losses) -> Data:
    sparse, evaluation = "defaults" in notes, case.evaluation
    inside = "assertions" not in notes
    where = path_text(case.path)
    item = item_of(evaluation, file.prompt is not None)
    written = rebuilt_case(item, sparse) | ({"assertions": evaluation.get("assertions", [])} if inside else {})
    note = note_of(evaluation, written)
    _report_case(evaluation, note, losses, where)
    evaluators: dict[str, Data] = {}
    kept: dict[str, Data] = {}
    owner = None if "evaluationId" in notes else evaluation.get("id")
    for path, assertion in case.assertions:
        name, options = evaluator_of(assertion, file.form)
        key = _free(name, evaluators)
        evaluators[key] = options if key == name else {"type": name, **options}
        if one := note_of(assertion, rebuilt_or_nothing(name, options, file.form, owner, sparse)):
            kept[key] = one
        report(assertion, file.form, losses, path_text(path))
        _report_kept(assertion, AnyAssertion, losses, path_text(path))
    if evaluators:
        item["evaluators"] = evaluators
    if kept:
        note["assertions"] = kept
    return {**item, "extensions": {KEEP: note}} if note else item


def _free(name: str, taken: Mapping[str, object]) -> str:
    """The evaluator's own name, or a label of it where it judges a second time."""
    keys = (name if number == 1 else f"{name}_{number}" for number in range(1, len(taken) + 2))
    return next(key for key in keys if key not in taken)


def _report_case(evaluation: Data, note: Data, losses: Losses, where: str) -> None:
    _report_kept(evaluation, Evaluation, losses, where)
    messages = evaluation.get("appendedMessages", ())
    if has_places(messages, evaluation.get("variables") or {}):
        why = f"their places for variables are filled in, as only the prompt's messages are templates; {_KEPT}"
        losses.changed("appendedMessages", where, why)
    elif "appendedMessages" in note:
        losses.changed("appendedMessages", where, f"OpenAI-style messages are laid out otherwise; {_KEPT}")


def _report_kept(part: Data, model: type[Wire], losses: Losses, where: str) -> None:
    """Note the unknown fields."""
    if more := sorted(set(part) - set(model.model_fields) - {ABSENT}):
        losses.changed(", ".join(more), where, f"no field that is known; {_KEPT}")


def _report(file: FoundryFile, data: Data, losses: Losses) -> None:
    """Note what was carried, and what the user still has to give."""
    checks = sum(len(case.assertions) for case in file.cases)
    losses.carried(f"{_count(len(file.cases), 'evaluation')} with {_count(checks, 'assertion')}")
    if file.prompt is None:
        why = "the file holds no prompt; add it as messages or prompt_file, or give one when you run the dataset"
        losses.left_out("the prompt under test", why=why)
        return
    held = f"{_count(len(data['messages']), 'message')} and {_count(len(data.get('tools', ())), 'tool')}"
    losses.carried(f"the prompt with {held}", str(file.prompt.get("name") or ""))
    if file.form == "json":
        losses.carried("answers must be valid JSON", "response_format")
    for number, message in enumerate(data["messages"]):
        _report_template(message.get("content"), ("messages", number), losses)


def _report_template(content: Any, path: Path, losses: Losses) -> None:
    """Note a message that reads otherwise as a template here."""
    if isinstance(content, list) and any("{{" in part.get("text", "") for part in content):
        why = "it has several blocks, and places are filled in where a message is one text"
        losses.changed("the places for variables", path_text(path), why)
    elif isinstance(content, str) and ("{%" in content or "{#" in content):
        losses.changed("the text", path_text(path), "{% and {# begin a command of the template here")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
