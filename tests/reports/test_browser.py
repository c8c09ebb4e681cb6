"""The page of a report in a real browser: a run of 2,000 items, and one in which every text is hostile."""

import asyncio
import json
import re

import pytest
import pytest_asyncio

from tests.reports.browser import ABSENT, CHROMIUM, browsing
from tests.reports.made import add_run, store
from tests.reports.test_html import evil
from tui_evals.reports.page import cards, page
from tui_evals.store.reader import Reader

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(CHROMIUM is None, reason=ABSENT),
    pytest.mark.asyncio(loop_scope="module"),
]

COUNT = 2_000
SHOWN = "Array.from(document.querySelectorAll('.card')).filter((card) => !card.hidden)"
FOCUS = "document.activeElement.closest('.card')?.id"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The pages: a large run, a small comparison, and hostile ones."""
    folder = tmp_path_factory.mktemp("pages")
    asyncio.run(_write(folder))
    return folder


async def _write(folder):
    path = store(folder)
    large = await add_run(path, COUNT, name="large")
    small = [await add_run(path, 40, shift=shift, name=f"small {shift}") for shift in range(3)]
    bad = [await add_run(path, 12, say=evil, targets=2, shift=shift) for shift in range(2)]
    with Reader(path) as reader:
        for name, ids in {"large": [large], "small": small, "evil": bad[:1], "evils": bad}.items():
            made = page(reader, [reader.run(one) for one in ids])
            (folder / f"{name}.html").write_text(made, encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cards, "WHOLE", 10)
            for name, run in (("huge", large), ("evil-huge", bad[0])):
                (folder / f"{name}.html").write_text(page(reader, [reader.run(run)]), encoding="utf-8")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory):
    async with browsing(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def opened(browser, files):
    """Opens a page and says it must be quiet: no complaint and no request but for the file itself."""

    async def open_page(name, *size, **given):
        await browser.open(files / f"{name}.html", *size, **given)
        return browser

    yield open_page
    assert browser.complaints == [] and browser.dialogs == []
    assert len(browser.requests) == 1 and browser.requests[0].startswith("file://")


async def count_of(page):
    """How many items the page says it shows, which must be true."""
    said = await page.value("document.querySelector('#count').value")
    shown = await page.value(f"{SHOWN}.length")
    assert int(re.match(r"[\d,]+", said)[0].replace(",", "")) == shown
    return shown


@pytest.mark.nightly
async def test_every_item_has_a_card_and_every_plot_a_size(opened):
    page = await opened("large")
    assert await page.value("document.querySelectorAll('.card').length") == COUNT
    assert await page.value("document.querySelector('#count').value") == "2,000 items"
    assert await page.value("document.querySelector('#tools').hidden") is False
    sizes = await page.value(
        "Array.from(document.querySelectorAll('svg'), (plot) => { const box = plot.getBoundingClientRect(); "
        "return [plot.getAttribute('class'), box.width, box.height] })"
    )
    assert {kind for kind, *_ in sizes} == {"stacked", "meter", "histogram"}
    assert all(width > 40 and height > 7 for _, width, height in sizes)
    bars = "document.querySelectorAll('.histogram .bar').length"
    assert await page.value(bars) >= 5
    fill = "getComputedStyle(document.querySelector('.histogram .bar')).fill"
    assert await page.value(fill) not in ("", "rgb(0, 0, 0)", "none")


@pytest.mark.nightly
async def test_cards_are_filtered_by_status_category_and_evaluator_and_the_count_follows(opened):
    page = await opened("large")
    failed = "[...document.querySelectorAll('.card')].filter((card) => card.dataset.is.includes('s-fail')).length"
    await page.choose("#cycle", "s-fail")
    assert await count_of(page) == await page.value(failed) > 100
    assert await page.value(f"{SHOWN}.every((card) => card.querySelector('.status').textContent.includes('fail'))")
    every = await count_of(page)
    category = "document.querySelector('#category').options[1]"
    name = await page.value(f"{category}.textContent")
    await page.choose("#category", await page.value(f"{category}.value"))
    assert 0 < await count_of(page) < every
    names = await page.value(f"[...new Set({SHOWN}.map((card) => card.querySelector('summary > .chip').textContent))]")
    assert names == [name]
    await page.choose("#failed", await page.value("document.querySelector('#failed').options[1].value"))
    await page.until("!document.querySelector('#none').hidden")
    assert await count_of(page) == 0
    await page.click("#clear")
    assert await count_of(page) == COUNT


async def test_search_finds_words_anywhere_in_an_item(opened):
    page = await opened("large")
    await page.press("/")
    assert await page.value("document.activeElement.id") == "search"
    await page.type("NUMBER 1234,")
    await page.until("document.querySelector('#count').value.includes(' of ')")
    found = await page.value(f"{SHOWN}.map((card) => card.textContent.includes('number 1234,'))")
    assert found and all(found)
    assert await count_of(page) == len(found)
    await page.press("Escape")
    await page.until("document.querySelector('#count').value === '2,000 items'")
    assert await page.value("document.activeElement === document.body")


@pytest.mark.nightly
async def test_keys_walk_through_the_items_and_open_them(opened):
    page = await opened("large")
    await page.press("j")
    assert await page.value(FOCUS) == "i1"
    await page.press("j", "j", "j")
    assert await page.value(FOCUS) == "i4"
    await page.press("ArrowUp", "k")
    assert await page.value(FOCUS) == "i2"
    before = await page.value("document.querySelector('#i2').open")
    await page.press("Enter")
    await page.until(f"document.querySelector('#i2').open !== {json.dumps(before)}")
    await page.press(" ")
    await page.until(f"document.querySelector('#i2').open === {json.dumps(before)}")
    await page.press("f")
    status = await page.value("document.querySelector('#cycle').value")
    assert status == "s-pass" and await count_of(page) < COUNT
    await page.press("F")
    assert await count_of(page) == COUNT
    await page.press("c")
    assert await page.value("document.querySelectorAll('.card[open]').length") == 0
    await page.press("o")
    assert await page.value("document.querySelectorAll('.card[open]').length") == COUNT


async def test_a_focused_item_is_in_sight_and_its_focus_can_be_seen(opened):
    page = await opened("large")
    await page.press("c", *"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjj")
    box = await page.value(
        "(({top, bottom}) => [top, bottom, innerHeight])(document.activeElement.getBoundingClientRect())"
    )
    top, bottom, height = box
    under = "document.querySelector('#tools').getBoundingClientRect().bottom"
    assert await page.value(under) <= top + 1 and bottom <= height + 1
    assert await page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"


async def test_the_list_of_keys_opens_and_closes(opened):
    page = await opened("large")
    await page.press("?")
    await page.until("document.querySelector('#keys').open")
    await page.press("j")
    assert await page.value(FOCUS) is None
    await page.press("Escape")
    await page.until("!document.querySelector('#keys').open")


async def test_a_conversation_opens_and_its_turns_too(opened):
    page = await opened("large")
    talk = "[...document.querySelectorAll('.card')].find((card) => !card.open && card.querySelector('.turn'))"
    place = await page.value(f"{talk}.id")
    await page.click(f"#{place} > summary")
    await page.until(f"document.querySelector('#{place}').open")
    turns = f"#{place} .turn"
    assert await page.value(f"document.querySelectorAll('{turns}').length") == 3
    assert await page.value(f"document.querySelector('{turns}').open") is False
    await page.click(f"{turns} > summary")
    await page.until(f"document.querySelector('{turns}').open")
    seen = f"document.querySelector('{turns} .said .d').getBoundingClientRect().height > 10"
    assert await page.value(seen)
    await page.press("Enter")
    await page.until(f"!document.querySelector('{turns}').open")


async def test_every_control_and_item_is_reached_with_tab(opened):
    page = await opened("small")
    await page.press("c")
    names = []
    for _ in range(30):
        await page.press("Tab")
        names.append(await page.value("document.activeElement.id || document.activeElement.tagName"))
    order = ["search", "cycle", "category", "failed", "order", "open", "close", "theme", "help", "SUMMARY"]
    assert [name for name in names if name in order][: len(order)] == order


@pytest.mark.parametrize("dark", [False, True])
async def test_light_and_dark_follow_the_system_until_somebody_chooses(opened, dark):
    page = await opened("small", dark=dark)
    light = "getComputedStyle(document.body).backgroundColor"
    bright = f"{light}.match(/\\d+/g).slice(0, 3).every((part) => part > 128)"
    assert await page.value(bright) is not dark
    await page.click("#theme")
    assert await page.value(bright) is dark
    await page.press("t")
    assert await page.value(bright) is not dark


@pytest.mark.nightly
async def test_the_worst_items_come_first_when_they_are_asked_for(opened):
    page = await opened("large")
    await page.choose("#order", "rank")
    ranks = await page.value("[...document.querySelectorAll('.card')].map((card) => Number(card.dataset.rank))")
    assert ranks == sorted(ranks) and ranks[0] < ranks[-1]
    await page.choose("#order", "")
    assert await page.value("document.querySelector('.card').id") == "i1"


async def test_a_comparison_is_filtered_by_kind_and_draws_its_plots(opened):
    page = await opened("small")
    assert await page.value("document.querySelectorAll('.card').length") == 40
    broken = await page.value(
        "[...document.querySelector('#cycle').options].find((one) => one.text.includes('broken')).value"
    )
    await page.choose("#cycle", broken)
    assert 0 < await count_of(page) < 40
    assert await page.value("document.querySelectorAll('.scatter circle').length") >= 2
    assert await page.value("document.querySelectorAll('.steps polyline').length") >= 6
    sides = "document.querySelector('.card:not([hidden]) .sides').querySelectorAll('.side').length"
    assert await page.value(sides) == 3


@pytest.mark.parametrize("name", ["large", "small", "evil", "evils"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_nothing_sticks_out_of_the_page(opened, name, width):
    page = await opened(name, width, 800)
    assert await page.value("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["evil", "evils"])
async def test_hostile_texts_do_nothing(opened, name):
    names = "Object.getOwnPropertyNames(window)"
    page = await opened("small")
    usual = set(await page.value(names))
    page = await opened(name)
    foreign = "document.querySelectorAll('img, iframe, object, embed, link, a:not(.skip, [href^=\"#\"])').length"
    assert await page.value(foreign) == 0
    ours = "[...document.scripts].filter(one => !one.type.startsWith('application/')).length"
    assert await page.value(ours) == 1  # besides, the answers stand there as data
    await page.press("o")
    for selector in ("#cycle", "#category", "#target", "#failed"):
        options = f"document.querySelector('{selector}').options"
        for place in range(await page.value(f"{options}.length")):
            await page.choose(selector, await page.value(f"{options}[{place}].value"))
    await page.value("document.querySelector('#clear').click()")
    await page.press("/")
    await page.type("<img src=x onerror=alert(1)>")
    await page.until("document.querySelector('#search').value !== ''")
    assert await count_of(page) == 12
    assert set(await page.value(names)) <= usual


LINES = "[...document.querySelectorAll('#rows tr')]"


async def test_a_huge_run_is_a_table_that_is_filtered_searched_and_paged(opened):
    page = await opened("huge")
    await page.until("!document.querySelector('#table').hidden")
    range_ = "document.querySelector('#range').value"
    assert await page.value("document.querySelector('#count').value") == "3,000 answers"
    assert (await page.value(range_), await page.value(f"{LINES}.length")) == ("1–50 of 3,000", 50)
    await page.click("#next")
    assert await page.value(range_) == "51–100 of 3,000"
    await page.press("n", "p", "p")
    assert await page.value(range_) == "1–50 of 3,000"
    assert await page.value("document.querySelector('#back').disabled")

    await page.choose("#cycle", "s-fail")
    count = await page.value("document.querySelector('#count').value")
    assert re.fullmatch(r"\d{3} of 3,000 answers", count)
    assert await page.value(f"{LINES}.every((line) => line.querySelector('.status').textContent === '✗ fail')")
    category = await page.value("document.querySelector('#category').options[2].value")
    await page.choose("#category", category)
    judge = "[...document.querySelector('#failed').options].find((one) => one.text === 'failed Relevance').value"
    await page.choose("#failed", await page.value(judge))
    fewer = await page.value("document.querySelector('#count').value")
    assert 0 < int(fewer.split()[0]) < int(count.split()[0])
    await page.value("document.querySelector('#clear').click()")
    await page.press("/")
    await page.type("ITEM-1234")
    await page.until("document.querySelector('#count').value === '1 of 3,000 answers'")
    assert await page.value(f"{LINES}[0].cells[4].textContent") == "what is 1234?"
    await page.type(" nowhere")
    await page.until("!document.querySelector('#none').hidden")
    assert await page.value(range_) == "no answer"
    await page.click("#clear")
    assert await page.value(range_) == "1–50 of 3,000"

    await page.choose("#order", "rank")
    assert await page.value(f"{LINES}[0].querySelector('.status').textContent") == "! error"
    link = "document.querySelector('#rows a')"
    target = await page.value(f"{link}.getAttribute('href')")
    await page.click("#rows a")
    await page.until(f"document.querySelector('{target}').open")


async def test_hostile_texts_do_nothing_in_a_table(opened):
    page = await opened("evil-huge")
    await page.until("!document.querySelector('#table').hidden")
    assert await page.value(f"{LINES}.length") == 36
    assert await page.value("document.querySelectorAll('#rows :not(tr, td, i, a, .status)').length") == 0
    assert "</script><script>alert(1)" in await page.value("document.querySelector('#rows').textContent")
    assert await page.value("document.documentElement.scrollWidth <= innerWidth")


async def test_everything_can_be_read_without_script(browser, files):
    await browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        await browser.open(files / "small.html")
        found = await browser.call("DOM.getDocument", depth=0)
        cards = await browser.call("DOM.querySelectorAll", nodeId=found["root"]["nodeId"], selector=".card[open] .said")
        assert len(cards["nodeIds"]) > 5
        tools = await browser.call("DOM.querySelector", nodeId=found["root"]["nodeId"], selector="#tools[hidden]")
        assert tools["nodeId"]
    finally:
        await browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.complaints == []


async def test_a_printed_page_has_the_texts_of_closed_items_too(opened):
    page = await opened("small")
    await page.press("c")
    closed = "document.querySelector('.card .said .d').checkVisibility({contentVisibilityAuto: false})"
    height = "document.querySelector('.card .said .d').getBoundingClientRect().height"
    assert await page.value(height) == 0 or not await page.value(closed)
    await page.call("Emulation.setEmulatedMedia", media="print")
    assert await page.value(height) > 5
    assert await page.value("getComputedStyle(document.querySelector('#tools')).display") == "none"
    await page.call("Emulation.setEmulatedMedia", media="")
