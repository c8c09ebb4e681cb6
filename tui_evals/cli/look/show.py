"""`tui-evals show`: a run, the totals of its groups, or one item of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from tui_evals.cli import project
from tui_evals.cli.look.runs import generation_figures
from tui_evals.cli.output import Stop, cell, colour, columns, say, say_json
from tui_evals.cli.run.ending import baseline_lines, say_causes, say_columns, say_gates
from tui_evals.compare.repeats import RepeatColumn, Repeats, read_repeats
from tui_evals.datasets.discover import project_root
from tui_evals.figures import percent
from tui_evals.light_records import dataclass
from tui_evals.present.answers import (
    answer_reason,
    answer_words,
    attempt_text,
    cause_texts,
    earlier_text,
    error_text,
    expected_text,
    missing_text,
    opinion,
    origin_text,
    preview_text,
    prompt_text,
    score_text,
)
from tui_evals.present.columns import cell_width, elide, fit, table
from tui_evals.present.figures import column_measures, distribution, mean_text, run_measures, skipped_sentence
from tui_evals.present.gates import gates_data
from tui_evals.present.grid import GridColumn, cell_text, grid_columns, grid_data, line_name
from tui_evals.present.runs import (
    change_lines,
    destination_lines,
    overshoot_sentence,
    run_data,
    run_facts,
    standing_data,
    totals_data,
    totals_sentence,
    wait_sentence,
)
from tui_evals.present.status import ANSWER_LOOKS, result_look, run_look
from tui_evals.present.transcripts import text_lines
from tui_evals.runs.status import DESTINATIONS, GENERATION
from tui_evals.store import grid, run_figures
from tui_evals.store.baselines import dataset_key
from tui_evals.store.details import error_messages, scores_of
from tui_evals.store.filters import Filter, parse_filter
from tui_evals.store.grid import GridLine, GridOrder
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow, ScoreRecord
from tui_evals.store.rows import Detail, EarlierAttempt, EvaluatorMean, expected_item, rejudged_now
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe_line

_GRID_NAME, _GRID_COLUMN = 20, 24
"""Cells of a name of an item, and of a column, that are shown on a terminal."""
_GRID_GAP = "  "


def show_grid(reader: Reader, run: RunRow, where: Filter | None, order: GridOrder, limit: int, as_json: bool) -> None:
    """Print the grid of a run with the columns that fit into the terminal; a file or pipe gets all."""
    table, rows = grid_columns(reader, run), grid.grid_rows(reader, run.id, where, order)
    lines = list(grid.grid_lines(reader, run.id, rows if as_json else rows[:limit]))
    if as_json:
        say_json({"run": run.key, "name": run.name, **grid_data(table, lines)})
        return
    say(f"{run.key}  {run.name}  {run_look(run).text}", bold=True)
    beyond = _say_grid(_grid_rows(table, lines), columns())
    if not rows:
        say("no answer fits the filter" if where else "this run asks nothing")
    if left := len(rows) - len(lines):
        say(f"{left:,} more; `--limit {len(rows)}` shows all, `--only` those that a filter finds", dim=True)
    if beyond:
        more = counted(beyond, "more column")
        say(f"{more} beyond the width of the terminal; a pipe or --json has all", dim=True)


_GRID_HEAD = 4
"""Rows above the items."""


def _grid_rows(table: Sequence[GridColumn], lines: Sequence[GridLine]) -> list[list[str]]:
    return [
        ["item", *(column.short for column in table)],
        ["passes", *(column.rate_text for column in table)],
        ["95 % interval", *(column.interval_text for column in table)],
        ["cost, latency", *(column.spent_text for column in table)],
        *([line_name(line), *(cell_text(line.cells.get(column.place)) for column in table)] for line in lines),
    ]


def _say_grid(rows: Sequence[Sequence[str]], room: int | None) -> int:
    """Print the rows in columns of equal width; how many columns there was no room for."""
    cells = [[safe_line(text) for text in row] for row in rows]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    if room is not None:
        widths = [min(width, _GRID_COLUMN if number else _GRID_NAME) for number, width in enumerate(widths)]
    shown = 1
    while shown < len(widths) and (room is None or sum(widths[: shown + 1]) + len(_GRID_GAP) * shown <= room):
        shown += 1
    shown = max(shown, min(2, len(widths)))
    for number, row in enumerate(cells):
        line = _GRID_GAP.join(fit(text, width) for text, width in zip(row[:shown], widths, strict=False)).rstrip()
        say(line if room is None else fit(line, room).rstrip(), dim=0 < number < _GRID_HEAD, bold=not number)
    return len(widths) - shown


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
    as_map: bool,
    order: GridOrder,
    limit: int,
    as_json: bool,
) -> None:
    """A run with its first answers, as a grid or a map of its failures, or one item of it."""
    if order != "plan" and not grid:
        raise Stop("--sort orders the rows of a grid; add --grid")
    if grid and (item is not None or by is not None):
        raise Stop("--grid shows every item in every column; leave --item and --by out, or --grid")
    if as_map and (grid or item is not None or by is not None or only is not None):
        raise Stop("--map is of the whole run. Leave out --grid, --item, --by and --only.")
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if as_map:
            _show_map(reader, run, limit, as_json)
        elif grid:
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
    totals = reader.totals(run.id)
    reasons, causes = _reasons(reader, run, rows), run_figures.causes(reader, run.id)
    if as_json:
        standing = standing_data(run, totals)
        told = [one.data for one in cause_texts(run, causes)]
        answers = [{**asdict(row), "reason": reasons.get(row.id)} for row in rows]
        skipped = run_figures.skipped(reader, run.id)
        gates = {"gates": gates_data(run.gates)}
        about_run = {"run": {**run_data(run), **gates}, **standing, **gates}
        say_json({**about_run, "causes": told, "skipped": skipped, "answers": answers})
        return
    about = run_facts(run, totals, run_measures(reader, run, totals))
    say(f"{run.key}  {run.name}  {about.headline}", bold=True)
    why = about.reason or wait_sentence(run, time.time()) or overshoot_sentence(run, totals)
    for line in (why, about.next_step, about.verdict, about.rejudged):
        if line:
            say(line, fg=colour(about.look.tone))
    say_gates(run.gates)
    if GENERATION in run.config:
        wrote, folder = generation_figures(reader, run), run.config[GENERATION]["folder"]
        say(f"it {wrote} into {folder} and has no answers of its own")
    say_columns(
        run, reader.totals_by(run.id, "column"), column_measures(reader, run, totals), about.sentence, about.cost
    )
    for line in baseline_lines(reader, run):
        say(line)
    if skipped_line := skipped_sentence(run_figures.skipped(reader, run.id), run_figures.left_out(reader, run.id)):
        say(skipped_line)
    for line in destination_lines(run.config.get(DESTINATIONS)):
        say(line, dim=True)
    for line in change_lines(run):
        say(line, dim=True)
    if only is None:
        say_causes(run, causes)
    shape = answer_columns(rows, {run.id: run})
    bad = [row for row in rows if row.id in reasons] if only is not None else []
    explanations = _explanations(reader, run, bad) if bad else {}
    if shape.score:
        target = ", target" if shape.target else ""
        say(f"Answers: status, item, score (0 to 100){target}, answer", dim=True)
    for row in rows:
        say_row(row, run, shape, reason="" if row.id in explanations and not row.code else reasons.get(row.id, ""))
        for line in explanations.get(row.id, ()):
            say(line, dim=True)
    if left := len(ids) - len(rows):
        say(f"{left:,} more; `--limit {len(ids)}` shows all, `--only` those that a filter finds", dim=True)


def _explanations(reader: Reader, run: RunRow, rows: Sequence[AnswerRow]) -> dict[int, list[str]]:
    """Lines with question, expectation, answer and reason, by the answer."""
    # Imported when needed: a list of all answers explains none.
    from tui_evals.present.failure_map import example_lines, explained

    return {answer: list(example_lines(one, columns()))[1:] for answer, one in explained(reader, run, rows).items()}


def _show_map(reader: Reader, run: RunRow, limit: int, as_json: bool) -> None:
    # Imported when needed: no other view of a run compares.
    from tui_evals.compare.failure_map import read_failure_map
    from tui_evals.present.failure_map import green_lines, map_data, map_lines

    failures = read_failure_map(reader, run, dataset_key(run.source, project_root(Path.cwd())))
    if as_json:
        say_json({"run": run.key, "name": run.name, **map_data(reader, failures)})
        return
    say(f"{run.key}  {run.name}  {run_look(run).text}", bold=True)
    room = columns()
    for line in map_lines(reader, failures, room=room, most=limit) or green_lines(reader, failures, room=room):
        say(line)


def _reasons(reader: Reader, run: RunRow, rows: Sequence[AnswerRow]) -> dict[int, str]:
    """Why each of the answers that did not pass did not, in the words of the error or of one evaluator."""
    bad = [row for row in rows if row.status not in ("pass", "pending", "running", "answered")]
    scores, messages = scores_of(reader, [row.id for row in bad], run.scoring_pass), error_messages(reader, run.id)
    reasons = {row.id: answer_reason(messages.get(row.id, ""), scores.get(row.id, ())) for row in bad}
    return {answer: reason for answer, reason in reasons.items() if reason}


@dataclass(frozen=True, slots=True)
class AnswerColumns:
    """The widths of the columns in a list of answers; 0 for an empty one."""

    status: int
    name: int
    score: int
    target: int


def answer_columns(rows: Sequence[AnswerRow], runs: Mapping[int, RunRow]) -> AnswerColumns:
    """Columns as wide as their contents."""
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
    """One answer in a line, and in a second why it did not pass; an error is its own reason."""
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
    ending = "".join(f"[{mark}] " for mark in (row.ending, "incomplete" if row.incomplete else "") if mark)
    text = reason if row.code and reason else preview_text(row)
    say(before + cell(ending + text, room), fg=colour(look.tone))
    if reason and not row.code:
        say(f"    {cell(reason, (columns() or 130) - 5)}", dim=True)


def _show_by(reader: Reader, run: RunRow, by: By, as_json: bool) -> None:
    if by == "repeats":
        show_repeats(reader, run, as_json)
        return
    if by == "evaluator":
        means = run_figures.evaluator_means(reader, run.id)
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
        say_json({name: totals_data(totals) for name, totals in groups.items()})
        return
    for name, totals in groups.items():
        say(f"{name or '(none)'}: {totals_sentence(run, totals)}")


def _mean_note(mean: EvaluatorMean) -> str:
    note = distribution(mean) or ("" if mean.mean is None else f"mean {mean_text(mean.mean, mean.measure)}")
    return note + "  of all answers to an item together" * (mean.scope == "group")


def answers_to(reader: Reader, run: RunRow, item: str, turn: int | None = None) -> list[AnswerRow]:
    """The answers to an item of a run, by its name there or #position."""
    everything = list(reader.all_rows(run.id))
    rows = [row for row in everything if row.name == item or item == f"#{row.item + 1}"]
    if not rows and (alike := dict.fromkeys(row.name for row in everything if row.name == f"{item}#{row.item + 1}")):
        raise Stop(f"Several items of {run.key} have the testId {item}. Name one of them: {', '.join(alike)}")
    if turn is not None:
        rows = [row for row in rows if row.turn == turn - 1]
    if not rows:
        raise Stop(f"{run.key} has no answer to {item}{'' if turn is None else f', turn {turn}'}")
    return rows


