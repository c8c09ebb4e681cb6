"""The page of a comparison: verdicts, tests and rates, then a card for each item with the answers of every run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from statistics import fmean
from typing import Any

from tui_evals.compare.measures import MeasuredDifference, RunDifference
from tui_evals.compare.runs import KINDS, SHARED_KINDS, ComparedLine, Comparison, RunSide
from tui_evals.compare.sides import Kind
from tui_evals.compare.verdicts import JUDGED_OTHERWISE, NAMES, WITHOUT_CALLS, caveats, difference_sentence
from tui_evals.light_records import dataclass
from tui_evals.present.answers import expected_text, preview, prompt_text
from tui_evals.present.comparisons import (
    KIND_LOOKS,
    RateRow,
    category_name,
    category_rates,
    difference_text,
    direction,
    label_lines,
    population_sentence,
    rate_rows,
    side_name,
    usage_lines,
)
from tui_evals.present.figures import interval_text, mean_text, universal_time
from tui_evals.present.runs import judge_name, run_cost, stop_reason, target_names
from tui_evals.present.status import ANSWER_LOOKS, waiting_count
from tui_evals.reports.page.cards import labels_of, worst
from tui_evals.reports.page.summary import Share, walk_answers
from tui_evals.reports.page.texts import (
    AnswerBlock,
    Labels,
    Text,
    answer_block,
    by_item,
    marks,
    optional,
    places_of,
    same,
)
from tui_evals.reports.plots import Scatter, Steps, meter, scatter, steps
from tui_evals.store.details import read_details
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.rows import AnswerDetail
from tui_evals.text.measures import counted


@dataclass(frozen=True, slots=True)
class RunColumn:
    """One of the runs in a line."""

    letter: str
    name: str
    key: str
    started: str
    targets: str
    judge: str
    source: str
    items: int
    shares: tuple[tuple[str, Share], ...]
    """Its pass rate over the items that all runs judged, by column; a single column has no name."""
    cost: str
    tokens: str
    latency: str
    notice: str


@dataclass(frozen=True, slots=True)
class TestedLine:
    """One test in a line of a table."""

    name: str
    items: int
    before: str
    after: str
    difference: str
    interval: str
    chance: str
    verdict: str
    direction: str
    """better, worse, or nothing if it is not shown or unknown."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A later run against the first."""

    letter: str
    sentence: str
    counts: tuple[tuple[Kind, str, int], ...]
    tests: tuple[TestedLine, ...]
    scatter: Scatter | None


@dataclass(frozen=True, slots=True)
class Spread:
    """How the scores of an evaluator spread in every run."""

    name: str
    means: tuple[tuple[str, str, int], ...]
    steps: Steps


@dataclass(frozen=True, slots=True)
class Versus:
    """A comparison above its cards."""

    runs: tuple[RunColumn, ...]
    population: str
    """Which answers the pass rates are over."""
    caveats: tuple[str, ...]
    pairs: tuple[Pair, ...]
    spreads: tuple[Spread, ...]
    categories: tuple[tuple[str, tuple[tuple[str, Share], ...]], ...]
    kinds: tuple[tuple[int, Kind, str, int], ...]
    """The kinds there are, by their place among all kinds."""
    names: tuple[str, ...]
    """The categories that can be filtered by."""
    evaluators: tuple[str, ...]
    columns: tuple[str, ...]
    items: int


def versus(reader: Reader, comparison: Comparison) -> Versus:
    """A comparison in numbers, ready to be shown."""
    groups, rates = list(by_item(comparison.lines, places_of(reader, comparison))), rate_rows(comparison)
    pairs = tuple(
        _pair(letter, place, difference, groups)
        for place, (letter, difference) in enumerate(zip(NAMES[1:], comparison.against, strict=False))
    )
    kinds = {kind for line in comparison.lines for kind in line.kinds if kind}
    return Versus(
        runs=tuple(
            _run_column(reader, side, [row for row in rates if row.letter == letter])
            for letter, side in zip(NAMES, comparison.sides, strict=False)
        ),
        population=population_sentence(comparison),
        caveats=(*usage_lines(comparison.sides), *label_lines(comparison.sides), *caveats(comparison)),
        pairs=pairs,
        spreads=tuple(_spreads(comparison.sides)),
        categories=tuple(_categories(comparison)),
        kinds=tuple((KINDS.index(k), k, KIND_LOOKS[k].glyph, _item_count(groups, k)) for k in KINDS if k in kinds),
        names=comparison.category_names,
        evaluators=comparison.evaluators,
        columns=tuple(dict.fromkeys(line.column for line in comparison.lines if line.column)),
        items=len(groups),
    )


