"""D25, D26: a link to a device or a pipe behind any name of a project, and `-o` through a link of the clone."""

import json
import os
import re
import resource
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.tui.story import at_the_workbench
from tui_evals.tui.widgets.dialogs import ConfirmPage, Reading

pytestmark = pytest.mark.story

NAMES = (
    "tags/tags.prompty",
    "tags/tone.metric.prompty",
    "tags/tags/generation.json",
    "tags/tags/rules.txt",
    "data.json",
    "more.csv",
    "custom-evaluators/Mine/Mine.py",
    "custom-evaluators/Mine/Mine.prompty",
    "helper.py",
    ".env.local",
    ".evals/config.toml",
    "template.yaml",
)
COMMANDS = (
    ("validate", "data.json"),
    ("validate", "tagged.json"),
    ("trust",),
    ("trust", "show"),
    ("targets",),
    ("evaluators",),
    ("doctor",),
    ("run", "tagged.json", "--plan", "-t", "demo"),
    ("generate", "tags/tags.prompty", "--plan"),
)
SAID_BY = {
    "tags/tags.prompty": ("generate", "tags/tags.prompty", "--plan"),
    "data.json": ("validate", "data.json"),
    ".evals/config.toml": ("targets",),
}
KINDS = {
    "device": lambda file: file.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
}
MORE_MEMORY = 300 * 2**20
PATIENCE = 10


class TookTooLong(BaseException):
    """No error that a command could word."""


@contextmanager
def bounded():
    """Ends what waits for a pipe, or fills the memory, with an exception."""

    def end(*_):
        raise TookTooLong

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(PATIENCE)
    resource.setrlimit(resource.RLIMIT_AS, (size + MORE_MEMORY, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def with_a_prompt_and_a_metric(clone):
    clone.write("tags/tone.metric.prompty", "---\nname: tone\n---\nsystem:\nIs {{output}} kind? OK or ERR.\n")
    spec = {"ModelGraded": {"spec": "template.yaml"}}
    items = [{"testId": "A", "prompt": "x", "evaluators": {"tone": {}, "Mine": {}, **spec}}]
    data = {"schemaVersion": "1.0.0", "prompt_file": "tags/tags.prompty", "items": items}
    clone.write("tagged.json", json.dumps(data))
    clone.write("template.yaml", "prompt: Is {completion} right?\nchoice_strings: ['Y', 'N']\n")
    clone.write("tags/tags/rules.txt", "Say a tag.\n")


def put(clone, name, kind):
    file = clone.root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    KINDS[kind](file)


@pytest.mark.cases(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_command_that_only_shows_ends_soon_and_says_why(clone, shell, name, kind):
    with_a_prompt_and_a_metric(clone)
    told = {words: shell(*words) for words in COMMANDS}  # what is imported and cached once is not counted
    put(clone, name, kind)
    with bounded():
        told = {words: shell(*words) for words in COMMANDS}
    assert not [words for words, done in told.items() if "Traceback" in done.err]
    if name in SAID_BY:
        done = told[SAID_BY[name]]
        assert done.code != 0
        assert re.search(
            "not an ordinary file|is no ordinary file|outside the project|is a link to", done.out + done.err
        )
    assert clone.marks == []


@pytest.mark.parametrize(("kind", "name"), [("device", "data.json"), ("pipe", "tags/tags/generation.json")])
async def test_the_page_of_what_awaits_a_yes_reads_neither(clone, name, kind):
    with_a_prompt_and_a_metric(clone)
    put(clone, name, kind)
    with bounded():
        async with at_the_workbench(clone.root, size=(120, 40), dataset="tagged.json") as person:
            await person.press("Y")
            await person.until(lambda: isinstance(person.app.screen, ConfirmPage | Reading))
            assert "runs the command" in person.screen()


@pytest.mark.parametrize("words", [("export", "theirs"), ("report", "theirs"), ("report", "theirs", "--to", "junit")])
def test_an_output_is_not_led_out_of_the_project_by_a_link_of_the_clone(clone, shell, tmp_path, words):
    secret = tmp_path / "report.json"
    secret.write_text("alias ll='ls -l'\n")
    (clone.root / "out.json").symlink_to(secret)
    (clone.root / "results").symlink_to(tmp_path, target_is_directory=True)
    for name in ("out.json", "results/report.json", "results/new/out.json"):
        done = shell(*words, "-o", name)
        assert done.code == 1, done
        assert "was not written: it leads to" in done.err
        assert "Remove the link, or name another file." in done.err
    assert secret.read_text() == "alias ll='ls -l'\n"
    assert not (tmp_path / "new").exists()


def test_the_law_can_be_broken(tmp_path):
    """What ends the tests above does end what waits and what fills the memory."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MemoryError), bounded():
        bytearray(2 * MORE_MEMORY)
    with pytest.raises(TookTooLong), bounded():
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        (tmp_path / "pipe").read_bytes()
