"""Evaluations of Prompt Foundry, as the JSON of its SDK: checked, and imported as the dataset that asks the same."""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Layout, Path, Problem, path_text
from tui_evals.imports.base import CannotRead, Importer, ImportRequest, ImportResult, Loss, Losses
from tui_evals.imports.foundry.assertions import (
    ABSENT,
    AnyAssertion,
    Data,
    Evaluation,
    Form,
    Prompt,
    Wire,
    as_written,
    check,
    check_assertion,
    defaults_of,
    evaluator_of,
    note_of,
    report,
    spelled,
)
from tui_evals.imports.foundry.messages import (
    CASE_DEFAULTS,
    KEEP,
    check_messages,
    fields_of,
    has_places,
    item_of,
    prompt_of,
    rebuilt_case,
    rebuilt_or_nothing,
    tool_of,
    wire_tool,
)
from tui_evals.imports.keeping import json_in, keep_dataset, text_of
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson

_MARKS = frozenset(("promptId", "prompt_id", "appendedMessages", "appended_messages"))


@dataclass(frozen=True, slots=True)
class Case:
    """An evaluation with its assertions and their places in the file, in camelCase."""

    path: Path
    evaluation: Data
    assertions: list[tuple[Path, Data]]

    @property
    def prompt_id(self) -> str | None:
        """The prompt it belongs to."""
        identity: str | None = self.evaluation.get("promptId")
        return identity


@dataclass(frozen=True, slots=True)
class FoundryFile:
    """The content of a file; `listed` if it is only a list of evaluations."""

    document: Data
    listed: bool
    cases: list[Case]
    prompt: Data | None

    @property
    def form(self) -> Form:
        """The form of the prompt's answers."""
        if self.prompt is None:
            return None
        return "json" if (self.prompt.get("parameters") or {}).get("responseFormat") == "JSON" else "text"


def is_foundry(value: object) -> bool:
    """Whether a parsed JSON file looks like evaluations of Prompt Foundry."""
    evaluations = value.get("evaluations") if isinstance(value, dict) else value
    return isinstance(evaluations, list) and any(
        isinstance(part, dict) and _MARKS & part.keys() for part in evaluations
    )


def load(text: str, source: str, chosen: str | None, losses: Losses) -> FoundryFile:
    """The checked file; DatasetError holds every problem of one that is none."""
    try:
        raw = strictjson.loads(text)
    except strictjson.JsonError as problem:
        at = f" (column {problem.column})" if problem.column else ""
        raise DatasetError(source, [Problem(f"{problem}{at}", line=problem.line)]) from None
    problems: list[Problem] = []
    file = _checked(raw, chosen, problems, losses)
    if file is None or problems:
        layout = Layout(text)
        placed = ((as_written(raw, problem.path), problem.message) for problem in problems)
        raise DatasetError(source, [Problem(message, path, layout.line(path)) for path, message in placed])
    return file


def _checked(raw: object, chosen: str | None, problems: list[Problem], losses: Losses) -> FoundryFile | None:
    """The file, unless there are problems; each step needs that those before it found none."""
    listed = isinstance(raw, list)
    top = spelled(raw, "evaluation" if listed else "document", "camel", problems)
    base: Path = () if listed else ("evaluations",)
    evaluations = top if listed else top.get("evaluations") if isinstance(top, dict) else None
    if not isinstance(evaluations, list) or not evaluations:
        message = "must be a list of evaluations, or an object with a list of evaluations, and hold at least one"
        problems.append(Problem(message, base if isinstance(evaluations, list) else ()))
        return None
    for number, evaluation in enumerate(evaluations):
        if check(Evaluation, evaluation, (*base, number), problems):
            check_messages(evaluation.get("appendedMessages", ()), (*base, number, "appendedMessages"), problems)
    document = {} if listed else top
    prompts = _prompts(document, problems)
    cases = [] if problems else [_case(evaluation, (*base, at), problems) for at, evaluation in enumerate(evaluations)]
    if not problems:
        _join(document, cases, problems)
    if problems:
        return None
    for path, assertion in (pair for case in cases for pair in case.assertions):
        check_assertion(assertion, path, problems)
    prompt = _chosen(prompts, cases, chosen, problems)
    return FoundryFile(document, listed, _about(prompt, prompts, cases, losses), prompt)


def _prompts(document: Data, problems: list[Problem]) -> list[Data]:
    """The prompt configurations of a file."""
    several = document.get("prompts", [])
    if not isinstance(several, list):
        problems.append(Problem("must be a list of prompts", ("prompts",)))
        return []
    places: list[tuple[Path, Any]] = [(("prompts", number), given) for number, given in enumerate(several)]
    if "prompt" in document:
        places.append((("prompt",), document["prompt"]))
    for path, given in places:
        if check(Prompt, given, path, problems):
            check_messages(given.get("messages", ()), (*path, "messages"), problems)
            names = Counter(tool["name"] for tool in given.get("tools", ()))
            twice = [name for name, count in names.items() if count > 1]
            problems += [Problem(f"two tools have the name '{name}'", (*path, "tools")) for name in twice]
    return [given for _, given in places]


def _case(evaluation: Data, path: Path, problems: list[Problem]) -> Case:
    pairs: list[tuple[Path, Data]] = []
    for number, assertion in enumerate(evaluation.get("assertions", ())):
        place = (*path, "assertions", number)
        owner = assertion.get("evaluationId")
        if owner not in (None, evaluation.get("id")):
            problems.append(Problem(f"'{owner}' is not the evaluation it is in", (*place, "evaluationId")))
        pairs.append((place, assertion))
    return Case(path, evaluation, pairs)


