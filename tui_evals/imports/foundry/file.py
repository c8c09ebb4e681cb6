"""A file of Prompt Foundry, checked, with the assertions of each evaluation and the prompt they are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tui_evals.datasets.paths import DatasetError, Layout, Path, Problem
from tui_evals.imports.losses import Losses
from tui_evals.light_records import dataclass
from tui_evals.text import strictjson

from .assertions import Form, check_assertion
from .messages import check_messages
from .wire import Data, Evaluation, Prompt, as_written, check, spelled

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
    """What a file holds of one prompt; `listed` where it is a list of evaluations and nothing else."""

    document: Data
    listed: bool
    cases: list[Case]
    prompt: Data | None

    @property
    def form(self) -> Form:
        """What the prompt's answers are."""
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
    """The cases of the prompt under test; those of others are reported."""
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
