"""Short JavaScript of promptfoo's assertions becomes an expression or a pattern; what cannot is said.

That both say the same of the same answers is shown in test_promptfoo_real.py, with javascript.yaml.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tui_evals.evaluators.registry import load_registry
from tui_evals.imports.promptfoo.javascript import NotTranslated, translated
from tui_evals.imports.promptfoo.transforms import Seen

ANSWER = Seen()
EXPRESSIONS = {
    "output.length <= 280": "(response | length) <= 280",
    "output.startsWith('Hi') && !output.includes(\"x\")": "(response[:2] == 'Hi') and (not ('x' in response))",
    "JSON.parse(output).a['b c'][0] === 'it\\'s'": "json.a['b c'][0] == 'it\\'s'",
    "output.x.and === 'y'": "json.x['and'] == 'y'",
    "const it = JSON.parse(output);\nreturn it.ok === true && it.n > -2;": "(json.ok is true) and (json.n > (-2))",
    "context.vars.name === output.toLowerCase()": "variables.name == (response | lower)",
    "output.length > 4 ? 1 : 0": "(response | length) > 4",
}


@pytest.mark.parametrize(("code", "expression"), EXPRESSIONS.items())
def test_a_condition_becomes_an_expression(code: str, expression: str) -> None:
    found = translated(code, ANSWER)
    assert (found.name, found.options) == ("Expression", {"expression": expression})
    load_registry().build(found.name, found.options)


def test_a_search_becomes_a_pattern() -> None:
    assert translated("/a\\/b+/i.test(output)", ANSWER).options == {"pattern": "(?i)a/b+"}
    assert translated("!output.match(/a/)", Seen("$.x")).options == {"pattern": "a", "json_path": "$.x", "negate": True}


def test_output_is_what_the_transform_made_of_the_answer() -> None:
    assert translated("output.length < 3", Seen("$.x[0]")).options == {"expression": "(json.x[0] | length) < 3"}
    assert translated("output === 'a'", Seen(trimmed=True)).options == {"expression": "(response | trim) == 'a'"}


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("output.split(' ').length < 5", "it calls .split()"),
        ("Math.abs(output.length) < 5", "it uses Math"),
        ("process.exit()", "it uses process"),
        ("output == 4", "== between values that may be of several kinds"),
        ("output.length", "neither true nor false"),
        ("JSON.parse(output).ok", "neither true nor false"),
        ("output.length < 'a'", "may be no numbers"),
        ("output.includes(`${context.vars.x}`)", "it fills a text"),
        ("for (;;) {}", "it has for statement"),
        ("return output === 'a'", "it has return statement"),
        ("output ===", "cannot be read as JavaScript"),
        ("1 + " * 90 + "1 > 0", "it is nested deeply"),
        ("true && " * 2000 + "true", "it is long"),
    ],
)
def test_what_no_expression_does_is_said(code: str, why: str) -> None:
    with pytest.raises(NotTranslated) as told:
        translated(code, ANSWER)
    assert why in str(told.value)


# Python and other code


def test_python_judges_on_as_a_custom_evaluator_and_other_code_waits(shell, project) -> None:
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
        "  - {type: javascript, value: \"output.split(' ').length < 3\", metric: Words}\n"
    )
    done = shell("import", ".", "--name", "fruit")
    assert done.code == 0, done.err
    assert "4 of 6 assertions judge as before" in done.out
    assert "left out: python (it defines no function other)" in done.out
    assert "it calls .split(); custom-evaluators/words waits for it in Python" in done.out
    assert "# output.split(' ').length < 3\n" in Path("custom-evaluators/words/words.py").read_text()
    assert shell("validate", "fruit.json").code == 0
    run = shell("run", "fruit.json", "-t", "command:cat", "--trust", "--quiet")
    assert run.code == 0, run.err
    (answer,) = json.loads(shell("show", "last", "--item", "#1", "--json").out)
    (scores,) = answer["scores"].values()
    assert {score["key"]: score["result"] for score in scores} == {
        "python": "pass",
        "Enough": "fail",
        "python_2": "fail",
        "python_3": "pass",
    }
