"""Where only what changed is drawn, the terminal shows the same as if all around it were drawn too."""

import gc
import importlib
import inspect
import pkgutil
import random
from gc import collect  # the fixtures of this folder replace the one in the module

import pytest
from textual._compositor import Compositor
from textual.app import App
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Static

from tests.tui.test_wire import Screen
from tui_evals import tui
from tui_evals.tui.drawing import ChangesCompositor, ChangesScreen


class Overlapping(App[None]):
    """Boxes with titles in lists that are scrolled, and one that lies over several of them."""

    CSS = """
    Screen { layers: below above; layout: horizontal; overflow: hidden }
    VerticalScroll { width: 1fr; border: round red }
    .box { height: 4; border: solid blue }
    #over { layer: above; position: absolute; offset: 12 5; width: 20; height: 7 }
    """

    def get_default_screen(self):
        return ChangesScreen(id="_default")

    def compose(self):
        for _ in range(3):
            yield VerticalScroll(*(Static(f"box {number}", classes="box") for number in range(9)))
        yield Static("over", id="over")


@pytest.mark.nightly
async def test_what_is_drawn_alone_is_as_it_is_drawn_with_all_around_it(monkeypatch):
    app, chance, drawn = Overlapping(), random.Random(1), []
    alone, with_all = Screen(), Screen()
    draw_alone = ChangesCompositor.render_partial_update

    def draw_both(self):
        regions = set(self._dirty_regions)
        for terminal, draw in ((alone, draw_alone), (with_all, Compositor.render_partial_update)):
            self._dirty_regions = set(regions)
            update = draw(self)
            if update is not None:
                terminal.feed(update.render_segments(app.console))
        drawn.append(len(regions))
        return update

    monkeypatch.setattr(ChangesCompositor, "render_partial_update", draw_both)
    async with app.run_test(size=(60, 20)) as pilot:
        boxes, lists, over = [*app.query(".box")], [*app.query(VerticalScroll)], app.query_one("#over")
        for step in range(200):
            for box in chance.sample([*boxes, over], chance.randrange(4)):
                box.update(f"step {step}") if chance.random() < 0.5 else setattr(box, "border_title", f"title {step}")
            if chance.random() < 0.3:
                chance.choice(lists).scroll_to(y=chance.randrange(16), animate=False)
            if chance.random() < 0.2:
                over.styles.offset = chance.randrange(50), chance.randrange(16)
            if chance.random() < 0.2:
                over.display = not over.display
            app.screen.refresh(Region(chance.randrange(60), chance.randrange(20), chance.randrange(30), 1))
            await pilot.pause()
            assert alone.cells == with_all.cells, step
    assert sum(drawn) > len(drawn) > 100


async def test_a_widget_in_which_nothing_changed_is_not_drawn(monkeypatch):
    drawn, usual = [], Static.render_lines
    monkeypatch.setattr(Static, "render_lines", lambda self, crop: drawn.append(self) or usual(self, crop))
    app = Overlapping()
    async with app.run_test(size=(60, 20)) as pilot:
        first, *_, last = lists = [*app.query(VerticalScroll)]
        changed = [first.query(Static).first(), last.query(Static).last()]
        last.scroll_end(animate=False)
        while drawn or last.scroll_offset.y < last.max_scroll_y:
            drawn.clear()  # what scrolling draws, until nothing is drawn any more
            await pilot.pause()
        for box in changed:
            box.refresh()
        while not {*changed} <= {*drawn}:
            await pilot.pause()
        assert len(lists) == 3 and drawn and set(drawn) == set(changed)


@pytest.mark.nightly
async def test_a_key_leaves_no_drawn_lines_for_the_collector():
    app = Overlapping()
    async with app.run_test(size=(60, 20)) as pilot:
        boxes = [*app.query(".box")]
        await pilot.pause()
        collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for step in range(20):
                boxes[0].update(f"step {step}")
                app.query(VerticalScroll).first().scroll_to(y=step % 9, animate=False)
                await pilot.pause()
            collect()
            left = [one for one in gc.garbage if isinstance(one, Strip)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
    assert not left


async def test_scroll_bars_are_drawn_as_textual_draws_them():
    class Bars(App[None]):
        CSS = "VerticalScroll { width: 1fr; scrollbar-size-vertical: 1 } .wide { scrollbar-size-vertical: 2 }"

        def get_default_screen(self):
            return ChangesScreen(id="_default")

        def compose(self):
            for classes in ("", "wide"):
                yield VerticalScroll(*(Static(f"line {number}") for number in range(50)), classes=classes)

    app = Bars()
    async with app.run_test(size=(40, 17)) as pilot:
        for row in (0, 1, 7, 20, 33):
            for one in app.query(VerticalScroll):
                one.scroll_to(y=row, animate=False)
            await pilot.pause()
            ours, theirs = Screen(), Screen()
            for compositor, terminal in ((app.screen._compositor, ours), (Compositor(), theirs)):
                compositor.__dict__ = app.screen._compositor.__dict__
                compositor._dirty_regions = {Region(0, 0, 40, 17)}
                terminal.feed(compositor.render_partial_update().render_segments(app.console))
            assert ours.cells == theirs.cells


PRIVATE = {
    "_get_renders": "draws only the rows that changed",
    "_render_chops": "leaves no garbage, and draws scroll bars cheaply",
    "_arrange_scrollbars": "needs no second layout for the size of a scroll bar",
    "_refresh_scrollbars": "waits for a layout that is due, and leaves the bar of a list where it is",
    "_size_updated": "needs no second layout, and keeps scroll bars from coming and going",
}
"""Private methods of Textual that the workbench overrides; another release may rename them without a word."""


def test_private_methods_of_textual_that_are_overridden_are_listed_and_still_exist():
    found = {
        name
        for module in pkgutil.walk_packages(tui.__path__, "tui_evals.tui.")
        for kind in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(kind) and kind.__module__ == module.name
        for name, value in vars(kind).items()
        if name.startswith("_") and not name.startswith("__") and inspect.isfunction(value)
        if any(base.__module__.startswith("textual.") and name in vars(base) for base in kind.__mro__[1:])
    }
    assert found == set(PRIVATE)
