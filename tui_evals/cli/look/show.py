"""`tui-evals show`: a run, the totals of its groups, or one item of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tui_evals.cli import project
from tui_evals.cli.output import Stop, cell, colour, columns, say, say_json
from tui_evals.cli.run.finishing import say_causes
from tui_evals.cli.run.standing import baseline_notes
from tui_evals.present.answers import (
    answer_facts,
    answer_reason,
    attempt_text,
    earlier_text,
    error_text,
    expected_text,
    missing_text,
    opinion,
    preview_text,
    prompt_text,
    score_text,
)
from tui_evals.present.causes import cause_texts
from tui_evals.present.columns import cell_width, elide, fit, table
from tui_evals.present.figures import mean_text
from tui_evals.present.measures import (
    distribution,
    run_measures,
    skipped_sentence,
    target_measures,
)
from tui_evals.present.pace import wait_sentence
from tui_evals.present.runs import (
    change_lines,
    destination_lines,
    overshoot_sentence,
    run_data,
    run_facts,
    standing_data,
    totals_sentence,
)
from tui_evals.present.status import ANSWER_LOOKS, result_look
from tui_evals.present.steps import transcript
from tui_evals.runs.status import DESTINATIONS, GENERATION
from tui_evals.store.filters import parse_filter
from tui_evals.store.grid import GridOrder
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.store.rows import Detail, EarlierAttempt, EvaluatorMean, expected_item, rejudged_now

from .grid import show_grid
from .runs import generation_figures

_NAME, _TARGET = 40, 24
"""Cells of the longest name of an item and of a target."""


By = Literal["category", "target", "prompt", "evaluator", "repeats"]


def show(
    word: str,
    *,
    item: str | None,
    only: str | None,
    by: By | None,
    grid: bool,
    order: GridOrder,
    limit: int,
    as_json: bool,
) -> None:
    """A run with its first answers, as a grid, or one item of it."""
    if order != "plan" and not grid:
        raise Stop("--sort orders the rows of a grid; add --grid")
    if grid and (item is not None or by is not None):
        raise Stop("--grid shows every item in every column; leave --item and --by out, or --grid")
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if grid:
            show_grid(reader, run, project.filter_or_stop(only), order, limit, as_json)
        elif item is not None:
            _show_item(reader, run, item, as_json)
        elif by is not None:
            _show_by(reader, run, by, as_json)
        else:
            _show_run(reader, run, only, limit, as_json)


def _show_run(reader: Reader, run: RunRow, only: str | None, limit: int, as_json: bool) -> None:
    ids = reader.ids(run.id, project.filter_or_stop(only))
    rows = reader.rows(ids if as_json else ids[:limit])
    totals, unpriced = reader.totals(run.id), reader.spent(run.id)[1]
    reasons, causes = _reasons(reader, run, rows), reader.causes(run.id)
    if as_json:
        standing = standing_data(run, totals, unpriced)
        told = [one.data for one in cause_texts(run, causes)]
        answers = [{**asdict(row), "reason": reasons.get(row.id)} for row in rows]
        skipped = reader.skipped(run.id)
        say_json({"run": run_data(run), **standing, "causes": told, "skipped": skipped, "answers": answers})
        return
    measures = target_measures(reader, run, totals)
    about = run_facts(run, totals, unpriced, run_measures(reader, run, totals))
    say(f"{run.key}  {run.name}  {about.headline}", bold=True)
    why = about.reason or wait_sentence(run, time.time()) or overshoot_sentence(run, totals)
    for line in (why, about.next_step, about.verdict, about.rejudged):
        if line:
            say(line, fg=colour(about.look.tone))
    if GENERATION in run.config:
        wrote, folder = generation_figures(reader, run), run.config[GENERATION]["folder"]
        say(f"it {wrote} into {folder} and has no answers of its own")
    by_target = reader.totals_by(run.id, "target")
    alone = len(by_target) == 1
    differences = baseline_notes(reader, run)
    for target, target_totals in by_target.items():
        given = measures.get(target, ())
        says = totals_sentence(run, target_totals, unpriced if alone else 0, given, whole=alone)
        say(f"{run.targets[target]}: {says}")
        if target in differences:
            say(f"    {differences[target]}")
    if len(by_target) > 1:
        say(f"all {len(by_target)} targets: {about.sentence}")
    if skipped_line := skipped_sentence(reader.skipped(run.id)):
        say(skipped_line)
    for line in destination_lines(run.config.get(DESTINATIONS)):
        say(line, dim=True)
    for line in change_lines(run):
        say(line, dim=True)
    if only is None:
        say_causes(run, causes)
    shape = answer_columns(rows, {run.id: run})
    for row in rows:
        say_row(row, run, shape, reason=reasons.get(row.id, ""))
    if left := len(ids) - len(rows):
        say(f"{left:,} more; `--limit {len(ids)}` shows all, `--only` those that a filter finds", dim=True)


def _reasons(reader: Reader, run: RunRow, rows: Sequence[AnswerRow]) -> dict[int, str]:
    """Why each of the answers that did not pass did not, in the words of the error or of one evaluator."""
    bad = [row for row in rows if row.status not in ("pass", "pending", "running", "answered")]
    scores, messages = reader.scores_of([row.id for row in bad], run.scoring_pass), reader.messages(run.id)
    reasons = {row.id: answer_reason(messages.get(row.id, ""), scores.get(row.id, ())) for row in bad}
    return {answer: reason for answer, reason in reasons.items() if reason}


@dataclass(frozen=True, slots=True)
class AnswerColumns:
    """How wide the columns of a list of answers are; 0 for one in which nothing stands."""

    status: int
    name: int
    score: int
    target: int


def answer_columns(rows: Sequence[AnswerRow], runs: Mapping[int, RunRow]) -> AnswerColumns:
    """Columns as wide as what stands in them."""
    cells = [("", "", "", ""), *(_answer_cells(row, runs[row.run]) for row in rows)]
    return AnswerColumns(*(max(map(cell_width, column)) for column in zip(*cells, strict=True)))


def _answer_cells(row: AnswerRow, run: RunRow) -> tuple[str, str, str, str]:
    turn = f".{row.turn + 1}" if row.turn else ""
    repeat = f" ×{row.repeat + 1}" if row.repeat else ""
    name = elide(row.name, _NAME) + turn + repeat
    score = "" if row.score is None else f"{row.score:.0f}"
    target = elide(run.targets[row.target], _TARGET) if len(run.targets) > 1 else ""
    return ANSWER_LOOKS[row.status].text, name, score, target


def say_row(row: AnswerRow, run: RunRow, shape: AnswerColumns, lead: str = "", reason: str = "") -> None:
    """One answer in a line, and why it did not pass in a second; an error is its own reason."""
    look = ANSWER_LOOKS[row.status]
    status, name, score, target = _answer_cells(row, run)
    parts = (
        fit(status, shape.status),
        fit(name, shape.name),
        fit(score, shape.score, right=True),
        fit(target, shape.target),
    )
    before = lead + "  ".join(filter(None, parts)) + "  "
    room = max((columns() or 130) - cell_width(before) - 1, 20)
    ending = f"[{row.ending}] " if row.ending else ""
    text = reason if row.code and reason else preview_text(row)
    say(before + cell(ending + text, room), fg=colour(look.tone))
    if reason and not row.code:
        say(f"    {cell(reason, (columns() or 130) - 5)}", dim=True)


def _show_by(reader: Reader, run: RunRow, by: By, as_json: bool) -> None:
    if by == "repeats":
        from .repeats import show_repeats

        show_repeats(reader, run, as_json)
        return
    if by == "evaluator":
        means = reader.evaluator_means(run.id)
        if as_json:
            say_json([asdict(mean) for mean in means])
            return
        rows = [["evaluator", "pass", "fail", "error", "skipped", "scored", ""]]
        rows += [
            [mean.key, *map(str, (mean.passed, mean.failed, mean.errored, mean.skipped, mean.scored)), _mean_note(mean)]
            for mean in means
        ]
        for number, line in enumerate(table(rows, right=range(1, 6), names=(0,), room=columns())):
            say(line, dim=number == 0)
        return
    labels = {"target": run.targets, "prompt": run.prompts}.get(by)
    groups = {str(labels[key] if labels else key): totals for key, totals in reader.totals_by(run.id, by).items()}
    if as_json:
        say_json({name: asdict(totals) for name, totals in groups.items()})
        return
    for name, totals in groups.items():
        say(f"{name or '(none)'}: {totals_sentence(run, totals)}")


def _mean_note(mean: EvaluatorMean) -> str:
    note = distribution(mean) or ("" if mean.mean is None else f"mean {mean_text(mean.mean, mean.measure)}")
    return note + "  of all answers to an item together" * (mean.scope == "group")


def answers_to(reader: Reader, run: RunRow, item: str, turn: int | None = None) -> list[AnswerRow]:
    """The answers to an item of a run, by its testId or #position."""
    rows = [row for row in reader.all_rows(run.id) if row.name == item or item == f"#{row.item + 1}"]
    if turn is not None:
        rows = [row for row in rows if row.turn == turn - 1]
    if not rows:
        raise Stop(f"{run.key} has no answer to {item}{'' if turn is None else f', turn {turn}'}")
    return rows


