"""The small form of a run: what answers, who judges, how often, how much; and what that comes to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tui_evals.targets.config import Settings
from tui_evals.tui.state.launching import WITHOUT, NotStarted, Order, costs

from .form import DONE, Faults, Field, Form, Values

_PAUSE = 0.2
_NO_TARGET = (
    "nothing is to answer yet: take demo, which is offline and free; or name a model under other targets; or write a "
    "target into .evals/config.toml, as `tui-evals help targets` shows"
)
_NO_JUDGE = "is judged by a model: choose which, or “without judges”, or name one for good in the settings (,)"
Ask = Callable[[list[str]], Awaitable[dict[str, Any]]]


def fields_of(settings: Settings) -> tuple[Field, ...]:
    """The fields, with the targets of the configuration to choose from."""
    known = tuple(dict.fromkeys((*settings.targets, "demo")))
    default = settings.run
    return (
        Field("targets", "several", "What answers: targets of .evals/config.toml, and the offline demo.", known),
        Field("other targets", "text", "More of them by commas: openai/gpt-4o-mini, replay:answers.csv, command:…"),
        Field("judge", "choice", "The target that judges where an evaluator asks one.", (*known, WITHOUT)),
        Field("repeats", "whole", "How often each item is asked.", default=str(default.repeats)),
        Field("concurrency", "whole", "Calls in flight at once, per target.", default="as configured"),
        Field("budget", "number", "Stop before more US dollars are spent.", default=str(default.max_cost or "none")),
        Field("ask again", "yes", "Ask even where the answer is known from before.", default="no"),
        Field("name", "text", "A name for the run.", default="the dataset's"),
    )


def faults_of(values: Values) -> Faults:
    """What is wrong with the values themselves."""
    found: dict[str, str] = {}
    if not values.get("targets") and not values.get("other targets"):
        found["targets"] = _NO_TARGET
    for name in ("repeats", "concurrency"):
        if values.get(name) is not None and values[name] < 1:
            found[name] = "at least 1"
    if values.get("budget") is not None and values["budget"] <= 0:
        found["budget"] = "more than 0"
    return found


class RunForm(Form):
    """Says what the run costs each time a value changes; the answer is the values."""

    def __init__(
        self,
        says: str,
        fields: Sequence[Field],
        values: dict[str, Any],
        order: Callable[[Mapping[str, Any]], Order],
        ask: Ask,
    ) -> None:
        super().__init__(f"run {says}", fields, values, check=self._faults, done="start", says="…")
        self._order = order
        self._ask = ask
        self._refused: dict[str, str] = {}

    def on_mount(self) -> None:
        """The cursor begins where enter starts the run, once it can be started."""
        self.values_changed()
        if not faults_of(self.values):
            self._lines.show(self._rows, at=DONE)

    def _faults(self, values: Values) -> Faults:
        return faults_of(values) or self._refused

    def values_changed(self) -> None:
        """Work out again what it comes to."""
        self._refused = {}
        if faults_of(self.values):
            self.redraw("")
            return
        self.redraw("working out what it costs…")
        self.run_worker(self._price(), group="price", exclusive=True, exit_on_error=False)

    async def _price(self) -> None:
        await asyncio.sleep(_PAUSE)
        try:
            plan = await self._ask([*self._order(self.values).arguments(), "--plan"])
        except NotStarted as problem:
            self._refused = {"judge": f"{problem.unjudged} {_NO_JUDGE}"} if problem.unjudged else {"": str(problem)}
            self._says = ""
            self._lines.show(self._rows, at="judge" if problem.unjudged and self._lines.key is DONE else None)
        else:
            self.redraw(f"{costs(plan)}; repairs and retries may add some{_remark(plan)}")


def _remark(plan: Mapping[str, Any]) -> str:
    """What one should know of who judges."""
    alike = plan.get("judge") in plan.get("targets", ()) and plan["judge_calls"]
    return f". {plan['judge']} judges its own answers, and judges favour those" if alike else ""
