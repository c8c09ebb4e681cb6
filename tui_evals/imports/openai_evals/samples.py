"""Samples of a registry as items of ours, those with columns of their own among them."""

from __future__ import annotations

import ast
import gzip
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path as File
from random import Random
from string import ascii_uppercase
from typing import IO, Any, cast

from tui_evals.datasets.attachments import MAX_BYTES, CannotAttach, media_type, read_attachment
from tui_evals.datasets.paths import DatasetError, Path, Problem
from tui_evals.light_records import dataclass
from tui_evals.project_files import TooLarge, open_file
from tui_evals.text import strictjson
from tui_evals.text.measures import counted

Data = Mapping[str, Any]
ROLES = ("system", "user", "assistant", "tool")


class Unfit(ValueError):
    """A sample that cannot be an item: why, and in which of its fields."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path: Path = path


@dataclass(frozen=True, slots=True)
class Recipe:
    """How samples become items: which fields ask, which hold the answers to them, and what must be there."""

    inputs: Mapping[str, str]
    """Field of the input -> field of the answer, if a sample may bring one."""
    needs_ideal: bool = True
    needs_choice: bool = False
    few_shot: tuple[Data, ...] = ()
    names: Mapping[str, str] | None = None
    make: Callable[[Data, Random, File], dict[str, Any]] | None = None
    """Creates the item if samples have their own columns, from the sample, its random generator and its file."""
    before: tuple[Data, ...] = ()
    """Messages before those of every sample."""
    capitalized: bool = False
    """Whether the first reference counts as well where it begins with a capital, and no other does."""
    faithful: bool = False
    """Whether everything is asked to the letter of the original."""

    def item(self, sample: Data, random: Random, file: File) -> dict[str, Any]:
        """The item of a sample; Unfit if something that the eval needs is missing."""
        if self.make is not None:
            return self.make(sample, random, file)
        if self.names:
            sample = {self.names.get(key, key): value for key, value in sample.items()}
        return self._asked(sample) | self._references(sample) | self._rest(sample)

    @property
    def first(self) -> str:
        """The field that asks."""
        return next(iter(self.inputs), "input")

    def _asked(self, sample: Data) -> dict[str, Any]:
        for name in self.inputs or ("input",):
            if name not in sample:
                held = ", ".join(map(str, sample)) or "none"
                raise Unfit(f"the sample has no {name}; its fields are: {held[:200]}", name)
        missing = self._unanswered(sample)
        first, *others = missing or [self.first]
        chat = self._question(sample, first, self.few_shot)
        if len(self.inputs) < 2 or not missing:
            return chat
        if all(sample[name] == sample[first] for name in others):
            return {**chat, "repeats": 1 + len(others)}
        return {**chat, "other_questions": [_as_one(self._question(sample, name)) for name in others]}

    def _unanswered(self, sample: Data) -> list[str]:
        """The fields that ask for an answer which the sample does not bring."""
        return [name for name, answer in self.inputs.items() if answer not in sample]

    def _question(self, sample: Data, name: str, few_shot: Sequence[Data] = ()) -> dict[str, Any]:
        given = sample[name]
        if self.faithful and isinstance(given, str) and not few_shot:
            return {"messages": [{"role": "system", "content": given}]}
        return question([*self.before, *given] if self.before and isinstance(given, list) else given, name, few_shot)

    def _references(self, sample: Data) -> dict[str, Any]:
        if "ideal" not in sample:
            if self.needs_ideal:
                raise Unfit("the sample has no ideal, which its answer is compared with", "ideal")
            return {}
        ideal = sample["ideal"]
        if self.capitalized and ideal:
            first = ideal if isinstance(ideal, str) else ideal[0] if isinstance(ideal, list) else None
            if isinstance(first, str):
                return {"ideal": list(dict.fromkeys((first, first.capitalize())))}
        if isinstance(ideal, str):
            return {"expected_response": ideal}
        if isinstance(ideal, list) and all(isinstance(part, str) for part in ideal):
            return {"ideal": ideal}
        if self.needs_ideal:
            raise Unfit("ideal must be text or a list of texts", "ideal")
        return {}

    def _rest(self, sample: Data) -> dict[str, Any]:
        """The other fields, which grading prompts may show, and the answer where the sample has it already."""
        if self.needs_choice and not isinstance(sample.get("choice"), str):
            raise Unfit("metaeval compares the judge with the sample's choice, and there is none", "choice")
        taken = {next(iter(self._unanswered(sample)), self.first)}
        if isinstance(sample.get("ideal"), str | list) and all(isinstance(part, str) for part in sample["ideal"]):
            taken |= {"ideal"} if sample["ideal"] or not self.faithful else set()
        rest = {key: value for key, value in sample.items() if key not in taken}
        if self.faithful:  # if null is left out here, the original shows the word
            rest = {key: "None" if value is None else value for key, value in rest.items()}
        item: dict[str, Any] = {"variables": rest} if rest else {}
        given = [sample.get(answer) for answer in self.inputs.values()]
        if given and all(isinstance(answer, str) for answer in given):
            item["response"] = given[0]
        return item


def _as_one(asked: Mapping[str, Any]) -> str | list[Any]:
    """A question as one value: the text if there is only one, else the messages with it."""
    if "messages" not in asked:
        return str(asked["prompt"])
    last = [{"role": "user", "content": asked["prompt"]}] if "prompt" in asked else []
    return [*asked["messages"], *last]


def question(given: object, name: str, few_shot: Sequence[Data] = ()) -> dict[str, Any]:
    """The question: text as the prompt, a chat with the examples before its last message."""
    if isinstance(given, str):
        if few_shot:
            raise Unfit("examples (few_shot) can only be shown in a chat; write the input as a list of messages", name)
        return {"prompt": given} if given else {"messages": [{"role": "user", "content": ""}]}
    chat = messages(given, name)
    shown = [message for example in few_shot for message in messages(example["sample"], "sample")]
    last = chat[-1]
    if last.keys() == {"role", "content"} and last["role"] == "user" and last["content"]:
        history = [*chat[:-1], *shown]
        return ({"messages": history} if history else {}) | {"prompt": last["content"]}
    return {"messages": [*chat[:-1], *shown, last]}


def messages(given: object, name: str) -> list[dict[str, Any]]:
    """A list of chat messages, checked; fields with null are dropped."""
    if not isinstance(given, list) or not given:
        raise Unfit(f"{name} must be text or a list of chat messages", name)
    chat = []
    for number, message in enumerate(given):
        if not isinstance(message, dict):
            raise Unfit("a chat message must be an object with role and content", name, number)
        if message.get("role") not in ROLES:
            raise Unfit(f"the role of a message is one of {', '.join(ROLES)}", name, number, "role")
        if not isinstance(message.get("content"), str):
            raise Unfit("the content of a message must be text", name, number, "content")
        if not isinstance(message.get("name", ""), str | None):
            raise Unfit("the name of a message must be text", name, number, "name")
        chat.append({key: value for key, value in message.items() if value is not None})
    return chat


MOST_PROBLEMS = 20
_LARGEST = 2**30  # bytes
_MOST_UNPACKED = 2**26  # bytes of a packed file, which may hold a thousand times its size
_POINTER = b"version https://git-lfs.github.com/spec/"
_MODULES = {".zst": "zstandard", ".lz4": "lz4.frame"}
_PACKED = (".gz", *_MODULES)


class NoData(Exception):
    """The data of an eval cannot be had; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a data file; `index` counts from 0 over all files of the eval."""

    index: int
    file: File
    line: int
    data: dict[str, Any]


def located(given: str, root: File, roots: Sequence[File]) -> File:
    """The data file or folder a registry names: a file from the working directory, else one below its `data`.

    Nothing outside the registries and the working directory is read, so that a registry from elsewhere cannot name
    just any file of this machine.
    """
    beside = root / "data" / given
    path = File(given) if "\0" not in given and File(given).is_file() else beside
    if "\0" in given or not path.exists():
        raise NoData(f"its data are missing: there is no {_shown(beside)}")
    real = path.resolve()
    if not any(real.is_relative_to(allowed) for allowed in (*roots, File.cwd().resolve())):
        raise NoData(f"its data {given!r} are outside the registry; put them below {root / 'data'}")
    return path


def files_of(path: File) -> list[File]:
    """The file itself, or every .jsonl in a folder and below, in the order of their names; raises NoData."""
    files = sorted(file for file in path.rglob("*.jsonl") if not file.is_dir()) if path.is_dir() else [path]
    if not files:
        raise NoData(f"its data are missing: the folder {path} holds no .jsonl file")
    for file in files:
        _check(file)
        if path.is_dir() and not file.resolve().is_relative_to(path.resolve()):
            raise NoData(f"{file} is a link that leads out of its folder; put the file itself there")
    return files


def read(path: File) -> list[Sample]:
    """The samples of a file or folder; DatasetError names the lines that are none."""
    samples: list[Sample] = []
    for file in files_of(path):
        problems: list[Problem] = []
        for line, text in enumerate(_lines(file), 1):
            if not text.strip():
                continue
            try:
                samples.append(Sample(len(samples), file, line, _object(text)))
            except ValueError as problem:
                problems.append(Problem(str(problem), line=line))
        if problems:
            raise too_many(file, problems)
    return samples


def shuffled_as_there(count: int, seed: int) -> list[int]:
    """The places of samples as numpy's older generator shuffles them from a seed."""
    words, word = [], seed & 0xFFFFFFFF
    for place in range(624):
        words.append(word)
        word = (1812433253 * (word ^ (word >> 30)) + place + 1) & 0xFFFFFFFF
    random = Random()
    random.setstate((3, (*words, 624), None))
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        while (other := random.getrandbits(32) & ((1 << last.bit_length()) - 1)) > last:
            pass
        order[last], order[other] = order[other], order[last]
    return order


