"""Reads exports of tui-evals with a line for each answer as a run: CSV, JSON lines, the page, and JUnit XML.

Tables and lines have questions and answers, JUnit XML only verdicts. The page contains the packed lines.
"""

from __future__ import annotations

import base64
import binascii
import csv
import re
import sys
import xml.etree.ElementTree as ET
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from io import StringIO
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tui_evals.datasets.model import Dataset
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Problem
from tui_evals.datasets.validate import parse_dataset
from tui_evals.imports.base import Importer, ImportRequest, ImportResult, Losses
from tui_evals.imports.keeping import LARGEST, keep_run, keep_runs, text_of
from tui_evals.imports.recording import RecordedAnswer, RecordedGroup, Recording, chat_before, digest_of
from tui_evals.imports.results import BY
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes, read_head
from tui_evals.runs.prompting import PromptUnderTest
from tui_evals.runs.status import Status
from tui_evals.store.records import AnswerRecord, ScoreRecord
from tui_evals.text import strictjson
from tui_evals.text.measures import counted
from tui_evals.text.safe import escape_formula
from tui_evals.transcript import Transcript, from_json

_PLACE = re.compile(r"#\d+")
_WAITING = ("pending", "running")
FINAL = get_args(Status)
"""The final statuses of answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLine:
    """One line: the identity of an answer, its question, its text and its scores."""

    line: int
    item: str
    turn: int
    target: str
    repeat: int
    prompt: str
    """The name of the prompt under test."""
    asked: Mapping[str, Any]
    """The fields of the question, from the turn or the item."""
    about: Mapping[str, Any]
    """The fields of the item as a whole."""
    status: str
    score: float | None
    answer: AnswerRecord | None
    scores: tuple[ScoreRecord, ...] = ()
    together: tuple[ScoreRecord, ...] = ()
    is_turn: bool = False
    """Whether it is known to be of a conversation."""


@dataclass(slots=True)
class _Asked:
    """The data collected about an item."""

    number: int
    name: str
    about: Mapping[str, Any]
    turns: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    talks: bool = False

    def item(self) -> dict[str, Any]:
        """The item in a dataset; an unnamed item is named by its old position if that has changed."""
        named = {} if _PLACE.fullmatch(self.name) and self.name == f"#{self.number + 1}" else {"testId": self.name}
        about = {**named, **self.about}
        if self.talks:
            return {
                **about,
                "turns": [dict(self.turns.get(turn, {"prompt": " "})) for turn in range(max(self.turns) + 1)],
            }
        return {**about, **self.turns[0]}


def recording_of_lines(path: Path, lines: Sequence[AnswerLine], name: str, losses: Losses) -> Recording:
    """The run of some lines; DatasetError says which of them cannot be."""
    items: dict[str, _Asked] = {}
    for one in lines:
        asked = items.setdefault(one.item, _Asked(len(items), one.item, one.about))
        asked.turns.setdefault(one.turn, one.asked)
        asked.talks = asked.talks or one.is_turn or one.turn > 0
    document = {
        "schemaVersion": CURRENT_VERSION,
        "default_evaluators": {},
        "items": [asked.item() for asked in items.values()],
    }
    dataset, problems = parse_dataset(document)
    if dataset is None:
        raise DatasetError(str(path), problems)
    targets = tuple(dict.fromkeys(one.target for one in lines))
    prompts = tuple(dict.fromkeys(one.prompt for one in lines))
    answers = list(_answers(path, dataset, lines, items, targets, prompts, losses))
    if not answers:
        raise DatasetError(str(path), [Problem("no item has been answered, so there is no run in it")])
    groups = {
        (items[one.item].number, one.turn, score.key): RecordedGroup(items[one.item].number, one.turn, score)
        for one in lines
        for score in one.together
    }
    losses.carried(f"{counted(len(answers), 'answer')} with their scores and statuses")
    losses.left_out("evaluators and what the dataset expects", why="the file holds what came of them and not these")
    losses.left_out("requests as they were sent", why="the file does not hold them")
    return Recording(
        by=BY,
        digest=digest_of(document, targets, prompts, answers, list(groups.values())),
        document=document,
        source=str(path),
        name=name,
        targets=targets,
        answers=tuple(answers),
        together=tuple(groups.values()),
        prompts=tuple(map(PromptUnderTest, prompts)) if any(prompts) else (),
    )


def _answers(
    path: Path,
    dataset: Dataset,
    lines: Sequence[AnswerLine],
    items: Mapping[str, _Asked],
    targets: Sequence[str],
    prompts: Sequence[str],
    losses: Losses,
) -> Iterable[RecordedAnswer]:
    before: dict[tuple[int, int, int, int], list[AnswerRecord]] = {}
    seen: set[tuple[int, ...]] = set()
    for one in lines:
        number, where = items[one.item].number, f"{path}:{one.line}"
        if one.answer is None or one.status in _WAITING:
            losses.left_out("an answer that had not come yet", where)
            continue
        cell = (number, one.repeat, prompts.index(one.prompt), targets.index(one.target))
        if (*cell, one.turn) in seen:
            raise DatasetError(str(path), [Problem("the answer is there twice", line=one.line)])
        seen.add((*cell, one.turn))
        said = before.setdefault(cell, [])
        chat = chat_before(dataset, dataset.items[number], one.turn, PromptUnderTest(), said)
        answer = replace(one.answer, request={"messages": list(chat)})
        said.append(answer)
        if one.status == "answered":
            losses.changed("an answer that had not been judged", where, "it is unjudged")
        yield RecordedAnswer(
            item=number,
            turn=one.turn,
            prompt=cell[2],
            target=cell[3],
            repeat=one.repeat,
            answer=answer,
            scores=one.scores,
            status=_status(path, one),
            score=one.score,
        )


def _status(path: Path, one: AnswerLine) -> Status | None:
    if one.status == "answered":
        return None
    if one.status not in FINAL:
        raise DatasetError(str(path), [Problem(f"status is {one.status!r}, which no answer has", line=one.line)])
    status: Status = one.status  # type: ignore[assignment]
    return status


_CSV_HEAD = "kind,item,thread,turn,target,"
_NAMED_PROMPT = "prompt_under_test"
_SCORE_PARTS = ("score", "result", "threshold", "reason")
_TOGETHER = "together."
_JSON_CELLS = ("tags", "extensions")
_CSV_RESULTS = ("", "pass", "fail", "error", "skipped")


def _recognises_csv(path: Path) -> bool:
    """Whether a file is a table as `tui-evals export --to csv` writes it."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    head = read_head(path, 4096, follow_out=True).partition(b"\n")[0].decode("utf-8-sig", "replace")
    return head.startswith(_CSV_HEAD) and ",response," in head and ",status,score," in head


