"""Configurations in the manner of those that people publish: asked and judged here as the real promptfoo did.

What it asked, what was answered and how every assertion judged was recorded by tests/interop/promptfoo_set.mjs. An
assertion without an evaluator must be named in the losses, and one that is called changed may judge otherwise; every
other must judge the same.
"""

from __future__ import annotations

import pytest

from tests.interop.promptfoo_set import NAMES, compared
from tests.interop.table import PAGE, in_page, lines


@pytest.mark.parametrize("name", NAMES)
async def test_a_configuration_asks_and_judges_as_before(name: str) -> None:
    found = await compared(name)
    assert found.different == []
    assert found.rows > 0


def test_the_page_of_formats_holds_the_table_of_counts() -> None:
    assert in_page(PAGE.read_text(encoding="utf-8")) == lines()
