"""What a run of many items must not cost: all its lines at once, and modules that it does not need."""

import json
import subprocess

import pytest

from tests.cli.past import Said, past
from tui_evals.interpreter import python_command

pytestmark = pytest.mark.usefixtures("project")


def test_show_lists_the_first_answers_and_says_how_many_there_are(shell):
    past(*(Said(name) for name in "abcd"))
    lines = shell("show", "last", "--limit", "2").out.splitlines()
    assert lines[-1] == "2 more; `--limit 4` shows all, `--only` those that a filter finds"
    assert [line.split()[2] for line in lines[-3:-1]] == ["a", "b"]
    assert "more;" not in shell("show", "last").out
    assert len(json.loads(shell("show", "last", "--limit", "2", "--json").out)["answers"]) == 4


@pytest.mark.story
def test_the_first_run_of_a_project_imports_only_what_it_uses(project):
    items = [{"prompt": "x", "expected_response": "x"}]
    document = {"schemaVersion": "1.11.0", "default_evaluators": {"Includes": {}}, "items": items}
    (project / "data.json").write_text(json.dumps(document))
    run = "['run', 'data.json', '--target', 'demo', '--quiet']"
    code = f"import sys; from tui_evals.cli.main import run; run({run}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(python_command("-c", code), capture_output=True, text=True, check=True)
    modules = set(done.stderr.split())
    assert "tui_evals.evaluators.references" in modules
    unused = {"sqlite_utils", "wcwidth", "litellm", "tui_evals.compare.runs", "tui_evals.evaluators.similarity"}
    assert not unused & modules
