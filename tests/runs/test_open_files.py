"""A system that allows few open files: fewer calls at once, and never a traceback."""

import resource

import pytest

from tests.runs.conftest import Project
from tui_evals import files
from tui_evals.files import Calls, fit_calls, raise_limit


@pytest.fixture
def few(project):
    """The project where every command may have 48 open files, and cannot change that."""
    return Project(project.folder, project.server, ("bash", "-c", 'ulimit -n 48 && exec "$@"', "bash"))


@pytest.mark.nightly
@pytest.mark.parametrize("flags", [(), pytest.param(("--json",), marks=pytest.mark.nightly)])
def test_a_run_with_few_open_files_makes_fewer_calls_at_once_and_says_so(few, flags):
    few.dataset(200)
    few.server.behave(latency=0.05)
    process = few.start("run", "data.json", "--target", "main", "-c", 100, *flags)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err, out + err
    peak = few.server.counts()["peak"]
    assert 4 <= peak < 40
    assert f"Calls at once: main {peak} instead of 100, because this process may have only 48 open files" in err
    assert [row[2] for row in few.table()] == ["pass"] * 200


@pytest.mark.nightly
def test_targets_and_judges_share_what_there_is(few):
    few.configure(
        f'[targets.other]\nmodel = "openai/other-model"\nbase_url = "{few.server.url}"\n'
        f'[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "{few.server.url}"\n[judge]\ntarget = "judge"\n'
    )
    few.dataset(60, default_evaluators={"Relevance": {}})
    few.server.behave("judge-model", say='{"reason": "It is fair.", "score": 4}', markers=False, latency=0.05)
    few.server.behave("test-model", latency=0.05)
    few.server.behave("other-model", latency=0.05)
    process = few.start("run", "data.json", "--target", "main,other", "-c", 100)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err, out + err
    assert "main " in err and "other " in err and "judge judge " in err
    assert {row[2] for row in few.table()} == {"pass"}


def test_the_limit_is_raised_to_what_the_system_allows(monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(files, "_MOST", min(limits[1], 4096))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        raise_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(limits[1], 4096), limits[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_calls_are_fitted_by_the_files_they_need(monkeypatch):
    monkeypatch.setattr(files, "_room", lambda: 30)
    wanted = {"a": Calls(10), "b": Calls(10, files=4)}
    fitted, sentence = fit_calls(wanted)
    assert fitted == {"a": 6, "b": 6}
    assert sentence.startswith("Calls at once: a 6 instead of 10, b 6 instead of 10, because")
    assert fit_calls({"a": Calls(30)}) == ({"a": 30}, "")
    monkeypatch.setattr(files, "_room", lambda: 1)
    assert fit_calls(wanted)[0] == {"a": 1, "b": 1}


@pytest.mark.nightly
@pytest.mark.parametrize("limit", [16, 24, 32])
def test_a_limit_that_is_too_small_for_anything_ends_in_a_sentence(project, limit):
    project.dataset(20)
    small = Project(project.folder, project.server, ("bash", "-c", f'ulimit -n {limit} && exec "$@"', "bash"))
    process = small.start("run", "data.json", "--target", "main", "-c", 100)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    assert process.returncode == 0 or "open files" in err, out + err
