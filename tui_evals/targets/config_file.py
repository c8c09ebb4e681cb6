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

from tui_evals.private_files import check_private

from .base import ConfigurationError
from .config import FILE, invalid_toml, load_settings


def write_setting(root: Path, key: tuple[str, ...], value: object) -> None:
    """Set a setting of the project at a folder, or remove it with None; what would not be valid is not written."""
    file = root / FILE
    text = _read_text(file)
    before = _parse_toml(file, text)
    value = list(value) if isinstance(value, tuple) else value
    changed = _change_setting(before, file, key, value)
    if repr(changed) != repr(before):
        _replace_file(file, _edit_text(file, text, key, value, changed))


def add_section(root: Path, name: str, section: str) -> Path:
    """Add the section of a target at the end of the project's configuration, which is begun with it if need be."""
    file = root / FILE
    text = _read_text(file)
    if name in _parse_toml(file, text).get("targets", {}):
        raise ConfigurationError(f"{file} has [targets.{name}] already; nothing was written to it")
    _replace_file(file, f"{text.rstrip()}\n\n{section}\n" if text.strip() else f"{section}\n")
    return file


def begin_configuration(root: Path, text: str) -> None:
    """Write a first configuration where there is none."""
    file = root / FILE
    if not file.exists():
        _replace_file(file, text)


def _read_text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"{file} cannot be read: {problem}") from None


def _parse_toml(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise invalid_toml(file, text, problem) from None


def _change_setting(settings: Mapping[str, Any], file: Path, key: tuple[str, ...], value: object) -> dict[str, Any]:
    """The settings that the file must hold after the change."""
    name, *rest = key
    changed = dict(settings)
    if not rest:
        changed.pop(name, None)
        return changed if value is None else {**changed, name: value}
    if name not in changed and value is None:
        return changed
    inner = changed.get(name, {})
    if not isinstance(inner, Mapping):
        raise ConfigurationError(f"{file}: {name} is not a section, so {'.'.join(rest)} cannot be set in it")
    return {**changed, name: _change_setting(inner, file, tuple(rest), value)}


def _edit_text(file: Path, text: str, key: tuple[str, ...], value: object, changed: Mapping[str, Any]) -> str:
    """The text with the setting changed; refused unless it then reads as wanted, whatever shape the file has."""
    by_hand = f"{'.'.join(key)} could not be set in {file}; set it there by hand"
    try:
        document = tomlkit.parse(text)
        _set_value(document, key, value)
        done = tomlkit.dumps(document)
        read = tomllib.loads(done)
        if read == changed or (value is None and _without_empty_sections(read) == _without_empty_sections(changed)):
            return done
    except (TOMLKitError, tomllib.TOMLDecodeError, TypeError, ValueError) as problem:
        raise ConfigurationError(f"{by_hand}: {problem}") from None
    raise ConfigurationError(by_hand)


def _without_empty_sections(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without empty sections, which may go with the last of their settings and mean nothing."""
    bare = {
        name: _without_empty_sections(part) if isinstance(part, Mapping) else part for name, part in settings.items()
    }
    return {name: part for name, part in bare.items() if part != {}}


def _set_value(document: MutableMapping[str, Any], key: tuple[str, ...], value: object) -> None:
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


def _replace_file(file: Path, text: str) -> None:
    """Replace the file once the text has proved to be a valid configuration."""
    target = file.resolve()
    try:
        check_private(file, links_within=file.parent.parent)
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
            _check_draft(Path(folder), draft, file)
            os.replace(draft, target)
    except UnicodeEncodeError as problem:
        raise ConfigurationError(f"{file}: the text holds a character that no file can: {problem.reason}") from None
    except OSError as problem:
        raise ConfigurationError(f"{file} could not be written: {problem.strerror}; it is as it was") from None


def _check_draft(folder: Path, draft: Path, file: Path) -> None:
    try:
        load_settings(folder)
    except ConfigurationError as problem:
        raise ConfigurationError(str(problem).replace(str(draft), str(file))) from None
