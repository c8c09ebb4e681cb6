"""Starting what outlives the workbench: the command line does it, in a process and a session of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .ending import reason_in

_LAST_LINES = 6
_BEGUN = re.compile(r"the run (\w+) ended as soon as it began:\n")
_UNJUDGED = re.compile(r"(.+) is judged by a model and no judge is named\.")


class NotStarted(Exception):
    """The command line refused; the message is what it said, without the options it named."""

    unjudged: str | None = None
    """The evaluators that need a judge, where that is why."""


def refusal(said: str) -> NotStarted:
    """What the command line said, in words of the workbench."""
    if missing := _UNJUDGED.search(said):
        ways = "name one in the settings (,), or leave such evaluators out of the dataset"
        found = NotStarted(f"{missing[1]} is judged by a model and no judge is named: {ways}")
        found.unjudged = missing[1]
        return found
    if begun := _BEGUN.search(said):
        return NotStarted(reason_in(said, begun[1]))
    return NotStarted("\n".join(said.splitlines()[-_LAST_LINES:]))


@dataclass(frozen=True, slots=True)
class Order:
    """What a run is to be: the snapshot of a dataset, some of its items, and the values of the form."""

    snapshot: str
    file: Path
    items: tuple[int, ...] | None
    values: Mapping[str, Any]
    parent: str | None = None
    """The run whose failures are asked again."""

    def arguments(self) -> list[str]:
        """The same, as the command line says it."""
        words = ["run", "--snapshot", self.snapshot, "--as", str(self.file)]
        if self.items is not None:
            words += ["--items", positions(self.items)]
        words += ["--parent", self.parent] if self.parent else []
        values = self.values
        targets = [*values.get("targets", ()), *_listed(values.get("other targets"))]
        for target in targets:
            words += ["--target", target]
        judge = values.get("judge")
        words += ["--without-judges"] if judge == WITHOUT else ["--judge", judge] if judge else []
        for name in ("repeats", "concurrency"):
            words += [f"--{name}", str(values[name])] if values.get(name) else []
        words += ["--max-cost", str(values["budget"])] if values.get("budget") else []
        words += ["--name", values["name"]] if values.get("name") else []
        words += ["--no-cache"] if values.get("ask again") else []
        return words


WITHOUT = "without judges"


def _listed(text: object) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] if isinstance(text, str) else []


def positions(items: Iterable[int]) -> str:
    """Positions from 0 as ranges from 1: `1,4-9`."""
    found: list[list[int]] = []
    for item in sorted(items):
        if found and item == found[-1][1] + 1:
            found[-1][1] = item
        else:
            found.append([item, item])
    return ",".join(f"{start + 1}" if start == end else f"{start + 1}-{end + 1}" for start, end in found)


async def told(root: Path, database: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """What the command line answers, as JSON; NotStarted holds its sentences when it refuses."""
    # A thread, because a task that ends with the workbench would leave the pipes of the command open.
    process = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tui_evals", *arguments, "--json"],
        cwd=root,
        env={**os.environ, "TUI_EVALS_DB": str(database)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    if process.returncode != 0:
        raise refusal(
            process.stderr.decode(errors="replace").strip() or f"tui-evals ended with code {process.returncode}"
        )
    found: dict[str, Any] = json.loads(process.stdout.decode().strip().splitlines()[-1])
    return found


def costs(plan: Mapping[str, Any]) -> str:
    """What a plan comes to, as a sentence."""
    answers, judged, cost = plan["answers"], plan["judge_calls"], plan["cost"]
    calls = f"{answers:,} call{'s' if answers != 1 else ''}" if answers or not judged else ""
    if judged:
        calls += (
            f" and {judged:,} of the judge" if calls else f"{judged:,} call{'s' if judged != 1 else ''} of the judge"
        )
    if cost is None:
        return f"{calls}, a price is not known"
    return f"{calls}, {'free' if cost == 0 else 'less than 0.01 USD' if cost < 0.01 else f'about {cost:,.2f} USD'}"
