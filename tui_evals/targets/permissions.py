"""Actions of a target that a project must not decide alone: run programs, call code, send keys and questions.

Typed options and code count as approved. Requests in a file of the project, a stored run or a dataset are asked once.
The approval is stored outside the project by content, so any change is asked again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_config_path, user_state_path

from tui_evals.files import check_private, make_private_folder, private_opener, write_private_json
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text
from tui_evals.targets.chat import SAMPLING_PARAMS
from tui_evals.targets.providers import PROVIDERS, address_variable, provider_of, speaks_openai, variables_of
from tui_evals.text.safe import safe_line

from .base import AGENTS, ConfigurationError, TargetConfig, ToolSettings
from .environment import Variables
from .sources import Manifest, clone_around, command_manifest, function_manifest
from .user_code import CodeReview, keep_texts, review_of

_ADDRESS = re.compile(r".*_(API_BASE|BASE_URL|API_URL|URL|ENDPOINT)")
_LOGIN = re.compile(r".*CREDENTIALS")
_PLAIN_ADDRESS = re.compile(
    r"(?i)(https?)://(?:[^/?#@\\\s]*@)?([a-z0-9._-]+(?::\d+)?|\[[0-9a-f:.]+\](?::\d+)?)(?:[/?#][^\\@\s\x00-\x1f]*)?"
)
_KEY = re.compile(r"(?:API_)?KEY|TOKEN|BEARER_TOKEN_BEDROCK|AD_TOKEN|ACCESS_KEY_ID|APIKEY|JWT")
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "gemini": ("GOOGLE",),
    "azure": ("AZURE_OPENAI",),
    "vertex_ai": ("VERTEXAI", "VERTEX", "GOOGLE"),
    "bedrock": ("AWS",),
    "sagemaker": ("AWS",),
    "sagemaker_chat": ("AWS",),
    "azure_ai": ("AZURE",),
    "azure_text": ("AZURE",),
    "huggingface": ("HF",),
    "together_ai": ("TOGETHERAI", "TOGETHER"),
    "text-completion-openai": ("OPENAI",),
    "perplexity": ("PERPLEXITYAI",),
    "github_copilot": ("GITHUB",),
    "fireworks_ai": ("FIREWORKS", "FIREWORKSAI"),
    "watsonx": ("WATSONX", "WX", "WML"),
}
"""How variables of a provider begin for litellm, where that is not the provider's own name."""
_OWN_WORDS = ("replay", "python", "command", "demo")
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

_SIGN = Path(".evals", "begun-here")
"""A file with a random word, to recognize a folder whose path another may take; it is in no clone of the project."""
_HARMLESS = re.compile(r"(?i)\.git|\.gitignore|\.gitattributes|\.ds_store|(readme|licen[sc]e)(\.(md|rst|txt|adoc))?")
_FROM_ELSEWHERE = re.compile(r"(?i)\[\s*(remote|url|include|includeif|submodule)\b|\bremote\s*=")
"""Settings of a repository whose content others control."""

PermissionKind = Literal["command", "function", "key", "address", "evaluator", "cluster", "store", "file"]


@dataclass(frozen=True, slots=True)
class Permission:
    """One action that needs your approval, as a sentence."""

    kind: PermissionKind
    does: str
    """The action, as in `runs the command ./agent.sh`."""
    where: str = ""
    """The file, and the line where it is known, that asks for it."""
    content: str = ""
    """A fingerprint of the code behind it."""
    path: Path | None = None
    """The code of a custom evaluator, or a store."""
    manifest: Manifest | None = field(default=None, compare=False, repr=False)
    """The code of the action, read when the permission was created; this content is what is approved."""

    @property
    def digest(self) -> str:
        """The key of the approval: another action or other code is another permission."""
        return hashlib.sha256(json.dumps([self.kind, self.does, self.content]).encode()).hexdigest()

    @property
    def sentence(self) -> str:
        """The request, on one line."""
        return safe_line(f"{self.does}{f' ({self.where})' if self.where else ''}")


