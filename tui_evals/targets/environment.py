"""The variables of a project: its `.env` files in layers, overridden by those of the process.

A file of the project may set variables of providers and those named in the project's settings. Variables that control
interpreters, loaders, proxies, certificates or this program come only from the process.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from dotenv.parser import parse_stream

from tui_evals.project_files import read_text

from .base import ConfigurationError

_LARGEST = 250_000
"""Bytes of a file: the parser takes twelve seconds for three million."""
_TEMPLATE_ENDINGS = ("example", "sample", "template", "user")
_STEERING = re.compile(
    r"(PYTHON|LD_|DYLD_|TUI_EVALS_|GIT_|SSH_|SSL_|XDG_|MALLOC_|GLIBC_|BASH|NODE_|PERL|RUBY).*|.*_PROXY|.*CA_BUNDLE|"
    r"PATH|HOME|SHELL|IFS|ENV|PROMPT_COMMAND|LOCPATH|NLSPATH|HOSTALIASES|RESOLV_HOST_CONF|TMPDIR|TMP|TEMP|"
    r"LITELLM_.*|.*_CERT(_FILE)?|CURL_.*|REQUESTS_.*|SSLKEYLOGFILE|NETRC|OPENSSL_.*|AIOHTTP_.*|JAVA_.*|NPM_.*|PIP_.*|UV_.*|"
    r".*_(PATH|HOME|FILE|FILES|DIR|CONFIG|OPTIONS|OPTS|ARGS|COMMAND|EXECUTABLES|PRELOAD|PROFILE|AUTHORITY_HOST)|"
    r"EDITOR|VISUAL|PAGER|BROWSER|DISPLAY|MAIL|TERM|TERMINFO|PS[0-4]|CDPATH|GCONV_PATH|PKCS11.*"
)
_OF_A_PROVIDER = re.compile(
    r"[A-Z0-9_]+_(API_KEY|API_KEYS|KEY|KEY_ID|ACCESS_KEY|TOKEN|SECRET|API_BASE|BASE_URL|API_URL|URL|ENDPOINT|"
    r"API_VERSION|API_TYPE|REGION|REGION_NAME|PROJECT|PROJECT_ID|LOCATION|ORGANIZATION|ORG_ID|DEPLOYMENT|TENANT_ID|"
    r"CLIENT_ID|CLIENT_SECRET|USERNAME|PASSWORD|MODEL|ACCOUNT_ID|CREDENTIALS)"
)
_PART_OF_A_HOST = re.compile(r".*_(REGION|REGION_NAME|LOCATION|ACCOUNT_ID|API_TYPE)")
"""Providers' libraries build host names of these, so that `evil.example/` as a region would lead a key there."""
_PLAIN_WORD = re.compile(r"[\w-]*", re.ASCII)


class Variables(Mapping[str, str]):
    """Variables by name, which know the file of the project that set them; the process wins over every file."""

    def __init__(
        self,
        files: Mapping[str, tuple[str, Path]],
        process: Mapping[str, str],
        *,
        trusting: bool = False,
    ) -> None:
        self._files = {name: file for name, (_, file) in files.items() if name not in process}
        self._values = {**{name: value for name, (value, _) in files.items()}, **process}
        self.trusting = trusting
        """Whether the project's requests are approved without asking."""

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def file_of(self, name: str) -> Path | None:
        """The file of the project that set a variable; None where the process set it, or where it is not set."""
        return self._files.get(name)

    @property
    def of_files(self) -> Mapping[str, Path]:
        """The variables that files of the project set."""
        return self._files


def environment(
    root: Path, name: str | None = None, named: Collection[str] = (), *, trusting: bool = False
) -> tuple[Variables, tuple[str, ...]]:
    """The variables, and remarks about the files; `named` are variables that the project's settings refer to.

    Without a name the first of `.env.local` and `.env.dev` counts, looked for in the folder and then in `env/`, and
    after it the same with `.user` at its end. With a name the layers are `.env.local`, `.env.local.user` and
    `env/.env.NAME`. A later file wins over an earlier one, and a variable of the process over all files.
    """
    files, remarks = _default_files(root) if name is None else _named_files(root, name)
    values: dict[str, tuple[str, Path]] = {}
    for file in files:
        read = _read_variables(file, remarks)
        refused = sorted(one for one, value in read.items() if not _may_set(one, value, named))
        if refused:
            remarks.append(
                f"{file} may not set {', '.join(refused)}: files of a project set variables of providers and those "
                "that its config.toml names; set others in the shell"
            )
        values |= {one: (value, file) for one, value in read.items() if one not in refused}
    return Variables(values, os.environ, trusting=trusting), tuple(remarks)


def _may_set(name: str, value: str, named: Collection[str]) -> bool:
    if _STEERING.fullmatch(name.upper()) or (_PART_OF_A_HOST.fullmatch(name) and not _PLAIN_WORD.fullmatch(value)):
        return False
    return name in named or _OF_A_PROVIDER.fullmatch(name) is not None


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
    """The variables of one file; a line that does not set one is noted by its number, not shown."""
    try:
        bindings = list(parse_stream(io.StringIO(read_text(file, encoding="utf-8-sig", most=_LARGEST))))
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not UTF-8 text"
        raise ConfigurationError(f"{file} cannot be read: {reason}") from None
    remarks += [f"{file}, line {each.original.line}: not NAME=value, passed over" for each in bindings if each.error]
    return {each.key: each.value for each in bindings if each.key is not None and each.value is not None}
