"""A conversation with a target: the prompt under test it begins with, what was said, and what each answer took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tui_evals.datasets.document import Document
from tui_evals.datasets.from_chat import item_of_messages
from tui_evals.datasets.model import Message
from tui_evals.datasets.problems import DatasetError
from tui_evals.datasets.prompts import load_prompt, prompt_name, prompt_of
from tui_evals.present.answers import ending_text
from tui_evals.runs.opening import items_of, price_for
from tui_evals.runs.prompting import Chat, PromptUnderTest, assistant, plain
from tui_evals.targets.base import (
    ConfigurationError,
    Price,
    Reply,
    Request,
    Target,
    TargetConfig,
    TargetError,
    Usage,
    attempt_clock,
)
from tui_evals.targets.config import Settings, find_target, is_model
from tui_evals.targets.opening import open_target
from tui_evals.targets.permissions import NotApproved
from tui_evals.text.box import TemplateError
from tui_evals.text.endings import ending_word
from tui_evals.text.templates import template_variables


class CannotTalk(Exception):
    """There is no answer, or nothing to make an item of; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ConversationStart:
    """What every conversation about a dataset begins with, and what is sent along with its questions."""

    prompt: PromptUnderTest | None = None
    names: tuple[str, ...] = ()
    """The variables of the prompt."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Their values where an item has none."""
    tools: tuple[Mapping[str, Any], ...] = ()
    response_format: Any = None
    problem: str = ""
    """Why the prompt cannot be used."""


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """Who gave an answer, and what it took."""

    target: str
    seconds: float
    usage: Usage | None
    cost: float | None
    scripted: bool
    ending: str = ""
    """How it ended, where that is not as usual."""


