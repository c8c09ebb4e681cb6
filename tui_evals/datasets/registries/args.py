"""The arguments of an eval entry: taken one by one, checked, and what is left over reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tui_evals.datasets.losses import Losses

from .files import Entry


class Args:
    """The arguments of an entry, each taken once and checked; what nobody took is left out and said so."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        given = entry.data.get("args")
        if given is not None and not isinstance(given, dict):
            raise entry.error("args must be a mapping of argument names to values", "args")
        self.left: dict[str, Any] = dict(given or {})
        self.losses = Losses()

    def text(self, name: str) -> str:
        """A text that must be there."""
        value = self.optional_text(name)
        if value is None:
            raise self.entry.error(f"{name} is missing", "args")
        return value

    def optional_text(self, name: str) -> str | None:
        """A text that is not empty, or None."""
        value = self.left.pop(name, None)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.entry.error(f"{name} must be text", "args", name)
        return value

    def count(self, name: str, otherwise: int = 0) -> int:
        """A whole number from 0."""
        value = self.left.pop(name, otherwise)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.entry.error(f"{name} must be a whole number, 0 or more", "args", name)
        return value

    def answers_at_once(self, name: str) -> int | Literal["from_models"]:
        """How many answers are judged together."""
        if self.left.get(name) == "from_models":
            del self.left[name]
            return "from_models"
        if (value := self.count(name, 1)) < 1:
            raise self.entry.error(f"{name} must be 1 or more, or from_models", "args", name)
        return value

    def names(self, name: str) -> dict[str, str]:
        """New names of fields by their old ones."""
        given = self.mapping(name)
        if not all(isinstance(value, str) for value in given.values()):
            raise self.entry.error(f"{name} must give each field a new name", "args", name)
        if given:
            self.losses.carried(f"{name} of {len(given)} fields", self.entry.where)
        return given

    def calls(self, name: str) -> dict[str, Any]:
        """The parameters of the calls an argument is about, with those the original always sends."""
        given = self.mapping(name)
        more = given.pop("completion_kwargs", None)
        return {"max_tokens": 1024, "temperature": 0} | given | (more if isinstance(more, dict) else {})

    def unsent(self, name: str) -> None:
        """Pass over an argument the original takes and never uses."""
        if name in self.left:
            del self.left[name]
            self.losses.left_out(f"args.{name}", self.entry.where, "the original takes it and never sends it")

    def flag(self, name: str) -> bool:
        """True or false; `yes` and `on` are true as well, because YAML 1.1 said so."""
        value = self.left.pop(name, False)
        if isinstance(value, str):
            value = {"yes": True, "on": True, "no": False, "off": False}.get(value.lower(), value)
        if not isinstance(value, bool):
            raise self.entry.error(f"{name} must be true or false", "args", name)
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """A mapping; empty where there is none."""
        value = self.left.pop(name, None)
        if value is not None and not isinstance(value, dict):
            raise self.entry.error(f"{name} must be a mapping", "args", name)
        return dict(value or {})

    def rest(self) -> Losses:
        """The report so far, with the arguments nobody took."""
        for name in self.left:
            self.losses.left_out(f"args.{name}", self.entry.where, "it has no meaning here")
        return self.losses

    def sent(self, params: Mapping[str, Any], who: str = "target") -> None:
        """Report the parameters the original sends."""
        if params:
            said = ", ".join(f"{name} {value}" for name, value in params.items())
            self.losses.changed(f"the original sends {said}", self.entry.where, f"set them as params of the {who}")
