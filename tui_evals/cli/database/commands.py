"""db check, repair, vacuum, backup."""

from __future__ import annotations

from pathlib import Path

import click

_file = click.Path(path_type=Path)
_store = click.argument("store", type=_file, required=False)


@click.group("db")
def db_command() -> None:
    """The store that keeps the runs: check, repair, vacuum, backup.

    STORE is a file; without one it is the store of the project, or the one that --db or TUI_EVALS_DB name.
    """


@db_command.command("check")
@_store
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def check_command(store: Path | None, as_json: bool) -> int:
    """Look at every page of STORE and compare every index; exit 1 if it is damaged."""
    from .keeping import check_store

    return check_store(store, as_json)


@db_command.command("repair")
@_store
@click.option("--yes", is_flag=True, help="Do not ask.")
def repair_command(store: Path | None, yes: bool) -> None:
    """Save what can be read of a damaged STORE into a new one, which takes its place.

    The damaged file is never written to: it is kept beside the new one as STORE.damaged-DATE. Nothing else may have
    the store open, and no run may be executed meanwhile.
    """
    from .keeping import repair_store

    repair_store(store, yes)


@db_command.command("vacuum")
@_store
def vacuum_command(store: Path | None) -> None:
    """Give back the space of what was deleted in STORE, while no run is executed."""
    from .keeping import vacuum_store

    vacuum_store(store)


@db_command.command("backup")
@click.argument("dest", type=_file)
@click.option("--force", is_flag=True, help="Replace DEST where it is there.")
def backup_command(dest: Path, force: bool) -> None:
    """Copy the store to DEST, a file or a folder, whole and sound; runs may be executed meanwhile."""
    from .keeping import back_up_store

    back_up_store(dest, force)
