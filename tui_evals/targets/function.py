"""The user's own Python as a target: `python:module:function` or `python:FILE.py:Class`, from the project's folder.

It is given what its parameters name, each as its own to keep or change:

* `prompt`: the question, as text;
* `messages`: the chat so far with the question last, a list of {"role", "content"};
* `variables`: those of the item;
* `item`: the name of the item;
* `session`: what its last reply in this conversation gave as `session`, None before one did;
* `attachments`: the files that go along, each with `name`, `media_type` and `content` in bytes;
* `environment`: where its models are recorded, by the variables of their libraries such as OPENAI_BASE_URL; empty where
  they are not;
* `request`: all of these but the files, and tools, response_format, params, position, turn and repeat.

A function may be sync, and then runs in a thread of its own, or async; a generator, sync or async, streams. Of a class
one object is made for the run and called, or the method that is named after it. `setup()` and `teardown()`, methods of
the object or functions of the module, are called once before the first question and after the last.

What it returns is read by `answers.parse_reply`.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from tui_evals.interpreter import import_from_project, python_command
from tui_evals.light_records import dataclass
from tui_evals.sealed_imports import VARIABLE, NotAgreed, Seal, held_to
from tui_evals.targets.user_code import Lifetime, call, failed, has_lifetime, run
from tui_evals.text.names import did_you_mean, last_frames

from .answers import last_question, one_line
from .base import ConfigurationError, Reply, Request, TargetConfig, TargetContext, TargetError, TargetKind
from .permissions import target_code
from .sources import project_file

_ARGUMENTS: Mapping[str, Callable[[Request], Any]] = {
    "prompt": lambda request: last_question(request.messages),
    "messages": lambda request: _copy(request.messages),
    "variables": lambda request: _copy(request.variables),
    "item": lambda request: request.item,
    "session": lambda request: _copy(request.session),
    "attachments": lambda request: list(request.attachments),
    "environment": lambda request: _recorded_at(request),
    "request": lambda request: request_data(request),
}


_NOT_DATA = ("attachments", "recorder")


def request_data(request: Request) -> dict[str, Any]:
    """The request as an object of the user's own, to keep or change; its files are in the messages."""
    return {field.name: _copy(getattr(request, field.name)) for field in fields(request) if field.name not in _NOT_DATA}


def _recorded_at(request: Request) -> dict[str, str]:
    given = request.recorder.environment if request.recorder is not None else {}
    return {name: value for name, value in given.items() if value is not None}


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copy(part) for name, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class _Code:
    """The code to call: a function, or a method of an object that has to be created."""

    function: Callable[..., Any]
    owner: object = None
    """The module or object of the function, with its setup and teardown."""
    of_class: type | None = None
    """The class whose object has to be made, and `function` is a method of."""


@dataclass(frozen=True, slots=True)
class _Parameters:
    """The arguments that a function takes, by the names of `_ARGUMENTS`."""

    by_place: tuple[str, ...]
    by_name: tuple[str, ...]


