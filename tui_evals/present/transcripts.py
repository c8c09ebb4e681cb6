"""A transcript in lines: the texts, reasoning, calls and retrievals of an answer, with time and cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Literal

from tui_evals.light_records import LazySequence, dataclass
from tui_evals.present.answers import pretty_json
from tui_evals.store.records import AnswerRecord, transcript_of
from tui_evals.text import strictjson
from tui_evals.text.measures import duration, money, tokens
from tui_evals.transcript import (
    Audio,
    Call,
    Citation,
    Document,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Result,
    Retrieval,
    Text,
    Took,
    Transcript,
    Unknown,
    calls_with_results,
    documents_of,
    outcome_places,
    parts_of,
    reasoning_text,
)

_SHORTEST = 0.001
"""Seconds that a call has to take to be worth a word."""
Kind = Literal["asked", "step", "thought", "said", "call", "result", "failed", "found", "document", "cited", "left"]
DEPTHS: Mapping[Kind, int] = {"asked": 0, "step": 0, "thought": 1, "call": 1, "found": 1, "cited": 1}
"""The depth of a line in the tree of a transcript; other kinds are one deeper."""


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """A line of a transcript; the text of a model or tool may have several lines, and is not safe."""

    kind: Kind
    text: str
    note: str = ""
    """Further facts: the source of a result, and its duration."""

    @property
    def depth(self) -> int:
        """How deep it is in the tree."""
        return DEPTHS.get(self.kind, 2)


class TranscriptLines(LazySequence[TranscriptLine]):
    """The lines of a transcript, created from a message when they are read."""

    def __init__(self, transcript: Transcript, answer: str | None) -> None:
        self._transcript = transcript
        self._answer = answer
        self._steps: list[int] = []
        """Which step each message is, or follows."""
        self._is_conversation = False
        self._outcomes = outcome_places(self._counted(transcript.messages))
        self._below_calls = {place for place in self._outcomes.values() if place is not None}
        """Results that are shown below their calls."""
        self._last: tuple[int, list[TranscriptLine]] = (-1, [])

    def _counted(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            self._is_conversation |= message.role == "user"
            self._steps.append((self._steps[-1] if self._steps else 0) + (message.role == "assistant"))
            yield message

    @cached_property
    def _ends(self) -> Sequence[int]:
        """The index after the last line of each message."""
        counts = (sum(1 for _ in self._of(*one)) for one in enumerate(self._transcript.messages))
        return list(accumulate(counts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def row_at(self, number: int) -> TranscriptLine:
        message = bisect_right(self._ends, number)
        if self._last[0] != message:
            self._last = message, list(self._of(message, self._transcript.messages[message]))
        return self._last[1][number - (self._ends[message - 1] if message else 0)]

    def __iter__(self) -> Iterator[TranscriptLine]:
        for number, message in enumerate(self._transcript.messages):
            yield from self._of(number, message)

    def _of(self, number: int, message: Message) -> Iterator[TranscriptLine]:
        """The lines of a message."""
        if message.role == "user":
            yield _asked(message)
            return
        is_answer = False
        if message.role == "assistant":
            step, total = self._steps[number], self._steps[-1]
            who = f" · {message.name}" if message.name else ""
            yield TranscriptLine("step", f"step {step} of {total}{who}", _figures(message))
            said = "".join(message.texts())
            is_answer = step == total and not self._is_conversation and bool(said) and said == self._answer
        yield from self._parts(number, message, is_answer)

    def _parts(self, number: int, message: Message, is_answer: bool) -> Iterator[TranscriptLine]:
        """The lines of its parts; a result is shown below its call, and by itself only where there is none."""
        is_said = False
        for at, part in enumerate(message.parts):
            match part:
                case Text():
                    if is_answer and not is_said:
                        yield TranscriptLine("left", "the answer")
                    elif part.text and not is_answer:
                        yield TranscriptLine("said", part.text, _took(part.took))
                    is_said = True
                case Call():
                    yield TranscriptLine("call", f"→ {part.name} {arguments_text(part.arguments)}".rstrip())
                    place = self._outcomes[number, at]
                    result = None if place is None else self._transcript.messages[place[0]].parts[place[1]]
                    if isinstance(result, Result):
                        yield _result(part, result)
                    else:
                        yield TranscriptLine("left", "not called")
                case Result():
                    if (number, at) not in self._below_calls:
                        yield _result(None, part)
                case _:
                    yield from _other(part)


def transcript_lines(record: AnswerRecord | None) -> Sequence[TranscriptLine]:
    """The lines about an answer's transcript; empty for one with only a text and calls."""
    if record is None or not (record.steps or record.transcript):
        return ()
    return TranscriptLines(transcript_of(record), record.text)


def _asked(message: Message) -> TranscriptLine:
    said, ended = "".join(message.texts()), message.more.get("user")
    if isinstance(ended, Mapping):
        return TranscriptLine(
            "asked", f"user, whose goal is {str(ended.get('goal')).replace('_', ' ')}{': ' if said else ''}{said}"
        )
    return TranscriptLine("asked", f"user: {said}")


