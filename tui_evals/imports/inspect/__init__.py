"""Logs of Inspect as finished runs: header and samples, from an archive or JSON; errors name file, line and field."""

from __future__ import annotations

import importlib
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tui_evals.datasets.document import COMPANION_ENDING
from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Layout, Problem
from tui_evals.datasets.paths import Path as Place
from tui_evals.datasets.validate import parse_dataset, problem_of
from tui_evals.imports.base import Importer, Losses
from tui_evals.imports.inspect.samples import (
    Header,
    Sample,
    Scored,
    answer_of,
    evaluators_for,
    finite,
    item_of,
    keys_for,
    records_of,
    status_of,
)
from tui_evals.imports.keeping import keep_run
from tui_evals.imports.recording import RecordedAnswer, Recording, digest_of
from tui_evals.light_records import dataclass
from tui_evals.project_files import TooLarge, open_file, read_bytes, read_head
from tui_evals.text import strictjson
from tui_evals.text.measures import counted

_DAMAGED = "the frames are damaged, or larger than they say"

Unpack = Callable[[bytes, int], bytes]
"""Decompress some frames, to at most this many bytes and one more; ValueError if they are damaged."""


@cache
def unpacker() -> Unpack:
    """The function that decompresses zstandard here."""
    return _standard() or _package()


def _standard() -> Unpack | None:
    try:
        library = importlib.import_module("compression.zstd")
    except ImportError:
        return None

    def unpack(packed: bytes, most: int) -> bytes:
        try:
            with library.ZstdFile(io.BytesIO(packed)) as stream:
                return bytes(stream.read(most + 1))
        except (library.ZstdError, EOFError):
            raise ValueError(_DAMAGED) from None

    return unpack


def _package() -> Unpack:
    library = importlib.import_module("zstandard")

    def unpack(packed: bytes, most: int) -> bytes:
        try:
            with library.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
                return bytes(stream.read(most + 1))
        except library.ZstdError:
            raise ValueError(_DAMAGED) from None

    return unpack


LARGEST_FILE = 2**31
LARGEST_MEMBER = 2**28
LARGEST_TOTAL = 2**32
MOST_MEMBERS = 200_000
_HEAD = struct.Struct("<4s22xHH")


class Archive:
    """An open zip whose sizes are within bounds."""

    def __init__(self, file: Path, zipped: zipfile.ZipFile) -> None:
        self.file = file
        self._zipped = zipped
        members = zipped.infolist()
        if len(members) > MOST_MEMBERS:
            raise refused(file, f"holds {len(members):,} members, more than the {MOST_MEMBERS:,} that are read")
        for member in members:
            if member.file_size > LARGEST_MEMBER:
                raise refused(file, f"unpacks to more than {LARGEST_MEMBER // 2**20} MiB", member.filename)
        if sum(member.file_size for member in members) > LARGEST_TOTAL:
            raise refused(file, f"unpacks to more than {LARGEST_TOTAL // 2**30} GiB in all; split the log")
        self.names = tuple(dict.fromkeys(member.filename for member in members))

    def text(self, name: str) -> str:
        """A member as text; of several with one name, the last."""
        member = self._zipped.getinfo(name)
        content = self._unpacked(member, self._packed(member))
        if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
            raise self._damaged(name)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise refused(self.file, "is not UTF-8 text", name) from None

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        if member.flag_bits & 1:
            raise refused(self.file, "is encrypted; export the log without a password", member.filename)
        stream = self._zipped.fp
        if stream is None:
            raise ValueError("the archive is closed")
        try:
            stream.seek(member.header_offset)
            mark, name, extra = _HEAD.unpack(stream.read(_HEAD.size))
            stream.seek(name + extra, 1)
            packed = stream.read(member.compress_size)
        except (struct.error, ValueError):
            raise self._damaged(member.filename) from None
        if mark != b"PK\x03\x04":
            raise self._damaged(member.filename)
        return packed

    def _unpacked(self, member: zipfile.ZipInfo, packed: bytes) -> bytes:
        try:
            match member.compress_type:
                case zipfile.ZIP_STORED:
                    return packed
                case zipfile.ZIP_DEFLATED:
                    return zlib.decompressobj(-15).decompress(packed, member.file_size + 1)
                case 93:  # zstandard, which the module has no name for before Python 3.14
                    return unpacker()(packed, member.file_size)
        except (zlib.error, ValueError):
            raise self._damaged(member.filename) from None
        message = f"is packed by the method {member.compress_type}, which is not known here"
        raise refused(self.file, message, member.filename)

    def _damaged(self, name: str) -> DatasetError:
        return refused(self.file, "is damaged: its content is not what the archive says of it", name)


