"""18.3, 18.4: ways around the yes that were found in the code that asks for it."""

import json
from dataclasses import replace

import pytest

from tests.hostile.clone import KEY
from tui_evals.datasets.document import load
from tui_evals.runs.approving import cluster_permissions, missing_of_targets
from tui_evals.runs.executors.cluster.terms import ClusterTerms
from tui_evals.runs.project import load_project
from tui_evals.runs.start import RunRequest, prepare
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.config import find_target
from tui_evals.targets.environment import environment
from tui_evals.targets.permissions import Approvals, Destination, Permission, is_loopback, permissions_of

ANY = ("--items", "1", "--evaluators", "Includes")


def asked(root, word="t"):
    """What a target of the configuration would be asked about, in sentences."""
    project = load_project(root)
    where = "" if word not in project.settings.targets else "x"
    return [one.sentence for one in missing_of_targets(project, [find_target(word, project.settings, where)])]


def test_a_model_with_a_colon_hides_no_address(clone, shell):
    clone.configure(
        f'[targets.t]\nmodel = "llama3:8b"\nbase_url = "{clone.attacker.address}"\napi_key = "env:GITHUB_TOKEN"\n'
    )
    done = shell("run", "data.json", "-t", "t", *ANY)
    assert done.code == 2
    assert "sends GITHUB_TOKEN to 127.0.0.1:" in done.err
    assert clone.attacker.heard == []


def test_an_installed_kind_of_target_waits_for_a_yes(clone):
    config = TargetConfig(name="t", model="shell:rm -rf", where="x")
    assert permissions_of(config, {}, clone.root)[0].does == "asks the installed target shell:rm -rf"
    assert permissions_of(replace(config, where=""), {}, clone.root) == []


