"""What code of users prints is never among what we print for programs.

Seen: `print()` in a python: target put its line between the events of `run --json`; a run that was refused printed no
event at all; `targets`, `targets check`, `doctor` and `cache info` had no --json.
"""

import json
import os
import signal
import sys

import pytest

from tests.runs.conftest import Project, until

NOISY = """\
import os, subprocess, sys
print("while imported")

def answer(prompt):
    print("from print")
    os.write(1, b"from the descriptor\\n")
    sys.__stdout__.write("from a stream of before\\n")
    subprocess.run(["echo", "from a child"])
    return prompt

def cautious(request):
    print("one more")
    raise ValueError("no")
"""
NOISES = ("while imported", "from print", "from the descriptor", "from a stream of before", "from a child")


@pytest.fixture
def project(tmp_path, one_server, monkeypatch):
    one_server.reset()
    monkeypatch.delitem(sys.modules, "noisy", raising=False)
    made = Project(tmp_path, one_server)
    made.configure()
    made.dataset(2)
    (tmp_path / "noisy.py").write_text(NOISY)
    return made


def events(out):
    return [json.loads(line) for line in out.splitlines()]


def test_nothing_that_a_target_prints_is_among_the_events(project):
    code, out, err = project.as_process("run", "data.json", "-t", "python:noisy:answer", "--json")
    assert code == 0 and [event["event"] for event in events(out)] == ["start", "answer", "answer", "end"]
    assert all(noise in err for noise in NOISES)


def test_nothing_that_a_target_prints_is_among_what_a_person_reads(project):
    code, out, err = project.as_process("run", "data.json", "-t", "python:noisy:answer")
    assert code == 0 and not any(noise in out for noise in NOISES) and all(noise in err for noise in NOISES)
    assert "2 of 2 pass" in out


def test_nothing_printed_in_this_process_either_and_the_streams_are_given_back(project):
    """As a test of somebody's program calls the command line, where the standard output is no file."""
    stdout, descriptor = sys.stdout, os.fstat(1)
    code, out, err = project.as_call("run", "data.json", "-t", "python:noisy:answer", "--json")
    assert code == 0 and events(out)[-1]["event"] == "end" and "from print" in err
    assert sys.stdout is stdout and os.path.sameopenfile(1, 1) and os.fstat(1).st_ino == descriptor.st_ino


def test_the_answer_of_a_check_is_json_whatever_the_target_prints(project):
    code, out, err = project.as_process("targets", "check", "python:noisy:answer", "--json")
    checked = json.loads(out)
    assert code == 0 and checked["answers"] is True and checked["text"] and "from a child" in err
    code, out, err = project.as_process("targets", "check", "python:noisy:cautious", "--json")
    checked = json.loads(out)
    assert (code, checked["answers"]) == (3, False) and "ValueError: no" in checked["message"]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["data.json", "--bogus"], 2, "No such option"),
        (["data.json", "-t", "demo", "--fail-under", "80", "--detach"], 2, "--detach ends before"),
        (["not-there.json", "-t", "demo"], 2, "not-there.json"),
        (["data.json", "-t", "nobody"], 3, "there is no target nobody"),
        (["data.json", "-t", "openai/gpt-4o-mini"], 3, "needs a key"),
        (["data.json", "-t", "demo", "-e", "Relevance"], 3, "no judge is named"),
    ],
)
def test_a_run_that_is_refused_ends_with_an_event_that_says_so(project, words, code, why):
    ended, out, err = project.as_call("run", *words, "--json")
    (event,) = events(out)
    assert ended == code and why in err
    assert event == {"event": "end", "run": None, "status": "refused", "message": event["message"], "exit_code": code}
    assert why in event["message"] and not event["message"].startswith("Error")


def test_every_end_has_its_exit_code(project):
    project.dataset(2, lambda number: f"question {number}" + (" [[say no]]" if number else ""))
    for least, code in ((40, 0), (90, 1)):
        _, out, _ = project.as_call("run", "data.json", "-t", "main", "--json", "--fail-under", least)
        ends = [event for event in events(out) if event["event"] == "end"]
        assert [(end["exit_code"], end["status"]) for end in ends] == [(code, "finished")]
        assert events(out)[-1] == ends[0]


@pytest.mark.nightly
def test_a_run_that_stops_for_its_configuration_says_so_in_one_event(project):
    project.server.behave(always="401")
    ended, out, _ = project.as_call("run", "data.json", "-t", "main", "--json")
    ends = [event for event in events(out) if event["event"] == "end"]
    assert ended == 3 and [(end["exit_code"], end["status"]) for end in ends] == [(3, "interrupted")]
    project.configure(via="litellm")
    ended, out, _ = project.as_call("resume", "last", "--json")
    (end,) = [event for event in events(out) if event["event"] == "end"]
    assert (ended, end["exit_code"], end["status"]) == (3, 3, "interrupted")  # nothing was answered, so it may change
    with project.reader() as reader:
        assert end["run"] == reader.find_run("last").key


def test_a_run_that_is_interrupted_says_so_in_one_event(project):
    project.server.behave(latency=30)
    project.configure(concurrency=1)
    process = project.start("run", "data.json", "-t", "main", "--json")
    lines = [process.stdout.readline()]
    until(lambda: project.server.counts()["asked"] > 0)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    ends = [event for event in events("".join(lines) + out) if event["event"] == "end"]
    assert process.returncode == 130
    assert [(end["exit_code"], end["status"]) for end in ends] == [(130, "interrupted")]


def test_evals_of_a_registry_end_with_one_event_for_all(project):
    ended, out, _ = project.as_call("run", "nothing-like-it", "--registry", str(project.folder), "--json")
    assert ended in (2, 3) and events(out)[-1]["exit_code"] == ended


def test_lists_and_checks_are_json_when_asked(project):
    project.configure('[run]\ntargets = ["main"]\n[judge]\ntarget = "main"', api_key="env:MY_KEY")
    (target,) = json.loads(project.as_call("targets", "--json")[1])
    assert target["name"] == "main" and target["api_key"] == "env:MY_KEY" and target["price"] is None
    assert target["judges"] is True and target["runs_by_default"] is True
    project.configure()
    assert json.loads(project.as_call("targets", "check", "main", "--json")[1])["answers"] is True
    code, out, _ = project.as_call("targets", "check", "nobody", "--json")
    assert code == 3 and "there is no target nobody" in json.loads(out)["message"]
    project.do("run", "data.json", "-t", "main", "--quiet")
    info = json.loads(project.as_call("cache", "info", "--json")[1])
    assert info["entries"] == 2 and info["characters"] > 0 and info["oldest"] > 0
    code, out, _ = project.as_call("doctor", "--json")
    doctor = json.loads(out)
    assert doctor["ok"] is (code == 0)
    assert {"part": "keys", "name": "OPENAI_API_KEY", "verdict": "note", "text": "not set"} in doctor["findings"]
