"""Litellm's table of models, read without its import: prices, accepted parameters, and questions made to fit.

A parameter that a model refuses although the table has it is learned from its refusal while the target is open.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Collection, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.targets.base import Price, Request, TargetConfig
from tui_evals.targets.providers import RESPONSES_PREFIX, asks_responses
from tui_evals.text.chats import content_text
from tui_evals.text.names import did_you_mean

_TABLE = "model_prices_and_context_window_backup.json"
_EXAMPLE = "sample_spec"
"""The first entry of the table, which explains what those of models hold."""
_TABLE_LOCK = Lock()
_PROVIDER_FILES = ("provider_endpoints_support_backup.json", "llms/openai_like/providers.json")
_UNLISTED_PROVIDERS = {
    *("a2a_agent", "aiohttp_openai", "aws_textract", "azure_speech", "charity_engine", "dotprompt", "gdc", "humanloop"),
    *("langflow", "langfuse", "litellm_agent", "modelscope", "mongodb", "nadir", "nvidia_riva", "sagemaker_nova"),
    *("valkey", "vertex_ai_beta"),
}
"""Providers that litellm knows and names in none of its tables."""
_FAMILIES = {
    "gpt": "openai/gpt-4o-mini",
    "claude": "anthropic/claude-haiku-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "mistral": "mistral/mistral-small-latest",
    "deepseek": "deepseek/deepseek-chat",
}
"""A model for each name that people use for all models of a maker."""


def price_of(model: str) -> Price | None:
    """The listed price of provider/model, None where none is listed."""
    return next((price for entry in _entries(model) if (price := _price(entry))), None)


def model_facts(model: str) -> Mapping[str, Any] | None:
    """The table's facts about provider/model: its input, and the length of its answers."""
    return next(iter(_entries(model)), None)


def _entries(model: str) -> list[Mapping[str, Any]]:
    """The entries of a model, which may be listed under its name alone."""
    model = model.replace("/responses/", "/", 1)
    provider, slash, rest = model.partition("/")
    found = [entry for name in (model, rest) if name and (entry := _price_entry(name)) is not None]
    return [entry for entry in found if not slash or _is_of_provider(entry, provider)]


def is_known_provider(model: str) -> bool:
    """Whether provider/model names a provider that litellm knows; True where its tables are not there to be read."""
    table = _locked_table()
    return not table or model in table or model.partition("/")[0] in _providers()


def similar_provider(model: str) -> str:
    """` (did you mean 'provider/model'?)` for a provider that is spelled nearly like that of a model."""
    provider, _, rest = model.partition("/")
    return did_you_mean(model, (f"{known}/{rest}" for known in _providers() if abs(len(known) - len(provider)) < 4))


def similar_model(word: str) -> str:
    """` (did you mean 'provider/model'?)` for a model that is called nearly like a word without a provider."""
    full_names = {**_FAMILIES, **_full_names()}
    if word in full_names:
        return f" (did you mean '{full_names[word]}'?)"
    near = did_you_mean(word, full_names)
    return next((near.replace(name, full_names[name]) for name in full_names if f"'{name}'" in near), "")


def full_name(word: str) -> str | None:
    """provider/model of a model, or of the family of models, that a word calls by its bare name."""
    return {**_FAMILIES, **_full_names()}.get(word)


def _full_names() -> Mapping[str, str]:
    """provider/model by the bare name of each model that talks, its maker before those who resell it."""
    names: dict[str, str] = {}
    for key, entry in _locked_table().items():
        if entry.get("mode") not in ("chat", "responses"):
            continue
        owner, (provider, slash, rest) = str(entry.get("litellm_provider")), key.partition("/")
        if not slash and owner in ("openai", "anthropic"):
            names[key] = f"{owner}/{key}"
        elif slash and "/" not in rest and provider in ("gemini", "mistral", "deepseek", "xai", "groq"):
            names.setdefault(rest, key)
    return names


def _providers() -> set[str]:
    providers = {str(entry.get("litellm_provider")) for entry in _locked_table().values()}
    for name in _PROVIDER_FILES:
        listed = _read(name)
        providers |= set(listed.get("providers", listed))
    return _UNLISTED_PROVIDERS | providers


