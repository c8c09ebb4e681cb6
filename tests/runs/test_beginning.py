"""What keeps a run from beginning is found before it is recorded.

Seen: a missing key, an unknown provider or a dead address was found by the process that executes a run, after the run
was stored, so that `last` was a run that could not begin; the remedy of a missing key named the same variable twice;
`-t gpt-4o` had no suggestion, and an error in config.toml no line.
"""

import json
import os
import socket
import sys

import pytest

from tests.runs.conftest import Project
from tests.server import running
from tests.tui.story import at_the_workbench
from tui_evals import evaluate
from tui_evals.targets.base import ConfigurationError, TargetConfig, TargetContext, TargetKind
from tui_evals.targets.config import find_target, load_settings
from tui_evals.targets.model_table import _FAMILIES, is_known_provider, price_of
from tui_evals.targets.opening import target_kind

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "HTTP_PROXY", "http_proxy", "ALL_PROXY")


@pytest.fixture
def project(tmp_path, one_server, monkeypatch):
    one_server.reset()
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    made = Project(tmp_path, one_server)
    made.configure('[run]\ntargets = ["main"]')
    made.dataset(2)
    return made


@pytest.fixture
def nobody():
    """A port of this machine at which nobody listens, and nobody else will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def runs(project):
    if not project.database.exists():
        return []
    with project.reader() as reader:
        return list(reader.runs())


def configure(project, text):
    (project.folder / ".evals" / "config.toml").write_text(text)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("openai/gpt-4o-mini", "needs a key. Set OPENAI_API_KEY"),
        ("anthropic/claude-haiku-4-5", "needs a key. Set ANTHROPIC_API_KEY"),
        ("antropic/claude-haiku-4-5", "did you mean 'anthropic/claude-haiku-4-5'?"),
        ("python:nowhere:answer", "nowhere cannot be imported"),
        ("python:agent:other", "there is no other in agent"),
        ("command:./not-there.sh", "there is no program ./not-there.sh"),
        ("replay:not-there.csv", "not-there.csv"),
    ],
)
def test_what_cannot_answer_is_found_before_a_run_is_recorded(project, model, why, monkeypatch):
    monkeypatch.delitem(sys.modules, "agent", raising=False)
    (project.folder / "agent.py").write_text("def answer(prompt):\n    return prompt\n")
    said = project.do("run", "data.json", "-t", model, code=None)
    assert why in said and not runs(project)


def test_what_cannot_answer_is_found_before_a_run_goes_to_the_background(project):
    (project.folder / "agent.py").write_text("def answer(prompt):\n    return prompt\n")
    words = ["openai/gpt-4o-mini", "python:agent:other"]
    said = project.do("run", "data.json", *(part for word in words for part in ("-t", word)), "--detach", code=3)
    assert "needs a key" in said and "there is no other in agent" in said and not runs(project)


def test_a_missing_key_names_what_to_do_and_its_variable_once(project):
    said = project.do("run", "data.json", "-t", "openai/gpt-4o-mini", code=3)
    assert said.count("OPENAI_API_KEY") == 1
    assert 'api_key = "env:MY_KEY"' in said and ".env.local" in said and "demo" in said


def test_a_dead_address_is_found_before_a_run_is_recorded_and_the_run_before_stays_the_last(project, nobody):
    project.do("run", "data.json", "--quiet")
    (before,) = runs(project)
    configure(project, f'[targets.main]\nmodel = "openai/test-model"\nbase_url = "http://127.0.0.1:{nobody}/v1"\n')
    said = project.do("run", "data.json", "-t", "main", "--no-cache", code=3)
    assert f"main: No answer from 127.0.0.1:{nobody}: it refuses connections. Check base_url" in said
    assert [run.key for run in runs(project)] == [before.key]


def test_planning_contacts_nobody_and_needs_no_key(project, nobody):
    configure(project, f'[targets.main]\nmodel = "openai/test-model"\nbase_url = "http://127.0.0.1:{nobody}/v1"\n')
    assert "2 calls" in project.do("run", "data.json", "-t", "main", "--plan")
    assert "2 calls" in project.do("run", "data.json", "-t", "openai/gpt-4o-mini", "--plan")


def test_a_judge_is_checked_where_an_evaluator_needs_it_and_only_there(project, nobody):
    project.configure(f'[targets.judge]\nmodel = "openai/judge"\nbase_url = "http://127.0.0.1:{nobody}/v1"')
    said = project.do("run", "data.json", "-t", "demo", "-e", "Relevance", "-j", "judge", code=3)
    assert f"judge: No answer from 127.0.0.1:{nobody}" in said and not runs(project)
    project.do("run", "data.json", "-t", "demo", "-e", "Includes", "-j", "judge", "--quiet")
    assert runs(project)[0].status == "finished"


def test_what_the_cache_answers_needs_neither_key_nor_server(project, nobody, monkeypatch):
    project.configure(api_key="env:KEY_OF_THIS_TEST")
    project.do("run", "data.json", "-t", "main", "--quiet", KEY_OF_THIS_TEST="k")
    project.do("run", "data.json", "-t", "main", "--quiet")
    assert [run.status for run in runs(project)] == ["finished", "finished"]
    project.dataset(3)
    assert "KEY_OF_THIS_TEST, which is not set" in project.do("run", "data.json", "-t", "main", code=3)
    said = project.do("run", "data.json", "-t", "main", code=3, KEY_OF_THIS_TEST="")
    assert "which is empty. Set KEY_OF_THIS_TEST; a file such as .env.local counts only" in said
    assert len(runs(project)) == 2


def test_nobody_is_looked_for_behind_a_proxy(nobody):
    config = TargetConfig(name="main", model="openai/m", base_url=f"http://127.0.0.1:{nobody}/v1")
    for via in ("auto", "litellm"):
        config = TargetConfig(name="main", model="openai/m", base_url=f"http://127.0.0.1:{nobody}/v1", via=via)
        check = target_kind(config).check
        assert check(config, context()) == config.base_url
        assert check(config, context(HTTP_PROXY="http://proxy:3128")) is None


def context(**environment):
    return TargetContext(environment=environment, root=None, load_items=lambda file: [])


@pytest.mark.nightly
def test_a_resume_of_a_run_whose_server_is_gone_says_so_and_destroys_nothing(project, monkeypatch):
    monkeypatch.setattr("tui_evals.runs.limits._FIRST_DELAY", 0.001, raising=False)
    with running() as server:
        configure(project, f'[targets.main]\nmodel = "openai/m"\nbase_url = "{server.url}"\nconcurrency = 1\n')
        project.dataset(1)
        project.do("run", "data.json", "-t", "main", "--quiet")
        project.dataset(2)
        server.behave(always="401")
        project.do("run", "data.json", "-t", "main", "--quiet", code=3)
    run = runs(project)[0]
    before = kept(project, run)
    assert [status for _, status, _ in before] == ["pass", "pending"]
    said = project.do("resume", run.key, code=3)
    assert "No answer from 127.0.0.1" in said and f"`tui-evals resume {run.key}` continues it" in said
    assert kept(project, run) == before and runs(project)[0].status == "interrupted"


def kept(project, run):
    with project.reader() as reader:
        return [(row.name, row.status, row.preview) for row in reader.all_rows(run.id)]


def test_a_price_that_a_budget_needs_is_missing_before_a_run_is_recorded(project):
    assert "is not known, so --max-cost" in project.do("run", "data.json", "-t", "main", "--max-cost", "1", code=3)
    assert not runs(project)


def test_the_library_refuses_before_anything_is_recorded(project, nobody):
    with pytest.raises(ConfigurationError, match="needs a key"):
        evaluate([{"prompt": "x"}], "openai/gpt-4o-mini", evaluators="Includes", project=project.folder)
    assert not runs(project)


def test_what_was_opened_to_be_checked_is_what_answers_and_is_closed_once(project, monkeypatch):
    """A file of captured answers is read once; what nobody will ask is closed."""
    from tui_evals.targets import answers

    opened = []

    class Counted(answers.Replay):
        async def close(self):
            opened.append("closed")

    def open_counted(config, context):
        opened.append("opened")
        return Counted(answers.captured(context.load_items(context.root / "answers.json"), "answers.json"), "answers")

    monkeypatch.setattr(answers, "KIND", TargetKind(form="replay:PATH", open=open_counted))
    items = [{"prompt": f"question {number}", "response": f"question {number}"} for number in range(2)]
    (project.folder / "answers.json").write_text(json.dumps({"items": items}))
    project.do("run", "data.json", "-t", "replay:answers.json", "--quiet")
    assert opened == ["opened", "closed"]
    opened.clear()
    project.do("run", "data.json", "-t", "replay:answers.json,openai/gpt-4o-mini", "--quiet", code=3)
    assert opened == ["opened", "closed"]


def test_code_of_the_user_is_not_imported_by_who_only_starts_a_run(project, monkeypatch):
    """The workbench lives on: what it imported once it would never see mended."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (project.folder / "agent_apart.py").write_text("print('noise')\nraise RuntimeError('not today')\n")
    config = TargetConfig(name="own", model="python:agent_apart:answer")
    check = target_kind(config).check
    here = TargetContext(environment=os.environ, root=project.folder, load_items=lambda file: [], apart=True)
    with pytest.raises(
        ConfigurationError, match=r"agent_apart cannot be imported from .* \(RuntimeError: not today\)$"
    ):
        check(config, here)
    (project.folder / "agent_apart.py").write_text("def answer(prompt):\n    return prompt\n")
    assert check(config, here) is None
    assert "agent_apart" not in sys.modules


