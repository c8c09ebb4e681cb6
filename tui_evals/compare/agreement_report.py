"""How people agree with evaluators, as lines for the terminal and the workbench and as data."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from tui_evals.store.records import AnswerRow
from tui_evals.text.measures import score_figures
from tui_evals.text.safe import safe_line

from .labels import Agreement, Disagreement, EvaluatorAgreement, kappa_in_words
from .statistics import percent, wilson

_MAX_REASON = 400  # characters of a reason that a list has room for
_ROUNDING_WIDTH = 1e-4  # an interval that is rounding error only


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
            "answers stand for it too.",
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
    between = wilson(agreed, agreement.n)
    range_ = f", 95 % interval {percent(between.low, 0)} to {percent(between.high, 0)}" if between else ""
    yield AgreementLine(
        f"They agree on {agreed:,} of {_count(agreement.n, 'answer')} ({percent(agreement.observed)}{range_})."
    )
    yield AgreementLine(_kappa_sentence(agreement), "strong")
    if len(evaluator.authors) > 1:
        yield from (AgreementLine(f"{author}: {_agreement_summary(own)}") for author, own in evaluator.authors.items())
    for (one, other), own in evaluator.between.items():
        yield AgreementLine(f"{one} and {other} between them: {_agreement_summary(own)}")
    yield from _disagreement_lines(evaluator, key)


def all_agreement_lines(rows: Sequence[EvaluatorAgreement], key: str) -> Iterator[AgreementLine]:
    """All that was labelled of a run, with an empty line between evaluators."""
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
    interval = agreement.interval
    if interval is None:
        return ""
    if interval.high - interval.low < _ROUNDING_WIDTH:
        return f" (no interval: {_why_no_width(agreement)})"
    return f" (95 % interval {max(interval.low, -1):.2f} to {min(interval.high, 1):.2f})"


def _why_no_width(agreement: Agreement) -> str:
    """Why an interval has no width, which must not be taken for certainty."""
    if agreement.observed in (0, 1):
        return f"there is not a single {'disagreement' if agreement.observed else 'agreement'}"
    steady = 0 in (agreement.both_pass + agreement.only_judge, agreement.both_fail + agreement.only_person)
    return f"{'the evaluator says' if steady else 'people say'} the same of every answer"


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
