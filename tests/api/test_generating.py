"""Generating from Python: models behind a server are asked, files are kept, and the same call continues."""

from __future__ import annotations

import json

import pytest

from tests.generate.conftest import Project, one_server, plain_prompt, server
from tests.generate.expected import JUDGE, REFEREE, TRUTH, WRITER
from tests.generate.server import KEY
from tui_evals import CannotPlan, ConfigurationError, GenerationStopped, generate_tests

__all__ = ["one_server", "server"]

ROLES = {"judge": JUDGE, "groundtruth": TRUTH, "groundtruth_judge": REFEREE}


@pytest.fixture
def project(tmp_path, server, monkeypatch) -> Project:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_KEY", KEY)
    made = Project(tmp_path, server, plain_prompt(), None)
    return made


def test_a_dataset_is_made_once_and_the_same_call_keeps_it(project):
    made = generate_tests("shop.prompty", WRITER, **ROLES)
    assert made.folder == project.folder.relative_to(project.root) and made.rules and made.tests
    assert len(json.loads(made.dataset.read_text())["items"]) == made.tests
    asked = project.server.asked()
    again = generate_tests("shop")
    assert (again.tests, again.cost, project.server.asked()) == (made.tests, 0, asked)


def test_steps_end_where_they_are_told_and_continue_from_there(project):
    made = generate_tests("shop.prompty", WRITER, **ROLES, until="rules")
    assert made.dataset is None and made.tests == 0 and (project.folder / "rules.txt").exists()


def test_what_is_wrong_is_said_before_anything_is_asked(project):
    with pytest.raises(CannotPlan, match="no step nowhere"):
        generate_tests("shop.prompty", WRITER, until="nowhere")
    with pytest.raises(ConfigurationError, match="there is no efort"):
        generate_tests("shop.prompty", WRITER, options={"efort": "min"})
    with pytest.raises(ConfigurationError, match="no target is named"):
        generate_tests("shop.prompty")
    assert project.server.asked() == 0


def test_a_generation_that_stops_says_why_and_what_there_is(project):
    price = {"price": "{ input_per_million = 1000.0, output_per_million = 1000.0 }", "concurrency": 1}
    project.configure(**price, params="{ max_tokens = 50 }")
    with pytest.raises(GenerationStopped, match="limit") as stopped:
        generate_tests("shop.prompty", WRITER, **ROLES, max_cost=0.6)
    assert stopped.value.tests.dataset is None
