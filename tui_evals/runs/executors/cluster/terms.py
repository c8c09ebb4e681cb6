"""The options of --cluster: what its word means, the file of hosts behind ssh:FILE, and what cannot be combined."""

from __future__ import annotations

import ipaddress
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tui_evals.datasets.model import Dataset, Item
from tui_evals.datasets.validate import Rubric
from tui_evals.light_records import dataclass
from tui_evals.project_files import TooLarge, read_bytes
from tui_evals.runs.executors import Cell
from tui_evals.runs.plan import Plan
from tui_evals.runs.prompting import kept_prompt, prompt_kept
from tui_evals.store.records import CallRecord, ScoreRecord
from tui_evals.store.rows import CALL_COLUMNS, answer_record, body_of, plain, score_record, score_values
from tui_evals.targets.base import ConfigurationError, HttpService, Price, TargetConfig
from tui_evals.targets.config import tool_settings
from tui_evals.version import __version__

OP = "tui_evals_letter"
"""The name under which a worker listens for messages."""

Message = dict[str, Any]


def versions() -> dict[str, str]:
    """The versions that must be the same on both sides."""
    return {"tui_evals": __version__, "Python": f"{sys.version_info.major}.{sys.version_info.minor}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything a worker must know of a run but its items."""

    versions: Mapping[str, str]
    header: Mapping[str, Any]
    targets: tuple[TargetConfig, ...]
    judges: tuple[tuple[str | None, TargetConfig], ...]
    prompts: tuple[Mapping[str, Any], ...]
    without_judges: bool
    rubric: Rubric
    use_cache: bool
    budget: float | None
    root: str
    code: Mapping[str, Any]
    environment: Mapping[str, str]
    """Variables that the user asked to hand on; only TLS carries them."""
    files: str | None = None
    """The folder of the dataset, whose files go along with questions; workers read them there."""


def dump_order(order: Order) -> str:
    """An order as text."""
    return json.dumps(asdict(order))


def load_order(text: str) -> Order:
    """The order of a text."""
    data = json.loads(text)
    data["targets"] = tuple(map(_load_config, data["targets"]))
    data["judges"] = tuple((name, _load_config(config)) for name, config in data["judges"])
    data["prompts"] = tuple(data["prompts"])
    return Order(**data)


def _load_config(data: dict[str, Any]) -> TargetConfig:
    """A configuration as the driver sent it: what its project asks for was agreed to there."""
    price, tools, http = data.pop("price"), data.pop("tools"), data.pop("http")
    return TargetConfig(
        **{**data, "where": ""},
        price=None if price is None else Price(**price),
        tools=None if tools is None else tool_settings(tools),
        http=None if http is None else HttpService(**http),
    )


def dataset_header(dataset: Dataset) -> dict[str, Any]:
    """A dataset without its items."""
    return dataset.model_dump(exclude={"items"}, exclude_unset=True)


def dump_prompts(plan: Plan) -> tuple[Mapping[str, Any], ...]:
    """The prompts under test that a plan names."""
    return tuple({"name": prompt.name, **kept_prompt(prompt)} for prompt in plan.prompts)


def worker_plan(order: Order, registry: Any) -> Plan:
    """The plan of a worker: the run without its items, which come with the cells."""
    header = Dataset.model_validate({**order.header, "items": [{"prompt": "-"}]}).model_copy(update={"items": []})
    judge = dict(order.judges).get(None)
    prompts = tuple(map(prompt_kept, order.prompts))
    return Plan(header, order.targets, registry, judge, order.without_judges, prompts, rubric=order.rubric)


def dump_cells(cells: Sequence[Cell]) -> str:
    """Cells as text; an item that several of them ask is written once."""
    numbers: dict[int, int] = {}
    for cell in cells:
        numbers.setdefault(id(cell.item), len(numbers))
    items = {numbers[id(cell.item)]: cell.item.model_dump(exclude_unset=True) for cell in cells}
    rows = [
        [
            *(numbers[id(cell.item)], cell.name, cell.position, cell.prompt, cell.target, cell.repeat, cell.answers),
            [[turn, body_of(record)] for turn, record in cell.known.items()],
            sorted(cell.final),
            [[turn, dump_scores(records)] for turn, records in cell.scores.items()],
        ]
        for cell in cells
    ]
    return json.dumps([list(items.items()), rows])


def load_cells(text: str) -> list[Cell]:
    """The cells of a text."""
    written, rows = json.loads(text)
    items = {number: Item.model_validate(item) for number, item in written}
    return [
        Cell(
            *(items[number], name, position, prompt, target, repeat, tuple(answers)),
            {turn: answer_record(*body) for turn, body in answered},
            frozenset(final),
            {turn: tuple(load_scores(records)) for turn, records in scores},
        )
        for number, name, position, prompt, target, repeat, answers, answered, final, scores in rows
    ]


def dump_call(record: CallRecord) -> list[Any]:
    """A call as its columns."""
    values = [getattr(record, name) for name in CALL_COLUMNS]
    return [plain(value) if isinstance(value, str) else value for value in values]


def load_call(row: Sequence[Any]) -> CallRecord:
    """A call from its columns."""
    return CallRecord(**dict(zip(CALL_COLUMNS, row, strict=True)))


def dump_scores(records: Sequence[ScoreRecord]) -> list[tuple[Any, ...]]:
    """Scores as their columns."""
    return [score_values(record) for record in records]


def load_scores(rows: Sequence[Sequence[Any]]) -> list[ScoreRecord]:
    """Scores from their columns."""
    return [score_record(tuple(row)) for row in rows]


class Hidden:
    """A text kept out of logs, because it contains forwarded variables."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        """Never the text."""
        return "(hidden)"


def hide_order(message: Message) -> Message:
    """A message of the driver whose order is kept out of logs."""
    from distributed.protocol import to_serialize

    return {**message, "order": to_serialize(Hidden(message["order"]))} if "order" in message else message


def reveal_order(message: Message) -> Message:
    """The message before `hide_order`."""
    return {**message, "order": message["order"].text} if "order" in message else message


MAX_HOSTS_FILE = 1_000_000
"""Bytes of a file of hosts; a longer file is something else."""

_LINE = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][\w.\-]*)@)?"
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_][A-Za-z0-9_.\-]*))"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Host:
    """The host of a worker; None leaves the setting to the user's SSH configuration."""

    name: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        """In the notation of the file."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return (f"{self.user}@" if self.user else "") + name + (f":{self.port}" if self.port else "")


def read_hosts(path: Path) -> list[Host]:
    """The hosts of a file in its order, twice where it says so twice; ConfigurationError names the line."""
    try:
        text = read_bytes(path, most=MAX_HOSTS_FILE, follow_out=True).decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(
            f"--cluster ssh:{path}: there is no such file; list one host per line in it."
        ) from None
    except TooLarge:
        raise ConfigurationError(f"--cluster ssh:{path}: the file is too long to be a list of hosts.") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--cluster ssh:{path}: the file cannot be read ({error}).") from None
    lines = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1))
    hosts = [_parse_host(line, path, number) for number, line in lines if line]
    if not hosts:
        raise ConfigurationError(f"--cluster ssh:{path}: the file names no host; list one per line.")
    return hosts


def _parse_host(line: str, path: Path, number: int) -> Host:
    """The host a line names."""
    match = _LINE.fullmatch(line)
    port = int(match["port"]) if match and match["port"] else None
    if not match or (port is not None and not 0 < port < 65536):
        raise ConfigurationError(
            f"--cluster ssh:{path}, line {number}: {line[:80]!r} is no host; write host, user@host or user@host:22 "
            "(an IPv6 address in brackets)."
        )
    return Host(match["six"] or match["name"], match["user"], port)


FORMS = "local, local:4, tcp://host:8786, tls://host:8786 or ssh:hosts.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTerms:
    """A cluster as asked for, saved with the run so that resuming opens the same."""

    word: str
    insecure: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    forward: tuple[str, ...] = ()
    """Names of variables whose values are handed to the workers."""

    @property
    def tls_files(self) -> tuple[tuple[str, str], ...]:
        """The options that name TLS files, each with its path."""
        named = (("--tls-ca", self.tls_ca), ("--tls-cert", self.tls_cert), ("--tls-key", self.tls_key))
        return tuple((option, path) for option, path in named if path)


def saved_terms(saved: Mapping[str, Any] | None) -> ClusterTerms | None:
    """The cluster that the config of a run names."""
    return None if saved is None else ClusterTerms(**{**saved, "forward": tuple(saved["forward"])})


@dataclass(frozen=True, slots=True)
class LocalWorkers:
    """Worker processes on this machine; None is one for each processor."""

    workers: int | None


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler that is running already."""

    address: str
    host: str
    port: int
    encrypted: bool


@dataclass(frozen=True, slots=True)
class HostsFile:
    """A file that lists the hosts to start workers on."""

    path: Path


Place = LocalWorkers | Scheduler | HostsFile


def parse_place(word: str) -> Place:
    """The place that the word after --cluster means; ConfigurationError lists the forms."""
    kind, colon, rest = word.partition(":")
    if kind == "local":
        if not colon:
            return LocalWorkers(None)
        if rest.isascii() and rest.isdigit() and int(rest) > 0:
            return LocalWorkers(int(rest))
        raise ConfigurationError(f"--cluster {word}: behind local: goes a number of worker processes, as in local:4.")
    if kind in ("tcp", "tls") and rest.startswith("//"):
        return _parse_scheduler(word, kind)
    if kind == "ssh" and rest and not rest.startswith("//"):
        return HostsFile(Path(rest).expanduser())
    raise ConfigurationError(f"--cluster {word} means nothing here: write {FORMS}.")


def _parse_scheduler(word: str, kind: str) -> Scheduler:
    """The scheduler an address names."""
    try:
        parts = urlsplit(word)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.username or parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigurationError(f"--cluster {word}: the address of a scheduler looks like {kind}://host:8786.")
    shown = f"[{host}]" if ":" in host else host
    return Scheduler(f"{kind}://{shown}:{port}", host, port, kind == "tls")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nothing else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_encrypted(terms: ClusterTerms) -> bool:
    """Whether the messages between driver and workers are encrypted."""
    where = parse_place(terms.word)
    return isinstance(where, LocalWorkers) or (
        bool(terms.tls_files) if isinstance(where, HostsFile) else where.encrypted
    )


def check_terms(terms: ClusterTerms) -> tuple[str, ...]:
    """Notes (warnings) about a cluster; ConfigurationError says what cannot be done."""
    where = parse_place(terms.word)
    _demand_installed("distributed", "Dask")
    for name in terms.forward:
        if name.startswith("TUI_EVALS_"):
            raise ConfigurationError(f"--forward-env {name}: what a worker trusts is set where it is started.")
    if isinstance(where, LocalWorkers):
        _refuse_tls_files(terms, "worker processes on this machine get certificates of their own")
        return ()
    if isinstance(where, HostsFile):
        _demand_installed("asyncssh", "asyncssh")
        hosts = [host.name for host in read_hosts(where.path)]
        if terms.tls_files:
            _check_tls_files(terms, everywhere=True)
    else:
        hosts = [where.host]
        if where.encrypted:
            _check_tls_files(terms)
        else:
            _refuse_tls_files(terms, f"{where.address} is not encrypted; write tls:// if its scheduler is")
    if is_encrypted(terms):
        return ()
    if terms.forward:
        raise ConfigurationError(
            f"--forward-env {terms.forward[0]} would send its value unencrypted with --cluster {terms.word}. "
            "Use TLS, or set the variable where the workers start."
        )
    return _plain_tcp_notes(terms, [host for host in hosts if not is_loopback(host)])


def _plain_tcp_notes(terms: ClusterTerms, far: list[str]) -> tuple[str, ...]:
    """The warning about plain TCP to these hosts; ConfigurationError unless it was accepted."""
    if not far:
        return ()
    risk = (
        f"--cluster {terms.word} is plain TCP to {far[0]}: anyone on that network can read the datasets and "
        "answers, and run code on the workers"
    )
    if terms.insecure:
        return (f"{risk}.",)
    raise ConfigurationError(f"{risk}. Use TLS (--tls-ca, --tls-cert, --tls-key), or accept it: --insecure-cluster.")


def _demand_installed(module: str, name: str) -> None:
    """Refuse when a package of the extra is not there."""
    if find_spec(module) is None:
        raise ConfigurationError(f"--cluster needs {name}: pip install 'tui-evals[cluster]'")


def _refuse_tls_files(terms: ClusterTerms, why: str) -> None:
    """Refuse TLS files where they would change nothing."""
    for option, _ in terms.tls_files:
        raise ConfigurationError(f"{option} does nothing with --cluster {terms.word}: {why}.")


def _check_tls_files(terms: ClusterTerms, *, everywhere: bool = False) -> None:
    """Refuse TLS files that are not enough, not there, or not the same path on every host."""
    if not terms.tls_ca or not terms.tls_cert:
        raise ConfigurationError(
            f"--cluster {terms.word} with TLS needs --tls-ca and --tls-cert (and --tls-key, unless the certificate's "
            "file holds the key as well)."
        )
    for option, path in terms.tls_files:
        if not Path(path).is_file():
            raise ConfigurationError(f"{option} {path}: there is no such file.")
        if everywhere and not Path(path).is_absolute():
            raise ConfigurationError(f"{option} {path}: write the whole path, which must be the same on every host.")
