"""The rows of the store: small, frozen, plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, field, fields
from typing import Any, Literal

from tui_evals.figures import Figure, Sample, pass_rate
from tui_evals.light_records import dataclass
from tui_evals.transcript import Transcript, count_steps, plain_transcript, steps_of, transcript_of_steps

RunStatus = Literal["planned", "running", "paused", "stopping", "interrupted", "finished"]
StopCode = Literal[
    "",
    "asked",
    "killed",
    "budget",
    "configuration",
    "misnamed",
    "refused",
    "away",
    "limited",
    "left out",
    "store",
    "lost",
    "upgraded",
    "failed",
]
"""Why a run is not finished: it was stopped; its process vanished; its money is spent; its configuration, or a typed
model name, prevented every answer; a target or judge refused every question, was away, asked for too long a pause, or
was left out on purpose; its results could not be stored; its store was overwritten; tui-evals was upgraded; or
something else failed.
"""
LIVE_STATUSES: frozenset[RunStatus] = frozenset(("running", "paused", "stopping"))
"""The statuses of a run while a process executes it."""
OVER_STATUSES: frozenset[RunStatus] = frozenset(("interrupted", "finished"))
Control = Literal["", "pause", "stop"]
AnswerStatus = Literal["pending", "running", "answered", "pass", "fail", "partial", "error", "unjudged", "scored"]
"""`answered` is not judged yet; every status after it is final. `unjudged` had no evaluator, and `scored` has only
numbers or labels that can neither pass nor fail: both are outside every rate.
"""
WorkerState = Literal["alive", "silent", "gone"]

MESSAGES_BEFORE = "messages before"
"""The key in a stored request for how many messages of the turn before come before its own; readers put them there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run about to be planned; `config` has everything needed to resume it, and no secret."""

    name: str
    snapshot: str
    """Hash of the dataset document the run asks."""
    source: str
    """The dataset file, or a word for where else it came from."""
    suite: str = ""
    targets: tuple[str, ...]
    prompts: tuple[str, ...] = ("",)
    tags: tuple[str, ...] = ()
    parent: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedAnswer:
    """One turn of one cell: item, turn, prompt, target and repeat, each by its position from 0."""

    cell: int
    item: int
    turn: int
    prompt: int
    target: int
    repeat: int
    name: str
    """How the item is named: its testId, else #position from 1."""
    category: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """The result of asking: a text, or an error code and message."""

    text: str | None
    request: Mapping[str, Any]
    """The request: messages, tools, parameters; no secret."""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    diagnostics: Mapping[str, Any] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    """Input tokens that the provider read from its cache."""
    reasoning_tokens: int = 0
    """Output tokens that the model spent on reasoning."""
    cost: float | None = None
    latency_ms: float | None = None
    first_token_ms: float | None = None
    """How long it took until the first piece came of an answer that was streamed."""
    attempts: int = 1
    from_cache: bool = False
    cached_from: str = ""
    """The key of the run that asked it, of an answer from the cache; empty if unknown."""
    scripted: bool = False
    model: str | None = None
    finish_reason: str | None = None
    steps: tuple[Mapping[str, Any], ...] = ()
    """The steps of an answer that took tools: each question to the model, its text and the results of its calls;
    written by `runs/tool_loop.py`.
    """
    transcript: Transcript | None = None
    """The whole transcript, if it has more than a text and calls; `transcript_of` builds others."""
    session: Any = None
    """The state that the target needs with the next question of the same conversation."""
    code: str | None = None
    message: str | None = None
    traceback: str | None = None
    """The last frames of an exception in the user's code, if that is why there is no text."""


def transcript_of(record: AnswerRecord) -> Transcript:
    """The transcript of an answer, in whatever form it is stored."""
    if record.transcript is not None:
        return record.transcript
    if record.steps:
        return transcript_of_steps(record.steps)
    refusal = (record.diagnostics or {}).get("refusal")
    return plain_transcript(record.text, record.tool_calls, refusal if isinstance(refusal, str) else "")


def answer_steps(record: AnswerRecord) -> tuple[Mapping[str, Any], ...]:
    """The steps to an answer that a run made itself, or that its target told; empty where there was one."""
    return record.steps or (steps_of(record.transcript) if record.transcript is not None else ())


