"""The screen of the playground: a conversation with a target, and the item it can become."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.worker import Worker

from tui_evals.datasets.editing import Editing
from tui_evals.datasets.paths import CannotEdit
from tui_evals.datasets.steps import insert_item
from tui_evals.present.transcripts import arguments_text
from tui_evals.runs.approving import find_typed
from tui_evals.targets.answers import content_text
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import Settings, find_target
from tui_evals.targets.permissions import NotApproved
from tui_evals.text.measures import duration, money
from tui_evals.text.safe import safe_line
from tui_evals.tui.actions import Where, bindings
from tui_evals.tui.messages import Severity, ShowPane, StateChanged, StatusMessage
from tui_evals.tui.pane import FeatureScreen, perform
from tui_evals.tui.permissions import NOT_AGREED, approve
from tui_evals.tui.playground.conversation import (
    AnswerCost,
    CannotTalk,
    Check,
    Conversation,
    ConversationStart,
    conversation_start,
    first_target,
    suggested_checks,
    with_checks,
)
from tui_evals.tui.rows import JoinedRows, Rows, Style, paragraph, row
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import Ask, Entry, Menu
from tui_evals.tui.widgets.form import Form
from tui_evals.tui.widgets.form_fields import Field
from tui_evals.tui.widgets.inputs import EditArea, give_keys
from tui_evals.tui.widgets.lines import Lines
from tui_evals.tui.workspace import Workspace

_ROLES: Mapping[str, Style] = {"system": "dim", "user": "accent", "assistant": "strong", "tool": "warn"}


class ShownMessage(NamedTuple):
    """One message, or a remark if it has no role."""

    role: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()
    note: str = ""
    style: Style = ""


def parts_of(talk: Conversation, pending: str | None = None) -> list[ShownMessage]:
    """The conversation so far, with a question that has no answer yet."""
    parts = _beginning(talk)
    for place, message in enumerate(talk.messages):
        taken = talk.taken.get(place)
        parts.append(_part(message, note=cost_words(taken) if taken else ""))
    if pending is not None:
        parts.append(ShownMessage("user", pending))
    elif not talk.messages:
        parts.append(ShownMessage("", _invitation(talk), style="dim"))
    return parts


def _beginning(talk: Conversation) -> list[ShownMessage]:
    prompt = talk.beginning.prompt
    try:
        return [_part(message, style="dim") for message in talk.opening()]
    except CannotTalk as problem:
        sentence = ShownMessage("", str(problem), style="warn")
    if prompt is None:
        return [sentence]
    if prompt.prompty is not None:
        return [
            *(ShownMessage(section.role, section.text, style="dim") for section in prompt.prompty.sections),
            sentence,
        ]
    return [*(_part(message, style="dim") for message in prompt.messages), sentence]


def _part(message: Mapping[str, Any], note: str = "", style: Style = "") -> ShownMessage:
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    others = [f"<{block.get('type')}>" for block in blocks if isinstance(block, dict) and block.get("type") != "text"]
    text = "\n".join(text for text in (content_text(content), *others) if text)
    calls = message.get("tool_calls")
    functions = [call.get("function", call) for call in calls or () if isinstance(call, dict)]
    called = tuple(
        (str(one.get("name")), arguments_text(one.get("arguments", ""))) for one in functions if isinstance(one, dict)
    )
    return ShownMessage(str(message.get("role")), text, called, note, style)


def cost_words(taken: AnswerCost) -> str:
    """The cost of an answer, on one line."""
    usage, cost = taken.usage, taken.cost
    tokens = f"{usage.input_tokens:,} + {usage.output_tokens:,} tokens" if usage else "no token counts"
    paid = "unpriced" if cost is None else money(cost)
    scripted = ("scripted",) if taken.scripted else ()
    ending = (taken.ending,) if taken.ending else ()
    return " · ".join((taken.target, duration(taken.seconds), tokens, paid, *scripted, *ending))


def _invitation(talk: Conversation) -> str:
    first = f"Write below what you want to ask {talk.config.name}; ctrl+j sends it."
    return f"{first}\nctrl+o talks to another target, ctrl+t makes an item of the conversation, f1 shows all keys."


class Transcript:
    """The rows of a conversation; each part of it is wrapped once for a width, which may take a while."""

    def __init__(self) -> None:
        self._made: dict[tuple[ShownMessage, int], Rows] = {}

    def lay_out(self, parts: Sequence[ShownMessage], width: int) -> tuple[Rows, int]:
        """All rows, and the number of the one in which the last question begins."""
        before, self._made = self._made, {}
        blocks: list[Rows] = []
        start = length = 0
        for part in parts:
            key = (part, width)
            rows = before.get(key) or _rows(part, width)
            self._made[key] = rows
            start = length if part.role == "user" else start
            blocks.append(rows)
            length += len(rows)
        return JoinedRows(blocks), start


def _rows(part: ShownMessage, width: int) -> Rows:
    rows: list[Rows] = []
    if part.role:
        rows.append(paragraph(part.role, width, _ROLES.get(part.role, "strong")))
    indent = 2 if part.role else 0
    if part.text:
        rows.append(paragraph(part.text, width, part.style, indent))
    for name, arguments in part.calls:
        rows += [paragraph(f"→ {name}", width, "strong", indent), paragraph(arguments, width, part.style, indent + 2)]
    if part.note:
        rows.append(paragraph(part.note, width, "dim", indent))
    return JoinedRows([*rows, [row()]])


class QuestionBox(EditArea):
    """The box to write in; the page keys move the conversation above."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "screen.page(-1)", "page up", show=False),
        Binding("pagedown", "screen.page(1)", "page down", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="box", compact=False)


