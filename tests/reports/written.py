"""A report as the one text that its pieces make."""

from collections.abc import Sequence

from tui_evals.reports.results import write
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow


def report_text(kind: str, reader: Reader, runs: Sequence[RunRow]) -> str:
    return "".join(write(kind, reader, runs))
