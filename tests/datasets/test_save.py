"""Saving keeps the style, refuses to lose anybody's work, and leaves a whole file whatever happens."""

import json
import os
import signal
import stat
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui_evals.datasets.document import load
from tui_evals.datasets.save import ChangedOnDisk, back_up, overwrite, save
from tui_evals.files import CannotSave, write_atomically

items = st.lists(
    st.fixed_dictionaries(
        {"prompt": st.text(min_size=1)},
        optional={"expected_response": st.text(), "extensions": st.dictionaries(st.text(), st.integers())},
    ),
    min_size=1,
    max_size=3,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items, st.sampled_from([None, 1, 2, "\t"]), st.booleans(), st.sampled_from(["", "\n", "\r\n"]), st.booleans())
def test_an_untouched_current_document_is_saved_to_the_byte(tmp_path, rows, indent, ascii_only, end, bom):
    file = tmp_path / "d.json"
    text = json.dumps({"unknown": 1, "items": rows, "schemaVersion": "1.11.0"}, indent=indent, ensure_ascii=ascii_only)
    raw = ("\ufeff" if bom else "").encode() + (text + end).encode("utf-8", "surrogatepass")
    file.write_bytes(raw)
    document = load(file)
    save(document, document.data)
    assert file.read_bytes() == raw


def test_an_edit_changes_its_own_lines_only(tmp_path):
    file = tmp_path / "d.json"
    file.write_text(
        '{\n    "items": [\n        { "prompt": "a", "x_order": [1,2] },\n        {"prompt": "b"}\n    ],\n'
        '    "schemaVersion": "1.0.0",\n    "ours": {"kept" : 1.50}\n}\n'
    )
    document = load(file)
    data = json.loads(json.dumps(document.data))
    data["items"][1]["prompt"] = "B"
    saved = save(document, data).document
    assert file.read_text() == document.text.replace('"b"', '"B"')
    assert saved.data == data


def test_a_file_that_changed_on_disk_is_not_overwritten_unless_asked(tmp_path):
    file = tmp_path / "d.json"
    file.write_text('{"schemaVersion": "1.0.0", "items": [{"prompt": "a"}]}')
    document = load(file)
    theirs = '{"schemaVersion": "1.0.0", "items": [{"prompt": "theirs"}]}'
    file.write_text(theirs)
    ours = {**document.data, "items": [{"prompt": "ours"}]}
    with pytest.raises(ChangedOnDisk, match=r"save under another name, read it again, or overwrite"):
        save(document, ours)
    assert file.read_text() == theirs
    overwrite(document, ours)
    assert "ours" in file.read_text()


def test_a_deleted_file_counts_as_changed_and_can_be_written_again(tmp_path):
    file = tmp_path / "d.json"
    file.write_text('{"schemaVersion": "1.0.0", "items": [{"prompt": "a"}]}')
    document = load(file)
    file.unlink()
    ours = {**document.data, "items": [{"prompt": "ours"}]}
    with pytest.raises(ChangedOnDisk):
        save(document, ours)
    overwrite(document, ours)
    assert load(file).data == ours


@pytest.mark.parametrize(
    "text",
    [
        '[{"prompt": "a"}]',
        '{"prompts": ["a"], "expected_responses": ["b"], "description": "kept"}',
        '{\n  "items": [{"prompt": "a"}],\n  "description": "kept"\n}\n',
    ],
)
def test_the_first_save_of_an_older_shape_upgrades_it_and_keeps_the_original(tmp_path, text):
    file = tmp_path / "d.json"
    file.write_text(text)
    document = load(file)
    saved = save(document, document.data)
    assert saved.backup is not None and saved.backup.read_text() == text
    assert next(iter(saved.document.data)) == "schemaVersion"
    assert ("kept" in text) == ("kept" in file.read_text())
    assert not saved.document.needs_upgrade
    assert save(saved.document, saved.document.data).backup is None


def test_a_backup_is_never_overwritten(tmp_path):
    file = tmp_path / "d.json"
    noon = datetime(2026, 2, 5, 14, 30, 52)
    for content in ("one", "two", "three"):
        file.write_text(content)
        back_up(file, lambda: noon)
    names = {path.name: path.read_text() for path in tmp_path.glob("*.bak.*")}
    assert names == {
        "d.json.bak.20260205143052": "one",
        "d.json.bak.20260205143052-1": "two",
        "d.json.bak.20260205143052-2": "three",
    }


def test_mode_and_link_of_the_file_survive(tmp_path):
    real = tmp_path / "real.json"
    real.write_text('{"schemaVersion": "1.0.0", "items": [{"prompt": "a"}]}')
    real.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(real)
    document = load(link)
    save(document, {**document.data, "items": [{"prompt": "b"}]})
    assert link.is_symlink() and '"b"' in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_tables_and_samples_are_saved_in_their_own_form_or_refused(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("input,reference_output\na,b\n")
    document = load(file)
    save(document, {**document.data, "items": [{"prompt": "a", "expected_response": "c"}]})
    assert file.read_text() == "input,reference_output\na,c\n"
    document = load(file)
    with pytest.raises(CannotSave, match="no place for evaluators"):
        save(document, {**document.data, "items": [{"prompt": "a", "evaluators": {}}]})


def test_a_folder_that_cannot_be_written_to_is_a_sentence(tmp_path):
    with pytest.raises(CannotSave, match="cannot be written to"):
        write_atomically(tmp_path / "absent" / "d.json", b"x")


_FULL_DISK = """
import sys
from pathlib import Path
from tui_evals.files import CannotSave, write_atomically
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomically(Path(sys.argv[1]), b"x" * 100_000)
except CannotSave as problem:
    print(problem)
"""


def test_a_write_that_fails_half_way_leaves_the_old_file_and_no_litter(tmp_path):
    file = tmp_path / "d.json"
    file.write_text("old")
    done = subprocess.run([sys.executable, "-c", _FULL_DISK, str(file)], capture_output=True, text=True, check=True)
    assert "could not be written" in done.stdout and "it is as it was" in done.stdout
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["d.json"]


_SAVE_FOR_EVER = """
import sys
from pathlib import Path
from tui_evals.files import write_atomically
file = Path(sys.argv[1])
print("ready", flush=True)
number = 0
while True:
    number += 1
    write_atomically(file, (str(number % 10) * 50_000).encode())
"""


@pytest.mark.nightly
def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path):
    file = tmp_path / "d.json"
    for round_number in range(10):
        file.write_text("0" * 50_000)
        with subprocess.Popen([sys.executable, "-c", _SAVE_FOR_EVER, str(file)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            before = file.read_text()
            while file.read_text() == before:
                pass
            for _ in range(round_number * 37):
                file.stat()
            process.send_signal(signal.SIGKILL)
        content = file.read_text()
        assert len(content) == 50_000 and len(set(content)) == 1


def test_new_files_get_the_usual_mode(tmp_path):
    file = Path(tmp_path, "new.json")
    write_atomically(file, b"x")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask
