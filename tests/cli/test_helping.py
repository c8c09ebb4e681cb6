"""Help, doctor, and what becomes of a wrong command."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tui_evals import __version__
from tui_evals.cli.main import SECTIONS
from tui_evals.cli.manual import pages

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = re.compile(r"\d+ ms")
COMMANDS = [name for commands in SECTIONS.values() for name in commands]


def test_every_command_has_help_and_stands_in_the_list(shell):
    listed, named = shell("--help-all").out, shell("--help").out
    for command in COMMANDS:
        done = shell(command, "--help")
        assert done.code == 0 and f"tui-evals {command}" in done.out
        assert re.search(rf"^  {command} ", listed, re.MULTILINE)
        assert re.search(rf"\b{command}\b", named)


def test_the_first_help_fits_a_terminal(shell, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = shell("--help").out.splitlines()
    assert len(lines) < 40 and max(map(len, lines)) <= 80


def test_help_of_run_begins_with_everyday_options(shell):
    few, all_of_it = shell("run", "--help").out, shell("run", "--help-all").out
    places = [few.index(heading) for heading in ("What is asked:", "How:", "Gates:", "Output:")]
    assert places == sorted(places) and "--model" in few and "--dry-run" in few and "--filter" in few
    for option in ("--cluster", "--registry", "--snapshot"):
        assert option not in few and option in all_of_it
    assert len(few.splitlines()) < 70 and re.search(r"\d+ more options: tui-evals run --help-all", few)


def test_version(shell):
    assert shell("--version").out == f"tui-evals {__version__}\n"


def test_a_wrong_command_suggests_the_nearest(shell):
    done = shell("valdate")
    assert done.code == 2 and "did you mean 'validate'" in done.err


@pytest.mark.parametrize("topic", sorted(pages()))
def test_every_page_of_the_manual_shows(shell, topic):
    done = shell("help", topic)
    assert done.code == 0 and len(done.out.splitlines()) > 3
    assert topic in shell("help").out


def test_pages_name_only_commands_that_exist():
    for topic, text in pages().items():
        for command in re.findall(r"(?:`|    )tui-evals ([a-z-]+)", text):
            assert command in COMMANDS, f"{topic} speaks of `tui-evals {command}`"


@pytest.mark.story
@pytest.mark.parametrize("page", ["compare", "evaluators", "runs", "start", "targets"])
def test_a_page_shows_what_its_commands_print(shell, project, page):
    shell("init", "--no-run")
    for _ in range(2):
        judged = ("-e", "Relevance,Coherence", "--judge", "demo", "--quiet")
        assert shell("run", "evals/evals.json", "--target", "demo", *judged, "--no-cache").code == 0
    keys = [run["key"] for run in reversed(json.loads(shell("runs", "--json").out))]

    def real(text):
        return text.replace("yjz8tp", keys[0]).replace("v7twct", keys[1])

    blocks = re.findall(
        r"^    \$ tui-evals (.+)\n((?:    (?!tui-evals|\$).+\n|\n(?=    (?!tui-evals)))+)", pages()[page], re.M
    )
    assert blocks
    for command, shown in blocks:
        printed = iter(MEASURED.sub("N", shell(*shlex.split(real(command))).out).splitlines())
        for line in filter(str.strip, shown.splitlines()):
            assert MEASURED.sub("N", real(line[4:])) in printed, line


def test_an_unknown_topic_suggests_the_nearest(shell):
    done = shell("help", "datsets")
    assert done.code == 2 and "did you mean 'datasets'" in done.err
    assert "(help datasets)" in shell("help", "dataset").out


def test_doctor_finds_keys_without_showing_them(shell, project, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-4711")
    done = shell("doctor")
    assert re.search(r"OPENAI_API_KEY +found", done.out)
    assert "canary" not in done.out + done.err
    assert str(project) in done.out


def said_of_the_terminal(shell):
    findings = json.loads(shell("doctor", "--json").out)["findings"]
    return {one["name"]: one for one in findings if one["part"] == "terminal"}


def test_doctor_says_what_is_in_the_way_of_a_terminal(shell, project, monkeypatch):
    answers = {"-V": "tmux 3.4", "escape-time": "500", "set-clipboard": "external", "allow-passthrough": "off"}
    monkeypatch.setattr("tui_evals.cli.doctor._tmux", lambda *words: answers[words[-1]])
    given = {"TMUX": "/tmp/tmux,1,0", "TERM": "screen", "COLORTERM": "", "ESCDELAY": "1000", "COLORFGBG": "0;15"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = {
        one["name"]: one for one in json.loads(shell("doctor", "--json").out)["findings"] if one["part"] == "terminal"
    }
    for name in ("colours", "ESCDELAY", "escape-time", "set-clipboard"):
        assert found[name]["verdict"] == "note" and ";" in found[name]["text"]
    assert "set -sg escape-time 10" in found["escape-time"]["text"]
    assert found["tmux"]["text"] == "3.4" and found["background"]["text"].startswith("light (COLORFGBG")
    assert found["encoding"]["verdict"] == "ok"
    answers |= {"escape-time": "10", "set-clipboard": "on"}
    monkeypatch.setenv("ESCDELAY", "")
    monkeypatch.setenv("COLORTERM", "truecolor")
    found = {
        one["name"]: one for one in json.loads(shell("doctor", "--json").out)["findings"] if one["part"] == "terminal"
    }
    for name in ("colours", "ESCDELAY", "escape-time", "set-clipboard"):
        assert found[name]["verdict"] == "ok" and ";" not in found[name]["text"], "advice where nothing is wrong"


def test_doctor_refuses_a_malicious_release(shell, project, monkeypatch):
    monkeypatch.setattr("tui_evals.cli.doctor._version", lambda name: "1.82.8" if name == "litellm" else "1.0")
    done = shell("doctor")
    assert done.code == 1 and "malicious release" in done.out


def test_doctor_names_start_up_files_that_run_code(shell, project, monkeypatch):
    (project / "litellm_init.pth").write_text("import os\n")
    (project / "paths.pth").write_text("/some/where\n")
    monkeypatch.setattr("site.getsitepackages", lambda: [str(project)])
    done = shell("doctor")
    assert done.code == 1 and "litellm_init.pth" in done.out and "paths.pth" not in done.out


def test_the_readme_names_only_commands_that_exist():
    for command in re.findall(r"tui-evals ([a-z]+)", README):
        assert command in COMMANDS


@pytest.mark.story
def test_the_experiment_of_the_readme_has_ten_lines_and_runs_with_the_demo_target(shell, project):
    (block,) = re.findall(r"```yaml\n(data: .*?)```", README, re.DOTALL)
    assert len(block.splitlines()) == 10
    Path("experiment.yaml").write_text(block, encoding="utf-8")
    shutil.copytree(ROOT / "sample_datasets", "sample_datasets")
    assert shell("validate", "experiment.yaml").code == 0
    commands = README.partition("## An experiment in ten lines")[2].partition("\n## ")[0]
    done = shell(*re.findall(r"^tui-evals (run .*--judge demo)", commands, re.MULTILINE)[0].split(), "--trust")
    assert done.code == 1 and "not met: --fail-under 90" in done.err
    (run,) = json.loads(shell("runs", "--json").out)
    assert run["status"] == "finished" and len(run["prompts"]) == 2 and Path("report.html").exists()
    assert "failures" in shell("show", "last", "--map").out


def completed(project, words, number):
    """What bash is offered for a word of a command line."""
    environment = {"_TUI_EVALS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    command = [sys.executable, "-m", "tui_evals"]
    done = subprocess.run(command, env={**os.environ, **environment}, cwd=project, capture_output=True, text=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_a_shell_is_offered_what_the_project_has(shell, project, dataset, answers):
    dataset([{"prompt": "ask 0"}], {})
    Path("nightly.experiment.yaml").write_text("data: data.json\n")
    assert shell("run", "data.json", "-t", answers(["x"])).code == 0
    (key,) = [run["key"] for run in json.loads(shell("runs", "--json").out)]
    assert {"nightly", "data.json"} <= {*completed(project, "tui-evals run ", 2)}
    assert {"last", key} <= {*completed(project, "tui-evals show ", 2)}
    assert completed(project, "tui-evals vali", 1) == ["validate"]
    assert "demo" in completed(project, "tui-evals run -t ", 3)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("bash", ".local/share/bash-completion/completions/tui-evals"),
        ("zsh", ".zfunc/_tui-evals"),
        ("fish", ".config/fish/completions/tui-evals.fish"),
    ],
)
def test_a_command_installs_completion(shell, project, monkeypatch, name, place):
    monkeypatch.setenv("HOME", str(project))
    assert shell("completion", name, "--install").code == 0
    assert "_TUI_EVALS_COMPLETE" in (project / place).read_text()
    assert shell("completion", name).out.strip() == (project / place).read_text().strip()
