"""Settings written into config.toml: what stands around them stays, and nothing invalid is written."""

import os
import tomllib
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import load_settings
from tui_evals.targets.config_file import write_setting

WRITTEN = """\
# What this project runs on.

[run]
targets = ["main"]  # the cheap one
repeats = 2

[targets.main]
model = "openai/gpt-4o-mini"
params = { temperature = 0 } # settled in March

# Colours are a matter of taste.
[ui]
theme = "dark" # or light
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / ".evals").mkdir()
    file = tmp_path / ".evals" / "config.toml"
    file.write_text(WRITTEN)
    return file


def test_one_value_changes_and_everything_around_it_stays(tmp_path, file):
    write_setting(tmp_path, ("ui", "theme"), "nord")
    assert file.read_text() == WRITTEN.replace('"dark"', '"nord"')
    write_setting(tmp_path, ("run", "targets"), ("main", "demo"))
    assert file.read_text() == WRITTEN.replace('"dark"', '"nord"').replace('["main"]', '["main", "demo"]')
    assert load_settings(tmp_path).run.targets == ("main", "demo")


def test_a_new_section_comes_last_and_a_new_setting_into_its_section(tmp_path, file):
    write_setting(tmp_path, ("judge", "target"), "main")
    write_setting(tmp_path, ("run", "concurrency"), 4)
    text = file.read_text()
    assert text.endswith('[judge]\ntarget = "main"\n') and "repeats = 2\nconcurrency = 4\n" in text
    settings = load_settings(tmp_path)
    assert (settings.judge, settings.run.concurrency, settings.ui["theme"]) == ("main", 4, "dark")


def test_none_removes_a_setting_and_only_that(tmp_path, file):
    write_setting(tmp_path, ("run", "repeats"), None)
    assert file.read_text() == WRITTEN.replace("repeats = 2\n", "")


def test_where_there_is_no_file_one_is_made(tmp_path):
    write_setting(tmp_path, ("ui", "theme"), "ansi")
    file = tmp_path / ".evals" / "config.toml"
    assert file.read_text() == '[ui]\ntheme = "ansi"\n'
    assert os.listdir(file.parent) == ["config.toml"]


def test_what_changes_nothing_writes_nothing(tmp_path):
    write_setting(tmp_path, ("ui", "theme"), None)
    assert not (tmp_path / ".evals").exists()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (("run", "repeats"), 0, "run.repeats should be greater than or equal to 1"),
        (("run", "repeat"), 3, "there is no setting run.repeat .did you mean 'repeats'"),
        (("targets", "main", "model"), None, "targets.main.model is missing"),
        (("targets", "main", "api_key"), "sk-canary", "must name an environment variable"),
        (("ui", "theme", "name"), "x", "theme is not a section"),
        (("ui", "theme"), object(), "ui.theme could not be set"),
        (("ui", "theme"), "\ud800", "config.toml"),
    ],
)
def test_a_refusal_names_the_file_and_leaves_it_alone(tmp_path, file, key, value, said):
    with pytest.raises(ConfigurationError, match=said) as refused:
        write_setting(tmp_path, key, value)
    assert str(file) in str(refused.value) and ".config." not in str(refused.value)
    assert "canary" not in str(refused.value)
    assert file.read_text() == WRITTEN and os.listdir(file.parent) == ["config.toml"]


@pytest.mark.parametrize("broken", [b"[ui\ntheme = 1", b"\xff"])
def test_a_broken_file_is_not_touched(tmp_path, file, broken):
    file.write_bytes(broken)
    with pytest.raises(ConfigurationError, match=str(file)):
        write_setting(tmp_path, ("ui", "theme"), "x")
    assert file.read_bytes() == broken


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_a_sentence(tmp_path, file):
    file.parent.chmod(0o500)
    with pytest.raises(ConfigurationError, match="it is as it was"):
        write_setting(tmp_path, ("ui", "theme"), "x")
    file.parent.chmod(0o700)


def test_mode_links_and_line_ends_are_kept(tmp_path, file):
    elsewhere = tmp_path / "shared.toml"
    elsewhere.write_bytes(WRITTEN.replace("\n", "\r\n").encode())
    elsewhere.chmod(0o640)
    file.unlink()
    file.symlink_to(elsewhere)
    write_setting(tmp_path, ("ui", "theme"), "nord")
    assert file.is_symlink() and elsewhere.stat().st_mode & 0o777 == 0o640
    assert elsewhere.read_bytes() == WRITTEN.replace('"dark"', '"nord"').replace("\n", "\r\n").encode()


names = st.text("abcXYZ-_ .é\n\"'", min_size=1, max_size=6)
values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from(["", WRITTEN, "ui.a.b = 1 # here\n", "ui = { a = { b = 1 } }\n", "[ui.a]\nb = 1\n[run]\n[ui.c]\n"]),
    st.lists(st.tuples(st.lists(names, min_size=1, max_size=3), st.none() | values), max_size=4),
)
def test_whatever_is_set_is_read_back_or_refused_with_the_file_as_it_was(tmp_path_factory, text, changes):
    root = tmp_path_factory.mktemp("project")
    (root / ".evals").mkdir()
    file = root / ".evals" / "config.toml"
    file.write_text(text)
    for path, value in changes:
        before = file.read_bytes()
        settings = tomllib.loads(before.decode())
        try:
            write_setting(root, ("ui", *path), value)
        except ConfigurationError as refused:
            odd = isinstance(value, dict) or text.startswith("ui.a.b")
            assert "is not a section" in str(refused) or (odd and "by hand" in str(refused))
            assert file.read_bytes() == before
            continue
        after = tomllib.loads(file.read_bytes().decode())
        wanted = changed(settings, ["ui", *path], value)
        assert after == wanted or (value is None and without_empty(after) == without_empty(wanted))
        assert all(comment in file.read_text() for comment in ("# the cheap one", "# settled") if comment in text)


def changed(settings, path, value):
    found = deepcopy(settings)
    place = found
    for name in path[:-1]:
        if name not in place and value is None:
            return found
        place = place.setdefault(name, {})
    if value is None:
        place.pop(path[-1], None)
    else:
        place[path[-1]] = value
    return found


def without_empty(settings):
    if not isinstance(settings, dict):
        return settings
    found = {name: without_empty(part) for name, part in settings.items()}
    return {name: part for name, part in found.items() if part != {}}