def _categories(comparison: Comparison) -> Iterator[tuple[str, tuple[tuple[str, Share], ...]]]:
    for own in category_rates(comparison):
        yield category_name(comparison, own[0]), tuple((row.letter, _share(row)) for row in own)


def _share(row: RateRow) -> Share:
    """The pass rate of a run over the items that all judged."""
    figure = row.figure
    if figure is None:
        return Share(0, 0, "n/a", "", None)
    ends = figure.interval
    bar = meter(figure.value, ends.low, ends.high) if ends else None
    return Share(0, figure.items, f"{row.rate} of {row.items}", f"{interval_text(figure)} %", bar)


def _item_count(groups: Sequence[Sequence[ComparedLine]], kind: Kind) -> int:
    return sum(any(kind in line.kinds for line in group) for group in groups)


def _run_column(reader: Reader, side: RunSide, rates: Sequence[RateRow]) -> RunColumn:
    run, totals = side.run, reader.totals(side.run.id)
    known = walk_answers(reader, run)
    left = waiting_count(totals)
    waits = f"{counted(left, 'answer is', 'answers are')} not there or not judged yet" if left else ""
    reason = f"stopped: {stop_reason(run)}" if stop_reason(run) else ""
    return RunColumn(
        letter=rates[0].letter,
        name=side_name(side),
        key=run.key,
        started=universal_time(run.started or run.created),
        targets=", ".join(target_names(run)),
        judge=judge_name(run),
        source=run.source,
        items=known.items,
        shares=tuple((row.column if len(rates) > 1 else "", _share(row)) for row in rates),
        cost=run_cost(totals).text,
        tokens=f"{totals.input_tokens + totals.output_tokens:,}",
        latency=known.latency(),
        notice="; ".join(part for part in (reason, waits) if part),
    )


def _pair(letter: str, place: int, difference: RunDifference, groups: Sequence[Sequence[ComparedLine]]) -> Pair:
    counts = tuple((kind, KIND_LOOKS[kind].glyph, count) for kind in KINDS if (count := difference.counts.get(kind, 0)))
    tests = [_measured_test(difference.passes, "Items that pass")] if difference.passes.items else []
    tests += [_measured_test(test) for test in difference.tests]
    points = [pair for group in groups if (pair := _mean_scores(group, place + 1))]
    return Pair(
        letter=letter,
        sentence=difference_sentence(difference, "A", letter),
        counts=counts,
        tests=tuple(tests),
        scatter=scatter(points, "A", letter),
    )


def _mean_scores(group: Sequence[ComparedLine], later: int) -> tuple[float, float] | None:
    """The mean score of an item in the first run and in a later one, over the answers that both have."""
    pairs = [
        (first.score, after.score)
        for line in group
        if (first := line.answers[0])
        and (after := line.answers[later])
        and line.kinds[later - 1] in SHARED_KINDS
        and first.score is not None
        and after.score is not None
    ]
    return (fmean(before for before, _ in pairs), fmean(after for _, after in pairs)) if pairs else None


def _measured_test(test: MeasuredDifference, name: str = "") -> TestedLine:
    text = difference_text(test)
    return TestedLine(
        name=name or text.name,
        items=test.items,
        before=text.before,
        after=text.after,
        difference=text.difference,
        interval=text.interval,
        chance=text.chance,
        verdict=text.verdict,
        direction=direction(test),
    )


def _spreads(sides: Sequence[RunSide]) -> Iterator[Spread]:
    for key in sides[0].scores:
        scores = [side.scores.get(key, ()) for side in sides]
        if chart := steps(scores):
            means: defaultdict[str, tuple[str, int]] = defaultdict(lambda: ("n/a", 0))
            for letter, own in zip(NAMES, scores, strict=False):
                means[letter] = (mean_text(fmean(own) if own else None, sides[0].measures.get(key, "")), len(own))
            yield Spread(key, tuple((letter, *mean) for letter, mean in means.items()), chart)