def _join(document: Data, cases: Sequence[Case], problems: list[Problem]) -> None:
    """Give the assertions that are next to the evaluations to those they name."""
    by_id: dict[str, Case] = {}
    for case in cases:
        name = case.evaluation.get("id")
        if name is not None and by_id.setdefault(name, case) is not case:
            problems.append(Problem(f"another evaluation has the id '{name}' too", (*case.path, "id")))
    beside = document.get("assertions", [])
    if not isinstance(beside, list):
        problems.append(Problem("must be a list of assertions", ("assertions",)))
        return
    if "assertions" in document and any("assertions" in case.evaluation for case in cases):
        message = "some assertions are inside their evaluations, these are not. Use one way"
        problems.append(Problem(message, ("assertions",)))
        return
    for number, assertion in enumerate(beside):
        path: Path = ("assertions", number)
        owner = assertion.get("evaluationId") if isinstance(assertion, dict) else None
        if not isinstance(assertion, dict):
            problems.append(Problem("must be an object", path))
        elif owner is None:
            problems.append(Problem("evaluationId is missing", path))
        elif not isinstance(owner, str) or owner not in by_id:
            problems.append(Problem(f"no evaluation has the id '{owner}'", (*path, "evaluationId")))
        else:
            by_id[owner].assertions.append((path, assertion))


def _named(prompt: Data) -> str:
    return str(prompt.get("name") or prompt.get("id") or "without a name")


def _chosen(prompts: Sequence[Data], cases: Sequence[Case], chosen: str | None, problems: list[Problem]) -> Data | None:
    """The prompt under test."""
    names = ", ".join(map(_named, prompts))
    if chosen is not None:
        matching = [one for one in prompts if chosen in (one.get("id"), one.get("name"))]
        if not matching:
            problems.append(Problem(f"has no prompt '{chosen}'; its prompts are {names or 'none'}"))
        return matching[0] if matching else None
    used = [one for one in prompts if any(_belongs(case, one) for case in cases)]
    if prompts and not used:
        problems.append(Problem(f"no evaluation belongs to a prompt of the file ({names})"))
    elif len(used) > 1:
        message = f"has evaluations of {len(used)} prompts ({names}), and a dataset has one; say which to import"
        problems.append(Problem(message, ("prompts",)))
    return used[0] if used else None


def _belongs(case: Case, prompt: Data) -> bool:
    return prompt.get("id") is None or case.prompt_id in (None, prompt["id"])


def _about(prompt: Data | None, prompts: Sequence[Data], cases: list[Case], losses: Losses) -> list[Case]:
    """The cases of the prompt under test; those of others are reported as losses."""
    if prompt is None:
        return cases
    for other in prompts:
        if other is not prompt:
            losses.left_out(f"the prompt {_named(other)}", why="a dataset has one prompt under test")
    others = Counter(str(case.prompt_id) for case in cases if not _belongs(case, prompt))
    for owner, count in others.items():
        left = f"{count} evaluation{'s' if count > 1 else ''} of the prompt {owner}"
        losses.left_out(left, why="a dataset has one prompt under test, and it is another")
    return [case for case in cases if _belongs(case, prompt)]


_TOP = frozenset(("evaluations", "assertions", "prompt", "prompts"))
_KEPT = f"kept under extensions.{KEEP}"


def read(text: str, source: str, prompt: str | None = None) -> tuple[Data, Losses]:
    """The dataset in a file, and the losses; `prompt` is an id or name, for a file with several."""
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
    """Whether the file leaves out default values and never states one."""
    parts = [(case.evaluation, CASE_DEFAULTS) for case in file.cases]
    parts += [(one, defaults_of(one)) for case in file.cases for _, one in case.assertions]
    stated = any(name in part and part[name] == value for part, defaults in parts for name, value in defaults.items())
    return not stated and any(name not in part for part, defaults in parts for name in defaults)


def _prompt_notes(prompt: Data, data: Data, losses: Losses) -> Data:
    """The parts of the prompt that the dataset cannot hold."""
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
    """Record the losses, and what the user still has to add."""
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


_PLACE = re.compile(r"(?:evaluations|assertions|prompts)?(?:\[\d+\]|\.\w+)+|prompt")
_PART = re.compile(r"\[(\d+)\]|(\w+)")


def recognises(path: pathlib.Path) -> bool:
    """Whether a file holds evaluations of Prompt Foundry."""
    return path.suffix.lower() == ".json" and is_foundry(json_in(path))


def _import(request: ImportRequest) -> ImportResult:
    path = request.path
    text = text_of(path)
    try:
        document, losses = read(text, str(path), request.options.prompt)
    except DatasetError as problem:
        hint = "; `--prompt NAME` chooses one" if "say which to import" in str(problem) else ""
        raise CannotRead(f"{problem}{hint}") from None
    file = request.dataset_file(path.name.removesuffix(".json"))
    layout = Layout(text)
    placed = Losses([_with_line(loss, layout, path) for loss in losses.entries], losses.assertions)
    return keep_dataset(request, file, document, placed)


def _with_line(loss: Loss, layout: Layout, path: pathlib.Path) -> Loss:
    """The loss with its line, if it is located by a path in the file."""
    if not _PLACE.fullmatch(loss.where):
        return loss
    parts = [int(number) if number else name for number, name in _PART.findall(loss.where)]
    return replace(loss, where=f"{path}:{layout.line(tuple(parts))}: {loss.where}")


IMPORTER = Importer(
    kind="foundry",
    about="evaluations of Prompt Foundry (.json)",
    recognises=recognises,
    read=_import,
    order=40,
    takes_prompt=True,
)
