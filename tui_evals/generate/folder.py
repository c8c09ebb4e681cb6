"""The folder of a generation: the rows in its files, and a record of each file's sources."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tui_evals.datasets.prompts import prompt_name
from tui_evals.files import CannotSave, make_folder, write_atomically
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes, read_text
from tui_evals.text import strictjson

Outcome = Literal["ok", "err", "unknown"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One output rule or inverse output rule, numbered from 1 over both lists, inverse ones last."""

    number: int
    text: str
    inverse: bool
    of: int
    """The place of the output rule, from 1, that it is or that it inverts."""


class _Row(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    def dumped(self) -> dict[str, Any]:
        """The row as its file holds it."""
        return self.model_dump(exclude_none=True)


class Test(_Row):
    """One test of `tests.json`, with further columns of the model."""

    __test__ = False

    ruleid: int | None = None
    testid: int | str | None = None
    testuid: str | None = None
    rule: str | None = None
    """The text of the rule when the test was created, to find the rule after edits."""
    inverse: bool | None = None
    baseline: bool | None = None
    scenario: str | None = None
    generation: int | None = None
    testinput: str
    testinputOriginal: str | None = None
    expectedoutput: str | None = None
    reasoning: str | None = None


class Truth(_Row):
    """One row of `test_groundtruth.json`: the groundtruth model's answer to a test, and its ratings."""

    testuid: str
    testinput: str
    output: str
    model: str
    groundtruthScore: float | None = None
    metrics: dict[str, Any] = {}
    isGroundtruth: bool = True


class TestEval(_Row):
    """One row of `test_evals.json`: whether a test is valid input, and whether the rules suffice to answer it."""

    __test__ = False

    testuid: str
    testinput: str
    validity: Outcome | None = None
    validityText: str | None = None
    coverage: Outcome | None = None
    coverageText: str | None = None
    coverageEvalText: str | None = None


class RuleEval(_Row):
    """One row of `rule_evals.json`: whether the prompt contains a rule."""

    ruleid: int
    rule: str
    grounded: Outcome
    groundedText: str


Row = TypeVar("Row", bound=_Row)


class UnreadableFile(ValueError):
    """A file of the generation cannot be read; the message says where and what is needed."""


def parse_rows(kind: type[Row], name: str, text: str) -> list[Row]:
    """The rows of a JSON file; the error names the invalid row."""
    return list(_parse_rows(kind, name, text))


@lru_cache(maxsize=8)
def _parse_rows(kind: type[Row], name: str, text: str) -> tuple[Row, ...]:
    """The rows, parsed once as long as the text stays the same."""
    try:
        rows = strictjson.loads(text)
    except strictjson.JsonError as problem:
        where = f"line {problem.line}: " if problem.line else ""
        raise UnreadableFile(f"{name} cannot be read: {where}{problem}") from None
    if not isinstance(rows, list):
        raise UnreadableFile(f"{name} must hold a list of objects, such as [{{...}}]")
    try:
        return tuple(TypeAdapter(list[kind]).validate_python(rows))  # type: ignore[valid-type]
    except ValidationError as errors:
        first = errors.errors(include_url=False)[0]
        place, *path = first["loc"] or ("?",)
        field = ".".join(map(str, path))
        number = place + 1 if isinstance(place, int) else place
        raise UnreadableFile(f"{name}, entry {number}{', ' + field if field else ''}: {first['msg']}") from None


def rows_text(rows: Sequence[_Row]) -> str:
    """Rows as their file holds them."""
    return json.dumps([row.dumped() for row in rows], ensure_ascii=False, indent=2) + "\n"


def rule_lines(text: str | None) -> list[str]:
    """The lines of a file of rules, those without text left out."""
    return [line.strip() for line in (text or "").split("\n") if line.strip()]


def number_rules(rules: Sequence[str], inverse: Sequence[str], most: int | None = None) -> list[Rule]:
    """Output rules, then inverse rules, each list cut to `most`, numbered through."""
    rules_kept, inverse_kept = rules[:most], inverse[:most]
    numbered = [Rule(number, text, False, number) for number, text in enumerate(rules_kept, 1)]
    return numbered + [Rule(len(rules_kept) + place, text, True, place) for place, text in enumerate(inverse_kept, 1)]


def chunk_rules(rules: Sequence[Rule], most: int, split: bool) -> list[list[Rule]]:
    """The rules that one question for tests shows at once; `split` keeps inverse rules apart, 0 shows all."""
    groups = [[rule for rule in rules if rule.inverse == turned] for turned in (False, True)] if split else [rules]
    size = most or max(len(rules), 1)
    return [list(group[at : at + size]) for group in groups for at in range(0, len(group), size)]


def all_rules(rules: Sequence[str], inverse: Sequence[str], most: int | None = None) -> list[Rule]:
    """All rules, numbered; those beyond `most`, which get no tests, have the number 0."""
    known = {(rule.inverse, rule.of): rule for rule in number_rules(rules, inverse, most)}
    return [
        known.get((turned, place)) or Rule(0, text, turned, place)
        for turned, texts in ((False, rules), (True, inverse))
        for place, text in enumerate(texts, 1)
    ]


class TestRule(NamedTuple):
    """The rule a test was made for: its text at that time, whether it is inverse, and its number."""

    text: str | None
    inverse: bool
    number: int | None


def match_rules(tests: Sequence[TestRule], rules: Sequence[Rule]) -> list[Rule | None]:
    """The current rule of each test; None if there is none.

    A test follows the text of its rule. If no rule has that text, it belongs to the rule with that number, which was
    edited. But if other tests follow that rule, the rule of this test was deleted.
    """
    by_text = {(rule.text, rule.inverse): rule for rule in rules}
    by_number = {rule.number: rule for rule in rules if rule.number}
    followed = {by_text.get((test.text or "", test.inverse)) for test in tests}
    matched: list[Rule | None] = []
    for test in tests:
        rule = by_number.get(test.number or 0)
        if test.text is not None:
            edited = rule if rule is not None and rule not in followed and rule.inverse == test.inverse else None
            rule = by_text.get((test.text, test.inverse), edited)
        matched.append(rule)
    return matched


def renumber_tests(tests: Sequence[Test], rules: Sequence[Rule]) -> list[Test]:
    """The tests with the current numbers of their rules; None if the rule was deleted or gets no tests."""
    matched = match_rules([TestRule(test.rule, bool(test.inverse), test.ruleid) for test in tests], rules)
    numbers = [rule.number or None if rule is not None else None for rule in matched]
    return [
        test if test.ruleid == number else test.model_copy(update={"ruleid": number})
        for test, number in zip(tests, numbers, strict=True)
    ]


def evaluator_key(name: str) -> str:
    """A name in the form that keys of evaluators have."""
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return plain if plain[:1].isalpha() else f"m_{plain}"


def short_hash(*parts: str) -> str:
    """Seven hex digits that identify some texts."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:7]


def test_uid(prompt: str, test: Mapping[str, Any], place: int) -> str:
    """A name derived from the test, so that the same test has the same name in every generation."""
    parts = [prompt, str(place), *(str(test.get(name)) for name in ("ruleid", "scenario", "testinput", "baseline"))]
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"test-{int(digest, 16) % 100_000_000:08d}"


RECORD = "generation.json"
EARLIER = "earlier"
LARGEST = 2**28
"""The largest file of a generation, in bytes."""
_NONE: Mapping[str, str] = MappingProxyType({})


class GenerationFolder:
    """The files of a generation; a replaced file is kept under `earlier/`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._record: dict[str, Any] | None = None

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none or nothing in it."""
        try:
            text = read_text(self.path / name, encoding="utf-8-sig", most=LARGEST)
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise UnreadableFile(f"{self.path / name} is not UTF-8 text; save the file as UTF-8") from None
        except OSError as problem:
            raise UnreadableFile(f"{self.path / name} cannot be read: {problem.strerror}") from None
        return text if text.strip() else None

    def write(self, name: str, text: str) -> None:
        """Put a text into a file, whole or not at all."""
        make_folder(self.path)
        write_atomically(self.path / name, text.encode("utf-8", "backslashreplace"))

    def set_aside(
        self, names: Iterable[str] = (), *, copies: Iterable[str] = (), now: datetime | None = None
    ) -> Path | None:
        """Move files under `earlier/`, so that they are created again, and copy others; returns the folder, or None."""
        moved = [file for name in names if (file := self.path / name).exists()]
        copied = [file for name in copies if (file := self.path / name).exists()]
        if not moved and not copied:
            return None
        stamp, number = (now or datetime.now()).strftime("%Y%m%d-%H%M%S"), 0
        while (place := self.path / EARLIER / f"{stamp}{f'-{number}' if number else ''}").exists():
            number += 1
        make_folder(place)
        try:
            for file in copied:
                (place / file.name).write_bytes(read_bytes(file, most=LARGEST))
            for file in moved:
                file.rename(place / file.name)
        except OSError as problem:
            raise CannotSave(f"{file} cannot be put into {place}: {problem.strerror}") from None
        return place

    @property
    def dataset(self) -> Path:
        """The dataset that a generation here writes, after its prompt; after the folder where none is recorded."""
        prompt = self.record.get("prompt")
        return self.path / f"{prompt_name(Path(prompt)) if isinstance(prompt, str) else self.path.name}.json"

    @property
    def record(self) -> Mapping[str, Any]:
        """The facts kept next to the files: prompt, options, models, and who wrote which file from what."""
        if self._record is None:
            text = self.read(RECORD)
            try:
                record = strictjson.loads(text) if text else {}
            except strictjson.JsonError as problem:
                raise UnreadableFile(f"{self.path / RECORD} cannot be read: {problem}; delete it to continue") from None
            self._record = record if isinstance(record, dict) else {}
        return self._record

    def note(self, **facts: Any) -> None:
        """Keep facts about the generation."""
        self._record = {**self.record, **facts}
        self.write(RECORD, json.dumps(self._record, ensure_ascii=False, indent=2) + "\n")

    def write_result(
        self, name: str, text: str, made_from: Iterable[str], by: str | None, texts: Mapping[str, str] = _NONE
    ) -> None:
        """Write the file of a step and record its sources; a step that only adds to a file names none.

        `texts` are sources that are no files of the folder, such as the prompt.
        """
        self.write(name, text)
        sources = {
            source: short_hash(content) for source in made_from if (content := texts.get(source) or self.read(source))
        }
        sources = sources or self._file_record(name).get("from", {})
        # A file may read back otherwise than it was written, where it held line breaks of another kind.
        facts = {"wrote": short_hash(self.read(name) or ""), "from": sources, "by": by, "time": round(time.time(), 3)}
        self.note(files={**self._files(), name: {key: value for key, value in facts.items() if value}})

    def _files(self) -> dict[str, Any]:
        files = self.record.get("files")
        return files if isinstance(files, dict) else {}

    def _file_record(self, name: str) -> dict[str, Any]:
        record = self._files().get(name)
        return record if isinstance(record, dict) else {}

    def edited(self, name: str) -> bool:
        """Whether the user changed a file since a step wrote it."""
        text, facts = self.read(name), self._file_record(name)
        return bool(text and facts) and short_hash(text or "") != facts.get("wrote")

    def outdated(self, name: str, texts: Mapping[str, str] = _NONE) -> list[str]:
        """The sources, files or `texts`, that have changed since this file was made from them."""
        if self.read(name) is None:
            return []
        sources = self._file_record(name).get("from")
        known = sources if isinstance(sources, dict) else {}
        now = {source: texts.get(source) or self.read(source) for source in known}
        return [source for source, mark in known.items() if (content := now[source]) and short_hash(content) != mark]
