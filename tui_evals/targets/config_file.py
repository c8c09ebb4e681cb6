"""Changing one setting in `.evals/config.toml` without touching the comments and the order of the rest."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from .base import ConfigurationError
from .config import FILE, load_settings


def write_setting(root: Path, key: tuple[str, ...], value: object) -> None:
    """Set a setting of the project at a folder, or remove it with None; what would not be valid is not written."""
    file = root / FILE
    text = _text_of(file)
    before = _read(file, text)
    value = list(value) if isinstance(value, tuple) else value
    wanted = _changed(before, file, key, value)
    if repr(wanted) != repr(before):
        _replace(file, _written(file, text, key, value, wanted))


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"{file} cannot be read: {problem}") from None


def _read(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigurationError(f"{file} is not valid TOML: {problem}. Mend that line.") from None


def _changed(settings: Mapping[str, Any], file: Path, key: tuple[str, ...], value: object) -> dict[str, Any]:
    """The settings as they shall be read from the file afterwards."""
    name, *rest = key
    found = dict(settings)
    if not rest:
        found.pop(name, None)
        return found if value is None else {**found, name: value}
    if name not in found and value is None:
        return found
    inner = found.get(name, {})
    if not isinstance(inner, Mapping):
        raise ConfigurationError(f"{file}: {name} is not a section, so {'.'.join(rest)} cannot be set in it")
    return {**found, name: _changed(inner, file, tuple(rest), value)}


def _written(file: Path, text: str, key: tuple[str, ...], value: object, wanted: Mapping[str, Any]) -> str:
    """The text with the setting changed; refused unless it then reads as wanted, whatever shape the file has."""
    by_hand = f"{'.'.join(key)} could not be set in {file}; set it there by hand"
    try:
        document = tomlkit.parse(text)
        _set(document, key, value)
        done = tomlkit.dumps(document)
        read = tomllib.loads(done)
        if read == wanted or (value is None and _bare(read) == _bare(wanted)):
            return done
    except (TOMLKitError, tomllib.TOMLDecodeError, TypeError, ValueError) as problem:
        raise ConfigurationError(f"{by_hand}: {problem}") from None
    raise ConfigurationError(by_hand)


def _bare(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without empty sections, which may go with the last of their settings and mean nothing."""
    bare = {name: _bare(part) if isinstance(part, Mapping) else part for name, part in settings.items()}
    return {name: part for name, part in bare.items() if part != {}}


def _set(document: MutableMapping[str, Any], key: tuple[str, ...], value: object) -> None:
    *sections, name = key
    place = document
    for section in sections:
        if section not in place:
            place[section] = tomlkit.inline_table() if isinstance(place, InlineTable) else tomlkit.table()
        place = place[section]
    if value is None:
        del place[name]
    else:
        place[name] = value


def _replace(file: Path, text: str) -> None:
    """Put the text in place of the file once it has been read as the configuration of a project."""
    target = file.resolve()
    try:
        target.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".config.", dir=target.parent) as folder:
            draft = Path(folder) / FILE
            draft.parent.mkdir()
            with open(draft, "wb") as stream:
                stream.write(text.encode("utf-8"))
                stream.flush()
                os.fsync(stream.fileno())
            if target.exists():
                os.chmod(draft, target.stat().st_mode & 0o777)
            _check(Path(folder), draft, file)
            os.replace(draft, target)
    except UnicodeEncodeError as problem:
        raise ConfigurationError(f"{file}: the text holds a character that no file can: {problem.reason}") from None
    except OSError as problem:
        raise ConfigurationError(f"{file} could not be written: {problem.strerror}; it is as it was") from None


def _check(folder: Path, draft: Path, file: Path) -> None:
    try:
        load_settings(folder)
    except ConfigurationError as problem:
        raise ConfigurationError(str(problem).replace(str(draft), str(file))) from None
