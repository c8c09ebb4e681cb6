"""Messages from panes and screens to the workbench; values are passed down, messages up."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from textual.message import Message

from tui_evals.present.runs import Column
from tui_evals.store.records import AnswerStatus, RunRow

if TYPE_CHECKING:
    from tui_evals.runs.rescoring import Rule

Severity = Literal["info", "warn", "error"]
Place = Literal["tree", "editor", "judges", "results", "detail", "runs"]


class StatusMessage(Message):
    """A sentence for the status line; an error also rings a toast."""

    def __init__(self, text: str, kind: Severity = "info") -> None:
        super().__init__()
        self.text = text
        self.kind: Severity = kind


class StateChanged(Message):
    """Shared state has changed, so every pane must show it again."""


class ItemShown(Message):
    """Another item or turn was selected; the panes that show the current item follow."""

    def can_replace(self, message: Message) -> bool:
        """Replace an earlier message: only the current place matters."""
        return isinstance(message, ItemShown)


class AnswerShown(Message):
    """Another answer is looked at."""

    def can_replace(self, message: Message) -> bool:
        """Only the last message matters."""
        return isinstance(message, AnswerShown)


class CopyText(Message):
    """Asks to put a text into the user's clipboard."""

    def __init__(self, text: str, what: str) -> None:
        super().__init__()
        self.text = text
        self.what = what


class DoStep(Message):
    """Request for the action that a row offers."""

    def __init__(self, where: str, name: str) -> None:
        super().__init__()
        self.where = where
        self.name = name


class ShowPane(Message):
    """A request to activate and focus another pane."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place: Place = place


class OpenDataset(Message):
    """A request to open a dataset."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file


class WritePrompt(Message):
    """Request to write the prompt of the current item or turn: the editor in front with its box open."""


class SaveDataset(Message):
    """Request to save the open dataset."""


class OpenRun(Message):
    """A request to open a run by its number."""

    def __init__(self, run: int, answer: int | None = None) -> None:
        super().__init__()
        self.run = run
        self.answer = answer


class CompareRuns(Message):
    """Runs are to be shown next to each other, by their numbers; `why` says how they were chosen."""

    def __init__(self, runs: Sequence[int], why: str) -> None:
        super().__init__()
        self.runs = list(runs)
        self.why = why


class CompareColumns(Message):
    """Two regions of the grid of a run are to be compared, each column by its prompt and target."""

    def __init__(self, run: int, columns: tuple[tuple[Column, ...], tuple[Column, ...]]) -> None:
        super().__init__()
        self.run = run
        self.columns = columns


class TryRule(Message):
    """Request to try another threshold or weight of an evaluator on the scores of the run on screen."""

    def __init__(self, evaluator: str) -> None:
        super().__init__()
        self.evaluator = evaluator


class WriteCheck(Message):
    """Request to write an evaluator for the dataset, and to try it on these answers first."""

    def __init__(self, answers: Collection[int]) -> None:
        super().__init__()
        self.answers = answers


class KeepRule(Message):
    """Request to judge a run by another threshold, weight, scale or pass rule from now on."""

    def __init__(self, run: RunRow, rule: Rule) -> None:
        super().__init__()
        self.run = run
        self.rule = rule


class FightBattle(Message):
    """A judge is to choose between answers: of runs, named as the command line names them, or of columns of one."""

    def __init__(self, runs: Sequence[str], why: str, columns: tuple[Column, Column] | None = None) -> None:
        super().__init__()
        self.runs = tuple(runs)
        self.columns = columns
        self.why = why


class ShowBattles(Message):
    """The battles there were are to be listed."""


class ShowTrend(Message):
    """Request to show the trend of a dataset, named by its baseline key."""

    def __init__(self, dataset: str) -> None:
        super().__init__()
        self.dataset = dataset


class ShowGrid(Message):
    """The items are to be shown as a table, with how each did last."""

    def __init__(self, statuses: Mapping[Hashable, AnswerStatus]) -> None:
        super().__init__()
        self.statuses = statuses


class ShowMatrix(Message):
    """Request to show a run as a grid with the cursor on an answer."""

    def __init__(self, run: int, answer: int | None) -> None:
        super().__init__()
        self.run = run
        self.answer = answer


class LabelRun(Message):
    """Answers of a run are to be labelled blind."""

    def __init__(self, run: int) -> None:
        super().__init__()
        self.run = run