@cache
def _price_entry(model: str) -> Mapping[str, Any] | None:
    """The table's entry of a model; the rest of its 3 MB stays text, where each model starts a line."""
    text = b"" if model == _EXAMPLE else _bytes(_TABLE)
    if not text.startswith(f'{{\n    "{_EXAMPLE}": {{\n'.encode()):
        return _locked_table().get(model)
    place = text.find(b"\n    " + json.dumps(model).encode() + b": {")
    if place < 0:
        return None
    start = text.index(b"{", place)
    entry: dict[str, Any] = json.loads(text[start : text.index(b"\n    }", start) + len(b"\n    }")])
    return entry


def _locked_table() -> Mapping[str, Mapping[str, Any]]:
    with _TABLE_LOCK:
        return _table()


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    table = dict(_read(_TABLE))
    table.pop(_EXAMPLE, None)
    return table


def _read(name: str) -> Mapping[str, Any]:
    """A JSON file inside the installed litellm package, empty where there is none."""
    content: dict[str, Any] = json.loads(_bytes(name) or b"{}")
    return content


def _bytes(name: str) -> bytes:
    """The bytes of a file inside the installed litellm package; empty if there is no such file."""
    # find_spec of a top-level name does not import it; importlib.resources would, which takes seconds.
    spec = importlib.util.find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder, name)
        if file.is_file():
            return file.read_bytes()
    return b""


def _is_of_provider(entry: Mapping[str, Any] | None, provider: str) -> bool:
    """Whether the entry is this provider's; some providers are listed under several names such as vertex_ai-…."""
    owner = str((entry or {}).get("litellm_provider"))
    return owner == provider or owner.startswith((f"{provider}_", f"{provider}-"))


def _price(entry: Mapping[str, Any] | None) -> Price | None:
    known = entry or {}
    input_cost, output_cost = (_per_million(known.get(f"{side}_cost_per_token")) for side in ("input", "output"))
    if known.get("mode") == "embedding":  # embeddings write no tokens, which some entries leave out
        output_cost = output_cost or 0.0
    if input_cost is None or output_cost is None:
        return None
    cached = known.get("cache_read_input_token_cost", known.get("input_cost_per_token_cache_hit"))
    return Price(input_cost, output_cost, _per_million(cached))


def _per_million(cost: object) -> float | None:
    return round(cost * 1e6, 9) if isinstance(cost, int | float) else None


UNSET = "unset"
"""The value of a parameter that is never sent."""
LENGTHS = frozenset(("max_tokens", "max_completion_tokens"))
REFUSALS = frozenset((400, 422))
"""The statuses with which endpoints refuse a parameter."""
_FORBIDDEN = 403
"""The status with which OpenAI refuses the log-probabilities of some models."""
ANSWER_TOKENS = 4096
"""The longest answer a call may give under a budget if no limit is configured."""
THINKING_TOKENS = 8192
"""The tokens that a model may use for reasoning before a short answer; they count against its limit."""