class Function:
    """Asks code of the user's; to name it on the command line or in the configuration is to trust it."""

    keeps_time = True
    """Attempts are timed from the call of the code, without the setup before it."""
    is_shared = False
    """If its models are recorded, each question has its own address."""

    def __init__(
        self, code: _Code, name: str, parameters: _Parameters, timeout: float, seal: Seal | None = None
    ) -> None:
        self._name = name
        self._code = code
        self._parameters = parameters
        self._timeout = timeout
        self._seal = seal
        self._beginning: asyncio.Task[Callable[..., Any]] | None = None
        self._lifetime: Lifetime | None = None

    async def ask(self, request: Request) -> Reply:
        """The result of the code, or TargetError with its exception."""
        with held_to(self._seal):
            return await self._ask(request)

    async def _ask(self, request: Request) -> Reply:
        parameters = self._parameters
        if request.recorder is not None and "environment" not in (*parameters.by_place, *parameters.by_name):
            raise TargetError(
                "agentRequestFailed",
                f"{self._name} cannot be recorded, for it takes no parameter environment, which says where: "
                'environment["OPENAI_BASE_URL"]. Add it, leave the door out, or run the agent as command:…',
                unbilled=True,
            )
        function = await self._begun()
        values = [_ARGUMENTS[name](request) for name in self._parameters.by_place]
        named = {name: _ARGUMENTS[name](request) for name in self._parameters.by_name}
        clock = asyncio.timeout(self._timeout)
        try:
            async with clock:
                return await call(function, values, named, self._name)
        except TargetError:
            raise
        except (Exception, SystemExit) as problem:  # any exception of the user's code is the record of this answer
            if isinstance(problem, TimeoutError) and clock.expired():
                message = f"no answer within {self._timeout:g} s"
                raise TargetError("agentTimeout", message, retryable=True) from None
            raise raised_error(self._name, problem) from None

    async def _begun(self) -> Callable[..., Any]:
        """The function to call, once its setup is done."""
        code = self._code
        if code.of_class is None and not has_lifetime(code.owner):
            return code.function
        if self._beginning is None:
            self._beginning = asyncio.create_task(self._begin())
        return await asyncio.shield(self._beginning)

    async def _begin(self) -> Callable[..., Any]:
        """Create the object and run the setup; raises ConfigurationError."""
        owner, function, made = self._code.owner, self._code.function, self._code.of_class
        if made is not None:
            try:
                owner = await run(made)
            except (Exception, SystemExit) as problem:  # without the object nothing can be asked
                raise failed(f"{self._name}: {made.__name__}()", problem) from None
            function = partial(function, owner)
        self._lifetime = Lifetime.joined(owner, self._name)
        await self._lifetime.begin()
        return function

    async def close(self) -> None:
        """Run the teardown, unless another target needs the owner."""
        if self._beginning is not None:
            self._beginning.cancel()
            await asyncio.gather(self._beginning, return_exceptions=True)
            self._beginning = None
        if self._lifetime is not None:
            with held_to(self._seal):
                await self._lifetime.leave()
            self._lifetime = None


def raised_error(name: str, problem: BaseException) -> TargetError:
    """The record of an exception of the user's own code, with the place where it was raised."""
    raised = one_line(f"{type(problem).__name__}: {problem}".removesuffix(": "))
    return TargetError("agentRequestFailed", f"{name} failed with {raised}", traceback=last_frames(problem))


def named_function(config: TargetConfig, root: Path, seal: Seal | None = None) -> Function:
    """The function of a configuration; it is imported within the approved code, but not called."""
    name = config.model.removeprefix("python:")
    with held_to(seal):
        code = _find_code(name, root)
        return Function(code, name, _parameters(code, f"python:{name}"), config.timeout, seal)


def given_function(function: Callable[..., Any], config: TargetConfig) -> Function:
    """A function passed directly; a first parameter of another name gets the prompt. The caller owns its module."""
    if inspect.isclass(function):
        code = _class_code(function, config.name)
    else:
        owner = getattr(function, "__self__", None if inspect.isroutine(function) else function)
        code = _Code(function, None if isinstance(owner, ModuleType | partial) else owner)
    return Function(code, config.name, _parameters(code, config.name, lenient=True), config.timeout)


def _find_code(name: str, root: Path) -> _Code:
    module_name, colon, path = name.rpartition(":")
    if not (colon and path and (module_name.endswith(".py") or all(map(str.isidentifier, module_name.split("."))))):
        raise ConfigurationError(
            f"python:{name} names no function; write python:module:function or python:FILE.py:function"
        )
    try:
        module = _load(module_name, root)
    except ConfigurationError:
        raise
    except NotAgreed as refusal:
        raise ConfigurationError(f"python:{name} cannot be imported: {refusal}") from None
    except (Exception, SystemExit) as problem:  # a module of the user's may raise anything while it is imported
        raised = one_line(f"{type(problem).__name__}: {problem}")
        raise ConfigurationError(f"python:{name}: {module_name} cannot be imported from {root} ({raised})") from None
    owner: Any = None
    value: Any = module
    for part in path.split("."):
        if not hasattr(value, part):
            near = did_you_mean(part, (each for each in dir(value) if not each.startswith("_")))
            where = getattr(value, "__name__", module_name)
            raise ConfigurationError(f"python:{name}: there is no {part} in {where}{near}")
        owner, value = value, getattr(value, part)
    if inspect.isclass(value):
        return _class_code(value, f"python:{name}")
    if not callable(value):
        raise ConfigurationError(f"python:{name} is not a function")
    if inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, path.rpartition(".")[2])):
        return _Code(value, of_class=_makeable(owner, f"python:{name}"))
    return _Code(value, owner if inspect.isroutine(value) or isinstance(value, partial) else value)