def _show_item(reader: Reader, run: RunRow, item: str, as_json: bool) -> None:
    rows = answers_to(reader, run, item)
    if as_json:
        say_json([asdict(reader.detail(row.id)) for row in rows])
        return
    document = reader.judged_by(run).document
    for row in rows:
        detail = reader.detail(row.id, whole=False)
        now = rejudged_now(detail.earlier, run.scoring_pass)
        asked = document["items"][row.item]
        _say_detail(detail, run, asked if now is None else expected_item(now, asked, row.turn), now)


def _say_detail(detail: Detail, run: RunRow, item: Mapping[str, Any], rejudged: EarlierAttempt | None) -> None:
    row, answer = detail.row, detail.answer
    say_row(row, run, answer_columns([row], {run.id: run}))
    units = item.get("turns") or [item]
    unit = units[row.turn] if isinstance(units, list) else item
    for title, text in (
        ("prompt", prompt_text(unit, answer)),
        ("expected", expected_text(unit)),
        ("context", unit.get("context")),
        ("steps", transcript(answer)),
        ("answer", answer.text if answer else None),
        ("error", error_text(answer)),
        ("raised", answer.traceback if answer else None),
    ):
        if text:
            say(f"  {title}", bold=True)
            say("\n".join(f"    {line}" for line in str(text).splitlines()))
    for record in detail.scores.get(run.scoring_pass, ()):
        _say_score(record)
    for record in detail.together.get(run.scoring_pass, ()):
        _say_score(record, f"all answers to this {'turn' if len(units) > 1 else 'item'}: ")
    for label in detail.labels:
        say(f"  {label.author} {opinion(label)}{': ' + label.note if label.note else ''}")
    for attempt in detail.earlier:
        say(f"  {earlier_text(attempt)}", dim=True)
    for call in detail.calls:
        say(f"  {attempt_text(call)}", dim=True)
    for line in (missing_text(row, answer), answer_facts(row, answer, len(detail.calls), rejudged).text):
        if line:
            say(f"  {line}", dim=True)


def _say_score(record: ScoreRecord, of: str = "") -> None:
    look = result_look(record.result)
    say(f"  {of}{look.glyph} {score_text(record)}  {record.reason}", fg=colour(look.tone))
    for line in str(record.details.get("traceback") or "").splitlines():
        say(f"      {line}", dim=True)


def search(text: str, limit: int, as_json: bool) -> None:
    """Answers of all runs that hold a text."""
    with project.reader() as reader:
        rows = reader.search(project.filter_or_stop(f'"{text}"') or parse_filter(text), limit=limit)
        if as_json:
            say_json([asdict(row) for row in rows])
            return
        keys = {run.id: run for run in reader.runs(limit=100_000)}
        shape = answer_columns(rows, keys)
        for row in rows:
            say_row(row, keys[row.run], shape, f"{keys[row.run].key}  ")
        if not rows:
            say(f"no answer holds {text!r}")