def too_many(file: File, problems: Sequence[Problem]) -> DatasetError:
    """The first problems of a file."""
    if len(problems) > MOST_PROBLEMS:
        message = f"{counted(len(problems) - MOST_PROBLEMS, 'more problem')}, from this line on"
        problems = [*problems[:MOST_PROBLEMS], Problem(message, line=problems[MOST_PROBLEMS].line)]
    return DatasetError(str(file), problems)


def _check(file: File) -> None:
    if not file.is_file():
        raise NoData(f"{_shown(file)} is not a file")
    try:
        with open_file(file, most=_LARGEST, follow_out=True) as stream:
            start = stream.read(len(_POINTER))
    except TooLarge:
        raise NoData(f"{_shown(file)} is larger than {_LARGEST // 2**20} MiB; split it") from None
    except OSError as problem:
        raise NoData(f"{_shown(file)} cannot be read: {problem.strerror}") from None
    if start == _POINTER:
        raise NoData(f"{_shown(file)} is a git-lfs pointer, not the data; fetch them with `git lfs pull`")
    package = _MODULES.get(file.suffix, "").partition(".")[0]
    if package and find_spec(package) is None:
        raise NoData(f"{_shown(file)} is read by the Python package {package}, which is not here; unpack the file")


def _shown(file: File) -> str:
    return str(file)[:200]


