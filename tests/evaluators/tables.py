"""Tables of cases inside one test: every row is tried, and the message of a failure names each row that failed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[..., Any]:
    """Try a test on each row, as `pytest.mark.parametrize` would, within one test.

    Each row has a folder of its own as `tmp_path`, and what it changed by `monkeypatch` is undone after it.
    """
    words = [word.strip() for word in names.split(",")] if isinstance(names, str) else list(names)
    table = [row if len(words) > 1 else (row,) for row in rows]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in words]

        @functools.wraps(test)
        def tried(**given: Any) -> None:
            failures: list[str] = []
            skipped: list[str] = []
            first: BaseException | None = None
            for number, row in enumerate(table):
                with pytest.MonkeyPatch.context() as changes:
                    own = dict(given)
                    if "monkeypatch" in given:
                        own["monkeypatch"] = changes
                    if "tmp_path" in given:
                        own["tmp_path"] = given["tmp_path"] / str(number)
                        own["tmp_path"].mkdir()
                    try:
                        test(**own, **dict(zip(words, row, strict=True)))
                    except pytest.skip.Exception as reason:
                        skipped.append(str(reason))
                    except (Exception, pytest.fail.Exception) as failure:
                        first = first or failure
                        failures.append(f"{_shown(row)}: {type(failure).__name__}: {failure}")
            if failures:
                message = f"{len(failures)} of {len(table)} rows fail:\n" + "\n".join(failures)
                raise AssertionError(message) from first
            assert table, "the table has no rows"
            if len(skipped) == len(table):
                pytest.skip(skipped[0])

        tried.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return tried

    return decorate


def _shown(row: Iterable[Any]) -> str:
    text = ", ".join(map(repr, row))
    return text if len(text) <= 300 else f"{text[:300]}…"
