"""A secret is where a call needs it, and in nothing that Dask, a log, a page or the store shows or keeps."""

from __future__ import annotations

import pickle
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from urllib.parse import urljoin

import pytest

from tests.runs.conftest import Project, project, server
from tui_evals.runs.executors.cluster import connection
from tui_evals.runs.executors.cluster.terms import ClusterTerms

pytest.importorskip("distributed", reason="the cluster extra is not installed")
pytest.importorskip("cryptography", reason="the cluster extra is not installed")

from distributed import Client

from tests.runs.cluster.byhand import ByHand, by_hand
from tests.runs.cluster.certificates import issued
from tests.runs.cluster.processes import wait_for

__all__ = ["project", "server"]
ROOT = Path(__file__).parents[3]
LINK = re.compile(r'(?:href|src)="([^"]+)"')
LOUD = {"DASK_LOGGING__DISTRIBUTED": "debug"}
FUNCTION = """
import os
def ask(prompt):
    raise LookupError(f"refused with {os.environ.get('KEY_OF_FOLDER')} and {os.environ['KEY_ON_WORKER']}")
"""
ROUTES = (
    *(
        "",
        "info",
        "info/main/workers.html",
        "info/main/exceptions.html",
        "info/main/logs.html",
        "individual-plots.json",
    ),
    *("json/counts.json", "json/identity.json", "json/index.html", "health", "metrics", "sitemap.json", "status"),
    *("statics/css/status.css", "api/v1", "api/v1/get_workers", "system", "profile", "graph"),
)


@dataclass
class Seen:
    """The places that were looked at, and where secrets were to be seen, with what was around them."""

    secrets: dict[str, str]
    places: set[str] = field(default_factory=set)
    shown: list[tuple[str, str]] = field(default_factory=list)

    def look(self, place: str, text: str) -> None:
        self.places.add(place)
        for secret in self.secrets.values():
            if secret in text:
                start = text.index(secret)
                self.shown.append((place, text[max(0, start - 200) : start + 40]))

    def crawl(self, origin: str, names: Iterable[str]) -> None:
        """Every page of a server, by the routes it is known for and all links from there."""
        ahead = [urljoin(origin, route) for route in (*ROUTES, *names)]
        seen = set(ahead)
        while ahead:
            text = fetched(address := ahead.pop())
            self.look(address, text)
            links = {urljoin(address, link).partition("#")[0] for link in LINK.findall(text)}
            new = {link for link in links - seen if link.startswith(origin) and "/statics/" not in link}
            seen |= new
            ahead += new


def fetched(address: str) -> str:
    """A page, or what is said where there is none."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=10) as page:
            return str(page.read().decode("utf-8", "replace"))
    except urllib.error.HTTPError as none:
        with none:
            return str(none.read().decode("utf-8", "replace"))


def kept_by(dask_scheduler) -> dict[str, bytes]:
    """All that a scheduler keeps of tasks, as far as it can be written down."""
    tasks = [
        pickle.dumps(task.run_spec) + repr([task.run_spec, task.annotations, task.metadata]).encode()
        for task in dask_scheduler.tasks.values()
    ]
    story = repr([dask_scheduler.transition_log, dask_scheduler.identity()])
    return {"tasks": b"".join(tasks), "story": story.encode(), "rest": repr(dask_scheduler.extensions).encode()}


async def looked(client: Client, seen: Seen) -> None:
    """Look at all that a cluster shows and keeps now."""
    info = client.scheduler_info(n_workers=-1)
    kept = await client.run_on_scheduler(kept_by)
    kept["logs"] = repr([await client.get_scheduler_logs(), await client.get_worker_logs()]).encode()
    kept["nannies"] = repr(await client.get_worker_logs(nanny=True)).encode()
    kept["events"] = repr(await client.get_events()).encode()
    for name, data in kept.items():
        seen.look(name, data.decode("utf-8", "replace"))
    if b"hold_shard" in kept["tasks"]:
        seen.places.add("tasks under way")
    keys = sorted(set(re.findall(rb"tui-evals-\w+-\d+", kept["story"])))
    pages = [f"info/{kind}/{key.decode()}.html" for key in keys[-3:] for kind in ("task", "call-stack")]
    seen.crawl(f"http://127.0.0.1:{info['services']['dashboard']}/", pages)
    for worker in info["workers"].values():
        seen.crawl(f"http://127.0.0.1:{worker['services']['dashboard']}/", ())


def files_of(project: Project, cluster: ByHand) -> dict[str, str]:
    """All files that were written by somebody."""
    own = {project.folder / ".env.local"}
    files = [path for folder in (project.folder, cluster.folder) for path in folder.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes().decode("utf-8", "replace") for path in files if path not in own}


def command_lines() -> str:
    """How all processes were started."""
    lines = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(process.read_bytes().decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(lines)


def remembered(pid: int, secrets: Mapping[str, str]) -> set[str]:
    """Which secrets are in the memory of a process."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as stream:
        for line in maps:
            if line.split()[1].startswith("rw"):
                start, end = (int(word, 16) for word in line.split()[0].split("-"))
                stream.seek(start)
                try:
                    memory = stream.read(end - start)
                except OSError:
                    continue
                found |= {name for name, secret in secrets.items() if secret.encode() in memory}
    return found