async def test_the_workbench_says_why_a_dead_address_started_nothing(project, nobody):
    configure(project, f'[targets.main]\nmodel = "openai/m"\nbase_url = "http://127.0.0.1:{nobody}/v1"\n')
    async with at_the_workbench(project.folder, dataset="data.json", size=(80, 24)) as person:
        await person.press("r")
        await person.sees("cost unknown: the price of main is not known")
        await person.press("k", "enter")
        await person.sees("why nothing was started")
        assert "it refuses connections" in " ".join(person.screen().replace("│", " ").split())
    assert not runs(project)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("gpt-4o", "(did you mean 'openai/gpt-4o'?)"),
        ("gtp-4o", "(did you mean 'openai/gpt-4o'?)"),
        ("gtp", "(did you mean 'openai/gpt-4o-mini'?)"),
        ("claude-sonnet-4-5", "(did you mean 'anthropic/claude-sonnet-4-5'?)"),
        ("gemini-2.5-pro", "(did you mean 'gemini/gemini-2.5-pro'?)"),
        ("demoo", "(did you mean 'demo'?)"),
        ("main2", "(did you mean 'main'?)"),
    ],
)
def test_a_word_that_names_no_target_gets_the_nearest_that_does(project, word, hint):
    said = project.do("run", "data.json", "-t", word, code=3)
    assert hint in said and not runs(project)


