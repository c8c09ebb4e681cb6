"""The pytest plugin: `pytest --tui-evals evals/` makes a test of every item of the datasets it finds.

It is loaded with every pytest of an environment that has tui_evals, so that nothing of ours is imported before it is
used.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from tui_evals.runs.gate_options import OPTIONS, GateOption, gates_of

if TYPE_CHECKING:
    from .results import Answer, Run

_SUFFIXES = (".json", ".jsonl", ".csv")
_NO_MARK = re.compile(r"\W+")
_TABLES = pytest.StashKey[dict[str, list[str]]]()
"""The gates of each dataset in lines, by its name."""
_CACHED = pytest.StashKey[dict[str, str]]()
"""How many answers of each dataset came from the cache, by its name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all off until `--tui-evals` is given."""
    group = parser.getgroup("tui_evals", "evaluating datasets with tui_evals")
    group.addoption("--tui-evals", action="store_true", help="Make a test of every item of the datasets found.")
    group.addoption("--tui-evals-target", metavar="NAME", help="What answers; by the configuration when absent.")
    group.addoption("--tui-evals-judge", metavar="NAME", help="What judges; by the configuration when absent.")
    group.addoption("--tui-evals-without-judges", action="store_true", help="Leave evaluators out that need a judge.")
    group.addoption(
        "--tui-evals-allow-unjudged",
        action="store_true",
        help="Go on though an evaluator lacks here what it needs to judge.",
    )
    group.addoption(
        "--tui-evals-trust",
        action="store_true",
        help="Let the project run its commands and code, and send keys where it says, unasked.",
    )
    group.addoption("--tui-evals-max-cost", type=float, metavar="USD", help="Stop before more is spent on a dataset.")
    for option in OPTIONS:
        alone: dict[str, Any] = {"nargs": "?", "const": option.alone} if option.alone else {}
        group.addoption(
            _flag(option), metavar=option.metavar, type=partial(_gate_value, option), help=option.help, **alone
        )


def _flag(option: GateOption) -> str:
    return option.flag.replace("--", "--tui-evals-", 1)


def _gate_value(option: GateOption, text: str) -> object:
    """The value of a gate; argparse says what is wrong with it."""
    try:
        return option.read(text)
    except ValueError as problem:
        before = f"; before a path write {_flag(option)}={option.alone}" if option.alone else ""
        raise argparse.ArgumentTypeError(f"{problem}{before}") from None


def pytest_configure(config: pytest.Config) -> None:
    """Refuse gates where no process has all answers of a dataset."""
    if _gates(config) and getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("Gates need all answers of a dataset in one process. Run pytest without -n.")


def _gates(config: pytest.Config) -> dict[str, Any]:
    """The gates that are set, as the library's `gate` takes them; empty where none decides anything."""
    values = {option.name: config.getoption(_flag(option)) for option in OPTIONS}
    decides = config.getoption("--tui-evals") and gates_of(values).deciding
    return {name: value for name, value in values.items() if value is not None} if decides else {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test of the gates for each dataset, after its items; no filter leaves it out."""
    if not _gates(config):
        return
    numbered = ((item.parent, number) for number, item in enumerate(items) if isinstance(item, ItemTest))
    last = {dataset: number for dataset, number in numbered if isinstance(dataset, DatasetFile)}
    for dataset, number in reversed(last.items()):
        items.insert(number + 1, GateTest.from_parent(dataset, name="gates"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print how many answers of each dataset came from the cache, and its gates as a table."""
    for name, line in config.stash.get(_CACHED, {}).items():
        terminalreporter.write_line(f"tui_evals: {ascii(name)[1:-1]}: {line}")
    for name, lines in config.stash.get(_TABLES, {}).items():
        terminalreporter.section(f"tui_evals gates: {name}")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A dataset, where datasets are to be tests; a file that is none is passed over unless it was named."""
    if not parent.config.getoption("--tui-evals") or not file_path.name.lower().endswith(_SUFFIXES):
        return None
    is_argument = any(file_path == Path(word.split("::")[0]).absolute() for word in parent.config.args)
    if not (is_argument or _is_dataset(file_path)):
        return None
    from tui_evals.text.safe import safe_line

    inside = file_path.relative_to(parent.config.rootpath) if file_path.is_relative_to(parent.config.rootpath) else None
    name = safe_line((inside or file_path).as_posix())
    return DatasetFile.from_parent(parent, path=file_path, name=name, nodeid=name)


def _is_dataset(file: Path) -> bool:
    from tui_evals.datasets.discover import is_generation_file
    from tui_evals.datasets.document import load
    from tui_evals.datasets.paths import DatasetError

    if is_generation_file(file):
        return False
    try:
        data = load(file).data
    except DatasetError:
        return file.name in ("prompts.json", "evals.json", "tests.json")
    items = data.get("items")
    return isinstance(items, list) and all(isinstance(item, dict) and _has_prompt(item) for item in items)


def _has_prompt(item: dict[str, Any]) -> bool:
    return any(name in item for name in ("prompt", "turns", "messages", "variables"))


class DatasetFile(pytest.File):
    """A dataset; the items that are run are asked all at once, when the first of them is due."""

    run: Run | None = None
    problem: Exception | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each item, marked with its category and its tags."""
        from tui_evals.datasets.document import load
        from tui_evals.datasets.item_names import names_in_run
        from tui_evals.datasets.paths import DatasetError
        from tui_evals.text.safe import safe, safe_line

        try:
            items = load(self.path).data["items"]
        except DatasetError as problem:
            raise self.CollectError(safe(str(problem))) from None
        test_ids = [name if isinstance(name := item.get("testId"), str) else None for item in items]
        for position, (item, item_name) in enumerate(zip(items, names_in_run(test_ids), strict=True)):
            test = ItemTest.from_parent(self, name=safe_line(item_name), item=item_name, position=position)
            for mark in _marks(item):
                self.config.addinivalue_line("markers", f"{mark}: items of this category, or with this tag")
                test.add_marker(mark)
            yield test

    def answers(self, test: ItemTest) -> list[Answer]:
        """The answers of one test; the first call runs all selected tests."""
        answers = [answer for answer in self.evaluated(test).answers if answer.item == test.item]
        if not answers and hasattr(self.config, "workerinput"):
            answers = list(self._evaluate([test.position]).answers)
        return answers

    def evaluated(self, test: ItemTest | None = None) -> Run:
        """The run of all selected tests; of this one alone where each process of xdist runs some."""
        if self.run is None and self.problem is None:
            chosen = [
                sibling for sibling in self.session.items if isinstance(sibling, ItemTest) and sibling.parent is self
            ]
            alone = hasattr(self.config, "workerinput")  # every worker of xdist sees all tests and runs some
            asked = [test] if alone and test is not None else chosen
            try:
                self.run = self._evaluate([sibling.position for sibling in asked])
            except Exception as problem:  # every test of the dataset says the same
                self.problem = problem
        if self.problem is not None:
            raise self.problem
        assert self.run is not None
        if self.run.totals.cached:
            from tui_evals.present.runs import cached_text

            self.config.stash.setdefault(_CACHED, {})[self.name] = cached_text(self.run.totals)
        return self.run

    def _evaluate(self, positions: Iterable[int]) -> Run:
        from .evaluating import RunStopped, evaluate

        option = self.config.getoption
        try:
            return evaluate(
                self.path,
                option("--tui-evals-target"),
                judge=option("--tui-evals-judge"),
                without_judges=option("--tui-evals-without-judges"),
                max_cost=option("--tui-evals-max-cost"),
                trust=option("--tui-evals-trust"),
                allow_unjudged=option("--tui-evals-allow-unjudged"),
                only=positions,
                project=self.path.parent,
                tags=("pytest",),
            )
        except RunStopped as stopped:
            return stopped.run


def _marks(item: dict[str, Any]) -> list[str]:
    labels = [item.get("category"), *(item.get("tags") or ())]
    names = (_NO_MARK.sub("_", word).strip("_") for word in labels if isinstance(word, str))
    return [mark for mark in dict.fromkeys(names) if mark.isidentifier()]


class NotPassed(Exception):
    """An item did not pass; the message says why."""


class DatasetTest(pytest.Item):
    """A test of a dataset."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message; a traceback only for unexpected errors."""
        from tui_evals.datasets.paths import DatasetError
        from tui_evals.runs.errors import CannotPlan
        from tui_evals.store.database import StoreError
        from tui_evals.targets.base import ConfigurationError
        from tui_evals.text.safe import log_is_read, safe

        if isinstance(excinfo.value, NotPassed | DatasetError | CannotPlan | StoreError | ConfigurationError):
            return safe(str(excinfo.value))
        representation = super().repr_failure(excinfo, style)
        return safe(str(representation)) if log_is_read() else representation

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file, and the item's name."""
        from tui_evals.text.safe import safe_line

        return Path(safe_line(str(self.path))), None, self.name


class ItemTest(DatasetTest):
    """One item of a dataset."""

    def __init__(self, *, item: str, position: int, **more: Any) -> None:
        super().__init__(**more)
        self.item = item
        self.position = position

    def runtest(self) -> None:
        """Fail where an answer did not pass, with what was expected beside it."""
        assert isinstance(self.parent, DatasetFile)
        answers = self.parent.answers(self)
        if not answers:
            self._fail("the run ended before this item was asked")
        wrong = [answer for answer in answers if answer.status not in ("pass", "scored", "unjudged")]
        if not wrong and not any(answer.passed for answer in answers):
            pytest.skip("unjudged: nothing that judged this item can pass or fail")
        if wrong:
            expected = _references(self.parent.path, self.position)
            self._fail("\n\n".join(_failure_text(answer, expected.get(answer.turn, "")) for answer in wrong))

    def _fail(self, why: str) -> NoReturn:
        """Fail with a message; where gates decide, what does not pass is expected to fail."""
        if _gates(self.config):
            pytest.xfail(why)
        raise NotPassed(why)


class GateTest(DatasetTest):
    """The gates of a dataset: the run of all its selected tests meets every one."""

    def runtest(self) -> None:
        """Fail unless all gates are met, and keep their table for the end of the session."""
        from tui_evals.present.gates import gate_lines, gate_texts
        from tui_evals.text.safe import safe

        from .gating import gate

        assert isinstance(self.parent, DatasetFile)
        results = gate(self.parent.evaluated(), project=self.parent.path.parent, **_gates(self.config))
        tables = self.config.stash.setdefault(_TABLES, {})
        tables[self.parent.name] = [*gate_lines(results.checks), safe(results.line)]
        for text in gate_texts(results.checks):
            self.user_properties.append((text.name, f"{text.look.word}: {text.figure}"))
        if not results:
            raise NotPassed(results.line)


def _references(file: Path, position: int) -> dict[int, str]:
    """The expected response of each turn of an item."""
    from tui_evals.datasets.document import load

    item = load(file).data["items"][position]
    units = item.get("turns") or [item]
    responses = (unit.get("expected_response") or next(iter(unit.get("ideal") or ()), "") for unit in units)
    return dict(enumerate(responses))


def _failure_text(answer: Answer, expected: str) -> str:
    """Why an answer did not pass: the reasons of its evaluators, and how it differs from what was expected."""
    from difflib import ndiff

    from tui_evals.text.safe import safe

    where = f"{answer.target}, turn {answer.turn + 1}" if answer.turn else answer.target
    lines = [f"{where}: {answer.status}" + (f": {answer.error}" if answer.error else "")]
    lines += (f"  {line}" for line in (answer.traceback or "").splitlines())
    for key, record in answer.scores.items():
        if record.result not in ("pass", "skipped", None):
            lines.append(f"  {key}: {record.result}: {record.reason}")
            lines += (f"    {line}" for line in str(record.details.get("traceback") or "").splitlines())
    if answer.text is not None and expected:
        lines.append("  expected (-) and answered (+):")
        lines += (f"  {line.rstrip()}" for line in ndiff(expected.splitlines(), answer.text.splitlines()))
    elif answer.text is not None:
        lines += ["  answered:", *(f"    {line}" for line in answer.text.splitlines())]
    return safe("\n".join(lines))