def _show_item(reader: Reader, run: RunRow, item: str, as_json: bool) -> None:
    rows = answers_to(reader, run, item)
    if as_json:
        say_json([asdict(_in_full(reader.detail(row.id))) for row in rows])
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
    ):
        _say_section(title, str(text or "").splitlines())
    _say_section("steps", text_lines(answer))
    for title, text in (
        ("answer", answer.text if answer else None),
        ("error", error_text(answer)),
        ("raised", answer.traceback if answer else None),
    ):
        _say_section(title, str(text or "").splitlines())
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
    for line in (missing_text(row, answer), answer_words(row, answer, len(detail.calls), rejudged).text):
        if line:
            say(f"  {line}", dim=True)


def _say_section(title: str, lines: Iterable[str]) -> None:
    for number, line in enumerate(lines):
        if not number:
            say(f"  {title}", bold=True)
        say(f"    {line}")


def _in_full(detail: Detail) -> Detail:
    """The facts of an answer with every message of its transcript read."""
    answer = detail.answer
    if answer is None or answer.transcript is None:
        return detail
    whole = replace(answer.transcript, messages=tuple(answer.transcript.messages))
    return replace(detail, answer=replace(answer, transcript=whole))


def _say_score(record: ScoreRecord, of: str = "") -> None:
    look = result_look(record.result)
    origin = f" ({kept})" if (kept := origin_text(record)) else ""
    say(f"  {of}{look.glyph} {score_text(record)}{origin}  {record.reason}", fg=colour(look.tone))
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


