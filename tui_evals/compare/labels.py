"""How well evaluators agree with the labels of people: counts, kappa, and the answers they judge differently."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt
from statistics import NormalDist

from tui_evals.store.figures import Judged
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.store.rows import Label

from .statistics import Interval

_KAPPA_LIMITS = (0.2, 0.4, 0.6, 0.8)
_KAPPA_WORDS = ("slight", "fair", "moderate", "substantial", "almost perfect")


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a person and the judge let the same answers pass."""

    both_pass: int
    both_fail: int
    only_person: int
    """The person passes what the judge fails."""
    only_judge: int
    """The judge passes what the person fails."""

    @property
    def n(self) -> int:
        """The answers that both judged."""
        return self.both_pass + self.both_fail + self.only_person + self.only_judge

    @property
    def observed(self) -> float | None:
        """The share of answers on which they agree."""
        return (self.both_pass + self.both_fail) / self.n if self.n else None

    @property
    def expected(self) -> float | None:
        """The share on which they would agree by chance, each passing as many as they did."""
        if not self.n:
            return None
        person, judge = self._passed()
        return (person * judge + (self.n - person) * (self.n - judge)) / self.n**2

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: how much of the agreement beyond chance there is; None when chance alone gives it all."""
        observed, expected = self.observed, self.expected
        if observed is None or expected is None or expected == 1:
            return None
        return (observed - expected) / (1 - expected)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of kappa by its standard error for large samples; it may reach past 1."""
        kappa, expected = self.kappa, self.expected
        if kappa is None or expected is None:
            return None
        person, judge = (passed / self.n for passed in self._passed())
        left = 1 - kappa
        agree = (
            self.both_pass * (1 - (person + judge) * left) ** 2
            + self.both_fail * (1 - (2 - person - judge) * left) ** 2
        ) / self.n
        differ = self.only_person * (judge + 1 - person) ** 2 + self.only_judge * (person + 1 - judge) ** 2
        variance = agree + left**2 * differ / self.n - (kappa - expected * left) ** 2
        half = NormalDist().inv_cdf(0.975) * sqrt(max(0.0, variance) / self.n) / (1 - expected)
        return Interval(kappa - half, kappa + half)

    def _passed(self) -> tuple[int, int]:
        return self.both_pass + self.only_person, self.both_pass + self.only_judge


def count_agreement(pairs: Iterable[tuple[bool, bool]]) -> Agreement:
    """Count pairs of verdicts on one answer each: whether the person passes it, and whether the judge does."""
    counts = Counter(pairs)
    return Agreement(counts[True, True], counts[False, False], counts[True, False], counts[False, True])


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
    """Labels of whole answers that stand for the evaluator, because it is the only one of the run."""
    not_blind: int
    """Labels that were given with what evaluators said in sight."""
    disagreements: tuple[Disagreement, ...]
    """Those where the evaluator was surest first."""


def evaluator_agreements(
    reader: Reader, run: RunRow, evaluator: str | None = None, limit: int = 10
) -> list[EvaluatorAgreement]:
    """Everything that was labelled, whole answers first, or one evaluator; with the first of the disagreements."""
    labels, judged = reader.labels(run.id), list(reader.judged(run.id))
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
    """The evaluators that people have labelled, by key; None, which comes first, stands for whole answers."""
    keys = {one.evaluator for one in labels}
    if None in keys and only is not None and only not in keys:
        verdicts = _evaluator_judgements(judged, only)
        # Where it decides alone, to say the same of it and of the whole answer would be to say it twice.
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
    authors: defaultdict[str, list[tuple[bool, bool]]] = defaultdict(list)
    between: defaultdict[tuple[str, str], list[tuple[bool, bool]]] = defaultdict(list)
    pairs, differ, torn, unjudged = [], [], 0, 0
    for answer in sorted(by_answer.keys() & rows.keys(), key=lambda one: rows[one].pos):
        passes_by_author = {author: label.verdict == "pass" for author, label in sorted(by_answer[answer].items())}
        for one, other in combinations(passes_by_author, 2):
            between[one, other].append((passes_by_author[one], passes_by_author[other]))
        verdict = verdicts.get(answer)
        if verdict is None:
            unjudged += 1
            continue
        for author, passes in passes_by_author.items():
            authors[author].append((passes, verdict.passes))
        if len(set(passes_by_author.values())) > 1:
            torn += 1
            continue
        person = next(iter(passes_by_author.values()))
        pairs.append((person, verdict.passes))
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
    """The verdicts of an evaluator; more certain, the further a score lies from its threshold within its range."""
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
    """The disagreements with what the evaluators said."""
    scores = reader.scores_of([one.row.id for one in disagreements], run.scoring_pass) if disagreements else {}
    return tuple(
        replace(one, reason=_reason(scores.get(one.row.id, ()), key, one.verdict.passes)) for one in disagreements
    )


def _reason(records: Iterable[ScoreRecord], key: str | None, passes: bool) -> str:
    if key is not None:
        return next((one.reason for one in records if one.key == key), "")
    result = "pass" if passes else "fail"
    return "; ".join(f"{one.key}: {one.reason}" for one in records if one.result == result and one.reason)
