"""What to type for a provider was nowhere: its section, its variables, and the package it takes."""

import tomllib
from pathlib import Path

import pytest

from tui_evals.cli.write.commands import _PROVIDERS
from tui_evals.targets.config import load_settings
from tui_evals.targets.providers import GUIDES, guide_lines, protocol_of, speaks_openai


def test_init_writes_what_a_provider_takes_and_a_second_one_beside_it(shell, folder):
    done = shell("init", "--provider", "azure")
    assert done.code == 0 and "wrote [targets.azure] to .evals/config.toml" in done.out
    assert "AZURE_API_KEY" in done.out and "tui-evals targets check azure" in done.out
    (folder / "evals" / "evals.json").write_text("mine")
    assert shell("init", "--provider", "bedrock").code == 0
    targets = load_settings(folder).targets
    assert targets["azure"].model == "azure/MY-DEPLOYMENT" and targets["bedrock"].api_key is None
    assert (folder / "evals" / "evals.json").read_text() == "mine"
    again = shell("init", "--provider", "azure")
    assert again.code == 2 and "has [targets.azure] already" in again.err


def test_the_manual_says_what_to_type(shell, folder):
    done = shell("help", "targets", "vertex_ai")
    assert done.code == 0 and "pip install 'tui-evals[vertex]'" in done.out and "VERTEXAI_PROJECT" in done.out
    wrong = shell("help", "targets", "antropic")
    assert wrong.code == 2 and "did you mean 'anthropic'" in wrong.err


@pytest.mark.parametrize("command", ["targets", "judge"])
def test_a_missing_key_is_found_by_checks_before_anybody_is_asked(shell, folder, monkeypatch, command):
    for name in ("MISTRAL_API_KEY", "MISTRAL_AZURE_API_KEY", "MISTRAL_API_BASE", "MISTRAL_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    done = shell(command, "check", "mistral/mistral-small-latest")
    assert done.code == 3 and "needs a key. Set MISTRAL_API_KEY in the environment" in done.err


@pytest.mark.parametrize("name", GUIDES)
def test_every_guide_is_a_configuration_that_is_read(name, tmp_path):
    (tmp_path / ".evals").mkdir()
    (tmp_path / ".evals" / "config.toml").write_text(GUIDES[name].section(name))
    config = load_settings(tmp_path).targets[name]
    assert speaks_openai(config) is (protocol_of(config) == "OpenAI chat completions")
    assert f"check {name}" in guide_lines(name, GUIDES[name])[-1]


def test_init_offers_every_guide_and_every_package_is_an_extra():
    assert set(_PROVIDERS) == set(GUIDES)
    with open(Path(__file__).parents[2] / "pyproject.toml", "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert {guide.extra for guide in GUIDES.values()} - {""} <= extras.keys()