@contextmanager
def _opened(file: File) -> Iterator[IO[bytes]]:
    """The file, unpacked while it is read."""
    with open_file(file, most=_LARGEST, follow_out=True) as stream:
        if file.suffix == ".gz":
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield cast(IO[bytes], unpacked)
        elif module := _MODULES.get(file.suffix):
            yield import_module(module).open(stream, "rb")
        else:
            yield stream


def _lines(file: File) -> list[str]:
    """The lines of a file with any of the three line ends; JSON strings cannot contain them unescaped."""
    return _text(file).replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _text(file: File) -> str:
    try:
        most = _MOST_UNPACKED if file.suffix in _PACKED else file.stat().st_size
        with _opened(file) as stream:
            raw = stream.read(most + 1)
    except Exception as problem:  # each package that unpacks has errors of its own
        if file.suffix in _PACKED:
            message = f"cannot be unpacked: it is not a whole {file.suffix} file"
        elif isinstance(problem, OSError):
            message = f"cannot be read: {problem.strerror}"
        else:
            raise
        raise DatasetError(str(file), [Problem(message)]) from None
    if len(raw) > most:
        packed = f"unpacks to more than {most // 2**20} MiB; split it"
        raise DatasetError(str(file), [Problem(packed if file.suffix in _PACKED else "grew while it was read")])
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        message = f"the byte 0x{raw[problem.start]:02x} is not UTF-8 text; save the file as UTF-8"
        raise DatasetError(str(file), [Problem(message, line=line)]) from None


