"""The pictures in screenshots/ are those the program makes now, and the README shows each of them."""

import re

import pytest

from tests.pictures.script import played
from tests.screenshots import COMMAND, FOLDER, GALLERY, pictures_of_commands


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return played(tmp_path_factory.mktemp("played") / "base")


@pytest.mark.soak
@pytest.mark.parametrize("name", GALLERY.shots)
async def test_a_picture_of_the_workbench_is_current(name, base, tmp_path):
    await GALLERY.check(name, base, tmp_path)


@pytest.mark.soak
def test_the_pictures_of_commands_are_current(tmp_path):
    for name, picture in pictures_of_commands(tmp_path).items():
        assert (FOLDER / name).read_text(encoding="utf-8") == picture, f"{name} is stale; run: {COMMAND}"


def test_the_readme_shows_every_picture():
    shown = re.findall(r"!\[[^]]+]\(screenshots/(.+?)\)", (FOLDER.parent / "README.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(file.name for file in FOLDER.glob("*.svg"))
    assert {name.removesuffix(".svg") for name in shown} >= set(GALLERY.shots)
