"""Tests by the number of a finding, each at the face that shows it; most need a project beside a server."""

from tests.runs.conftest import project, server

__all__ = ["project", "server"]
