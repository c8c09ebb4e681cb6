"""18.3, 18.4, 18.6 at every face: library, pytest, detached runs, clusters, suites, runs of somebody else, links."""

import json
import os

import pytest

import tui_evals
from tests.api.test_pytest_plugin import run as run_pytest
from tests.hostile.clone import KEY, commit_run, hostile_clone
from tests.runs.cluster.processes import wait_for
from tui_evals import NotApproved, aevaluate, evaluate
from tui_evals.runs.executors.cluster import connection
from tui_evals.store.reader import Reader
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.permissions import permissions_of

pytestmark = pytest.mark.story

ANY = ("--items", "1", "--evaluators", "Includes")
GOOD = (0, 1)


@pytest.mark.parametrize(
    ("target", "does"),
    [
        ("shell", "runs the command"),
        ("function", "calls the function"),
        ("address", "sends its questions to 127.0.0.1"),
        ("key", "sends GITHUB_TOKEN to 127.0.0.1"),
        ("openai/gpt-4o", "sends OPENAI_API_KEY to 127.0.0.1"),
        (None, "runs the command"),
    ],
)
async def test_the_library_refuses_with_what_it_would_do(clone, target, does):
    with pytest.raises(NotApproved, match=does) as refused:
        await aevaluate("data.json", target, evaluators=["Includes"], only=[0])
    assert refused.value.permissions
    assert isinstance(refused.value, tui_evals.ConfigurationError)
    assert clone.marks == []
    assert clone.attacker.heard == []


def test_the_library_goes_on_with_trust_and_remembers_nothing(clone, kept):
    run = evaluate("data.json", "function", evaluators=["Includes"], only=[0], trust=True)
    assert [answer.text for answer in run.answers] == ["x"]
    assert kept()["projects"] == {}


def test_an_address_that_a_program_names_by_a_variable_is_the_projects_if_its_file_sets_it(clone):
    clone.write(".env.local", f"MINE_URL={clone.attacker.address}\n")
    from tui_evals.runs.project import load_project

    project = load_project(clone.root)
    config = TargetConfig(name="mine", model="x", base_url="env:MINE_URL", api_key="env:OPENAI_API_KEY")
    (permission,) = permissions_of(config, project.environment, clone.root)
    assert permission.where.endswith(".env.local")


def pytest_in(folder, *arguments):
    return run_pytest(folder, "--tui-evals", "--noconftest", "--rootdir", ".", "data.json", *arguments)


@pytest.fixture
def tests_of_data(clone):
    items = [{"testId": "A", "prompt": "one", "expected_response": "x"}]
    data = {"schemaVersion": "1.0.0", "default_evaluators": {"Includes": {}}, "items": items}
    clone.write("data.json", json.dumps(data))
    return clone


@pytest.mark.story
def test_pytest_fails_readably_and_runs_nothing(tests_of_data):
    clone = tests_of_data
    code, out = pytest_in(clone.root, "--tui-evals-target", "function")
    assert code == 1
    assert "calls the function helper:answer" in out
    assert "--tui-evals-trust" in out
    assert "Traceback" not in out
    assert clone.marks == []
    code, out = pytest_in(clone.root, "--tui-evals-target", "function", "--tui-evals-trust")
    assert code == 0, out
    assert "function-imported" in clone.marks


def test_a_detached_run_asks_before_it_leaves_and_never_again(clone, shell):
    run = ("run", "data.json", "-t", "function", *ANY, "--detach")
    done = shell(*run)
    assert done.code == 2
    assert "calls the function helper:answer" in done.err
    assert clone.marks == []
    assert shell("trust", "--yes").code == 0
    clone.write("data.json", json.dumps({"schemaVersion": "1.0.0", "items": [{"prompt": "x"}]}))
    done = shell(*run)
    assert done.code == 0, done.err

    def ended():
        with Reader(clone.root / ".evals" / "evals.db") as reader:
            return reader.find_run("last").status in ("finished", "interrupted")

    wait_for(ended)
    with Reader(clone.root / ".evals" / "evals.db") as reader:
        assert reader.find_run("last").status == "finished", reader.find_run("last").message


@pytest.fixture
def opened_clusters(monkeypatch):
    """The clusters that somebody began to open."""
    words = []

    def open_cluster(terms, *_):
        words.append(terms.word)
        raise connection.ConfigurationError("not in this test")

    monkeypatch.setattr("tui_evals.runs.executors.cluster.executor.open_cluster", open_cluster)
    return words


