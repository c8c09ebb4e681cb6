"""The form of an evaluator's options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.app import App

from tui_evals.datasets.resolve import Effective
from tui_evals.evaluators.registry import Registry
from tui_evals.tui.options import faults, form_fields, form_values, options_of, summary, written

from .form import Form, Values


async def ask_options(app: App[Any], entry: Effective, registry: Registry, done: str) -> dict[str, Any] | None:
    """Options as they come out of the form; None when one has thought better of it."""
    kind, before = registry.find(entry.evaluator), entry.options
    options = options_of(kind, registry)
    values = form_values(options, before)

    def check(given: Values) -> Mapping[str, str]:
        return faults(kind, registry, written(options, before, given))

    title = entry.key if entry.key == kind.name else f"{entry.key} · {kind.name}"
    form = Form(title, form_fields(options, values), values, check=check, done=done, says=summary(kind))
    given = await app.push_screen_wait(form)
    return None if given is None else written(options, before, given)
