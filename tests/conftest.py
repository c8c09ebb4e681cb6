"""Nothing of the person who runs the tests leaks into them, and nothing is compiled twice."""

import gc
import itertools
import json
import os
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import settings

from tests import warm
from tests.command_line import answers, dataset, folder, shell
from tests.server import Server, running
from tests.tiers import pytest_collection_modifyitems, pytest_configure, pytest_itemcollected
from tui_evals.store import schema
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.text.safe import LOG_READERS

__all__ = [
    "answers",
    "dataset",
    "folder",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_itemcollected",
    "shell",
]

# Without bytecode each worker and each of the hundreds of processes that tests start would compile the whole product;
# git ignores the folders it is kept in.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Begun in the background of a script, this and all that tests start would not hear Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is for the benchmarks to say, not for a test to fail by.
settings.register_profile("untimed", deadline=None, max_examples=10)
settings.register_profile("many", settings.get_profile("untimed"), max_examples=60)
settings.register_profile("thorough", settings.get_profile("untimed"), max_examples=250)
settings.load_profile("untimed")

# Of the collected tests, which are kept, a search for garbage would find none.
gc.disable()


def pytest_collection_finish() -> None:
    """Set thousands of collected tests aside, which every full search for garbage would walk through for 0.4 s."""
    os.environ.pop("TUI_EVALS_TRUST", None)  # a bench sets it where it is imported
    gc.freeze()
    gc.freeze = lambda: None  # what the product freezes after this, hundreds of times in one process, is let go
    gc.enable()
    gc.set_threshold(100_000, 50, 100)  # looking for cycles among the small things of a screen costs a tenth


@pytest.fixture(autouse=True, scope="module")
def files_given_back() -> Iterator[None]:
    """Close the stores that are open only because so little garbage is looked for."""
    yield
    if len(os.listdir("/dev/fd")) > _MANY_FILES:
        _collect()


_MANY_FILES = 200
_collect = gc.collect


_NUMBERS = itertools.count()
_CHECKOUT = str(Path(__file__).parents[1])
_EVERYTHING_IS_OURS = json.dumps({"trees": {"/": f"{os.stat('/').st_dev}:{os.stat('/').st_ino}"}, "projects": {}})


def _at_home(home: Path) -> Path:
    """A home whose owner trusts every project, as the author of them all; tests/hostile has its own."""
    (home / "tui_evals").mkdir(parents=True)
    (home / "tui_evals" / "projects.json").write_text(_EVERYTHING_IS_OURS)
    return home


# What fixtures of a module or session start must not find the home of the person who runs the tests.
os.environ["XDG_STATE_HOME"] = str(_at_home(Path(tempfile.mkdtemp(prefix="tui-evals-tests-")) / "home"))


@pytest.fixture(scope="session", autouse=True)
def warm_processes() -> Iterator[None]:
    """Fork each process of the product, a test's own or one that the product starts, from one that has imported it."""
    with mock.patch("subprocess.Popen", warm.Popen):
        yield
    warm.cool()


@pytest.fixture(scope="session", autouse=True)
def stores_made_once() -> Iterator[None]:
    """Copy the tables of a new store, which a thousand tests begin with: to make them takes three times as long."""
    steps, make = schema.STEPS, schema.make_tables
    empty = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    make(empty, steps)

    def copied(connection: sqlite3.Connection, wanted: Sequence[Any], version: int = 0) -> None:
        if wanted is not steps or version:
            make(connection, wanted, version)
            return
        connection.execute("PRAGMA journal_mode=WAL")
        empty.backup(connection)
        connection.execute("UPDATE meta SET v = random() WHERE k IN ('store', 'writer')")

    with mock.patch.object(schema, "make_tables", copied):
        yield
    empty.close()


@pytest.fixture(scope="session")
def one_server() -> Iterator[Server]:
    """The one server of this process on loopback; a test that uses it resets it first."""
    with running() as server:
        yield server


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project(here: Path) -> Path:
    """An empty project; rooms that need more have one of their own."""
    return here


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A new store."""
    return open_store(tmp_path / ".evals" / "evals.db")


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    with Writer(path) as writer:
        yield writer


@pytest.fixture
def reader(path: Path) -> Iterator[Reader]:
    with Reader(path) as reader:
        yield reader


@pytest.fixture(autouse=True)
def forgotten_modules() -> Iterator[None]:
    """Forget the modules of a test's project, whose names the project of the next test may have too."""
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(tempfile.gettempdir()) and not file.startswith(_CHECKOUT):  # which may be a temporary one
            del sys.modules[name]


class _Homes:
    """A home for each test; one that nothing was written to serves the next test too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = self._pristine = None

    def next(self) -> Path:
        if self._home is None or self._state() != self._pristine:
            self._home = _at_home(self._folder / str(next(_NUMBERS)))
            self._pristine = self._state()
        return self._home

    def _state(self) -> list[int]:
        places = (self._home, self._home / "tui_evals", self._home / "tui_evals" / "projects.json")
        return [place.stat().st_mtime_ns if place.exists() else 0 for place in places]


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> _Homes:
    return _Homes(tmp_path_factory.mktemp("homes"))


@pytest.fixture(autouse=True)
def clean_world(monkeypatch: pytest.MonkeyPatch, homes: _Homes) -> None:
    home = homes.next()
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "NO_COLOR", "TUI_EVALS_DB", "TUI_EVALS_TRUST", *LOG_READERS):
        monkeypatch.setenv(name, "")  # so that what a command sets, as --db does, ends with the test
        monkeypatch.delenv(name)
