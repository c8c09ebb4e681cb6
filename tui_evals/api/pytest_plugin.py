"""The pytest plugin: `pytest --tui-evals evals/` makes a test of every item of the datasets it finds.

It is loaded with every pytest of an environment that has tui_evals, so that nothing of ours is imported before it is
used.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from tui_evals.runs.gate_options import OPTIONS, GateOption, gates_of

if TYPE_CHECKING:
    from tui_evals.api.recording import ClosingLine, SessionRuns
    from tui_evals.api.watching import Answer

    from .recording import Case
    from .run import Run

_SUFFIXES = (".json", ".jsonl", ".csv")
_NO_MARK = re.compile(r"\W+")
_FOLDER = "tui_evals_folder"
"""The folder where the processes of a session note their runs, as xdist hands it to its workers."""
_SESSION = "tui_evals_session"
_SHARED = pytest.StashKey[Path]()
_CASE = "case"
"""The parameter of a test that `cases` fills."""


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
        help="Run even if an evaluator lacks something it needs to judge.",
    )
    group.addoption(
        "--tui-evals-trust",
        action="store_true",
        help="Let the project run its code and send keys to its addresses, without asking.",
    )
    group.addoption("--tui-evals-max-cost", type=float, metavar="USD", help="Stop before the session spends more.")
    group.addoption("--tui-evals-no-cache", action="store_true", help="Ask although the cache knows the answer.")
    for option in OPTIONS:
        alone: dict[str, Any] = {"nargs": "?", "const": option.alone} if option.alone else {}
        group.addoption(
            _flag(option), metavar=option.metavar, type=partial(_gate_value, option), help=option.help, **alone
        )


def _flag(option: GateOption) -> str:
    return option.flag.replace("--", "--tui-evals-", 1)


def _gate_value(option: GateOption, text: str) -> object:
    """The value of a gate; raises ArgumentTypeError."""
    try:
        return option.read(text)
    except ValueError as problem:
        before = f"; before a path write {_flag(option)}={option.alone}" if option.alone else ""
        raise argparse.ArgumentTypeError(f"{problem}{before}") from None


def _shared_folder(config: pytest.Config) -> Path:
    """The folder where the processes of the session note their runs, made by the first one that needs it."""
    if _SHARED not in config.stash:
        worker = getattr(config, "workerinput", None)
        config.stash[_SHARED] = Path(worker[_FOLDER] if worker else tempfile.mkdtemp(prefix="tui-evals-pytest-"))
    return config.stash[_SHARED]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist the shared folder and the process of the session."""
    node.workerinput[_FOLDER] = str(_shared_folder(node.config))
    node.workerinput[_SESSION] = os.getpid()


@pytest.fixture
def tui_evals(request: pytest.FixtureRequest) -> Recorder:
    """Records answers of the test, and judges them as their dataset says (`tui-evals help python`)."""
    return Recorder(request)


class Recorder:
    """Records the answers of one test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._since = time.time()

    def record(self, answer: object, case: Case | None = None, *, turn: int = 1) -> Answer:
        """Store an answer to a case, by default that of the test, and return it once it is judged."""
        from .recording import NotJudged, RecordingFailed, RecordingTerms, TestRecording

        config, node = self._request.config, self._request.node
        of_test: Case | None = node.callspec.params.get(_CASE) if hasattr(node, "callspec") else None
        asked = case or of_test
        if asked is None:
            raise TypeError("Say which case is answered: record(answer, case), or decorate the test with cases(...).")
        chosen = {
            one.position
            for item in self._request.session.items
            if hasattr(item, "callspec") and (one := item.callspec.params.get(_CASE)) and one.dataset == asked.dataset
        }
        root = config.rootpath
        inside = asked.dataset.is_relative_to(root)
        name = f"{asked.dataset.relative_to(root).as_posix() if inside else asked.dataset} (answers of tests)"
        runs = _runs(config)
        terms = RecordingTerms(
            name=name,
            dataset=str(asked.dataset),
            positions=sorted(chosen | {asked.position}),
            process=getattr(config, "workerinput", {}).get(_SESSION, os.getpid()),
            session=runs.terms,
        )
        recording = TestRecording(runs.note(name))
        recording.demand(terms)
        try:
            return recording.record(asked, answer, turn=turn - 1, root=root, since=self._since)
        except RecordingFailed as problem:
            failure = problem
        if isinstance(failure, NotJudged):  # pytest shows the error before it too, where it is raised in the handler
            pytest.skip(str(failure))
        pytest.fail(str(failure), pytrace=False)

    def check(self, answer: object, case: Case | None = None, *, turn: int = 1) -> Answer:
        """Record an answer, and fail the test unless it passes."""
        judged = self.record(answer, case, turn=turn)
        if judged.status in ("fail", "partial", "error"):
            pytest.fail(_failure_text(judged, judged.expected or ""), pytrace=False)
        return judged


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder."""
    if _SHARED in config.stash and not _is_worker(config):
        shutil.rmtree(config.stash[_SHARED], ignore_errors=True)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _runs(config: pytest.Config) -> SessionRuns:
    """The runs of the session."""
    from tui_evals.api.recording import SessionRuns, SessionTerms

    option = config.getoption
    terms = SessionTerms(
        root=str(config.rootpath),
        target=option("--tui-evals-target"),
        judge=option("--tui-evals-judge"),
        without_judges=option("--tui-evals-without-judges"),
        max_cost=option("--tui-evals-max-cost"),
        trust=option("--tui-evals-trust"),
        allow_unjudged=option("--tui-evals-allow-unjudged"),
        use_cache=not option("--tui-evals-no-cache"),
    )
    return SessionRuns(_shared_folder(config), terms)


