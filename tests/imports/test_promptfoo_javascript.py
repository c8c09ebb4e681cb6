"""JavaScript of promptfoo's configurations is imported as it is written, and judges as it did there.

That the verdicts are those of the real promptfoo is shown in test_promptfoo_set.py and test_promptfoo_real.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CONFIGURATION = """
prompts: ['{{q}}']
tests:
- vars: {q: banana split, most: 20, ripe: true}
  assert:
  - {type: javascript, value: "output.replace('a', 'b') === 'bbnana split'", metric: Words}
  - {type: javascript, value: "output.length <= context.vars.most && context.vars.ripe === true"}
  - {type: not-javascript, value: "output.length", threshold: 50}
  - {type: javascript, value: "file://checks/fruit.js", threshold: 0.5}
  - {type: javascript, value: "file://checks/fruit.js:strict", metric: Strict}
  - {type: contains, value: SPLIT, transform: "output.toUpperCase().slice(-5)"}
  - {type: javascript, value: "/(?i)BANANA/.test(output)", metric: Pattern}
  - type: javascript
    metric: Graded
    value: |
      const words = output.split(' ');
      return { pass: words.length === 2, score: words.length / 4, reason: `${words.length} words` };
"""
FRUIT = """
module.exports = async (output, context) => (output.startsWith('ban') ? 0.75 : 0);
module.exports.strict = (output, { vars }) => output === vars.q.toUpperCase();
"""


@pytest.fixture
def configuration(project: Path) -> Path:
    Path("checks").mkdir()
    Path("checks/fruit.js").write_text(FRUIT)
    Path("promptfooconfig.yaml").write_text(CONFIGURATION)
    return project


def test_assertions_judge_as_they_are_written_once_their_files_are_trusted(shell, configuration) -> None:
    done = shell("import", ".", "--name", "fruit")
    assert done.code == 0, done.err
    assert "8 of 8 assertions judge as before" in done.out
    assert "custom-evaluators/fruit/fruit.js (read it, then `tui-evals trust" in done.out
    assert Path("custom-evaluators/fruit/fruit.js").read_text().strip() == FRUIT.strip()
    assert shell("validate", "fruit.json").code == 0
    refused = shell("run", "fruit.json", "-t", "command:cat", "--quiet")
    assert refused.code == 2 and "runs the evaluator fruit (custom-evaluators/fruit)" in refused.err
    for name in ("fruit", "strict"):
        assert shell("trust", f"custom-evaluators/{name}/{name}.js").code == 0
    assert judged(shell) == {
        "Words": "pass",
        "JavaScript": "pass",
        "JavaScript_2": "pass",
        "fruit": "pass",
        "Strict": "fail",
        "ContainsAll": "pass",
        "Pattern": "error",
        "Graded": "pass",
    }


def judged(shell) -> dict[str, str]:
    run = shell("run", "fruit.json", "-t", "command:cat", "--quiet")
    assert run.code in (0, 1), run.err
    (answer,) = json.loads(shell("show", "last", "--item", "#1", "--json").out)
    (scores,) = answer["scores"].values()
    return {score["key"]: score["result"] for score in scores}


def test_code_that_needs_what_the_engine_lacks_is_called_changed(shell, project) -> None:
    Path("promptfooconfig.yaml").write_text(
        "prompts: ['{{q}}']\n"
        "tests:\n"
        "- vars: {q: banana}\n"
        "  assert:\n"
        "  - {type: javascript, value: \"require('fs').existsSync(output)\"}\n"
        "  - {type: javascript, value: 'file://check.ts'}\n"
    )
    Path("check.ts").write_text("export default (output: string) => true\n")
    done = shell("import", ".", "--name", "fruit")
    assert done.code == 0, done.err
    assert "changed: javascript (it uses require, which the engine does not have)" in done.out
    assert "left out: javascript (it is code of another language than JavaScript)" in done.out
    assert "0 of 2 assertions judge as before" in done.out


def test_python_judges_as_a_custom_evaluator(shell, project) -> None:
    Path("check.py").write_text(
        "def mine(output, context):\n    return 0.7 if context['vars']['q'] == 'banana' else 1\n"
    )
    Path("promptfooconfig.yaml").write_text(
        "prompts: ['{{q}}']\n"
        "tests:\n"
        "- vars: {q: banana}\n"
        "  assert:\n"
        "  - {type: python, value: \"len(output) < 10 and 'n' in output\"}\n"
        "  - {type: python, value: 'file://check.py:mine', threshold: 0.8, metric: Enough}\n"
        "  - {type: python, value: \"n = 1\\nreturn {'pass': n > 2, 'reason': 'small'}\"}\n"
        "  - {type: python, value: 'file://check.py:other'}\n"
        "  - {type: not-python, value: \"'x' in output\"}\n"
    )
    done = shell("import", ".", "--name", "fruit")
    assert done.code == 0, done.err
    assert "4 of 5 assertions judge as before" in done.out
    assert "left out: python (it defines no function other)" in done.out
    run = shell("run", "fruit.json", "-t", "command:cat", "--trust", "--quiet")
    assert run.code == 0, run.err
    (answer,) = json.loads(shell("show", "last", "--item", "#1", "--json").out)
    (scores,) = answer["scores"].values()
    assert {score["key"]: score["result"] for score in scores} == {
        "python": "pass",
        "Enough": "fail",
        "python_2": "fail",
        "python_3": "skipped",
        "python_3_2": "pass",
    }


# tests that code makes

GENERATOR = """
const cities = { Paris: 'France', Rome: 'Italy' };
module.exports = async (config) =>
  Object.entries(cities).slice(0, config ? config.most : 9).map(([city, country]) => ({
    description: city, vars: { q: `Where is ${city}?` }, assert: [{ type: 'contains', value: country }],
  }));
