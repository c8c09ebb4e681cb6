"""Evaluators: the list, who judges a dataset, single scores and rows of scores, and trust in the project's code."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ValidationError

from tui_evals.cli import inputs
from tui_evals.cli.inputs import show_agreed, show_page
from tui_evals.cli.output import (
    Stop,
    cell,
    confirmed,
    keep_output_to_ourselves,
    say,
    say_json,
    say_json_line,
    say_result,
    warn,
)
from tui_evals.cli.write.items import assignments_of, edited, registry_of, say_edit
from tui_evals.datasets import steps
from tui_evals.datasets.discover import project_root
from tui_evals.datasets.fields import Assignment
from tui_evals.datasets.file_edit import Change, FileEdit
from tui_evals.datasets.item_names import find_items, items_in_words
from tui_evals.datasets.paths import CannotEdit, Data, get_at, unit_at
from tui_evals.datasets.paths import Path as Place
from tui_evals.datasets.resolve import SYSTEM_DEFAULTS, EffectiveEvaluator
from tui_evals.datasets.steps import DEFAULTS
from tui_evals.evaluators.base import Evaluator, Question, Score, ToolCall, error_score
from tui_evals.evaluators.custom import write_new_evaluator
from tui_evals.evaluators.libraries import LIBRARIES, VECTOR_METRICS, asks_model, python_of
from tui_evals.evaluators.libraries.worker import CannotList, installed_libraries
from tui_evals.evaluators.registry import Registry, UnknownEvaluator, built_in
from tui_evals.evaluators.rows import Refusal, RowScorer, options_problem, record_of, sample_questions
from tui_evals.evaluators.trust import Trust, TrustError, trust_unit
from tui_evals.generate.request import remembered_targets
from tui_evals.runs.approving import (
    agree,
    agree_to_file,
    agreed_permissions,
    missing_of_project,
    missing_of_targets,
    missing_store,
    model_permissions,
)
from tui_evals.runs.project import forget_stores
from tui_evals.runs.readiness import Option, option_kind, options_of, without_none
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.model_table import judging_params
from tui_evals.targets.permissions import Approvals, NotApproved
from tui_evals.text import strictjson
from tui_evals.text.chats import parameters_text
from tui_evals.text.measures import score_figures
from tui_evals.transcript import Transcript, to_json

_MARKS = {"pass": ("✓ pass", "green"), "fail": ("✗ fail", "red"), "error": ("! error", "magenta")}


def show_evaluators(name: str | None, as_json: bool) -> None:
    """The list, or one evaluator whole."""
    registry = inputs.evaluators()
    for problem in registry.problems:
        warn(f"note: {problem}")
    if name is None:
        _list(registry, as_json)
        return
    try:
        kind = registry.find(name)
    except UnknownEvaluator as problem:
        raise Stop(str(problem)) from None
    if as_json:
        say_json(_evaluator_json(kind))
    else:
        _show(kind)


def show_prompt(name: str, trusting: bool, as_json: bool) -> None:
    """Print the questions of an evaluator to a judge about the sample item."""
    try:
        kind = inputs.evaluators(trusting).find(name)
    except UnknownEvaluator as problem:
        raise Stop(str(problem)) from None
    if kind.embeds or not (kind.judged or kind.may_ask):
        raise Stop(f"{kind.name} asks no judge, so it has no prompt; `tui-evals evaluators {kind.name}` shows the rest")
    keep_output_to_ourselves()
    try:
        asked = asyncio.run(sample_questions(kind))
    except ValidationError as problem:
        raise Stop(f"{kind.name} has no example with the options it needs: {options_problem(problem)}") from None
    if not asked:
        raise Stop(f"{kind.name} asked its judge nothing about the sample item; `tui-evals score {kind.name}` says why")
    if as_json:
        say_json(
            [
                {
                    "rubric": one.rubric,
                    "messages": list(one.messages),
                    "schema": one.schema,
                    "parameters": _sent_params(one),
                }
                for one in asked
            ]
        )
        return
    for question in asked:
        say(f"{kind.name} · {question.rubric}" if question.rubric else kind.name, bold=True)
        for message in question.messages:
            say(f"\n{message['role']}:", bold=True)
            say(message["content"])
        if question.schema is not None:
            say("\nThe reply has to fit:", bold=True)
            say("any JSON object" if question.schema == "json" else strictjson.dumps(question.schema))
        say("\nIt is sent with:", bold=True)
        say(_sent_text(question))


def begin_evaluator(name: str) -> None:
    """Write an evaluator of the user's own and its test, and say how it comes to judge."""
    root = project_root(Path.cwd())
    try:
        file, test = write_new_evaluator(root, name, built_in())
    except (FileExistsError, ValueError) as problem:
        raise Stop(str(problem)) from None
    except OSError as problem:
        raise Stop(f"the evaluator cannot be written: {problem}") from None
    shown, shown_test = (path.relative_to(root) for path in (file, test))
    say(f"wrote {shown} and {shown_test}", fg="green")
    say(f"edit it, try it with `pytest {shown_test}`, agree to it with `tui-evals trust {shown}`,")
    say(f"and let it judge a dataset with `tui-evals evaluators set DATASET {name}`")