_LISTED = 20


def show_repeats(reader: Reader, run: RunRow, as_json: bool) -> None:
    """The repeats of a run, column by column."""
    repeats = read_repeats(reader, run.id)
    if as_json:
        say_json(_repeats_json(run, repeats))
        return
    say(f"{run.key}  {run.name}  {run_look(run).text}", bold=True)
    for column in repeats.columns:
        _say_column(column, len(repeats.passes))
    for line in repeat_notes(run, repeats):
        say(line)


def repeat_notes(run: RunRow, repeats: Repeats) -> list[str]:
    """Notes on what was not repeated, and how to repeat it."""
    notes = []
    if not any(column.together.repeated for column in repeats.columns):
        notes.append(
            "no item has two judged repeats, so how steady the answers are is unknown; `tui-evals run DATASET "
            "--repeats 5` asks each item five times"
        )
    if len(repeats.passes) < 2 and run.config.get("judge"):
        notes.append(
            "the answers were judged once, so judge noise and model noise cannot be separated; "
            f"`tui-evals rescore {run.key} --no-cache` judges them again, and its scores count from then on"
        )
    return notes


def _say_column(column: RepeatColumn, passes: int) -> None:
    totals, room = column.together, columns()
    say(f"{column.name}: {totals.items} items judged, {totals.repeated} of them more than once")
    if totals.repeated:
        rows = [["k", "pass@k", "pass^k", "at least k", "items"]]
        rows += [
            [str(draw.k), percent(draw.any_passes), percent(draw.all_pass), percent(share), str(draw.items)]
            for draw, share in zip(totals.drawn, column.at_least, strict=True)
        ]
        for line in table(rows, right=range(5), elastic=(), room=room):
            say(f"  {line}")
        say(f"  majority {percent(totals.majority)} · flakiness {percent(totals.flakiness)} · {totals.flaky} flaky")
        for item in column.flaky[:_LISTED]:
            say(f"  ~ {cell(item.name, 40)}  {item.passed} of {item.judged} pass")
        if len(column.flaky) > _LISTED:
            say(f"  and {len(column.flaky) - _LISTED} more; --json lists all")
    if column.noise:
        rows = [["noise of the", "model", "judge"]]
        rows += [[key, _noise_text(noise.model), _noise_text(noise.judge)] for key, noise in column.noise.items()]
        for line in table(rows, right=(1, 2), room=room):
            say(f"  {line}")
        if passes > 1:
            say(f"  from {passes} equal scoring passes; noise is the standard deviation of the scores")


def _noise_text(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _repeats_json(run: RunRow, repeats: Repeats) -> dict[str, object]:
    columns = []
    for column in repeats.columns:
        drawn = [
            {"k": draw.k, "items": draw.items, "pass@k": draw.any_passes, "pass^k": draw.all_pass, "at_least_k": share}
            for draw, share in zip(column.together.drawn, column.at_least, strict=True)
        ]
        numbers = {name: value for name, value in asdict(column.together).items() if name != "drawn"}
        flaky = [{**asdict(item), "flakiness": item.flakiness} for item in column.flaky]
        noise = {key: asdict(scores) for key, scores in column.noise.items()}
        columns.append(
            {"column": column.name, **numbers, "flaky": column.together.flaky, "by_k": drawn}
            | {"flaky_items": flaky, "noise": noise}
        )
    return {"run": run.key, "passes": list(repeats.passes), "columns": columns, "notes": repeat_notes(run, repeats)}