def _load(name: str, root: Path) -> ModuleType:
    """The module of a name, or of a file of the project; a file in a package is loaded as a part of it."""
    if not name.endswith(".py"):
        return import_from_project(name, root)
    file = project_file(name, root)
    if not file.is_file():
        near = did_you_mean(file.name, (each.name for each in file.parent.glob("*.py")))
        raise ConfigurationError(f"python:{name}: there is no file {file}{near}")
    folder, dotted = file.parent, file.stem
    while (folder / "__init__.py").is_file():
        folder, dotted = folder.parent, f"{folder.name}.{dotted}"
    module = import_from_project(dotted, folder)
    if module.__file__ is None or not file.samefile(module.__file__):
        raise ConfigurationError(f"python:{name}: {module.__file__} goes by the name of {file}; rename one of them")
    return module


def _class_code(made: type, name: str) -> _Code:
    """The code of a class, whose object is called."""
    if not any("__call__" in vars(each) for each in made.__mro__):
        raise ConfigurationError(f"{name} is a class without __call__; add one, or name the method after it")
    return _Code(made.__call__, of_class=_makeable(made, name))


def _makeable(made: type, name: str) -> type:
    try:
        inspect.signature(made).bind()
    except TypeError:
        raise ConfigurationError(f"{name}: {made.__name__}() must be possible without arguments") from None
    except ValueError:
        pass  # a class in another language does not say what it needs
    return made


def _parameters(code: _Code, name: str, *, lenient: bool = False) -> _Parameters:
    """The arguments to give; where the name of the first parameter says nothing, to be lenient gives it the prompt."""
    try:
        every = list(inspect.signature(code.function).parameters.values())
    except (TypeError, ValueError):
        every = []
    if code.of_class is not None:
        every = every[1:]
    by_place, by_name, unknown = list[str](), list[str](), list[str]()
    lenient = lenient and all(each.name != "prompt" for each in every)
    for place, each in enumerate(every):
        various = each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        if each.name in _ARGUMENTS and not various:
            (by_place if each.kind is each.POSITIONAL_ONLY else by_name).append(each.name)
        elif lenient and place == 0 and each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD):
            by_place.append("prompt")
        elif each.default is each.empty and not various:
            unknown.append(each.name)
    if lenient and not every:
        by_place = ["prompt"]
    if unknown or not (by_place or by_name):
        near = did_you_mean(unknown[0], _ARGUMENTS) if unknown else ""
        needed = f"needs {', '.join(unknown)}{near}" if unknown else "takes none of them"
        known = ", ".join(_ARGUMENTS)
        raise ConfigurationError(f"{name} {needed}; a target is given what its parameters name: {known}")
    return _Parameters(tuple(by_place), tuple(by_name))


def _open(config: TargetConfig, context: TargetContext) -> Function:
    code = target_code(config, context.environment, context.root)
    return named_function(config, context.root, code.seal if code is not None else None)


_IMPORT_SECONDS = 60.0
_NOT_THERE = 3


def _check(config: TargetConfig, context: TargetContext) -> None:
    """Find the function; where another process will call it, its module is imported by a process of its own."""
    if not context.apart:
        _open(config, context)
        return
    words = python_command("-m", __name__, config.name, config.model)
    code = target_code(config, context.environment, context.root)
    with suppress(subprocess.TimeoutExpired):  # the caller waits longer and reports the outcome
        done = subprocess.run(
            words,
            cwd=context.root,
            env=os.environ if code is None else {**os.environ, VARIABLE: code.seal.text},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_IMPORT_SECONDS,
            check=False,
        )
        if done.returncode == _NOT_THERE:
            # The output of the module during its import comes before.
            raise ConfigurationError(done.stderr.decode("utf-8", "replace").rpartition("\0")[2].strip())


def _find_for_parent(name: str, model: str) -> int:
    sealed = os.environ.pop(VARIABLE, None)
    try:
        named_function(TargetConfig(name=name, model=model), Path.cwd(), Seal.of_text(sealed) if sealed else None)
    except ConfigurationError as problem:
        sys.stderr.write(f"\0{problem}")
        return _NOT_THERE
    return 0


KIND = TargetKind(form="python:module:function", open=_open, check=_check)


if __name__ == "__main__":
    status = _find_for_parent(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)  # threads that the module began would hold up a tidy end
