"""Actions on the current answer, in the results pane and the answer pane: verdict, copy, item, expectation."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tui_evals.datasets.document import load
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.fields import item_of_messages
from tui_evals.datasets.paths import CannotEdit, DatasetError, get_at
from tui_evals.datasets.paths import Path as DataPath
from tui_evals.datasets.steps import insert_item, set_field
from tui_evals.light_records import dataclass
from tui_evals.store.baselines import author_here
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.text.safe import safe_line
from tui_evals.tui.pane import Pane
from tui_evals.tui.widgets.dialogs import Ask, Entry, Menu

from .answer_context import AnswerContext, AnswerFinder, answer_title, source_file, unit_place
from .chosen_answers import ChosenAnswers
from .diff_rows import diff_texts, unified_text
from .messages import AnswerShown, CopyText, ItemShown, ShowPane


@dataclass(frozen=True, slots=True)
class CopyablePart:
    """A text to copy, or why there is none."""

    text: str
    why_not: str = ""


def copyable_parts(case: AnswerContext) -> dict[str, CopyablePart]:
    """Every part of an answer; the diff of long texts is work for a thread."""
    text, reference = case.text, case.reference
    diff = "" if text is None or reference is None else unified_text(diff_texts(reference, text))
    request = case.detail.answer.request if case.detail.answer else {}
    return {
        "answer": CopyablePart(text or "", "there is no answer" if text is None else "the answer is empty"),
        "prompt": CopyablePart(case.prompt, "the item has no prompt of its own"),
        "expected": CopyablePart(reference or "", "nothing is expected"),
        "diff": CopyablePart(diff, "there are no two texts to compare"),
        "request": CopyablePart(
            json.dumps(request, ensure_ascii=False, indent=2) if request else "", "nothing was sent yet"
        ),
        "item name": CopyablePart(case.row.name),
        "run id": CopyablePart(case.run.key),
        "command": CopyablePart(f"tui-evals show {case.run.key} --item {shlex.quote(case.row.name)}"),
    }


Verdict = Literal["pass", "fail"]
NO_ANSWER = "no answer is chosen; choose one in the results (4)"
_VERDICTS: Mapping[str, Verdict | None] = {"good": "pass", "bad": "fail", "back": None}


async def give_verdict(pane: Pane, chosen: ChosenAnswers | None = None) -> None:
    """Record the user's verdict and note for the current answer, or for all of `chosen`."""
    case = await answer_in_view(pane)
    if case is None:
        return
    author = author_here()
    mine = [label for label in case.detail.labels if label.author == author and label.evaluator is None]
    entries = [
        Entry("good", "good", "the answer passes"),
        Entry("bad", "bad", "the answer fails"),
        Entry("back", "clear", "remove your verdict", why_not="" if mine else "you have given none"),
    ]
    if chosen is not None:
        together = [Entry(("all", word), f"all {word}", chosen.says) for word in ("good", "bad")]
        together.append(Entry(("all", "back"), "take all back", chosen.says))
        entries = [*entries, *together] if chosen.text else [*together, *entries]
    picked = await pane.app.push_screen_wait(Menu(f"Your verdict on {answer_title(case)}", entries))
    if picked is None:
        return
    word, group = (picked[1], chosen) if isinstance(picked, tuple) else (picked, None)
    note: str | None = ""
    if word != "back":
        old = mine[-1].note if mine and group is None else ""
        title = f"Why it is {word}" if group is None else f"Why {word}: {group.says}"
        note = await pane.app.push_screen_wait(Ask(title, old, hint="a note, or nothing", keeps=True))
    if note is None:
        return
    verdict, text = _VERDICTS[word], note
    ids = [case.row.id] if group is None else list(group.ids)
    try:
        await pane.writer.write(lambda writer: writer.label_each(ids, verdict, author, text))
    except (StoreError, LookupError) as problem:
        pane.say(str(problem), "error")
        return
    if group is not None:
        done = "your verdicts were removed" if verdict is None else f"you say they are {word}"
        pane.say(f"{group.says}: {done}")
    else:
        done = "your verdict was removed" if verdict is None else f"you say it is {word}"
        pane.say(f"{answer_title(case)}: {done}")
    pane.post_message(AnswerShown())


def go_to_item(pane: Pane) -> None:
    """Go to the item of the answer in its dataset."""
    pane.app.run_worker(_show_item(pane), group="acts", name="item", exit_on_error=False)


async def _show_item(pane: Pane) -> None:
    case = await answer_in_view(pane)
    place = await unit_of_answer(pane, case) if case else None
    if place is None:
        return
    pane.workspace.where = place
    pane.post_message(ItemShown())
    pane.post_message(ShowPane("editor"))


