"""Named runs of a suite: prepared, stored, and read back as rows with their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tui_evals.compare.trend import every_run
from tui_evals.datasets.document import Document
from tui_evals.evaluators.base import Evaluator
from tui_evals.light_records import dataclass
from tui_evals.runs.project import Project
from tui_evals.runs.start import PreparedRun, RunRequest, prepare
from tui_evals.runs.suites import (
    MARK,
    METADATA,
    Column,
    Suite,
    UserTypeError,
    UserValueError,
    category_of,
    checked_name,
    run_file,
    suite_file,
    write_below,
)
from tui_evals.store.baselines import dataset_key
from tui_evals.store.details import replies
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.answers import Replay, captured
from tui_evals.targets.base import Target, TargetConfig
from tui_evals.text import strictjson
from tui_evals.text.safe import safe_line
from tui_evals.text.strictjson import one_line


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A run of a suite before it begins: its document and the candidates to judge."""

    suite: Suite
    name: str
    document: Mapping[str, Any]
    """The suite with the contexts and the metadata of this run."""
    candidates: tuple[str | None, ...]

    @property
    def answered(self) -> dict[str, Any]:
        """The document with the candidates as responses, which the run replays."""
        items = [
            item if response is None else {**item, "response": response}
            for item, response in zip(self.document["items"], self.candidates, strict=True)
        ]
        return {**self.document, "items": items}

    def keep_answered(self, root: Path) -> None:
        """Write that document, a line for each item: it is not edited, and there may be very many."""
        about = one_line({name: value for name, value in self.document.items() if name != "items"}).removesuffix("}")
        items = ",\n".join(map(one_line, self.answered["items"]))
        file = run_file(root, self.suite.name, self.name)
        write_below(root, file, f'{about}, "items": [\n{items}\n]}}\n')


@dataclass(frozen=True, slots=True)
class Row:
    """One case of a run with its answer and score; `problem` says why one of them is missing."""

    input: str
    reference: str | None
    context: str | None
    output: str | None
    score: float | None
    category: str | None
    reason: str
    problem: str | None


def suite_run(
    suite: Suite,
    name: str,
    candidates: Column,
    contexts: Column | None,
    metadata: Mapping[str, object],
    *,
    needs_context: bool,
) -> SuiteRun:
    """A run that fits its suite; an exception says what does not."""
    items = suite.data["items"]
    if len(candidates) != len(items):
        raise UserValueError(f"there are {len(candidates)} candidate outputs, and the suite has {len(items)} cases")
    if contexts is not None and len(contexts) != len(items):
        raise UserValueError(f"there are {len(contexts)} contexts, and the suite has {len(items)} cases")
    if needs_context and contexts is None:
        raise UserValueError(
            f"scoring by {suite.method['name']} needs the context of each case; give context_column or "
            "context_input_list"
        )
    for key, value in metadata.items():
        if value is not None and not isinstance(value, str):
            raise UserTypeError(f"{key} must be text, not {type(value).__name__}")
    about = {key: value for key, value in metadata.items() if value is not None}
    with_context = [
        item if text is None else {**item, "context": text}
        for item, text in zip(items, contexts or [None] * len(items), strict=True)
    ]
    extensions = {**suite.data["extensions"], MARK: {**suite.about, "run": about}}
    return SuiteRun(
        suite,
        checked_name(name, "run"),
        {**suite.data, "extensions": extensions, "items": with_context},
        tuple(candidates),
    )


def prepare_run(
    run: SuiteRun,
    project: Project,
    judge: str | TargetConfig | None = None,
    *,
    own_evaluators: Mapping[str, type[Evaluator]] = MappingProxyType({}),
    ready: Mapping[str, Target] = MappingProxyType({}),
) -> PreparedRun:
    """A run of a suite ready to be stored, its candidates kept as answers to replay.

    UserValueError where the suite has a run of this name, CannotPlan where it needs a judge and none is named.
    """
    root = project.root
    file = suite_file(root, run.suite.name)
    candidates = run_file(root, run.suite.name, run.name)
    replayed, answered = candidates.relative_to(root).as_posix(), run.answered
    request = RunRequest(
        document=Document(file, strictjson.dumps(run.document), "", "document", dict(run.document)),
        source=source_of(root, run.suite.name),
        name=run.name,
        suite=run.suite.name,
        targets=(f"replay:{replayed}",),
        judge=judge,
        own_evaluators=own_evaluators,
        ready={**ready, f"replay:{replayed}": Replay(captured(answered["items"], replayed), replayed)},
        repeats=1,
    )
    prepared = prepare(request, project)
    with Reader(project.store) as reader:
        refuse_twice(reader, run.suite.name, run.name)
    run.keep_answered(root)
    return prepared


def source_of(root: Path, suite: str) -> str:
    """How a run names the file of its suite."""
    return dataset_key(str(suite_file(root, suite)), root)


def refuse_twice(reader: Reader, suite: str, name: str) -> None:
    """UserValueError where the suite has a run of this name."""
    if any(run.name == stored_name(name) for run in runs_of(reader, suite)):
        raise UserValueError(f"the suite {suite!r} has a run {name!r} already; give this run another name")


def stored_name(name: str) -> str:
    """How the name of a run is in the store, where each is one line."""
    return safe_line(name)


def runs_of(reader: Reader, suite: str) -> list[RunRow]:
    """The runs of a suite, the first one first."""
    file = suite_file(Path(), suite).as_posix()
    return [run for run in every_run(reader) if run.suite == suite and run.source.endswith(file)][::-1]


def metadata_of(reader: Reader, run: RunRow) -> dict[str, str]:
    """The recorded model and prompt of a run."""
    about = (reader.snapshot(run.snapshot).get("extensions") or {}).get(MARK) or {}
    noted = about.get("run") or {}
    return {key: str(noted[key]) for key in (*METADATA, *sorted(noted.keys() - set(METADATA))) if key in noted}


def rows_of(reader: Reader, run: RunRow) -> list[Row]:
    """The cases of a run with their outputs and scores, in the order of the suite."""
    items = reader.snapshot(run.snapshot)["items"]
    return [_row(items[item], text, message, *score) for item, text, message, score in replies(reader, run)]


def _row(
    item: Mapping[str, Any],
    text: str | None,
    message: str | None,
    evaluator: str | None,
    score: float | None,
    result: str | None,
    label: str | None,
    reason: str | None,
) -> Row:
    return Row(
        input=item["prompt"],
        reference=item.get("expected_response"),
        context=item.get("context"),
        output=text,
        score=score,
        category=category_of(evaluator, result, label) if evaluator is not None else None,
        reason=reason or "",
        problem=message if text is None else reason if result in ("error", "skipped") else None,
    )


def average(scores: Sequence[float | None]) -> float | None:
    """The mean of the scores that are not None; None without any."""
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None
