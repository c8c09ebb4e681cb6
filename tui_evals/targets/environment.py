"""The variables a project runs with: its `.env` files, layered, below what the process was given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dotenv.parser import parse_stream

from .base import ConfigurationError

_TEMPLATE_ENDINGS = ("example", "sample", "template", "user")


def environment(root: Path, name: str | None = None) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The variables, and remarks about the files.

    Without a name the first of `.env.local` and `.env.dev` counts, looked for in the folder and then in `env/`, and
    after it the same with `.user` at its end. With a name the layers are `.env.local`, `.env.local.user` and
    `env/.env.NAME`. A later file wins over an earlier one, and a variable of the process over all files.
    """
    files, remarks = _default_files(root) if name is None else _named_files(root, name)
    values: dict[str, str] = {}
    for file in files:
        values |= _read_variables(file, remarks)
    return {**values, **os.environ}, tuple(remarks)


def _named_files(root: Path, name: str) -> tuple[list[Path], list[str]]:
    named = root / "env" / f".env.{name}"
    remarks = [] if named.is_file() else [f"there is no {named}; --env {name} adds nothing"]
    layers = (root / ".env.local", root / ".env.local.user", named)
    return [file for file in layers if file.is_file()], remarks


def _default_files(root: Path) -> tuple[list[Path], list[str]]:
    folders = (root, root / "env")
    files = [file for name in (".env.local", ".env.dev") for folder in folders if (file := folder / name).is_file()]
    if not files:
        others = sorted({file.name for folder in folders for file in folder.glob(".env.*") if file.is_file()})
        others = [name for name in others if name.rpartition(".")[2] not in _TEMPLATE_ENDINGS]
        listed = ", ".join(others)
        return [], [f"neither .env.local nor .env.dev is there, but {listed}; choose with --env NAME"] if others else []
    first = files[0]
    remarks = [f"{first} counts, and {other} does not" for other in files[1:] if other.name != first.name]
    user = first.with_name(f"{first.name}.user")
    return [first, *([user] if user.is_file() else [])], remarks


def _read_variables(file: Path, remarks: list[str]) -> dict[str, str]:
    """The variables of one file, taken as they stand; a line that sets none is remarked upon, not shown."""
    try:
        with file.open(encoding="utf-8-sig") as stream:
            bindings = list(parse_stream(stream))
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
        raise ConfigurationError(f"{file} cannot be read: {reason}") from None
    remarks += [f"{file}, line {each.original.line}: not NAME=value, passed over" for each in bindings if each.error]
    return {each.key: each.value for each in bindings if each.key is not None and each.value is not None}
