"""Nothing of the person who runs the tests leaks into them, and nothing is compiled twice."""

import gc
import itertools
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Without bytecode each worker and each of the hundreds of processes that tests start would compile the whole product;
# git ignores the folders it is kept in.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# How long an example takes is for the benchmarks to say, not for a test to fail by.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Set thousands of collected tests aside, which every full search for garbage would walk through for 0.4 s."""
    gc.collect()
    gc.freeze()


_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def clean_world(monkeypatch: pytest.MonkeyPatch, homes: Path) -> None:
    home = homes / str(next(_NUMBERS))
    home.mkdir()
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "NO_COLOR", "TUI_EVALS_DB"):
        monkeypatch.delenv(name, raising=False)
