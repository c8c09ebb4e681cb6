"""Sends a project's own evaluators to workers: packed with a digest, verified there, written whole or not at all."""

from __future__ import annotations

import errno
import socket
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tui_evals.evaluators.base import CannotJudge, Evaluator, Evidence, JudgedOptions, Scope, Score, error_score
from tui_evals.evaluators.compliance import SUFFIX, MetricEvaluator, metric_evaluator
from tui_evals.evaluators.custom import CustomEvaluator, custom_evaluator, name_problem, read_evaluator_files
from tui_evals.evaluators.libraries.metric import LibraryMetric
from tui_evals.evaluators.registry import Registry, built_in, load_registry
from tui_evals.evaluators.trust import MAX_BYTES, MAX_FILES, Trust, TrustError, code_digest, has_digest
from tui_evals.light_records import dataclass
from tui_evals.project_files import TooLarge, read_bytes
from tui_evals.targets.base import ConfigurationError

_TRIES = 5

Files = Mapping[str, bytes]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SealedFiles(_Model):
    """Files in base64, and the digest they had when they were packed."""

    digest: str
    files: dict[str, str]


class MissingEvaluator(_Model):
    """An evaluator that cannot be sent: how it behaves, and why it cannot judge on a worker that lacks it."""

    judged: bool
    scope: Scope
    why: str


class Parcel(_Model):
    """The parcel of a driver: code, metrics, missing parts, and the packages that workers need."""

    custom: dict[str, SealedFiles]
    metrics: dict[str, SealedFiles]
    broken: dict[str, MissingEvaluator]
    installed: dict[str, MissingEvaluator]


@dataclass(frozen=True, slots=True)
class VerifiedFiles:
    """Files that have the digest they were sent with."""

    digest: str
    files: Files


def seal_files(files: Files) -> SealedFiles:
    """Files as text, with their digest."""
    return SealedFiles(
        digest=code_digest(files), files={name: b64encode(data).decode() for name, data in files.items()}
    )


def read_parcel(data: Mapping[str, Any]) -> Parcel:
    """The parcel in some data; ConfigurationError when there is none."""
    try:
        return Parcel.model_validate(dict(data))
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise parcel_refused(f"{place[:200]}: {first['msg']}") from None


def parcel_refused(why: str) -> ConfigurationError:
    """The error for a parcel that no driver sends."""
    return ConfigurationError(
        f"the evaluators sent to {socket.gethostname()} were refused and none of them was run: {why}; "
        "start the run again, and if that does not help, find out what changes them on the way"
    )


def is_utf8(name: str) -> bool:
    """Whether a name can be sent and written everywhere."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def open_sealed(name: str, seal: SealedFiles, main: str) -> VerifiedFiles:
    """The files of an evaluator, refused unless they are safe to write and have the digest they were sent with."""
    bytes_left = MAX_BYTES
    files: dict[str, bytes] = {}
    for file, text in seal.files.items():
        if why := _unsafe_reason(file, seal.files):
            raise parcel_refused(f"the evaluator {name!r} has a file {file[:200]!r}, {why}")
        try:
            files[file] = b64decode(text, validate=True)
        except ValueError as problem:
            raise parcel_refused(
                f"the file {file[:200]!r} of the evaluator {name!r} is not base64: {problem}"
            ) from None
        bytes_left -= len(files[file])
        if bytes_left < 0 or len(files) > MAX_FILES:
            raise parcel_refused(f"the evaluator {name!r} has more than {MAX_FILES} files or 16 MB")
    if main not in files:
        raise parcel_refused(f"the evaluator {name!r} has no file {main!r}")
    if (actual := code_digest(files)) != seal.digest:
        raise parcel_refused(f"the evaluator {name!r} should have the digest {seal.digest[:64]!r} and has {actual}")
    return VerifiedFiles(actual, files)


def _unsafe_reason(file: str, others: Mapping[str, object]) -> str | None:
    """Why a file of this name must not be written, if it must not."""
    path = PurePosixPath(file)
    if path.as_posix() != file or "\0" in file or not is_utf8(file):
        return "which is no plain name"
    if any(part[0] in "./" or part == "__pycache__" for part in path.parts):
        return "which is hidden, outside or bytecode"
    return "which is inside another file" if any(str(above) in others for above in path.parents) else None


def write_files(code: VerifiedFiles, folder: Path) -> Path:
    """The folder that holds these files, put there whole by whichever process is first."""
    place = folder / code.digest
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        for _ in range(_TRIES):
            if has_digest(place, code.digest):
                return place
            _write_in_one_step(code, place, folder)
        why = "what was written there reads otherwise"
    except OSError as problem:
        why = str(problem)
    raise ConfigurationError(
        f"the evaluators of this run cannot be kept in {folder} on {socket.gethostname()}: {why}; "
        "see that the folder can be written and has room, then resume the run"
    )


def _write_in_one_step(code: VerifiedFiles, place: Path, folder: Path) -> None:
    """Write files to a temporary folder and rename it to `place` in one step, replacing a wrong copy there."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".draft-") as name:
        draft = Path(name) / "new"
        draft.mkdir(mode=0o700)
        for file, data in code.files.items():
            (draft / file).parent.mkdir(parents=True, exist_ok=True)
            (draft / file).write_bytes(data)
        try:
            draft.rename(place)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            if not has_digest(place, code.digest):  # what another process has just put there may be in use
                with suppress(FileNotFoundError):
                    place.rename(Path(name) / "old")


