"""Transforms of promptfoo: JavaScript that makes of an answer what is judged, as a JSON path where it only points."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tui_evals.evaluators.registry import load_registry

_AROUND = re.compile(r"(?:(?:\(\s*output\s*(?:,\s*\w+\s*)?\)|output)\s*=>|return\b)?\s*(?P<body>.*?)\s*;?", re.DOTALL)
_TRIM = re.compile(r"(?P<rest>.*?)\??\.trim\(\s*\)", re.DOTALL)
_START = re.compile(r"(?P<parsed>JSON\.parse\(\s*output(?:\.trim\(\))?\s*\))|output(?=\s*\??\.)|output\Z")
_STEP = re.compile(
    r"\s*(?:\??\.(?P<name>[A-Za-z_$][\w$]*)"
    r"""|(?:\?\.)?\[\s*(?:(?P<at>\d+)|'(?P<single>[^'\\]*)'|"(?P<double>[^"\\]*)")\s*\])"""
)
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_COMPUTED = frozenset(("length",))
_MAY_SEE_SPACE = re.compile(r"[\^$\s]|\\[AbBDsSWzZ]|\(\?[=!<]")
_ANY_JSON = ("JsonValid", "$")
_READS_NO_ANSWER = frozenset(("Latency", "Cost"))


@dataclass(frozen=True, slots=True)
class Seen:
    """What assertions see: the answer, what is at a path in it, or what only code can make of it."""

    path: str | None = None
    trimmed: bool = False
    code: bool = False

    def through(self, transform: object) -> Seen:
        """What is judged once a transform has been applied to it as well."""
        if self.code or not isinstance(transform, str):
            return Seen(code=True)
        around = _AROUND.fullmatch(transform.strip())
        body = around["body"] if around else ""
        trim = _TRIM.fullmatch(body)
        body = trim["rest"] if trim else body
        start = _START.match(body)
        if start is None or (start["parsed"] and self.path is not None):
            return Seen(code=True)
        steps = body[start.end() :]
        path = _path_after(self.path or "$", steps) if start["parsed"] or steps else self.path
        code = path is None and bool(start["parsed"] or steps)
        return Seen(code=True) if code else Seen(path, trimmed=self.trimmed or trim is not None)

    def __str__(self) -> str:
        """What is seen, in words."""
        return (f"the path {self.path}" if self.path else "the answer") + (", trimmed" if self.trimmed else "")

    def judged_by(self, name: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The evaluator that judges this as the one that is given judges an answer; None where there is none."""
        if name in _READS_NO_ANSWER or self == Seen():
            return name, options
        if self.code or (self.path is not None and not _follows_paths(name) and (name, self.path) != _ANY_JSON):
            return None
        if self.trimmed and not _same_trimmed(name, options):
            pattern = _trimming_pattern(name, options)
            if pattern is None:
                return None
            name, options = "Regex", pattern
        return name, {**options, "json_path": self.path} if self.path and name != "JsonValid" else options


@cache
def _follows_paths(name: str) -> bool:
    """Whether an evaluator judges what stands at a path; one that asks a model is shown the whole answer."""
    return "json_path" in load_registry().catalogue[name].model_fields


def _same_trimmed(name: str, options: Mapping[str, Any]) -> bool:
    """Whether spaces around an answer make no difference to an evaluator."""
    match name:
        case "JsonValid" | "JsonSchema" | "ContainsJson" | "Rubric" | "ModelGraded" | "EmbeddingSimilarity":
            return True
        case "ContainsAll" | "ContainsAny":
            return all(value == value.strip() for value in options["values"])
        case "Regex":
            return not _MAY_SEE_SPACE.search(options["pattern"])
    return False


def _trimming_pattern(name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options of Regex that means the same but for spaces around the answer."""
    value = options.get("value")
    if name not in ("Equals", "StartsWith") or not isinstance(value, str) or "json_path" in options:
        return None
    others = {key: part for key, part in options.items() if key != "value"}
    return {"pattern": rf"\A\s*{re.escape(value)}" + (r"\s*\z" if name == "Equals" else ""), **others}


def _path_after(path: str, steps: str) -> str | None:
    """A path lengthened by property accesses; None where there is anything else."""
    while steps.strip():
        step = _STEP.match(steps)
        if step is None or step["name"] in _COMPUTED or steps[step.end() :].lstrip().startswith("("):
            return None
        path += _written(step)
        steps = steps[step.end() :]
    return path


def _written(step: re.Match[str]) -> str:
    if step["at"] is not None:
        return f"[{int(step['at'])}]"
    name = next(part for part in (step["name"], step["single"], step["double"]) if part is not None)
    return f".{name}" if _PLAIN_NAME.fullmatch(name) else f"['{name}']"
