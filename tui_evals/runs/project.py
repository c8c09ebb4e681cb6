"""The project a run belongs to: its folder, settings, environment, evaluators and store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tui_evals.evaluators.registry import Registry, load_registry
from tui_evals.evaluators.trust import Trust
from tui_evals.store.database import open_store
from tui_evals.store.redact import secrets_of
from tui_evals.store.writer import Writer
from tui_evals.targets.config import Settings, load_settings
from tui_evals.targets.environment import environment

from .store_path import place_of_store, store_of

TRUST = "TUI_EVALS_TRUST"
"""The variable of the process that trusts a project without a question, with the value `all`."""


@dataclass(frozen=True)
class Project:
    """What every face needs to know of a project before it starts a run in it."""

    root: Path
    settings: Settings
    environment: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """Warnings about the environment files."""
    trusting: bool = False
    """Whether code of the project runs unasked."""
    prompt: Path | None = None
    """The prompt under test, beside which metrics lie."""
    database: Path | None = None
    """The store to use instead of the usual one."""

    @cached_property
    def registry(self) -> Registry:
        """The evaluators of the project, with the metrics beside its prompt under test."""
        return load_registry(self.root, Trust(always=self.trusting), self.prompt.parent if self.prompt else None)

    @cached_property
    def store(self) -> Path:
        """The database, made where there is none yet."""
        return open_store(self.database) if self.database is not None else store_of(self.root)

    @property
    def has_store(self) -> bool:
        """Whether there is one already."""
        return (self.database or place_of_store(self.root)).exists()

    def writer(self) -> Writer:
        """The writing door of the store; what looks like a secret of the environment never passes it."""
        return Writer(self.store, secrets=self.secrets, durable=self.settings.durable)

    @property
    def secrets(self) -> list[str]:
        """What must not be stored nor shown."""
        sent = (self.environment.get(name, "").strip() for name in self.settings.secret_variables)
        return [*secrets_of(self.environment), *filter(None, sent)]

    def with_prompt(self, prompt: Path | None) -> Project:
        """The same project with the metrics beside a prompt."""
        return self if prompt == self.prompt else replace(self, prompt=prompt)


def load_project(root: Path, env_name: str | None = None, *, trusting: bool = False) -> Project:
    """The project at a folder; ConfigurationError says what is wrong in its settings."""
    settings = load_settings(root)
    trusting = trusting or os.environ.get(TRUST) == "all"
    variables, notes = environment(root, env_name, settings.variables, trusting=trusting)
    return Project(root, settings, variables, tuple(notes), trusting)
