"""The JSON Schema in the package is the one the models make, and it agrees with them."""

import json

import pytest
from jsonschema import Draft202012Validator

from tui_evals.datasets.model import FILE, json_schema
from tui_evals.datasets.paths import pretty_json

pytestmark = pytest.mark.story


def test_the_schema_in_the_package_is_current():
    assert FILE.read_text(encoding="utf-8") == pretty_json(json_schema()), "run: python -m tui_evals.datasets.model"


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("item", "valid"),
    [
        ({"prompt": "a"}, True),
        ({"prompt": "a", "testId": "T", "response_format": {"type": "object"}}, True),
        ({"turns": [{"prompt": "a"}]}, True),
        ({"prompt": "a", "turns": [{"prompt": "a"}]}, False),
        ({"prompt": "a", "expected_response": None}, False),
        ({"prompt": "a", "propmt": "b"}, False),
        ({"turns": []}, False),
        ({"prompt": "a", "response_format": "xml"}, False),
        ({"prompt": "a", "scores": {"x": {"result": "error", "error": "e", "score": 1}}}, False),
        ({"prompt": "a", "messages": [{"role": "user", "content": [{"type": "text"}], "cache": 1}]}, True),
        ({"prompt": "a", "messages": [{"role": "robot", "content": "x"}]}, False),
        ({"prompt": "a", "evaluators": {"1st": {}}}, False),
    ],
)
def test_the_schema_judges_as_the_models_do(item, valid):
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    document = {"schemaVersion": "1.0.0", "items": [item]}
    assert Draft202012Validator(schema).is_valid(json.loads(json.dumps(document))) is valid