class NotApproved(ConfigurationError):
    """The project needs permissions that you have not given."""

    def __init__(self, permissions: Sequence[Permission], root: Path) -> None:
        self.permissions = tuple(permissions)
        self.root = root
        listed = "; ".join(permission.sentence for permission in permissions)
        super().__init__(
            f"this project would do what you have not agreed to: {listed}. Read it, then agree with "
            f"`tui-evals trust`, or for this once with --trust (of pytest: --tui-evals-trust; in Python: trust=True)"
        )


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of a target's questions, and the variable whose key is sent."""

    host: str
    scheme: str = "https"
    key: str | None = None
    """The name of the variable; None where no key is sent."""

    @staticmethod
    def of(address: str, key: str | None) -> Destination:
        """The destination of an address; an address that libraries may parse differently is shown in full."""
        if plain := _PLAIN_ADDRESS.fullmatch(address.strip()):
            return Destination(plain[2].lower(), plain[1].lower(), key)
        shown = ascii(re.sub(r"(?<=//).*@", "…@", address))[1:-1].replace("\\u2026", "…")
        return Destination(shown, "http" if address.lower().startswith("http:") else "https", key)

    @property
    def sentence(self) -> str:
        """The destination in words."""
        plain = ", without encryption" if self.scheme == "http" and not is_loopback(self.host) else ""
        return f"{f'sends {self.key}' if self.key else 'sends its questions'} to {self.host}{plain}"

    @property
    def data(self) -> dict[str, str | None]:
        """What a run stores about it, with the sentence that was shown."""
        return {"host": self.host, "scheme": self.scheme, "key": self.key, "sentence": self.sentence}

    @property
    def is_known(self) -> bool:
        """Whether the key may go there without a question."""
        is_private = self.scheme == "https" or is_loopback(self.host)
        return self.key is not None and is_private and self.host in hosts_of(self.key)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    name = host.rpartition(":")[0] if re.fullmatch(r"[^:]+:\d+|\[.*\]:\d+", host) else host
    try:
        return name == "localhost" or ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def destination(config: TargetConfig, environment: Mapping[str, str]) -> Destination | None:
    """The destination of a target's questions; None without network calls."""
    provider, slash, _ = config.model.partition("/")
    word, colon, _ = config.model.partition(":")
    is_own = config.http is not None or config.is_agent
    if not is_own and ((colon and word in _OWN_WORDS) or not (config.base_url or (slash and ":" not in provider))):
        return None
    own = config.api_key.removeprefix("env:") if config.api_key else _usual_key(config, environment)
    key = ", ".join(dict.fromkeys(filter(None, (own, *config.header_variables)))) or None
    address, _ = _address(config, environment)
    return (
        Destination(f"the usual address of {provider}", "https", key)
        if address is None
        else Destination.of(address, key)
    )


def destinations(configs: Iterable[TargetConfig], environment: Mapping[str, str]) -> dict[str, dict[str, str | None]]:
    """The destinations of targets by name, without targets that make no network calls."""
    found = {config.name: destination(config, environment) for config in configs}
    return {name: to.data for name, to in found.items() if to is not None}


def _usual_key(config: TargetConfig, environment: Mapping[str, str]) -> str | None:
    """The variable whose key goes along though no setting names it."""
    provider, slash, _ = config.model.partition("/")
    to_elsewhere = config.base_url is not None and (speaks_openai(config) or provider == "openai")
    if config.http is not None or config.is_agent or not slash or to_elsewhere:
        return None
    prefix = variables_of(provider)
    if speaks_openai(config):
        usual = PROVIDERS[provider].keys or (f"{prefix}_API_KEY",)
        return next(filter(environment.get, usual), None)
    beginnings = tuple(f"{name}_" for name in (prefix, *_OTHER_NAMES.get(provider, ())))
    names = [f"{beginning}API_KEY" for beginning in beginnings]
    names += sorted(name for name in environment if name.startswith(beginnings) and _is_key(name, beginnings))
    return next((name for name in names if environment.get(name)), None)


def _is_key(name: str, beginnings: Iterable[str]) -> bool:
    return any(_KEY.fullmatch(name.removeprefix(beginning)) for beginning in beginnings)