TRUST = "TUI_EVALS_TRUST"


def pack_evaluators(registry: Registry, root: Path, metrics: Path | None, used: Iterable[str]) -> dict[str, Any]:
    """The parts of used evaluators that a worker needs, as JSON data; raises ConfigurationError."""
    parcel = Parcel(custom={}, metrics={}, broken={}, installed={})
    for name in sorted(set(used) - built_in().keys()):
        kind = registry.find(name)
        away = MissingEvaluator(judged=kind.judged, scope=kind.scope, why="")
        try:
            if issubclass(kind, CustomEvaluator):
                parcel.custom[name] = seal_files(_custom_files(name, kind.folder, root))
            elif issubclass(kind, MetricEvaluator):
                parcel.metrics[name] = seal_files(_metric_file(name, kind.path, root, metrics))
            elif issubclass(kind, LibraryMetric):
                why = "its library is in a Python of this machine"
                raise _cannot_send(name, why, "leave it out there, and judge by it here with `tui-evals rescore`")
            else:
                package = kind.__module__.partition(".")[0]
                away.why = f"the evaluator '{name}' comes with the package {package}, which this worker lacks"
                parcel.installed[name] = away
        except CannotJudge as cannot:
            away.why = str(cannot)
            parcel.broken[name] = away
    return parcel.model_dump()


def _custom_files(name: str, folder: Path, root: Path) -> Files:
    """The files of a custom evaluator, all of them from its own folder in the project."""
    files, home = read_evaluator_files(name, folder), folder.resolve()
    if not _openly_inside(home, root):
        raise _cannot_send(name, f"{folder} leads to {home}", "copy that folder into the project")
    for file in files:
        real = (home / file).resolve()
        if not _openly_inside(real, home):
            raise _cannot_send(name, f"{folder / file} leads to {real}", "replace the link by the file it means")
        if real.suffix == ".env":
            raise _cannot_send(name, f"{folder / file} looks like a file of secrets", "keep it out of that folder")
        if not is_utf8(file):
            raise _cannot_send(name, f"a file in {folder} has the name {file!r}, which is not UTF-8", "rename it")
    return files


def _metric_file(name: str, path: Path, root: Path, metrics: Path | None) -> Files:
    """The one file of a metric, from the folder of the prompt under test."""
    real = path.resolve()
    if not any(_openly_inside(real, home) for home in (metrics, root) if home):
        raise _cannot_send(name, f"{path} leads to {real}", "replace the link by the file it means")
    if not is_utf8(path.name):
        raise _cannot_send(name, f"the name {path.name!r} is not UTF-8", "rename it")
    try:
        text = read_bytes(real, most=MAX_BYTES, follow_out=True)
    except TooLarge:
        raise _cannot_send(name, f"{path} is larger than 16 MB", "keep only the metric in it") from None
    except OSError as problem:
        raise CannotJudge("evaluatorLoadError", f"the metric {path} cannot be used: {problem}") from None
    return {path.name: text}


