"""A Python function of the user's as a target: `python:module:function`, found from the project's folder.

Its only required parameter says what it is given:

* `prompt`: the question, as text;
* `messages`: the chat so far with the question last, a list of {"role", "content"};
* `request`: an object with messages, tools, response_format, params, item, turn, repeat and variables.

It returns the answer as text, or an object with `text` and, as it likes, `tool_calls`, `usage`, `cost`, `model`,
`finish_reason` and `diagnostics`. It may be sync, and then runs in a thread of its own, or async.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from tui_evals.interpreter import import_from_project, python_command
from tui_evals.text.tracebacks import last_frames

from .answers import last_question, one_line, parse_reply
from .base import ConfigurationError, Reply, Request, TargetConfig, TargetContext, TargetError, TargetKind

_ARGUMENTS: Mapping[str, Callable[[Request], Any]] = {
    "prompt": lambda request: last_question(request.messages),
    "messages": lambda request: _copy(request.messages),
    "request": lambda request: request_data(request),
}


def request_data(request: Request) -> dict[str, Any]:
    """The request as an object of the user's own, to keep or change."""
    return {field.name: _copy(getattr(request, field.name)) for field in fields(request)}


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copy(part) for name, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list | tuple) else value


class Function:
    """Asks a function; to name one on the command line or in the configuration is to trust it."""

    def __init__(self, function: Callable[[Any], Any], name: str, given: str) -> None:
        self._name = name
        self._function = function
        self._given = _ARGUMENTS[given]

    async def ask(self, request: Request) -> Reply:
        """What the function returns, or TargetError with what it raised."""
        argument = self._given(request)
        try:
            if inspect.iscoroutinefunction(self._function):
                answer = await self._function(argument)
            else:
                answer = await in_thread(self._function, argument)
                if inspect.isawaitable(answer):
                    answer = await answer
        except TargetError:
            raise
        except (Exception, SystemExit) as problem:  # whatever the user's code raises is the record of this answer
            raise raised_error(self._name, problem) from None
        return parse_reply(answer, self._name)

    async def close(self) -> None:
        """Nothing is held."""


def raised_error(name: str, problem: BaseException) -> TargetError:
    """The record of an exception of the user's own code, with the place where it was raised."""
    raised = one_line(f"{type(problem).__name__}: {problem}".removesuffix(": "))
    return TargetError("agentRequestFailed", f"{name} failed with {raised}", traceback=last_frames(problem))


def named_function(config: TargetConfig, root: Path) -> Function:
    """The function that a configuration names."""
    name = config.model.removeprefix("python:")
    function = _load_function(name, root)
    return Function(function, name, _parameter(function, name))


def given_function(function: Callable[[Any], Any], name: str) -> Function:
    """A function object; a parameter of another name gets the prompt."""
    try:
        parameter = next(iter(inspect.signature(function).parameters), "prompt")
    except (TypeError, ValueError):
        parameter = "prompt"
    return Function(function, name, parameter if parameter in _ARGUMENTS else "prompt")


def _load_function(name: str, root: Path) -> Callable[[Any], Any]:
    module_name, colon, path = name.partition(":")
    if not (colon and path and all(part.isidentifier() for part in module_name.split("."))):
        raise ConfigurationError(f"python:{name} names no function; write python:module:function")
    try:
        value: Any = import_from_project(module_name, root)
    except (Exception, SystemExit) as problem:  # a module of the user's may raise anything while it is imported
        raised = one_line(f"{type(problem).__name__}: {problem}")
        raise ConfigurationError(f"python:{name}: {module_name} cannot be imported from {root} ({raised})") from None
    for part in path.split("."):
        if not hasattr(value, part):
            raise ConfigurationError(f"python:{name}: there is no {part} in {getattr(value, '__name__', module_name)}")
        value = getattr(value, part)
    if not callable(value):
        raise ConfigurationError(f"python:{name} is not a function")
    return value  # type: ignore[no-any-return]


def _parameter(function: Callable[..., Any], name: str) -> str:
    """The one parameter that is to be filled."""
    try:
        every = list(inspect.signature(function).parameters.values())
    except ValueError:
        every = []
    named = [each for each in every if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    required = [each.name for each in every if each.default is each.empty and each.kind is each.KEYWORD_ONLY]
    required += [each.name for each in named if each.default is each.empty]
    if named and required in ([named[0].name], []) and named[0].name in _ARGUMENTS:
        return named[0].name
    raise ConfigurationError(
        f"python:{name} must have one required parameter, called prompt, messages or request, and has "
        f"{', '.join(required) or 'none that is known'}"
    )


async def in_thread(function: Callable[[Any], Any], argument: Any) -> Any:
    """The function's result; a thread of its own, a daemon, lets a hung one hold up neither others nor the end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, Exception | None]] = loop.create_future()

    def settle(result: Any, problem: Exception | None) -> None:
        if not done.done():
            done.set_result((result, problem))

    def work() -> None:
        result: Any = None
        problem: Exception | None = None
        try:
            result = function(argument)
        except Exception as raised:  # handed over to the one who waits
            problem = raised
        except BaseException as raised:  # what would end the whole run, were it raised there
            problem = RuntimeError(f"it raised {type(raised).__name__}").with_traceback(raised.__traceback__)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=work, daemon=True, name="function target").start()
    result, problem = await done
    if problem is not None:
        raise problem
    return result


def _open(config: TargetConfig, context: TargetContext) -> Function:
    return named_function(config, context.root)


_IMPORT_SECONDS = 60.0
_NOT_THERE = 3


def _check(config: TargetConfig, context: TargetContext) -> None:
    """Find the function; where another process will call it, its module is imported by a process of its own."""
    if not context.apart:
        _open(config, context)
        return
    words = python_command("-m", __name__, config.name, config.model)
    with suppress(subprocess.TimeoutExpired):  # whoever calls it waits longer, and says what becomes of it
        done = subprocess.run(
            words,
            cwd=context.root,
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_IMPORT_SECONDS,
            check=False,
        )
        if done.returncode == _NOT_THERE:
            # What the module wrote while it was imported comes before.
            raise ConfigurationError(done.stderr.decode("utf-8", "replace").rpartition("\0")[2].strip())


def _find_for_parent(name: str, model: str) -> int:
    try:
        named_function(TargetConfig(name=name, model=model), Path.cwd())
    except ConfigurationError as problem:
        sys.stderr.write(f"\0{problem}")
        return _NOT_THERE
    return 0


KIND = TargetKind(form="python:module:function", open=_open, check=_check)


if __name__ == "__main__":
    status = _find_for_parent(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # threads that the module began would hold up a tidy end