@contextmanager
def opened(file: Path) -> Iterator[Archive]:
    """An archive; DatasetError where it is none, or too large."""
    try:
        with open_file(file, most=LARGEST_FILE, follow_out=True) as stream, zipfile.ZipFile(stream) as zipped:
            yield Archive(file, zipped)
    except (zipfile.BadZipFile, NotImplementedError, struct.error):
        raise refused(file, "is no whole zip archive; was it copied while it was being written?") from None
    except TooLarge:
        raise refused(file, f"is larger than {LARGEST_FILE // 2**30} GiB; split the log") from None
    except OSError as problem:
        raise refused(file, f"cannot be read: {problem.strerror or problem}") from None


def refused(file: Path, message: str, member: str = "") -> DatasetError:
    """The error of a file, or of one member of it."""
    return DatasetError(f"{file}: {member}" if member else str(file), [Problem(message)])


VERSION = 2
LARGEST_JSON = 2**29
_HEADERS = ("header.json", "_journal/start.json")
_ATTACHED = "attachment://"
_RESOLVED = ("input", "messages", "output", "scores")
_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN', re.DOTALL)

Part = TypeVar("Part", bound=BaseModel)


@dataclass
class _Text:
    """A JSON text, and how its errors name it."""

    source: str
    text: str

    @cached_property
    def value(self) -> Any:
        """Its value; NaN and infinities are numbers, as Inspect writes them."""
        try:
            return json.loads(self.text.removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            pass
        try:
            strictjson.loads(_NO_NUMBER.sub(lambda match: match[0] if match[0][0] == '"' else "null", self.text))
        except strictjson.JsonError as problem:
            raise DatasetError(self.source, [Problem(str(problem), line=problem.line)]) from None
        raise DatasetError(self.source, [Problem("is not valid JSON")])

    def refuse(self, message: str, place: Place = ()) -> DatasetError:
        """The error of a place in it."""
        return DatasetError(self.source, [Problem(message, place, Layout(self.text).line(place))])

    def typed(self, value: object, kind: type[Part], base: Place = ()) -> Part:
        """A value of it as a shape; the error names every field that is not right."""
        try:
            return kind.model_validate(value)
        except ValidationError as errors:
            layout = Layout(self.text)
            problems = [problem_of(error, kind, base) for error in errors.errors(include_url=False)]
        raise DatasetError(
            self.source, [Problem(problem.message, problem.path, layout.line(problem.path)) for problem in problems]
        )


@dataclass(frozen=True, slots=True)
class LoggedSample:
    """A sample and where it is; `traced` where the log also tells how it came about."""

    where: str
    sample: Sample
    traced: bool


def log_in(path: Path) -> tuple[Header, list[LoggedSample]]:
    """The content of a log; DatasetError names file, member, line and field of an error."""
    return _archived(path) if path.suffix.lower() == ".eval" else _written(path)


def _archived(path: Path) -> tuple[Header, list[LoggedSample]]:
    with opened(path) as archive:
        name = next((name for name in _HEADERS if name in archive.names), None)
        if name is None:
            raise refused(path, f"is no Inspect log: it holds neither {' nor '.join(_HEADERS)}")
        text = _Text(f"{path}: {name}", archive.text(name))
        header = _header(text, text.value, newer=True)
        names = [name for name in archive.names if re.fullmatch(r"samples/[^/]+\.json", name)]
        texts = (_Text(f"{path}: {name}", archive.text(name)) for name in names)
        return header, [_sample(text, text.value, ()) for text in texts]


def _written(path: Path) -> tuple[Header, list[LoggedSample]]:
    try:
        text = _Text(str(path), read_bytes(path, most=LARGEST_JSON, follow_out=True).decode("utf-8"))
    except TooLarge:
        message = f"is larger than {LARGEST_JSON // 2**20} MiB; `inspect log convert --to eval` makes it smaller"
        raise refused(path, message) from None
    except UnicodeDecodeError as problem:
        raise refused(path, f"is not UTF-8 text (at byte {problem.start:,})") from None
    except OSError as problem:
        raise refused(path, f"cannot be read: {problem.strerror or problem}") from None
    header = _header(text, text.value)
    samples = text.value.get("samples") or []
    if not isinstance(samples, list):
        raise text.refuse("must be a list", ("samples",))
    return header, [_sample(text, sample, ("samples", number)) for number, sample in enumerate(samples)]


def _header(text: _Text, value: object, *, newer: bool = False) -> Header:
    """The header of a log. Inspect refuses `newer` versions in JSON, and reads them in an archive as its own."""
    if not isinstance(value, dict) or "version" not in value or "eval" not in value:
        raise text.refuse("is no Inspect log: it names no version and no eval")
    version = value["version"]
    if version != VERSION and not (newer and isinstance(version, int) and version > VERSION):
        message = f"the log has version {version!r}, and version {VERSION} is read; `inspect log convert` writes it"
        raise text.refuse(message, ("version",))
    return text.typed(value, Header)


def _sample(text: _Text, value: object, base: Place) -> LoggedSample:
    if not isinstance(value, dict):
        raise text.refuse("must be an object", base)
    fields = {name: value[name] for name in Sample.model_fields if name in value}
    fields |= {"model_usage": value["model_usage"]} if "model_usage" in value else {}
    if isinstance(attached := value.get("attachments"), dict) and attached:
        fields |= {name: _resolved(fields[name], attached) for name in _RESOLVED if name in fields}
    where = text.source if not base else f"{text.source}, sample {int(base[-1]) + 1}"
    return LoggedSample(where, text.typed(fields, Sample, base), bool(value.get("events") or value.get("store")))


def _resolved(value: Any, attached: Mapping[str, Any]) -> Any:
    """A value with the long texts put back that Inspect keeps once for a sample."""
    match value:
        case str() if value.startswith(_ATTACHED):
            text = attached.get(value.removeprefix(_ATTACHED))
            return text if isinstance(text, str) else value
        case dict():
            return {name: _resolved(one, attached) for name, one in value.items()}
        case list():
            return [_resolved(one, attached) for one in value]
        case _:
            return value


BY = "Inspect"
OURS = "tui-evals"
"""The package that a log names where it was exported from here."""
TAG = "inspect"

Data = dict[str, Any]
Id = tuple[str, str]
"""The id of a sample with its type, because 1 and "1" are two samples."""


def recognises(path: Path) -> bool:
    """Whether a file has the looks of an Inspect log."""
    if path.suffix.lower() == ".eval":
        return path.is_file()
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    head = read_head(path, 4096, follow_out=True)
    return b'"version"' in head and b'"eval"' in head


def read(path: Path) -> tuple[Recording, Losses]:
    """The run in a log, and what happened to its parts; raises DatasetError."""
    losses = Losses()
    try:
        header, samples = log_in(path)
        if not samples:
            message = "holds no samples; was it written with `--no-log-samples`, or before the first one ended?"
            raise refused(path, message)
        _check(samples)
        recording = _recording(path, header, _ordered(header, samples), losses)
    except RecursionError:
        raise refused(path, "is nested too deeply to read") from None
    _report(header, samples, recording, losses)
    return recording, losses


def _id(sample_id: object) -> Id:
    return type(sample_id).__name__, str(sample_id)


def _check(samples: Sequence[LoggedSample]) -> None:
    seen: set[tuple[Id, int]] = set()
    for one in samples:
        key = (_id(one.sample.id), one.sample.epoch)
        if key in seen:
            message = f"the sample {one.sample.id!r} of epoch {one.sample.epoch} is there twice"
            raise DatasetError(one.where, [Problem(message, ("id",))])
        seen.add(key)


def _ordered(header: Header, samples: Sequence[LoggedSample]) -> list[Sample]:
    """The samples in the order of their dataset, if the log has it, and by epoch."""
    ids = [_id(one) for one in header.spec.dataset.sample_ids or ()]
    rank = {one: place for place, one in reversed([*enumerate(ids)])}
    for one in samples:
        rank.setdefault(_id(one.sample.id), len(rank) + len(ids))
    return sorted((one.sample for one in samples), key=lambda sample: (rank[_id(sample.id)], sample.epoch))


def _recording(path: Path, header: Header, samples: Sequence[Sample], losses: Losses) -> Recording:
    spec, keys = header.spec, keys_for(samples)
    places: dict[Id, int] = {}
    items: list[Data] = []
    answers: list[RecordedAnswer] = []
    for sample in samples:
        if (place := places.get(_id(sample.id))) is None:
            place = places[_id(sample.id)] = len(items)
            items.append(item_of(sample, losses))
        answers.append(_recorded(sample, place, spec.model, keys, losses))
    document = _document(header, items, evaluators_for(keys, spec.scorers or (), losses))
    dataset, problems = parse_dataset(document)
    if dataset is None:
        raise DatasetError(str(path), problems)
    return Recording(
        by=BY,
        digest=digest_of(document, spec.model, answers, spec.eval_id, spec.run_id),
        document=document,
        source=str(path),
        name=spec.task,
        targets=(spec.model,),
        answers=tuple(answers),
        tags=(TAG, *(tag for tag in spec.tags or () if tag != TAG)),
        about=_about(header),
        started=_time(path, header.stats.started_at or spec.created, "stats.started_at"),
        finished=_time(path, header.stats.completed_at, "stats.completed_at"),
    )


def _recorded(sample: Sample, place: int, model: str, keys: Mapping[Scored, str], losses: Losses) -> RecordedAnswer:
    answer = answer_of(sample, model, losses)
    scores = records_of(sample, keys, losses)
    if answer.text is None and scores:
        losses.left_out("scores of samples that broke off", why="what was not answered has no score here")
        scores = ()
    return RecordedAnswer(item=place, repeat=sample.epoch - 1, answer=answer, scores=scores, status=status_of(sample))


def _document(header: Header, items: Sequence[Data], evaluators: Mapping[str, Any]) -> Data:
    spec = header.spec
    kept = {"task": spec.task, "metadata": finite(spec.metadata), "version": spec.task_version}
    document: Data = {
        "schemaVersion": CURRENT_VERSION,
        "metadata": {"name": spec.dataset.name or spec.task},
        "default_evaluators": dict(evaluators),
        "extensions": {"inspect": {name: value for name, value in kept.items() if value}},
        "items": list(items),
    }
    if (epochs := spec.config.epochs or 1) > 1:
        document["repeats"] = epochs
    return document


def _about(header: Header) -> Data:
    """The log's facts about its origin."""
    spec = header.spec
    known = {
        "task": spec.task,
        "task_args": finite(spec.task_args),
        "eval_id": spec.eval_id,
        "run_id": spec.run_id,
        "created": spec.created,
        "dataset": spec.dataset.name,
        "solvers": [step.solver for step in header.plan.steps] or ([spec.solver] if spec.solver else []),
        "scorers": [scorer.name for scorer in spec.scorers or ()],
        "reducers": spec.config.epochs_reducer,
        "packages": finite(spec.packages),
        "revision": finite(spec.revision),
        "status": header.status,
    }
    return {name: value for name, value in known.items() if value}


def _time(path: Path, stamp: str, field: str) -> float | None:
    if not stamp:
        return None
    try:
        when = datetime.fromisoformat(stamp)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise DatasetError(str(path), [Problem(f"{field} must be a time such as 2026-01-31T12:00:00+00:00")]) from None


def _report(header: Header, samples: Sequence[LoggedSample], recording: Recording, losses: Losses) -> None:
    spec, items = header.spec, len(recording.document["items"])
    losses.carried(f"{counted(len(samples), 'sample')} with answers and scores, of {counted(items, 'item')}")
    if any(one.traced for one in samples):
        losses.left_out("events and stores of samples", why="a run keeps what was asked, said and scored")
    missing = {_id(one) for one in spec.dataset.sample_ids or ()} - {_id(one.sample.id) for one in samples}
    if missing:
        losses.left_out(f"{len(missing):,} samples of the dataset", why="the log holds no answer to them")
    if header.status != "success":
        why = header.error.message if header.error else "it was never finished"
        losses.changed(f"the status {header.status}", why=f"the answers that are there are a finished run; {why}")
    if header.version > VERSION:
        losses.changed(f"log version {header.version}", why=f"it is read as version {VERSION}, as Inspect does")
    if OURS in (spec.packages or {}):
        losses.left_out(
            "evaluators and other fields of the dataset, requests without an answer, answers, tool calls, scores and "
            "their details of earlier turns, attempts, costs, times to a first token, models and tokens of errors",
            why=f"they are in the file {COMPANION_ENDING} that an export writes next to the log",
        )
    if header.invalidated:
        losses.left_out("the mark that the log is invalid", why="runs have no such mark")
    if others := [name for name in spec.config.epochs_reducer or () if name != "mean"]:
        losses.changed(f"epochs reduced by {', '.join(others)}", why="repeats of an item are averaged here")


IMPORTER = Importer(
    kind="inspect",
    about="a log of Inspect (.eval or .json)",
    recognises=recognises,
    read=lambda request: keep_run(request, read),
    recordings=lambda request: (read(request.path)[0],),
    order=20,
)
