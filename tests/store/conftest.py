import pytest

from tui_evals.store import schema
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.schema import make_tables
from tui_evals.store.writer import Writer


@pytest.fixture(autouse=True)
def tables_that_are_made(monkeypatch):
    """Here a new store is made as the product makes it, step by step."""
    monkeypatch.setattr(schema, "make_tables", make_tables)


@pytest.fixture
def path(tmp_path):
    return open_store(tmp_path / ".evals" / "evals.db")


@pytest.fixture
def writer(path):
    with Writer(path) as writer:
        yield writer


@pytest.fixture
def reader(path):
    with Reader(path) as reader:
        yield reader
