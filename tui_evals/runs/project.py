"""The project of a run: its folder, settings, environment, evaluators and store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tui_evals.datasets.discover import make_project
from tui_evals.evaluators.registry import Registry, load_registry
from tui_evals.evaluators.trust import Trust
from tui_evals.light_records import dataclass
from tui_evals.runs.errors import CannotPlan
from tui_evals.store import identity
from tui_evals.store.connection import alive, executed_runs, run_lock, why_read_only
from tui_evals.store.database import StoreError, open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.writer import Writer
from tui_evals.targets.config import Settings, load_settings
from tui_evals.targets.environment import environment
from tui_evals.targets.permissions import Permission
from tui_evals.text.safe import secrets_of

DATABASE = "TUI_EVALS_DB"
"""The variable that names another store than the project's own."""
TRUST = "TUI_EVALS_TRUST"
"""The variable of the process that trusts a project without a question, with the value `all`."""


def store_of(root: Path) -> Path:
    """The store that TUI_EVALS_DB names, else the project's own; made where there is none yet."""
    place = place_of_store(root)
    if not os.environ.get(DATABASE) and not why_read_only(place):
        make_project(root)
    if not place.exists():
        demand_unused(place)
    return project_store(root, place)


def project_store(root: Path, path: Path) -> Path:
    """A store that a project uses, made where there is none yet."""
    path = open_store(path)
    settle_origin(root, path)
    return path


def settle_origin(root: Path, path: Path) -> None:
    """Adopt a store without a question that was opened where everything is the user's own, or is trusted."""
    if trusts_all():
        identity.trust(path, trusting=True)
    number = identity.noticed_number(path)
    if number is None or identity.is_own(path, number) or path.parent.resolve() != (root / ".evals").resolve():
        return
    # Imported only for an unknown store, because most commands do not need it.
    from tui_evals.targets.permissions import Approvals

    if Approvals(root).is_own:
        identity.own(path, number, "adopted")


def trusts_all() -> bool:
    """Whether this process trusts every project without a question."""
    return os.environ.get(TRUST) == "all"


def place_of_store(root: Path) -> Path:
    """The path of the store, whether it exists or not."""
    return Path(os.environ.get(DATABASE) or root / ".evals" / "evals.db").absolute()


def demand_unused(path: Path) -> None:
    """Raise StoreError if the store was deleted while a run that is still running writes into it."""
    for key in executed_runs(path):
        if alive(run_lock(path, key)):
            raise StoreError(
                f"{path} was deleted while the run {key} writes into it. The run ends at once and writes it there "
                "again; then try again."
            )


@dataclass(frozen=True)
class Project:
    """The facts about a project that every interface needs before a run."""

    root: Path
    settings: Settings
    environment: Mapping[str, str]
    notes: tuple[str, ...] = ()
    """Warnings about the environment files."""
    trusting: bool = False
    """Whether code of the project runs unasked."""
    prompt: Path | None = None
    """The prompt under test, next to which metrics lie."""
    env_name: str | None = None
    """The layer of environment files."""
    database: Path | None = None
    """The store to use instead of the usual one."""

    @cached_property
    def registry(self) -> Registry:
        """The evaluators of the project, with the metrics next to its prompt under test."""
        return load_registry(self.root, Trust(always=self.trusting), self.prompt.parent if self.prompt else None)

    @cached_property
    def store(self) -> Path:
        """The database, made where there is none yet."""
        if self.trusting:
            identity.trust((self.database or place_of_store(self.root)).absolute(), trusting=True)
        return store_of(self.root) if self.database is None else project_store(self.root, self.database)

    @property
    def has_store(self) -> bool:
        """Whether there is one already."""
        return (self.database or place_of_store(self.root)).exists()

    def writer(self) -> Writer:
        """A writer for the store, which removes secrets of the environment from texts."""
        return Writer(self.store, secrets=self.secrets, durable=self.settings.durable)

    @property
    def secrets(self) -> list[str]:
        """Values that must not be stored or shown."""
        sent = (self.environment.get(name, "").strip() for name in self.settings.secret_variables)
        return [*secrets_of(self.environment), *filter(None, sent)]

    def with_prompt(self, prompt: Path | None) -> Project:
        """This project with the metrics next to a prompt."""
        return self if prompt == self.prompt else replace(self, prompt=prompt)


def load_project(root: Path, env_name: str | None = None, *, trusting: bool = False) -> Project:
    """The project in a folder; raises ConfigurationError if its settings are invalid."""
    settings = load_settings(root)
    trusting = trusting or trusts_all()
    if trusting:
        identity.trust(place_of_store(root), trusting=True)
    variables, notes = environment(root, env_name, settings.variables, trusting=trusting)
    return Project(root, settings, variables, tuple(notes), trusting, env_name=env_name)


_UNUSED = (
    "Its cached answers and baselines are not used. `tui-evals trust --store` uses them from now on, --trust this once."
)
_begun: set[tuple[Path, str]] = set()


def store_permission(root: Path, path: Path) -> Permission | None:
    """The permission that the store needs; None if it is missing or the user's own."""
    if not path.exists():
        return None
    settle_origin(root, path)
    if _is_known(path):
        return None
    with Reader(path) as reader:
        if not reader.is_foreign:
            return None
        answers, runs = reader.cache_info().entries, len(reader.runs(limit=1_000))
        number = reader.store_number
    place = path.relative_to(root) if path.is_relative_to(root) else path
    holds = f"{answers:,} cached answer{'s' * (answers != 1)}, {runs:,} run{'s' * (runs != 1)}"
    does = f"answers from its store, which was not begun here ({holds})"
    return Permission("store", does, str(place), str(number), path)


def _is_known(path: Path) -> bool:
    """Whether a store that this process has opened is the user's own."""
    number = identity.noticed_number(path)
    return number is not None and identity.is_own(path, number)


def adopt(path: Path) -> None:
    """Make a store the user's own."""
    with Reader(path) as reader:
        identity.own(path, reader.store_number, "adopted")


def adopted_stores(root: Path) -> list[identity.Adopted]:
    """The stores of a project that the user allowed."""
    return identity.adopted_below(place_of_store(root).parent)


def forget_stores(root: Path) -> int:
    """Take back the yes to the stores of a project; how many there were."""
    return identity.disown_below(place_of_store(root).parent)


def store_note(path: Path) -> str:
    """Which parts of a store are not used because it is not the user's own; empty if it is."""
    if identity.is_unrecorded(path):
        return (
            f"{path} counts as yours in this process only, because your state folder cannot be written. Later "
            "commands use its cached answers and baselines with --trust."
        )
    if _is_known(path):
        return ""
    with Reader(path) as reader:
        return f"{path} was not begun here. {_UNUSED}" if reader.is_foreign else ""


def note_begun(path: Path, run: RunRow) -> None:
    """Remember that this process began a run, whatever else its store holds."""
    _begun.add((path, run.key))


def demand_own_store(reader: Reader, what: str, *, run: RunRow | None = None) -> None:
    """Raise CannotPlan if a store that is not the user's own would decide something; a `run` begun here is allowed."""
    if reader.is_foreign and (run is None or (reader.path, run.key) not in _begun):
        raise CannotPlan(
            f"{what} is in {reader.path}, which was not begun here, so it decides nothing. Read it, then use it: "
            "`tui-evals trust --store`, or --trust for this once. To use a new store: --db FILE",
            "arguments",
        )