async def copy_menu(pane: Pane, chosen: ChosenAnswers | None = None) -> None:
    """Choose what of the answer, or of all that are chosen, goes to the clipboard."""
    case = await answer_in_view(pane)
    if case is None:
        return
    parts = await asyncio.to_thread(copyable_parts, case)
    entries = [
        Entry(name, name, safe_line(part.text, 60), why_not="" if part.text else part.why_not)
        for name, part in parts.items()
    ]
    if chosen is not None:
        together = [Entry(("all", name), name, chosen.says) for name in _OF_ALL]
        together += [Entry(("all", name), name, command) for name, command in chosen.commands.items()]
        entries = [*entries, *together] if chosen.text else [*together, *entries]
    picked = await pane.app.push_screen_wait(Menu(f"Copy of {answer_title(case)}", entries))
    if isinstance(picked, tuple) and chosen is not None:
        text = await asyncio.to_thread(_text_of_all, pane.watching.database, chosen, picked[1])
        pane.post_message(CopyText(text, f"{picked[1]} of {chosen.says}" if picked[1] in _OF_ALL else picked[1]))
    elif picked is not None:
        pane.post_message(CopyText(parts[picked].text, picked))


_OF_ALL = ("item names", "texts")


def _text_of_all(database: Path, chosen: ChosenAnswers, part: str) -> str:
    """The text to copy for several answers: one name per line, or each text below its name."""
    if part in chosen.commands:
        return chosen.commands[part]
    if part == "item names":
        return "\n".join(chosen.items.values())
    with Reader(database) as reader:
        records = reader.records(chosen.ids)
        rows = reader.rows(chosen.ids)
    texts = ((row.name, record.text) for row in rows if (record := records.get(row.id)) is not None)
    return "\n\n".join(f"{name}\n{text}" for name, text in texts if text is not None)


async def expect_answer(pane: Pane) -> None:
    """Make the answer the expected response of its item, where that is still there."""
    case = await answer_in_view(pane)
    if case is None:
        return
    if not case.text:
        pane.say("there is no text to expect: the answer is empty or missing", "warn")
        return
    place = await unit_of_answer(pane, case)
    if place is None:
        return
    unit = get_at(pane.workspace.data, place)
    if unit.get("expected_response") == case.text:
        pane.say("the item expects this answer already")
        return
    called = safe_line(answer_title(case), 60)
    try:
        data = set_field(pane.workspace.data, place, "expected_response", case.text)
    except CannotEdit as problem:
        pane.say(str(problem), "warn")
        return
    pane.workspace.apply(data, f"the answer as the expected response of {called}")
    pane.changed()
    pane.say(f"{called} now expects this answer; u undoes it, t judges it again, ctrl+s saves it")


async def new_item(pane: Pane) -> None:
    """A new item from the conversation of the answer, after the current item."""
    case = await answer_in_view(pane)
    if case is None:
        return
    if pane.workspace.editing is None and await open_source_dataset(pane, case) is None:
        return
    reply = [] if case.text is None else [{"role": "assistant", "content": case.text}]
    workspace = pane.workspace
    position = len(workspace.items) if workspace.item is None else workspace.item + 1
    try:
        data = insert_item(workspace.data, position, item_of_messages([*case.messages, *reply]))
    except CannotEdit as problem:
        pane.say(str(problem), "warn")
        return
    workspace.apply(data, "a new item from a conversation")
    workspace.where = ("items", position)
    pane.changed()
    pane.post_message(ItemShown())
    pane.post_message(ShowPane("editor"))
    pane.say(f"item {position + 1} asks this conversation again; u undoes it, ctrl+s saves it")


async def answer_in_view(pane: Pane) -> AnswerContext | None:
    """The answer that is looked at, or a sentence that there is none."""
    answer = pane.watching.answer
    if answer is None:
        pane.say(NO_ANSWER, "warn")
        return None
    try:
        return await asyncio.to_thread(AnswerFinder(pane.watching.database).find, answer)
    except (LookupError, StoreError) as problem:
        pane.say(str(problem), "error")
        return None


async def unit_of_answer(pane: Pane, case: AnswerContext) -> DataPath | None:
    """The unit that was asked in its dataset, which is opened; or a sentence that it is not there."""
    file = await open_source_dataset(pane, case)
    if file is None:
        return None
    place = unit_place(pane.workspace.items, case)
    if place is None:
        pane.say(f"{answer_title(case)} is not in {file.name} any more, or asks something else now", "warn")
    return place


async def open_source_dataset(pane: Pane, case: AnswerContext) -> Path | None:
    """The dataset file a run asked, put on screen; or a sentence why that cannot be."""
    workspace = pane.workspace
    file = source_file(workspace.root, case.run, tuple(workspace.open))
    if file is None:
        pane.say(f"the run asked {case.run.source}, which is no dataset file of this project", "warn")
        return None
    before = workspace.editing
    try:
        if file not in workspace.open:
            workspace.open[file] = Editing(await asyncio.to_thread(load, file))
        workspace.enter(workspace.open[file])
    except DatasetError as problem:
        pane.say(str(problem), "error")
        return None
    if workspace.editing is not before:
        pane.changed()
    return file
