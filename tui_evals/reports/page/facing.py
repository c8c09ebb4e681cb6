"""The cards of a comparison: an item each, with the answers of every run beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from tui_evals.compare.match import Kind
from tui_evals.compare.runs import KINDS, ComparedLine, Comparison
from tui_evals.compare.verdicts import JUDGED_OTHERWISE, NAMES
from tui_evals.present.answers import expected_text, preview, prompt_text
from tui_evals.present.comparisons import KIND_LOOKS
from tui_evals.present.status import ANSWER_LOOKS
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.rows import Told

from .cards import labels_of, worst
from .texts import AnswerBlock, Labels, Text, answer_block, by_item, marks, optional, places_of, same

_PAGE = 50
_FIRST_SEEN: tuple[Kind, ...] = ("broken", "fixed", "not comparable", "gone", "new", "changed", "same")


@dataclass(frozen=True, slots=True)
class Given:
    """A question or a reference, and the runs it stood in; no letters where it stood in all of them."""

    letters: str
    text: Text


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """The answer of one run."""

    letter: str
    answer: AnswerBlock | None
    kind: Kind | None
    """What it made of the first run's answer."""
    alike: bool
    """It is the first run's answer, word for word."""
    where: str


@dataclass(frozen=True, slots=True)
class Facing:
    """The same turn of the same item in every run."""

    name: str
    kind: Kind
    glyph: str
    prompts: tuple[Given, ...]
    references: tuple[Given, ...]
    sides: tuple[RunAnswer, ...]

    @property
    def where(self) -> str:
        """How the whole of its texts is to be seen."""
        return next((side.where for side in self.sides if side.where), "")


@dataclass(frozen=True, slots=True)
class Standing:
    """The verdict of one run in a card's heading."""

    letter: str
    status: str
    glyph: str
    score: str


@dataclass(frozen=True, slots=True)
class Card:
    """An item and what became of it."""

    number: int
    name: str
    kind: Kind
    glyph: str
    category: str
    note: str
    preview: str
    rank: float
    """How much a later run lost on it, the largest loss first."""
    standings: tuple[Standing, ...]
    prompts: tuple[Given, ...]
    """The prompts, where they are the same for all its answers."""
    references: tuple[Given, ...]
    facings: tuple[Facing, ...]
    groups: str


@dataclass(frozen=True, slots=True)
class Source:
    """A run with the items of its dataset and the labels of its answers."""

    run: RunRow
    items: Sequence[Mapping[str, Any]]
    labels: Labels


def cards(reader: Reader, comparison: Comparison, evaluators: Sequence[str], columns: Sequence[str]) -> Iterator[Card]:
    """The cards in the order of the first run's dataset."""
    sources = [
        Source(side.run, reader.dataset(side.run).items, labels_of(reader, side.run)) for side in comparison.sides
    ]
    tokens = _Tokens(list(comparison.categories), evaluators, columns)
    groups = enumerate(by_item(comparison.lines, places_of(reader, comparison)), 1)
    while page := list(islice(groups, _PAGE)):
        told = _told(reader, sources, [line for _, lines in page for line in lines])
        for place, lines in page:
            yield _card(place, lines, told, sources, tokens)


def _told(reader: Reader, sources: Sequence[Source], lines: Sequence[ComparedLine]) -> dict[int, Told]:
    """What was answered in these lines, by the ids of the answers."""
    told: dict[int, Told] = {}
    for number, source in enumerate(sources):
        rows = reader.rows(answer.id for line in lines if (answer := line.answers[number]))
        told |= {one.row.id: one for one in reader.told(source.run, rows, requests=True)}
    return told


@dataclass(frozen=True, slots=True)
class _Tokens:
    categories: Sequence[str]
    evaluators: Sequence[str]
    columns: Sequence[str]

    def of(self, line: ComparedLine, sides: Iterable[RunAnswer]) -> str:
        """What a line can be filtered by."""
        failed = {score.key for side in sides if side.answer for score in side.answer.scores if score.result == "fail"}
        tokens = [f"k{KINDS.index(kind)}" for kind in dict.fromkeys(line.kinds) if kind]
        tokens += [f"c{self.categories.index(line.category)}"] if line.category in self.categories else []
        tokens += [f"t{self.columns.index(line.column)}"] if line.column in self.columns else []
        return " ".join([*tokens, *(f"e{place}" for place, key in enumerate(self.evaluators) if key in failed)])


