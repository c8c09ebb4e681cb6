"""The failure map in words: its headline, its rows, one example, and all of it as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tui_evals.compare.failure_map import Change, Cluster, FailureMap
from tui_evals.light_records import dataclass
from tui_evals.present.answers import answer_name, complaints, expected_text, plain_reason, prompt_text
from tui_evals.present.columns import fit, table, wrap
from tui_evals.store import lookup, run_figures
from tui_evals.store.details import read_details
from tui_evals.store.filters import parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.store.rows import AnswerDetail, expected_item
from tui_evals.text.measures import counted, duration, money, plain_number
from tui_evals.text.safe import safe_line

SHOWN = 8
"""Clusters that are listed after a run."""
_VALUES = 3
"""Values of a dimension that are named with a cluster."""
_LABEL = 10
"""Cells of the word before a line of an example."""
_EXAMPLE_LINES = 2
"""Lines of a text of an example."""


@dataclass(frozen=True, slots=True)
class ClusterText:
    """A cluster as every face shows it, cell by cell."""

    count: str
    share: str
    change: str
    """Since the earlier run; empty without one."""
    what: str
    where: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its row."""
        return self.count, self.share, self.change, self.what, self.where


HEAD = ("failures", "share", "change", "cluster", "mostly")


def cluster_text(cluster: Cluster) -> ClusterText:
    """A cluster in words."""
    return ClusterText(
        f"{cluster.count:,}", _percent(cluster.share), change_text(cluster), name_text(cluster), where_text(cluster)
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "<1 %"


def change_text(cluster: Cluster) -> str:
    """The change of a cluster since the earlier run: `new`, `+40`, or points if other answers were judged."""
    if cluster.is_new:
        return "new"
    if cluster.more is not None:
        return f"{cluster.more:+,}".replace("-", "−") if cluster.more else "0"
    if cluster.more_share is None:
        return ""
    return f"{100 * cluster.more_share:+.0f} points".replace("-", "−")


def name_text(cluster: Cluster | Change) -> str:
    """The evaluator and the reason of a cluster or a change, on one line."""
    who = safe_line(cluster.evaluator, 40)
    if not cluster.evaluator:
        return f"error · {safe_line(plain_reason(cluster.reason) or cluster.code, 200)}"
    reason = safe_line(cluster.reason, 200) or "other reasons"
    return f"{who} could not judge · {reason}" if cluster.code else f"{who} · {reason}"


def where_text(cluster: Cluster) -> str:
    """The prompts, targets and categories that have most of a cluster."""
    return " · ".join(
        f"{one.dimension} {', '.join(safe_line(value, 30) for value in one.values[:_VALUES])}"
        + (f" and {len(one.values) - _VALUES} more" if len(one.values) > _VALUES else "")
        for one in cluster.concentrations
    )


def share_text(cluster: Cluster) -> str:
    """How many answers a cluster has, and of how many."""
    of = f"judged by {safe_line(cluster.evaluator, 40)}" if cluster.evaluator else "asked"
    return f"{cluster.count:,} of {counted(cluster.judged, 'answer')} {of}"


def cost_text(cluster: Cluster) -> str:
    """The cost of a cluster's answers with their judges; empty if unknown."""
    return f"they cost {money(cluster.cost)}" if cluster.cost else ""


def headline(failures: FailureMap) -> str:
    """How many answers fail, in how many clusters, and the run that changes are compared with."""
    if not failures.clusters:
        return f"No failures in {counted(failures.asked, 'answer')}."
    text = f"{failures.failing:,} of {counted(failures.asked, 'answer')} fail"
    if failures.failures > failures.failing:
        text += f", {failures.failures:,} times: an answer with several failures is in each of their clusters"
    return f"{text}."


def since_text(failures: FailureMap) -> str:
    """The run that changes are held against; empty without one."""
    if failures.earlier is None:
        return ""
    name = safe_line(failures.earlier.name, 40)
    return f"change since {'the baseline ' if failures.is_baseline else ''}{name} ({failures.earlier.key})"


@dataclass(frozen=True, slots=True)
class Example:
    """One answer of a cluster with its expectation. None of the texts is safe."""

    answer: int
    name: str
    column: str
    asked: str
    expected: str
    said: str
    why: str

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Its texts with their labels."""
        given = (("asked", self.asked), ("expected", self.expected), ("answer", self.said), ("why", self.why))
        return tuple((word, text) for word, text in given if text.strip())


def read_example(reader: Reader, run: RunRow, cluster: Cluster) -> Example | None:
    """The first answer of a cluster; None if it was deleted meanwhile."""
    return read_examples(reader, run, [cluster]).get(cluster.key)


def read_examples(reader: Reader, run: RunRow, clusters: Sequence[Cluster]) -> dict[str, Example]:
    """The first answer of each cluster with its expectation, by the key of the cluster."""
    wanted: dict[int, list[Cluster]] = {}
    for cluster in clusters:
        wanted.setdefault(cluster.answers[0], []).append(cluster)
    rows = reader.rows(wanted)
    items = lookup.asked_items(reader.query, run, [row.item for row in rows])
    told = read_details(reader, run, rows, requests=True)
    return {
        cluster.key: _example(run, one, items.get(one.row.item, {}), cluster)
        for one in told
        for cluster in wanted[one.row.id]
    }


def explained(reader: Reader, run: RunRow, rows: Sequence[AnswerRow]) -> dict[int, Example]:
    """The question, expectation, answer and reason for each answer."""
    items = lookup.asked_items(reader.query, run, [row.item for row in rows])
    return {
        one.row.id: _example(run, one, items.get(one.row.item, {}))
        for one in read_details(reader, run, rows, requests=True)
    }


def _example(run: RunRow, told: AnswerDetail, asked: Mapping[str, Any], cluster: Cluster | None = None) -> Example:
    row, record = told.row, told.answer
    item = asked if told.rejudged is None else expected_item(told.rejudged, asked, row.turn)
    turns = item.get("turns")
    unit = turns[row.turn] if isinstance(turns, list) and row.turn < len(turns) else item
    own = [score for score in told.scores if cluster is None or score.key == cluster.evaluator]
    why = next(complaints(None, own), "") if cluster is not None else "; ".join(complaints(None, own))
    column = [run.prompts[row.prompt]] * (len(run.prompts) > 1) + [run.targets[row.target]] * (len(run.targets) > 1)
    return Example(
        row.id,
        answer_name(row, isinstance(turns, list), row.repeat > 0),
        " · ".join(column),
        prompt_text(unit, record),
        expected_text(unit),
        record.text or "" if record is not None else "",
        why or ("" if record is None else plain_reason(record.message or "")),
    )


def example_lines(example: Example, room: int | None) -> Iterator[str]:
    """An example as lines: its name, the question, the expectation, the answer and why it fails."""
    yield f"  {safe_line(' · '.join(part for part in (example.name, example.column) if part))}"
    for word, text in example.parts:
        width = None if room is None else max(room - _LABEL - 4, 20)
        lines = wrap(" ".join(text.split()), width)
        for number, line in enumerate(lines[:_EXAMPLE_LINES]):
            more = "…" if number == _EXAMPLE_LINES - 1 and len(lines) > _EXAMPLE_LINES else ""
            yield f"    {fit('' if number else word, _LABEL)}{line}{more}".rstrip()


_HIGHLIGHTS = 3
"""Answers of each kind that a run without failures is shown with."""


@dataclass(frozen=True, slots=True)
class Highlight:
    """An answer of a run without failures that deserves a look."""

    kind: str
    answer: int
    name: str
    column: str
    figure: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its row."""
        return self.kind, self.figure, safe_line(self.name, 40), safe_line(self.column, 60)


def read_highlights(reader: Reader, run: RunRow) -> list[Highlight]:
    """The slowest and the most expensive answers, those nearest to a threshold, and flaky ones."""
    found: list[tuple[str, int, str]] = []
    ranked: tuple[tuple[str, str], ...] = (("slowest", "latency_ms"), ("most expensive", "cost"))
    for kind, column in ranked:
        ids = reader.ids(run.id, None, column, True)[:_HIGHLIGHTS]
        values = {row.id: getattr(row, column) for row in reader.rows(ids)}
        texts = {
            one: duration(value / 1000) if column == "latency_ms" else money(value)
            for one, value in values.items()
            if value
        }
        found += [(kind, one, texts[one]) for one in ids if one in texts]
    for answer, key, score, threshold in run_figures.nearest(reader, run, _HIGHLIGHTS):
        figure = f"{safe_line(key, 30)} {plain_number(score)}, threshold {plain_number(threshold)}"
        found.append(("nearest to its threshold", answer, figure))
    flaky = reader.ids(run.id, parse_filter("flaky"))[:_HIGHLIGHTS]
    found += [("flaky", one, "some repeats pass and others fail") for one in flaky]
    rows = {row.id: row for row in reader.rows({answer for _, answer, _ in found})}
    made = []
    for kind, answer, figure in found:
        if (row := rows.get(answer)) is not None:
            places = [run.prompts[row.prompt]] * (len(run.prompts) > 1)
            places += [run.targets[row.target]] * (len(run.targets) > 1)
            made.append(
                Highlight(kind, answer, answer_name(row, row.turn > 0, row.repeat > 0), " · ".join(places), figure)
            )
    return made


def map_rows(clusters: Sequence[Cluster]) -> list[tuple[str, ...]]:
    """The heading and a row for each cluster."""
    return [HEAD, *(cluster_text(cluster).cells for cluster in clusters)]


def map_lines(reader: Reader, failures: FailureMap, *, room: int | None = None, most: int = SHOWN) -> list[str]:
    """A failure map as lines for a terminal `room` cells wide; none for a run without failures.

    With the usual number of clusters at most 20.
    """
    if not failures.clusters:
        return []
    shown = failures.clusters[:most]
    lines = [headline(failures), *filter(None, [since_text(failures)])]
    lines += table(map_rows(shown), right=(0, 1, 2), elastic=(3, 4), headed=True, room=room)
    if left := len(failures.clusters) - len(shown):
        count = sum(cluster.count for cluster in failures.clusters[most:])
        lines.append(
            f"and {counted(left, 'smaller cluster')} with {counted(count, 'failure')}; "
            f"`tui-evals show {failures.run.key} --map` shows all"
        )
    example = read_example(reader, failures.run, shown[0])
    lines.append(f"`tui-evals show {failures.run.key} --only cluster:{shown[0].key[:8]}` lists the first cluster")
    if example is not None:
        lines += ["", f"One of the {shown[0].count:,}:" if shown[0].count > 1 else "It is:"]
        lines += example_lines(example, room)
    return lines


def green_lines(reader: Reader, failures: FailureMap, *, room: int | None = None) -> list[str]:
    """Lines for a terminal: nothing failed, and the answers that deserve a look."""
    highlights = read_highlights(reader, failures.run)
    lines = table([one.cells for one in highlights], elastic=(1, 2, 3), room=room) if highlights else []
    return [headline(failures), *lines]


def map_data(reader: Reader, failures: FailureMap) -> dict[str, Any]:
    """A failure map as plain data."""
    earlier = failures.earlier
    examples = read_examples(reader, failures.run, failures.clusters)
    return {
        "failing": failures.failing,
        "failures": failures.failures,
        "asked": failures.asked,
        "earlier": None if earlier is None else earlier.key,
        "clusters": [_cluster_data(cluster, examples.get(cluster.key)) for cluster in failures.clusters],
    }


def _cluster_data(cluster: Cluster, example: Example | None) -> dict[str, Any]:
    return {
        "key": cluster.key,
        "evaluator": cluster.evaluator or None,
        "code": cluster.code or None,
        "reason": cluster.reason,
        "count": cluster.count,
        "judged": cluster.judged,
        "before": cluster.before,
        "new": cluster.is_new,
        "cost": cluster.cost,
        "mostly": {one.dimension: list(one.values) for one in cluster.concentrations},
        "answers": list(cluster.answers),
        "example": example and {"item": example.name, **dict(example.parts)},
    }
