"""Code is trusted by place and content, and asked about again when it changes."""

import json
import stat
from pathlib import Path

import pytest

from tui_evals.evaluators.trust import MAX_BYTES, Trust, TrustError, code_digest, code_files, trust_unit


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return Trust(tmp_path / "state")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tone"
    (folder / "words").mkdir(parents=True)
    (folder / "tone.py").write_text("class Tone: ...")
    (folder / "tone.prompty").write_text("system:\nJudge.")
    (folder / "words" / "list.txt").write_text("rude")
    return folder


def test_nothing_is_trusted_at_first(trust: Trust, folder: Path) -> None:
    assert not trust.is_trusted(folder)
    assert trust.trusted_code() == []


@pytest.mark.parametrize("trusted_name", [".", "tone.py"])
@pytest.mark.parametrize("checked_name", [".", "tone.py"])
def test_a_folder_and_its_main_file_stand_for_each_other(
    trust: Trust, folder: Path, trusted_name: str, checked_name: str
) -> None:
    trust.trust(folder / trusted_name)
    assert trust.is_trusted(folder / checked_name)


@pytest.mark.parametrize("changed", ["tone.py", "tone.prompty", "words/list.txt", "helper.py", "words/new.json"])
def test_any_file_that_can_steer_asks_again(trust: Trust, folder: Path, changed: str) -> None:
    trust.trust(folder)
    (folder / changed).write_text("different")
    assert not trust.is_trusted(folder)
    assert [entry.unchanged for entry in trust.trusted_code()] == [False]
    trust.trust(folder)
    assert trust.is_trusted(folder)


@pytest.mark.parametrize("removed", ["tone.prompty", "words/list.txt"])
def test_a_missing_file_asks_again(trust: Trust, folder: Path, removed: str) -> None:
    trust.trust(folder)
    (folder / removed).unlink()
    assert not trust.is_trusted(folder)


def test_contents_moved_between_files_ask_again(trust: Trust, folder: Path) -> None:
    trust.trust(folder)
    (folder / "tone.prompty").rename(folder / "other.prompty")
    assert not trust.is_trusted(folder)


@pytest.mark.parametrize("noise", [".DS_Store", "__pycache__/tone.cpython-311.pyc", ".git/HEAD"])
def test_files_that_cannot_steer_do_not_count(trust: Trust, folder: Path, noise: str) -> None:
    trust.trust(folder)
    (folder / noise).parent.mkdir(exist_ok=True)
    (folder / noise).write_text("noise")
    assert trust.is_trusted(folder)
    assert noise not in code_files(folder)


def test_the_same_code_elsewhere_is_asked_about(trust: Trust, folder: Path, tmp_path: Path) -> None:
    trust.trust(folder)
    (tmp_path / "copy").mkdir()
    folder.rename(tmp_path / "copy" / "tone")
    assert not trust.is_trusted(tmp_path / "copy" / "tone")
    assert [(entry.path, entry.unchanged) for entry in trust.trusted_code()] == [(folder.resolve(), False)]


def test_a_single_file_is_a_unit_of_its_own(trust: Trust, folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.py"
    alone.write_text("pass")
    assert trust_unit(alone) == alone.resolve()
    trust.trust(alone)
    assert trust.is_trusted(alone)
    assert not trust.is_trusted(folder)


def test_always_trusts_and_remembers_nothing(tmp_path: Path, folder: Path) -> None:
    assert Trust(tmp_path / "state", always=True).is_trusted(folder)
    assert not (tmp_path / "state").exists()


def test_a_fingerprint_that_was_agreed_to_is_known_wherever_it_lay(trust: Trust, folder: Path) -> None:
    mark = code_digest(code_files(folder))
    assert not trust.knows_digest(mark)
    trust.trust(folder)
    assert trust.knows_digest(mark)
    (folder / "tone.py").write_text("different")
    assert not trust.knows_digest(code_digest(code_files(folder)))


def test_a_pinned_fingerprint_is_trusted_anywhere_and_nothing_else_is(tmp_path: Path, folder: Path) -> None:
    pinned = Trust(tmp_path / "state", digests=[code_digest(code_files(folder))])
    moved = folder.rename(tmp_path / "moved")
    assert pinned.is_trusted(moved) and pinned.knows_digest(code_digest(code_files(moved)))
    (moved / "tone.py").write_text("different")
    assert not pinned.is_trusted(moved) and not pinned.knows_digest(code_digest(code_files(moved)))
    assert not (tmp_path / "state").exists()


def test_the_list_is_the_users_alone_and_survives(tmp_path: Path, folder: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    Trust(state).trust(folder)
    Trust(state).trust(folder / "words")
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert [(file.name, stat.S_IMODE(file.stat().st_mode)) for file in state.iterdir()] == [("trusted.json", 0o600)]
    assert [entry.path for entry in Trust(state).trusted_code()] == [folder.resolve(), (folder / "words").resolve()]


def test_the_list_lives_in_the_users_state_folder(folder: Path) -> None:
    Trust().trust(folder)
    assert Trust().is_trusted(folder)


def test_a_failed_write_keeps_the_old_list(
    trust: Trust, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust.trust(folder)
    monkeypatch.setattr(json, "dump", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        trust.trust(folder / "words")
    assert trust.is_trusted(folder)
    assert [file.name for file in (tmp_path / "state").iterdir()] == ["trusted.json"]


@pytest.mark.parametrize("content", ["{", "[]", '{"/a": 1}', "[" * 100_000])
def test_an_unreadable_list_trusts_nothing_and_says_so(tmp_path: Path, folder: Path, content: str) -> None:
    (tmp_path / "trusted.json").write_text(content)
    with pytest.raises(TrustError, match="delete it"):
        Trust(tmp_path).is_trusted(folder)


def test_nothing_to_trust(trust: Trust, tmp_path: Path) -> None:
    with pytest.raises(TrustError, match="there is no code at"):
        trust.trust(tmp_path / "absent.py")


def test_too_much_to_trust(trust: Trust, folder: Path) -> None:
    with (folder / "big.bin").open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(TrustError, match="16 MB"):
        trust.trust(folder)
