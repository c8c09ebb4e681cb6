"""The failure map in pane 4: its clusters as rows, with an example of the one under the cursor below them."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tui_evals.compare.failure_map import Cluster, FailureMap, cluster_of, read_failure_map
from tui_evals.present.columns import table
from tui_evals.present.failure_map import (
    Example,
    Highlight,
    cost_text,
    headline,
    map_rows,
    read_examples,
    read_highlights,
    share_text,
    since_text,
)
from tui_evals.store.baselines import dataset_key
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line
from tui_evals.tui.diff_rows import diff_texts, marked_sides
from tui_evals.tui.rows import Piece, Row, Rows, Style, StyledLines, row, wrapped

_GLANCE = 30
"""Answers that are seen at once: a run of no more is opened as its answers."""
_LABEL = 10
_TEXT_LINES = 3
_DIFFED = 1_000
"""Characters of a text that are compared; three lines show fewer."""
_VERBS = "enter lists them · R runs their items again · s judges them · v labels them · a adds a check · F all answers"
_Parts = Sequence[tuple[str, Style]]
_STYLES: dict[str, Style] = {"why": "fail"}
_KEY = 8


class ClusterKey(NamedTuple):
    """The key of the row of a cluster."""

    cluster: str

    @property
    def filter(self) -> str:
        """The filter that shows its answers."""
        return f"cluster:{self.cluster[:_KEY]}"


class HighlightKey(NamedTuple):
    """The key of the row of an answer that deserves a look; one answer may have several."""

    number: int
    answer: int


class FailuresRead(NamedTuple):
    """The failure map of a run with an example of each cluster; without failures, what else deserves a look."""

    map: FailureMap
    examples: dict[str, Example]
    highlights: Sequence[Highlight]


def read_map(database: Path, root: Path, run: RunRow) -> FailuresRead:
    """What failed in a run."""
    with Reader(database) as reader:
        failures = read_failure_map(reader, run, dataset_key(run.source, root, root))
        highlights = () if failures.clusters else read_highlights(reader, run)
        return FailuresRead(failures, read_examples(reader, run, failures.clusters), highlights)


class FailureView:
    """Whether the failure map of the run on screen is shown, what it holds, and which cluster the cursor is on."""

    def __init__(self, run: RunRow | None, failing: int, is_over: bool) -> None:
        self.run = run
        self.open = run is not None and is_over and failing > 0 and run.total > _GLANCE
        self.map: FailureMap | None = None
        self.at: Hashable = None
        """The row the cursor was on last."""
        self.asked = False
        """Whether it was asked for by its key."""
        self._compared: tuple[int, _Parts, _Parts] | None = None
        """An answer with its expectation and its text in parts, of which those that differ are marked."""
        self._examples: dict[str, Example] = {}
        self._highlights: Sequence[Highlight] = ()

    def take(self, read: FailuresRead) -> None:
        """Show what was read; a run without failures opens as its answers, and shows this only where it was asked."""
        self.map, self._examples, self._highlights = read
        self.open &= bool(read.map.clusters) or self.asked
        if self.at is None and read.map.clusters:
            self.at = ClusterKey(read.map.clusters[0].key)
        elif self.at is None and read.highlights:
            self.at = HighlightKey(0, read.highlights[0].answer)

    def cluster(self) -> Cluster | None:
        """The cluster under the cursor."""
        if self.map is None or not isinstance(self.at, ClusterKey):
            return None
        return cluster_of(self.map, self.at.cluster)

    def answers(self) -> array[int]:
        """The answers of the cluster under the cursor."""
        if isinstance(self.at, HighlightKey):
            return array("q", [self.at.answer])
        cluster = self.cluster()
        return array("q", cluster.answers if cluster is not None else ())

    def rows(self, width: int) -> Rows:
        """The map as rows."""
        if self.map is None:
            return [row(("Reading what failed…", "dim"))]
        clusters = self.map.clusters
        if not clusters:
            return self._green_rows(self.map, width)
        heading, *lines = table(map_rows(clusters), right=(0, 1, 2), elastic=(3, 4), headed=True, room=max(width, 1))
        made = [row((line, "dim")) for line in wrapped(headline(self.map), width)]
        if since := since_text(self.map):
            made.append(row((since, "dim")))
        made.append(row((heading, "strong"), ground="title"))
        made += [row(line, key=ClusterKey(one.key)) for line, one in zip(lines, clusters, strict=True)]
        made += [Row(), *self._example_rows(width)]
        return made

    def _green_rows(self, failures: FailureMap, width: int) -> Rows:
        """Rows that say nothing failed, with the answers that deserve a look."""
        made = [row((headline(failures), "pass")), Row()]
        if self._highlights:
            cells = [("", "", "item", ""), *(one.cells for one in self._highlights)]
            heading, *lines = table(cells, elastic=(1, 2, 3), headed=True, room=max(width, 1))
            made.append(row((heading, "strong"), ground="title"))
            keyed = enumerate(zip(lines, self._highlights, strict=True))
            made += [row(line, key=HighlightKey(number, one.answer)) for number, (line, one) in keyed]
            made += [Row(), row(("enter shows the answer · F all answers", "dim"))]
        return made

    def _example_rows(self, width: int) -> Iterator[Row]:
        cluster = self.cluster()
        example = self._examples.get(cluster.key) if cluster is not None else None
        if cluster is None or example is None:
            return
        where = " · ".join(part for part in (example.name, example.column) if part)
        about = " · ".join(part for part in ("an example", share_text(cluster), cost_text(cluster)) if part)
        yield row((where, "title"), (f"  {about}", "dim"))
        for word, text in example.parts:
            lines = StyledLines(self._example_text(example, word, text), max(width - _LABEL, 10))
            for number in range(min(len(lines), _TEXT_LINES)):
                more = [Piece("…")] if number == _TEXT_LINES - 1 and len(lines) > _TEXT_LINES else []
                label = Piece("" if number else word, "dim")
                yield Row((label, Piece(" " * (_LABEL - len(label.text))), *lines[number], *more))
        yield row((_VERBS, "dim"))

    def _example_text(self, example: Example, word: str, text: str) -> _Parts:
        """A text of the example on one line; words that only the expectation or only the answer has are marked."""
        if word not in ("expected", "answer") or not (example.expected and example.said):
            return [(safe_line(" ".join(text.split())), _STYLES.get(word, ""))]
        if self._compared is None or self._compared[0] != example.answer:
            left, right = (" ".join(one.split())[:_DIFFED] for one in (example.expected, example.said))
            self._compared = (example.answer, *marked_sides(diff_texts(left, right)))
        _, expected, said = self._compared
        return expected if word == "expected" else said