def prepared(project: Project, in_file: str) -> None:
    project.configure(
        f'[targets.own]\nmodel = "openai/other-model"\nbase_url = "{project.server.url}"\n'
        'api_key = "env:KEY_ON_WORKER"\n[targets.function]\nmodel = "python:asked:ask"\n',
        api_key="env:KEY_OF_FOLDER",
        concurrency=4,
    )
    (project.folder / ".env.local").write_text(f"KEY_OF_FOLDER={in_file}\n")
    (project.folder / "asked.py").write_text(FUNCTION)
    project.dataset(36, lambda number: f"question {number}" + (" [[echo]]" if number % 3 == 1 else ""))


@pytest.mark.nightly
async def test_a_secret_is_in_no_task_log_event_page_or_file(project, tmp_path_factory):
    secrets = {name: f"canary-{token_hex(8)}" for name in ("file", "environment", "worker")}
    prepared(project, secrets["file"])
    project.server.behave(latency=0.2)
    files = issued(tmp_path_factory.mktemp("tls"))
    seen = Seen(secrets)
    with by_hand(tmp_path_factory.mktemp("cluster"), files, pages=True) as cluster:
        cluster.schedule(PYTHONPATH=str(ROOT), **LOUD)
        for _ in range(2):
            cluster.work(KEY_ON_WORKER=secrets["worker"], **LOUD)
        security = connection.tls_security(ClusterTerms(word=cluster.address, **files))
        async with Client(cluster.address, asynchronous=True, security=security, set_as_default=False) as client:
            await client.wait_for_workers(2)
            targets = [word for name in ("main", "own", "function") for word in ("--target", name)]
            words = ["run", "data.json", *targets, *cluster.options, "--forward-env", "KEY_OF_FOLDER"]
            driver = project.start(*words, KEY_IN_ENVIRONMENT=secrets["environment"], **LOUD)
            wait_for(lambda: project.server.counts()["asked"] or driver.poll() is not None)
            while driver.poll() is None:
                await looked(client, seen)
                seen.look("command lines", command_lines())
            out, err = driver.communicate()
            assert driver.returncode in (0, 1), out + err[-3000:]
            await looked(client, seen)
            await client.dump_cluster_state(str(cluster.folder / "dump"), format="yaml")
        assert not remembered(cluster.processes[0].pid, secrets)
    for kind in ("json", "csv", "jsonl", "oaieval-log"):
        project.do("export", "last", "--to", kind)
    for place, text in {"output": out, "errors": err, **files_of(project, cluster)}.items():
        seen.look(place, text)
    assert driver.returncode == 0, out + err
    assert seen.shown == []
    assert "tasks under way" in seen.places and any(place.endswith("workers.html") for place in seen.places)
    assert any("Message from" in log.read_text() for log in cluster.logs)
    with project.reader() as reader:
        calls = dict(reader.query("SELECT DISTINCT target, message FROM calls WHERE message IS NOT NULL", []))
    assert calls["function"] == "asked:ask failed with LookupError: refused with None and [redacted]"
    assert "[hidden]" in calls["main"] and "[hidden]" in calls["own"]
    assert {row[2] for row in project.table() if row[0] == "#1"} == {"pass", "error"}
    assert project.server.last()["headers"]["Authorization"] in {
        f"Bearer {secrets[name]}" for name in ("file", "worker")
    }