def _list(registry: Registry, as_json: bool) -> None:
    if as_json:
        say_json([_evaluator_json(kind) for kind in registry.kinds])
        return
    families: dict[str, list[type[Evaluator]]] = {}
    for kind in registry.kinds:
        families.setdefault(kind.family, []).append(kind)
    for family, kinds in families.items():
        say(family, bold=True)
        for kind in kinds:
            asks = "vectors" if kind.embeds else "judge" if kind.judged else ""
            say(f"  {kind.name:<20} {asks:<7} {summary(kind)}")
    say("\n`tui-evals evaluators NAME` shows options, evidence and an example, with --prompt what its judge is asked.")


def show_packages(python: str | None, as_json: bool) -> None:
    """The metrics of the libraries that are installed for a Python, ours where none is named."""
    try:
        libraries = installed_libraries(python_of(python, Path.cwd()))
    except CannotList as problem:
        raise Stop(str(problem)) from None
    if as_json:
        say_json([asdict(library) for library in libraries])
        return
    for library in libraries:
        say(f"{library.name} {library.version}", bold=True)
        if library.problem:
            say(f"  cannot be imported: {library.problem}")
        elif library.name == "evaluate":
            say("  evaluate:NAME, of the Hugging Face hub or a folder of the project")
        for metric, parameters in sorted(library.metrics.items()):
            name = f"{library.name}:{metric}"
            judged = "judge  " if asks_model(library.name, metric) else "       "
            say(f"  {name:<46} {'vectors' if name in VECTOR_METRICS else judged} {', '.join(parameters)}")
    if missing := [name for name in LIBRARIES if name not in {library.name for library in libraries}]:
        say(f"not installed for {python or sys.executable}: {', '.join(missing)}")


def summary(kind: type[Evaluator]) -> str:
    """The first sentence of an evaluator's description."""
    return description(kind).partition("\n\n")[0].replace("\n", " ")


def description(kind: type[Evaluator]) -> str:
    """An evaluator's docstring."""
    lines = (kind.__doc__ or "").strip().splitlines()
    return "\n".join(line.strip() for line in lines)


def _show(kind: type[Evaluator]) -> None:
    say(kind.name, bold=True)
    if kind.aliases:
        say(f"also: {', '.join(kind.aliases)}")
    say()
    say(description(kind))
    say()
    say("Needs", bold=True)
    say(f"  {', '.join(kind.needs) or 'nothing'}{'; ' + _whom(kind) if kind.judged else ''}")
    if kind.judged and not kind.embeds and not kind.may_ask:
        say("Its judge is sent", bold=True)
        for line in _sent_lines(kind):
            say(f"  {line}")
    measure = kind.declared_measure()
    if measure.direction or measure.unit:
        say("Score", bold=True)
        unit = f", in {measure.unit}" if measure.unit else f", of {measure.range_text}" if measure.bounds else ""
        say(f"  passes with {measure.limit('its threshold')}{unit}")
    say("Options", bold=True)
    for name, kind_of, default, about in _fields(kind.Options):
        say(f"  {name:<22} {cell(kind_of, 30):<30} {cell(default, 12):<12} {about}")
    say("Example", bold=True)
    say("  " + json.dumps(_example_json(kind.example), ensure_ascii=False, indent=2).replace("\n", "\n  "))