def _other(part: Part) -> Iterator[TranscriptLine]:
    match part:
        case Reasoning():
            yield TranscriptLine("thought", f"reasoning: {part.text}" if part.text else "reasoning, which is hidden")
        case Retrieval():
            about = f" for {part.query}" if part.query else ""
            count = len(part.documents)
            yield TranscriptLine(
                "found", f"retrieved {count:,} chunk{'s' if count != 1 else ''}{about}", _took(part.took)
            )
            for place, document in enumerate(part.documents, 1):
                yield TranscriptLine("document", f"{place}. {document.text}", _about(document))
        case Citation():
            yield TranscriptLine("cited", f"cites {' · '.join(filter(None, (part.title, part.source, part.text)))}")
        case Image():
            yield TranscriptLine("said", _media("image", part.media_type, part.url, part.data))
        case Audio():
            heard = f": {part.transcript}" if part.transcript else ""
            yield TranscriptLine("said", _media("audio", part.media_type, part.url, part.data) + heard)
        case File():
            yield TranscriptLine("said", _media(f"file {part.name}".strip(), part.media_type, part.url, part.data))
        case Refusal():
            yield TranscriptLine("said", f"refused: {part.text}")
        case Unknown():
            yield TranscriptLine("said", f"[{part.type or 'part'}] {pretty_json(part.data)}")


def _about(document: Document) -> str:
    score = "" if document.score is None else f"score {document.score:g}"
    return " · ".join(filter(None, (document.title, document.source or document.id, score)))


def understood_text(text: str, calls: int, transcript: Transcript | None) -> str:
    """The parts that were read from a reply: each kind with ✓ and its number, or – if there is none."""
    told = transcript or Transcript()
    pairs = calls_with_results(told)
    made, given = (len(pairs) or calls), sum(result is not None for _, result in pairs)
    results = f" with {'results' if given == made else _several(given, 'result')}" if given else ""
    documents, thought = documents_of(told), reasoning_text(told)
    cited, others = parts_of(told, Citation), [part for part in told.parts if isinstance(part, Image | Audio | File)]
    found = (
        ("text", bool(text)),
        (f"{made} tool call{'s' if made != 1 else ''}{results}" if made else "tool calls", made > 0),
        (_several(len(documents), "chunk"), bool(documents)),
        ("reasoning", bool(thought)),
        *([(_several(len(cited), "citation"), True)] if cited else []),
        *([(_several(len(others), "attachment"), True)] if others else []),
    )
    return " · ".join(f"{name} {'✓' if is_there else '–'}" for name, is_there in found)


def _several(count: int, name: str) -> str:
    return f"{count:,} {name}{'s' if count != 1 else ''}" if count else f"{name}s"


_URL = 200
"""Characters of an address that are shown."""


def _media(what: str, kind: str, url: str, data: str) -> str:
    address = "" if url.startswith("data:") else url[:_URL]
    held = data or (url.partition(",")[2] if url.startswith("data:") else "")
    size = f"{len(held) * 3 // 4:,} bytes" if held else ""
    return f"[{', '.join(filter(None, (what, kind, address, size)))}]"


def transcript_text(record: AnswerRecord | None) -> str:
    """The whole transcript of an answer, as one text."""
    return "\n".join(text_lines(record))


def text_lines(record: AnswerRecord | None) -> Iterator[str]:
    """Yield the lines of `transcript_text`."""
    for line in transcript_lines(record):
        for place, text in enumerate(line.text.splitlines() or [""]):
            yield f"{'  ' * line.depth}{text}{f' · {line.note}' if line.note and not place else ''}"


def arguments_text(arguments: object) -> str:
    """The arguments of a tool call, as JSON where they are."""
    if not isinstance(arguments, str):
        return pretty_json(arguments) if arguments is not None else ""
    try:
        return pretty_json(strictjson.loads(arguments))
    except (strictjson.JsonError, RecursionError):
        return arguments


def _result(call: Call | None, result: Result) -> TranscriptLine:
    took = result.took or (call.took if call is not None else None)
    note = " · ".join(filter(None, (result.by, _took(took))))
    traceback = f"\n{result.traceback}" if result.traceback else ""
    text = f"{'!' if result.failed else '←'} {result.text}{traceback}"
    return TranscriptLine("failed" if result.failed else "result", text, note)


@dataclass(frozen=True, slots=True)
class _Counts:
    """The tokens of a step."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None


def _figures(message: Message) -> str:
    """The figures of a step, in words."""
    cached, took = message.more.get("from_cache") is True, message.took or Took()
    counts = _Counts(took.input_tokens, took.output_tokens, took.cached_tokens, took.reasoning_tokens)
    seconds = took.seconds
    parts: Sequence[str] = (
        "from the cache" if cached else "" if seconds is None else duration(seconds),
        tokens(counts),
        "" if took.cost is None or cached else money(took.cost),
    )
    return " · ".join(part for part in parts if part)


def _took(took: Took | None) -> str:
    """The duration and cost of a part."""
    if took is None:
        return ""
    seconds = took.seconds
    long = "" if seconds is None or seconds < _SHORTEST else duration(seconds)
    return " · ".join(filter(None, (long, "" if took.cost is None else money(took.cost))))
