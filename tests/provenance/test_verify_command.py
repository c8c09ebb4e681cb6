"""`tui-evals verify` as a person runs it: each command a process of its own, in a project of its own."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runs.conftest import kill, until
from tui_evals.provenance.keys import SIGNING_KEY, TRUSTED_KEYS

CI_KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


@dataclass(frozen=True)
class Project:
    folder: Path

    def __call__(self, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tui_evals", *map(str, words)]
        environment = {**os.environ, **environment}
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    @property
    def store(self) -> Path:
        return self.folder / ".evals" / "evals.db"

    def execute(self, statement: str) -> None:
        with closing(sqlite3.connect(self.store)) as connection, connection:
            assert connection.execute(statement).rowcount > 0

    def verified(self, word: str = "last", **environment: str) -> dict:
        done = self("verify", word, "--json", **environment)
        found = json.loads(done.stdout)
        assert done.returncode == (0 if found["verdict"] == "unchanged" else 1), done.stderr
        return found


CONFIG = """
[targets.main]
model = "openai/test-model"
base_url = "{url}"
api_key = "env:TEST_KEY"
"""


@pytest.fixture
def project(tmp_path, one_server, monkeypatch):
    """A project with a model that says again what it is asked, and a run of it that is finished."""
    one_server.reset()
    monkeypatch.setenv("TEST_KEY", "key-of-a-test")
    folder = tmp_path / "project"
    folder.mkdir()
    items = [{"testId": name, "prompt": name, "expected_response": name} for name in ("yes", "no", "maybe")]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"ExactMatch": {}}, "items": items}
    (folder / "evals.json").write_text(json.dumps(document))
    (folder / ".evals").mkdir()
    (folder / ".evals" / "config.toml").write_text(CONFIG.format(url=one_server.url))
    made = Project(folder)
    run(made)
    return made


def run(project, *words, code=0):
    done = project("run", "evals.json", "--target", "main", "--quiet", *words)
    assert done.returncode == code, done.stderr


@pytest.mark.nightly
def test_a_run_is_unchanged_until_somebody_changes_it(project):
    done = project("verify")
    assert done.returncode == 0 and re.fullmatch(
        r"Run \w{6} is unchanged since it was signed by you \([0-9a-f]{4}(-[0-9a-f]{4}){4}\) on [-0-9: ]{16}\.\n"
        r"3 answers asked by this run\n",
        done.stdout,
    )
    project.execute("UPDATE scores SET score = 1 - score, result = 'pass' WHERE answer = 2")
    done = project("verify", "last")
    assert done.returncode == 1
    assert "was changed outside tui-evals after" in done.stdout
    assert "\n  scores of pass 1 (score, result) changed: no\n" in done.stdout or "changed: no\n" in done.stdout


@pytest.mark.nightly
def test_rescoring_labelling_and_editing_keep_a_run_unchanged(project):
    assert project("rescore", "last", "--quiet").returncode == 0
    assert project("label", "last", "yes", "fail", "--note", "no").returncode == 0
    found = project.verified()
    assert found["verdict"] == "unchanged"
    assert [record["kind"] for record in found["records"]].count("pass") == 1
    assert found["records"][-1]["kind"] == "verdict" and found["records"][-1]["about"]["verdict"] == "fail"


@pytest.mark.nightly
def test_answers_from_the_cache_say_which_run_asked_them(project):
    first = project.verified()["run"]
    run(project)
    found = project.verified()
    (cached,) = found["sources"]["cached"]
    assert found["run"] != first and found["sources"]["asked"] == 0
    assert (cached["run"], cached["answers"], cached["standing"], cached["different"]) == (first, 3, "kept", 0)
    assert cached["signer"]["standing"] == "you" and not cached["changed"]
    assert f"3 answers from the cache, asked by run {first}, signed by you" in project("verify").stdout
    project.execute("UPDATE bodies SET text = 'FORGED' WHERE id = 1")
    assert f"asked by run {first}, signed by you" in project("verify").stdout
    assert "CHANGED since" in project("verify").stdout
    assert project("delete", first, "--yes").returncode == 0
    assert project.verified(first)["verdict"] == "deleted"
    assert project.verified()["sources"]["cached"][0]["standing"] == "deleted"


def test_a_forged_cache_shows_in_the_run_that_used_it(project):
    project.execute("INSERT INTO bodies VALUES (900, '{}', 'FORGED', '{}')")
    project.execute("UPDATE cache SET body = 900")
    run(project)
    assert project.verified()["sources"]["cached"][0]["different"] == 3
    assert "3 of them unlike its answers" in project("verify").stdout


def test_what_another_machine_signed_is_shown_as_such(project):
    own = project("verify", "--key").stdout.strip()
    assert project.verified(**{SIGNING_KEY: CI_KEY})["verdict"] == "unknown key"
    found = project.verified(**{SIGNING_KEY: CI_KEY, TRUSTED_KEYS: f"laptop={own}"})
    assert found["verdict"] == "unchanged" and found["signers"][0]["name"] == "laptop"


@pytest.mark.nightly
def test_a_key_is_trusted_by_name_and_forgotten(project):
    theirs = project("verify", "--key", **{SIGNING_KEY: CI_KEY}).stdout.strip()
    run(project, "--no-cache")
    done = project("run", "evals.json", "--target", "main", "--quiet", **{SIGNING_KEY: CI_KEY})
    assert done.returncode == 0 and project.verified()["verdict"] == "unknown key"
    assert project("verify", "--trust-key", "ci", theirs).returncode == 0
    assert project.verified()["verdict"] == "unchanged" and theirs in project("verify", "--keys").stdout
    assert project("verify", "--forget-key", "ci").returncode == 0
    assert project.verified()["verdict"] == "unknown key"
    done = project("verify", "--trust-key", "ci", "no key")
    assert done.returncode == 2 and "Not a public key" in done.stderr
    done = project("verify", "--keys", **{TRUSTED_KEYS: "nonsense"})
    assert done.returncode == 3 and "must be a name and a public key" in done.stderr


def test_a_store_elsewhere_that_can_only_be_read_is_verified_too(project, tmp_path):
    copy = tmp_path / "copy" / "evals.db"
    copy.parent.mkdir()
    shutil.copy(project.store, copy)
    copy.chmod(0o400)
    before = sorted(path.name for path in copy.parent.iterdir())
    done = project("--db", copy, "verify")
    assert done.returncode == 0 and "is unchanged since it was signed by you" in done.stdout
    assert before == ["evals.db"]


def test_without_a_key_a_run_says_why_it_is_not_signed(project):
    done = project("run", "evals.json", "--target", "main", "--quiet", **{SIGNING_KEY: "off"})
    assert done.returncode == 0 and not done.stderr
    found = project.verified()
    assert found["verdict"] == "unsigned" and "TUI_EVALS_SIGNING_KEY is off" in found["sentence"]


@pytest.mark.nightly
def test_an_import_is_signed_as_one(project):
    assert project("export", "last", "--to", "json", "-o", "results.json").returncode == 0
    exported = json.loads((project.folder / "results.json").read_text())
    head = project.verified()["fingerprint"]
    assert head in json.dumps(exported)
    other = Project(project.folder.parent / "other")
    other.folder.mkdir()
    done = other("import", project.folder / "results.json")
    assert done.returncode == 0, done.stderr
    found = other.verified()
    assert found["verdict"] == "unchanged" and [record["kind"] for record in found["records"]] == ["import"]
    assert found["sources"]["imported"] == 3 and found["sources"]["asked"] == 0


@pytest.mark.parametrize("kind", ["json", "html", "md", "xml"])
def test_a_report_carries_the_fingerprint(project, kind):
    assert project("report", "last", "-o", f"report.{kind}").returncode == 0
    assert project.verified()["fingerprint"] in (project.folder / f"report.{kind}").read_text()


@pytest.mark.nightly
def test_a_baseline_that_was_changed_decides_no_gate(project):
    first = project.verified()["run"]
    assert project("baseline", "set", first).returncode == 0
    gated = ("run", "evals.json", "--target", "main", "--quiet", "--fail-on-broken")
    assert project(*gated).returncode == 0
    project.execute("UPDATE answers SET status = 'fail' WHERE run = 1")
    done = project(*gated)
    assert done.returncode == 1
    assert "not decided: --fail-on-broken" in done.stderr and f"The baseline {first} was changed" in done.stderr


def test_mistakes_end_in_a_sentence(project):
    done = project("verify", "nothing")
    assert done.returncode == 2 and "there is no run 'nothing'" in done.stderr
    done = project("verify", "--key", "--keys")
    assert done.returncode == 2 and "Give one of" in done.stderr


@pytest.mark.cases(7)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET config = 'no json'",
        "UPDATE runs SET config = x'00ff'",
        "UPDATE passes SET config = '{'",
        "UPDATE answers SET pos = 'first' WHERE pos = 0",
        "UPDATE answers SET turn = 'x', name = x'ff' WHERE pos = 0",
        "UPDATE bodies SET answer = '['",
        "UPDATE chain SET record = x'00', signature = 7",
        "UPDATE chain SET key = 'ed25519:!', signature = 'AAAA'",
        "UPDATE statements SET statement = '[1]', hints = 'text'",
        "UPDATE statements SET statement = 5",
        "UPDATE chain SET number = 'one'",
    ],
)
def test_a_store_full_of_nonsense_is_found_changed_without_a_traceback(project, statement):
    project.execute(statement)
    with closing(sqlite3.connect(project.store)) as connection:
        (key,) = connection.execute("SELECT key FROM runs").fetchone()
    done = project("verify", key)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "was changed" in done.stdout or "does not hold" in done.stdout


@pytest.mark.nightly
def test_a_run_that_only_reads_imports_no_cryptography(project):
    code = "import sys; from tui_evals.cli.main import run; run(['runs']); print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=project.folder, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


def begun(project, one_server):
    """A run of which one answer is there, and whose process waits for the next."""
    one_server.behave(always="answer", after=1, then="hang")
    command = [sys.executable, "-m", "tui_evals", "run", "evals.json", "--target", "main", "--quiet", "--no-cache"]
    process = subprocess.Popen(command, cwd=project.folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with closing(sqlite3.connect(f"file:{project.store}?mode=ro", uri=True)) as connection:
        query = "SELECT count(*) FROM answers WHERE run = 2 AND status = 'pass'"
        until(lambda: connection.execute(query).fetchone()[0] == 1)
    return process


@pytest.fixture
def one_at_a_time(project):
    file = project.folder / ".evals" / "config.toml"
    file.write_text(file.read_text() + "concurrency = 1\n")
    return project


@pytest.mark.nightly
def test_a_killed_run_is_signed_once_it_was_resumed(one_at_a_time, one_server):
    project = one_at_a_time
    process = begun(project, one_server)
    assert project.verified()["verdict"] == "executed"
    kill(process)
    assert project.verified()["verdict"] == "not signed"
    one_server.behave(always="answer")
    assert project("resume", "last", "--quiet").returncode == 0
    found = project.verified()
    assert found["verdict"] == "unchanged" and found["sources"]["signed_as_found"] == 1
    assert "1 answer of these were signed as they were found" in project("verify").stdout


@pytest.mark.nightly
def test_an_interrupted_run_is_signed_and_names_what_was_changed_before_it_went_on(one_at_a_time, one_server):
    project = one_at_a_time
    process = begun(project, one_server)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate()
    found = project.verified()
    assert found["verdict"] == "unchanged" and found["records"][-1]["kind"] == "interruption"
    project.execute("UPDATE bodies SET text = 'FORGED' WHERE id = (SELECT body FROM answers WHERE run = 2 AND pos = 0)")
    one_server.behave(always="answer")
    assert project("resume", "last", "--quiet").returncode == 0
    found = project.verified()
    assert found["verdict"] == "changed" and found["changed_before"][0]["answers"] == ["yes"]


def test_pruned_runs_leave_their_chains(project):
    key = project.verified()["run"]
    assert project("runs", "prune", "--keep", "0", "--yes").returncode == 0
    found = project.verified(key)
    assert found["verdict"] == "deleted" and found["records"][-1]["kind"] == "prune"


def test_answers_that_a_store_brought_along_are_not_said_to_be_asked_here(project):
    project.execute("DELETE FROM chain")
    project.execute("DELETE FROM statements")
    project.execute("UPDATE bodies SET text = 'FORGED'")
    assert project("rescore", "last", "--quiet").returncode == 0
    assert project.verified()["sources"]["signed_as_found"] == 3
