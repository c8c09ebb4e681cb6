"""Model endpoints that mean harm: asking one ends in bounded time and memory, and its bytes control no terminal."""

import json

import pytest

from tests.hostile.zoo.project import variables
from tests.hostile.zoo.servers import SERVERS, serving
from tests.hostile.zoo.watch import Place, watched

ASKING = (("targets", "check", "evil"), ("run", "data.json", "-t", "evil", "--without-judges"))
SHOWING = (
    ("show", "last"),
    ("show", "last", "--item", "#1"),
    ("diff", "last"),
    ("report", "last", "--to", "md", "-o", "-"),
)
KINDS = {
    "model": 'model = "openai/x"\nbase_url = "{url}"\napi_key = "env:OPENAI_API_KEY"',
    "service": 'http = {{ url = "{url}", body = {{ q = "{{{{ prompt }}}}" }} }}',
}
EVERYDAY = ("body", "redirects", "says-3", "fails-1")


@pytest.fixture(scope="module")
def endpoints():
    with serving() as ports:
        yield ports


@pytest.fixture
def asking(tmp_path, endpoints):
    """Asks one of the endpoints in a project of the user's own, and says which laws that broke."""
    place = Place(tmp_path / "project", tmp_path / "home", tmp_path / "outside")
    for folder in (place.root / ".evals", place.home, place.outside, tmp_path / "scratch"):
        folder.mkdir(parents=True)
    item = {
        "prompt": "hello",
        "expected_response": "hello",
        "evaluators": {"Includes": {}},
        "evaluators_mode": "replace",
    }
    (place.root / "data.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": [item]}))

    def ask(name, kind="model"):
        port, _ = endpoints
        section = KINDS[kind].format(url=f"http://127.0.0.1:{port}/{name}")
        (place.root / ".evals" / "config.toml").write_text(f"[targets.evil]\n{section}\ntimeout = 2\nretries = 0\n")
        given = {**variables(place.home), "TUI_EVALS_TRUST": "all"}
        sights = list(watched(place, [*ASKING, *SHOWING], {}, given))
        own = (f"connected to ('127.0.0.1', {port})", "looked up 127.0.0.1")
        for sight in sights:
            sight.breaches = [breach for breach in sight.breaches if breach.seen not in own]
        return sights

    return ask


def broken(sights):
    return [(breach.act, breach.law, breach.seen) for sight in sights for breach in sight.breaches]


@pytest.mark.parametrize("name", EVERYDAY)
def test_asking_an_endpoint_that_means_harm_breaks_no_law(asking, name):
    assert broken(asking(name)) == []


@pytest.mark.story
@pytest.mark.cases(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SERVERS)
def test_asking_any_endpoint_that_means_harm_breaks_no_law(asking, name, kind):
    assert broken(asking(name, kind)) == []


def test_what_an_endpoint_says_is_shown_without_what_it_wanted(asking):
    shown = {sight.act: sight.output for sight in asking("says-0")}
    assert b"loud" in shown["show", "last", "--item", "#1"]
