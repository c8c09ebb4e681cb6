"""The command `import`: asks for a path, imports and opens it, and shows what was read, lost and re-judged."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from tui_evals.present.columns import table
from tui_evals.store.database import StoreError
from tui_evals.targets.base import ConfigurationError
from tui_evals.text.measures import counted
from tui_evals.text.names import did_you_mean
from tui_evals.text.safe import safe_line
from tui_evals.tui.desk import Command, Commands, Desk
from tui_evals.tui.messages import OpenRun, ShowPane
from tui_evals.tui.opening import enter_file
from tui_evals.tui.rows import LazyRows, Row, RowMaker, Style, fit, paragraph, row, wrapped
from tui_evals.tui.widgets.dialogs import Ask, Reading
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Workspace

if TYPE_CHECKING:
    from tui_evals.imports.base import ImportResult
    from tui_evals.imports.verifying import Repeated, Verification
    from tui_evals.store.writer import Writer


_STYLES: dict[str, Style] = {"left out": "warn", "changed": "", "carried": "dim"}


class ImportedPage(Reading):
    """The result of an import; recorded verdicts that can be given again are, without asking any model.

    Leaving the page ends the judging.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "differing", "those that differ", show=False),
        Binding("a", "all", "all verdicts", show=False),
    ]

    def __init__(self, title: str, path: Path, result: ImportResult, workspace: Workspace) -> None:
        super().__init__(title, self._made)
        self._path = path
        self._result = result
        self._workspace = workspace
        self._found: Verification | str | None = None
        self._left = False

    def on_mount(self) -> None:
        if self._result.repeatable:
            self.run_worker(self._judge(), group="verify", name="verify", exit_on_error=False)

    def on_unmount(self) -> None:
        self._left = True

    async def _judge(self) -> None:
        found = await asyncio.to_thread(self._verified)
        if self._left:
            return
        self._found = found
        self.query_one(Lines).show(self._made)
        if isinstance(found, str) or not found.repeated:
            return
        differing = len(found.differences)
        ways = [f"d the {differing:,} that differ{'s' if differing == 1 else ''}"] if differing else []
        self.say(" · ".join((*ways, f"a all {found.repeated:,}", self._help)), wrong=False)

    def _verified(self) -> Verification | str:
        """The verification, or why it could not be started."""
        from tui_evals.imports.base import ImportFailed, project_at
        from tui_evals.imports.registry import recordings_in
        from tui_evals.imports.verifying import prepare
        from tui_evals.runs.errors import CannotPlan

        root, database = self._workspace.root, self._workspace.database
        try:
            recordings = recordings_in(self._path, self._result.kind, project=project_at(root, database=database))
            work = prepare(recordings, self._workspace.project())
            if work.missing_permissions():
                return f"not judged again, as that needs a yes: `tui-evals import --verify {self._path}` asks for it"
            return work.verify(lambda: not self._left)
        except (ImportFailed, ConfigurationError, CannotPlan, StoreError) as problem:
            return f"not judged again: {problem}"

    def _made(self, width: int) -> list[Row]:
        judged = agreement_rows(self._found, self._result, width) if self._result.repeatable else None
        return result_rows(self._result, width, judged)

    def action_differing(self) -> None:
        """Open the verdicts that differ, each in full."""
        if (differing := self._verdicts(same=False)) is not None:
            self._open(differing, lambda width: [line for one in differing for line in _in_full(one, width)])

    def action_all(self) -> None:
        """Open every verdict that was given again, a line for each."""
        if (verdicts := self._verdicts(same=True)) is not None:
            self._open(verdicts, lambda width: VerdictRows(verdicts, width))

    def _verdicts(self, *, same: bool) -> list[Repeated] | None:
        """The verdicts, all or only different ones; None, with a message, if there are none yet."""
        found = self._found
        if found is None and self._result.repeatable:
            self.say("judging is not finished yet")
        elif found is None or isinstance(found, str) or not (verdicts := found.verdicts if same else found.differences):
            self.say("there are no such verdicts")
        else:
            return verdicts
        return None

    def _open(self, verdicts: Sequence[Repeated], maker: RowMaker) -> None:
        self.app.push_screen(Reading(f"{counted(len(verdicts), 'verdict')}, before and now", maker))


class VerdictRows(LazyRows):
    """Verdicts, a line for each."""

    def __init__(self, verdicts: Sequence[Repeated], width: int) -> None:
        self._verdicts = verdicts
        self._width = width

    def __len__(self) -> int:
        return len(self._verdicts)

    def row_at(self, number: int) -> Row:
        one = self._verdicts[number]
        return Row((fit(_line(one), self._width, "dim" if one.same else "fail"),))


def _in_full(one: Repeated, width: int) -> Sequence[Row]:
    first, *more = wrapped(_line(one), width - 2)
    return [row((first, "fail")), *(row("  " + line) for line in more)]


def _line(one: Repeated) -> str:
    from tui_evals.imports.summary import verdict_line

    return safe_line(verdict_line(one))


