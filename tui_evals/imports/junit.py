"""JUnit XML that tui-evals wrote for a build server, as a run of verdicts: what was answered is not in such a file."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.imports.base import Losses
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_head
from tui_evals.runs.status import Status
from tui_evals.store.records import AnswerRecord, ScoreRecord

from .answer_lines import AnswerLine, recording_of_lines
from .base import Importer
from .keeping import keep_run, text_of
from .recording import Recording

_KEY = "verdict"
_STATUSES: tuple[Status, ...] = ("fail", "partial", "error")
_NOT_JUDGED: tuple[Status, ...] = ("unjudged", "scored")


@dataclass(frozen=True, slots=True)
class _Suite:
    """A column of a run."""

    target: str
    prompt: str
    dataset: str


def recognises(path: Path) -> bool:
    """Whether a file is JUnit XML as `tui-evals export --to junit` writes it."""
    if path.suffix.lower() != ".xml" or not path.is_file():
        return False
    head = read_head(path, 20_000, follow_out=True)
    return b"<testsuites" in head and b'<property name="run"' in head and b'<property name="target"' in head


def read(path: Path) -> tuple[Recording, Losses]:
    """The run of a file; DatasetError says what is wrong with it."""
    text = text_of(path)
    if "<!DOCTYPE" in text:
        raise DatasetError(str(path), [Problem("declares a document type, which JUnit XML has not")])
    try:
        root = ET.fromstring(text)
    except ET.ParseError as problem:
        raise DatasetError(str(path), [Problem(f"is no valid XML: {problem}", line=problem.position[0])]) from None
    losses = Losses()
    lines = list(_lines(root))
    if not lines:
        raise DatasetError(str(path), [Problem("holds no test case")])
    losses.left_out(
        "what was asked and answered, scores and their details, tokens, costs, exact times, tool calls, models",
        why="the file holds verdicts",
    )
    name = next((part.get("value") for part in root.iter("property") if part.get("name") == "name"), None)
    return recording_of_lines(path, lines, name or path.stem, losses), losses


def _lines(root: ET.Element) -> Iterator[AnswerLine]:
    number = 0
    for element in root.iter("testsuite"):
        if element.get("name") == "gates" and element.find("properties") is None:
            continue  # whether the run met its gates, which says nothing of an answer
        facts = {part.get("name"): part.get("value") or "" for part in element.iter("property")}
        stem = Path(facts.get("dataset", "")).stem or "dataset"
        suite = _Suite(facts.get("target") or element.get("name") or "unknown target", facts.get("prompt", ""), stem)
        seen: Counter[str] = Counter()
        for case in element.iter("testcase"):
            number += 1
            name = case.get("name") or f"#{number}"
            yield _line(case, name, number, seen[name], suite)
            seen[name] += 1


def _line(case: ET.Element, name: str, number: int, repeat: int, suite: _Suite) -> AnswerLine:
    status, message = _verdict(case)
    category = (case.get("classname") or "").removeprefix(suite.dataset).removeprefix(".")
    seconds = float(case.get("time") or 0)
    took = seconds * 1000 if seconds else None
    if status == "error":
        answer = AnswerRecord(text=None, request={}, code="agentRequestFailed", message=message, latency_ms=took)
    else:
        answer = AnswerRecord(text="", request={}, latency_ms=took)
    result = {"pass": "pass", "fail": "fail", "partial": "error"}.get(status)
    score = ScoreRecord(key=_KEY, evaluator=_KEY, score=float(status == "pass"), result=result, reason=message)
    return AnswerLine(
        line=number,
        item=name,
        turn=0,
        target=suite.target,
        repeat=repeat,
        prompt=suite.prompt,
        asked={},
        about={"category": category} if category else {},
        status=status,
        score=None,
        answer=None if status == "pending" else answer,
        scores=() if result is None else (score,),
    )


def _verdict(case: ET.Element) -> tuple[str, str]:
    """The status of an answer, and why it is not good."""
    for child in case:
        message = child.get("message") or ""
        if child.tag in ("failure", "error"):
            status = child.get("type")
            return status if status in _STATUSES else "fail" if child.tag == "failure" else "error", message
        if child.tag == "skipped":
            return next((status for status in _NOT_JUDGED if message.startswith(status)), "pending"), message
    return "pass", ""


IMPORTER = Importer(
    kind="junit",
    about="JUnit XML that tui-evals exported (.xml): its verdicts",
    recognises=recognises,
    read=lambda request: keep_run(request, read),
    recordings=lambda request: (read(request.path)[0],),
    holds_answers=False,
    order=73,
)
