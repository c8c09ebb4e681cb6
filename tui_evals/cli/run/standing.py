"""What `watch` and `show` say of a run against the baseline of its dataset."""

from __future__ import annotations

from pathlib import Path

from tui_evals.datasets.discover import project_root
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.safe import safe_line


def baseline_notes(reader: Reader, run: RunRow) -> dict[int, str]:
    """For each target by how much it differs from the baseline, and whether that could be chance; none without one."""
    # Imported when it is wanted, because a run need not wait for what compares.
    from tui_evals.compare.baseline import BaselineComparison
    from tui_evals.present.comparisons import baseline_phrases

    against = BaselineComparison(project_root(Path.cwd())).measure(reader, run)
    if against is None:
        return {}
    name = safe_line(against.baseline.name, 40)
    return {target: baseline_phrases(test, name)[0] for target, test in against.targets.items()}