@pytest.mark.parametrize(
    "command", [("resume",), ("rerun", "--only", "!pass"), ("rescore",)], ids=lambda words: words[0]
)
def test_a_run_of_somebody_else_hands_nothing_to_its_cluster(clone, shell, opened_clusters, command):
    name, *more = command
    done = shell(name, "last", *more)
    assert done.code != 0
    assert opened_clusters == []
    assert clone.marks == []
    assert clone.attacker.heard == []


def test_a_cluster_that_is_typed_is_a_yes_and_what_goes_there_is_not(clone, shell, opened_clusters):
    typed = ("--cluster", f"tcp://127.0.0.1:{clone.attacker.port}", "--insecure-cluster")
    done = shell("run", "data.json", "-t", "function", *ANY, *typed)
    assert done.code == 2
    assert "calls the function" in done.err
    assert "hands its work" not in done.err
    assert opened_clusters == []
    shell("run", "data.json", "-t", "command:echo hi", *ANY, *typed)
    assert len(opened_clusters) == 1


def test_a_worker_is_told_that_somebody_agreed(clone):
    from tui_evals.runs.executors.cluster.executor import _agreed

    config = TargetConfig(name="t", model="command:echo", where=".evals/config.toml:1")
    assert permissions_of(_agreed(config), {}, clone.root) == []


def test_a_suite_asks_before_its_judge_is_asked(clone, shell):
    clone.write("x.csv", "input,reference_output,context\nq,a,c\n")
    clone.write("y.csv", "candidate_output,context\nb,c\n")
    assert shell("suite", "create", "s", "--data", "x.csv", "--scoring", "qa_correctness").code == 0
    done = shell("suite", "run", "s", "one", "--candidates", "y.csv", "--context-column", "context")
    assert done.code == 2
    assert "runs the command" in done.err
    assert clone.marks == []
    shell("suite", "run", "s", "one", "--candidates", "y.csv", "--context-column", "context", "--trust")
    assert clone.marks == ["judge"]


def test_score_runs_no_code_of_a_stranger(clone, shell):
    done = shell("score", "Mine", "--response", "two")
    assert "evaluator" not in clone.marks
    assert "trust" in done.out + done.err
    assert shell("score", "Mine", "--response", "two", "--trust").code == 0
    assert "evaluator" in clone.marks


def test_a_link_to_a_project_is_the_project(clone, shell, monkeypatch, tmp_path, attacker):
    link = tmp_path / "link"
    link.symlink_to(clone.root)
    monkeypatch.chdir(link)
    run = ("run", "data.json", "-t", "function", *ANY)
    assert shell(*run).code == 2
    assert shell("trust", "--yes").code == 0
    assert shell(*run).code in GOOD
    monkeypatch.chdir(clone.root)
    assert shell(*run).code in GOOD
    other = hostile_clone(tmp_path / "other", tmp_path / "outside-of-other", attacker)
    link.unlink()
    link.symlink_to(other.root)
    monkeypatch.chdir(link)
    assert shell(*run).code == 2
    assert other.marks == []


def test_a_folder_inside_a_project_asks_for_the_project(clone, shell, monkeypatch):
    (clone.root / "inner").mkdir()
    monkeypatch.chdir(clone.root / "inner")
    done = shell("run", "../data.json", "-t", "function", *ANY)
    assert done.code == 2
    assert str(clone.root) in done.err


@pytest.mark.parametrize("command", [("run", "data.json", "-t", "key", *ANY, "--plan"), ("targets",)])
def test_where_a_key_goes_is_said_before_anything_is_sent(clone, shell, command):
    host = f"127.0.0.1:{clone.attacker.port}"
    assert f"sends GITHUB_TOKEN to {host}" in shell(*command).out
    data = json.loads(shell(*command, "--json").out)
    found = data["destinations"]["key"] if isinstance(data, dict) else data[-1]["destination"]
    assert (found["host"], found["key"], found["scheme"]) == (host, "GITHUB_TOKEN", "http")
    assert clone.attacker.heard == []


