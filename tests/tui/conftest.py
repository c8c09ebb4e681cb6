"""What holds for every workbench under test."""

import gc

import pytest

from tests.runs.conftest import FREE, Project, server

__all__ = ["server"]


@pytest.fixture
def project(tmp_path, server):
    """A project whose runs ask a real server, free of charge; a module with another one has a fixture of its own."""
    made = Project(tmp_path, server)
    made.configure(FREE + '[run]\ntargets = ["main"]')
    return made


@pytest.fixture(autouse=True)
def no_search_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workbench looks for garbage after its first picture, which for hundreds in one process takes minutes."""
    monkeypatch.setattr(gc, "collect", lambda generation=2: 0)
