"""What a target would do that a project may not decide alone: run programs, call code, send keys and questions.

What somebody types or writes in code is a yes for itself. What stands in a file of the project, in a stored run or in
a dataset is asked about once and remembered, outside the project, by what it is: whatever changes is asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from platformdirs import user_config_path, user_state_path

from .base import ConfigurationError, TargetConfig
from .environment import Variables
from .openai import PROVIDERS

_MAX_FILE = 2**24
_ADDRESS = re.compile(r".*_(API_BASE|BASE_URL|API_URL|URL|ENDPOINT)")
_HOSTS: Mapping[str, tuple[str, ...]] = {
    "OPENAI_API_KEY": ("api.openai.com",),
    "ANTHROPIC_API_KEY": ("api.anthropic.com",),
    "GEMINI_API_KEY": ("generativelanguage.googleapis.com",),
    "GOOGLE_API_KEY": ("generativelanguage.googleapis.com",),
    "MISTRAL_API_KEY": ("api.mistral.ai",),
    "GROQ_API_KEY": ("api.groq.com",),
    "DEEPSEEK_API_KEY": ("api.deepseek.com",),
    "OPENROUTER_API_KEY": ("openrouter.ai",),
    "TOGETHERAI_API_KEY": ("api.together.xyz",),
    "TOGETHER_API_KEY": ("api.together.xyz",),
    "FIREWORKS_API_KEY": ("api.fireworks.ai",),
    "COHERE_API_KEY": ("api.cohere.ai", "api.cohere.com"),
    "XAI_API_KEY": ("api.x.ai",),
    "PERPLEXITYAI_API_KEY": ("api.perplexity.ai",),
    "CEREBRAS_API_KEY": ("api.cerebras.ai",),
}
KEYS_FILE = "keys.toml"
"""The user's own list of hosts for keys, in the configuration folder: `MY_KEY = ["gateway.example"]`."""

PermissionKind = Literal["command", "function", "key", "address", "evaluator", "cluster"]


@dataclass(frozen=True, slots=True)
class Permission:
    """One thing that somebody has to agree to, as a person reads it."""

    kind: PermissionKind
    does: str
    """What would be done, as in `runs the command ./agent.sh`."""
    where: str = ""
    """The file, and the line where it is known, that asks for it."""
    content: str = ""
    """A fingerprint of the code behind it."""
    path: Path | None = None
    """The code of a custom evaluator."""

    @property
    def digest(self) -> str:
        """What is remembered: another doing or other code is another permission."""
        return hashlib.sha256(json.dumps([self.kind, self.does, self.content]).encode()).hexdigest()

    @property
    def sentence(self) -> str:
        """What is asked, on one line."""
        return f"{self.does}{f' ({self.where})' if self.where else ''}"


class NotApproved(ConfigurationError):
    """A project asks for what nobody has agreed to."""

    def __init__(self, permissions: Sequence[Permission], root: Path) -> None:
        self.permissions = tuple(permissions)
        self.root = root
        listed = "; ".join(permission.sentence for permission in permissions)
        super().__init__(
            f"this project would do what you have not agreed to: {listed}. Read it, then agree with "
            f"`tui-evals trust`, or for this once with --trust"
        )


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a target sends its questions, and the variable whose key goes along."""

    host: str
    scheme: str = "https"
    key: str | None = None
    """The name of the variable; None where no key is sent."""

    @property
    def sentence(self) -> str:
        """Where what goes, for a person."""
        plain = ", without encryption" if self.scheme == "http" and not is_loopback(self.host) else ""
        return f"{f'sends {self.key}' if self.key else 'sends its questions'} to {self.host}{plain}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    name = host.rpartition(":")[0] if re.fullmatch(r"[^:]+:\d+|\[.*\]:\d+", host) else host
    return name.strip("[]") in ("localhost", "::1") or name.startswith("127.")


def destination(config: TargetConfig, environment: Mapping[str, str]) -> Destination | None:
    """Where a target's questions go; None for one that asks nobody over the network."""
    provider, slash, _ = config.model.partition("/")
    if ":" in provider or not (slash or config.base_url):
        return None
    address, _ = _address(config, environment)
    key = config.api_key.removeprefix("env:") if config.api_key else None
    prefix = _prefix(provider) if slash else ""
    if key is None and config.base_url is None and prefix:
        key = next((name for name in (f"{prefix}_API_KEY", f"{prefix}_KEY") if environment.get(name)), None)
    if address is None:
        return Destination(f"the usual address of {provider}", "https", key)
    parts = urlsplit(address)
    return Destination(parts.netloc.rpartition("@")[2], parts.scheme or "https", key)


