"""Every colour of every theme can be read where it is used: 4.5 to 1 for texts, 3 to 1 for shapes."""

import re
from pathlib import Path

import pytest
from rich.color import ColorType
from textual.color import Color
from textual.theme import BUILTIN_THEMES

import tui_evals.tui
from tests.tui.stored_runs import add_run, fresh
from tests.tui.story import at_the_workbench, write
from tui_evals.tui.colors import DARK, LIGHT, SHAPE, TEXT, contrast, in_256, readable
from tui_evals.tui.widgets.dialogs import Entry, Menu
from tui_evals.tui.widgets.lines import Lines

THEMES = [*BUILTIN_THEMES.values(), DARK, LIGHT]
SHEETS = [
    file.read_text() for file in Path(tui_evals.tui.__file__).parent.rglob("*") if file.suffix in (".py", ".tcss")
]

FIELDS = {"background", "surface"}
TINTS = {"boost", "success-muted", "error-muted", "warning-muted"}
BARS = {
    "block-cursor": "what the keys go to",
    "block-cursor-blurred": "where one was",
    "input-selection": "what is marked in a text",
}
TEXTS = {"foreground", "text-muted", "foreground-muted", "foreground-disabled", "text-disabled"} | {
    *("accent", "primary", "text-primary", "text-error", "text-success", "text-warning"),
}
SHAPES = {"accent", "border", "border-blurred", "error", "warning", "success", "scrollbar", "scrollbar-active"}


def used(pattern):
    return {name for sheet in SHEETS for name in re.findall(pattern, sheet)}


def test_what_the_sheets_and_spans_use_is_what_is_measured_below():
    inks = used(r"(?<![-\w])(?:border-title-)?color: \$([a-z-]+)") | used(r'"\$([a-z-]+)(?: bold)?"')
    bars = {f"{bar}-{part}" for bar in (*BARS, "input-cursor") for part in ("background", "foreground")}
    assert inks - bars <= TEXTS
    assert used(r"background: \$([a-z-]+)") - bars <= FIELDS | TINTS
    assert used(r"border(?:-\w+)?: \w+ \$([a-z-]+)") <= SHAPES
    assert not used(r"\$(?:panel|success|error|warning)-(?:light|dark)en")


@pytest.mark.parametrize("only_256", [False, True], ids=["true colour", "256 colours"])
@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_pair_of_a_theme_has_the_contrast(theme, only_256):
    colours = readable(theme, only_256)
    if theme.ansi:  # the terminal's own colours, which its owner can read
        names = TEXTS | SHAPES | TINTS - {"boost"}
        assert all(colours[name].startswith("ansi_") for name in names)
        return

    def shown(colour):
        return in_256(colour) if only_256 else colour

    def named(name):
        return Color.parse(colours[name])

    def pair(ink, ground, least, what):
        found = contrast(shown(ink), shown(ground))
        assert found >= least, f"{what}: {found:.2f}"

    fields = [named(name) for name in FIELDS]
    grounds = [*fields, *(field + named(tint) for field in fields for tint in TINTS)]
    for name in TEXTS:
        for ground in grounds:
            pair(named(name), ground, TEXT, f"{name} on {ground.hex}")
    for name in SHAPES:
        for field in fields:
            pair(named(name), field, SHAPE, f"{name} on {field.hex}")
    for name, what in {**BARS, "input-cursor": "where one types"}.items():
        bar = named(f"{name}-background")
        pair(named(f"{name}-foreground"), bar, TEXT, f"the text of {what}")
        for field in fields:
            pair(bar, field, SHAPE, f"{what} on {field.hex}")


def test_passing_and_failing_are_no_shades_of_green_and_red():
    for theme in THEMES:
        if not theme.ansi:
            passed, failed = (Color.parse(readable(theme)[name]) for name in ("text-success", "text-error"))
            assert passed.b > passed.r and failed.r > failed.b and failed.g > failed.b


BOX = re.compile(r"[\s─-▟]*")


def cells_of(app):
    for strip in app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if text.strip() and style is not None and style.color and style.bgcolor:
                pair = (style.bgcolor, style.color) if style.reverse else (style.color, style.bgcolor)
                yield text, *pair


@pytest.mark.nightly
async def test_what_is_really_drawn_has_the_contrast_in_every_theme(tmp_path):
    """The panes with their cursors, a dialog, a toast, the footer and a search that has found something."""
    path = fresh(tmp_path)
    await add_run(path, [("pass", "the answer"), ("fail", "no answer"), None], status="interrupted", expected="the one")
    items = [{"prompt": f"question {number}", "expected_response": "the one"} for number in range(60)]
    write(tmp_path / "data.json", {"schemaVersion": "1.11.0", "items": items})
    async with at_the_workbench(tmp_path, size=(150, 30), dataset="data.json", run="last") as person:
        await person.press("4", "down")
        await person.sees("because of")
        person.app.query_one("#detail").query(Lines).last().mark("answer")
        person.app.tell("something went wrong", "error")
        menu = Menu("a menu", [Entry(1, "one", "about it", marked=True), Entry(2, "two", why_not="no")], several=True)
        person.app.push_screen(menu)
        await person.sees("tab marks")
        for theme in THEMES:
            person.app.theme = theme.name
            await person.pilot.pause()
            await person.pilot.pause()
            seen = list(cells_of(person.app))
            assert len(seen) > 80
            for text, ink, ground in seen:
                if theme.ansi:
                    assert ColorType.TRUECOLOR not in (ink.type, ground.type), (theme.name, text)
                    continue
                found = contrast(Color.from_rich_color(ink), Color.from_rich_color(ground))
                least = SHAPE if BOX.fullmatch(text) else TEXT
                assert found >= least, f"{theme.name}: {text!r} {ink.name} on {ground.name} has {found:.2f}"