_OTHER = ("another",)


async def choose_target(screen: Playground) -> None:
    """Choose who is talked to: a target of the configuration, the demo, or any model by its spelling."""
    settings = screen.workspace.settings
    entries = [Entry(name, name, settings.targets[name].model) for name in settings.answering]
    if "demo" not in settings.targets:
        entries.append(Entry("demo", "demo", "scripted answers, offline and free"))
    entries.append(Entry(_OTHER, "another…", "openai/gpt-4o-mini, replay:FILE, command:PROGRAM"))
    name = await screen.app.push_screen_wait(Menu("talk to", entries))
    if name == _OTHER:
        name = await screen.app.push_screen_wait(Ask("talk to a model", check=lambda text: _no_target(text, settings)))
    if isinstance(name, str):
        await screen.talk.change(find_typed(name, settings))
        screen.tell("")
        screen.draw()


def _no_target(text: str, settings: Settings) -> str | None:
    try:
        find_target(text, settings)
    except ConfigurationError as problem:
        return str(problem)
    return None


async def edit_variables(screen: Playground) -> None:
    """Give the variables of the prompt under test their values; where there is none, a system message."""
    talk = screen.talk
    if talk.beginning.prompt is None:
        about = "The system message before the first question. An item made from the conversation keeps it."
        values = {"system": talk.system} if talk.system else {}
        form = Form("system message", [Field("system", about=about, default="none")], values, keeps=True)
    elif talk.beginning.names:
        form = Form("variables of the prompt under test", _fields(talk), talk.values, keeps=True)
    else:
        screen.tell("the prompt under test has no variables", "warn")
        return
    entered = await screen.app.push_screen_wait(form)
    if entered is None:
        return
    if talk.beginning.prompt is None:
        talk.system = entered.get("system", "")
    else:
        talk.values = entered
    screen.tell("what was answered before was asked otherwise; ctrl+l begins again" if talk.messages else "")
    screen.draw()


def _fields(talk: Conversation) -> Sequence[Field]:
    """A field for each variable; values other than text are edited as JSON."""
    values: Mapping[str, Any] = {**talk.beginning.known, **talk.values}
    return [
        Field(name, "text" if isinstance(values.get(name, ""), str) else "json", "Put into the prompt under test.")
        for name in talk.beginning.names
    ]