def _address(config: TargetConfig, environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The address, and the variable that has it, if any."""
    if (written := config.address) is not None:
        name = written.removeprefix("env:") if written.startswith("env:") else None
        return (environment.get(name, "") if name else written) or None, name
    provider = provider_of(config.model)
    if (name := address_variable(provider, environment)) is not None:
        return environment[name], name
    known = PROVIDERS.get(provider)
    return (known.url if known else None), None


def permissions_of(config: TargetConfig, environment: Mapping[str, str], root: Path) -> list[Permission]:
    """Everything a target would do that needs a yes, and what its tools would."""
    tools = tool_permissions(config.tools, config.where, root, environment) if config.tools is not None else []
    return [*_asking_permissions(config, environment, root), *tools]


def tool_permissions(
    settings: ToolSettings, where: str, root: Path, environment: Mapping[str, str]
) -> list[Permission]:
    """The permissions that the tools in a file need: first for its functions, then for each server."""
    if not where:
        return []
    wanted = []
    if settings.functions is not None:
        does = f"calls the functions of {one_line(settings.functions)} as tools"
        wanted.append(_of_function(does, where, f"{settings.functions}:", root))
    for address in settings.mcp:
        if address.startswith("stdio:"):
            line = address.removeprefix("stdio:").strip()
            does = f"starts the MCP server {one_line(line)}"
            wanted.append(_of_command(does, where, line, root, environment))
        else:
            sent = ", ".join(value.removeprefix("env:") for value in settings.headers.values()) or None
            does = f"calls tools: {Destination.of(address, sent).sentence}"
            wanted.append(Permission("key" if sent else "address", does, where, address))
    return wanted


def _of_function(does: str, where: str, name: str, root: Path) -> Permission:
    manifest = function_manifest(name, root)
    return Permission("function", does, where, manifest.content(name), manifest=manifest)


def _of_command(does: str, where: str, line: str, root: Path, environment: Mapping[str, str]) -> Permission:
    manifest = command_manifest(line, root, environment.get("PATH"))
    return Permission("command", does, where, manifest.content(line), manifest=manifest)


def _asking_permissions(config: TargetConfig, environment: Mapping[str, str], root: Path) -> list[Permission]:
    word, colon, rest = config.model.partition(":")
    if config.http is not None or config.is_agent:
        return [*_network_permissions(config, environment), *_card_permission(config)]
    if colon and word in _OWN_WORDS:
        if not config.where:
            return []
        if word == "command":
            settings = f" with {_settings_text(config.params)}" if config.params else ""
            does = f"runs the command {one_line(rest)}{settings}"
            return [_of_command(does, config.where, rest, root, environment)]
        if word == "python":
            does = f"calls the function {one_line(rest)}"
            return [_of_function(does, config.where, rest, root)]
        return []
    wanted = _network_permissions(config, environment)
    if colon and config.where and "/" not in word:  # else a package that is installed answers, and does as it likes
        does = f"asks the installed target {one_line(config.model)}"
        wanted.append(Permission("function", does, config.where, config.model))
    return wanted


def _card_permission(config: TargetConfig) -> Iterator[Permission]:
    """An agent that is asked elsewhere than at its address is looked up there all the same."""
    if config.is_agent and config.base_url is not None and config.where:
        host = Destination.of(config.model.removeprefix(AGENTS), None).host
        yield Permission("address", f"reads the card of an agent at {host}", config.where)


def _network_permissions(config: TargetConfig, environment: Mapping[str, str]) -> list[Permission]:
    """The permission for a destination, unless it is a provider's usual address, known for a key, or typed."""
    to = destination(config, environment)
    if to is None:
        return []
    files = environment.of_files if isinstance(environment, Variables) else {}
    _, variable = _address(config, environment)
    where = (config.where if config.address is not None else "") or str(files.get(variable or "", ""))
    sends_own_key = config.api_key and to.key not in files and not _is_usual_key(config)
    if not where and (sends_own_key or config.header_variables):
        where = config.where
    wanted = [_to_host(to, where)] if where and not to.is_known else []
    if config.http is None and not config.is_agent and not speaks_openai(config):
        wanted += _litellm_permissions(config, to, variable, files, environment)
    return wanted


def _to_host(to: Destination, where: str) -> Permission:
    return Permission("key" if to.key else "address", to.sentence, where)


def _litellm_permissions(
    config: TargetConfig,
    to: Destination,
    variable: str | None,
    files: Mapping[str, Path],
    environment: Mapping[str, str],
) -> Iterator[Permission]:
    """Other inputs that litellm may use: variables, and parameters that name an address."""
    for name in sorted(files.keys() - {variable}) if config.base_url is None else ():
        other = Destination.of(environment[name], to.key)
        if _ADDRESS.fullmatch(name) and environment[name] and not other.is_known:
            yield _to_host(other, str(files[name]))
    for name in sorted(filter(_LOGIN.fullmatch, files)):
        yield Permission("key", f"logs in with the credentials {environment[name]}", str(files[name]))
    if not config.where:
        return
    steering = {name: value for name, value in config.params.items() if name not in SAMPLING_PARAMS}
    if steering:
        yield Permission("address", f"hands litellm the settings {_settings_text(steering)}", config.where)
    if "://" in config.model:
        yield Permission("address", f"asks {one_line(config.model)}", config.where)


def _settings_text(params: Mapping[str, Any]) -> str:
    return json.dumps(params, sort_keys=True, ensure_ascii=True)


def _is_usual_key(config: TargetConfig) -> bool:
    provider = config.model.partition("/")[0]
    return config.base_url is None and config.api_key == f"env:{variables_of(provider)}_API_KEY"


def hosts_of(key: str) -> tuple[str, ...]:
    """The hosts a key may go to without a question: the provider's own, and those the user's configuration adds."""
    return (*_HOSTS.get(key, ()), *_own_hosts().get(key, ()))


def _own_hosts() -> Mapping[str, tuple[str, ...]]:
    file = user_config_path("tui_evals") / KEYS_FILE
    try:
        data = tomllib.loads(read_text(file, follow_out=True))
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
    """A text on one line, whole, where a line's end can be seen."""
    return " ".join(safe_line(text).split())


class Approvals:
    """The user's approvals, by project, stored in the user's state folder."""

    def __init__(self, root: Path, folder: Path | None = None) -> None:
        self._root = str(root.resolve())
        self._folder = folder or user_state_path("tui_evals")
        self._file = self._folder / "projects.json"

    def missing(self, permissions: Iterable[Permission]) -> list[Permission]:
        """Permissions without your agreement, each once."""
        record = self._read()
        if _is_own(record, Path(self._root)):
            return []
        wanted = list({permission.digest: permission for permission in permissions}.values())
        agreed = record["projects"].get(self._root, {})
        return [permission for permission in wanted if permission.digest not in agreed]

    def code_of(self, permission: Permission) -> Manifest | None:
        """The approved code of a permission; None if any code may run, because the user owns or typed it.

        Raises NotApproved if the code that was read differs from the approved code.
        """
        record = self._read()
        if permission.manifest is None or _is_own(record, Path(self._root)):
            return None
        entry = record["projects"].get(self._root, {}).get(permission.digest)
        if entry is None:
            raise NotApproved([permission], Path(self._root))
        if entry.get("typed"):
            return None
        return permission.manifest.with_files(record["files"].get(self._root, {}))

    def review(self, permission: Permission) -> CodeReview | None:
        """The review of a permission's code: its difference to the last approval."""
        if permission.manifest is None:
            return None
        before = self._read()["code"].get(self._root, {}).get(_doing(permission))
        return review_of(permission.manifest, before, self._folder)

    def remember_code(self, permissions: Iterable[Permission]) -> None:
        """Keep the agreed code, to show later what changed."""
        record = self._read()
        code = record["code"].setdefault(self._root, {})
        for permission in permissions:
            if permission.manifest is not None:
                code[_doing(permission)] = dict(permission.manifest.files)
                keep_texts(permission.manifest, self._folder)
        self._write(record)

    def agree_to_files(self, files: Mapping[str, str]) -> None:
        """Let approved code also load these files, which reading the code could not find."""
        record = self._read()
        record["files"][self._root] = {**record["files"].get(self._root, {}), **files}
        self._write(record)

    def agree(self, permissions: Iterable[Permission], *, typed: bool = False) -> None:
        """Store the approval of what was read for each permission; a `typed` one includes everything it loads."""
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
                **({"typed": True} if typed else {}),
            }
        self._write(record)

    def agreed(self) -> list[dict[str, str]]:
        """Everything agreed to in this project, the oldest first."""
        return list(self._read()["projects"].get(self._root, {}).values())

    def own(self) -> None:
        """Trust a project created on this machine, as long as it is the same folder."""
        record, root = self._read(), Path(self._root)
        if not _is_own(record, root):
            make_private_folder(root / ".evals")
            with open(root / _SIGN, "w", encoding="ascii", opener=private_opener) as stream:
                stream.write(secrets.token_hex(16))
            record["folders"][self._root] = _identity(root)
            self._write(record)

    def own_below(self) -> None:
        """Trust every project in this folder and below it, as long as it is the same folder."""
        record = self._read()
        record["trees"][self._root] = _inode(Path(self._root))
        self._write(record)

    @property
    def is_own(self) -> bool:
        """Whether everything in the project is its author's."""
        return _is_own(self._read(), Path(self._root))

    def revoke(self) -> int:
        """Forget every yes of this project; how many there were."""
        record = self._read()
        count = len(record["projects"].pop(self._root, {}))
        count += sum(record[part].pop(self._root, None) is not None for part in ("folders", "trees", "files"))
        record["code"].pop(self._root, None)
        if count:
            self._write(record)
        return count

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            record = json.loads(read_text(self._file, most=2**28, follow_out=True))
            return {**_nothing_yet(), **{name: dict(part) for name, part in record.items()}}
        except FileNotFoundError:
            return _nothing_yet()
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
            raise ConfigurationError(
                f"{self._file} cannot be read ({problem}); delete it, and agree to your projects again"
            ) from None

    def _write(self, record: Mapping[str, Any]) -> None:
        write_private_json(self._file, record)


