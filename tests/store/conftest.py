import pytest

from tui_evals.store import schema
from tui_evals.store.schema import make_tables


@pytest.fixture(autouse=True)
def tables_that_are_made(monkeypatch):
    """Here a new store is made as the product makes it, step by step."""
    monkeypatch.setattr(schema, "make_tables", make_tables)
