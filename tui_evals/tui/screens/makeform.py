"""The small form before something is made anew: who writes, how much it may cost, and what that comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tui_evals.targets.config import Settings
from tui_evals.tui.state.launching import NotStarted

from .form import DONE, Faults, Field, Form, Values

_PAUSE = 0.2
_NO_TARGET = "who is to write it? Choose a target; demo is offline, free, and writes by a script"
Price = Callable[[Mapping[str, Any]], Awaitable[str]]


class MakeForm(Form):
    """Says what it costs each time a value changes; the answer is the values."""

    def __init__(self, says: str, settings: Settings, target: str | None, price: Price) -> None:
        known = tuple(dict.fromkeys((*settings.targets, "demo", *([target] if target else []))))
        fields = (
            Field("target", "choice", "What writes it: a target of .evals/config.toml, or the offline demo.", known),
            Field("other target", "text", "Another model in its place, such as openai/gpt-4o-mini."),
            Field("budget", "number", "Stop before more US dollars are spent.", default="none"),
        )
        values = {"target": target} if target else {}
        super().__init__(says, fields, values, check=self._faults, done="start", says="…")
        self._price = price
        self._refused = ""

    def on_mount(self) -> None:
        """The cursor begins where enter starts it, once that can be done."""
        self.values_changed()
        if not self._faults(self.values):
            self._lines.show(self._rows, at=DONE)

    def _faults(self, values: Values) -> Faults:
        if not (values.get("target") or values.get("other target")):
            return {"target": _NO_TARGET}
        if values.get("budget") is not None and values["budget"] <= 0:
            return {"budget": "more than 0"}
        return {"": self._refused} if self._refused else {}

    def values_changed(self) -> None:
        """Work out again what it comes to."""
        self._refused = ""
        if self._faults(self.values):
            self.redraw("")
            return
        self.redraw("working out what it costs…")
        self.run_worker(self._work_out(), group="price", exclusive=True, exit_on_error=False)

    async def _work_out(self) -> None:
        await asyncio.sleep(_PAUSE)
        try:
            says = await self._price(self.values)
        except NotStarted as problem:
            self._refused = str(problem)
            self.redraw("")
        else:
            self.redraw(f"{says}; repairs and retries may add some")