def is_unclaimed(root: Path) -> bool:
    """Whether a folder holds nothing of an author yet and nothing of others can come, so that it is its user's own."""
    return not is_shared(root) and all(_is_harmless(file) for file in root.iterdir())


def is_shared(root: Path) -> bool:
    """Whether a folder is in a repository into which a pull may bring what others wrote."""
    git = clone_around(root) / ".git"
    if not os.path.lexists(git):
        return False
    try:
        settings = read_text(git / "config", root=git)
    except (OSError, ValueError):  # a work tree or submodule of another repository, or none that can be told
        return True
    return (git / "FETCH_HEAD").exists() or _FROM_ELSEWHERE.search(settings) is not None


def _is_harmless(file: Path) -> bool:
    if file.is_symlink():
        return False
    is_environment = file.name in ("venv", ".venv") and (file / "pyvenv.cfg").is_file()
    return is_environment or _HARMLESS.fullmatch(file.name) is not None


def _nothing_yet() -> dict[str, dict[str, Any]]:
    return {"folders": {}, "trees": {}, "projects": {}, "files": {}, "code": {}}


def _doing(permission: Permission) -> str:
    return f"{permission.kind}: {permission.does}"


def _is_own(record: Mapping[str, Mapping[str, str]], root: Path) -> bool:
    """Whether a folder is the user's own, and still the folder it was: another clone at its path is not."""
    above = (place for place in (root, *root.parents) if str(place) in record["trees"])
    own = record["folders"].get(str(root))
    return (own is not None and own == _identity(root)) or any(record["trees"][str(at)] == _inode(at) for at in above)


