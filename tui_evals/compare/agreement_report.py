"""What the agreement of people with evaluators comes to, in plain words for the terminal and the workbench alike."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from tui_evals.store.records import AnswerRow
from tui_evals.text.safe import safe_line

from .labels import Agreement, Disagreement, EvaluatorAgreement, kappa_in_words
from .statistics import percent, wilson

_MAX_REASON = 400  # characters of a reason that a list has room for
_ROUNDING_WIDTH = 1e-4  # an interval that is rounding error only


class AgreementLine(NamedTuple):
    """A line of what is told; the workbench and the terminal each draw it in their way."""

    text: str
    kind: Literal["", "title", "strong", "dim"] = ""
    indent: int = 0


def agreement_lines(standing: EvaluatorAgreement, key: str) -> Iterator[AgreementLine]:
    """How one evaluator stands to the labels of a run, given by its key."""
    name = standing.evaluator or "the verdict on the whole answer"
    yield AgreementLine(name[0].upper() + name[1:] if standing.evaluator is None else name, "title")
    if standing.whole:
        yield AgreementLine(
            f"No other evaluator has verdicts in this run, so {_count(standing.whole, 'label')} of whole answers "
            "stand for it too.",
            "dim",
        )
    yield from _left_out_lines(standing)
    found = standing.together
    if not found.n:
        yield AgreementLine("No labelled answer has a verdict that it could be compared with.")
        return
    for count, text in (
        (found.both_pass, "people say good, and it passes"),
        (found.both_fail, "people say bad, and it fails"),
        (found.only_person, "people say good, but it fails"),
        (found.only_judge, "people say bad, but it passes"),
    ):
        yield AgreementLine(f"{text:<32}{count:>6,}")
    agreed = found.both_pass + found.both_fail
    between = wilson(agreed, found.n)
    range_ = f", 95 % interval {percent(between.low, 0)} to {percent(between.high, 0)}" if between else ""
    yield AgreementLine(f"They agree on {agreed:,} of {_count(found.n, 'answer')} ({percent(found.observed)}{range_}).")
    yield AgreementLine(_kappa_sentence(found), "strong")
    if len(standing.authors) > 1:
        yield from (AgreementLine(f"{author}: {_agreement_summary(own)}") for author, own in standing.authors.items())
    for (one, other), own in standing.between.items():
        yield AgreementLine(f"{one} and {other} between them: {_agreement_summary(own)}")
    yield from _disagreement_lines(standing, key)


def all_agreement_lines(rows: Sequence[EvaluatorAgreement], key: str) -> Iterator[AgreementLine]:
    """All that was labelled of a run, with an empty line between evaluators."""
    for number, standing in enumerate(rows):
        if number:
            yield AgreementLine("")
        yield from agreement_lines(standing, key)


def agreement_json(standing: EvaluatorAgreement) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "evaluator": standing.evaluator,
        **_agreement_numbers(standing.together),
        "authors": {author: _agreement_numbers(own) for author, own in standing.authors.items()},
        "between": [{"authors": list(both), **_agreement_numbers(own)} for both, own in standing.between.items()],
        "people_differ": standing.torn,
        "not_judged": standing.unjudged,
        "labels_of_whole_answers": standing.whole,
        "not_blind": standing.seen,
        "disagreements": [_disagreement_json(one) for one in standing.disagreements],
    }


def _left_out_lines(standing: EvaluatorAgreement) -> Iterator[AgreementLine]:
    if standing.unjudged:
        have = "has" if standing.unjudged == 1 else "have"
        yield AgreementLine(f"{_count(standing.unjudged, 'labelled answer')} {have} no verdict: left out.", "dim")
    if standing.seen:
        were = "was" if standing.seen == 1 else "were"
        yield AgreementLine(
            f"{_count(standing.seen, 'label')} {were} given with the verdict in sight, which leads people to agree "
            "with it; `label --blind` keeps it out of sight.",
            "dim",
        )
    if standing.torn:
        yield AgreementLine(f"On {_count(standing.torn, 'answer')} people differ among themselves: left out.", "dim")


def _kappa_sentence(found: Agreement) -> str:
    """Kappa in a sentence, or why there is none."""
    if found.kappa is None:
        word = "good, and all pass" if found.both_pass else "bad, and all fail"
        return (
            f"Kappa is unknown: all are called {word}, so nothing shows that the evaluator can tell one from the other."
        )
    return f"Kappa {found.kappa:.2f}: {kappa_in_words(found.kappa)} agreement{_interval_text(found)}."


def _interval_text(found: Agreement) -> str:
    interval = found.interval
    if interval is None:
        return ""
    if interval.high - interval.low < _ROUNDING_WIDTH:
        return f" (no interval: {_why_no_width(found)})"
    return f" (95 % interval {max(interval.low, -1):.2f} to {min(interval.high, 1):.2f})"


def _why_no_width(found: Agreement) -> str:
    """Why an interval has no width, which must not be taken for certainty."""
    if found.observed in (0, 1):
        return f"there is not a single {'disagreement' if found.observed else 'agreement'}"
    steady = 0 in (found.both_pass + found.only_judge, found.both_fail + found.only_person)
    return f"{'the evaluator says' if steady else 'people say'} the same of every answer"


def _agreement_summary(found: Agreement) -> str:
    kappa = "kappa unknown" if found.kappa is None else f"kappa {found.kappa:.2f}, {kappa_in_words(found.kappa)}"
    return f"{_count(found.n, 'answer')}, {percent(found.observed)} agree, {kappa}"


def _disagreement_lines(standing: EvaluatorAgreement, key: str) -> Iterator[AgreementLine]:
    every = standing.together.only_person + standing.together.only_judge
    shown = standing.disagreements
    if not shown:
        return
    more = f" ({len(shown)} of {every:,})" if every > len(shown) else ""
    yield AgreementLine(f"Look at these first, where the evaluator was surest{more}:", "strong")
    for one in shown:
        yield AgreementLine(
            f"{_answer_name(one.row, one.column)}: people say {_good_or_bad(one.person)}, {_verdict_text(one)}", "", 2
        )
        if one.reason:
            yield AgreementLine(f"it says: {safe_line(one.reason, _MAX_REASON)}", "dim", 4)
        for label in one.labels:
            if label.note:
                yield AgreementLine(f"{label.author} says: {safe_line(label.note, _MAX_REASON)}", "dim", 4)
        yield AgreementLine(f"tui-evals show {key} --item {shlex.quote(one.row.name)}", "dim", 4)


def _answer_name(row: AnswerRow, column: str) -> str:
    """How an answer is named in a list."""
    turn = f"turn {row.turn + 1}" if row.turn else ""
    repeat = f"repeat {row.repeat + 1}" if row.repeat else ""
    return " · ".join(part for part in (safe_line(row.name, 60), turn, repeat, safe_line(column, 40)) if part)


def _good_or_bad(person: bool) -> str:
    return "good" if person else "bad"


def _verdict_text(one: Disagreement) -> str:
    verdict = one.verdict
    limit = "" if verdict.threshold is None else f" of at least {verdict.threshold:.3g}"
    score = "" if verdict.score is None else f" with {verdict.score:.3g}{limit}"
    return f"it {'passes' if verdict.passes else 'fails'}{score}"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _agreement_numbers(found: Agreement) -> dict[str, Any]:
    interval = found.interval
    return {
        "answers": found.n,
        "both_pass": found.both_pass,
        "both_fail": found.both_fail,
        "only_person_passes": found.only_person,
        "only_evaluator_passes": found.only_judge,
        "observed": found.observed,
        "kappa": found.kappa,
        "interval": None if interval is None else [interval.low, interval.high],
        "words": None if found.kappa is None else kappa_in_words(found.kappa),
    }


def _disagreement_json(one: Disagreement) -> dict[str, Any]:
    row, verdict = one.row, one.verdict
    return {
        "item": row.name,
        "turn": row.turn + 1,
        "repeat": row.repeat + 1,
        "target": one.column or None,
        "person": "pass" if one.person else "fail",
        "evaluator": "pass" if verdict.passes else "fail",
        "score": verdict.score,
        "threshold": verdict.threshold,
        "sure": verdict.sure,
        "reason": one.reason,
        "labels": [{"author": label.author, "verdict": label.verdict, "note": label.note} for label in one.labels],
    }