@pytest.mark.parametrize(
    ("first", "second"), [("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"), ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")]
)
def test_an_honest_address_hides_no_other_one(clone, first, second):
    clone.write(".env.local", f"{first}=https://api.anthropic.com\n{second}={clone.attacker.address}\n")
    assert any("sends ANTHROPIC_API_KEY to 127.0.0.1:" in line for line in asked(clone.root, "anthropic/claude-x"))


@pytest.mark.parametrize("params", ['{ base_url = "http://evil.example/v1" }', '{ fallbacks = ["openai/x"] }'])
def test_parameters_that_litellm_obeys_wait_for_a_yes(clone, params):
    (clone.root / ".env.local").unlink()
    clone.configure(f'[targets.t]\nmodel = "anthropic/claude-x"\nparams = {params}\n')
    assert any("hands litellm the settings" in line for line in asked(clone.root))
    clone.configure('[targets.t]\nmodel = "anthropic/claude-x"\nparams = { temperature = 1, max_tokens = 5 }\n')
    assert asked(clone.root) == []


def test_the_key_that_litellm_adds_by_itself_is_named(clone):
    clone.configure('[targets.t]\nmodel = "anthropic/x"\nbase_url = "https://evil.example"\nvia = "litellm"\n')
    assert any("sends ANTHROPIC_API_KEY to evil.example" in line for line in asked(clone.root))


def test_an_address_as_the_name_of_a_model_is_asked_about(clone):
    (clone.root / ".env.local").unlink()
    clone.configure('[targets.t]\nmodel = "huggingface/https://evil.example/x"\n')
    assert any("asks huggingface/https://evil.example/x" in line for line in asked(clone.root))


@pytest.mark.parametrize(
    "address",
    [
        "http://api.openai.com/v1",  # without encryption
        "https://api.openai.com\\@evil.example/v1",
        "https://evil.example\\@api.openai.com/v1",
        "https://x@evil.example@api.openai.com/v1",
        "https://api.\topenai.com/v1",
        "https://api.openai.com:8443/v1",
        "https://api.openai.com.evil.example/v1",
        "https://\u0430pi.openai.com/v1",
    ],
)
def test_only_the_known_host_itself_gets_a_key_unasked(stranger, address):
    assert not Destination.of(address, "OPENAI_API_KEY").is_known
    assert Destination.of("https://API.openai.com/v1", "OPENAI_API_KEY").is_known


def test_an_address_is_shown_as_it_is():
    assert Destination.of("https://\u0430pi.openai.com", None).host == "https://\\u0430pi.openai.com"
    assert "secret" not in Destination.of("https://me:sec\\ret@evil.example", None).sentence
    assert not is_loopback("127.evil.example")
    assert is_loopback("127.0.0.1:80")
    assert is_loopback("[::1]:80")


@pytest.mark.parametrize(
    "line",
    [
        "VERTEXAI_LOCATION=evil.example/x",
        "AWS_REGION_NAME=evil.example/#",
        "SNOWFLAKE_ACCOUNT_ID=evil.example/",
        "AWS_CONFIG_FILE=./aws",
        "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1",
        "AZURE_AUTHORITY_HOST=evil.example",
        "OPENSSL_CONF=./x",
        "JAVA_TOOL_OPTIONS=-javaagent:x",
    ],
)
def test_no_variable_of_a_file_steers_a_library(clone, line):
    name, _, value = line.partition("=")
    clone.write(".env.local", f"{line}\n")
    variables, remarks = environment(clone.root, named=[name])
    assert variables.get(name) != value
    assert any(name in remark for remark in remarks)


def test_credentials_of_the_project_wait_for_a_yes(clone):
    clone.write(".env.local", "GOOGLE_APPLICATION_CREDENTIALS=./theirs.json\n")
    assert any("logs in with the credentials ./theirs.json" in line for line in asked(clone.root, "vertex_ai/gemini-x"))


def test_a_line_end_makes_another_command(clone):
    one, other = (
        permissions_of(TargetConfig(name="t", model=f"command:sh -c 'true #{gap}rm x'", where="x"), {}, clone.root)[0]
        for gap in (" ", "\n")
    )
    assert one.digest != other.digest
    assert "⏎" in other.sentence


def test_parameters_of_a_command_are_part_of_the_yes(clone):
    one, other = (
        permissions_of(TargetConfig(name="t", model="command:x", params=params, where="x"), {}, clone.root)[0]
        for params in ({"protocol": "jsonl"}, {"protocol": "jsonl", "run": "rm"})
    )
    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("model", "changed"),
    [
        ("command:sh -c './agent.sh now'", "agent.sh"),
        ("command:python -m agent.main", "agent/__init__.py"),
        ("command:python agent/main.py", "agent/other.py"),
        ("python:agent.main:answer", "agent/__init__.py"),
        ("python:agent.main:answer", "agent/other.py"),
        ("python:agent.main:answer", "deep.py"),
    ],
)
def test_a_yes_ends_when_code_changes_that_the_named_code_imports(clone, model, changed):
    clone.write("agent.sh", "echo hi\n")
    clone.write("agent/__init__.py", "")
    clone.write("agent/main.py", "from .other import thing\ndef answer(prompt): return thing\n")
    clone.write("agent/other.py", "import deep\nthing = 'x'\n")
    clone.write("deep.py", "")
    config = TargetConfig(name="t", model=model, where="x")
    before = permissions_of(config, {}, clone.root)[0].digest
    assert permissions_of(config, {}, clone.root)[0].digest == before
    clone.write(changed, "import os\n")
    assert permissions_of(config, {}, clone.root)[0].digest != before


def test_a_file_too_large_to_read_at_once_is_watched_too(clone):
    script = clone.write("agent.sh", "#" * (2**24 + 10))
    config = TargetConfig(name="t", model="command:./agent.sh", where="x")
    before = permissions_of(config, {}, clone.root)[0].digest
    script.write_text("#" * (2**24 + 9) + "x")
    assert permissions_of(config, {}, clone.root)[0].digest != before


@pytest.mark.parametrize("name", ["..:x", "/tmp/evil:x", "a..b:x", "..a.b:x", "a/b:x"])
def test_a_function_is_named_by_a_module_of_the_project(clone, shell, name):
    done = shell("run", "data.json", "-t", f"python:{name}", *ANY)
    assert done.code != 0
    assert "names no function" in done.err


def test_a_clone_inside_a_folder_of_ones_own_is_a_strangers(clone, stranger):
    Approvals(clone.root.parent).own()
    assert not Approvals(clone.root).is_own
    assert asked(clone.root, "shell") != []


