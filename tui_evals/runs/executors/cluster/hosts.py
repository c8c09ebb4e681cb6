"""The file behind --cluster ssh:FILE: one host per line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tui_evals.targets.base import ConfigurationError

LIMIT = 1_000_000
"""Bytes of a file of hosts; whatever is longer is another file."""

_LINE = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][\w.\-]*)@)?"
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_][A-Za-z0-9_.\-]*))"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Host:
    """Where a worker is started; what is None is for the user's SSH configuration to say."""

    name: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        """As the file writes it."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return (f"{self.user}@" if self.user else "") + name + (f":{self.port}" if self.port else "")


def read_hosts(path: Path) -> list[Host]:
    """The hosts of a file in its order, twice where it says so twice; ConfigurationError names the line."""
    try:
        with path.open("rb") as file:
            text = file.read(LIMIT + 1).decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(
            f"--cluster ssh:{path}: there is no such file; list one host per line in it."
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--cluster ssh:{path}: the file cannot be read ({error}).") from None
    if len(text) > LIMIT:
        raise ConfigurationError(f"--cluster ssh:{path}: the file is too long to be a list of hosts.")
    lines = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1))
    hosts = [_host(line, path, number) for number, line in lines if line]
    if not hosts:
        raise ConfigurationError(f"--cluster ssh:{path}: the file names no host; list one per line.")
    return hosts


def _host(line: str, path: Path, number: int) -> Host:
    """The host a line names."""
    found = _LINE.fullmatch(line)
    port = int(found["port"]) if found and found["port"] else None
    if not found or (port is not None and not 0 < port < 65536):
        raise ConfigurationError(
            f"--cluster ssh:{path}, line {number}: {line[:80]!r} is no host; write host, user@host or user@host:22 "
            "(an IPv6 address in brackets)."
        )
    return Host(found["six"] or found["name"], found["user"], port)