_PAGE = 50
_FIRST_SEEN: tuple[Kind, ...] = ("broken", "fixed", "not comparable", "gone", "new", "changed", "same")


@dataclass(frozen=True, slots=True)
class SharedText:
    """A question or a reference with the letters of its runs; no letters if it is in all of them."""

    letters: str
    text: Text


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """The answer of one run."""

    letter: str
    answer: AnswerBlock | None
    kind: Kind | None
    """Its kind compared with the first run's answer."""
    alike: bool
    """Whether it equals the first run's answer."""
    where: str


@dataclass(frozen=True, slots=True)
class Facing:
    """One turn of one item, in every run."""

    name: str
    kind: Kind
    glyph: str
    prompts: tuple[SharedText, ...]
    references: tuple[SharedText, ...]
    sides: tuple[RunAnswer, ...]

    @property
    def where(self) -> str:
        """How to see its complete texts."""
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
    prompts: tuple[SharedText, ...]
    """The prompts, where they are the same for all its answers."""
    references: tuple[SharedText, ...]
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
    tokens = _Tokens(comparison.category_names, evaluators, columns)
    groups = enumerate(by_item(comparison.lines, places_of(reader, comparison)), 1)
    while page := list(islice(groups, _PAGE)):
        told = _told(reader, sources, [line for _, lines in page for line in lines])
        for place, lines in page:
            yield _card(place, lines, told, sources, tokens)


def _told(reader: Reader, sources: Sequence[Source], lines: Sequence[ComparedLine]) -> dict[int, AnswerDetail]:
    """The answers in these lines, by their ids."""
    told: dict[int, AnswerDetail] = {}
    for number, source in enumerate(sources):
        rows = reader.rows(answer.id for line in lines if (answer := line.answers[number]))
        told |= {one.row.id: one for one in read_details(reader, source.run, rows, requests=True)}
    return told


@dataclass(frozen=True, slots=True)
class _Tokens:
    categories: Sequence[str]
    evaluators: Sequence[str]
    columns: Sequence[str]

    def of(self, line: ComparedLine, sides: Iterable[RunAnswer]) -> str:
        """The filter tokens of a line."""
        failed = {score.key for side in sides if side.answer for score in side.answer.scores if score.result == "fail"}
        tokens = [f"k{KINDS.index(kind)}" for kind in dict.fromkeys(line.kinds) if kind]
        tokens += [f"c{self.categories.index(line.category)}"] if line.category in self.categories else []
        tokens += [f"t{self.columns.index(line.column)}"] if line.column in self.columns else []
        return " ".join([*tokens, *(f"e{place}" for place, key in enumerate(self.evaluators) if key in failed)])


def _card(
    place: int,
    lines: Sequence[ComparedLine],
    told: Mapping[int, AnswerDetail],
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
        f"compared {WITHOUT_CALLS}" if any(any(line.without_calls) for line in lines) else "",
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


def _facing(line: ComparedLine, told: Mapping[int, AnswerDetail], sources: Sequence[Source]) -> Facing:
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


def _unit(detail: AnswerDetail, source: Source) -> Mapping[str, Any]:
    item = source.items[detail.row.item]
    units: Sequence[Mapping[str, Any]] = item.get("turns") or [item]
    return units[detail.row.turn]


def _distinct_texts(texts: Sequence[str | None]) -> Iterator[SharedText]:
    """Every distinct text once, with the runs that have it."""
    places: dict[str, str] = {}
    for letter, text in zip(NAMES, texts, strict=False):
        if text and text.strip():
            places[text] = places.get(text, "") + letter
    for text, letters in places.items():
        if shown := optional(text):
            yield SharedText(letters if len(places) > 1 else "", shown)


def _sides(
    line: ComparedLine, details: Sequence[AnswerDetail | None], sources: Sequence[Source]
) -> Iterator[RunAnswer]:
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


def _only_other(details: Sequence[AnswerDetail | None]) -> str | None:
    """The answer that the first one is marked against, which there is where two runs are compared."""
    other = details[1] if len(details) == 2 else None
    return other.answer.text if other and other.answer else None