def _closing_lines(config: pytest.Config) -> list[ClosingLine]:
    """A line for each dataset that was asked; importing nothing where none was."""
    folder = config.stash.get(_SHARED, None)
    if folder is None:
        return []
    for answers in folder.glob("*.answers"):
        from .recording import TestRecording

        TestRecording(answers.with_suffix(".json")).end()
    return list(_runs(config).closing_lines()) if any(folder.glob("*.json")) else []


def _too_much_missing(line: ClosingLine, config: pytest.Config) -> bool:
    return line.missing_share > (config.getoption("--tui-evals-max-missing") or 0.0)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session where more answers are missing than allowed, or recorded answers do not meet a gate."""
    if _is_worker(session.config):
        return
    missing = any(_too_much_missing(line, session.config) for line in _closing_lines(session.config))
    met = _recorded_answers_meet_gates(session.config)
    if session.exitstatus == pytest.ExitCode.OK and (missing or not met):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _recorded_answers_meet_gates(config: pytest.Config) -> bool:
    """Whether every run of answers that tests recorded meets the gates; their tables are kept for the end."""
    folder, gates, met = config.stash.get(_SHARED, None), _gates(config), True
    for answers in folder.glob("*.answers") if folder is not None and gates else ():
        from tui_evals.api.recording import read_note
        from tui_evals.api.run import gate
        from tui_evals.present.gates import gate_lines
        from tui_evals.runs.errors import CannotPlan
        from tui_evals.text.safe import safe

        if note := read_note(answers.with_suffix(".json")):
            try:
                results = gate(note["key"], project=config.rootpath, **gates)
                lines = [*gate_lines(results.checks), safe(results.line)]
            except CannotPlan as problem:
                results, lines = None, [safe(str(problem))]
            _runs(config).keep_gates(note["name"], lines)
            met = met and bool(results)
    return met


def _gates(config: pytest.Config) -> dict[str, Any]:
    """The gates that are set, as the library's `gate` takes them; empty if none decides anything.

    --tui-evals-max-missing alone is not a gate: it decides whether missing answers fail the session.
    """
    values = {option.name: config.getoption(_flag(option)) for option in OPTIONS}
    decides = gates_of({**values, "max_missing": None}).deciding
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
    """Print the run of each dataset with its result, cost, missing answers, and its gates as a table."""
    if _is_worker(config):
        return
    for line in _closing_lines(config):
        terminalreporter.write_line(f"tui_evals: {line.text}")
        if _too_much_missing(line, config):
            terminalreporter.write_line(f"tui_evals: {line.missing_sentence}", red=True)
        if line.gates:
            terminalreporter.section(f"tui_evals gates: {line.dataset}")
        for row in line.gates:
            terminalreporter.write_line(row)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
    """Report as the duration of an item how long its own answers took."""
    outcome = yield
    if isinstance(item, ItemTest) and call.when == "call" and item.seconds is not None:
        outcome.get_result().duration = item.seconds


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

    _run: Run | None = None
    _problem: Exception | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each item that a run asks, marked with its category and its tags."""
        from tui_evals.datasets.document import load
        from tui_evals.datasets.item_names import names_in_run
        from tui_evals.datasets.matrix import expanded
        from tui_evals.datasets.paths import DatasetError
        from tui_evals.text.safe import safe, safe_line

        try:
            asked, _ = expanded(load(self.path))
        except DatasetError as problem:
            raise self.CollectError(safe(str(problem))) from None
        items = asked.data["items"]
        test_ids = [name if isinstance(name := item.get("testId"), str) else None for item in items]
        for position, (item, item_name) in enumerate(zip(items, names_in_run(test_ids), strict=True)):
            test = ItemTest.from_parent(self, name=safe_line(item_name), data=item, position=position)
            _mark(test, item)
            yield test

    def answers(self, test: ItemTest) -> list[Answer]:
        """The answers of one test; the first call runs all selected tests."""
        return [answer for answer in self.run().answers if answer.position == test.position]

    def run(self) -> Run:
        """The run of all selected tests, which all processes of the session share."""
        if self._run is None and self._problem is None:
            chosen = [test for test in self.session.items if isinstance(test, ItemTest) and test.parent is self]
            try:
                self._run = _runs(self.config).run(self.path, self.name, [test.position for test in chosen])
            except Exception as problem:  # every test of the dataset says the same
                self._problem = problem
        if self._problem is not None:
            raise self._problem
        assert self._run is not None
        return self._run


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test of `@cases` with category and tags of its item."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    case = parameters.get(_CASE)
    recording = sys.modules.get("tui_evals.api.recording")  # imported where there are cases
    if recording is not None and isinstance(case, recording.Case):
        _mark(item, case.item)


