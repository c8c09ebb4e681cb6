"""Configurations in the manner of those that people publish: asked and judged here as the real promptfoo did.

What it asked and how every assertion judged was recorded by tests/interop/promptfoo_set.mjs. An assertion without an
evaluator must be named in the losses, and one that is called changed may judge otherwise; every other must judge alike.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.interop.promptfoo_set import SET, compared, imported, recorded
from tests.interop.table import PAGE, in_page, lines
from tui_evals.datasets.document import Document
from tui_evals.datasets.validate import validate
from tui_evals.evaluators.custom import FileOptions
from tui_evals.evaluators.registry import load_registry


@pytest.mark.parametrize("file", recorded(), ids=lambda file: file.stem)
def test_a_configuration_asks_and_judges_as_before(file: Path) -> None:
    found = compared(file)
    assert found.different == []
    assert found.rows == len(recorded()[file]) > 0


@pytest.mark.parametrize("file", recorded(), ids=lambda file: file.stem)
def test_a_configuration_becomes_a_valid_dataset(file: Path) -> None:
    found, _ = imported(file)
    named = {**found.data, "prompt_file": "p.prompty"} if "messages" not in found.data else found.data
    known: dict[str, type[BaseModel]] = {
        **load_registry().catalogue,
        **{Path(file).stem: FileOptions for file in found.code},
    }
    document = Document(SET / "x.json", json.dumps(named), "", "document", named)
    assert [str(one) for one in validate(document, known).problems if one.severity == "error"] == []


def test_every_configuration_of_the_set_was_recorded() -> None:
    assert len(list(SET.glob("*.yaml"))) >= 60
    assert set(SET.glob("*.yaml")) <= set(recorded())


def test_the_share_line_counts_what_is_left_out_or_changed() -> None:
    shares = {}
    for name in ("assert-sets", "assert-sets-code", "code-transform", "markup", "weights"):
        judged = imported(SET / f"{name}.yaml")[1].assertions
        shares[name] = f"{sum(judged.values())} of {len(judged)}"
    assert shares == {
        "assert-sets": "13 of 13",
        "assert-sets-code": "5 of 5",
        "code-transform": "1 of 2",
        "markup": "4 of 4",
        "weights": "6 of 6",
    }


@pytest.mark.nightly
@pytest.mark.story
def test_the_page_of_formats_holds_the_table_of_counts() -> None:
    assert in_page(PAGE.read_text(encoding="utf-8")) == lines()


def test_every_script_of_the_real_packages_has_its_line_in_the_readme() -> None:
    folder = Path(__file__).parents[1] / "interop"
    told = (folder / "README.md").read_text(encoding="utf-8")
    scripts = {file.name for file in folder.iterdir() if file.suffix in (".py", ".mjs")} - {"__init__.py"}
    assert not [name for name in scripts if f"\n    {name} " not in told]