def test_no_encryption_is_said(clone, shell):
    clone.configure('[targets.t]\nmodel = "x"\nbase_url = "http://gateway.example"\napi_key = "env:GITHUB_TOKEN"\n')
    sentence = "sends GITHUB_TOKEN to gateway.example, without encryption"
    assert sentence in shell("targets").out
    assert sentence in shell("run", "data.json", "-t", "t", "--plan", *ANY).out
    assert sentence in shell("run", "data.json", "-t", "t", *ANY).err
    assert sentence in shell("targets", "check", "t").err


def test_a_run_keeps_where_its_key_went(clone, shell):
    assert shell("run", "data.json", "-t", "key", *ANY, "--trust").code in GOOD
    assert any(KEY.encode() in heard for heard in clone.attacker.heard)
    assert f"key sends GITHUB_TOKEN to 127.0.0.1:{clone.attacker.port}" in shell("show", "last").out
    kept = json.loads(shell("show", "last", "--json").out)["run"]["config"]["destinations"]["key"]
    assert kept["key"] == "GITHUB_TOKEN"
    assert shell("targets", "check", "key").code == 2


def test_trust_lists_what_generations_would_run(clone, shell):
    targets = {"rules": "command:touch ../outside/rules", "judges": ["shell", 3], "baseline": "nobody"}
    clone.write("tags/tags/generation.json", json.dumps({"targets": targets}))
    done = shell("trust")
    assert "(tags/tags/generation.json)" in done.err
    assert shell("trust", "--yes").code == 0
    assert shell("trust").err == ""


def test_demo_and_trusted_ci_ask_nothing(clone, shell, monkeypatch):
    assert shell("run", "data.json", "-t", "demo", *ANY).code in GOOD
    monkeypatch.setenv("TUI_EVALS_TRUST", "all")
    assert shell("run", "data.json", "-t", "function", *ANY).code in GOOD
    assert os.listdir(clone.outside) == ["function-imported"]


def test_the_rule_is_in_the_manual_word_for_word(shell):
    rule = (
        "opening, validating, listing, importing and planning never run code of the project, never send anything "
        "anywhere and never write outside `.evals/`; running does so only for what you have approved."
    )
    assert rule in " ".join(shell("help", "security").out.split())


def test_a_strangers_run_is_shown_with_what_its_terms_would_do(clone, shell):
    shell("runs", "delete", "last")
    commit_run(clone)
    done = shell("resume", "last")
    assert done.code == 2
    assert "hands its work, answers included, to the cluster" in done.err


def test_the_commands_of_the_readme_ask_nothing(stranger, shell, tmp_path, monkeypatch):
    folder = tmp_path / "new"
    folder.mkdir()
    monkeypatch.chdir(folder)
    commands = [
        ("init",),
        ("validate",),
        ("resolve", "evals/evals.json"),
        ("run", "--target", "demo", "--judge", "demo", "--max-cost", "1"),
        ("show", "last", "--only", "fail"),
        ("rescore", "last"),
        ("targets",),
        ("compare", "last", "last"),
        ("report", "last"),
    ]
    for words in commands:
        done = shell(*words)
        assert "yes" not in done.err, words
        assert "--trust" not in done.err, words
    assert shell("trust").out.count("asks for nothing")


@pytest.mark.parametrize("command", [("generate", "tags/tags.prompty"), ("run", "data.json", *ANY)])
def test_a_plan_needs_no_yes(clone, shell, command):
    done = shell(*command, "--plan")
    assert done.code == 0, done.err
    assert clone.marks == []
    assert clone.attacker.heard == []


def test_a_run_that_goes_on_without_verdicts_needs_no_yes_for_evaluators_detached_either(clone, shell):
    run = ("run", "data.json", "-t", "demo", "--items", "1", "--without-judges", "--allow-unjudged", "--detach")
    done = shell(*run)
    assert done.code == 0, done.err
    assert "evaluator" not in clone.marks


@pytest.mark.nightly
def test_what_is_agreed_to_runs_on_workers_of_this_machine_and_nothing_else_does(clone, shell):
    assert shell("run", "data.json", "-t", "function", "--without-judges", "--cluster", "local:2").code == 2
    assert clone.marks == []
    clone.write("distributed.py", clone.marking("shadow"))
    assert shell("trust", "--yes").code == 0
    done = shell("run", "data.json", "-t", "function", "--without-judges", "--cluster", "local:2")
    assert done.code in (0, 1), done.err
    assert "function-imported" in clone.marks
    assert not {"command", "conftest", "sitecustomize", "shadow"} & set(clone.marks)