def _object(text: str) -> dict[str, Any]:
    try:
        value = strictjson.loads(text, duplicates=True)
    except strictjson.JsonError as problem:
        raise ValueError(f"{problem} (column {problem.column})" if problem.column else str(problem)) from None
    if not isinstance(value, dict):
        raise ValueError("a sample must be a JSON object with an input")
    return value


_QUESTIONS = (("question", "answers", "label"), ("ctx", "endings", "label"), ("question", "choices", "answer"))
_LETTER = "Please answer with the letter of the correct answer."
_OUR_LETTER = "Reply with the letter of the right choice and nothing else."
_NEXT_WORD = "Please answer with the word which is most likely to follow:"
_OUR_NEXT_WORD = "Reply with the one word that most likely follows this text, and nothing else."
_PICTURES = tuple(f"image_{number}" for number in range(1, 8))
_ANSWER = "ANSWER: "


def multiple_choice(instructions: str | None, faithful: bool, sample: Data, random: Random, _: File) -> dict[str, Any]:
    """A question with its choices after letters, in the order the original would shuffle them."""
    names = next((names for names in _QUESTIONS if all(name in sample for name in names)), None)
    if names is None:
        raise Unfit(f"a multiple-choice sample holds question, answers and label; this one: {_held(sample)}")
    question = _said(sample, names[0], "the question must be text")
    lines, right = _lettered(sample[names[1]], sample[names[2]], random, names[1], names[2])
    heading = [instructions] if instructions or (faithful and instructions is not None) else []
    item = _asked([*heading, _LETTER if faithful else _OUR_LETTER, "", question, *lines], faithful)
    category = sample.get("category", sample.get("subject"))
    return {**item, "expected_response": right, **({"category": category} if isinstance(category, str) else {})}


def last_word(faithful: bool, sample: Data, _: Random, __: File) -> dict[str, Any]:
    """A text whose last word the model has to guess."""
    words = _said(sample, "text", "the sample has no text whose last word could be asked for").split()
    if len(words) < 2:
        raise Unfit("the text needs two words or more, because its last word is asked for", "text")
    item = _asked([_NEXT_WORD if faithful else _OUR_NEXT_WORD, "", " ".join(words[:-1])], faithful)
    return {**item, "expected_response": words[-1]}


