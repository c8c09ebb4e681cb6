"""How well evaluators agree with the labels of people: counts, kappa, and the answers they judge differently."""

from __future__ import annotations

import shlex
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations
from math import sqrt
from typing import Any, Literal, NamedTuple

from tui_evals.figures import MORE_ITEMS, NORMAL_95, Figure, Interval, Sample, pass_rate, percent
from tui_evals.light_records import dataclass
from tui_evals.store import run_figures
from tui_evals.store.details import scores_of
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.store.rows import Label
from tui_evals.store.run_figures import Judged
from tui_evals.text.measures import score_figures
from tui_evals.text.safe import safe_line

_KAPPA_LIMITS = (0.2, 0.4, 0.6, 0.8)
_KAPPA_WORDS = ("slight", "fair", "moderate", "substantial", "almost perfect")


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a person and the judge agree on answers."""

    both_pass: int
    both_fail: int
    only_person: int
    """The person passes and the judge fails."""
    only_judge: int
    """The judge passes and the person fails."""
    items: int = field(default=0, compare=False)
    """The items these answers belong to; 0 where each is to an item of its own."""
    products: tuple[tuple[int, ...], ...] = field(default=(), compare=False)
    """The sum over items of the product of each two of the four counts; intervals by item need these."""

    @classmethod
    def of_items(cls, items: Iterable[Sequence[int]]) -> Agreement:
        """The agreement on items, each given by its four counts in the order of the fields."""
        own = [counts for counts in items if any(counts)]
        both_pass, both_fail, only_person, only_judge = (sum(one[place] for one in own) for place in range(4))
        products = tuple(tuple(sum(one[a] * one[b] for one in own) for b in range(4)) for a in range(4))
        return cls(both_pass, both_fail, only_person, only_judge, len(own), products)

    @property
    def n(self) -> int:
        """The answers that both judged."""
        return sum(self._counts)

    @property
    def observed(self) -> float | None:
        """The share of answers on which they agree."""
        return (self.both_pass + self.both_fail) / self.n if self.n else None

    @property
    def observed_figure(self) -> Figure | None:
        """The observed agreement with its interval by item."""
        products, agree = self._products, (0, 1)
        return pass_rate(
            Sample(
                items=self.items or self.n,
                answers=self.n,
                total=self.both_pass + self.both_fail,
                squares=sum(products[a][b] for a in agree for b in agree),
                cross=sum(sum(products[a]) for a in agree),
                sizes=sum(map(sum, products)),
            ),
            "labelled",
        )

    @property
    def expected(self) -> float | None:
        """The share on which they would agree by chance, each passing as many as they did."""
        return _by_chance(self._counts) if self.n else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: how much of the agreement beyond chance there is; None when chance alone gives it all."""
        observed, expected = self.observed, self.expected
        if observed is None or expected is None or expected == 1:
            return None
        return (observed - expected) / (1 - expected)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of kappa by item; three more items, spread evenly over the four counts, keep it honest."""
        if self.kappa is None:
            return None
        sizes = sum(map(sum, self._products))
        size = sizes / self.n
        share = MORE_ITEMS * size / 4
        counts = [count + share for count in self._counts]
        answers, expected = sum(counts), _by_chance(counts)
        kappa = ((counts[0] + counts[1]) / answers - expected) / (1 - expected)
        pulls = _pulls_on_kappa(counts)
        spread = sum(one * other * self._products[a][b] for a, one in enumerate(pulls) for b, other in enumerate(pulls))
        spread += share * size * sum(pull * pull for pull in pulls)
        reach = NORMAL_95 * sqrt(max(spread, 0.0) / (answers * answers - sizes - MORE_ITEMS * size * size))
        return Interval(max(kappa - reach, -1.0), min(kappa + reach, 1.0))

    @property
    def _counts(self) -> tuple[int, int, int, int]:
        return self.both_pass, self.both_fail, self.only_person, self.only_judge

    @property
    def _products(self) -> tuple[tuple[int, ...], ...]:
        counts = self._counts
        return self.products or tuple(tuple(counts[a] if a == b else 0 for b in range(4)) for a in range(4))


def _by_chance(counts: Sequence[float]) -> float:
    """The share of agreement that two would reach by chance who pass as many as these."""
    both_pass, _, only_person, only_judge = counts
    person, judge, answers = both_pass + only_person, both_pass + only_judge, sum(counts)
    return (person * judge + (answers - person) * (answers - judge)) / answers**2


def _pulls_on_kappa(counts: Sequence[float]) -> list[float]:
    """How far one more answer of each count moves kappa, times the number of answers."""
    both_pass, both_fail, only_person, only_judge = counts
    answers = sum(counts)
    observed, expected = (both_pass + both_fail) / answers, _by_chance(counts)
    person, judge = (both_pass + only_person) / answers, (both_pass + only_judge) / answers
    pulls = []
    for agrees, person_passes, judge_passes in ((1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1)):
        by_chance = (2 * judge - 1) * (person_passes - person) + (2 * person - 1) * (judge_passes - judge)
        pulls.append(((agrees - observed) * (1 - expected) - (1 - observed) * by_chance) / (1 - expected) ** 2)
    return pulls


def count_agreement(judged: Iterable[tuple[Hashable, bool, bool]]) -> Agreement:
    """Count verdicts on answers: the item of each, whether the person passes it, and whether the judge does."""
    places = {(True, True): 0, (False, False): 1, (True, False): 2, (False, True): 3}
    by_item: defaultdict[Hashable, list[int]] = defaultdict(lambda: [0] * 4)
    for item, person, judge in judged:
        by_item[item][places[person, judge]] += 1
    return Agreement.of_items(by_item.values())


def kappa_in_words(kappa: float) -> str:
    """A kappa in plain words, by the two decimals that are shown of it.

    Below 0 poor, to 0.20 slight, to 0.40 fair, to 0.60 moderate, to 0.80 substantial, above it almost perfect.
    """
    shown = round(kappa, 2)
    return "poor" if shown < 0 else _KAPPA_WORDS[bisect_left(_KAPPA_LIMITS, shown)]


_VERDICTS = ("pass", "fail")


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of an evaluator on an answer, and how certain it was, from 0 to 1."""

    passes: bool
    score: float | None
    threshold: float | None
    certainty: float
    measure: str = ""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An answer that people and an evaluator judge differently."""

    row: AnswerRow
    column: str
    """The target, where the run has several."""
    person: bool
    """Whether people say that it is good."""
    verdict: Judgement
    labels: tuple[Label, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EvaluatorAgreement:
    """How one evaluator agrees with people; without a name, how the verdict on whole answers does."""

    evaluator: str | None
    agreement: Agreement
    """One pair for each answer on which people agree."""
    authors: Mapping[str, Agreement]
    between: Mapping[tuple[str, str], Agreement]
    """Two authors on what both of them labelled, the first one as the person."""
    people_differ: int
    """Answers on which people differ among themselves."""
    unjudged: int
    """Answers with a label but without a verdict."""
    whole_labels: int
    """Labels of whole answers that count for the evaluator, because it is the only one of the run."""
    not_blind: int
    """Labels given while the verdicts of evaluators were visible."""
    disagreements: tuple[Disagreement, ...]
    """The disagreements, starting with those where the evaluator was most certain."""


def evaluator_agreements(
    reader: Reader, run: RunRow, evaluator: str | None = None, limit: int = 10
) -> list[EvaluatorAgreement]:
    """Everything that was labelled, whole answers first, or one evaluator; with the first of the disagreements."""
    labels, judged = reader.labels(run.id), list(run_figures.judged(reader, run.id))
    rows = {row.id: row for row in reader.rows(dict.fromkeys(one.answer for one in labels))}
    only = _only_evaluator(judged)
    whole = _answer_judgements(judged, rows)
    agreements = []
    for key in [evaluator] if evaluator is not None else _labelled_evaluators(labels, only, whole, judged):
        own_labels = [one for one in labels if one.evaluator == key]
        labelled = {(one.answer, one.author) for one in own_labels}
        whole_labels = [one for one in labels if one.evaluator is None and (one.answer, one.author) not in labelled]
        borrowed = whole_labels if key is not None and key == only else []
        verdicts = whole if key is None else _evaluator_judgements(judged, key)
        agreement = _evaluator_agreement(key, [*own_labels, *borrowed], verdicts, rows, run.targets)
        shown = _with_reasons(reader, run, key, agreement.disagreements[:limit])
        not_blind = sum(not one.blind for one in (*own_labels, *borrowed))
        agreements.append(replace(agreement, whole_labels=len(borrowed), not_blind=not_blind, disagreements=shown))
    return agreements


def _labelled_evaluators(
    labels: Iterable[Label], only: str | None, whole: Mapping[int, Judgement], judged: Iterable[Judged]
) -> list[str | None]:
    """The keys of evaluators that people have labelled, after None for whole answers."""
    keys = {one.evaluator for one in labels}
    if None in keys and only is not None and only not in keys:
        verdicts = _evaluator_judgements(judged, only)
        # If it alone decides, its row would repeat that of the whole answer.
        if all(verdicts[answer].passes == one.passes for answer, one in whole.items() if answer in verdicts):
            keys.remove(None)
        keys.add(only)
    return sorted(keys, key=lambda key: (key is not None, key or ""))


def _evaluator_agreement(
    evaluator: str | None,
    labels: Iterable[Label],
    verdicts: Mapping[int, Judgement],
    rows: Mapping[int, AnswerRow],
    targets: Sequence[str],
) -> EvaluatorAgreement:
    by_answer: defaultdict[int, dict[str, Label]] = defaultdict(dict)
    for label in labels:
        by_answer[label.answer][label.author] = label
    authors: defaultdict[str, list[tuple[int, bool, bool]]] = defaultdict(list)
    between: defaultdict[tuple[str, str], list[tuple[int, bool, bool]]] = defaultdict(list)
    pairs, differ, torn, unjudged = [], [], 0, 0
    for answer in sorted(by_answer.keys() & rows.keys(), key=lambda one: rows[one].pos):
        item = rows[answer].item
        passes_by_author = {author: label.verdict == "pass" for author, label in sorted(by_answer[answer].items())}
        for one, other in combinations(passes_by_author, 2):
            between[one, other].append((item, passes_by_author[one], passes_by_author[other]))
        verdict = verdicts.get(answer)
        if verdict is None:
            unjudged += 1
            continue
        for author, passes in passes_by_author.items():
            authors[author].append((item, passes, verdict.passes))
        if len(set(passes_by_author.values())) > 1:
            torn += 1
            continue
        person = next(iter(passes_by_author.values()))
        pairs.append((item, person, verdict.passes))
        if person != verdict.passes:
            row = rows[answer]
            column = targets[row.target] if len(targets) > 1 else ""
            differ.append(Disagreement(row, column, person, verdict, tuple(by_answer[answer].values())))
    return EvaluatorAgreement(
        evaluator,
        count_agreement(pairs),
        {author: count_agreement(author_pairs) for author, author_pairs in sorted(authors.items())},
        {both: count_agreement(author_pairs) for both, author_pairs in sorted(between.items())},
        torn,
        unjudged,
        0,
        0,
        tuple(sorted(differ, key=lambda one: -one.verdict.certainty)),
    )


def _only_evaluator(judged: Iterable[Judged]) -> str | None:
    """The evaluator that alone has verdicts in a run; None where there are several, or none."""
    keys = {one.key for one in judged if one.result in _VERDICTS}
    return keys.pop() if len(keys) == 1 else None


def _evaluator_judgements(judged: Iterable[Judged], key: str) -> dict[int, Judgement]:
    """The verdicts of an evaluator; the further a score is from its threshold, the more certain."""
    records = [one for one in judged if one.key == key]
    values = [value for one in records for value in (one.score, one.threshold) if value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    judgements = {}
    for one in records:
        if one.result in _VERDICTS:
            limit = (low + high) / 2 if one.threshold is None else one.threshold
            certainty = abs(one.score - limit) / (high - low) if one.score is not None and high > low else 0.0
            judgements[one.answer] = Judgement(one.result == "pass", one.score, one.threshold, certainty, one.measure)
    return judgements


def _answer_judgements(judged: Sequence[Judged], rows: Mapping[int, AnswerRow]) -> dict[int, Judgement]:
    """The verdicts on whole answers: one evaluator is enough for a fail, and it takes all of them for a pass."""
    certainties: defaultdict[tuple[int, bool], list[float]] = defaultdict(list)
    for key in {one.key for one in judged}:
        for answer, verdict in _evaluator_judgements(judged, key).items():
            certainties[answer, verdict.passes].append(verdict.certainty)
    judgements = {}
    for answer, row in rows.items():
        passes = row.status == "pass"
        if row.status in _VERDICTS and (own := certainties.get((answer, passes))):
            judgements[answer] = Judgement(passes, row.score, None, min(own) if passes else max(own))
    return judgements


def _with_reasons(
    reader: Reader, run: RunRow, key: str | None, disagreements: Sequence[Disagreement]
) -> tuple[Disagreement, ...]:
    """The disagreements with the reasons of the evaluators."""
    scores = scores_of(reader, [one.row.id for one in disagreements], run.scoring_pass) if disagreements else {}
    return tuple(
        replace(one, reason=_reason(scores.get(one.row.id, ()), key, one.verdict.passes)) for one in disagreements
    )


def _reason(records: Iterable[ScoreRecord], key: str | None, passes: bool) -> str:
    if key is not None:
        return next((one.reason for one in records if one.key == key), "")
    result = "pass" if passes else "fail"
    return "; ".join(f"{one.key}: {one.reason}" for one in records if one.result == result and one.reason)


_MAX_REASON = 400  # characters of a reason that a list has room for


class AgreementLine(NamedTuple):
    """A line of the report; the workbench and the terminal each style it by its kind."""

    text: str
    kind: Literal["", "title", "strong", "dim"] = ""
    indent: int = 0


def agreement_lines(evaluator: EvaluatorAgreement, key: str) -> Iterator[AgreementLine]:
    """How one evaluator agrees with the labels of a run, given by its key."""
    name = evaluator.evaluator or "the verdict on the whole answer"
    yield AgreementLine(name[0].upper() + name[1:] if evaluator.evaluator is None else name, "title")
    if evaluator.whole_labels:
        yield AgreementLine(
            f"No other evaluator has verdicts in this run, so {_count(evaluator.whole_labels, 'label')} of whole "
            "answers count for it too.",
            "dim",
        )
    yield from _left_out_lines(evaluator)
    agreement = evaluator.agreement
    if not agreement.n:
        yield AgreementLine("No labelled answer has a verdict that it could be compared with.")
        return
    for count, text in (
        (agreement.both_pass, "people say good, and it passes"),
        (agreement.both_fail, "people say bad, and it fails"),
        (agreement.only_person, "people say good, but it fails"),
        (agreement.only_judge, "people say bad, but it passes"),
    ):
        yield AgreementLine(f"{text:<32}{count:>6,}")
    agreed = agreement.both_pass + agreement.both_fail
    ends = agreement.observed_figure and agreement.observed_figure.interval
    range_ = f", 95 % interval {percent(ends.low, 0)} to {percent(ends.high, 0)}" if ends else ""
    yield AgreementLine(f"They agree on {agreed:,} of {_answers(agreement)} ({percent(agreement.observed)}{range_}).")
    yield AgreementLine(_kappa_sentence(agreement), "strong")
    if len(evaluator.authors) > 1:
        yield from (AgreementLine(f"{author}: {_agreement_summary(own)}") for author, own in evaluator.authors.items())
    for (one, other), own in evaluator.between.items():
        yield AgreementLine(f"{one} and {other} between them: {_agreement_summary(own)}")
    yield from _disagreement_lines(evaluator, key)


def all_agreement_lines(rows: Sequence[EvaluatorAgreement], key: str) -> Iterator[AgreementLine]:
    """The agreement of all labels in a run, with an empty line between evaluators."""
    for number, evaluator in enumerate(rows):
        if number:
            yield AgreementLine("")
        yield from agreement_lines(evaluator, key)


def agreement_json(evaluator: EvaluatorAgreement) -> dict[str, Any]:
    """The agreement as data."""
    return {
        "evaluator": evaluator.evaluator,
        **_agreement_numbers(evaluator.agreement),
        "authors": {author: _agreement_numbers(own) for author, own in evaluator.authors.items()},
        "between": [{"authors": list(both), **_agreement_numbers(own)} for both, own in evaluator.between.items()],
        "people_differ": evaluator.people_differ,
        "not_judged": evaluator.unjudged,
        "labels_of_whole_answers": evaluator.whole_labels,
        "not_blind": evaluator.not_blind,
        "disagreements": [_disagreement_json(one) for one in evaluator.disagreements],
    }


def _left_out_lines(evaluator: EvaluatorAgreement) -> Iterator[AgreementLine]:
    if evaluator.unjudged:
        have = "has" if evaluator.unjudged == 1 else "have"
        yield AgreementLine(f"{_count(evaluator.unjudged, 'labelled answer')} {have} no verdict: left out.", "dim")
    if evaluator.not_blind:
        were = "was" if evaluator.not_blind == 1 else "were"
        yield AgreementLine(
            f"{_count(evaluator.not_blind, 'label')} {were} given with the verdict in sight, which leads people to "
            "agree with it; `label --blind` keeps it out of sight.",
            "dim",
        )
    if evaluator.people_differ:
        answers = _count(evaluator.people_differ, "answer")
        yield AgreementLine(f"On {answers} people differ among themselves: left out.", "dim")


def _kappa_sentence(agreement: Agreement) -> str:
    """Kappa in a sentence, or why there is none."""
    if agreement.kappa is None:
        word = "good, and all pass" if agreement.both_pass else "bad, and all fail"
        return (
            f"Kappa is unknown: all are called {word}, so nothing shows that the evaluator can tell one from the other."
        )
    return f"Kappa {agreement.kappa:.2f}: {kappa_in_words(agreement.kappa)} agreement{_interval_text(agreement)}."


def _interval_text(agreement: Agreement) -> str:
    ends = agreement.interval
    return "" if ends is None else f" (95 % interval {ends.low:.2f} to {ends.high:.2f})"


def _answers(agreement: Agreement) -> str:
    """How many answers, and to how many items where these have several."""
    items = agreement.items or agreement.n
    of_items = "" if items == agreement.n else f" to {_count(items, 'item')}"
    return f"{_count(agreement.n, 'answer')}{of_items}"


def _agreement_summary(agreement: Agreement) -> str:
    kappa = (
        "kappa unknown"
        if agreement.kappa is None
        else f"kappa {agreement.kappa:.2f}, {kappa_in_words(agreement.kappa)}"
    )
    return f"{_count(agreement.n, 'answer')}, {percent(agreement.observed)} agree, {kappa}"


def _disagreement_lines(evaluator: EvaluatorAgreement, key: str) -> Iterator[AgreementLine]:
    total = evaluator.agreement.only_person + evaluator.agreement.only_judge
    shown = evaluator.disagreements
    if not shown:
        return
    more = f" ({len(shown)} of {total:,})" if total > len(shown) else ""
    yield AgreementLine(f"Look at these first, where the evaluator was surest{more}:", "strong")
    for disagreement in shown:
        name = _answer_name(disagreement.row, disagreement.column)
        people = f"people say {_good_or_bad(disagreement.person)}"
        yield AgreementLine(f"{name}: {people}, {_verdict_text(disagreement)}", "", 2)
        if disagreement.reason:
            yield AgreementLine(f"it says: {safe_line(disagreement.reason, _MAX_REASON)}", "dim", 4)
        for label in disagreement.labels:
            if label.note:
                yield AgreementLine(f"{label.author} says: {safe_line(label.note, _MAX_REASON)}", "dim", 4)
        yield AgreementLine(f"tui-evals show {key} --item {shlex.quote(disagreement.row.name)}", "dim", 4)


def _answer_name(row: AnswerRow, column: str) -> str:
    """How an answer is named in a list."""
    turn = f"turn {row.turn + 1}" if row.turn else ""
    repeat = f"repeat {row.repeat + 1}" if row.repeat else ""
    return " · ".join(part for part in (safe_line(row.name, 60), turn, repeat, safe_line(column, 40)) if part)


def _good_or_bad(person: bool) -> str:
    return "good" if person else "bad"


def _verdict_text(disagreement: Disagreement) -> str:
    verdict = disagreement.verdict
    result = "pass" if verdict.passes else "fail"
    figures = score_figures(verdict.score, verdict.threshold, result, verdict.measure)
    score = f" with {figures}" if figures else ""
    return f"it {'passes' if verdict.passes else 'fails'}{score}"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _agreement_numbers(agreement: Agreement) -> dict[str, Any]:
    interval = agreement.interval
    return {
        "answers": agreement.n,
        "items": agreement.items or agreement.n,
        "both_pass": agreement.both_pass,
        "both_fail": agreement.both_fail,
        "only_person_passes": agreement.only_person,
        "only_evaluator_passes": agreement.only_judge,
        "observed": agreement.observed,
        "kappa": agreement.kappa,
        "interval": None if interval is None else [interval.low, interval.high],
        "words": None if agreement.kappa is None else kappa_in_words(agreement.kappa),
    }


def _disagreement_json(disagreement: Disagreement) -> dict[str, Any]:
    row, verdict = disagreement.row, disagreement.verdict
    return {
        "item": row.name,
        "turn": row.turn + 1,
        "repeat": row.repeat + 1,
        "target": disagreement.column or None,
        "person": "pass" if disagreement.person else "fail",
        "evaluator": "pass" if verdict.passes else "fail",
        "score": verdict.score,
        "threshold": verdict.threshold,
        "sure": verdict.certainty,
        "reason": disagreement.reason,
        "labels": [
            {"author": label.author, "verdict": label.verdict, "note": label.note} for label in disagreement.labels
        ],
    }