def conversation_start(document: Document, data: dict[str, Any]) -> ConversationStart:
    """The beginning that a dataset sets, as it is being edited."""
    known, tools, response_format = data.get("variables"), data.get("tools"), data.get("response_format")
    sent = ConversationStart(
        known=known if isinstance(known, dict) else {},
        tools=tuple(tool for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else (),
        response_format=response_format
        if response_format in ("text", "json") or isinstance(response_format, dict)
        else None,
    )
    try:
        prompt = _prompt(replace(document, data=data))
        return replace(sent, prompt=prompt, names=_names(prompt) if prompt else ())
    except (DatasetError, TemplateError) as problem:
        message = str(problem)
    except ValidationError:
        message = "the messages of the dataset cannot be sent as they are"
    return replace(sent, problem=f"the prompt under test cannot be used: {message}. Mend it, then come back")


def _prompt(document: Document) -> PromptUnderTest | None:
    """The prompt file where the dataset names one, else its own messages, as in a run."""
    file = prompt_of(document)
    if file is not None:
        return PromptUnderTest(prompt_name(file), load_prompt(file))
    messages = document.data.get("messages")
    if not messages:
        return None
    written = messages if isinstance(messages, list) else [messages]
    return PromptUnderTest(messages=plain([Message.model_validate(message) for message in written]))


def _names(prompt: PromptUnderTest) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for text in prompt.templates:
        names |= dict.fromkeys(template_variables(text))
    return tuple(names)


def first_target(settings: Settings) -> TargetConfig:
    """Who is talked to at first: what runs ask, else the first that is configured, else the offline demo."""
    names = (*settings.run.targets, *settings.answering, "demo")
    return find_target(next(name for name in names if name in settings.targets or is_model(name)), settings)


class Conversation:
    """What was said so far, and with whom; the target is opened with the first question."""

    def __init__(self, root: Path, environment: Callable[[], Mapping[str, str]], config: TargetConfig) -> None:
        self.config = config
        self.beginning = ConversationStart()
        self.values: dict[str, Any] = {}
        """Values of the variables of the prompt under test."""
        self.system = ""
        """What the target is told first, where there is no prompt under test."""
        self.messages: list[Mapping[str, Any]] = []
        self.taken: dict[int, AnswerCost] = {}
        """By the place of the answer among the messages."""
        self._root = root
        self._environment = environment
        self._opening: asyncio.Task[tuple[Target, Price | None]] | None = None

    def begin(self, beginning: ConversationStart, values: Mapping[str, Any]) -> None:
        """Begin as a dataset says, with values for its variables."""
        self.beginning = beginning
        known = {**beginning.known, **values}
        self.values = {name: known[name] for name in beginning.names if name in known}

    def clear(self) -> None:
        """Forget what was said."""
        self.messages, self.taken = [], {}

    async def change(self, config: TargetConfig) -> None:
        """Talk to another target from now on; what was said stays."""
        await self.close()
        self.config = config

    def opening(self) -> Chat:
        """What stands before the first question, filled in; CannotTalk says what is missing."""
        beginning = self.beginning
        if beginning.problem:
            raise CannotTalk(beginning.problem)
        if beginning.prompt is None:
            return ({"role": "system", "content": self.system},) if self.system else ()
        values = {**beginning.known, **self.values}
        try:
            return beginning.prompt.rendered({name: "" if one is None else one for name, one in values.items()})
        except TemplateError as problem:
            raise CannotTalk(f"{problem}; ctrl+g gives the variables their values") from None

    async def ask(self, text: str) -> None:
        """Ask, and keep the question with its answer; CannotTalk when there is none, and then nothing is kept.

        NotApproved says what the target would do that nobody has agreed to; then it was not asked.
        """
        question = {"role": "user", "content": text}
        chat = (*await asyncio.to_thread(self.opening), *self.messages, question)
        config, started = self.config, time.monotonic()
        try:
            target, price = await self._opened()
            started = time.monotonic()
            async with attempt_clock(target, config.timeout):
                reply = await target.ask(self._request(chat))
        except TimeoutError:
            raise CannotTalk(f"{config.name} gave no answer within {config.timeout:g} s; ctrl+j asks again") from None
        except TargetError as problem:
            again = "; ctrl+j asks again" if problem.retryable else ""
            raise CannotTalk(f"{config.name}: {problem}{again}") from None
        except NotApproved:
            raise
        except (ConfigurationError, DatasetError) as problem:
            raise CannotTalk(f"{problem} (ctrl+o talks to another target)") from None
        seconds = time.monotonic() - started if reply.seconds is None else reply.seconds
        self.taken[len(self.messages) + 1] = _answer_cost(config, seconds, reply, price)
        self.messages += [question, assistant(reply.text, reply.tool_calls)]

    def _request(self, chat: Chat) -> Request:
        return Request(
            messages=chat,
            tools=self.beginning.tools,
            response_format=self.beginning.response_format,
            params=dict(self.config.params),
            turn=sum(message["role"] == "user" for message in self.messages),
            variables=self.values,
        )

    async def _opened(self) -> tuple[Target, Price | None]:
        """The target, opened once, away from the screen: a function has to be imported, a file to be read."""
        if self._opening is None:
            self._opening = asyncio.create_task(asyncio.to_thread(self._open, self.config))
        try:
            return await asyncio.shield(self._opening)
        except (ConfigurationError, DatasetError):
            self._opening = None
            raise

    def _open(self, config: TargetConfig) -> tuple[Target, Price | None]:
        return open_target(config, self._environment(), self._root, items_of), price_for(config)

    async def close(self) -> None:
        """Give the target back."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        await asyncio.wait([opening])
        if opening.exception() is None:
            await opening.result()[0].close()

    def answer(self) -> tuple[str, Sequence[Mapping[str, Any]]]:
        """What was answered last: its text, and the tool calls as name and arguments."""
        last = self.messages[-1] if self.messages else {}
        return str(last.get("content") or ""), [call["function"] for call in last.get("tool_calls", ())]

    def item(self) -> dict[str, Any]:
        """The item that asks all this again, without what the dataset itself puts before it."""
        if not self.messages:
            raise CannotTalk("nothing has been said yet: write a question and send it with ctrl+j")
        before = self.opening() if self.beginning.prompt is None else ()
        known = self.beginning.known
        variables_of_item = {
            name: value for name, value in self.values.items() if name not in known or known[name] != value
        }
        return item_of_messages([*before, *self.messages], variables_of_item)


def _answer_cost(config: TargetConfig, seconds: float, reply: Reply, price: Price | None) -> AnswerCost:
    cost = reply.cost
    if cost is None and price is not None and reply.usage is not None:
        cost = price.cost(reply.usage)
    ending = ending_text(ending_word(reply.finish_reason, reply.diagnostics))
    return AnswerCost(config.name, seconds, reply.usage, cost, reply.scripted, ending)