module.exports.none = () => 'no list';
module.exports.broken = () => null.x;
"""


def test_tests_that_javascript_makes_are_imported_once_it_is_trusted(shell, project) -> None:
    Path("gen.js").write_text(GENERATOR)
    Path("promptfooconfig.yaml").write_text(
        "prompts: ['{{q}}']\ntests:\n- file://gen.js\n- {path: 'file://gen.js', config: {most: 1}}\n- vars: {q: Own?}\n"
    )
    waiting = shell("import", ".", "--name", "waiting")
    assert waiting.code == 0, waiting.err
    assert "tests from file://gen.js (its code waits for your yes: read it, `tui-evals trust gen.js`" in waiting.out
    assert len(json.loads(Path("waiting.json").read_text())["items"]) == 1
    assert shell("trust", "gen.js").code == 0
    done = shell("import", ".", "--name", "cities")
    assert done.code == 0, done.err
    assert "carried: 2 tests from file://gen.js (its code was run)" in done.out
    items = json.loads(Path("cities.json").read_text())["items"]
    assert [item["prompt"] for item in items] == ["Where is Paris?", "Where is Rome?", "Where is Paris?", "Own?"]
    assert items[1]["evaluators"] == {"ContainsAll": {"values": ["Italy"]}}


def test_a_generator_that_makes_no_tests_is_named_with_what_it_did(shell, project) -> None:
    Path("gen.js").write_text(GENERATOR)
    Path("endless.mjs").write_text(
        "export default () => { const all = []; for (;;) all.push(new Array(1e6).fill(1)) }\n"
    )
    Path("promptfooconfig.yaml").write_text(
        "prompts: ['{{q}}']\n"
        "tests: ['file://gen.js:none', 'file://gen.js:broken', 'file://endless.mjs', {vars: {q: Own?}}]\n"
    )
    assert shell("trust", "gen.js", "endless.mjs").code == 0
    done = shell("import", ".", "--name", "cities")
    assert done.code == 0, done.err
    assert "tests from file://gen.js:none (its code returns no list of tests)" in done.out
    assert "(its code threw TypeError: cannot read property 'x' of null)" in done.out
    assert "The JavaScript was stopped: it needed more than 256 MB of memory" in done.out
