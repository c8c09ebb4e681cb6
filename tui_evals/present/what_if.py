"""What other thresholds, weights or pass rules would change, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tui_evals.present.runs import Column
from tui_evals.runs.what_if import WhatIf


def what_if_lines(found: WhatIf, names: Mapping[Column, str]) -> Sequence[str]:
    """The answers that change, the pass rate of each column before and after, and what is unknown."""
    counted = f"{len(found.changed):,} of {len(found.statuses) + found.open:,} answers change"
    turned = Counter((one.before, one.after) for one in found.changed)
    moves = ", ".join(f"{count:,} {before} → {after}" for (before, after), count in turned.most_common())
    lines = [f"{counted}{': ' if moves else ''}{moves}. Nothing was asked and nothing is stored."]
    for column, (before, after) in found.columns.items():
        if before.judged or after.judged:
            lines.append(
                f"{names[column]}: {100 * before.share:.0f} → {100 * after.share:.0f} % pass "
                f"({before.passed:,} → {after.passed:,} of {after.judged:,})"
            )
    if found.contradicted or found.contradicted_before:
        lines.append(f"{found.contradicted_before:,} → {found.contradicted:,} contradict people's verdicts")
    if found.open:
        lines.append(f"{found.open:,} have to be judged again to know; they count as they are")
    return lines
