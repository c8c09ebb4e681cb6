"""`init WHAT`, `init --from` and `demo`: projects that begin with a dataset that runs.

`init` finds out how something is asked and asks it once; `demo` runs the sample project on the scripted target.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tui_evals.cli import inputs, project
from tui_evals.cli.inputs import evaluators_named, open_project, read
from tui_evals.cli.opening import Opening, need_terminal
from tui_evals.cli.output import Stop, asked, cell, keep_output_to_ourselves, say, say_result
from tui_evals.cli.run.execution import ExecutionOptions, refusals, run_here, start_apart
from tui_evals.cli.write.items import edited
from tui_evals.datasets.discover import STARTER, STARTER_EVALUATORS, find_dataset, make_demo, make_project
from tui_evals.datasets.file_edit import Change
from tui_evals.datasets.paths import CURRENT_VERSION
from tui_evals.evaluators.registry import proposals
from tui_evals.files import CannotSave, make_folder, write_atomically
from tui_evals.project_files import read_text
from tui_evals.runs.approving import agree, missing_of_targets
from tui_evals.runs.judges import items_of
from tui_evals.runs.project import Project
from tui_evals.runs.start import RunRequest, prepare
from tui_evals.targets.answers import answer_path
from tui_evals.targets.base import ConfigurationError, Reply, Request, TargetConfig, TargetError, attempt_clock
from tui_evals.targets.config_file import BEGINNINGS, FUNCTION, Question, keep_secret, replace_section, write_setting
from tui_evals.targets.opening import open_target
from tui_evals.targets.permissions import Approvals
from tui_evals.targets.recognizing import (
    SESSION,
    Recognized,
    look_at,
    missing_field,
    recognize,
    session_in,
    without_secrets,
)
from tui_evals.targets.service import Exchange, Service
from tui_evals.text.measures import counted
from tui_evals.text.names import did_you_mean
from tui_evals.text.strictjson import PathError, find_by_path, loads

FIRST = "Hello! What can you help me with?"
WHAT = "What do you want to evaluate? A URL, curl command, OpenAPI file, Python file or model. Empty: only a dataset"
_FUNCTION = re.compile(r"(?P<file>[\w./-]+\.py):(?P<name>[A-Za-z_]\w*)")
_OF_TARGETS = ("at", "model", "key", "field", "answer", "header", "session")
_MOST_ASKED = 5
"""How often to ask a target again after adapting to its last refusal."""
_MOST_SHOWN = 12
_EXAMPLES = 3


def what_is_evaluated() -> str:
    """Ask what to evaluate; a curl command may have several lines."""
    what: str = click.prompt(WHAT, default="", show_default=False, err=True).strip()
    while what.startswith("curl") and _goes_on(what):
        more: str = click.prompt("", default="", show_default=False, prompt_suffix="> ", err=True)
        what = f"{what}\n{more}"
    return what


def _goes_on(command: str) -> bool:
    if command.endswith("\\"):
        return True
    try:
        shlex.split(command)
    except ValueError:
        return not command.endswith("\n")  # an empty line ends a command whose quotes do not
    return False


def begin(what: str | None, source: str | None, given: Mapping[str, Any], options: Mapping[str, Any]) -> int:
    """Configure a target, ask it once, write first questions, and run them; `given` are its questions' answers."""
    root = Path.cwd()
    try:
        found = _recognized(what, source, given)
        given = {**given, **({} if source or what is None else {"at": None})}
        _check_fitting(found.source, given)
        make_project(root)
        for variable, value in found.secrets.items():
            keep_secret(root, variable, value)
            say(f"kept the key as {variable} in .env.local, which git ignores", fg="green")
        if found.note:
            say(found.note)
        before = _before(root, found)
        said = {**before, **found.said}
        said |= {one.option: _said(one, given[one.option], said) for one in BEGINNINGS[found.source].questions}
        said = _with_key_in_variable(root, said)
        first = _first_question(options["ask"], found)
        return _asked_and_run(root, found.source, said, first, given, options)
    except ConfigurationError as problem:
        raise Stop(str(problem)) from None
    except (OSError, CannotSave) as problem:
        raise Stop(f"the project cannot be made here: {problem}") from None


def _recognized(what: str | None, source: str | None, given: Mapping[str, Any]) -> Recognized:
    """The target that the text names, or that of --from and its options."""
    if source is not None:
        return Recognized(source, {} if what is None else {"model" if source == "model" else "at": what})
    assert what is not None
    found = recognize(what, at=given["at"])
    if given["at"] is not None and not what.lower().endswith((".json", ".yaml", ".yml")):
        raise Stop("--at belongs to --from or to an OpenAPI file; what you named has its own address")
    found = look_at(found, _fetched)
    return replace(found, said={"field": "message", **found.said}) if found.source == "http" else found


