"""The pictures in screenshots/ are those the program makes now, and the README shows each of them."""

import re
import subprocess
import sys
from itertools import accumulate
from xml.etree import ElementTree

import pytest

from tests.pictures.script import played
from tests.screenshots import COMMAND, FOLDER, GALLERY, MOST_BYTES, SESSION, pictures_of_commands

README = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return played(tmp_path_factory.mktemp("played") / "base")


@pytest.mark.story
@pytest.mark.cases(3)
@pytest.mark.parametrize("name", GALLERY.shots)
async def test_a_picture_of_the_workbench_is_current(name, base, tmp_path):
    await GALLERY.check(name, base, tmp_path)


@pytest.mark.nightly
async def test_the_recorded_session_is_current(base, tmp_path):
    recorded = await SESSION.record(base, tmp_path)
    (tmp_path / "session.svg").write_text(recorded, encoding="utf-8")
    kept = (FOLDER / "session.svg").read_text(encoding="utf-8")
    assert recorded == kept, f"session.svg is stale (now: {tmp_path / 'session.svg'}); run: {COMMAND} session"


def test_the_recorded_session_plays_every_scene_once_and_needs_no_script():
    recorded = (FOLDER / "session.svg").read_text(encoding="utf-8")
    assert (
        len(recorded.encode()) < MOST_BYTES and "<script" not in recorded and "http" not in recorded.split("-->", 1)[1]
    )
    root = ElementTree.fromstring(recorded)
    scenes = [group for group in root.iter(f"{SVG}g") if (group.get("class") or "").startswith("scene ")]
    assert [scene.findtext(f"{SVG}text") for scene in scenes] == [scene.caption for scene in SESSION.scenes]
    shown = re.findall(r"@keyframes s\d+ \{.*?([\d.]+)% \{ visibility: visible \}", recorded)
    total = sum(scene.seconds for scene in SESSION.scenes)
    began = accumulate(SESSION.scenes, lambda at, scene: at + scene.seconds, initial=0.0)
    assert [float(at) for at in shown] == pytest.approx([100 * at / total for at in began][:-1], abs=0.01)


def test_the_readme_quotes_what_the_recorded_session_says():
    recorded = "".join(ElementTree.fromstring((FOLDER / "session.svg").read_text(encoding="utf-8")).itertext())
    (quoted,) = re.findall(r"^> (.+)$", README, re.MULTILINE)
    assert quoted in recorded.replace("\xa0", " ")


@pytest.mark.story
def test_the_failure_map_of_the_readme_is_that_of_the_recorded_run(base):
    command = [sys.executable, "-m", "tui_evals", "show", "last", "--map"]
    shown = subprocess.run(command, cwd=base, capture_output=True, text=True, check=True).stdout
    printed = [line.split() for line in shown.splitlines()]
    quoted = re.findall(r"^(failures .+|  +\d+ +\d+ %.+)$", README, re.MULTILINE)
    assert len(quoted) == 3
    for line in quoted:
        assert any(not {*line.replace("…", "").split()} - {*words} for words in printed), line


@pytest.mark.nightly
def test_the_pictures_of_commands_are_current(tmp_path):
    for name, picture in pictures_of_commands(tmp_path).items():
        assert (FOLDER / name).read_text(encoding="utf-8") == picture, f"{name} is stale; run: {COMMAND}"


def test_the_readme_shows_every_picture():
    shown = re.findall(r"!\[[^]]+]\(screenshots/(.+?)\)", README)
    assert sorted(shown) == sorted(file.name for file in FOLDER.glob("*.svg"))
    assert {name.removesuffix(".svg") for name in shown} >= set(GALLERY.shots)
