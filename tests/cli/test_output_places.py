"""Where `-o` leads: a file is replaced whole, and whatever is no file is written into and stays what it is."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.reports.stores import Ran, every, good, store
from tui_evals.files import CannotSave, write_atomically
from tui_evals.interpreter import python_command

ITEMS = [{"testId": name, "prompt": f"ask {name}", "expected_response": "yes"} for name in "ab"]


@pytest.fixture
def run(project):
    return store(project, Ran(ITEMS, every(good())))


def test_a_pipe_gets_the_pieces_and_stays_a_pipe(shell, project, run):
    os.mkfifo("pipe.jsonl")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe.jsonl").read_bytes()), daemon=True)
    reader.start()
    assert shell("report", "-o", "pipe.jsonl").out == "wrote pipe.jsonl\n"
    reader.join(30)
    assert [json.loads(line)["item"] for line in read[0].splitlines()] == ["a", "b"]
    assert stat.S_ISFIFO(os.stat("pipe.jsonl").st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a device")
def test_a_device_is_written_into_and_stays_a_device(shell, project, run):
    os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    assert shell("report", "--to", "json", "-o", "./null").code == 0
    assert stat.S_ISCHR(os.stat("null").st_mode) and os.listdir(".").count("null") == 1
    os.mknod("full", stat.S_IFCHR | 0o666, os.makedev(1, 7))
    done = shell("report", "--to", "json", "-o", "full")
    assert done.code == 1 and "full could not be written: No space left on device" in done.err
    assert stat.S_ISCHR(os.stat("full").st_mode)


@pytest.mark.nightly
def test_the_standard_output_by_any_name_gets_the_data_and_nothing_else(shell, project, run):
    plain = shell("report", "--to", "json", "-o", "-").out
    assert json.loads(plain)["items"]
    code = "import sys; from tui_evals.cli.main import run\n"
    code += "for name in sys.argv[1:]: run(['report', '--to', 'json', '-o', name])"
    names = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link")
    Path("link").symlink_to("/dev/stdout")
    done = subprocess.run(python_command("-c", code, *names), capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (plain * len(names), "")
    Path("log").write_text("before\n")
    with open("log", "a") as log:
        subprocess.run(python_command("-c", code, *names), stdout=log, check=True)
    assert Path("log").read_text() == "before\n" + plain * len(names)


@pytest.mark.nightly
def test_the_program_behind_a_substituted_name_reads_it(shell, project, run):
    words = "-m tui_evals report --to jsonl -o >(cat >there.tmp; mv there.tmp there)"
    done = subprocess.run(["bash", "-c", f"{sys.executable} {words}; wait $!"], capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.startswith("wrote /dev/fd/")
    assert len(Path("there").read_text().splitlines()) == 2


def test_what_goes_wrong_while_pieces_are_made_leaves_the_old_file(tmp_path):
    def pieces():
        yield b"new" * 100_000
        raise LookupError("the run is gone")

    file = tmp_path / "kept"
    file.write_text("old")
    with pytest.raises(LookupError, match="the run is gone"):
        write_atomically(file, pieces())
    assert file.read_text() == "old" and os.listdir(tmp_path) == ["kept"]


def test_a_number_that_is_not_open_is_a_sentence(tmp_path):
    with pytest.raises(CannotSave, match="/dev/fd/987654 could not be written: Bad file descriptor"):
        write_atomically(Path("/dev/fd/987654"), b"x")


def test_the_ending_says_what_export_writes(shell, project, run):
    assert shell("export", "-o", "out.csv").code == 0
    assert Path("out.csv").read_text().startswith("kind,item,")
    assert shell("export", "-o", "out.jsonl").code == 0
    assert [json.loads(line)["item"] for line in Path("out.jsonl").read_text().splitlines()] == ["a", "b"]
    refused = shell("export", "-o", "out.unknown")
    assert refused.code == 2 and "unknown ending" in refused.err and not Path("out.unknown").exists()
    assert shell("export", "--to", "json", "-o", "other.csv").code == 0
    assert json.loads(Path("other.csv").read_text())["items"]


@pytest.mark.nightly
def test_a_reader_that_closes_the_pipe_changes_no_exit_code(project, run):
    Path("bad.json").write_text('{"items": [{"prompt": 1}]}')
    code = "import sys; from tui_evals.cli.main import run; sys.exit(run(sys.argv[1:]))"
    for words, expected in (
        (("show", "last"), 0),
        (("export", "-o", "-"), 0),
        (("--help",), 0),
        (("help", "exit-codes"), 0),
        (("validate", "bad.json"), 2),
    ):
        read, write = os.pipe()
        os.close(read)
        try:
            done = subprocess.run(python_command("-c", code, *words), stdout=write, stderr=subprocess.PIPE, text=True)
        finally:
            os.close(write)
        assert (done.returncode, "Traceback" in done.stderr) == (expected, False), (words, done.stderr)