def _fetched(url: str) -> Any:
    """The JSON at an address that tells of a service; None where there is none."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return json.loads(reply.read(2**22))
    except (OSError, ValueError):  # most services describe themselves nowhere
        return None


def _check_fitting(source: str, given: Mapping[str, Any]) -> None:
    needed = [question.option for question in BEGINNINGS[source].questions]
    if unfit := [name for name in _OF_TARGETS if given[name] is not None and name not in needed]:
        takes = ", ".join(f"--{name}" for name in sorted([*needed, "ask"]))
        raise Stop(f"--{unfit[0]} is nothing that --from {source} takes; it takes {takes}")


def _before(root: Path, found: Recognized) -> dict[str, str]:
    """The settings that an earlier `init` found for the service at this address."""
    known = open_project(None, trusting=False).settings.targets.get(BEGINNINGS[found.source].name)
    if known is None or known.http is None or known.http.url != found.said.get("at"):
        return {}
    http = known.http
    before = {"header": "\n".join(f"{name}: {value}" for name, value in known.headers.items())}
    before |= {"body": json.dumps(http.body)} if isinstance(http.body, dict) else {}
    before |= {name: value for name, value in (("answer", http.answer), ("session", http.session)) if value}
    return before


def _said(question: Question, given: str | None, found: Mapping[str, str]) -> str:
    """The answer to a question; a guess counts only if the user can confirm it."""
    known = given if given is not None else found.get(question.option)
    if known is not None or not question.text:
        return known or ""
    if question.option == "field" and found.get("body"):
        return ""
    default = None if question.guessed and not sys.stdin.isatty() else question.default
    return asked(question.text, default, None, question.option)


def _with_key_in_variable(root: Path, said: dict[str, str]) -> dict[str, str]:
    """The answers with a key that was typed into a header moved to a variable."""
    if not said.get("header"):
        return said
    headers = dict(line.split(":", 1) for line in said["header"].splitlines() if ":" in line)
    lines, secrets = without_secrets({name.strip(): value.strip() for name, value in headers.items()})
    for variable, value in secrets.items():
        keep_secret(root, variable, value)
        say(f"kept the key as {variable} in .env.local, which git ignores", fg="green")
    return {**said, "header": lines}


def _first_question(given: str | None, found: Recognized) -> str:
    usual = found.question or FIRST
    if given is None and not found.question and (dataset := find_dataset(Path())) is not None:
        prompts = [item.get("prompt") for item in inputs.read(dataset).data["items"][:1]]
        usual = next((prompt for prompt in prompts if isinstance(prompt, str)), usual)
    return asked("What is it asked first?", usual, given, "ask")


def _asked_and_run(
    root: Path,
    source: str,
    said: dict[str, str],
    first: str,
    given: Mapping[str, Any],
    options: Mapping[str, Any],
) -> int:
    if source == "python":
        _write_function(said["at"])
    name, answer = _answer(root, source, said, first, given)
    say(f"✓ {name} answers: {cell(answer, 70)!r}", fg="green")
    if not open_project(None, trusting=False).settings.run.targets:
        write_setting(root, ("run", "targets"), [name])
    dataset = _write_dataset(first, options)
    result = {"dataset": str(dataset), "target": name, "answer": answer}
    if options["runs"]:
        from tui_evals.cli.run.commands import run_command  # a circle otherwise: both are commands

        context = click.get_current_context()
        code = int(context.invoke(run_command, dataset=dataset, targets=(name,)))
        say_result(f"again: tui-evals run {dataset} --target {name}", {**result, "run_exit_code": code}, bold=True)
        return code
    say_result(f"next: tui-evals run {dataset} --target {name}", {**result, "run_exit_code": None}, bold=True)
    return 0


def _answer(root: Path, source: str, said: dict[str, str], first: str, given: Mapping[str, Any]) -> tuple[str, str]:
    """The name of the target, and its first answer; settings that were found out are written."""
    name, replaced = BEGINNINGS[source].name, None
    for attempt in range(_MOST_ASKED):
        file, had = replace_section(root, name, BEGINNINGS[source].section(said))
        replaced = had if replaced is None else replaced
        here = open_project(None, trusting=False)
        if attempt == 0:
            say(f"{'replaced' if replaced else 'wrote'} [targets.{name}] in {file.relative_to(root)}", fg="green")
        if (key := said.get("key")) and not here.environment.get(key) and sys.stdin.isatty():
            _keep_typed_key(root, key)
            here = open_project(None, trusting=False)
        config = here.settings.targets[name]
        seen = Exchange()
        try:
            reply = _ask_once(here, config, first, seen)
        except TargetError as problem:
            if attempt == _MOST_ASKED - 1:
                raise _unanswered(config, str(problem)) from None
            said = _learnt(problem, seen, source, said, given, config)
            continue
        _say_received(seen)
        if config.http is None:
            return name, reply.text
        said = _with_session(_with_answer(said, reply.text, given), reply.text, given)
        replace_section(root, name, BEGINNINGS[source].section(said))
        here = open_project(None, trusting=False)
        if SESSION in said.get("body", "") and said.get("session", "").startswith("$"):
            said = _checked_session(here, name, said, first)
            replace_section(root, name, BEGINNINGS[source].section(said))
        return name, _found_at(said["answer"], reply.text)
    raise AssertionError("the last attempt returns or raises")


def _keep_typed_key(root: Path, variable: str) -> None:
    value: str = click.prompt(
        f"{variable} is not set. Its key, which goes to .env.local (empty: ask without)",
        default="",
        hide_input=True,
        show_default=False,
        err=True,
    ).strip()
    if value:
        keep_secret(root, variable, value)


def _unanswered(config: TargetConfig, problem: str) -> Stop:
    return Stop(
        f"✗ {config.name}: {problem}\nRun `tui-evals init` again with other answers, or fix [targets.{config.name}] in "
        f".evals/config.toml, then: tui-evals targets check {config.name}",
        3,
    )


def _learnt(
    problem: TargetError,
    seen: Exchange,
    source: str,
    said: Mapping[str, str],
    given: Mapping[str, Any],
    config: TargetConfig,
) -> dict[str, str]:
    """The answers with what a refusal asks for: a header, a key or a field; else ends the command."""
    refused = problem.code == "agentAuthenticationError"
    at_terminal = sys.stdin.isatty()
    if refused and source == "http":
        if given["header"] or not at_terminal:
            words = shlex.join(["tui-evals", "init", said["at"]])
            raise Stop(
                f"✗ {config.name}: {problem}\nName the header that it needs, and put its key into that variable:\n"
                f"{words} --header 'Authorization: Bearer env:NAME'",
                3,
            )
        say(f"✗ {problem}", err=True)
        header = asked("Which header does it need, as in Authorization: Bearer KEY?", None, None, "header")
        return _with_key_in_variable(Path.cwd(), {**said, "header": header})
    if refused and source == "openai" and not said["key"] and at_terminal:
        say(f"✗ {problem}", err=True)
        _keep_typed_key(Path.cwd(), "MODEL_KEY")
        return {**said, "key": "MODEL_KEY"}
    if source == "http" and problem.status in (400, 422) and not said.get("body") and not given["field"]:
        missing = missing_field(seen.received)
        if missing is not None and missing != said["field"]:
            say(f"it asks for the field {missing}")
            return {**said, "field": missing}
        if at_terminal:
            _say_received(seen)
            return {**said, "field": asked("Which field of its JSON holds the question?", said["field"], None, "field")}
    _say_received(seen)
    raise _unanswered(config, str(problem))


def _say_received(seen: Exchange) -> None:
    """Show the response."""
    lines = seen.received.splitlines()
    for line in lines[:_MOST_SHOWN]:
        say(f"< {cell(line, 200)}".rstrip(), dim=True)
    if len(lines) > _MOST_SHOWN:
        say(f"< … {counted(len(lines) - _MOST_SHOWN, 'more line')}", dim=True)


def _with_session(said: dict[str, str], reply: str, given: Mapping[str, Any]) -> dict[str, str]:
    """The answers with where a reply keeps its session, where the body takes it back."""
    path = session_in(_json(reply))
    if path is None:
        return {**said, "session": ""}
    body = json.loads(said["body"]) if said.get("body") else {said["field"]: "{{ prompt }}"}
    known = next((name for name, value in body.items() if value == SESSION), "")
    if not known and SESSION in said.get("body", ""):  # deeper in a body that was pasted
        return {**said, "session": path}
    field, name = given["session"], path.rpartition(".")[2]
    if field is None and sys.stdin.isatty():
        question = f"The reply has {path}. Which field of the body sends it again? - or nothing: none"
        field = asked(question, known, None, "session").removeprefix("-")
    elif field is None:
        field = known
        if not known:
            say(f"the reply has {path}. If the service expects it in requests: --session {name}, the field of the body")
    body = {key: value for key, value in body.items() if value != SESSION}
    if not field:
        return {**said, "session": "", **({"body": json.dumps(body, ensure_ascii=False)} if known else {})}
    return {**said, "session": path, "body": json.dumps({**body, field: SESSION}, ensure_ascii=False)}


def _checked_session(here: Project, name: str, said: dict[str, str], question: str) -> dict[str, str]:
    """The answers with the session, if the service takes it back; a second turn shows that."""
    config = here.settings.targets[name]
    try:
        session = _ask_once(here, config, question, Exchange(), whole=False).session
        _ask_once(here, config, question, Exchange(), whole=False, session=session)
    except TargetError as problem:
        body = {key: value for key, value in json.loads(said["body"]).items() if value != SESSION}
        say(f"a second turn with its session fails, so none is sent: {problem}", fg="yellow")
        return {**said, "session": "", "body": json.dumps(body, ensure_ascii=False)}
    say(f"✓ a second turn continues the session at {said['session']}", fg="green")
    return said


def _with_answer(said: dict[str, str], reply: str, given: Mapping[str, Any]) -> dict[str, str]:
    """The answers with where the answer is in a reply, if that can be told."""
    path = said["answer"] or answer_path(reply) or ""
    if not path or given["answer"]:
        return said
    if sys.stdin.isatty():
        path = asked("Where is the answer?", path, None, "answer")
    else:
        say(f"the answer is at {path}; --answer names another place")
    return {**said, "answer": path}


def _json(reply: str) -> Any:
    try:
        return loads(reply)
    except ValueError:
        return None


def _found_at(path: str, reply: str) -> str:
    """The value at a path of a reply, or the reply if nothing is there."""
    if not path:
        return reply
    try:
        found = find_by_path(path, loads(reply))
    except (PathError, ValueError) as problem:
        raise Stop(f"{path} finds no answer: {problem}. --answer names another place", 3) from None
    if not found:
        raise Stop(f"nothing is at {path} of the reply. --answer names another place", 3)
    return found[0] if isinstance(found[0], str) else json.dumps(found[0], ensure_ascii=False)


def _write_function(at: str) -> None:
    """A function to begin with, where a file is named that is not there."""
    match = _FUNCTION.fullmatch(at)
    if match is None or Path(match["file"]).exists():
        return
    make_folder(Path(match["file"]).parent)
    write_atomically(Path(match["file"]), FUNCTION.format(name=match["name"]).encode())
    say(f"wrote {match['file']}, a function to begin with", fg="green")


def _ask_once(
    here: Project, config: TargetConfig, question: str, seen: Exchange, *, whole: bool = True, session: Any = None
) -> Reply:
    """The reply to one question, for a service the `whole` one; what was typed in this command is approved."""
    agree(missing_of_targets(here, [config]), here.root)
    keep_output_to_ourselves()
    if whole and config.http is not None:
        config = replace(config, http=replace(config.http, answer=None, session=None))

    async def ask() -> Reply:
        target = open_target(config, here.environment, here.root, items_of)
        if isinstance(target, Service):
            target.exchange = seen
        try:
            async with attempt_clock(target, config.timeout):
                return await target.ask(Request(messages=({"role": "user", "content": question},), session=session))
        finally:
            await target.close()

    try:
        return asyncio.run(ask())
    except ConfigurationError as problem:
        raise _unanswered(config, str(problem)) from None
    except TimeoutError:
        raise _unanswered(config, f"no answer within {config.timeout:g} s") from None


def _write_dataset(first: str, options: Mapping[str, Any]) -> Path:
    """The dataset with the first questions and fitting evaluators; items that are there keep their other fields."""
    file = find_dataset(Path()) or STARTER
    is_new = not file.exists()
    data: Mapping[str, Any] = {} if is_new else inputs.read(file).data
    examples = _examples(first, options["examples"], data)
    under_test: Path | None = options["prompt"]
    prompt = read_text(under_test, follow_out=True) if under_test is not None else ""
    if not (is_new or examples or prompt or options["evaluators"] or _needs_missing_judge(data)):
        return file

    def edit(before: dict[str, Any]) -> Change:
        items = list(before.get("items") or [])
        places = {item.get("prompt"): number for number, item in enumerate(items)}
        wanted = list(examples)
        if is_new and not any(expected for _, expected in examples):
            wanted = wanted or [(first, "")]
            wanted += [("Say the same in one word.", "")] if len(wanted) == 1 else []
        for question, expected in wanted:
            item = {"prompt": question, **({"expected_response": expected} if expected else {})}
            if question in places:
                items[places[question]] = {**items[places[question]], **item}
            else:
                items.append(item)
        evaluators = _evaluators(before, items, prompt, options["evaluators"])
        after = {**before, "items": items, **({"default_evaluators": evaluators} if evaluators else {})}
        if under_test is not None:
            after["prompt_file"] = os.path.relpath(under_test, file.parent)
        return Change({"schemaVersion": CURRENT_VERSION, **after}, "init", range(len(items)))

    make_folder(file.parent)
    if edited(file, edit, force=False, new=is_new).changed:
        say(f"wrote {file}", fg="green")
    return file


def _needs_missing_judge(data: Mapping[str, Any]) -> bool:
    """Whether a dataset names no evaluators, and the usual ones ask a judge that this project does not have."""
    named = data.get("default_evaluators") or any(item.get("evaluators") for item in data.get("items") or ())
    return not named and open_project(None, trusting=False).settings.judge is None


def _examples(first: str, given: Sequence[str], data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Questions with their expected answers, from options or asked at the terminal."""
    if given:
        pairs = [text.partition("=>") for text in given]
        if wrong := next((text for text, (_, sign, _) in zip(given, pairs, strict=True) if not sign), None):
            raise Stop(f"--example {wrong!r} has no expected answer. Write --example 'QUESTION => ANSWER'")
        return [(question.strip(), expected.strip()) for question, _, expected in pairs]
    if not sys.stdin.isatty():
        return []
    known = {item.get("prompt"): item.get("expected_response") for item in data.get("items") or ()}
    examples: list[tuple[str, str]] = []
    question = first
    while question:
        had = known.get(question)
        expected = asked("What do you expect as its answer? Empty: anything", str(had or ""), None, "example")
        examples.append((question, expected))
        if len(examples) == _EXAMPLES:
            break
        question = asked(f"Question {len(examples) + 1}? Empty: no more", "", None, "example")
    return examples


