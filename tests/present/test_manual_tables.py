"""Tables of the manual are made from declarations, and the examples of the page on filters can be read."""

import re

from tui_evals.present.manual_tables import PAGES, with_tables
from tui_evals.store.filters import FILTER_KEYS, parse_filter

FILTERS = next(page for page in PAGES if page.name == "filters.md")


def test_the_tables_of_each_page_are_those_of_the_declarations():
    for file in PAGES:
        page = file.read_text(encoding="utf-8")
        assert page == with_tables(page), "stale; run: python -m tui_evals.present.manual_tables"
    page = FILTERS.read_text(encoding="utf-8")
    assert all(f"    {key.example} " in page for key in FILTER_KEYS.values())
    assert with_tables(page.replace("    turn:2", "    turn:3")) == page


def test_every_example_of_the_page_is_a_filter():
    page = FILTERS.read_text(encoding="utf-8").partition("## In the workbench")[0]
    examples = [line.split("  ")[0] for line in re.findall(r"^    (\S.*)$", page, re.MULTILINE)]
    assert len(examples) > 25
    for example in examples:
        assert parse_filter(example).terms, example


def test_each_key_is_the_one_of_its_example():
    assert [parse_filter(key.example).terms[0].key for key in FILTER_KEYS.values()] == list(FILTER_KEYS)