LIKELIHOODS: Mapping[str, Any] = {"logprobs": True, "top_logprobs": 5}
"""The parameters that ask for probabilities; most endpoints return at most five alternatives."""
_SAMPLING = {
    *("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "logit_bias"),
    *LIKELIHOODS,
}
_LEARNABLE = (
    _SAMPLING | LENGTHS | {"include", "seed", "stop", "repetition_penalty", "parallel_tool_calls", "verbosity", "user"}
)
"""Parameters without which a question is still the same question."""
_OF_OPENAI = ("", "openai", "azure")
_REASONING_FAMILY = re.compile(r"(ft:)?(o\d|gpt-([5-9]|\d\d))(?!\w)")
_WITHOUT_JSON = ("anthropic", "bedrock")
"""Whose way through litellm drops a wish for JSON that comes without a schema, as does that of these for Claude."""
_CLAUDE_THROUGH = ("vertex_ai", "azure_ai", "databricks")
_ROLE = re.compile(r"messages\[\d+\]\.role")
_REFUSES = re.compile(
    r"unsupported|not support|n['’]t support|deprecated for this model|not permitted|extra_forbidden|unrecognized"
    r"|unknown (parameter|field|name)|may only be set",
    re.IGNORECASE,
)
_INSTEAD = re.compile(r"use [\"'`]?(\w+)[\"'`]? instead", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """The parameters and content that a model accepts."""

    length: str = "max_tokens"
    """The parameter that limits its answers."""
    sampling: bool = True
    """Whether it takes a temperature and its like."""
    thinks: bool = False
    """Whether it thinks before it answers."""
    system: str = "system"
    """The role of instructions."""
    json: bool = True
    """Whether `response_format` may ask for JSON; `schema` the same of JSON by a schema."""
    schema: bool = True
    longest: int | None = None
    """The tokens of its longest answer, where that is known."""


def traits_of(config: TargetConfig) -> ModelTraits:
    """The known traits of the model of a target; an unknown model accepts everything."""
    provider, slash, name = config.model.partition("/")
    provider, name = (provider, name.removeprefix(RESPONSES_PREFIX)) if slash else ("", config.model)
    entry = _entry(config.model, provider, name)
    params = {name: value for name, value in config.params.items() if value != UNSET}
    effort = params.get("reasoning_effort", entry.get("default_reasoning_effort"))
    asked_to = bool(params.get("reasoning_effort") or _thinking(params))
    claude, chats, of_openai = "claude" in name, "gpt-5-chat" in name, provider in _OF_OPENAI
    family = of_openai and not chats and _REASONING_FAMILY.match(name) is not None
    reasons = family or asked_to or (entry.get("supports_reasoning") is True and not chats)
    thinks = reasons and effort != "none"
    longest = entry.get("max_output_tokens")
    return ModelTraits(
        length="max_completion_tokens" if family else "max_tokens",
        sampling=entry.get("supports_sampling_params") is not False
        and not ((family or (claude and asked_to)) and thinks),
        thinks=thinks and (asked_to or not claude),
        system=_system_role(entry, provider, family),
        json=provider not in _WITHOUT_JSON and not (claude and provider in _CLAUDE_THROUGH),
        schema=not of_openai or not entry or entry.get("supports_response_schema") is True or family,
        longest=longest if isinstance(longest, int) else None,
    )


def _thinking(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of Claude's reasoning; empty if it is off."""
    given = params.get("thinking")
    return given if isinstance(given, Mapping) and given.get("type") != "disabled" else {}


def _entry(model: str, provider: str, name: str) -> Mapping[str, Any]:
    """The table's entry of a model; a dated or tuned one of OpenAI has that of its base model."""
    found = model_facts(model)
    while not found and provider in _OF_OPENAI and re.match(r"o\d|gpt-", name) and "-" in name:
        name = name.rpartition("-")[0]
        found = model_facts(f"{provider or 'openai'}/{name}")
    return found or {}


def _system_role(entry: Mapping[str, Any], provider: str, family: bool) -> str:
    if entry.get("supports_system_messages") is False:
        return "user"
    # litellm takes models of Azure whose table does not speak of instructions for such that take none.
    return "developer" if family and provider == "azure" else "system"


def with_room(config: TargetConfig, tokens: int) -> int:
    """The token limit for an answer of `tokens` tokens: a model that reasons needs room for that too."""
    traits = traits_of(config)
    if not traits.thinks:
        return tokens
    budget = _thinking(config.params).get("budget_tokens")
    room = tokens + max(THINKING_TOKENS, budget if isinstance(budget, int) else 0)
    return room if traits.longest is None else max(tokens, min(room, traits.longest))


def has_length(params: Mapping[str, Any]) -> bool:
    """Whether parameters limit the length of an answer."""
    return any(params.get(name, UNSET) != UNSET for name in LENGTHS)


def longest_unlimited(config: TargetConfig) -> int:
    """The tokens of the longest answer of a target whose limit was removed on purpose; 0 for all others."""
    if UNSET not in config.params.values():
        return 0
    if not any(config.params.get(name) == UNSET for name in LENGTHS) or has_length(config.params):
        return 0
    return traits_of(config).longest or ANSWER_TOKENS


def judging_params(
    config: TargetConfig, reply_tokens: int, asked: Mapping[str, Any] | None = None, *, likelihoods: bool = False
) -> dict[str, Any]:
    """The parameters for a judge whose reply takes `reply_tokens`; configured ones come first.

    Those in `asked` override them, except parameters that the target must not get.
    """
    own = {name: value for name, value in (asked or {}).items() if config.params.get(name) != UNSET}
    if "max_tokens" in own:
        own["max_tokens"] = with_room(config, own["max_tokens"])
    configured = config.params
    if has_length(own):
        configured = {name: value for name, value in configured.items() if name not in LENGTHS or value == UNSET}
    length = {} if has_length({**configured, **own}) else {"max_tokens": with_room(config, reply_tokens)}
    return {"temperature": 0, **length, **(LIKELIHOODS if likelihoods else {}), **configured, **own}


def short_question(config: TargetConfig) -> Request:
    """A cheap question, which tells whether the target is there."""
    messages = ({"role": "user", "content": "Reply with the word ready."},)
    params = {name: value for name, value in config.params.items() if name not in LENGTHS}
    return Request(messages=messages, params={**params, "max_tokens": with_room(config, 16)})


class Fitting:
    """Adapts requests of one target to its model: by the table, and by earlier refusals."""

    def __init__(self, config: TargetConfig) -> None:
        self._config = config
        self._traits = traits_of(config)
        self._unset = {name for name, value in config.params.items() if value == UNSET}
        traits = self._traits
        is_usual = traits.sampling and (traits.length, traits.system) == ("max_tokens", "system")
        self._fits_as_it_is = is_usual and not self._unset
        """Whether a request without a form is changed only by what was learned."""
        self._learnt: dict[str, str] = {}
        """The replacement of each refused parameter; empty if it is left out."""

    def fit(self, body: MutableMapping[str, Any]) -> tuple[str, ...]:
        """Make a request fit the model; returns the changes in words."""
        if self._fits_as_it_is and not self._learnt and "response_format" not in body and UNSET not in body.values():
            return ()
        self._leave_unset(body)
        changes = [*self._fit_sampling(body), *self._fit_length(body), *self._fit_learnt(body)]
        changes += self._fit_roles(body)
        return (*changes, *self._fit_format(body))

    def learn(self, said: str, sent: Mapping[str, Any], status: int = 400) -> bool:
        """Whether a refusal names a part of the request that can be left out, so that it can be sent again."""
        if status not in (*REFUSALS, _FORBIDDEN):
            return False
        text = _error_text(said)
        likelihoods = LIKELIHOODS.keys() & sent.keys() - self._config.params.keys()
        if _first_named(text, likelihoods):  # for any error with them: the answer is the same without
            self._learnt |= dict.fromkeys(likelihoods, "")
            return True
        if status == _FORBIDDEN or not _REFUSES.search(text):
            return False
        if _ROLE.search(text) and any(
            message.get("role") == self._traits.system for message in sent.get("messages", ())
        ):
            self._learnt["system"] = "user"
            return True
        if "response_format" in text and "response_format" in sent:
            self._learnt["response_format"] = ""
            return True
        refused = _first_named(text, _LEARNABLE & sent.keys())
        if refused is None:
            return False
        instead = _INSTEAD.search(text)
        other = instead[1] if instead else next(iter(LENGTHS - {refused})) if refused in LENGTHS else ""
        if other in self._learnt:
            return False
        self._learnt[refused] = other
        return True

    def _leave_unset(self, body: MutableMapping[str, Any]) -> None:
        for name in [name for name, value in body.items() if value == UNSET or name in self._unset]:
            del body[name]

    def _fit_sampling(self, body: MutableMapping[str, Any]) -> list[str]:
        if self._traits.sampling:
            return []
        refused = [name for name in body if name in _SAMPLING and (name, body[name]) not in _DEFAULTS]
        for name in refused:
            del body[name]
        return [f"{name} is not sent, for the model takes none" for name in refused]

    def _fit_length(self, body: MutableMapping[str, Any]) -> list[str]:
        own = self._traits.length
        if own == "max_tokens":
            return []
        other = next(iter(LENGTHS - {own}))
        if other not in body:
            return []
        limit = body.pop(other)
        body.setdefault(own, limit)
        return [f"{other} is sent as {'max_output_tokens' if asks_responses(self._config) else own}"]

    def _fit_learnt(self, body: MutableMapping[str, Any]) -> list[str]:
        changes = []
        for name, other in self._learnt.items():
            if name not in body or name == "response_format":
                continue
            value = body.pop(name)
            if other:
                body.setdefault(other, value)
            changes.append(
                f"{name} is sent as {other}, for the model refused it"
                if other
                else f"{name} is not sent, for the model refused it"
            )
        return changes

    def _fit_roles(self, body: MutableMapping[str, Any]) -> list[str]:
        role = self._learnt.get("system", self._traits.system)
        messages = body.get("messages", ())  # embedding requests have none
        if role == "system" or not any(message.get("role") == "system" for message in messages):
            return []
        body["messages"] = [
            {**message, "role": role} if message.get("role") == "system" else message for message in messages
        ]
        # Developer messages are still instructions, and litellm may rename them to system again.
        return [f"system messages are sent as {role} messages"] if role == "user" else []

    def _fit_format(self, body: MutableMapping[str, Any]) -> list[str]:
        """Ask for a form by an instruction if the model does not support it."""
        form = body.get("response_format")
        if form is None:
            return []
        kind = form.get("type") if isinstance(form, Mapping) else None
        kept = {"json_object": self._traits.json, "json_schema": self._traits.schema}.get(str(kind), True)
        if not isinstance(form, Mapping) or kind == "text":
            return []
        if kept and "response_format" not in self._learnt:
            return self._name_json(body) if kind == "json_object" else []
        del body["response_format"]
        body["messages"] = _instructed(body["messages"], _instruction(form), self._system_role)
        word = "schema" if kind == "json_schema" else "json"
        return [f"response_format {word} is not kept by {self._config.model}: asked by instruction"]

    def _name_json(self, body: MutableMapping[str, Any]) -> list[str]:
        """Providers refuse a wish for JSON whose messages do not have the word."""
        if any("json" in content_text(message.get("content")).lower() for message in body["messages"]):
            return []
        body["messages"] = _instructed(body["messages"], "Reply with JSON.", self._system_role)
        return ["the instruction to reply with JSON is added, for response_format json needs the word"]

    @property
    def _system_role(self) -> str:
        return self._learnt.get("system", self._traits.system)


_DEFAULTS = (("temperature", 1), ("top_p", 1), ("presence_penalty", 0), ("frequency_penalty", 0))
"""Parameters that even a model with fixed values accepts."""


def _instruction(form: Mapping[str, Any]) -> str:
    schema = (form.get("json_schema") or {}).get("schema")
    if schema is None:
        return "Reply with one JSON object and nothing else."
    return f"Reply with one JSON object that keeps to this JSON schema, and nothing else: {json.dumps(schema)}"


def _instructed(messages: Collection[Mapping[str, Any]], instruction: str, role: str) -> list[Mapping[str, Any]]:
    """The messages with an instruction at the end of the first one of that role, or before them."""
    first, *rest = messages
    if first.get("role") == role and isinstance(first.get("content"), str):
        return [{**first, "content": f"{first['content']}\n\n{instruction}"}, *rest]
    return [{"role": role, "content": instruction}, first, *rest]


def _error_text(body: str) -> str:
    """The text of an error body without its field names: message, parameter and code."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body
    error = document.get("error", document) if isinstance(document, dict) else document
    if not isinstance(error, dict):
        return json.dumps(error)
    words = (error.get(name) for name in ("param", "message", "detail", "code"))
    return " ".join(word if isinstance(word, str) else json.dumps(word) for word in words if word)


def _first_named(text: str, names: Collection[str]) -> str | None:
    """Which of some names a text names first."""
    places = {name: found.start() for name in names if (found := re.search(rf"(?<!\w){name}(?!\w)", text))}
    return min(places, key=places.__getitem__) if places else None