def about_pictures(subject: str, faithful: bool, sample: Data, random: Random, file: File) -> dict[str, Any]:
    """A question of MMMU with its pictures, which are in the sample or in files next to it."""
    question = _said(sample, "question", f"a sample holds question, options, answer, question_type; {_held(sample)}")
    choices = sample.get("question_type", "multiple-choice") == "multiple-choice"
    answer = sample.get("answer")
    if choices:
        place = ord(answer) - ord("A") if isinstance(answer, str) and len(answer) == 1 else answer
        lines, right = _lettered(_options(sample.get("options")), place, random, "options", "answer")
        question, form = "\n".join((question, *lines)), "exactly one of A,B,C,D"
    else:
        right = _said(sample, "answer", "the answer to an open question must be text")
        form = "only the answer and nothing else"
    told = (
        f"You are an expert in {subject} whose job is to answer questions from the user using images. First, reason "
        f'about the correct answer. Then write the answer in the following format where X is {form}: "{_ANSWER}X"'
        if faithful
        else f"Answer this question about {subject} from its pictures. Reason first. End with a line "
        f'"{_ANSWER}X", where X is {"the letter of the right choice" if choices else "the answer alone"}.'
    )
    pictures = [_picture(sample[name], name, file) for name in _PICTURES if sample.get(name) is not None]
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    messages = [
        {"role": "system", "content": [{"type": "text", "text": told}]},
        {"role": "user", "content": [{"type": "text", "text": question}, *shown]},
    ]
    return {"messages": messages, "expected_response": _ANSWER + right}


def _asked(lines: Sequence[str], faithful: bool) -> dict[str, Any]:
    """A text as the prompt; the original sends it as a system message."""
    text = "\n".join(lines)
    return {"messages": [{"role": "system", "content": text}]} if faithful else {"prompt": text}


def _held(sample: Data) -> str:
    return (", ".join(map(str, sample)) or "none")[:200]


def _said(sample: Data, name: str, otherwise: str) -> str:
    value = sample.get(name)
    if not isinstance(value, str) or not value:
        raise Unfit(otherwise, name)
    return value


def _lettered(choices: object, right: object, random: Random, *names: str) -> tuple[list[str], str]:
    """The choices in another order after letters, and the letter of the right one, given by its place."""
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise Unfit("the choices must be a list of texts", names[0])
    if not 1 <= len(choices) <= len(ascii_uppercase):
        raise Unfit(f"there are {len(choices)} choices; 1 to {len(ascii_uppercase)} can have a letter", names[0])
    place = int(right) if isinstance(right, str) and right.isdecimal() and right.isascii() else right
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(choices):
        raise Unfit("must be the place of the right choice, counted from 0", names[1])
    order = list(range(len(choices)))
    random.shuffle(order)
    lines = [f"{letter}) {choices[at]}" for letter, at in zip(ascii_uppercase, order, strict=False)]
    return lines, ascii_uppercase[order.index(place)]


def _options(given: object) -> object:
    """The choices of MMMU, which its data set writes as the text of a Python list."""
    if not isinstance(given, str):
        return given
    try:
        return ast.literal_eval(given)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise Unfit("must be a list of texts", "options") from None


def _picture(given: object, name: str, file: File) -> str:
    """A picture as a data URL: of an address, of base64 in `bytes`, or of a file next to the data."""
    if isinstance(given, str) and given.startswith(("data:image/", "https://", "http://")):
        return given
    if isinstance(given, Mapping):
        packed, given = given.get("bytes"), given.get("path")
        if isinstance(packed, str):
            return _data_url(_unpacked(packed, name), name)
    if not isinstance(given, str) or not given:
        raise Unfit("must be a file next to the data, a data: URL, or an object with bytes in base64", name)
    try:
        return _data_url(read_attachment(file.parent, given), name)
    except CannotAttach as problem:
        raise Unfit(str(problem), name) from None


def _unpacked(packed: str, name: str) -> bytes:
    if len(packed) > MAX_BYTES * 4 // 3 + 4:
        raise Unfit(f"is larger than the {MAX_BYTES // 1_000_000} MB that a picture may have", name)
    try:
        return b64decode(packed, validate=True)
    except (NotBase64, ValueError):
        raise Unfit("its bytes are not base64", name) from None


def _data_url(content: bytes, name: str) -> str:
    for ending in (".png", ".jpg", ".gif", ".webp"):
        try:
            kind = media_type(f"picture{ending}", content)
        except CannotAttach:
            continue
        if kind.startswith("image/"):
            return f"data:{kind};base64,{b64encode(content).decode()}"
    raise Unfit("is no picture; PNG, JPEG, GIF and WebP can be sent", name)
