"""Short JavaScript of promptfoo's assertions becomes an expression or a pattern; what cannot is said.

That both say the same of the same answers is shown in test_promptfoo_real.py, with javascript.yaml.
"""

from __future__ import annotations

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
