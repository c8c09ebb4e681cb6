"""The JSON Schema of our eval documents, made from the models; `python -m tui_evals.datasets.schema` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tui_evals.datasets.paths import pretty_json

from .model import Dataset, Item

FILE = Path(__file__).with_name("schema.json")


def json_schema() -> dict[str, Any]:
    """The schema of a dataset; a field that is absent is absent, so null is never a value of it."""
    schema = Dataset.model_json_schema(mode="validation")
    for part in (schema, *schema["$defs"].values()):
        for name, field in part.get("properties", {}).items():
            part["properties"][name] = _without_null(field)
    pairs = (("prompt", "turns"), ("prompt", "user"), ("turns", "user"))
    schema["$defs"][Item.__name__]["not"] = {"anyOf": [{"required": list(pair)} for pair in pairs]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    for branch in (field, *field.get("anyOf", [])):
        if "patternProperties" in branch:
            branch["additionalProperties"] = False
    field = {name: value for name, value in field.items() if not (name == "default" and value is None)}
    branches = [branch for branch in field.get("anyOf", []) if branch != {"type": "null"}]
    if len(branches) == len(field.get("anyOf", [])):
        return field
    rest = {name: value for name, value in field.items() if name != "anyOf"}
    return {**branches[0], **rest} if len(branches) == 1 else {"anyOf": branches, **rest}


if __name__ == "__main__":
    FILE.write_text(pretty_json(json_schema()), encoding="utf-8")