def step_count(record: AnswerRecord) -> int:
    """How many steps `answer_steps` tells."""
    return len(record.steps) or (count_steps(record.transcript) if record.transcript is not None else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRecord:
    """One evaluator's record for one answer in one scoring pass; `key` is its name or label in the dataset."""

    key: str
    evaluator: str
    score: float | None
    result: str | None
    threshold: float | None = None
    label: str | None = None
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    measure: str = ""
    """The unit of the score, and which scores pass, from the evaluator: `at most ms`."""
    origin: int = 0
    """The scoring pass whose judging this score is kept from; 0 where its own pass judged."""


CHANGES = "changes"
"""The key in the config of a run for the changes to requests of each target and judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One attempt at a target or a judge, with its outcome."""

    answer: int | None
    kind: Literal["target", "judge", "generator"]
    target: str
    attempt: int
    started: float
    latency_ms: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    code: str | None = None
    message: str | None = None
    from_cache: bool = False
    may_cost: float | None = None
    """An upper bound of an unknown cost: a call without an answer may have been billed."""
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    evaluator: str = ""
    """The key of the evaluator that asked, if any."""
    phase: str = ""
    """The phase of the battle or generation that made the call."""


@dataclass(frozen=True, slots=True)
class Settled:
    """An answer that exists already, with its scores, ready to be stored in bulk."""

    answer: int
    record: AnswerRecord | None
    """None if it is already committed and only judged."""
    scores: Sequence[ScoreRecord] | None
    """None if it must not be judged, like an error."""
    status: AnswerStatus
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A pause before a target is asked again, because it said that it is asked too much, or a call failed."""

    target: str
    code: str
    """The error that the last attempt met."""
    until: float
    attempt: int
    """The number of the attempt that follows."""
    attempts: int
    """How many there are at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWait:
    """A pause without questions, because answers cannot be stored."""

    code: Literal["full", "locked", "unwritable"]
    path: str
    cause: str
    """The process that locks it, or why it is not writable."""
    until: float
    """When the run ends unless something can be stored by then."""


GateVerdict = Literal["met", "not met", "not decided"]


@dataclass(frozen=True, slots=True)
class CheckedGate:
    """A gate with the figure it looks at and its verdict, as the store keeps it and every face shows it."""

    gate: str
    """The option as given, such as `--fail-under 80`."""
    verdict: GateVerdict
    sentence: str
    """The figure in words, and why the gate is not met or not decided."""
    figure: Figure | None = None
    column: str = ""
    """The prompt and target it looks at; empty where the run has one, or where it looks at all."""
    note: str = ""
    """The verdict by other rules where it differs."""

    @property
    def met(self) -> bool:
        """Whether the gate is met."""
        return self.verdict == "met"

    @property
    def says(self) -> tuple[str, ...]:
        """Why the gate is not met; empty where it is."""
        return () if self.met else (f"{self.column}: {self.sentence}" if self.column else self.sentence,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as lists show it."""

    id: int
    key: str
    name: str
    suite: str
    source: str
    snapshot: str
    status: RunStatus
    control: Control
    targets: tuple[str, ...]
    prompts: tuple[str, ...]
    tags: tuple[str, ...]
    parent: int | None
    created: float
    started: float | None
    finished: float | None
    total: int
    config: Mapping[str, Any]
    note: str
    pid: int | None
    host: str | None
    heartbeat: float | None
    scoring_pass: int
    message: str = ""
    """Why the run stopped, as shown to its user; empty while it runs and once it is finished."""
    code: StopCode = ""
    verdict: str = ""
    """Whether it met its gates and why not, in the sentence that decided the exit code; empty where none were set."""
    gates: tuple[CheckedGate, ...] = ()
    """Its gates one by one; empty if none were set or the run is older than this column."""
    waiting: Wait | StoreWait | None = None
    """The current wait of a run that continues."""
    staged_pass: int = 0
    """The scoring pass that has begun and does not count before it is whole; 0 where there is none."""
    staged_total: int = 0
    """How many answers that pass has to judge."""
    reserved: float = 0.0
    """Under a limit: what calls may cost that are out, or were when a process vanished."""
    staged: int = 0
    """How many it has judged."""
    rejudged: int = 0
    """How many of its answers were judged again one by one, by expectations that were edited since."""
    rejudgings: int = 0
    """How often an answer of it was judged again by itself: while this and the pass stay, no verdict of it changed."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An answer as lists show it; text and reasons are fetched one by one."""

    id: int
    run: int
    seq: int
    pos: int
    cell: int
    item: int
    turn: int
    prompt: int
    target: int
    repeat: int
    name: str
    category: str
    status: AnswerStatus
    score: float | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    latency_ms: float | None
    attempts: int
    from_cache: bool
    scripted: bool
    started: float | None
    code: str | None
    preview: str
    ending: str = ""
    """Why the target ended the answer, if that is unusual: a word of ENDINGS, or the provider's word."""
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    incomplete: bool = False
    """Whether its verdict lacks an assertion of another tool; not a column, but found among its scores."""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker process of a run, as last reported to the driver."""

    name: str
    """Its address, which is unique in the run."""
    state: WorkerState
    cells: int
    """Conversations it holds now."""
    calls: int
    """Calls it has made in this run."""
    rate: float
    """Calls per second over the last seconds."""
    errors: int
    """Calls that failed."""
    seen: float
    """When it was heard of last."""


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Why some answers are missing or are cut, or why an evaluator could not judge some of them."""

    count: int
    evaluator: str
    """The evaluator that could not judge; empty where it is the answer that is missing or cut."""
    code: str
    """The code of the error, or the word of ENDINGS."""
    message: str
    item: str = ""
    """The first item it happened to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """A run, or one column or group of it, in numbers."""

    total: int
    pending: int
    running: int
    answered: int
    passed: int
    failed: int
    partial: int
    errored: int
    cost: float
    unpriced: int
    input_tokens: int
    output_tokens: int
    judge_cost: float = 0.0
    unjudged: int = 0
    scored: int = 0
    may_cost: float = 0.0
    """An upper bound of the cost of calls whose cost is unknown."""
    cached_tokens: int = 0
    """Input tokens that providers read from their caches."""
    reasoning_tokens: int = 0
    """Output tokens that models spent on reasoning."""
    cached: int = 0
    """Answers that came from the cache."""
    rated: Sample | None = None
    """The verdicts by item; None where columns, which share their items, would be pooled."""

    @property
    def pass_rate(self) -> Figure | None:
        """The share of judged answers that pass; None where none is judged, or of several columns together."""
        return pass_rate(self.rated, missing=self.total - self.passed - self.failed - self.scored)

    @classmethod
    def of_pending(cls, total: int) -> Totals:
        """The totals of a run without any answer yet."""
        zeros: dict[str, Any] = dict.fromkeys((field.name for field in fields(cls) if field.default is MISSING), 0)
        return cls(**{**zeros, "total": total, "pending": total})