def agreement_rows(found: Verification | str | None, result: ImportResult, width: int) -> list[Row]:
    """How many verdicts are as before, or why that is not known."""
    from tui_evals.imports.summary import agreement, not_repeated_lines

    if found is None:
        return [*paragraph(f"judging {counted(result.repeatable, 'recorded verdict')} again …", width, "dim")]
    if isinstance(found, str):
        return [*paragraph(safe_line(found), width, "warn")]
    rows = [*paragraph(agreement(found), width, "pass" if found.proven else "fail")]
    for line in not_repeated_lines(found):
        rows += paragraph(safe_line(line), width, "dim")
    return rows


def result_rows(result: ImportResult, width: int, judged: Sequence[Row] | None = None) -> list[Row]:
    """The imported items, the target file, and what was omitted, changed or kept, with locations. `judged` replaces the
    rows about recorded results.
    """
    from tui_evals.imports.base import Losses
    from tui_evals.imports.summary import (
        cannot_run_lines,
        headline,
        kept_lines,
        note_lines,
        share_line,
        targets_line,
        totals_cells,
    )

    rows = [*paragraph(safe_line(headline(result)), width, "strong")]
    if cells := totals_cells(result):
        every = range(len(cells[0]))
        rows += [row(safe_line(line)) for line in table(cells, right=every[1:], elastic=every, room=width)]
    if judged is not None:
        rows += judged
    elif line := share_line(result):
        rows += paragraph(safe_line(line), width)
    for line in kept_lines(result):
        rows += paragraph(safe_line(line), width, "pass")
    for line in (*note_lines(result), *filter(None, [targets_line(result)]), *cannot_run_lines(result)):
        rows += paragraph(safe_line(line), width, "warn")
    losses = Losses(list(result.losses)).ordered()
    if losses:
        rows.append(row())
    for loss in losses:
        first, *more = wrapped(safe_line(str(loss)), width - 2)
        rows.append(row((first, _STYLES[loss.kind])))
        rows += [row(("  " + line, _STYLES[loss.kind])) for line in more]
    return rows


_HINT = "a file or folder, as seen from the project's folder; ~ is your own"
_NAMES = 2_000
"""How many names of a folder are looked through for the one that was meant."""


async def import_path(desk: Desk) -> None:
    """Ask for a path, import the file, show a report of the import or why it failed, then open the result."""
    # Imported when needed, to keep the start fast.
    from tui_evals.imports.base import ImportFailed, project_at, shown
    from tui_evals.imports.registry import import_from

    root, database = desk.workspace.root, desk.workspace.database
    entered = await desk.push_screen_wait(
        Ask("import what another tool wrote", hint=_HINT, check=lambda text: why_no_source(root, text))
    )
    if entered is None:
        return
    path = Path(shown(source_path(root, entered)))
    name = safe_line(path.name or str(path), 60)

    def work(writer: Writer) -> ImportResult:
        return import_from(path, project=project_at(root, database=database, writer=writer))

    desk.tell(f"importing {name} …")
    try:
        result = await desk.writer.write(work)
    except (ImportFailed, StoreError) as problem:
        sentence = problem_text(str(problem), path)
        desk.tell(f"{name} was not imported", "warn")
        await desk.push_screen_wait(
            Reading(f"{name} was not imported", lambda width: paragraph(sentence, width, "error"))
        )
        return
    desk.tell(f"{name} is imported")
    await desk.push_screen_wait(ImportedPage(f"imported {name}", path, result, desk.workspace))
    await _open(desk, result)


async def _open(desk: Desk, result: ImportResult) -> None:
    """Put the dataset on screen, and the run where there is one."""
    desk.workspace.look()
    entered = result.dataset is not None and await enter_file(desk, result.dataset.resolve())
    if result.run is not None:
        desk.post_message(OpenRun(desk.watching.reader.find_run(result.run).id))
    elif entered:
        desk.post_message(ShowPane("tree"))


def source_path(root: Path, text: str) -> Path:
    """The path that was typed, relative to the project's folder."""
    return Path(os.path.abspath(root / os.path.expanduser(text.strip())))


def why_no_source(root: Path, text: str) -> str | None:
    """Why there is no source at this path, with the most similar name."""
    if not text.strip():
        return "name a file or folder"
    missing = source_path(root, text)
    if os.path.exists(missing):
        return None
    while missing.parent != missing and not os.path.exists(missing.parent):
        missing = missing.parent
    known = list(islice(_names_in(missing.parent), _NAMES))
    begun = [name for name in known if name.casefold().startswith(missing.name.casefold())]
    meant = f" (did you mean '{min(begun, key=len)}'?)" if begun else did_you_mean(missing.name, known)
    return f"there is no {missing.name} in {_folder_name(root, missing.parent)}{meant}"


def _folder_name(root: Path, folder: Path) -> str:
    project = os.path.abspath(root)
    if folder == Path(project):
        return "the project's folder"
    return os.path.relpath(folder, project) if folder.is_relative_to(project) else str(folder)


def _names_in(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries)
    except OSError:  # a folder that cannot be read suggests no names
        return


def problem_text(sentence: str, path: Path) -> str:
    """Why nothing was imported; if options can fix it, refers to the command line."""
    if "--" not in sentence:
        return sentence
    return f"{sentence}\n\nOptions are for the command line: tui-evals import {path} …"


COMMANDS: Commands = {"import": Command(import_path)}
