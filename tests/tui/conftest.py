"""What holds for every workbench under test."""

import gc

import pytest
from textual import _wait


@pytest.fixture(autouse=True)
def memory_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workbench freezes the memory it starts with; of hundreds in one process none would ever be freed."""
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "collect", lambda generation=2: 0)


@pytest.fixture(autouse=True)
def keys_pressed_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual looks three times after each key whether the app is idle, for 20 ms each; 5 ms tell it as well."""
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", _wait.SLEEP_GRANULARITY / 4)
    monkeypatch.setattr(_wait, "SLEEP_IDLE", _wait.SLEEP_IDLE / 4)