def read_csv(path: Path) -> tuple[Recording, Losses]:
    """The run of a table; DatasetError says which line is wrong."""
    losses = Losses()
    lines = list(_lines_of_table(path, losses))
    losses.left_out(
        "labels and details of scores, their evaluators and weights, tool calls, models, times with their fractions",
        why="no columns",
    )
    return recording_of_lines(path, lines, path.stem, losses), losses


def _lines_of_table(path: Path, losses: Losses) -> Iterator[AnswerLine]:
    csv.field_size_limit(sys.maxsize)
    table = csv.DictReader(StringIO(text_of(path), newline=""))
    keys = [name.removesuffix(".score") for name in map(_plain, table.fieldnames or ()) if name.endswith(".score")]
    prompts: Counter[tuple[object, ...]] = Counter()
    for row in table:
        line = table.line_num
        if None in row or None in row.values():
            raise DatasetError(str(path), [Problem("has not as many cells as the first line", line=line)])
        cells = _Cells(path, line, {_plain(name): _plain(cell) for name, cell in row.items()})
        item, turn, repeat = cells["item"], cells.whole("turn") or 1, cells.whole("repeat") or 1
        answered = (item, turn, cells["target"], repeat)
        prompts[answered] += 1
        prompt = cells[_NAMED_PROMPT]
        if _NAMED_PROMPT not in row and prompts[answered] > 1:  # tables of the first version name no prompts
            prompt = f"prompt {prompts[answered]}"
            losses.changed("the prompts under test", why="the table does not name them, so they are numbered")
        status = cells["status"]
        scores = [score for key in keys if (score := cells.of_key(key))]
        yield AnswerLine(
            line=line,
            item=item,
            turn=turn - 1,
            target=cells["target"],
            repeat=repeat - 1,
            prompt=prompt,
            asked=cells.given("prompt", "expected_response"),
            about=cells.about(),
            status=status,
            score=cells.number("score"),
            answer=None if status in ("pending", "running") else cells.answer(),
            scores=tuple(score for score in scores if not score.key.startswith(_TOGETHER)),
            together=tuple(
                ScoreRecord(
                    key=score.key.removeprefix(_TOGETHER),
                    evaluator=score.key.removeprefix(_TOGETHER),
                    score=score.score,
                    result=score.result,
                    threshold=score.threshold,
                    reason=score.reason,
                )
                for score in scores
                if score.key.startswith(_TOGETHER)
            ),
            is_turn=cells["kind"] == "turn",
        )


