"""A stranger's clone as somebody opens it in the workbench: runs, answers, rules and a form as they were left there."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.hostile.clone import Clone, Witness
from tests.tui.ruled import ruled_project
from tests.tui.stored_runs import answer
from tests.tui.story import Person
from tui_evals.datasets.document import load
from tui_evals.runs.project import load_project
from tui_evals.runs.start import RunRequest, prepare
from tui_evals.tui.actions import Where

WAYS: dict[Where, tuple[str, ...]] = {
    "everywhere": ("1",),
    "tree": ("1", "j"),
    "editor": ("1", "j", "2"),
    "field": ("escape", "1", "j", "2", "enter"),
    "judges": ("1", "j", "3"),
    "grid": ("1", "v"),
    "results": ("4",),
    "detail": ("4", "enter"),
    "runs": ("6",),
    "compare": ("6", "j", "equals_sign"),
    "matrix": ("4", "m"),
    "labelling": ("6", "j", "L", "enter"),
    "rules": ("7",),
    "playground": ("P",),
    "proposals": ("1", "j", "ctrl+g", "down", "down", "enter"),
}
"""The keys that lead to each place of the table of actions."""


async def commit_work(clone: Clone) -> None:
    """Two finished runs, a dataset made from rules, and the form of a run, all as the stranger left them."""
    project = load_project(clone.root, trusting=True)
    texts = [("fail", "two"), ("pass", "judge this")]
    for name in ("first", "second"):
        request = RunRequest(
            document=load(clone.root / "data.json"),
            source="data.json",
            name=name,
            targets=(f"command:touch {clone.outside / 'rerun'}",),
        )
        with project.writer() as writer:
            run = prepare(request, project).store(writer).run
            await answer(project.store, writer, run.id, texts)
            writer.run_status(run.id, "finished")
            left = {"other targets": f"command:touch {clone.outside / 'form'}", "targets": ["shell"]}
            writer.session_put("workbench", {"form": left, "dataset": str(clone.root / "data.json")})
    role = f"command:sh -c 'touch {clone.outside / 'rules'}'"
    record = {"prompt": "../tags.prompty", "options": {}, "targets": {"rules": role, "judges": [role]}}
    clone.write("tags.prompty", "---\nname: tags\n---\nsystem:\nSay tags.\nuser:\n{{word}}\n")
    ruled_project(clone.root, record=record)
    shutil.rmtree(Path(os.environ["HOME"]) / "tui_evals", ignore_errors=True)  # nobody here has agreed to anything


def not_ours(seen: Witness) -> list[str]:
    """What was seen but our own interpreter, shut off from the folder, that works out what something costs."""
    own = [line for line in seen.started if sys.executable in line and "'-P'" in line and "'--plan'" in line]
    own += [line for line in seen.started if "'tests.warm'" in line]  # which the tests start what is ours from
    return [line for line in seen.anything if line not in own]


async def go(person: Person, where: Where) -> None:
    """Go to a place, from wherever one is."""
    while len(person.app.screen_stack) > 1:
        person.app.pop_screen()
    await person.pilot.pause()
    if where != person.app.front:
        await person.press(*WAYS[where])