async def make_item(screen: Playground) -> None:
    """Make an item of the conversation after the one the workbench is at, and go there."""
    workspace = screen.workspace
    try:
        item = screen.talk.item()
        checks = await asyncio.to_thread(suggested_checks, *screen.talk.answer())
        chosen = await screen.app.push_screen_wait(_menu(checks)) if checks else ()
        if chosen is None:
            screen.tell("no item was made")
            return
        position = len(workspace.items) if workspace.item is None else workspace.item + 1
        made = with_checks(item, [checks[number][1] for number in chosen])
        data = insert_item(workspace.data, position, made)
    except (CannotTalk, CannotEdit) as problem:
        screen.tell(str(problem), "warn")
        return
    workspace.apply(data, "a new item from the playground")
    workspace.where = ("items", position)
    screen.made_of = list(screen.talk.messages)
    screen.do_leave()
    for message in (
        StateChanged(),
        ShowPane("editor"),
        StatusMessage("the conversation is an item now; u undoes it, P returns to the conversation"),
    ):
        screen.app.post_message(message)


def _menu(checks: Sequence[Check]) -> Menu:
    entries = []
    for number, (message, check) in enumerate(checks):
        ((name, options),) = check.items()
        entries.append(Entry(number, name, message, json.dumps(options, ensure_ascii=False) if options else ""))
    return Menu("checks for the last answer: mark any, or none", entries, several=True, optional=True)


_NOTHING_SAID = "nothing has been said yet: write a question and send it with ctrl+j"
_NO_DATASET = (
    "no dataset is open: go back with esc, ctrl+n creates one and o opens one; P comes back to this conversation"
)
_WAITING = frozenset(("send", "make_item", "target", "variables", "clear"))


