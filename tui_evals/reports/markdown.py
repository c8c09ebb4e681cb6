"""Puts untrusted text into Markdown: it stays text in every dialect and on every host."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tui_evals.compare.measures import MeasuredDifference
from tui_evals.compare.runs import ComparedLine, Comparison, read_comparison
from tui_evals.compare.sides import column_name
from tui_evals.compare.verdicts import NAMES, caveats, difference_sentence
from tui_evals.figures import Figure, percent
from tui_evals.present.answers import (
    answer_name,
    cause_texts,
    complaints,
    expected_text,
    prompt_text,
    shortened,
)
from tui_evals.present.comparisons import (
    category_name,
    category_rates,
    difference_text,
    kind_counts,
    label_lines,
    population_sentence,
    rate_rows,
    side_name,
    stop_notes,
    usage_lines,
)
from tui_evals.present.figures import distribution, interval_text, mean_text, run_measures, skipped_sentence
from tui_evals.present.gates import HEADINGS, gate_texts
from tui_evals.present.provenance import head_text
from tui_evals.present.runs import RunFacts, change_lines, run_cost, run_facts
from tui_evals.present.status import ANSWER_LOOKS, BAD, waiting_count
from tui_evals.present.transcripts import transcript_text
from tui_evals.reports.results import ReportKind
from tui_evals.store import chains, run_figures
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow, Totals
from tui_evals.store.rows import EvaluatorMean
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe, safe_line

from .results import AnswerEntry, read

_TICKS = re.compile("`+")


def code(text: str, limit: int = 80) -> str:
    """One line as a code span, also for a table: no markup, mention, reference or link starts in it."""
    # A bar divides cells even inside a code span, so it is put between two spans.
    return "&#124;".join(map(_span, safe_line(text, limit).split("|"))) or "–"


def _span(text: str) -> str:
    if not text:
        return ""
    fence = "`" * (max((len(run) for run in _TICKS.findall(text)), default=0) + 1)
    gap = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{gap}{text}{gap}{fence}"


def code_element(text: str, limit: int = 80) -> str:
    """Text as a code element of HTML, for example in a summary."""
    return f"<code>{html.escape(safe_line(text, limit), quote=False)}</code>"


def block(text: str) -> str:
    """A text of many lines, shown unchanged."""
    return f"<pre>\n{html.escape(safe(text), quote=False)}\n</pre>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], most: int) -> str:
    """A table of cells that are quoted already, numbers to the right; a line says how many rows are left out."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows[:most]]
    left_out = f"\n\n{counted(len(rows) - most, 'more row is', 'more rows are')} left out." if len(rows) > most else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + left_out


LIMIT = 65_000
"""Characters that the body of a comment may hold, and a few less."""

_MOST = 20
_MOST_CAUSES = 5
_ROWS = 30
_LONGEST = 1_200


def summary(reader: Reader, runs: Sequence[RunRow]) -> str:
    """A run, or the later runs against the first, in one comment."""
    return _comparison_summary(reader, runs) if len(runs) > 1 else _run_summary(reader, runs[0])


def _run_summary(reader: Reader, run: RunRow) -> str:
    totals = reader.totals(run.id)
    measures = run_measures(reader, run, totals)
    about = run_facts(run, totals, measures)
    rows = []
    for (prompt, target), column_totals in reader.totals_by(run.id, "column").items():
        cells = [
            *_figure_cells(column_totals.pass_rate, column_totals.passed, column_totals.passed + column_totals.failed),
            str(column_totals.partial + column_totals.unjudged),
            str(column_totals.errored),
            run_cost(column_totals).text,
        ]
        rows.append([code(column_name(run, prompt, target)), *cells])
    head = [
        f"## {code(run.name)}: {_headline(totals)}",
        f"Run {code(run.key)} · {about.headline}: {_sentence(about, measures)}.",
        *_gates(run),
        *([code(lacking, 1_000)] if (lacking := skipped_sentence({}, run_figures.left_out(reader, run.id))) else []),
        *([f"It stopped: {code(about.reason, 1_000)}"] if about.reason else []),
        *([_causes_text(reader, run)] if run_figures.causes(reader, run.id) else []),
        *([f"Sent otherwise: {code('; '.join(changes), 1_000)}"] if (changes := change_lines(run)) else []),
        table(["target", "pass", "95 % interval", "not judged", "no answer", "cost"], rows, _ROWS),
    ]
    if signed := head_text(run.key, chains.last_link(reader.query, run.key)):
        head.insert(2, f"Signature: {code(signed, 300)}")
    if means := run_figures.evaluator_means(reader, run.id):
        scores = [
            [
                _evaluator_name(mean),
                code(distribution(mean)) if mean.labels else mean_text(mean.mean, mean.measure),
                *_figure_cells(mean.pass_rate, mean.passed, mean.passed + mean.failed),
                str(mean.errored),
                str(mean.skipped),
            ]
            for mean in means
        ]
        columns = ["evaluator", "mean", "pass", "95 % interval", "errors", "skipped"]
        head += ["### Evaluators", table(columns, scores, _ROWS)]
    bad = [answer for status in BAD for answer in reader.ids(run.id, parse_filter(f"status:{status}"))]
    repeated = run_figures.repeated(reader, run.id)
    shown = reader.rows(bad[:_MOST])
    cases = read(reader, run, shown, reader.dataset(run).items, requests=True) if shown else iter(())
    title = (
        f"### What failed: {counted(len(bad), 'answer')}" if bad else f"### Nothing failed{_unfinished_note(totals)}"
    )
    command = f"tui-evals show {run.key} --only '!status:pass'"
    return _fit_to_limit([*head, title], (_case(case, run, repeated) for case in cases), len(bad), command)


