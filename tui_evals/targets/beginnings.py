"""How a first target of each kind is written: what has to be known of it, and its section with comments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

EMPTY = """\
# What holds in this project. `tui-evals help targets` says everything that may stand here; take away a # to set it.

# [run]
# targets = ["gpt"]          # what is asked where a command names no --target
# concurrency = 10           # calls in flight at once, per target
# max_cost = 5               # US dollars after which a run stops

# [judge]
# target = "gpt"             # the model that judges where an evaluator asks one

# [targets.gpt]
# model = "openai/gpt-4o-mini"
# api_key = "env:OPENAI_API_KEY"     # set in the environment or .env.local; a key itself has no place here
# params = { temperature = 0 }
"""
"""A configuration in which nothing is set."""

FUNCTION = '''\
"""What is evaluated: {name} is given each question, and returns its answer."""


def {name}(prompt: str) -> str:
    return f"You said: {{prompt}}"
'''
"""A function to begin with."""


@dataclass(frozen=True, slots=True)
class Question:
    """What has to be known of a target: the option that says it, how a person is asked, and what is usual."""

    option: str
    text: str
    default: str | None = None
    """Taken where nothing is said; without one it has to be said."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """One kind of target to begin with."""

    name: str
    """What its section is called."""
    questions: tuple[Question, ...]
    section: Callable[[Mapping[str, str]], str]


def _http(said: Mapping[str, str]) -> str:
    return "\n".join(
        [
            "# A service over HTTP. Texts may hold {{ prompt }}, {{ messages }}, {{ session }} and variables of items;",
            '# headers take keys as "env:NAME"; session = "$.PATH" keeps a conversation together.',
            "[targets.service]",
            "price = { per_call = 0 }        # US dollars of a call; 0 where nobody charges for it",
            "",
            "[targets.service.http]",
            f"url = {_text(said['at'])}",
            f'body = {{ {_text(said["field"])} = "{{{{ prompt }}}}" }}',
            *(
                [f"answer = {_text(said['answer'])}    # where the answer stands in the reply"]
                if said["answer"]
                else []
            ),
        ]
    )


def _openai(said: Mapping[str, str]) -> str:
    return "\n".join(
        [
            "# An endpoint of OpenAI's protocol: vLLM, LM Studio, Ollama, a gateway.",
            "[targets.model]",
            f"model = {_text('openai/' + said['model'])}",
            f"base_url = {_text(said['at'])}",
            *([f"api_key = {_text('env:' + said['key'])}"] if said["key"] else ['# api_key = "env:MY_KEY"']),
            "# params = { temperature = 0, max_tokens = 512 }",
            "# price = { input_per_million = 0.15, output_per_million = 0.60 }     # for --max-cost",
        ]
    )


def _by_word(name: str, word: str, *comments: str) -> Callable[[Mapping[str, str]], str]:
    def section(said: Mapping[str, str]) -> str:
        return "\n".join([*comments, f"[targets.{name}]", f"model = {_text(word + said['at'])}", "timeout = 60"])

    return section


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


BEGINNINGS: Mapping[str, Beginning] = {
    "http": Beginning(
        "service",
        (
            Question("at", "At which URL is the service asked?"),
            Question("field", "Which field of the JSON it is sent holds the question?", "message"),
            Question("answer", "Where does the answer stand, as in $.reply.text? Empty: it is looked for", ""),
        ),
        _http,
    ),
    "openai": Beginning(
        "model",
        (
            Question("at", "At which base URL is it asked?", "http://127.0.0.1:8000/v1"),
            Question("model", "Which model?"),
            Question("key", "Which variable holds the key? Empty: it needs none", ""),
        ),
        _openai,
    ),
    "python": Beginning(
        "function",
        (Question("at", "Which function answers, as module:function or FILE.py:function?", "agent.py:answer"),),
        _by_word(
            "function",
            "python:",
            "# A function of yours, given what its parameters name: prompt, messages, variables, session, request.",
        ),
    ),
    "command": Beginning(
        "program",
        (Question("at", "Which program answers? It reads the question on its input and prints the answer"),),
        _by_word("program", "command:", "# A program: the question on its input, the answer on its output."),
    ),
    "a2a": Beginning(
        "agent",
        (Question("at", "At which URL is the agent?"),),
        _by_word("agent", "a2a:", "# A deployed agent, by the Agent2Agent protocol; its card says the rest."),
    ),
}


def answer_path(reply: str) -> str | None:
    """Where the answer most likely stands in a reply: its longest text; None where the reply is no JSON with one."""
    try:
        data = json.loads(reply)
    except (ValueError, RecursionError):
        return None
    texts = dict(_texts(data, "$")) if isinstance(data, dict | list) else {}
    return max(texts, key=lambda path: len(texts[path]), default=None)


def _texts(data: Any, path: str) -> list[tuple[str, str]]:
    if isinstance(data, str):
        return [(path, data)]
    if isinstance(data, dict):
        return [found for name, part in data.items() if name.isidentifier() for found in _texts(part, f"{path}.{name}")]
    if isinstance(data, list):
        return [found for place, part in enumerate(data) for found in _texts(part, f"{path}[{place}]")]
    return []
