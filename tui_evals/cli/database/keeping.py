"""`tui-evals db`: what can be done with the file of a store as a whole."""

from __future__ import annotations

from pathlib import Path

from tui_evals.cli.asking import confirmed
from tui_evals.cli.output import Stop, say, say_json
from tui_evals.datasets.discover import project_root
from tui_evals.present.figures import file_size
from tui_evals.present.stores import readable, saved_lines, store_standing
from tui_evals.runs.store_path import place_of_store
from tui_evals.store.damage import StoreCheck, check
from tui_evals.store.database import StoreError
from tui_evals.store.repair import repairing
from tui_evals.store.upkeep import back_up, vacuum


def check_store(store: Path | None, as_json: bool) -> int:
    """Say how the store stands; 1 if it is damaged."""
    path = _place(store)
    checked = _checked(path)
    if as_json:
        is_sound = not checked.problems
        say_json(
            {"store": str(path), "sound": is_sound, "problems": checked.problems, "readable": dict(checked.readable)}
        )
    elif checked.problems:
        say(f"✗ {path} is damaged; readable are {readable(checked)}", fg="red")
        for problem in checked.problems:
            say(f"  {problem}")
        say(f"`{_command('repair', store)}` saves what can be read into a new store")
    else:
        say(f"✓ {path} is {store_standing(checked)}", fg="green")
    return int(bool(checked.problems))


def repair_store(store: Path | None, yes: bool) -> None:
    """Save what can be read, say what that is, and put it in place after a question."""
    path = _place(store)
    if not _checked(path).problems:
        say(f"✓ {path} is sound; there is nothing to repair", fg="green")
        return
    with repairing(path) as repair:
        say(f"Of {path}:", bold=True)
        for line in saved_lines(repair.tables):
            say(f"  {line}")
        if not repair.saved("runs"):
            raise Stop(f"no run can be read of {path}. It was left as it is; put a backup in its place", 1)
        if not confirmed(
            "Put what was saved in the place of the damaged file, and keep that under another name?", yes=yes
        ):
            raise Stop(f"nothing was changed; {path} is as it was", 1)
        kept = repair.put_in_place()
    say(f"repaired {path}; the damaged file is {kept}", fg="green")


def vacuum_store(store: Path | None) -> None:
    """Make the store as small as what is in it."""
    path = _place(store)
    before, after = vacuum(path)
    say(f"{path}: {file_size(before)} before, {file_size(after)} now ({before:,} and {after:,} bytes)", fg="green")


def back_up_store(dest: Path, force: bool) -> None:
    """Copy the store."""
    path = _place(None)
    copy, size = back_up(path, dest, replace=force)
    say(f"copied {path} to {copy} ({file_size(size)})", fg="green")


def _place(store: Path | None) -> Path:
    return place_of_store(project_root(Path.cwd())) if store is None else store.absolute()


def _checked(path: Path) -> StoreCheck:
    try:
        return check(path, thorough=True)
    except StoreError as problem:  # nothing of ours, of which 1 would say that it is damaged
        raise Stop(str(problem)) from None


def _command(name: str, store: Path | None) -> str:
    return f"tui-evals db {name}{'' if store is None else f' {store}'}"
