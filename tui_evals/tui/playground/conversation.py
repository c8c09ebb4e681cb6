"""A conversation with a target: its first prompt, the answers and their cost, and suggested checks."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tui_evals.datasets.document import Document
from tui_evals.datasets.fields import item_of_messages
from tui_evals.datasets.model import Message
from tui_evals.datasets.paths import DatasetError
from tui_evals.datasets.prompts import load_prompt, prompt_name, prompt_of
from tui_evals.evaluators.base import CannotJudge, Evidence, NoValueToJudge, Score, ToolCall
from tui_evals.evaluators.registry import built_in
from tui_evals.light_records import dataclass
from tui_evals.runs.judges import items_of, price_for
from tui_evals.runs.prompting import Chat, PromptUnderTest, assistant, plain
from tui_evals.store.answer_facts import ending_text
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
from tui_evals.text import strictjson
from tui_evals.text.measures import estimate_tokens
from tui_evals.text.model_output import ending_word
from tui_evals.text.templates import TemplateError, template_variables


class CannotTalk(Exception):
    """There is no answer, or nothing to make an item from; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ConversationStart:
    """What every conversation about a dataset starts with and sends with its questions."""

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
    """The target of an answer, and the answer's cost."""

    target: str
    seconds: float
    usage: Usage | None
    cost: float | None
    scripted: bool
    ending: str = ""
    """How it ended, where that is not as usual."""


def conversation_start(document: Document, data: dict[str, Any]) -> ConversationStart:
    """The start that an edited dataset defines."""
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
    return replace(sent, problem=f"the prompt under test cannot be used: {message}. Fix it, then come back")


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
    """The target to start with: that of runs, otherwise the first configured one, otherwise the offline demo."""
    names = (*settings.run.targets, *settings.answering, "demo")
    return find_target(next(name for name in names if name in settings.targets or is_model(name)), settings)


class Conversation:
    """A conversation with a target; the target is opened with the first question."""

    def __init__(self, root: Path, environment: Callable[[], Mapping[str, str]], config: TargetConfig) -> None:
        self.config = config
        self.beginning = ConversationStart()
        self.values: dict[str, Any] = {}
        """Values of the variables of the prompt under test."""
        self.system = ""
        """The system prompt if there is no prompt under test."""
        self.messages: list[Mapping[str, Any]] = []
        self.taken: dict[int, AnswerCost] = {}
        """By the index of the answer in the messages."""
        self._root = root
        self._environment = environment
        self._opening: asyncio.Task[tuple[Target, Price | None]] | None = None

    def begin(self, beginning: ConversationStart, values: Mapping[str, Any]) -> None:
        """Begin as a dataset says, with values for its variables."""
        self.beginning = beginning
        known = {**beginning.known, **values}
        self.values = {name: known[name] for name in beginning.names if name in known}

    def clear(self) -> None:
        """Clear the conversation."""
        self.messages, self.taken = [], {}

    async def change(self, config: TargetConfig) -> None:
        """Switch to another target; the conversation stays."""
        await self.close()
        self.config = config

    def opening(self) -> Chat:
        """The messages before the first question, filled in; raises CannotTalk if something is missing."""
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
        """Send a question and keep it with its answer. Raises CannotTalk if there is no answer, or NotApproved before
        sending if permissions are missing; then nothing is kept.
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
        """The text of the last answer, and its tool calls as name and arguments."""
        last = self.messages[-1] if self.messages else {}
        return str(last.get("content") or ""), [call["function"] for call in last.get("tool_calls", ())]

    def item(self) -> dict[str, Any]:
        """An item that repeats this conversation, without the messages that the dataset adds itself."""
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


Check = tuple[str, dict[str, Any]]
"""The request for a check in words, and the evaluator with its options as stored in a dataset."""

_MOST = 8
_LONG = 20_000
"""An answer of more characters is hardly expected word for word, and comparing it takes a while."""
_NUMBER = re.compile(r"(?<![\w.,-])-?\d{1,20}(?:[.,:]\d{1,20}){0,4}%?(?!\w)")
_QUOTED = re.compile(r'"([^"\n]{1,60})"|“([^“”\n]{1,60})”|„([^„“”\n]{1,60})[“”]|«([^«»\n]{1,60})»|`([^`\n]{1,60})`')
_CITED = {"oai_unicode": "cite marks", "bracket": "[1]", "markdown": "[1](address)"}


def suggested_checks(reply_text: str, tool_calls: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Checks for an answer like this one; each passes on the answer itself, except those that ask a judge."""
    names = list(dict.fromkeys(str(call.get("name") or "") for call in tool_calls))
    calls = tuple(ToolCall(name) for name in names)
    evidence = Evidence(response=reply_text, expected=reply_text, tool_calls=calls)
    checks = list(_of_text(reply_text)) if reply_text.strip() else []
    checks += [(f"{name} is called", {"ToolCalled": {"tool_name": name}}) for name in names if name][:_MOST]
    return [check for check in checks if _passes(check[1], evidence)]


def _of_text(text: str) -> Iterator[Check]:
    values = _values(text)
    is_json = _is_json(text)
    if is_json:
        yield "the answer is valid JSON", {"JsonValid": {}}
        yield "it is the same JSON value as this answer", {"JsonMatch": {}}
    if len(text) <= _LONG:
        yield "it contains this answer word for word", {"ExactMatch": {}}
        yield "half of its words are those of this answer", {"PartialMatch": {"threshold": 0.5}}
        yield "it is about as long as this answer", {"WordCountMatch": {"threshold": 0.8}}
    yield "a judge finds that it means the same", {"Similarity": {}}
    if values and not is_json:
        yield f"any of {', '.join(values)}", {"ContainsAny": {"values": values, "ignore_case": True}}
    limit = -(-estimate_tokens(text) // 5) * 10
    yield f"fewer than {limit:,} tokens", {"Tokens": {"threshold": limit}}
    for form, looks in _CITED.items():
        yield f"it cites with {looks}", {"Citations": {"citation_format": form}}


def _values(text: str) -> list[str]:
    """Quoted words and numbers of a text, each once, the first of them."""
    values: dict[str, None] = {}
    for pattern in (_QUOTED, _NUMBER):
        for match in pattern.finditer(text):
            values[next(filter(None, match.groups()), match.group()).strip()] = None
            if len(values) >= _MOST:
                break
    return [value for value in values if value][:_MOST]


def _is_json(text: str) -> bool:
    """Whether a text is a JSON object or list; a single number or word does not count as JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        strictjson.loads(text, duplicates=True)
    except strictjson.JsonError:
        return False
    return True


def _passes(check: Mapping[str, Any], evidence: Evidence) -> bool:
    ((name, options),) = check.items()
    kind = built_in()[name]
    if kind.judged:
        return True
    try:
        score = kind(kind.Options.model_validate(options)).score(evidence)
    except (NoValueToJudge, CannotJudge):
        return False
    return isinstance(score, Score) and score.result == "pass"


def as_evaluators(checks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The checks as evaluators of one unit; duplicates of a kind get their own names."""
    evaluators: dict[str, Any] = {}
    for check in checks:
        for name, options in check.items():
            key, number = name, 2
            while key in evaluators:
                key, number = f"{name}_{number}", number + 1
            evaluators[key] = dict(options) if key == name else {"type": name, **options}
    return evaluators


def with_checks(item: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The item judged by some checks: a conversation in its last turn."""
    if not checks:
        return dict(item)
    if turns := item.get("turns"):
        return {**item, "turns": [*turns[:-1], {**turns[-1], "evaluators": as_evaluators(checks)}]}
    return {**item, "evaluators": as_evaluators(checks)}