def _card(
    place: int,
    lines: Sequence[ComparedLine],
    told: Mapping[int, Told],
    sources: Sequence[Source],
    tokens: _Tokens,
) -> Card:
    first = lines[0]
    kind = next(kind for kind in _FIRST_SEEN if any(line.kind == kind for line in lines))
    facings = tuple(_facing(line, told, sources) for line in lines)
    prompt = next((given.text for facing in facings for given in facing.prompts), None)
    groups = "|".join(tokens.of(line, facing.sides) for line, facing in zip(lines, facings, strict=True))
    standings = tuple(_standings(facings[0]) if len(facings) == 1 else _means(lines))
    prompts, references = facings[0].prompts, facings[0].references
    if all((facing.prompts, facing.references) == (prompts, references) for facing in facings):
        facings = tuple(replace(facing, prompts=(), references=()) for facing in facings)
    else:
        prompts = references = ()
    notes = [
        "the item was edited between the runs" if any(line.edited for line in lines) else "",
        JUDGED_OTHERWISE if any(any(line.otherwise) for line in lines) else "",
        "matched by position only: check that it is the same item" if any(li.how == "position" for li in lines) else "",
    ]
    return Card(
        number=place,
        name=first.item,
        kind=kind,
        glyph=KIND_LOOKS[kind].glyph,
        category=first.category,
        note="; ".join(note for note in notes if note),
        preview=preview(prompt.head[0].text) if prompt else "",
        rank=min((_loss(line) for line in lines), default=0.0),
        standings=standings,
        prompts=prompts,
        references=references,
        facings=facings,
        groups=groups,
    )


def _loss(line: ComparedLine) -> float:
    """The change of the score, a broken answer below every other."""
    first, *later = (answer.score if answer else None for answer in line.answers)
    changes = [score - first for score in later if score is not None and first is not None]
    return min(changes, default=0.0) - (1000 if line.kind == "broken" else 0)


def _standings(facing: Facing) -> Iterator[Standing]:
    for side in facing.sides:
        if side.answer:
            yield Standing(side.letter, side.answer.status, side.answer.glyph, side.answer.score)


def _means(lines: Sequence[ComparedLine]) -> Iterator[Standing]:
    """How many of several answers pass in each run."""
    for number, letter in zip(range(len(lines[0].answers)), NAMES, strict=False):
        answers = [answer for line in lines if (answer := line.answers[number])]
        if answers:
            passed = sum(answer.status == "pass" for answer in answers)
            status = worst(answer.status for answer in answers)
            yield Standing(letter, status, ANSWER_LOOKS[status].glyph, f"{passed}/{len(answers)}")


def _facing(line: ComparedLine, told: Mapping[int, Told], sources: Sequence[Source]) -> Facing:
    details = [told.get(answer.id) if answer else None for answer in line.answers]
    units = [_unit(detail, source) if detail else {} for detail, source in zip(details, sources, strict=True)]
    prompts = [
        prompt_text(unit, detail.answer) if detail else None for unit, detail in zip(units, details, strict=True)
    ]
    references = [expected_text(unit) if detail else None for unit, detail in zip(units, details, strict=True)]
    names = [
        line.column,
        "" if line.repeat is None else f"repeat {line.repeat + 1}",
        "" if line.turn is None else f"turn {line.turn + 1}",
    ]
    return Facing(
        name=" · ".join(name for name in names if name),
        kind=line.kind,
        glyph=KIND_LOOKS[line.kind].glyph,
        prompts=tuple(_distinct_texts(prompts)),
        references=tuple(_distinct_texts(references)),
        sides=tuple(_sides(line, details, sources)),
    )


def _unit(detail: Told, source: Source) -> Mapping[str, Any]:
    item = source.items[detail.row.item]
    units: Sequence[Mapping[str, Any]] = item.get("turns") or [item]
    return units[detail.row.turn]


def _distinct_texts(texts: Sequence[str | None]) -> Iterator[Given]:
    """Every different text once, with the runs it stood in."""
    places: dict[str, str] = {}
    for letter, text in zip(NAMES, texts, strict=False):
        if text and text.strip():
            places[text] = places.get(text, "") + letter
    for text, letters in places.items():
        if shown := optional(text):
            yield Given(letters if len(places) > 1 else "", shown)


def _sides(line: ComparedLine, details: Sequence[Told | None], sources: Sequence[Source]) -> Iterator[RunAnswer]:
    base = details[0].answer.text if details[0] and details[0].answer else None
    kinds: tuple[Kind | None, ...] = (None, *line.kinds)
    for place, (detail, source, kind) in enumerate(zip(details, sources, kinds, strict=True)):
        letter = NAMES[place]
        if detail is None:
            yield RunAnswer(letter, None, kind, False, "")
            continue
        own = detail.answer.text if detail.answer else None
        alike = place > 0 and own is not None and base is not None and same(own, base)
        other = own if place else _only_other(details)
        diff_marks = marks(base, other) if base is not None and other is not None else None
        spans = () if diff_marks is None else diff_marks.right if place else diff_marks.left
        where = f'`tui-evals show {source.run.key} --item "#{detail.row.item + 1}"` shows all of it'
        labels = source.labels.get(detail.row.id, ())
        said = (detail.row, detail.answer, detail.scores, labels, "", spans, detail.together)
        shown = answer_block(*said, rejudged=detail.rejudged)
        yield RunAnswer(letter, shown, kind, alike, where)


def _only_other(details: Sequence[Told | None]) -> str | None:
    """The answer that the first one is marked against, which there is where two runs are compared."""
    other = details[1] if len(details) == 2 else None
    return other.answer.text if other and other.answer else None