_ANY_JUDGE = TargetConfig(name="judge", model="")


def _sent_params(question: Question) -> dict[str, Any]:
    """The parameters of a question to an unconfigured judge."""
    return judging_params(_ANY_JUDGE, question.max_tokens, question.params)


def _sent_text(question: Question) -> str:
    return f"{parameters_text(_sent_params(question), question.schema)}; params of its target may say more"


def _sent_lines(kind: type[Evaluator]) -> Iterator[str]:
    """The parameters sent to a judge, as far as its evaluator sets them."""
    try:
        asked_with = kind.asked_with()
    except (OSError, ValueError) as problem:
        yield f"nothing: {problem}"
        return
    yield _sent_text(Question(params=asked_with.params, schema=asked_with.form))
    if asked_with.unsent:
        yield f"not {', '.join(asked_with.unsent)}, which no judge is sent"


def _whom(kind: type[Evaluator]) -> str:
    return "a target of kind embedding" if kind.embeds else "a judge"


def _fields(options: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    properties = options.model_json_schema(by_alias=False).get("properties", {})
    for field_name, field in options.model_fields.items():
        alias = field.validation_alias
        name = str(alias.choices[0]) if isinstance(alias, AliasChoices) else field_name
        default = "required" if field.is_required() else strictjson.dumps(_default(field.get_default()))
        yield name, _type(properties.get(field_name, {})), default, field.description or ""


def _default(value: object) -> object:
    return None if type(value).__name__ == "PydanticUndefinedType" else value


def _type(schema: Mapping[str, Any]) -> str:
    branches = [_type(branch) for branch in schema.get("anyOf", ()) if branch.get("type") != "null"]
    if branches:
        return " or ".join(dict.fromkeys(branches))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    kind = str(schema.get("type", "object"))
    return {"string": "text", "boolean": "true/false", "integer": "whole number", "array": "list"}.get(kind, kind)


def _evaluator_json(kind: type[Evaluator]) -> dict[str, Any]:
    measure = kind.declared_measure()
    return {
        "name": kind.name,
        "aliases": list(kind.aliases),
        "family": kind.family,
        "description": description(kind),
        "needs": list(kind.needs),
        "judged": kind.judged,
        "scope": kind.scope,
        "direction": measure.direction or None,
        "unit": measure.unit or None,
        "scale": measure.bounds,
        "options": kind.Options.model_json_schema(by_alias=False),
        "example": _example_json(kind.example),
    }


def _example_json(value: Any) -> Any:
    """An example as JSON: transcripts and tool calls as objects, tuples as lists."""
    if isinstance(value, ToolCall):
        result = {} if value.result is None else {"result": value.result}
        return {"name": value.name, "arguments": value.arguments, **result}
    if isinstance(value, Transcript):
        return to_json(value)
    if isinstance(value, Mapping):
        return {key: _example_json(part) for key, part in value.items()}
    return [_example_json(part) for part in value] if isinstance(value, tuple | list) else value


def score_one(row: dict[str, Any], options: str | None, trusting: bool, as_json: bool) -> int:
    """Judge one answer and say the record; exit 2 when it could not be judged for its configuration."""
    if row["evaluator"] is None:
        raise Stop("name an evaluator, or read rows with --jsonl; `tui-evals evaluators` lists all")
    try:
        row["options"] = {} if options is None else strictjson.loads(options)
    except strictjson.JsonError as problem:
        raise Stop(f"--options: {problem}") from None
    registry = inputs.evaluators(trusting)
    with suppress(UnknownEvaluator):
        if caution := registry.find(row["evaluator"]).caution():
            warn(caution)
    keep_output_to_ourselves()
    record = asyncio.run(RowScorer(registry, refusal=_refusal(registry, trusting)).score(row))
    if as_json:
        say_json(record_of(record))
    else:
        _say_record(row["evaluator"], record)
    return 2 if record.details.get("code") in ("invalidRow", "evaluatorConfigurationError") else 0


def _say_record(name: str, record: Score) -> None:
    mark, colour = _MARKS.get(record.result or "", (f"· {record.result or 'no verdict'}", "yellow"))
    parts = [mark, name]
    if record.score is not None:
        parts.append(score_figures(record.score, record.threshold, record.result, record.measure))
    if record.label is not None:
        parts.append(record.label)
    say("  ".join(parts), fg=colour)
    say(record.reason)


def score_rows(trusting: bool) -> int:
    """Judge rows from standard input, writing each record as soon as it is ready."""
    keep_output_to_ourselves()
    registry = inputs.evaluators(trusting)
    asyncio.run(_stream(RowScorer(registry, refusal=_refusal(registry, trusting))))
    return 0


def _refusal(registry: Registry, trusting: bool) -> Refusal:
    """A function that explains why a row may not load its library or model: you have not agreed to it."""
    here = inputs.open_project(None, trusting=trusting)

    def refusal(name: str, options: Mapping[str, Any]) -> str:
        wanted = model_permissions([EffectiveEvaluator(name, options, "item")], registry)
        missing = missing_of_targets(here, (), wanted) if wanted else []
        return str(NotApproved(missing, here.root)) if missing else ""

    return refusal


async def _stream(scorer: RowScorer) -> None:
    for line in sys.stdin.buffer:
        if line.strip():
            say_json_line(record_of(await _row(scorer, line)))


async def _row(scorer: RowScorer, line: bytes) -> Score:
    try:
        row = strictjson.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return error_score("invalidRow", "the row is not UTF-8 text")
    except strictjson.JsonError as problem:
        return error_score("invalidRow", f"the row is {problem}")
    return await scorer.score(row)


def trust_files(files: tuple[Path, ...]) -> None:
    """Trust the code of files; `show` and `revoke` in their place tell of this project and forget it."""
    trust, root = Trust(), project_root(Path.cwd())
    try:
        if files == (Path("show"),):
            show_agreed(root)
            _show_code(trust)
            code = [{"path": str(entry.path), "unchanged": entry.unchanged} for entry in trust.trusted_code()]
            say_result(None, {"project": str(root), **_agreed_as_json(root), "code": code})
        elif files == (Path("revoke"),):
            count = Approvals(root).revoke() + trust.revoke(root) + forget_stores(root)
            text = f"{count} forgotten; {root} asks again" if count else f"nothing was agreed to in {root}"
            say_result(text, {"project": str(root), "forgotten": count})
        else:
            for file in files:
                trust.trust(file)
                if file.is_file() and trust_unit(file).is_file():  # no evaluator, which is a folder
                    agree_to_file(file, root)
                say(f"trusted: {file}", fg="green")
            say_result(None, {"trusted": [str(file) for file in files]})
    except (OSError, TrustError) as problem:
        raise Stop(str(problem)) from None


def trust_store() -> None:
    """Use the cached answers and baselines of the store of this project."""
    here = inputs.open_project(None, trusting=False)
    if not here.has_store:
        raise Stop(f"there is no store in {here.root} yet; the first run makes it")
    missing = missing_store(here)
    if missing is None:
        say_result(f"{here.store} is yours; nothing was changed", {"store": str(here.store), "changed": False})
        return
    agree([missing], here.root)
    text = f"{here.store} is yours now; `tui-evals trust revoke` undoes that"
    say_result(text, {"store": str(here.store), "changed": True}, fg="green")


def trust_below(folder: Path) -> None:
    """Trust every project in a folder and below it."""
    Approvals(folder).own_below()
    text = f"every project below {folder.resolve()} is yours; `tui-evals trust revoke` there undoes that"
    say_result(text, {"below": str(folder.resolve())}, fg="green")


def trust_project(yes: bool) -> None:
    """Ask for a yes to everything the settings and evaluators of this project would do."""
    here = inputs.open_project(None, trusting=False)
    try:
        missing = missing_of_project(here, remembered_targets(here.root, here.settings))
        if not missing:
            say(f"{here.root} asks for nothing that you have not agreed to")
            _show_code(Trust())
            say_result(None, {"project": str(here.root), **_agreed_as_json(here.root)})
            return
        show_page(missing, here.root)
        if confirmed("Allow this?", yes=yes, instead="agree with `tui-evals trust --yes`, once you have read it"):
            agree(missing, here.root)
            say("agreed; `tui-evals trust show` lists it, and `tui-evals trust revoke` undoes that", fg="green")
        say_result(None, {"project": str(here.root), **_agreed_as_json(here.root)})
    except (OSError, TrustError, ConfigurationError) as problem:
        raise Stop(str(problem)) from None


def _agreed_as_json(root: Path) -> dict[str, Any]:
    agreed = agreed_permissions(root)
    return {"own": agreed.is_own, "agreed": [dict(entry) for entry in agreed.entries]}


def _show_code(trust: Trust) -> None:
    for entry in trust.trusted_code():
        say(f"{'✓' if entry.unchanged else '✗ changed since'}  {entry.path}")


Mode = Literal["extend", "replace"]
_YES = {"yes": True, "true": True, "no": False, "false": False}


def set_evaluator(
    file: Path,
    name: str | None,
    words: Sequence[str],
    *,
    unset: Sequence[str],
    item: str | None,
    turn: int | None,
    mode: Mode | None,
    force: bool,
    as_json: bool,
) -> None:
    """Set options of an evaluator, or whether a place adds to the defaults."""
    given = assignments_of(words)
    if name is None and (mode is None or given or unset):
        raise Stop("name the evaluator: `tui-evals evaluators` lists all")
    if mode is not None and item is None:
        raise Stop(
            "the dataset's evaluators apply to all items; only an item or turn extends or replaces them: add --item"
        )
    if nested := next((one for one in given if len(one.names) > 1), None):
        raise Stop(f"{nested.field}: an option is set as a whole; give its value as JSON: {nested.names[0]}:=…")
    registry = registry_of(file)

    def edit(data: Data) -> Change:
        places, called = _places(data, item, turn)
        for place in places:
            options = None if name is None else _options(data, place, name, given, unset, registry)
            if mode is not None and steps.replaces_defaults(data, place) is not (mode == "replace"):
                data = steps.toggle_mode(data, place)
            if name is not None and options is not None:
                data = steps.write_options(data, place, name, options)
        what = " ".join(filter(None, (name, ", ".join(one.field for one in given), mode and f"--mode {mode}")))
        return Change(data, f"evaluators set {what}{called and f' on {called}'}")

    done = edited(file, edit, force=force)
    _, called = _places(done.after, item, turn)
    text = f"{name} judges {called or 'the dataset'} now" if name is not None else ""
    if mode is not None:
        text = "; ".join(filter(None, (text, f"{called} {mode}s the dataset's evaluators")))
    say_edit(file, done, text, as_json, evaluator=name, item=item, turn=turn)
    if not as_json:
        _say_explicit(file, done, item)


def remove_evaluator(file: Path, name: str, *, item: str | None, turn: int | None, force: bool, as_json: bool) -> None:
    """Take an evaluator away where it is written."""

    def edit(data: Data) -> Change:
        places, called = _places(data, item, turn)
        for place in places:
            data = steps.remove_evaluator(data, place, name)
        return Change(data, f"evaluators rm {name}{called and f' on {called}'}")

    done = edited(file, edit, force=force)
    _, called = _places(done.after, item, turn)
    inherits = item is not None and name in _written(done.after, DEFAULTS)
    more = "; that of the dataset judges again" if inherits else ""
    say_edit(
        file,
        done,
        f"{name} was removed from {called or 'the dataset'}{more}",
        as_json,
        evaluator=name,
        item=item,
        turn=turn,
    )
    if not as_json:
        _say_explicit(file, done, item)


def _say_explicit(file: Path, done: FileEdit, item: str | None) -> None:
    """Tell that the system defaults are now written in the file."""
    if item is None and done.changed and get_at(done.before, DEFAULTS) is None:
        defaults = " and ".join(SYSTEM_DEFAULTS)
        names = ", ".join(_written(done.after, DEFAULTS)) or "none"
        warn(
            f"note: {file} named no evaluators, so that the system defaults {defaults} judged; from now on those that "
            f"it names do: {names}"
        )


def _places(data: Data, item: str | None, turn: int | None) -> tuple[list[Place], str]:
    """The paths of an edit, and their names; an empty name for the dataset."""
    if item is None:
        if turn is not None:
            raise CannotEdit("--turn is a turn of an item; name it with --item")
        return [DEFAULTS], ""
    items = steps.items_of(data)
    numbers = find_items(items, item)
    called = items_in_words(items, numbers)
    if turn is None:
        talks = [number for number in numbers if "turns" in unit_at(data, ("items", number))]
        if talks:
            talk = items_in_words(items, talks[:1])
            raise CannotEdit(f"{talk} is a conversation, whose turns have evaluators; name one with --turn")
        return [("items", number) for number in numbers], called
    for number in numbers:
        turns = unit_at(data, ("items", number)).get("turns")
        if not isinstance(turns, list) or turn > len(turns):
            count = f"{len(turns)} turns" if isinstance(turns, list) else "no turns"
            raise CannotEdit(f"{items_in_words(items, [number])} has {count}; there is no turn {turn}")
    return [("items", number, "turns", turn - 1) for number in numbers], f"turn {turn} of {called}"


def _options(
    data: Data, place: Place, name: str, given: Sequence[Assignment], unset: Sequence[str], registry: Registry
) -> dict[str, Any]:
    """The options of an evaluator at a place once those that are given took the place of those it has there."""
    options = dict(_inherited(data, place, name))
    label = next((one.text for one in given if one.field == "type"), options.get("type", name))
    try:
        kind = registry.find(label if isinstance(label, str) else name)
    except UnknownEvaluator as problem:
        raise CannotEdit(str(problem)) from None
    by_spelling = {spelling: option for option in options_of(kind) for spelling in option.spellings}
    for one in given:
        option = by_spelling.get(one.field)
        known = next((spelling for spelling in option.spellings if spelling in options), None) if option else None
        options[known or one.field] = _value(one, option)
    for field in unset:
        if field not in options:
            raise CannotEdit(f"{name} has no option '{field}' here; it has {', '.join(options) or 'none'}")
        del options[field]
    return options


def _inherited(data: Data, place: Place, name: str) -> Mapping[str, Any]:
    """The options of an evaluator at a place, inherited ones included."""
    own = {} if place == DEFAULTS else _written(data, (*place, "evaluators"))
    if name not in own and place != DEFAULTS and steps.replaces_defaults(data, place):
        return {}
    options = {**_written(data, DEFAULTS), **own}.get(name, {})
    return options if isinstance(options, dict) else {}


def _written(data: Data, path: Place) -> Mapping[str, Any]:
    evaluators = get_at(data, path)
    if evaluators is None and path == DEFAULTS:
        return SYSTEM_DEFAULTS
    return evaluators if isinstance(evaluators, dict) else {}


def _value(given: Assignment, option: Option | None) -> Any:
    """The value of an option as its type has it; text that does not fit is left for validation to name."""
    text = given.text
    if given.is_json:
        try:
            return strictjson.loads(text)
        except strictjson.JsonError as problem:
            raise CannotEdit(f"{given.field}: {problem}") from None
    if option is None:
        return text
    plain = without_none(option.field.annotation)
    kind, _ = option_kind(plain)
    if kind == "yes":
        return _YES.get(text.strip().lower(), text)
    is_list = get_origin(plain) in (list, tuple)
    may_be_text = str in get_args(plain) and not is_list and not text.lstrip().startswith(("[", "{"))
    if kind in ("text", "choice") or may_be_text:
        return text
    try:
        return strictjson.loads(text)
    except strictjson.JsonError:
        return [part.strip() for part in text.split(",")] if is_list else text
