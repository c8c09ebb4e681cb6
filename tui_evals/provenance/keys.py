"""The key that signs the results of runs, and the trusted public keys of others.

The private key is in the user's state folder, the trusted keys are in the user's configuration folder or in a variable:
never in a project, which may be a clone. `cryptography` is imported on first use.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from platformdirs import user_config_path, user_state_path

from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text
from tui_evals.provenance.chain import canonical, digest_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SIGNING_KEY = "TUI_EVALS_SIGNING_KEY"
"""The variable that holds the private key or the path of its file; `off` for signing nothing."""
TRUSTED_KEYS = "TUI_EVALS_TRUSTED_KEYS"
"""The variable that holds public keys to trust besides those of the configuration: `NAME=KEY,NAME=KEY`."""
KEY_FILE = "signing_key.pem"
TRUSTED_FILE = "trusted_keys.toml"
_OFF = "off"
_PUBLIC = re.compile(r"ed25519:[A-Za-z0-9+/]{43}=")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_MOST = 2**20


class KeyProblem(Exception):
    """There is no key to sign or trust with; the message says why."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key, which signs."""

    public: str
    """Its public half, which is stored with signatures and shared."""
    _private: Ed25519PrivateKey

    def sign(self, content: bytes) -> tuple[str, str]:
        """The public key and the signature of some bytes."""
        return self.public, base64.b64encode(self._private.sign(content)).decode()


def is_signed(public: str, signature: str, content: bytes) -> bool:
    """Whether a signature under a public key is of these bytes."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("ed25519:"), validate=True))
        key.verify(base64.b64decode(signature, validate=True), content)
    except (InvalidSignature, ValueError):
        return False
    return is_public(public)


def is_public(text: str) -> bool:
    """Whether a text is a public key as `tui-evals verify --key` prints it."""
    return _PUBLIC.fullmatch(text) is not None


def fingerprint(public: str) -> str:
    """A public key in short, for people to compare: 20 hexadecimal digits in groups of four."""
    digits = digest_of(canonical(["key", public]))[:20]
    return "-".join(digits[at : at + 4] for at in range(0, 20, 4))


def own_key(*, make: bool = True) -> SigningKey:
    """The user's key: from the variable, otherwise from the state folder, where it is created on first use.

    Raises KeyProblem if there is none; with `make=False` also if none was created yet.
    """
    given = os.environ.get(SIGNING_KEY, "").strip()
    if given.lower() == _OFF:
        raise KeyProblem(f"{SIGNING_KEY} is {_OFF}")
    if given:
        return _given_key(given)
    file = user_state_path("tui_evals") / KEY_FILE
    try:
        with suppress(FileNotFoundError):
            return _read_key(file)
        if not make:
            raise KeyProblem(f"{file} is made when something is signed for the first time")
        return _made_key(file)
    except OSError as problem:
        raise KeyProblem(f"no key could be kept in {file}: {problem.strerror}") from None


def _given_key(given: str) -> SigningKey:
    if "-----BEGIN" in given:
        return _loaded(given.encode(), SIGNING_KEY)
    with suppress(binascii.Error, ValueError):
        if len(seed := base64.b64decode(given, validate=True)) == 32:
            return _of_seed(seed)
    try:
        return _loaded(read_text(Path(given), most=_MOST, follow_out=True).encode(), given)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is no text"
        raise KeyProblem(f"{SIGNING_KEY} is no key, and the file it names cannot be read: {reason}") from None


def _read_key(file: Path) -> SigningKey:
    status = os.lstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o077:
        raise KeyProblem(f"{file} must be an ordinary file that only you can read: `chmod 600 {file}`")
    key = _kept_key(str(file), status.st_mtime_ns, status.st_ino)
    if key is None:
        raise KeyProblem(f"{file} holds no Ed25519 key. Delete it, and a new one is made")
    return key


@lru_cache(maxsize=8)
def _kept_key(file: str, changed: int, inode: int) -> SigningKey | None:
    """The key in a file, read once by each process until the file changes."""
    del changed, inode
    try:
        return _loaded(read_text(Path(file), most=_MOST, follow_out=True).encode(), file)
    except (KeyProblem, ValueError):
        return None


def _loaded(pem: bytes, where: str) -> SigningKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        private = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyProblem(f"{where} holds no private key in PEM without a password") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise KeyProblem(f"{where} holds a key of another kind. It must be Ed25519")
    return _of_private(private)


def _of_seed(seed: bytes) -> SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return _of_private(Ed25519PrivateKey.from_private_bytes(seed))


def _of_private(private: Ed25519PrivateKey) -> SigningKey:
    return SigningKey(f"ed25519:{base64.b64encode(private.public_key().public_bytes_raw()).decode()}", private)


def _made_key(file: Path) -> SigningKey:
    """A new key; if two processes create one at the same time, both use the first."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private = Ed25519PrivateKey.generate()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, draft = tempfile.mkstemp(dir=file.parent, prefix=".signing-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        os.unlink(draft)
    return _read_key(file)


