"""The pictures in screenshots/ are those the program makes now."""

from .screenshots import FOLDER, pictures


def test_the_pictures_are_current(tmp_path):
    made = pictures(tmp_path)
    assert {path.name for path in FOLDER.glob("*.svg")} == set(made)
    for name, picture in made.items():
        kept = (FOLDER / name).read_text(encoding="utf-8")
        assert kept == picture, f"{name} is stale; run: python -m tests.screenshots"