def _mark(test: pytest.Item, item: Mapping[str, Any]) -> None:
    labels = [item.get("category"), *(item.get("tags") or ())]
    names = (_NO_MARK.sub("_", word).strip("_") for word in labels if isinstance(word, str))
    for mark in dict.fromkeys(names):
        if mark.isidentifier():
            test.config.addinivalue_line("markers", f"{mark}: items of this category, or with this tag")
            test.add_marker(mark)


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

    seconds: float | None = None
    """How long its answers took."""

    def __init__(self, *, data: dict[str, Any], position: int, **more: Any) -> None:
        super().__init__(**more)
        self.data = data
        self.position = position

    def runtest(self) -> None:
        """Fail if an answer did not pass, and show what was expected."""
        assert isinstance(self.parent, DatasetFile)
        answers = self.parent.answers(self)
        self.seconds = sum(answer.latency_ms or 0.0 for answer in answers if not answer.from_cache) / 1000
        wrong = [answer for answer in answers if answer.status in ("fail", "partial", "error")]
        if wrong:
            expected = _references(self.data)
            self._fail("\n\n".join(_failure_text(answer, expected.get(answer.turn, "")) for answer in wrong))
        if any(answer.status in ("pending", "running") for answer in answers):
            pytest.skip(f"not asked: {self._why_missing()}")
        if any(answer.status == "answered" for answer in answers):
            pytest.skip(f"not judged: {self._why_missing()}")
        if not any(answer.passed for answer in answers):
            pytest.skip("unjudged: nothing that judged this item can pass or fail")

    def _why_missing(self) -> str:
        from tui_evals.text.safe import safe_line

        assert isinstance(self.parent, DatasetFile)
        run = self.parent.run()
        return safe_line(run.message or f"the run {run.key} is {run.status}")

    def _fail(self, why: str) -> NoReturn:
        """Fail with a message; where gates decide, what does not pass is expected to fail."""
        if _gates(self.config):
            pytest.xfail(why)
        raise NotPassed(why)


class GateTest(DatasetTest):
    """The gates of a dataset: the run of all its selected tests meets every one."""

    def runtest(self) -> None:
        """Fail unless all gates are met, and keep their table for the end of the session."""
        from tui_evals.api.run import gate
        from tui_evals.present.gates import gate_lines, gate_texts
        from tui_evals.text.safe import safe

        assert isinstance(self.parent, DatasetFile)
        results = gate(self.parent.run(), project=self.config.rootpath, **_gates(self.config))
        _runs(self.config).keep_gates(self.parent.name, [*gate_lines(results.checks), safe(results.line)])
        for text in gate_texts(results.checks):
            self.user_properties.append((text.name, f"{text.look.word}: {text.figure}"))
        if not results:
            raise NotPassed(results.line)


def _references(item: dict[str, Any]) -> dict[int, str]:
    """The expected response of each turn of an item."""
    units = item.get("turns") or [item]
    responses = (unit.get("expected_response") or next(iter(unit.get("ideal") or ()), "") for unit in units)
    return dict(enumerate(responses))


def _failure_text(answer: Answer, expected: str) -> str:
    """Why an answer did not pass: the reasons of its evaluators, and its difference to the expected response."""
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
