"""Pictures that go along with questions, looked at in the panes of the item and of the answer."""

import json
import struct
import sys
import zlib

import pytest
from PIL import Image

from tests.tui.story import at_the_workbench
from tui_evals.datasets.attachments import CannotAttach
from tui_evals.tui.pictures import CannotDraw, Picture, read_picture

RED, BLUE, CLEAR = (255, 0, 0, 255), (0, 0, 255, 255), (0, 0, 0, 0)


def paint(file, width, height, colour_at):
    image = Image.new("RGBA", (width, height))
    image.putdata([colour_at(x, y) for y in range(height) for x in range(width)])
    image.save(file)


def claims(width, height):
    """The beginning of a PNG that says how large it is, and is no more."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">II", zlib.crc32(head), 9) + b"IDAT"


@pytest.fixture
def folder(project):
    paint(project.folder / "flag.png", 40, 40, lambda x, y: RED if y < 20 else BLUE)
    paint(project.folder / "clear.png", 200, 10, lambda x, y: CLEAR if x < 100 else RED)
    (project.folder / "table.csv").write_text("x,1\n")
    files = ["flag.png", "table.csv", "clear.png"]
    items = [{"testId": "T1", "prompt": "What is it?", "attachments": files}, {"testId": "T2", "prompt": "And this?"}]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {}, "items": items}
    (project.folder / "data.json").write_text(json.dumps(document))
    return project.folder


def colours(person):
    """The picture on screen as the points of its cells: upper and lower, row by row."""
    picture = person.app.screen.query_one(Picture)
    lines = [picture.render_line(y) for y in range(picture.size.height)]
    return [
        [
            (tuple(s.style.color.triplet), tuple(s.style.bgcolor.triplet))
            for s in line
            for _ in s.text
            if s.text[0] == "▀"
        ]
        for line in lines
    ]


@pytest.mark.nightly
async def test_the_pictures_of_an_item_one_after_the_other(folder):
    async with at_the_workbench(folder, dataset="data.json") as person:
        await person.press("2", "V")
        assert "no picture goes along here" in person.said()
        await person.press("1", "j", "2", "V")
        await person.until(lambda: "[flag.png, image/png" in person.screen())
        assert "40 × 40 · 1 of 2 · ← → others" in person.screen()
        rows = [row for row in colours(person) if row]
        assert rows[0][0] == (RED[:3], RED[:3]) and rows[-1][-1] == (BLUE[:3], BLUE[:3])
        assert len(rows[0]) == 2 * len(rows), "a point is as wide as it is high"
        await person.press("right")
        await person.until(lambda: "[clear.png, image/png" in person.screen())
        wide = next(row for row in colours(person) if row)
        assert (
            wide[-1] == (RED[:3], RED[:3])
            and wide[0][0] == person.app.screen.query_one(Picture).background_colors[1].rgb
        )
        (folder / "flag.png").write_bytes(claims(40, 40))
        await person.press("right")
        await person.until(lambda: "'flag.png' cannot be read as a picture" in person.screen())
        assert not any(colours(person))
        await person.press("escape")
        assert "╭─ pictures" not in person.screen()


@pytest.mark.nightly
async def test_the_pictures_of_an_answer_and_that_one_is_another_now(folder, project):
    project.do("run", "data.json", "--target", "main")
    paint(folder / "clear.png", 200, 12, lambda x, y: BLUE)
    async with at_the_workbench(folder, dataset="data.json") as person:
        await person.press("4", "g", "enter")
        await person.until(lambda: "What is it?" in person.screen() and "[flag.png" in "\n".join(person.rows("detail")))
        await person.press("V")
        await person.until(lambda: "[flag.png, image/png" in person.screen())
        assert "another file" not in person.screen()
        await person.press("n")
        await person.until(lambda: "[clear.png, image/png" in person.screen())
        assert "another file now" in " ".join(person.screen().split())


@pytest.mark.nightly
async def test_without_colours_there_is_a_sentence_and_without_signs_there_are_blanks(folder, monkeypatch):
    (folder / ".evals" / "config.toml").write_text("[ui]\nascii = true\n")
    async with at_the_workbench(folder, dataset="data.json") as person:
        await person.press("j", "2", "V")
        await person.until(lambda: "[flag.png, image/png" in person.screen())
        picture = person.app.screen.query_one(Picture)
        middle = picture.render_line(0)
        assert not middle.text.strip() and RED[:3] in [tuple(s.style.bgcolor.triplet) for s in middle]
    monkeypatch.setenv("NO_COLOR", "1")
    async with at_the_workbench(folder, dataset="data.json") as person:
        await person.press("j", "2", "V")
        await person.until(lambda: "NO_COLOR asks for none" in person.said())


def test_what_cannot_be_drawn_is_a_sentence(folder, monkeypatch):
    (folder / "huge.png").write_bytes(claims(16_000, 16_000))
    with pytest.raises(CannotDraw, match="16,000 × 16,000 points, which are too many"):
        read_picture(folder, {"path": "huge.png"})
    (folder / "false.png").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(CannotAttach, match="is image/jpeg by its content"):
        read_picture(folder, {"path": "false.png"})
    with pytest.raises(CannotAttach, match="no file"):
        read_picture(folder, {"path": "gone.png"})
    with pytest.raises(CannotAttach, match="no path to a file"):
        read_picture(folder, {"path": "../flag.png"})
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(CannotDraw, match=r"pip install 'tui-evals\[pictures\]'"):
        read_picture(folder, {"path": "flag.png"})
