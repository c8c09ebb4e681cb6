"""The table of which module holds which evaluators, by which one of them is imported alone."""

import pytest

from tui_evals.evaluators import registry


@pytest.mark.parametrize("module", registry._FAMILIES)
def test_the_table_names_what_the_module_holds(module):
    assert tuple(registry.family(module)) == registry._FAMILIES[module]
