"""With which parameters a judge is asked: those of a `.prompty`, under `model.parameters` of its front matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from tui_evals.light_records import dataclass
from tui_evals.text import strictjson

Form = Literal["json"] | Mapping[str, Any]
"""The form of a reply: any JSON object, or what fits a schema."""

_NUMBERS = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
_WHOLE = ("max_tokens", "max_completion_tokens", "seed")
_TEXTS = ("stop", "reasoning_effort", "verbosity")
_FORM = "response_format"
SENT = (*_NUMBERS, *_WHOLE, *_TEXTS, _FORM)
"""The parameters that a judge is sent; which of them its model takes, the target knows or learns."""


class WrongParameter(ValueError):
    """A parameter that has no such value; the message says which."""


@dataclass(frozen=True, slots=True)
class JudgeParameters:
    """What is said of how a judge is to be asked."""

    params: Mapping[str, Any] = field(default_factory=dict)
    form: Form | None = None
    unsent: tuple[str, ...] = ()
    """The names of those that no judge is sent."""

    def over(self, other: JudgeParameters) -> JudgeParameters:
        """These, and of others those that these say nothing of."""
        return JudgeParameters({**other.params, **self.params}, self.form or other.form, self.unsent)


def parameters_of(front: Mapping[str, Any]) -> JudgeParameters:
    """The parameters in the front matter of a `.prompty`."""
    model = front.get("model")
    given = model.get("parameters") if isinstance(model, Mapping) else None
    if given is None:
        return JudgeParameters()
    if not isinstance(given, Mapping):
        raise WrongParameter("model.parameters holds no names with values, such as temperature: 0.7")
    return judge_parameters(given)


def judge_parameters(given: Mapping[str, Any]) -> JudgeParameters:
    """Parameters by their names, each of a value that it can have; one that is null is none."""
    known = {name: value for name, value in given.items() if name in SENT and value is not None}
    form = _form(known.pop(_FORM, None))
    params = {name: _checked(name, value) for name, value in sorted(known.items())}
    return JudgeParameters(params, form, tuple(sorted(given.keys() - set(SENT))))


def _checked(name: str, value: Any) -> Any:
    if name in _TEXTS:
        texts = value if name == "stop" and isinstance(value, list) else [value]
        if not all(isinstance(text, str) and text for text in texts):
            raise WrongParameter(f"the parameter {name} is {strictjson.dumps(value)}, which is no text")
        return value
    whole = name in _WHOLE
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        wanted = "no whole number" if whole else "no number"
        raise WrongParameter(f"the parameter {name} is {strictjson.dumps(value)}, which is {wanted}")
    if name.startswith("max_") and value < 1:
        raise WrongParameter(f"the parameter {name} is {value}, and a reply takes 1 at least")
    return value


def _form(given: Any) -> Form | None:
    """The form that `response_format` asks for, as chat completions have it; None for text."""
    kind = given.get("type") if isinstance(given, Mapping) else given
    if kind in (None, "text"):
        return None
    if kind == "json_object":
        return "json"
    about = given.get("json_schema") if isinstance(given, Mapping) else None
    schema = about.get("schema") if isinstance(about, Mapping) else None
    if kind == "json_schema" and isinstance(schema, Mapping):
        return schema
    raise WrongParameter(
        "the parameter response_format is neither {type: text} nor {type: json_object} nor {type: json_schema, "
        "json_schema: {name: …, schema: …}}"
    )


def parameters_text(params: Mapping[str, Any], form: Form | None = None) -> str:
    """Parameters in a line: `temperature 0.7, max_tokens 200, response_format json`."""
    words = [f"{name} {value if isinstance(value, str) else strictjson.dumps(value)}" for name, value in params.items()]
    if form is not None:
        words.append(f"response_format {'json' if form == 'json' else 'of a schema'}")
    return ", ".join(words)