def _prefix(provider: str) -> str:
    known = PROVIDERS.get(provider)
    return known.variables if known else re.sub(r"[^A-Z0-9]+", "_", provider.removesuffix("_chat").upper())


def _address(config: TargetConfig, environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The address and the variable that gives it, where one does."""
    if config.base_url is not None:
        name = config.base_url.removeprefix("env:") if config.base_url.startswith("env:") else None
        return (environment.get(name, "") if name else config.base_url) or None, name
    provider, slash, _ = config.model.partition("/")
    prefix = _prefix(provider) if slash else ""
    for name in (f"{prefix}_BASE_URL", f"{prefix}_API_BASE") if prefix else ():
        if environment.get(name):
            return environment[name], name
    known = PROVIDERS.get(provider)
    return (known.url if known else None), None


def permissions_of(config: TargetConfig, environment: Mapping[str, str], root: Path) -> list[Permission]:
    """Everything a target would do that needs a yes."""
    word, colon, rest = config.model.partition(":")
    if colon and word == "command":
        does = f"runs the command {one_line(rest)}"
        return [Permission("command", does, config.where, _words_content(rest, root))] if config.where else []
    if colon and word == "python":
        does = f"calls the function {one_line(rest)}"
        content = _module_content(rest.partition(":")[0], root)
        return [Permission("function", does, config.where, content)] if config.where else []
    return _network_permissions(config, environment)


def _network_permissions(config: TargetConfig, environment: Mapping[str, str]) -> list[Permission]:
    """Nothing is asked of a provider's usual address, of a key's known hosts, and of what was typed."""
    to = destination(config, environment)
    if to is None:
        return []
    files = environment.of_files if isinstance(environment, Variables) else {}
    _, variable = _address(config, environment)
    decided = config.where if config.base_url is not None else str(files.get(variable or "", ""))
    if not decided and (steering := _steering_address(config, files)) is not None:
        address = environment[steering]
        to = Destination(urlsplit(address).netloc or address, urlsplit(address).scheme, to.key)
        decided = str(files[steering])
    chosen = config.where if config.api_key and to.key not in files and not _is_usual_key(config) else ""
    if not (decided or chosen) or (to.key is not None and to.host in hosts_of(to.key)):
        return []
    return [Permission("key" if to.key else "address", to.sentence, decided or chosen)]


def _steering_address(config: TargetConfig, files: Mapping[str, Path]) -> str | None:
    """A variable of a project's file that a provider's own library might obey, whatever it makes of the name."""
    provider = config.model.partition("/")[0]
    if provider in PROVIDERS or config.base_url is not None:
        return None
    return next((name for name in files if _ADDRESS.fullmatch(name)), None)


def _is_usual_key(config: TargetConfig) -> bool:
    provider = config.model.partition("/")[0]
    return config.base_url is None and config.api_key == f"env:{_prefix(provider)}_API_KEY"


def hosts_of(key: str) -> tuple[str, ...]:
    """The hosts a key may go to without a question: the provider's own, and those the user's configuration adds."""
    return (*_HOSTS.get(key, ()), *_own_hosts().get(key, ()))


def _own_hosts() -> Mapping[str, tuple[str, ...]]:
    file = user_config_path("tui_evals") / KEYS_FILE
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise ConfigurationError(f"{file} cannot be read: {problem}") from None
    wrong = [name for name, hosts in data.items() if not (isinstance(hosts, list) and all(map(_is_host, hosts)))]
    if wrong:
        raise ConfigurationError(f'{file}: {wrong[0]} must list hosts, as in {wrong[0]} = ["gateway.example"]')
    return {name: tuple(hosts) for name, hosts in data.items()}


def _is_host(value: object) -> bool:
    return isinstance(value, str) and bool(value) and "/" not in value


def one_line(text: str) -> str:
    """A text on one line, whole."""
    return " ".join(text.split())


def _words_content(line: str, root: Path) -> str:
    """A fingerprint of the files of the project that a command names."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    parts = []
    for word in words:
        with suppress(OSError, ValueError):
            file = (root / word).resolve()
            if file.is_file() and file.is_relative_to(root.resolve()) and file.stat().st_size < _MAX_FILE:
                parts.append((word, hashlib.sha256(file.read_bytes()).hexdigest()))
    return json.dumps(parts) if parts else ""


def _module_content(module: str, root: Path) -> str:
    """A fingerprint of the module of the project that a name means; nothing is imported."""
    place = root.joinpath(*module.split("."))
    files = [place.with_suffix(".py")] if place.with_suffix(".py").is_file() else sorted(place.rglob("*.py"))
    if not files:
        with suppress(ImportError, ValueError):
            return f"installed {'' if find_spec(module.partition('.')[0]) is None else module}"
    return json.dumps([hashlib.sha256(file.read_bytes()).hexdigest() for file in files[:1000]])


class Approvals:
    """What the user has agreed to, by project; kept in the user's own state folder."""

    def __init__(self, root: Path, folder: Path | None = None) -> None:
        self._root = str(root.resolve())
        self._folder = folder or user_state_path("tui_evals")
        self._file = self._folder / "projects.json"

    def missing(self, permissions: Iterable[Permission]) -> list[Permission]:
        """What nobody has agreed to yet, each once."""
        wanted = list({permission.digest: permission for permission in permissions}.values())
        if not wanted:
            return []
        record = self._read()
        if _covers(record["folders"], Path(self._root)):
            return []
        agreed = record["projects"].get(self._root, {})
        return [permission for permission in wanted if permission.digest not in agreed]

    def agree(self, permissions: Iterable[Permission]) -> None:
        """Remember a yes."""
        new = self.missing(permissions)
        if not new:
            return
        record = self._read()
        agreed = record["projects"].setdefault(self._root, {})
        now = datetime.now(UTC).isoformat(timespec="seconds")
        for permission in new:
            agreed[permission.digest] = {
                "kind": permission.kind,
                "does": permission.does,
                "where": permission.where,
                "when": now,
            }
        self._write(record)

    def agreed(self) -> list[dict[str, str]]:
        """Everything agreed to in this project, the oldest first."""
        return list(self._read()["projects"].get(self._root, {}).values())

    def own(self) -> None:
        """Trust a project that was begun here, for as long as it is the same folder."""
        record = self._read()
        if not _covers(record["folders"], Path(self._root)):
            record["folders"][self._root] = _identity(Path(self._root))
            self._write(record)

    @property
    def is_own(self) -> bool:
        """Whether everything in the project is its author's."""
        return _covers(self._read()["folders"], Path(self._root))

    def revoke(self) -> int:
        """Forget every yes of this project; how many there were."""
        record = self._read()
        count = len(record["projects"].pop(self._root, {})) + (record["folders"].pop(self._root, None) is not None)
        if count:
            self._write(record)
        return count

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            record = json.loads(self._file.read_text(encoding="utf-8"))
            return {"folders": dict(record["folders"]), "projects": dict(record["projects"])}
        except FileNotFoundError:
            return {"folders": {}, "projects": {}}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
            raise ConfigurationError(
                f"{self._file} cannot be read ({problem}); delete it, and agree to your projects again"
            ) from None

    def _write(self, record: Mapping[str, Any]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=self._folder, prefix=".projects-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(record, stream, indent=1, sort_keys=True)
            Path(draft).replace(self._file)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise


def is_unclaimed(root: Path) -> bool:
    """Whether a folder holds nothing yet that could ask for a yes, so that a project begun in it is its author's."""
    asks = (".evals", "custom-evaluators", "env", *(file.name for file in root.glob(".env*")))
    return not any((root / name).exists() for name in asks)


def _covers(folders: Mapping[str, str], root: Path) -> bool:
    """Whether a folder or one above it is the user's own, and still the folder it was."""
    return any(folders.get(str(place)) == _identity(place) for place in (root, *root.parents) if str(place) in folders)


def _identity(folder: Path) -> str:
    with suppress(OSError):
        stat = folder.stat()
        return f"{stat.st_dev}:{stat.st_ino}"
    return ""


def demand_approval(configs: Iterable[TargetConfig], environment: Mapping[str, str], root: Path) -> None:
    """Refuse what the project asks for and nobody has agreed to."""
    if isinstance(environment, Variables) and environment.trusting:
        return
    wanted = [permission for config in configs for permission in permissions_of(config, environment, root)]
    if missing := Approvals(root).missing(wanted):
        raise NotApproved(missing, root)
