"""Whether somebody listens where a target is asked, and whether there is a key to ask with."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from yarl import URL

from .base import ConfigurationError, TargetConfig

_PORTS = {"http": 80, "https": 443}
_PATIENCE = 3.0
"""Seconds a server may take to accept a connection: a lost packet is sent again after one and after three."""


def missing_key(config: TargetConfig, variables: Sequence[str]) -> ConfigurationError:
    """No key is there, and what to do about it."""
    own = f"[targets.{config.name}]" if config.name != config.model else "a [targets.NAME] section"
    return ConfigurationError(
        f"The target {config.name} needs a key. Set {' or '.join(variables)} in the environment or .env.local. If the "
        f'key is in another variable, name that: api_key = "env:MY_KEY" in {own} of .evals/config.toml. To try '
        "tui-evals without a key, take the target demo."
    )


def proxy_of(url: URL, environment: Mapping[str, str]) -> str | None:
    """The proxy the environment names for an address; found once, because aiohttp's own way costs time at each call."""
    named = {
        name.lower().removesuffix("_proxy"): text for name, text in environment.items() if "_proxy" in name.lower()
    }
    return None if proxy_bypass_environment(url.host or "", named) else named.get(url.scheme) or None


def connection_problem(address: str) -> str | None:
    """Why no connection to an address can be made, None if one was; nothing is sent over it."""
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname, parts.port or _PORTS[parts.scheme]), _PATIENCE):
            return None
    except TimeoutError:
        return f"it accepted no connection within {_PATIENCE:g} s"
    except socket.gaierror as problem:
        passing = problem.errno == socket.EAI_AGAIN
        return "its host name cannot be looked up just now" if passing else "its host name is not known"
    except ConnectionRefusedError:
        return "it refuses connections"
    except (OSError, UnicodeError) as problem:
        return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)


def nobody_listens(config: TargetConfig, address: str, reason: str) -> ConfigurationError:
    """Nobody is there to be asked, and what to do about it."""
    parts = urlsplit(address)
    where = parts.netloc.rpartition("@")[2]
    remedy = "Check base_url and that the server runs."
    if config.base_url is None:
        remedy = "Check that the server runs, and your connection to it."
    return ConfigurationError(f"{config.name}: No answer from {where}: {reason}. {remedy}")
