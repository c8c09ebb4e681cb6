"""18.3: an address in `.env.local` got the key of the shell; 18.4: the configuration ran commands and chose keys."""

import pytest

from tests.hostile.clone import KEY

ANY = ("--items", "1", "--evaluators", "Includes")


@pytest.mark.parametrize("file", [".env.local", ".env.dev", "env/.env.local", "env/.env.prod"])
def test_an_address_of_the_project_gets_no_key_of_the_shell(clone, shell, file):
    (clone.root / ".env.local").unlink()
    clone.write(file, f"OPENAI_BASE_URL={clone.attacker.address}\n")
    words = ("--env", "prod") if file.endswith("prod") else ()
    done = shell("run", "data.json", "-t", "openai/gpt-4o", *words, *ANY)
    assert done.code == 2
    assert f"sends OPENAI_API_KEY to 127.0.0.1:{clone.attacker.port} ({clone.root / file})" in done.err
    assert "--trust" in done.err
    assert "tui-evals trust" in done.err
    assert clone.attacker.heard == []


def test_a_provider_of_litellm_is_asked_about_too(clone, shell):
    done = shell("run", "data.json", "-t", "anthropic/claude-sonnet-4-5", *ANY)
    assert done.code == 2
    assert f"sends ANTHROPIC_API_KEY to 127.0.0.1:{clone.attacker.port}" in done.err


@pytest.mark.parametrize(
    ("target", "does"),
    [
        ("shell", "runs the command sh -c"),
        ("function", "calls the function helper:answer"),
        ("address", "sends its questions to 127.0.0.1:"),
        ("key", "sends GITHUB_TOKEN to 127.0.0.1:"),
    ],
)
def test_what_the_configuration_asks_for_is_shown_with_file_and_line(clone, shell, target, does):
    for command in (("run", "data.json", "-t", target, *ANY), ("targets", "check", target), ("judge", "check", target)):
        done = shell(*command)
        assert done.code == 2, command
        assert does in done.err
        assert "(.evals/config.toml:" in done.err
    assert clone.marks == []
    assert clone.attacker.heard == []


def test_what_a_generation_remembers_is_asked_about(clone, shell):
    done = shell("generate", "tags/tags.prompty", "--yes")
    assert done.code == 2
    assert "(generation.json)" in done.err
    assert clone.marks == []


def test_a_yes_is_remembered_and_asked_again_for_what_changes(clone, shell, kept):
    run = ("run", "data.json", "-t", "function", *ANY)
    assert shell(*run).code == 2
    assert shell("trust", "--yes").code == 0
    assert shell(*run).code in (0, 1)
    assert "calls the function helper:answer" in shell("trust", "show").out
    clone.write("helper.py", clone.marking("changed") + "def answer(prompt): return 'y'\n")
    done = shell(*run)
    assert done.code == 2
    assert "calls the function helper:answer" in done.err
    assert "changed" not in clone.marks
    assert "since" in shell("trust").err
    assert len(kept()["projects"]) == 1
    assert "forgotten" in shell("trust", "revoke").out
    assert shell(*run).code == 2


def test_what_is_typed_is_a_yes_for_itself(clone, shell):
    run = ("run", "data.json", "-t", "command:echo hello", *ANY)
    assert shell(*run).code in (0, 1)
    assert shell("rerun", "last", "--only", "!error").code in (0, 1)


def test_a_key_goes_to_the_hosts_its_owner_listed(clone, shell, stranger):
    folder = stranger / "tui_evals"
    folder.mkdir(exist_ok=True)
    (folder / "keys.toml").write_text(f'GITHUB_TOKEN = ["127.0.0.1:{clone.attacker.port}"]\n')
    assert shell("run", "data.json", "-t", "key", *ANY).code in (0, 1)
    assert any(KEY.encode() in heard for heard in clone.attacker.heard)


def test_going_on_with_a_run_of_somebody_else_is_asked_about(clone, shell):
    done = shell("resume", "last")
    assert done.code == 2
    assert f"runs the command touch {clone.outside / 'stored'} (the stored run)" in done.err
    assert f"the cluster tcp://127.0.0.1:{clone.attacker.port} without encryption" in done.err
    assert clone.marks == []
    assert clone.attacker.heard == []


def test_the_library_refuses_as_well(clone):
    from tui_evals import evaluate
    from tui_evals.targets.permissions import NotApproved

    with pytest.raises(NotApproved, match="calls the function helper:answer"):
        evaluate("data.json", "function", evaluators=["Includes"], only=[0])
    assert clone.marks == []


def test_a_project_begun_here_is_its_authors(tmp_path, stranger, shell, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert shell("init").code == 0
    (folder / ".evals" / "config.toml").write_text('[targets.mine]\nmodel = "command:echo hi"\n')
    assert shell("run", "evals/evals.json", "-t", "mine", "--without-judges").code in (0, 1)


def test_init_in_a_strangers_folder_agrees_to_nothing(clone, shell, kept):
    shell("init")
    assert kept()["folders"] == {}