def test_what_is_suggested_can_be_had():
    assert all(price_of(model) is not None and is_known_provider(model) for model in _FAMILIES.values())


def test_a_name_that_is_near_nothing_gets_no_hint(project):
    with pytest.raises(ConfigurationError) as raised:
        find_target("zzzzzzzzzz", load_settings(project.folder))
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[run]\nrepeats = 3\n\n[targets.a]\nmodel = "demo"\ntimeout = 0\n', ":6: targets.a.timeout should be"),
        ('[targets.a]\nmodel = "demo"\n[targets.a.price]\ninput = 1\n', ":3: targets.a.price.input_per_million is"),
        ('targets = { a = { model = "demo", via = "x" } }\n', ":1: targets.a.via should be"),
        ('# first\n[targets."a b"]\n  model = "gpt-4o"\n', ":3: targets.a b.model: a model is written as"),
        ("[run]\nrepeats = \n", ":2: this is not valid TOML"),
        ("[run]\nrepeats", ":2: this is not valid TOML"),
        ('[run]\nrepeats = "3"\nmax_cost = -1\n', ":2: run.repeats should be a valid integer; line 3: run.max_cost"),
        ('[ui]\nnote = """\n[run]\nx = 1\n"""\n[run]\nx = 1\n', ":7: there is no setting run.x"),
    ],
)
def test_a_fault_of_the_configuration_has_its_line(project, text, said):
    configure(project, text)
    assert f"config.toml{said}" in project.do("targets", code=3)