def _gates(run: RunRow) -> Iterator[str]:
    """Whether the run meets its gates, and a table of them."""
    if run.verdict:
        yield f"**Gates** {code(run.verdict, 1_000)}"
    if run.gates:
        rows = [[code(cell, 1_000) for cell in gate.cells] for gate in gate_texts(run.gates)]
        yield table(HEADINGS, rows, _ROWS)


def _headline(totals: Totals) -> str:
    """How many answers pass, or how many were only scored."""
    judged = totals.passed + totals.failed
    if judged:
        return f"{totals.passed:,} of {judged:,} pass"
    return f"{counted(totals.scored, 'answer')} scored, none can fail" if totals.scored else "nothing was judged"


def _sentence(about: RunFacts, measures: Sequence[str]) -> str:
    """The sentence about a run; names of evaluators and labels are quoted."""
    plain = about.sentence
    for measure in measures:
        plain = plain.replace(measure, code(measure, 300), 1)
    return plain


def _causes_text(reader: Reader, run: RunRow) -> str:
    """Why answers are missing, cut or not judged."""
    told = cause_texts(run, run_figures.causes(reader, run.id))
    lines = [f"- {code(one.text, 300)}" for one in told[:_MOST_CAUSES]]
    more = [f"- and {counted(len(told) - _MOST_CAUSES, 'more cause')}"] if len(told) > _MOST_CAUSES else []
    return "\n".join([*lines, *more])


def _unfinished_note(totals: Totals) -> str:
    """The note if some or all answers have no verdict yet."""
    if not totals.passed:
        return ", and nothing passed"
    return " so far" if waiting_count(totals) else ""


def _evaluator_name(mean: EvaluatorMean) -> str:
    return f"{code(mean.key)} (all answers to an item)" if mean.scope == "group" else code(mean.key)


def _comparison_summary(reader: Reader, runs: Sequence[RunRow]) -> str:
    comparison = read_comparison(reader, [run.id for run in runs])
    names = NAMES[: len(runs)]
    later = list(zip(names[1:], comparison.against, strict=True))
    rows = []
    for row in rate_rows(comparison):
        run = row.side.run
        cells = [row.rate, row.items or "n/a", interval_text(row.figure) or "n/a"]
        target = code(row.column or ", ".join(run.targets))
        rows.append([f"{row.letter} {code(side_name(row.side))} {code(run.key)}", target, *cells])
    head = [
        "## " + ", ".join(f"{name} {code(run.name)}" for name, run in zip(names, runs, strict=True)) + " compared",
        *(f"**{difference_sentence(against, names[0], name)}**" for name, against in later),
        table(["run", "target", "pass", "of", "95 % interval"], rows, _ROWS),
        population_sentence(comparison),
        *(code(line, 1_000) for line in usage_lines(comparison.sides)),
        *(
            f"{name} against {names[0]}: {', '.join(kind_counts(against)) or 'no answer in common'}."
            for name, against in later
        ),
        *_gates(runs[-1]),
        *(f"{code(line, 1_000)}" for line in label_lines(comparison.sides)),
        *(f"Note: {code(note, 1_000)}" for note in (*stop_notes(runs), *caveats(comparison))),
    ]
    for name, against in later:
        if against.tests:
            title = f"### Evaluators: {name} against {names[0]}"
            head += [title, table(_test_header(names[0], name), [_test_cells(test) for test in against.tests], _ROWS)]
    if comparison.categories:
        rates = [
            [code(category_name(comparison, own[0])), *(row.rate for row in own), own[0].items]
            for own in category_rates(comparison)
        ]
        head += ["### Categories", table(["category", *names, "of"], rates, _ROWS)]
    broken = [line for line in comparison.lines if "broken" in line.kinds]
    compared = any(against.items for against in comparison.against)
    nothing = "### Nothing broke" if compared else "### Nothing could be compared"
    head.append(f"### What broke: {counted(len(broken), 'answer')}" if broken else nothing)
    command = f"tui-evals compare {' '.join(run.key for run in runs)} --only broken --limit {len(broken)}"
    return _fit_to_limit(head, _broken_cases(reader, comparison, broken), len(broken), command)