def _openly_inside(real: Path, home: Path) -> bool:
    """Whether a path is inside a folder, in no hidden part of it."""
    home = home.resolve()
    return real.is_relative_to(home) and not any(part[0] == "." for part in real.relative_to(home).parts)


def _cannot_send(name: str, why: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"the evaluator {name!r} cannot be sent to the workers of a cluster: {why}; {remedy}")


def unpack_evaluators(parcel: Mapping[str, Any], folder: Path, environment: Mapping[str, str]) -> Registry:
    """The evaluators of a worker, with those of a parcel; ConfigurationError when it cannot be opened or kept here.

    `environment` is the worker's own, because the sender of a parcel must not decide that it is trusted.
    """
    sent = read_parcel(parcel)
    custom = {name: open_sealed(name, seal, _main_file(name, seal)) for name, seal in sent.custom.items()}
    metrics = {name: open_sealed(name, seal, f"{name}{SUFFIX}") for name, seal in sent.metrics.items()}
    for name in [*custom, *metrics, *sent.broken, *sent.installed]:
        if why := _name_fault(name, is_code=name in custom):
            raise parcel_refused(why)
    installed = load_registry()
    kinds = {name: _stand_in(name, away.judged, away.why, away.scope) for name, away in sent.broken.items()}
    kinds |= {
        name: _missing_package(name, away) for name, away in sent.installed.items() if name not in installed.by_name
    }
    kinds |= {
        name: metric_evaluator(name, write_files(code, folder) / f"{name}{SUFFIX}") for name, code in metrics.items()
    }
    kinds |= {name: _custom_evaluator(name, code, folder, environment) for name, code in custom.items()}
    return Registry({**installed.by_name, **kinds}, tuple(custom), installed.problems)


def _main_file(name: str, seal: SealedFiles) -> str:
    """The file of an evaluator that is called: Python, or else JavaScript."""
    return f"{name}.js" if f"{name}.js" in seal.files and f"{name}.py" not in seal.files else f"{name}.py"


def _name_fault(name: str, *, is_code: bool) -> str | None:
    """Why no evaluator of a project has this name, if none has."""
    if is_code:
        return name_problem(name, built_in())
    if name in built_in():
        return f"{name!r} is the name of a built-in evaluator"
    return None if is_utf8(name) and "\0" not in name else f"{name!r} is no name"


def _custom_evaluator(name: str, code: VerifiedFiles, folder: Path, environment: Mapping[str, str]) -> type[Evaluator]:
    """The evaluator of some code, pinned to its digest; without trust it is not even written to disk."""
    judged, host = f"{name}.prompty" in code.files, socket.gethostname()
    trust_words = {word.strip().lower() for word in environment.get(TRUST, "").split(",")}
    try:
        trusted = bool(trust_words & {"all", code.digest}) or Trust().knows_digest(code.digest)
    except TrustError as problem:
        return _stand_in(name, judged, f"Custom evaluator '{name}' cannot be trusted on {host}: {problem}")
    if not trusted:
        return _stand_in(
            name,
            judged,
            f"Custom evaluator '{name}' is code that the worker on {host} does not trust yet: read it, then "
            f"start that worker with {TRUST}={code.digest} (or {TRUST}=all to run whatever is sent to it), or say "
            "`tui-evals trust` there to a copy of its folder",
        )
    return custom_evaluator(name, write_files(code, folder), Trust(digests=(code.digest,)))


class _AnyOptions(JudgedOptions):
    """Accepts the options of any evaluator."""

    model_config = ConfigDict(extra="allow")


class _StandIn(Evaluator):
    """Takes the place of an evaluator that cannot run here, and says why in every score."""

    family = "custom"
    Options = _AnyOptions
    why: ClassVar[str]

    def score(self, evidence: Evidence) -> Score:
        """Return an error with the reason."""
        return error_score("evaluatorLoadError", self.why)


def _stand_in(name: str, judged: bool, why: str, scope: Scope = "answer") -> type[Evaluator]:
    return type(name, (_StandIn,), {"name": name, "judged": judged, "scope": scope, "why": why, "__doc__": why})


def _missing_package(name: str, away: MissingEvaluator) -> type[Evaluator]:
    """The stand-in for an evaluator of a package that is not installed on the worker."""
    why = f"{away.why} ({socket.gethostname()}); install it there and start the worker again"
    return _stand_in(name, away.judged, why, away.scope)