class Playground(FeatureScreen):
    """A conversation, a box to write in, and a status line; it gets all keys."""

    where: ClassVar[Where] = "playground"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("playground")]
    DEFAULT_CSS = """
    Playground { layout: vertical; background: $background; }
    Playground #talk { height: 1fr; border: round $border-blurred; border-title-color: $text-muted; }
    Playground #talk:focus { border: round $accent; border-title-color: $accent; }
    Playground #box { height: auto; min-height: 5; max-height: 40%; border: round $border-blurred; padding: 0; }
    Playground #box:focus { border: round $accent; }
    Playground #box .text-area--cursor-line { background: transparent; }
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace
        self.talk = Conversation(workspace.root, lambda: workspace.variables, first_target(workspace.settings))
        self.made_of: list[Mapping[str, Any]] = []
        """The messages when the last item was created from them."""
        self._transcript = Transcript()
        self._shown: list[ShownMessage] = []
        self._editing: Editing | None = None
        self._asking: Worker[None] | None = None
        self._pending: str | None = None
        self._since = 0.0
        self._away = True
        self._making = False

    def compose(self) -> ComposeResult:
        self.lines = Lines(choosing=False, id="talk")
        self.box = QuestionBox()
        yield self.lines
        yield self.box
        yield Status()
        yield Keys()

    def on_mount(self) -> None:
        self.box.border_title = Content("your question")
        give_keys(self.box)
        self.set_interval(0.5, self._tick)

    def on_screen_resume(self) -> None:
        """Coming from the workbench, begin as the open dataset says now."""
        if self._away:
            self._away = False
            self.tell("")
            self.run_worker(self._begin(), group="beginning", name="reading the prompt", exit_on_error=False)

    async def on_unmount(self) -> None:
        await self.talk.close()

    async def _begin(self) -> None:
        workspace, editing = self.workspace, self.workspace.editing
        beginning = ConversationStart()
        if editing is not None:
            beginning = await asyncio.to_thread(conversation_start, editing.document, workspace.data)
        kept = self.talk.values if editing is self._editing else {}
        item = workspace.items[workspace.item] if workspace.item is not None else {}
        own = item.get("variables") if isinstance(item, dict) and not self.talk.messages else None
        self.talk.begin(beginning, {**kept, **(own if isinstance(own, dict) else {})})
        self._editing = editing
        self.draw()

    # -- showing

    def draw(self) -> None:
        """Show the current conversation, once its lines are built."""
        name, model = self.talk.config.name, self.talk.config.model
        title = f"Playground · {name}" + (f" ({model})" if model != name else "")
        self.lines.border_title = Content(safe_line(title, 120))
        self.offer_keys()
        self.run_worker(self._draw(), group="drawing", name="drawing", exclusive=True, exit_on_error=False)

    async def _draw(self) -> None:
        width = self.lines.scrollable_content_region.width
        if not width:
            self.call_after_refresh(self.draw)
            return
        parts = await asyncio.to_thread(parts_of, self.talk, self._pending)
        rows, start = await asyncio.to_thread(self._transcript.lay_out, parts, width)

        def ready(now: int) -> Rows:
            if now != width:
                self.call_later(self.draw)
            return rows

        self.lines.show(ready)
        if parts != self._shown:
            self._shown = parts
            self.call_after_refresh(self.lines.scroll_to, y=start, animate=False)

    def tell(self, text: str, kind: Severity = "info") -> None:
        """Show a message for a while in place of the status."""
        self._tick()
        self.query_one(Status).tell(text, kind)

    def _tick(self) -> None:
        """Show the current status."""
        name = self.talk.config.name
        seconds = int(time.monotonic() - self._since)
        asking = f"{name}: asking… {seconds} s · esc stops waiting"
        self.query_one(Status).rest(f"talking to {name}" if self._asking is None else asking)

    def on_text_area_changed(self) -> None:
        self.offer_keys()

    def action_page(self, way: int) -> None:
        """A screen of the conversation on."""
        self.lines.action_page(way)

    # -- what can be done

    def why_not(self, action: str) -> str | None:
        if self._asking is not None and action in _WAITING:
            return "an answer is awaited; esc stops waiting for it"
        if self._making:
            return "one moment: the answer is looked through for checks"
        if action == "send" and not self.box.text.strip():
            return "there is nothing to send: write a question first"
        if action in ("make_item", "clear") and not self.talk.messages:
            return _NOTHING_SAID
        if action == "make_item" and self.workspace.editing is None:
            return _NO_DATASET
        return None

    def action_act(self, name: str) -> None:
        perform(self, name)

    def do_send(self) -> None:
        self._pending, self._since = self.box.text, time.monotonic()
        self.box.read_only = True
        self._asking = self.run_worker(self._ask(self._pending), group="asking", name="asking", exit_on_error=False)
        self.tell("")
        self.draw()

    async def _ask(self, text: str) -> None:
        message: tuple[str, Severity] = ("", "info")
        answered = False
        try:
            answered = await self._ask_once_agreed(text)
            message = ("", "info") if answered else (f"{NOT_AGREED}; the question is still in the box", "warn")
        except CannotTalk as problem:
            message = str(problem), "error"
        except asyncio.CancelledError:
            message = "stopped waiting for the answer. The question is still in the box", "warn"
            raise
        finally:
            self._asking = self._pending = None
            if self.is_mounted:
                self.box.read_only = False
                if answered:
                    self.box.clear()
                self.tell(*message)
                self.draw()

    async def _ask_once_agreed(self, text: str) -> bool:
        """Ask, after a question where the target takes a yes; whether there is an answer."""
        try:
            await self.talk.ask(text)
        except NotApproved as problem:
            if not await approve(self.app, problem.permissions, problem.root):
                return False
            await self.talk.ask(text)
        return True

    def would_be_lost(self) -> str | None:
        """What leaving would lose: a conversation without an item, or a question that was not sent."""
        if self.talk.messages != self.made_of:
            return "the conversation in the playground is in no item; P goes there, ctrl+t makes one of it"
        return "a question in the playground was not sent" if self.box.text.strip() else None

    def do_clear(self) -> None:
        self.talk.clear()
        self.draw()

    async def do_target(self) -> None:
        await choose_target(self)

    async def do_variables(self) -> None:
        await edit_variables(self)

    async def do_make_item(self) -> None:
        self._making = True
        try:
            await make_item(self)
        finally:
            self._making = False

    def do_leave(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        else:
            self._away = True
            self.dismiss(None)