def _test_header(before: str, after: str) -> list[str]:
    return ["evaluator", before, after, "difference", "95 % interval", "adjusted p", "items", "verdict"]


def _test_cells(test: MeasuredDifference) -> list[str]:
    text = difference_text(test)
    numbers = [text.before, text.after, text.difference, text.interval or "n/a", text.chance, text.items, text.verdict]
    return [code(text.name), *numbers]


def _broken_cases(reader: Reader, comparison: Comparison, lines: Iterable[ComparedLine]) -> Iterator[str]:
    """The answer of each later run that broke an item, with that of the first."""
    items = {side.run.id: reader.dataset(side.run).items for side in comparison.sides}
    for line in lines:
        number = 1 + line.kinds.index("broken")
        before, after = line.answers[0], line.answers[number]
        if before and after:
            run = comparison.sides[number].run
            (case,) = read(reader, run, reader.rows([after.id]), items[run.id], requests=True)
            first = reader.records([before.id]).get(before.id)
            note = "the item itself was edited between the runs" if line.edited else ""
            yield _case(case, run, line.repeat is not None, NAMES[number], (first and first.text) or "", note)


def _case(case: AnswerEntry, run: RunRow, repeated: bool, name: str = "", before: str = "", note: str = "") -> str:
    row = case.row
    why = [*complaints(case.record, case.scores), *([note] if note else ())]
    several = len(run.targets) * len(run.prompts) > 1
    column = f" · {code_element(column_name(run, row.prompt, row.target))}" if several else ""
    title = code_element(answer_name(row, "turns" in case.item, repeated))
    reason = f": {code_element(why[0], 120)}" if why else ""
    answer = (case.record.text if case.record else None) or ""
    parts = {
        "why": "\n".join(why),
        "prompt": prompt_text(case.unit, case.record),
        "expected": expected_text(case.unit),
        "steps": transcript_text(case.record),
        f"answer of {NAMES[0]}": before,
        f"answer of {name}" if name else "answer": answer,
    }
    shown = [f"**{what}**\n\n{block(shortened(text, _LONGEST))}" for what, text in parts.items() if text]
    lines = [
        f"<details><summary>{ANSWER_LOOKS[row.status].glyph} {title}{column}{reason}</summary>",
        *shown,
        "</details>",
    ]
    return "\n\n".join(lines)


def _fit_to_limit(head: Sequence[str], details: Iterator[str], count: int, command: str) -> str:
    """The head, and as many details as there is room and patience for."""
    text = "\n\n".join(head)
    shown = 0
    for detail in islice(details, _MOST):
        if len(text) + len(detail) > LIMIT:
            break
        text += "\n\n" + detail
        shown += 1
    if shown < count:
        text += f"\n\n{shown} of {count:,} are shown here; `{command}` lists all."
    return text + "\n"


def _figure_cells(rate: Figure | None, passed: int, judged: int) -> list[str]:
    """A pass rate and its interval; counts alone where columns would be pooled."""
    if rate is None:
        return [f"{passed:,} of {judged:,}" if judged else "n/a", "n/a"]
    items = "" if rate.items == rate.answers else f", {counted(rate.items, 'item')}"
    return [f"{passed:,} of {judged:,} ({percent(rate.value)}{items})", interval_text(rate) or "n/a"]


KINDS = {
    "md": ReportKind((".md",), lambda reader, runs, raw: summary(reader, runs), about="a summary for a pull request")
}
