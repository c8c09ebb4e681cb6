"""Where a command runs: the project with its settings, its environment and its evaluators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tui_evals.datasets.discover import project_root
from tui_evals.evaluators.registry import Registry
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, load_settings
from tui_evals.targets.environment import environment

from . import project
from .output import Stop, warn


@dataclass(frozen=True)
class World:
    """Where a command runs: the project, its settings, its environment, its evaluators."""

    root: Path
    settings: Settings
    environment: Mapping[str, str]
    registry: Registry


def world(env_name: str | None, trusting: bool, prompt: Path | None = None) -> World:
    """The project's world, or the end of the command with what is wrong in it."""
    root = project_root(Path.cwd())
    try:
        settings = load_settings(root)
        values, notes = environment(root, env_name)
    except ConfigurationError as problem:
        raise Stop(str(problem), 3) from None
    for note in notes:
        warn(f"note: {note}")
    return World(root, settings, values, project.evaluators(trusting, prompt))