# -- who is trusted

Standing = Literal["you", "trusted", "unknown"]


@dataclass(frozen=True, slots=True)
class Signer:
    """The signer of something, as far as this user knows."""

    key: str
    standing: Standing
    name: str = ""
    """How the user calls a trusted key."""

    @property
    def fingerprint(self) -> str:
        """The key in short."""
        return fingerprint(self.key)


def signer_of(key: str) -> Signer:
    """The owner of a public key: you, a person you trust, or an unknown person."""
    with suppress(KeyProblem):
        if own_key(make=False).public == key:
            return Signer(key, "you")
    name = next((name for name, public in trusted_keys().items() if public == key), None)
    return Signer(key, "unknown") if name is None else Signer(key, "trusted", name)


def trusted_keys() -> dict[str, str]:
    """The public keys that the user trusts, by the names that the user gave them; KeyProblem where they are no keys."""
    return {**_configured(), **_of_variable(os.environ.get(TRUSTED_KEYS, ""))}


def trust_key(name: str, public: str) -> None:
    """Trust a public key from now on, under a name."""
    if not _NAME.fullmatch(name):
        raise KeyProblem(f"{name!r} is no name for a key. Use up to 64 letters, digits and . _ @ -")
    if not is_public(public):
        raise KeyProblem("Not a public key. `tui-evals verify --key` prints one: it begins with ed25519:")
    _write({**_configured(), name: public})


def forget_key(name: str) -> None:
    """Trust the key of a name no more."""
    kept = _configured()
    if name not in kept:
        raise KeyProblem(f"{_trusted_file()} has no key {name!r}")
    del kept[name]
    _write(kept)


def _trusted_file() -> Path:
    return user_config_path("tui_evals") / TRUSTED_FILE


def _configured() -> dict[str, str]:
    file = _trusted_file()
    try:
        data = tomllib.loads(read_text(file, follow_out=True))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise KeyProblem(f"{file} cannot be read: {problem}") from None
    return _checked(data, str(file))


def _of_variable(text: str) -> dict[str, str]:
    pairs = [pair.strip().partition("=") for pair in re.split(r"[,\n]", text) if pair.strip()]
    return _checked({name.strip(): key.strip() for name, _, key in pairs}, TRUSTED_KEYS)


def _checked(data: Mapping[str, object], where: str) -> dict[str, str]:
    for name, key in data.items():
        if not (_NAME.fullmatch(name) and isinstance(key, str) and is_public(key)):
            raise KeyProblem(f"{where}: {name[:64]!r} must be a name and a public key, as in alice = ed25519:…")
    return {name: str(key) for name, key in data.items()}


def _write(keys: Mapping[str, str]) -> None:
    file = _trusted_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=file.parent, prefix=".trusted-")
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.writelines(f'"{name}" = "{key}"\n' for name, key in sorted(keys.items()))
        os.replace(draft, file)
    except OSError as problem:
        raise KeyProblem(f"{file} could not be written: {problem.strerror}") from None
