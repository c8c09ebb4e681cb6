"""What holds for every workbench under test."""

import gc

import pytest


@pytest.fixture(autouse=True)
def memory_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workbench freezes the memory it starts with; of hundreds in one process none would ever be freed."""
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "collect", lambda generation=2: 0)