def _evaluators(
    before: Mapping[str, Any], items: Sequence[Mapping[str, Any]], prompt: str, given: str | None
) -> dict[str, Any] | None:
    """The evaluators: named or proposed ones; those that the user wrote into the dataset stay."""
    had = before.get("default_evaluators")
    if given is not None:
        return evaluators_named(given)
    found = proposals(_expected(items), prompt)
    proposed = {one.name: dict(one.options) for one in found}
    earlier = {one.name: dict(one.options) for one in proposals(_expected(before.get("items") or ()))}
    if had and had not in (earlier, STARTER_EVALUATORS) and not prompt:
        return None
    if had == proposed:
        return None
    for one in found:
        say(f"  {one.name:<14} {one.why}")
    if not sys.stdin.isatty():
        return proposed
    typed = asked("Evaluators (Enter takes these; `help which-evaluator`)", ",".join(proposed), None, "evaluators")
    known = inputs.evaluators().catalogue
    chosen: dict[str, Any] = {}
    for name, options in evaluators_named(typed).items():
        if name not in known:
            raise Stop(f"there is no evaluator {name!r}{did_you_mean(name, known)}; `tui-evals evaluators` lists them")
        chosen[name] = options or proposed.get(name, {})
    return chosen


def _expected(items: Sequence[Mapping[str, Any]]) -> list[str]:
    return [text for item in items if isinstance(text := item.get("expected_response"), str)]


