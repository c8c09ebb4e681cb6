"""What is pasted into a new prompt is the prompt: nothing stands before it, in the file neither."""

import json

import pytest
from textual.app import App

from tests.tui.terminal import pasted, workbench
from tui_evals.tui.widgets.dialogs import AskLong
from tui_evals.tui.widgets.inputs import EditArea


@pytest.mark.story
def test_a_paste_into_a_new_prompt_and_over_a_selection_is_what_the_file_holds(tmp_path):
    file = tmp_path / "evals" / "evals.json"

    def items():
        return json.loads(file.read_text())["items"]

    with workbench(tmp_path) as terminal:
        terminal.wait("all keys")
        terminal.after("\x0e", "a new dataset")
        terminal.after("\r", "esc done")
        terminal.after("\r" + pasted("What is …\rand why?"), "and why")
        terminal.press("\x1b\x13")
        terminal.until(lambda: file.exists() and items() == [{"prompt": "What is …\nand why?"}])
        terminal.after("\r", "esc done")
        lines = [f"line {number}" for number in range(200)]
        terminal.after("\x1b[18~" + pasted("\r".join(lines)), "line 199")  # f7 selects all
        terminal.press("\x13")
        terminal.until(lambda: items() == [{"prompt": "\n".join(lines)}])
        terminal.press("q")
        assert terminal.end() == 0


class Areas(App):
    def compose(self):
        yield EditArea("New prompt")


async def test_every_area_replaces_what_is_selected_and_takes_away_what_a_terminal_would_obey():
    async with Areas().run_test() as pilot:
        app = pilot.app
        area = app.query_one(EditArea)
        area.select_all()
        app.post_message(paste("one\r\ntwo\rthree\x1b[2J"))
        await pilot.pause()
        assert area.text == "one\ntwo\nthree" and area.selection.is_empty
        app.push_screen(AskLong("a rule", "old words", check=lambda text: None), print)
        await pilot.pause()
        area = app.screen.query_one(EditArea)
        area.select_all()
        app.post_message(paste("new\rwords"))
        await pilot.pause()
        assert area.text == "new words"


def paste(text):
    from textual.events import Paste

    return Paste(text)