def test_a_clone_in_the_place_of_ones_own_project_is_a_strangers(tmp_path, stranger):
    folder = tmp_path / "mine"
    folder.mkdir()
    Approvals(folder).own()
    assert Approvals(folder).is_own
    folder.rename(tmp_path / "away")
    folder.mkdir()
    assert not Approvals(folder).is_own
    (folder / ".evals").mkdir(mode=0o700)
    (folder / ".evals" / "begun-here").write_text("guessed")
    assert not Approvals(folder).is_own


def test_init_among_the_files_of_somebody_else_trusts_nothing(tmp_path, stranger, shell, monkeypatch, kept):
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "data.json").write_text(json.dumps({"items": []}))
    monkeypatch.chdir(folder)
    assert shell("init").code == 0
    assert kept()["folders"] == {}


def test_a_page_shows_each_thing_on_one_line():
    wicked = Permission("evaluator", "runs the evaluator x\n  • and nothing else\x1b[2J", "a\nb")
    assert "\n" not in wicked.sentence
    assert "\x1b" not in wicked.sentence


def test_for_this_once_is_not_remembered(clone, shell):
    assert shell("run", "data.json", "-t", "openai/gpt-4o", *ANY, "--trust").code in (0, 1)
    assert any(KEY.encode() in heard for heard in clone.attacker.heard)
    assert shell("run", "data.json", "-t", "openai/gpt-4o", *ANY).code == 2


def test_what_is_typed_can_be_checked(clone, shell):
    assert shell("targets", "check", "command:echo ready").code == 0


def test_a_judge_that_may_be_asked_is_asked_about(clone):
    item = {
        "testId": "A",
        "prompt": "x",
        "evaluators": {"RetrievalResult": {"capability": "Email", "min_expected_count": 1}},
    }
    clone.write("one.json", json.dumps({"schemaVersion": "1.0.0", "items": [item]}))
    project = load_project(clone.root)
    request = RunRequest(document=load(clone.root / "one.json"), source="one.json", name="x", targets=("demo",))
    missing = prepare(replace(request, allow_unjudged=True), project).missing_permissions()
    assert any("touch" in one.does for one in missing)


def test_a_judge_that_the_dataset_names_is_asked_about(clone, shell):
    item = {"testId": "A", "prompt": "x", "evaluators": {"Relevance": {"judge": "command:touch ../outside/named"}}}
    clone.write("one.json", json.dumps({"schemaVersion": "1.0.0", "items": [item]}))
    done = shell("run", "one.json", "-t", "demo")
    assert done.code == 2
    assert "runs the command touch ../outside/named (the dataset)" in done.err
    assert clone.marks == []


def test_a_folder_of_projects_can_be_trusted_at_once_and_no_longer(clone, shell, monkeypatch):
    assert shell("trust", "--below", "..").code == 0
    assert asked(clone.root, "shell") == []
    monkeypatch.chdir(clone.root.parent)
    assert "forgotten" in shell("trust", "revoke").out
    assert asked(clone.root, "shell") != []


def test_a_model_that_the_dataset_chooses_is_not_loaded_unasked(clone):
    def wanted(options):
        items = [{"testId": "A", "prompt": "x", "expected_response": "y", "evaluators": {"BertScore": options}}]
        clone.write("one.json", json.dumps({"schemaVersion": "1.0.0", "items": items}))
        document = load(clone.root / "one.json")
        request = RunRequest(document=document, source="x", name="x", targets=("demo",), allow_unjudged=True)
        missing = prepare(request, load_project(clone.root)).missing_permissions()
        return [one.does for one in missing if one.does.startswith("loads")]

    assert wanted({"model": "./theirs", "num_layers": 3}) == ["loads the model ./theirs for BertScore"]
    assert wanted({}) == []


def test_other_hosts_or_certificates_are_another_cluster(tmp_path):
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("honest")
    terms = ClusterTerms(word=f"ssh:{hosts}")
    (before,) = cluster_permissions(terms)
    assert cluster_permissions(terms)[0].digest == before.digest
    assert cluster_permissions(replace(terms, tls_ca="theirs.pem"))[0].digest != before.digest
    hosts.write_text("evil")
    assert cluster_permissions(terms)[0].digest != before.digest
