"""Another threshold, weight, scale or pass rule tried on the stored scores of the run on screen, step by step."""

from __future__ import annotations

from dataclasses import replace

from tui_evals.datasets.paths import DatasetError
from tui_evals.present.columns import cell_width
from tui_evals.present.runs import line_names, rule_text, what_if_phrases
from tui_evals.present.runs import rule_entry as rule_entry
from tui_evals.runs.errors import CannotPlan
from tui_evals.runs.project import Project
from tui_evals.runs.rescoring import Rule
from tui_evals.runs.what_if import StoredScores, WhatIf
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.targets.base import ConfigurationError
from tui_evals.tui.results.totals import join_fitting
from tui_evals.tui.rows import Piece, Row, row, wrapped

KEYS = "← → move it · enter keeps it · esc leaves"
"""What can be done while a rule is tried."""


_UNTRIED = (CannotPlan, ConfigurationError, DatasetError, LookupError, StoreError)


def read_scores(run: RunRow, project: Project) -> StoredScores | str:
    """The scores of a run, read away from the screen; or why no rule can be tried on them."""
    try:
        with Reader(project.store) as reader:
            return StoredScores(run, reader, project)
    except _UNTRIED as problem:
        return str(problem)


class RuleTrial:
    """A rule that is moved, and what it would change."""

    def __init__(self, scores: StoredScores, rule: Rule) -> None:
        self.run = scores.run
        self.now = rule
        """The rule as it holds now."""
        self.rule = rule
        self.found: WhatIf | None = None
        """What the rule of the latest finished try changes."""
        self._scores = scores
        self._steps = scores.steps(rule)
        self._tried: Rule | None = None

    @property
    def is_open(self) -> bool:
        """Whether the rule was moved since the latest try."""
        return self._tried != self.rule

    def move(self, way: int) -> None:
        """The next value, or the one before; it stays at the ends."""
        place = min(max(self._steps.index(self.rule.value) + way, 0), len(self._steps) - 1)
        self.rule = replace(self.rule, value=self._steps[place])

    def attempt(self, project: Project) -> str:
        """Find what the rule changes, away from the screen; returns why that cannot be told, else nothing."""
        rule = self.rule
        try:
            with Reader(project.store) as reader:
                found = self._scores.tried([rule], reader)
        except _UNTRIED as problem:
            return str(problem)
        self._tried, self.found = rule, found
        return ""

    def rows(self, width: int) -> list[Row]:
        """The rule and the keys that move it, then what it changes."""
        what = Piece(f"what if {rule_text(self.rule, self.now)}", "key")
        rows = [join_fitting([[what], [Piece(KEYS, "dim")]], width)]
        if cell_width(what.text) > width:
            rows = [row((line, "key")) for line in wrapped(what.text, width)]
        if self.found is None:
            return [*rows, row(("working out what changes…", "dim"))]
        phrases = what_if_phrases(self.found, line_names(self.run))
        groups = [[Piece(phrase, "" if number else "strong")] for number, phrase in enumerate(phrases)]
        return [*rows, join_fitting(groups, width)]