def _plain(cell: str) -> str:
    """The text of a cell, without the quote that keeps a spreadsheet from running it."""
    return cell[1:] if cell[:1] == "'" and escape_formula(cell[1:]) == cell else cell


class _Cells:
    """The cells of one line, with errors that name it."""

    def __init__(self, path: Path, line: int, cells: Mapping[str, str]) -> None:
        self._path, self._line, self._cells = path, line, cells

    def __getitem__(self, name: str) -> str:
        return self._cells.get(name, "")

    def given(self, *names: str) -> dict[str, str]:
        """The cells of these names that are not blank."""
        return {name: text for name in names if (text := self[name])}

    def number(self, name: str) -> float | None:
        """A cell as a number; None where it is blank."""
        try:
            return float(self[name]) if self[name] else None
        except ValueError:
            raise self._wrong(f"{name} must be a number, not {self[name]!r}") from None

    def whole(self, name: str) -> int | None:
        """A cell as a whole number of at least 0; None where it is blank."""
        text = self[name]
        if text and not (text.isascii() and text.isdigit() and len(text) < 16):
            raise self._wrong(f"{name} must be a whole number, not {text!r}")
        return int(text) if text else None

    def about(self) -> dict[str, Any]:
        """The line's data about its item."""
        about: dict[str, Any] = self.given("conversation_id", "category")
        if self["thread"]:
            about["name"] = self["thread"]
        for name in _JSON_CELLS:
            if self[name]:
                try:
                    about[name] = strictjson.loads(self[name])
                except strictjson.JsonError as problem:
                    raise self._wrong(f"{name} is no JSON: {problem}") from None
        return about

    def answer(self) -> AnswerRecord:
        """The answer, or the error in its place."""
        code = self["error_code"] or None
        return AnswerRecord(
            text=None if code and not self["response"] else self["response"],
            request={},
            code=code,
            message=self["error_message"] or None,
            latency_ms=self.number("latency_ms"),
            first_token_ms=self.number("first_token_ms"),
            from_cache=self["from_cache"] == "true",
            input_tokens=self.whole("input_tokens"),
            output_tokens=self.whole("output_tokens"),
            cached_tokens=self.whole("cached_tokens") or 0,
            reasoning_tokens=self.whole("reasoning_tokens") or 0,
            cost=self.number("cost"),
            attempts=self.whole("attempts") or 1,
            finish_reason=self["ending"] or None,
        )

    def of_key(self, key: str) -> ScoreRecord | None:
        """The score in the columns of a key; None where all of them are blank."""
        if not any(self[f"{key}.{part}"] for part in _SCORE_PARTS):
            return None
        result = self[f"{key}.result"]
        if result not in _CSV_RESULTS:
            raise self._wrong(f"{key}.result must be pass, fail, error, skipped or blank, not {result!r}")
        return ScoreRecord(
            key=key,
            evaluator=key,
            score=self.number(f"{key}.score"),
            result=result or None,
            threshold=self.number(f"{key}.threshold"),
            reason=self[f"{key}.reason"],
        )

    def _wrong(self, message: str) -> DatasetError:
        return DatasetError(str(self._path), [Problem(message, line=self._line)])


_JSON_MARKS = ('"run":', '"item":', '"turn":', '"target":', '"scores":')
_ANSWER = TypeAdapter(AnswerRecord)
_SCORES = TypeAdapter(tuple[ScoreRecord, ...])
_ANSWER_FIELDS = frozenset(one.name for one in fields(AnswerRecord))