_AT_ONCE = 30
"""Concurrent calls with `--plain`."""


def demo(plain: bool, mouse: bool) -> int | Opening:
    """Make the sample project and run it: here, or in the background with the workbench on it."""
    if not plain:
        need_terminal("`tui-evals demo --plain` runs the sample project without one")
    folder, dataset = _made()
    os.environ.pop("TUI_EVALS_DB", None)
    os.chdir(folder)
    here = open_project(None, trusting=False)
    document = read(dataset.relative_to(folder))
    request = RunRequest(
        document=document,
        source=str(document.file),
        name=document.file.stem,
        concurrency=_AT_ONCE if plain else None,
    )
    with refusals():
        prepared = prepare(request, here)
    with here.writer() as writer:
        with refusals():
            job = prepared.store(writer, apart=not plain)
        if plain:
            say(f"the sample project is in {folder}")
            code = run_here(job, writer, ExecutionOptions())
            say(f"look around with `cd {folder}` and `tui-evals show last`; delete the folder when you are done")
            return code
    run = job.run
    start_apart(run, ("resume", run.key, "--quiet"))
    return Opening(folder, project.store_path(), document.file.absolute(), run.key, mouse, demo=True)


def _made() -> tuple[Path, Path]:
    """A new folder with the sample project, and its first dataset."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="tui-evals-demo-")).resolve()
        dataset = make_demo(folder)
        Approvals(folder).own()
        return folder, dataset
    except (OSError, CannotSave) as problem:
        raise Stop(f"the sample project cannot be made: {problem}", 1) from None
