"""The review of proposed items: a model writes them, or they failed; each is kept, dropped or edited by one key."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.worker import Worker

from tui_evals.datasets.paths import CannotEdit, DatasetError, get_at, set_at
from tui_evals.datasets.prompts import prompt_of
from tui_evals.datasets.steps import insert_item
from tui_evals.generate.asking import CannotGenerate
from tui_evals.generate.proposals import (
    MOST,
    Proposal,
    ProposalRequest,
    Seed,
    ask_for_proposals,
    failed_proposals,
    find_duplicates,
    item_texts,
    named_item,
    place_for,
    prompt_text,
    question_of,
    stored_proposals,
    text_label,
)
from tui_evals.project_files import resolved
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.targets.base import ConfigurationError, TargetConfig
from tui_evals.targets.config import find_target
from tui_evals.targets.permissions import NotApproved, Permission
from tui_evals.text.measures import counted, money
from tui_evals.text.safe import safe_line, spelled
from tui_evals.tui.actions import Where, bindings
from tui_evals.tui.completion import Completer
from tui_evals.tui.desk import Desk
from tui_evals.tui.latest_statuses import runs_of
from tui_evals.tui.messages import Severity, StateChanged
from tui_evals.tui.pane import FeatureScreen, perform
from tui_evals.tui.permissions import NOT_AGREED, approve
from tui_evals.tui.rows import JoinedRows, Row, Rows, fit, paragraph, row
from tui_evals.tui.widgets.bar import Keys, Status
from tui_evals.tui.widgets.dialogs import Ask, Entry, Menu, ask_priced
from tui_evals.tui.widgets.form import Form
from tui_evals.tui.widgets.form_fields import Field
from tui_evals.tui.widgets.inputs import give_keys
from tui_evals.tui.widgets.lines import Lines

KEPT = "proposals"
"""The session key for undecided proposals, by dataset file."""
_REFUSALS = (CannotGenerate, ConfigurationError, DatasetError, NotApproved, StoreError, LookupError, OSError)
_SCRIPTED = " It is a script to try this out: add a target to .evals/config.toml (, opens the settings) for real items."
_NO_RULES = "this dataset has no rules; esc, then 8 makes one with rules"
_NO_FAILURES = "the last run of this dataset has no failed answers"
_NO_ITEM = "go to an item first, or mark some: new items are written from them"
_NAMED = 3
"""Items that are named while they have no reply."""
_PATIENCE = 15.0
"""Seconds that an unavailable target is retried while a user waits."""
_HARDER_WORDS = "harder variants"
_HARDER = (
    "Write variants that are harder to answer right: rarer cases, more conditions, misleading details, or an "
    "unusual way of asking. They test the same ability."
)
_COUNT = 5
"""Items from each seed where the user types no other number."""
_MANY_HARDER = re.compile(r"(\d{1,2})\s*([a-z ]*)")
_NAMED_RULE = re.compile(r"\brule (\d+)\b", re.IGNORECASE)


def _some_text(text: str) -> str | None:
    return None if text.strip() else "write something"


class ProposalsScreen(FeatureScreen):
    """The queue, the proposal at the cursor, and its source; keys do not reach the panes below."""

    where: ClassVar[Where] = "proposals"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("proposals")]
    DEFAULT_CSS = """
    ProposalsScreen { layout: vertical; background: $background; }
    ProposalsScreen Lines { border: round $border-blurred; border-title-color: $text-muted; }
    ProposalsScreen Lines:focus { border: round $accent; border-title-color: $accent; }
    ProposalsScreen #queue { height: 2fr; min-height: 8; }
    ProposalsScreen Horizontal { height: 3fr; }
    ProposalsScreen Horizontal Lines { width: 1fr; }
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        editing = desk.workspace.editing
        assert editing is not None
        self.desk = desk
        self.editing = editing
        self.file = str(editing.document.file)
        kept = self._all_kept().get(self.file)
        self.queue = stored_proposals(kept.get("queue") if isinstance(kept, dict) else None)
        self.spent = float(kept.get("spent") or 0.0) if isinstance(kept, dict) else 0.0
        self.duplicates: list[str] = []
        self.decided: list[tuple[int, Proposal, int | None]] = []
        """The decisions made here: index in the queue, the proposal, and its position in the dataset if accepted."""
        self._asking: Worker[None] | None = None
        self._seeds = 0
        """The number of items that proposals are based on."""
        self._waiting: list[Seed] = []
        """Seeds without a reply yet."""
        self._before = self.spent
        """The amount spent before the current requests."""
        self._since = 0.0
        self._problem = ""
        """Why the last questions got no items."""

    def compose(self) -> ComposeResult:
        self.lines, self.text = Lines(id="queue"), Lines(choosing=False, id="text")
        self.seed = Lines(choosing=False, id="seed")
        yield self.lines
        with Horizontal():
            yield self.text
            yield self.seed
        yield Status()
        yield Keys()

    def on_mount(self) -> None:
        self.text.border_title, self.seed.border_title = Content("proposal"), Content("written from")
        give_keys(self.lines)
        self.set_interval(0.5, self._tick)
        self._compare_soon()
        self.draw()
        if not self.queue:
            perform(self, "ask")

    # -- the queue

    def _all_kept(self) -> dict[str, Any]:
        kept = self.desk.session.values.get(KEPT)
        return dict(kept) if isinstance(kept, dict) else {}

    def _keep_queue(self) -> None:
        """Keep undecided proposals in the session, because they were paid for."""
        kept = {"queue": [one.stored() for one in self.queue], "spent": self.spent}
        others = {file: one for file, one in self._all_kept().items() if file != self.file}
        self.desk.session.put(KEPT, {**others, self.file: kept} if self.queue else others)

    def _found(self, seed: Seed, proposals: list[Proposal], spent: float) -> None:
        self._waiting.remove(seed)
        self.spent = self._before + spent
        self.queue += proposals
        self._changed()

    def _changed(self) -> None:
        self._keep_queue()
        self.draw()
        if self.is_mounted:
            self._compare_soon()

    def _compare_soon(self) -> None:
        # Not a coroutine, which would never be awaited where the screen is left before the worker begins.
        compare: Any = self._compare
        self.run_worker(compare, group="comparing", name="comparing", exclusive=True, exit_on_error=False)

    async def _compare(self) -> None:
        """Find again which proposals repeat something; there may be many items to compare with."""
        workspace, queue = self.desk.workspace, list(self.queue)
        pairs = list(zip(workspace.names(), workspace.items, strict=True))
        found = await asyncio.to_thread(find_duplicates, queue, pairs)
        if queue == self.queue:
            self.duplicates = found
            self.draw()

    def _duplicate(self, number: int) -> str:
        return self.duplicates[number] if number < len(self.duplicates) else ""

    # -- showing

    @property
    def at(self) -> int | None:
        """The place in the queue of the proposal under the cursor."""
        key = self.lines.key
        return key if isinstance(key, int) and key < len(self.queue) else None

    def draw(self, at: int | None = None) -> None:
        """Show the current queue."""
        if not self.is_mounted:
            return
        kept = sum(place is not None for _, _, place in self.decided)
        cost = f" · {money(self.spent)} spent" if self.spent else ""
        title = f"Proposed items · {len(self.queue)} to decide · {kept} kept{cost}"
        self.lines.border_title = Content(safe_line(title, 120))
        self.lines.show(self._rows, at=at)
        self._show_text()
        self.offer_keys()
        self._tick()

    def _rows(self, width: int) -> list[Row]:
        rows = []
        for number, proposal in enumerate(self.queue):
            warning = self._duplicate(number)
            room = min(30, width // 3) if warning else 0
            first = " ".join(text for path, text in item_texts(proposal.item) if path[-1] != "expected_response")
            name = fit(f"{number + 1:>3}  ", 5, "dim")
            asked = fit(safe_line(spelled(first), 400), width - 5 - room)
            rows.append(row(name, asked, fit(warning, room, "warn"), key=number))
        if rows:
            return rows
        nothing = "Asking…" if self._asking is not None else "Nothing to decide. n asks for items, esc goes back."
        return [*paragraph(self._problem, width, "error"), row((nothing, "dim"))]

    def _show_text(self) -> None:
        number = self.at if self.lines.key is not None else (0 if self.queue else None)
        proposal = self.queue[number] if number is not None else None
        warning = self._duplicate(number) if number is not None else ""
        self.text.show(lambda width: _proposal_rows(proposal, warning, width))
        self.seed.show(lambda width: _seed_rows(proposal, width))

    def on_lines_moved(self, event: Lines.Moved) -> None:
        if event.lines is self.lines:
            self._show_text()

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        event.stop()
        self.action_act("keep")

    def _tick(self) -> None:
        if self._asking is None:
            rest = f"{counted(len(self.queue), 'proposal')} to decide"
        else:
            seconds = int(time.monotonic() - self._since)
            done, waiting = self._seeds - len(self._waiting), ", ".join(seed.name for seed in self._waiting[:_NAMED])
            more = len(self._waiting) - _NAMED
            names = f"{waiting} and {more} more" if more > 0 else waiting
            rest = f"asking: {done} of {counted(self._seeds, 'item')} done, waiting for {names} · {seconds} s"
            rest += " · esc stops"
        for status in self.query(Status):
            status.rest(rest)

    # -- deciding

    def why_not(self, action: str) -> str | None:
        if action in ("leave", "help"):
            return None
        if action == "ask":
            return "a model is being asked already; esc stops it" if self._asking is not None else None
        if action == "undo":
            return None if self.decided else "nothing was decided here yet"
        return None if self.queue else "there is no proposal to decide; n asks for items"

    def _keep(self, number: int) -> None:
        workspace, proposal = self.desk.workspace, self.queue[number]
        item = named_item(proposal, workspace.test_ids)
        place = place_for(workspace.items, proposal)
        where, marks = workspace.where, {mark + (mark >= place) for mark in workspace.marks}
        workspace.apply(insert_item(workspace.data, place, item), f"a proposed item from {proposal.seed.name}")
        if workspace.item is not None and workspace.item >= place:
            where = ("items", workspace.item + 1, *where[2:])
        workspace.go(where, marks)
        del self.queue[number]
        self.decided.append((number, proposal, place))
        self.desk.post_message(StateChanged())

    def do_keep(self) -> None:
        number = self.at
        if number is None:
            return
        try:
            self._keep(number)
        except CannotEdit as problem:
            self.tell(str(problem), "warn")
            return
        self._changed()
        self.tell(f"kept as item {(self.decided[-1][2] or 0) + 1}; u undoes it, ctrl+s in the workbench saves it")

    def do_drop(self) -> None:
        number = self.at
        if number is not None:
            self.decided.append((number, self.queue.pop(number), None))
            self._changed()
            self.tell("dropped; u brings it back")

    async def do_keep_all(self) -> None:
        await self._compare()
        keep = [number for number in range(len(self.queue)) if not self._duplicate(number)]
        try:
            for gone, number in enumerate(keep):
                self._keep(number - gone)
        except CannotEdit as problem:
            self.tell(str(problem), "warn")
            return
        self._changed()
        kept = f"{counted(len(keep), 'item')} kept"
        if self.queue or self._asking is not None:
            self.tell(f"{kept}, {len(self.queue)} left to decide. u undoes one at a time")
        else:
            self.dismiss(None)
            self.desk.tell(f"{kept}. u undoes one at a time, ctrl+s saves")

    def do_undo(self) -> None:
        number, proposal, place = self.decided[-1]
        workspace = self.desk.workspace
        if place is not None:
            there = workspace.items[place] if place < len(workspace.items) else {}
            if question_of(there if isinstance(there, dict) else {}) != question_of(proposal.item):
                self.tell("the dataset was changed since; undo the item in the workbench", "warn")
                return
            workspace.step(-1)
            self.desk.post_message(StateChanged())
        self.decided.pop()
        self.queue.insert(number, proposal)
        self._changed()
        self.tell("undone; the proposal is back")

    async def do_edit(self) -> None:
        number = self.at
        if number is None:
            return
        proposal = self.queue[number]
        paths = {text_label(path): path for path, _ in item_texts(proposal.item)}
        values = {text_label(path): text for path, text in item_texts(proposal.item)}
        fields, complete = [Field(name) for name in paths], Completer(self.desk.workspace, "prompt")
        form = Form("edit the proposal", fields, values, keeps=True, check=_faults(values), complete=complete)
        entered = await self.app.push_screen_wait(form)
        if entered is None or number >= len(self.queue) or self.queue[number] is not proposal:
            return
        item = proposal.item
        for name, path in paths.items():
            if isinstance(text := entered.get(name), str):
                item = set_at(item, path, text)
            elif path == ("expected_response",):
                item = {key: value for key, value in item.items() if key != "expected_response"}
        self.queue[number] = Proposal(item, proposal.seed)
        self._changed()

    # -- asking

    async def do_ask(self) -> None:
        try:
            started = await self._ask()
        except _REFUSALS as problem:
            self._say_or_leave(str(problem), "error")
            return
        if not started:
            self._say_or_leave("", "info")

    def _say_or_leave(self, text: str, kind: Severity) -> None:
        """Report why nothing was requested; closes the screen if there is nothing to decide either."""
        if self.queue or self.decided:
            self.tell(text, kind)
            return
        self.dismiss(None)
        if text:
            self.desk.tell(text, kind)

    async def _ask(self) -> bool:
        """Choose what to ask, show its price, and begin after a yes; whether something was begun."""
        workspace = self.desk.workspace
        places = sorted(workspace.marks) or ([] if workspace.item is None else [workspace.item])
        items = workspace.items
        seeds = [
            Seed(place, workspace.name_of(place), items[place])
            for place in places
            if isinstance(items[place], dict) and question_of(items[place])
        ]
        failures = await asyncio.to_thread(self._failures)
        rules = _rules_of(workspace.data)
        chosen = await self.app.push_screen_wait(_menu(seeds, failures, rules))
        if chosen is None:
            return False
        kind, value = chosen
        if kind == "failures":
            self.queue += failures
            self._changed()
            self.tell(f"{counted(len(failures), 'failed item')} of the last run; nothing was asked")
            return True
        if kind == "harder failures":
            seeds = [proposal.seed for proposal in failures]
        if not seeds:
            raise ConfigurationError(_NO_ITEM)
        count: int | None = _COUNT
        rule = ""
        if kind == "language":
            language = await self.app.push_screen_wait(Ask("in which language?", check=_some_text))
            instruction, count = f"Translate the item into {language}, as a native speaker would write it.", 1
            if language is None:
                return False
        elif kind == "words":
            instruction, count = value, None
            named = _NAMED_RULE.search(value)
            number = int(named[1]) - 1 if named else -1
            rule = rules[number] if 0 <= number < len(rules) else ""
        elif kind == "rule":
            instruction, rule = "Write items that try to make the chatbot break the rule below.", rules[value]
        else:
            instruction, count = _HARDER, value
        target = await self._target()
        if target is None:
            return False
        about = await asyncio.to_thread(self._prompt_text)
        request = ProposalRequest(
            instruction=instruction, seeds=seeds, target=target, count=count, rule=rule, about=about
        )
        missing = await ask_priced(self.app, "ask for items", partial(self._priced, request), "ask")
        if missing is None:
            return False
        if not await approve(self.app, missing, workspace.root):
            self.tell(NOT_AGREED, "warn")
            return False
        self._seeds, self._waiting = len(seeds), list(seeds)
        self._since, self._problem = time.monotonic(), ""
        self._before = self.spent
        self._asking = self.run_worker(self._work(request), group="asking", name="asking", exit_on_error=False)
        self.draw()
        return True

    async def _priced(self, request: ProposalRequest) -> tuple[str, list[Permission]]:
        """The question with the price and the missing permissions."""
        project = await asyncio.to_thread(self.desk.workspace.project)
        price = await asyncio.to_thread(request.price, project)
        missing = await asyncio.to_thread(request.missing, project)
        scripted = _SCRIPTED if request.target.model == "demo" else ""
        items = "items" if request.count is None else counted(request.count, "item")
        each = "each of " if len(request.seeds) > 1 else ""
        seeds = f"{each}{_seeds_in_words(request.seeds)}"
        return f"Ask {request.target.name} for {items} from {seeds}: {price}.{scripted}", missing

    async def _target(self) -> TargetConfig | None:
        """Which target writes: the only one, or the one chosen; the demo where none is configured."""
        settings = self.desk.workspace.settings
        names = list(settings.answering)
        if not names and settings.broken:
            raise ConfigurationError("; ".join(settings.broken.values()))
        names = names or ["demo"]
        usual = next(iter(settings.usual_targets), None)
        name: Any = names[0]
        if len(names) > 1:
            entries = [Entry(one, one, settings.targets[one].model) for one in names]
            name = await self.app.push_screen_wait(Menu("what writes the items?", entries, at=usual))
        if name is None:
            return None
        config = find_target(name, settings)
        return replace(config, max_outage=min(config.max_outage, _PATIENCE))

    def _prompt_text(self) -> str:
        return prompt_text(prompt_of(self.editing.document))

    def _failures(self) -> list[Proposal]:
        """Proposals from the failures of the latest run of the dataset."""
        workspace = self.desk.workspace
        with Reader(workspace.database) as reader:
            run = next(iter(runs_of(reader, resolved(self.editing.document.file), workspace.root)), None)
            return [] if run is None else failed_proposals(run, reader)

    async def _work(self, request: ProposalRequest) -> None:
        message: tuple[str, Severity] = ("stopped. What had arrived is in the queue", "warn")
        try:
            project = await asyncio.to_thread(self.desk.workspace.project)
            name = f"proposals for {self.editing.document.file.name}"
            asked = await ask_for_proposals(request, project, name, self._found)
            self.spent = self._before + asked.spent
            message = ("; ".join(asked.problems), "error") if asked.problems else ("", "info")
        except _REFUSALS as problem:
            message = str(problem), "error"
        finally:
            self._asking = None
            self._problem = message[0] if message[1] == "error" else ""
            self._changed()
            self.tell(*message)

    def do_leave(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            return
        self.dismiss(None)
        if self.queue:
            self.desk.tell(f"{counted(len(self.queue), 'proposal')} kept for later; ctrl+g shows them again")


def _seeds_in_words(seeds: Sequence[Seed]) -> str:
    return seeds[0].name if len(seeds) == 1 else counted(len(seeds), "item")


def _rules_of(data: Any) -> list[str]:
    """The output rules of a dataset, as its generation wrote them."""
    rules = get_at(data, ("extensions", "promptpex", "rules"))
    return [line for line in rules.split("\n") if line.strip()] if isinstance(rules, str) else []


def _menu(seeds: Sequence[Seed], failures: Sequence[Proposal], rules: Sequence[str]) -> Menu:
    """The kinds of proposals; other text that is typed is sent as the user's own request."""
    of = f"from {_seeds_in_words(seeds)}" if seeds else ""
    none, no_failures = "" if seeds else _NO_ITEM, "" if failures else _NO_FAILURES
    failed = counted(len(failures), "failed item")
    entries = [
        Entry(("harder", _COUNT), f"{_COUNT} {_HARDER_WORDS}", of, why_not=none),
        Entry(("language", None), "in another language", of, why_not=none),
        Entry(("failures", None), "the last run's failures as items", f"{failed}, no model", why_not=no_failures),
        Entry(("harder failures", _COUNT), f"{_COUNT} {_HARDER_WORDS} of the failures", failed, why_not=no_failures),
    ]
    for number, rule in enumerate(rules):
        about = safe_line(rule, 200)
        entries.append(Entry(("rule", number), f"the inverse of rule {number + 1}", about, why_not=none))
    if not rules:
        entries.append(Entry(("rule", 0), "the inverse of a rule", why_not=_NO_RULES))

    def typed(text: str) -> Entry | None:
        words = text.strip()
        many = _MANY_HARDER.fullmatch(words)
        if many and 0 < int(many[1]) <= MOST and _HARDER_WORDS.startswith(many[2]):
            count = int(many[1])
            return None if count == _COUNT else Entry(("harder", count), f"{count} {_HARDER_WORDS}", of, why_not=none)
        return Entry(("words", words), words, "in your words", why_not=none) if words else None

    of_rules = ", three against rule 2" if len(rules) > 1 else ""
    intro = f"Choose, or write what you want: a number, ten about refunds, in Spanish{of_rules}."
    does, typing = "asks what it costs", "what you want"
    return Menu("propose items", entries, typed=typed, typing=typing, does=does, intro=intro)


def _faults(before: dict[str, str]) -> Any:
    """Refuse an emptied text that the item needs."""

    def check(values: Any) -> dict[str, str]:
        needed = (name for name in before if not name.endswith("expected_response"))
        return {name: "it must not be empty" for name in needed if not str(values.get(name) or "").strip()}

    return check


def _proposal_rows(proposal: Proposal | None, warning: str, width: int) -> Rows:
    if proposal is None:
        return [row()]
    facts = proposal.facts
    said = [f"{name}: {facts[name]}" for name in ("from", "by", "rule", "instruction", "run", "when") if name in facts]
    parts: list[Rows] = [paragraph(f"Duplicate: {warning}", width, "warn")] if warning else []
    return JoinedRows([*parts, *_text_rows(proposal.item, width), paragraph("\n".join(said), width, "dim")])


def _seed_rows(proposal: Proposal | None, width: int) -> Rows:
    if proposal is None:
        return [row()]
    return JoinedRows([paragraph(proposal.seed.name, width, "strong"), *_text_rows(proposal.seed.item, width)])


def _text_rows(item: dict[str, Any], width: int) -> list[Rows]:
    rows: list[Rows] = []
    for path, text in item_texts(item):
        rows += [paragraph(text_label(path), width, "accent"), paragraph(spelled(text), width, "", 2)]
    return rows