def _inode(folder: Path) -> str | None:
    with suppress(OSError):
        stat = folder.stat()
        return f"{stat.st_dev}:{stat.st_ino}"
    return None


def _identity(folder: Path) -> str | None:
    with suppress(OSError):
        sign = read_text(check_private(folder / _SIGN), encoding="ascii", errors="replace")
        return f"{_inode(folder)}:{sign.strip()}"
    return None


def agreed_code(permissions: Sequence[Permission], environment: Mapping[str, str], root: Path) -> list[Manifest | None]:
    """The code that may run for each permission; None if any may."""
    if isinstance(environment, Variables) and environment.trusting:
        return [None for _ in permissions]
    approvals = Approvals(root)
    return [approvals.code_of(permission) for permission in permissions]


def target_code(config: TargetConfig, environment: Mapping[str, str], root: Path) -> Manifest | None:
    """The code that may run for a command or function; None if any may."""
    return next(iter(agreed_code(_asking_permissions(config, environment, root), environment, root)), None)


def demand_approval(configs: Iterable[TargetConfig], environment: Mapping[str, str], root: Path) -> None:
    """Raise NotApproved for permissions that the project needs and you have not given."""
    if isinstance(environment, Variables) and environment.trusting:
        return
    wanted = (permission for config in configs for permission in permissions_of(config, environment, root))
    if missing := Approvals(root).missing(wanted):
        raise NotApproved(missing, root)
