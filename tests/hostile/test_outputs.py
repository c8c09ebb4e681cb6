"""Exports and results are as private as the store."""

import asyncio
import json
import os
import re
import resource
import stat
import subprocess
import threading
import time
from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.helpers import cells, new_run, said
from tui_evals.interpreter import python_command
from tui_evals.store.database import open_store
from tui_evals.store.filters import FilterError, compiled, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer
from tui_evals.tui.terminal import copy_to_clipboard

ITEM = {"prompt": "hello", "expected_response": "hello", "evaluators": {"Includes": {}}, "evaluators_mode": "replace"}


@pytest.fixture
def project(tmp_path, monkeypatch, shell):
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)
    try:
        Path("data.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": [ITEM]}))
        assert shell("run", "data.json", "--target", "demo", "--quiet").code in (0, 1)
        yield tmp_path
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


def test_everything_that_is_kept_is_its_owners_alone(shell, project):
    for words in (("export", "last"), ("report", "last"), ("report", "last", "--to", "junit")):
        assert shell(*words).code == 0
    (project / ".evals").chmod(0o755)  # as in a clone
    found = modes(project / ".evals")
    assert len(found) > 5
    assert {name: mode for name, mode in found.items() if mode & 0o077} == {}


@pytest.mark.parametrize(
    "words", [("export", "last", "-o"), ("report", "last", "-o"), ("run", "data.json", "-t", "demo", "-o")]
)
def test_a_new_file_with_answers_is_its_owners_alone_wherever_it_is_written(shell, project, words):
    assert shell(*words, "out.json").code in (0, 1)
    assert stat.S_IMODE((project / "out.json").stat().st_mode) == 0o600


def test_a_file_that_somebody_shares_stays_shared(shell, project):
    Path("shared.json").write_text("")
    Path("shared.json").chmod(0o644)
    assert shell("export", "last", "-o", "shared.json").code == 0
    assert stat.S_IMODE((project / "shared.json").stat().st_mode) == 0o644


def test_a_pipe_is_written_to_and_not_replaced(shell, project):
    os.mkfifo("pipe.json")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe.json").read_bytes()), daemon=True)
    reader.start()
    assert shell("export", "last", "-o", "pipe.json").code == 0
    reader.join(10)
    assert stat.S_ISFIFO(os.stat("pipe.json").st_mode) and json.loads(read[0])


def test_a_device_is_written_to_and_not_replaced(shell, project):
    Path("null.json").symlink_to("/dev/null")
    assert shell("export", "last", "-o", "null.json").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and Path("null.json").is_symlink()


INJECTIONS = (
    "') OR 1=1 --",
    '"; DROP TABLE answers; --',
    "x' UNION SELECT text FROM bodies --",
    "~' ESCAPE '~') OR ('1'='1",
    "%",
    "_",
    "~",
    "a?b",
    ":name",
    "$1",
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Three answers, one of them long and made so that patterns have to look at it in every way."""
    path = open_store(tmp_path_factory.mktemp("stored") / ".evals" / "evals.db")
    with Writer(path) as writer:
        run = writer.plan(new_run(), cells(3)).id
        with Reader(path) as reader:
            answers = [row.id for row in reader.window(run, 0, 3)]
        for answer, text in zip(answers, ("it's", 'say "no"; --', "a" * 300_000), strict=True):
            asyncio.run(writer.answered(answer, said(text), "answered"))
    with Reader(path) as reader:
        yield reader, run


@pytest.mark.parametrize("key", ["", "id:", "category:", "tag:", "target:", "evaluator:", "status:", "score:", "turn:"])
@pytest.mark.parametrize("value", INJECTIONS)
def test_no_word_of_a_filter_becomes_part_of_a_statement(stored, key, value):
    reader, run = stored
    before = [row.id for row in reader.window(run, 0, 10)]
    for text in (f"{key}{value}", f'{key}"{value}"', f'!{key}"{value}"'):
        try:
            where = parse_filter(text)
        except FilterError:
            continue
        statement, values = compiled(where, run)
        assert value not in statement or value in ("%", "_", "~", "")
        assert statement.count("?") == len(values)
        found = list(reader.ids(run, where))
        assert set(found) <= set(before)
        if not text.startswith("!") and key == "" and "DROP" in value:
            assert not found
    assert [row.id for row in reader.window(run, 0, 10)] == before


@pytest.mark.parametrize(
    "sort", [*INJECTIONS, "pos; DROP TABLE runs", "evaluator:x' OR 1=1 --", "evaluator:?", "pos ASC, id"]
)
def test_no_name_of_a_column_becomes_part_of_a_statement(stored, sort):
    reader, run = stored
    try:
        assert len(reader.ids(run, None, sort)) == 3
    except FilterError as problem:
        assert "cannot be sorted by" in str(problem)


@pytest.mark.parametrize("pattern", ["a*" * 400 + "b", "*a" * 450 + "b*", "*" * 900 + "b", "*?" * 300])
def test_no_pattern_of_a_filter_takes_long(stored, pattern):
    reader, run = stored
    since = time.thread_time()
    reader.ids(run, parse_filter(f'"{pattern}"'))
    reader.ids(run, parse_filter(f"id:{pattern} tag:{pattern} evaluator:{pattern}"))
    assert time.thread_time() - since < 2


@given(st.text(max_size=200), st.sampled_from([{}, {"TMUX": "x"}, {"STY": "x"}]))
@settings(max_examples=50)
def test_a_copied_text_cannot_leave_the_sequence_it_is_in(tmp_path_factory, text, environment):
    terminal = tmp_path_factory.mktemp("tty") / "tty"
    terminal.touch()
    copy_to_clipboard(
        f"{text}\x07\x1b\\\x1b]52;c;?\x07", "answer", terminal.parent, environment, terminal=str(terminal)
    )
    written = terminal.read_bytes().replace(b"\x1bP", b"").replace(b"\x1b\\", b"").replace(b"\x1b\x1b]", b"\x1b]")
    payloads = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", written.replace(b"tmux;", b""))
    assert len(payloads) == (2 if "TMUX" in environment else 1)
    assert b"\x1b" not in b64decode(payloads[0]) and b"\x07" not in b64decode(payloads[0])
    assert not re.sub(rb"\x1b\]52;c;[A-Za-z0-9+/=]*\x07", b"", written.replace(b"tmux;", b""))


def test_no_process_of_ours_leaves_its_memory_on_the_disk(tmp_path):
    code = (
        "import resource, sys; from tui_evals.__main__ import main; sys.argv = ['x', '--version']\n"
        "try: main()\nexcept SystemExit: print(resource.getrlimit(resource.RLIMIT_CORE)[0])"
    )
    limit = (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2
    done = subprocess.run(
        python_command("-c", f"import resource; resource.setrlimit(resource.RLIMIT_CORE, {limit})\n{code}"),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines()[-1] == "0" and not list(tmp_path.glob("core*"))