class _JsonLine(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    run: str
    item: str
    turn: int = Field(ge=1, le=10_000)
    target: str
    prompt_under_test: str | None = None
    repeat: int = Field(1, ge=1, le=1_000_000)
    category: str | None = None
    prompt: str | None = None
    expected_response: str | None = None
    status: str
    score: float | None = None
    answer: dict[str, Any] | None = None
    scores: list[dict[str, Any]] = []
    together: list[dict[str, Any]] = []


def _transcript(told: object, path: Path, number: int) -> Transcript:
    try:
        return from_json(told)
    except ValueError as problem:
        raise DatasetError(str(path), [Problem(str(problem), ("answer", "transcript"), number)]) from None


def _recognises_jsonl(path: Path) -> bool:
    """Whether a file is lines of JSON as `tui-evals export --to jsonl` writes them."""
    if path.suffix.lower() != ".jsonl" or not path.is_file():
        return False
    head = read_head(path, 2**20, follow_out=True).partition(b"\n")[0].decode("utf-8", "replace")
    return head.startswith("{") and all(mark in head for mark in _JSON_MARKS)


def read_jsonl(path: Path) -> tuple[list[Recording], Losses]:
    """The runs of a file, one after the other; DatasetError says which line is wrong."""
    return read_lines(path, text_of(path))


def read_lines(path: Path, text: str) -> tuple[list[Recording], Losses]:
    """The runs in lines that a file holds, be it in another wrapping."""
    runs: dict[str, list[AnswerLine]] = {}
    for key, line in _lines_of_json(path, text):
        runs.setdefault(key, []).append(line)
    losses = Losses()
    if not runs:
        raise DatasetError(str(path), [Problem("holds no line")])
    names = [path.stem] if len(runs) == 1 else [f"{path.stem} {key}" for key in runs]
    return [recording_of_lines(path, *each, losses) for each in zip(runs.values(), names, strict=True)], losses


def _lines_of_json(path: Path, whole: str) -> Iterator[tuple[str, AnswerLine]]:
    for number, text in enumerate(whole.split("\n"), 1):
        if not text.strip():
            continue
        try:
            line = _JsonLine.model_validate(strictjson.loads(text))
            answer = None
            if line.answer is not None:
                known = {name: value for name, value in line.answer.items() if name in _ANSWER_FIELDS}
                told = known.pop("transcript", None)
                answer = _ANSWER.validate_python({**known, "request": {}})
                answer = replace(answer, transcript=None if told is None else _transcript(told, path, number))
            scores = _SCORES.validate_python(line.scores)
            together = _SCORES.validate_python(line.together)
        except strictjson.JsonError as problem:
            raise DatasetError(str(path), [Problem(str(problem), line=number)]) from None
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            raise DatasetError(str(path), [Problem(first["msg"], tuple(first["loc"]), number)]) from None
        asked = {"prompt": line.prompt, "expected_response": line.expected_response}
        yield (
            line.run,
            AnswerLine(
                line=number,
                item=line.item,
                turn=line.turn - 1,
                target=line.target,
                repeat=line.repeat - 1,
                prompt=line.prompt_under_test or "",
                asked={name: value for name, value in asked.items() if value is not None},
                about={} if line.category is None else {"category": line.category},
                status=line.status,
                score=line.score,
                answer=answer,
                scores=scores,
                together=together,
            ),
        )


def _import_jsonl(request: ImportRequest) -> ImportResult:
    recordings, losses = read_jsonl(request.path)
    if len(recordings) == 1:
        return keep_run(request, lambda _: (recordings[0], losses))
    return keep_runs(request, recordings, losses)


_ENDINGS = (".html", ".htm")
_PAGE_MARK = '<script type="application/gzip" id="answers">'
_PACKED = re.compile(re.escape(_PAGE_MARK) + r"([A-Za-z0-9+/]*={0,2})</script>")


def _recognises_page(path: Path) -> bool:
    """Whether a file is a page that holds the answers it shows."""
    return path.suffix.lower() in _ENDINGS and path.is_file() and _has_answers(path)


def _has_answers(path: Path) -> bool:
    return _PAGE_MARK.encode() in read_bytes(path, most=LARGEST, follow_out=True)


def read_page(path: Path) -> tuple[Recording, Losses]:
    """The run of a page; DatasetError says why there is none in it."""
    packed = _PACKED.findall(text_of(path))
    if not packed:
        what = "holds no answers; a page of a comparison, or of a very large run, has none: `export --to jsonl` has"
        raise DatasetError(str(path), [Problem(what)])
    try:
        squeezed = zlib.decompressobj(31)
        data = squeezed.decompress(base64.b64decode(packed[-1], validate=True), LARGEST)
    except (zlib.error, binascii.Error):
        raise DatasetError(str(path), [Problem("the answers packed in it are damaged")]) from None
    if not squeezed.eof:
        raise DatasetError(str(path), [Problem("the answers packed in it are cut off, or larger than 1 GiB")])
    recordings, losses = read_lines(path, data.decode("utf-8", "replace"))
    return recordings[0], losses


_VERDICT = "verdict"
_STATUSES: tuple[Status, ...] = ("fail", "partial", "error")
_NOT_JUDGED_STATUSES: tuple[Status, ...] = ("unjudged", "scored")


@dataclass(frozen=True, slots=True)
class _Suite:
    """A column of a run."""

    target: str
    prompt: str
    dataset: str


def _recognises_junit(path: Path) -> bool:
    """Whether a file is JUnit XML as `tui-evals export --to junit` writes it."""
    if path.suffix.lower() != ".xml" or not path.is_file():
        return False
    head = read_head(path, 20_000, follow_out=True)
    return b"<testsuites" in head and b'<property name="run"' in head and b'<property name="target"' in head


def read_junit(path: Path) -> tuple[Recording, Losses]:
    """The run in a file; raises DatasetError."""
    text = text_of(path)
    if "<!DOCTYPE" in text:
        raise DatasetError(str(path), [Problem("declares a document type, which JUnit XML has not")])
    try:
        root = ET.fromstring(text)
    except ET.ParseError as problem:
        raise DatasetError(str(path), [Problem(f"is no valid XML: {problem}", line=problem.position[0])]) from None
    losses = Losses()
    lines = list(_lines_of_suites(root))
    if not lines:
        raise DatasetError(str(path), [Problem("holds no test case")])
    losses.left_out(
        "what was asked and answered, scores and their details, tokens, costs, exact times, tool calls, models",
        why="the file holds verdicts",
    )
    name = next((part.get("value") for part in root.iter("property") if part.get("name") == "name"), None)
    return recording_of_lines(path, lines, name or path.stem, losses), losses


def _lines_of_suites(root: ET.Element) -> Iterator[AnswerLine]:
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
            yield _line_of_case(case, name, number, seen[name], suite)
            seen[name] += 1


def _line_of_case(case: ET.Element, name: str, number: int, repeat: int, suite: _Suite) -> AnswerLine:
    status, message = _verdict(case)
    category = (case.get("classname") or "").removeprefix(suite.dataset).removeprefix(".")
    seconds = float(case.get("time") or 0)
    took = seconds * 1000 if seconds else None
    if status == "error":
        answer = AnswerRecord(text=None, request={}, code="agentRequestFailed", message=message, latency_ms=took)
    else:
        answer = AnswerRecord(text="", request={}, latency_ms=took)
    result = {"pass": "pass", "fail": "fail", "partial": "error"}.get(status)
    score = ScoreRecord(key=_VERDICT, evaluator=_VERDICT, score=float(status == "pass"), result=result, reason=message)
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
            return next((status for status in _NOT_JUDGED_STATUSES if message.startswith(status)), "pending"), message
    return "pass", ""


IMPORTERS = (
    Importer(
        kind="results-csv",
        about="results that tui-evals exported (.csv)",
        recognises=_recognises_csv,
        read=lambda request: keep_run(request, read_csv),
        recordings=lambda request: (read_csv(request.path)[0],),
        order=72,
    ),
    Importer(
        kind="results-jsonl",
        about="results that tui-evals exported (.jsonl)",
        recognises=_recognises_jsonl,
        read=_import_jsonl,
        recordings=lambda request: read_jsonl(request.path)[0],
        order=71,
    ),
    Importer(
        kind="report",
        about="a report of one run as a page (.html)",
        recognises=_recognises_page,
        read=lambda request: keep_run(request, read_page),
        recordings=lambda request: (read_page(request.path)[0],),
        order=74,
    ),
    Importer(
        kind="junit",
        about="JUnit XML that tui-evals exported (.xml): its verdicts",
        recognises=_recognises_junit,
        read=lambda request: keep_run(request, read_junit),
        recordings=lambda request: (read_junit(request.path)[0],),
        holds_answers=False,
        order=73,
    ),
)
