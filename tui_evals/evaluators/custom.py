"""Custom evaluators: `custom-evaluators/<name>/<name>.py`, and `<name>.prompty` next to it for those that ask a judge.

The file defines a function `score`. It gets the arguments that its parameters name (`custom_source.ARGUMENTS`, and
options of the dataset by their names). It returns True or False, a number, either of them with a reason, or
`{"score": ..., "reason": ...}`. Or the file defines a class: the first one with `__call__` is created with `threshold`
and `options`, and called with `prompt`, `response`, `expected_response` and `context`, where missing values are empty
strings. It returns `{"score": ..., "reason": ...}` or `{"error": ...}`.

With a `.prompty`, the code also gets `model_config`, which reaches the judge without its key.
`model_config.ask(messages, temperature=0.7)` returns a reply to chat messages or one text; each call is a new sample.
`model_config.ask_prompty(**values)` returns the reply to the `.prompty`, parsed if that asks for JSON. If the prompt
names `steps`, `chunks`, `diagnostics`, `group` or `evidence` (all of them) and the code passes no such value, the
evidence is inserted, fenced. `promptflow`'s `load_flow` does the same, so evaluators written for it run unchanged. The
code runs on a copy of its folder, in a process of its own, once it is trusted.

Or the evaluator is `custom-evaluators/<name>/<name>.js`, which exports a function of the answer and its context, as for
promptfoo. `javascript_engine.py` runs it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from tui_evals.evaluators.judging import HEADINGS, call_data, chunks_of, evidence_for_prompt
from tui_evals.files import make_folder, write_atomically
from tui_evals.project_files import read_bytes, read_text
from tui_evals.text.chats import (
    SENT,
    JudgeParameters,
    PromptyError,
    WrongParameter,
    judge_parameters,
    parameters_of,
    parse_prompty,
)
from tui_evals.text.measures import Measure
from tui_evals.text.names import did_you_mean
from tui_evals.text.templates import TemplateError

from . import sandbox
from .base import (
    EMPTY_ANSWER,
    Ask,
    CannotJudge,
    Evaluator,
    Evidence,
    JudgedOptions,
    Misconfigured,
    Question,
    Score,
    as_text,
    error_score,
    measured_score,
    skipped_score,
    verdict_score,
)
from .custom_source import declared_value, source_fault
from .javascript_engine import Module, Script, ScriptOptions, engine_obstacle, judge, listed
from .judging import ask_judge, ask_once, judge_question, question_as_written, reply_object
from .trust import Trust, TrustError, code_digest, code_files
from .verdicts import (
    RATING,
    SKIPPED,
    OffScale,
    Scale,
    ScaledOptions,
    WrongScale,
    parse_scale,
    threshold_on,
    threshold_problem,
)

FOLDER = "custom-evaluators"
SCRIPT = ".js"
MAX_ASKS = 100
MAX_REASON = 2_000
FUNCTION_THRESHOLD = 0.5
LIMITS = sandbox.Limits()
_JUDGE_WORDS = ("load_flow", "promptflow", "model_config", ".prompty")
_OWN_FILE = re.compile(r'File "(?![/<])')
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class CodeOptions(ScaledOptions):
    """Options of an evaluator that is only code."""

    threshold: float = Field(
        1.0, description="The score from which it passes; 0.5 for a function unless given, the middle of its scale."
    )
    options: Mapping[str, Any] = Field(default_factory=dict, description="Handed to the evaluator as it is.")


class JudgeOptions(ScaledOptions, JudgedOptions):
    """Options of an evaluator that asks a judge."""

    threshold: float = Field(
        3.0, description="The score from which it passes: of 1 to 5, or of its scale, whose middle it is unless given."
    )
    options: Mapping[str, Any] = Field(default_factory=dict, description="Handed to the evaluator as it is.")
    compat: bool = Field(
        False,
        description="Ask to the letter of its .prompty, nothing fenced and empty fields empty, and take any number as "
        "its score.",
    )


def discover_custom_evaluators(root: Path) -> dict[str, Path]:
    """The custom evaluators of a project: their names and folders."""
    folders = (root / FOLDER).glob("*")
    return {path.name: path for path in sorted(folders) if path.is_dir() and path.name[0] not in "._"}


def name_problem(name: str, builtin: Iterable[str]) -> str | None:
    """Why a custom evaluator cannot have this name, if it cannot."""
    if not _NAME.fullmatch(name):
        return f"{name!r} cannot name an evaluator: name the folder with letters, digits and _, a letter first"
    builtin_name = next((candidate for candidate in builtin if candidate.lower() == name.lower()), None)
    return (
        f"Custom evaluator '{name}' has the name of the built-in {builtin_name}; rename its folder"
        if builtin_name
        else None
    )


def read_evaluator_files(name: str, folder: Path) -> dict[str, bytes]:
    """The files of a custom evaluator, trusted or not; CannotJudge says why they cannot be read."""
    missing = f"Custom evaluator '{name}' is missing required file '{name}.py'"
    if not any((folder / f"{name}{ending}").is_file() for ending in (".py", SCRIPT)):
        raise CannotJudge("evaluatorLoadError", missing)
    try:
        return code_files(folder)
    except (OSError, TrustError) as problem:
        raise CannotJudge("evaluatorLoadError", f"Custom evaluator '{name}' cannot be read: {problem}") from None


def main_file(name: str, folder: Path) -> str:
    """The file of a custom evaluator that is called: Python, or else JavaScript."""
    is_script = not (folder / f"{name}.py").is_file() and (folder / f"{name}{SCRIPT}").is_file()
    return f"{name}{SCRIPT}" if is_script else f"{name}.py"


def load_trusted_files(name: str, folder: Path, trust: Trust) -> dict[str, bytes]:
    """The trusted files of a custom evaluator, exactly those that will run; CannotJudge says why they cannot."""
    files = read_evaluator_files(name, folder)
    try:
        trusted = trust.accepts(folder, files)
    except (OSError, TrustError) as problem:
        raise CannotJudge("evaluatorLoadError", f"Custom evaluator '{name}' cannot be read: {problem}") from None
    if not trusted:
        raise CannotJudge(
            "evaluatorLoadError",
            f"Custom evaluator '{name}' is code that is new or changed since you trusted it: read it, then say "
            f"`tui-evals trust {folder / main_file(name, folder)}`, or pass --trust to run whatever this project holds",
        )
    return files


class CustomEvaluator(Evaluator):
    """Passes when the score of code from the project reaches the threshold."""

    family = "custom"
    lowest = 1.0
    folder: ClassVar[Path]
    trust: ClassVar[Trust]

    def empty_score(self) -> Score | None:
        """The lowest score on its scale."""
        try:
            scale = self._scale(read_evaluator_files(self.name, self.folder))
        except CannotJudge:  # reported when it should run
            return None
        if scale is None:
            return super().empty_score()
        return scale.score(scale.worst, threshold_on(scale, self.options), EMPTY_ANSWER)

    def obstacle(self) -> str | None:
        """Why it cannot judge: a file is missing or the threshold is not on the scale. Trust is checked elsewhere."""
        try:
            files = read_evaluator_files(self.name, self.folder)
            if fault := self.code_problem():
                return fault
            self._scale(files)
        except CannotJudge as problem:
            return str(problem)
        return None

    @classmethod
    def code_problem(cls) -> str | None:
        """Why the code cannot judge, with file and line, found by reading it; it is not run."""
        file = f"{FOLDER}/{cls.name}/{cls.name}.py"
        try:
            source = read_bytes(cls.folder / f"{cls.name}.py")
        except FileNotFoundError:
            return f"{file} is missing: an evaluator of your own is a function score, or a class, in that file"
        except OSError as problem:
            return f"{file} cannot be read: {problem.strerror}"
        if fault := source_fault(source, judged=cls.judged):
            return f"{file}:{fault[0]}: {fault[1]}"
        try:
            cls.asked_with()
        except (OSError, UnicodeError, PromptyError, WrongParameter) as problem:
            return f"{FOLDER}/{cls.name}/{cls.name}.prompty cannot be used: {problem}"
        try:
            _declared_scale(cls.name, read_evaluator_files(cls.name, cls.folder))
        except (CannotJudge, WrongScale) as problem:
            return str(problem)
        return None

    @classmethod
    def declared_measure(cls) -> Measure:
        """The scale in its files, else that of judges of M365."""
        try:
            scale = _declared_scale(cls.name, read_evaluator_files(cls.name, cls.folder))
        except (CannotJudge, WrongScale):  # reported when it should judge
            scale = None
        scale = RATING if scale is None and cls.judged else scale
        return cls.measure if scale is None else scale.measure

    @classmethod
    def asked_with(cls) -> JudgeParameters:
        """The parameters in the front matter of its .prompty."""
        if not cls.judged:
            return JudgeParameters()
        return parameters_of(parse_prompty(read_text(cls.folder / f"{cls.name}.prompty")).front)

    def provenance(self) -> Mapping[str, str]:
        """A hash of its files, if it asks a paid judge."""
        return _files_detail(read_evaluator_files(self.name, self.folder)) if self.judged else {}

    async def score(self, evidence: Evidence) -> Score:
        """Run the code once, in a process of its own."""
        files = load_trusted_files(self.name, self.folder, self.trust)
        options, scale = self.options, self._scale(files)
        job = {
            "kind": "custom",
            "name": self.name,
            "judged": self.judged,
            "settings": {"threshold": self._threshold(scale), "options": dict(options.options)},
            "arguments": {
                "prompt": evidence.prompt,
                "response": evidence.response or "",
                "expected_response": evidence.expected or "",
                "context": evidence.context or "",
            },
            "evidence": {**_function_arguments(evidence), "threshold": self._threshold(scale, function=True)},
        }
        answer = _JudgeChannel(self.ask, options, evidence) if self.judged else None
        try:
            outcome, printed = await sandbox.run_job(job, files, LIMITS, answer)
        except sandbox.CodeStopped as stopped:
            return error_score("evaluatorError", f"Evaluator failed: {stopped}", printed=stopped.printed)
        details: dict[str, object] = {"printed": printed} if printed else {}
        if self.judged:
            details |= _files_detail(files)
        if not self.judged and (warning := _missing_prompty_warning(self.name, files)):
            details["warning"] = warning
        return self._record(outcome, details, scale)

    def _scale(self, files: Mapping[str, bytes]) -> Scale | None:
        """The scale that the dataset or its files declare; without one of its own, judges rate as those of M365 do."""
        try:
            own = self.options.scale
            scale = _declared_scale(self.name, files) if own is None else parse_scale(own)
        except WrongScale as problem:
            raise Misconfigured(str(problem)) from None
        if scale is not None and (fault := threshold_problem(scale, threshold_on(scale, self.options))):
            raise Misconfigured(fault)
        return RATING if scale is None and self.judged and not self.options.compat else scale

    def _threshold(self, scale: Scale | None, *, function: bool = False) -> float:
        """The passing score; a function returns a share unless something else is declared."""
        if "threshold" in self.options.model_fields_set:
            return float(self.options.threshold)
        if scale is not None:
            return scale.threshold
        return FUNCTION_THRESHOLD if function else float(self.options.threshold)

    def _record(self, outcome: Mapping[str, Any], details: Mapping[str, object], scale: Scale | None) -> Score:
        if raised := outcome.get("traceback"):
            details = {**details, "traceback": _OWN_FILE.sub(f'File "{FOLDER}/{self.name}/', str(raised))}
        if "unloadable" in outcome:
            reason = f"Custom evaluator '{self.name}' failed to import: {outcome['unloadable']}"
            return error_score("evaluatorLoadError", reason, **details)
        if "raised" in outcome:
            return _failed_score(str(outcome["raised"]), details)
        result = outcome.get("result")
        if not isinstance(result, dict):
            return _invalid_score(
                f"it returned {_value_text(result)} instead of an object with score and reason", details
            )
        if result.get("error") or result.get("result") == "error":
            return _failed_score(as_text(result.get("error") or "it returned an error without a message"), details)
        reason = as_text(result.get("reason") or "")[:MAX_REASON]
        if "could not parse score" in reason.lower():
            return _failed_score(reason, details)
        if result.get("result") == "skipped":
            return replace(skipped_score(reason or f"{self.name} does not apply"), details=details)
        score, passed = result.get("score"), result.get("passed")
        verdict_alone = isinstance(passed, bool) and (score is None or isinstance(score, bool) or scale is RATING)
        if scale is not None and not verdict_alone:
            return self._on_scale(scale, result, reason, details)
        if isinstance(passed, bool):
            verdict = replace(verdict_score(passed, reason or f"{self.name} says {passed}"), details=details)
            return verdict if score is None or isinstance(score, bool) else replace(verdict, score=_number(score))
        if (number := _number(score)) is None:
            return _invalid_score(f"its score is {_value_text(score)}, not a number one can compare", details)
        threshold = self._threshold(None, function=outcome.get("function") is True)
        return measured_score(number, threshold, reason, label=None, **details)

    def _on_scale(self, scale: Scale, result: Mapping[str, Any], reason: str, details: Mapping[str, object]) -> Score:
        """The record of a score on a scale; a verdict that the code gives as well has the last word."""
        given, passed = result.get("score"), result.get("passed")
        given = result.get("label") if given is None and scale.labels else given
        if not scale.labels and _number(given) is None:
            return _invalid_score(f"its score is {_value_text(given)}, not a number one can compare", details)
        try:
            record = scale.score(given, self._threshold(scale), reason, **details)
        except OffScale as problem:
            if scale is RATING:
                wanted = "one that asks a judge gives a whole number from 1 to 5, or declares its scale"
                return _invalid_score(f"its score is {given:g}; {wanted}", details)
            return _invalid_score(f"its score {problem}", details)
        if isinstance(passed, bool) and record.result != SKIPPED:
            return replace(record, result="pass" if passed else "fail")
        return record


class FileOptions(ScriptOptions):
    """Options of an evaluator that is a file of JavaScript."""

    function: str | None = Field(None, description="Which of the functions it exports; the default one unless given.")


class JavaScriptFile(CustomEvaluator):
    """Passes when a function of a JavaScript file in the project says so."""

    lowest = 0.0
    Options = FileOptions

    def obstacle(self) -> str | None:
        """The file is missing, or the engine is not installed."""
        return self.code_problem() or engine_obstacle()

    @classmethod
    def code_problem(cls) -> str | None:
        """The file is missing; the engine reports errors in it."""
        file = f"{cls.name}{SCRIPT}"
        return None if (cls.folder / file).is_file() else f"{FOLDER}/{cls.name}/{file} is missing"

    @classmethod
    def declared_measure(cls) -> Measure:
        """No unit."""
        return cls.measure

    def empty_score(self) -> Score | None:
        """Code judges empty answers too."""
        return None

    async def score(self, evidence: Evidence) -> Score:
        """Call the function once."""
        if obstacle := self.obstacle():
            return error_score("evaluatorConfigurationError", obstacle)
        options = self.options
        files = load_trusted_files(self.name, self.folder, self.trust)
        try:
            source = files[f"{self.name}{SCRIPT}"].decode()
        except UnicodeDecodeError:
            raise Misconfigured(f"{self.name}{SCRIPT} is not UTF-8 text; save the file as UTF-8") from None
        module = Module(source, options.function)
        transforms = listed(options.transform)
        script = Script(transforms=transforms, module=module, parse=options.parse, seconds=options.timeout)
        return await judge(script, evidence, options, f"{self.name}{SCRIPT}")


def _files_detail(files: Mapping[str, bytes]) -> dict[str, str]:
    """The detail of a record that tells which files judged."""
    return {"files": code_digest(files)[:8]}


def _declared_scale(name: str, files: Mapping[str, bytes]) -> Scale | None:
    """The scale that the files of an evaluator declare: `SCALE = [1, 10]` in its code, or `scale:` in its .prompty."""
    file = f"{FOLDER}/{name}/{name}.py"
    try:
        declared = declared_value(files[f"{name}.py"], "SCALE")
        if declared is None and (prompty := files.get(f"{name}.prompty")) is not None:
            file = f"{FOLDER}/{name}/{name}.prompty"
            declared = parse_prompty(prompty.decode("utf-8", "replace")).front.get("scale")
        return None if declared is None else parse_scale(declared)
    except PromptyError:  # reported when it is asked
        return None
    except ValueError as problem:
        raise WrongScale(f"{file} declares no scale: {problem}") from None


def _function_arguments(evidence: Evidence) -> dict[str, Any]:
    """The arguments that a function can have by name, as plain data."""
    asked = {
        "response": evidence.response or "",
        "expected": evidence.expected,
        "expected_response": evidence.expected or "",
        "references": evidence.references,
        "prompt": evidence.prompt,
        "context": evidence.context or "",
        "history": evidence.history,
        "variables": evidence.variables,
        "tool_calls": [call_data(call) for call in evidence.tool_calls or ()],
        "chunks": chunks_of(evidence),
        "diagnostics": evidence.diagnostics or {},
        "latency_ms": evidence.latency_ms,
        "cost": evidence.cost,
        "tokens": evidence.tokens,
    }
    asked |= {"output": asked["response"], "answer": asked["response"]}
    asked |= {"reference": asked["expected"], "input": asked["prompt"]}
    plain: dict[str, Any] = json.loads(json.dumps(asked, default=_plain))
    return plain


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


class _JudgeChannel:
    """Answers the questions of a judged custom evaluator with the judge it was given."""

    def __init__(self, ask: Ask, options: JudgeOptions, evidence: Evidence) -> None:
        self._ask, self._judge, self._evidence = ask, options.judge, evidence
        self._compat = options.compat
        self._left = MAX_ASKS

    async def __call__(self, request: Mapping[str, Any]) -> object:
        self._left -= 1
        if self._left < 0:
            raise CannotJudge("evaluatorError", f"Evaluator failed: it asked its judge more than {MAX_ASKS} times")
        if "prompty" in request:
            return await self._prompty(request)
        messages = request.get("messages")
        if not isinstance(messages, list) or not all(_is_message(message) for message in messages):
            raise CannotJudge("evaluatorError", "Evaluator failed: its judge takes messages with role and content")
        try:
            asked_with = judge_parameters(request.get("parameters") or {})
        except WrongParameter as problem:
            raise CannotJudge("evaluatorError", f"Evaluator failed: {problem}") from None
        if unknown := asked_with.unsent:
            hint = did_you_mean(unknown[0], SENT) or f"; known are {', '.join(SENT)}"
            raise CannotJudge("evaluatorError", f"Evaluator failed: no judge is sent {unknown[0]}{hint}")
        question = Question(
            messages=tuple(messages), judge=self._judge, schema=asked_with.form, params=asked_with.params
        )
        return (await ask_once(self._ask, question))[0]

    async def _prompty(self, request: Mapping[str, Any]) -> object:
        try:
            prompt = parse_prompty(str(request["prompty"]))
            texts = {
                name: as_text(value) for name, value in {**_input_defaults(prompt.front), **request["values"]}.items()
            }
            asked_with = judge_parameters(request.get("parameters") or {}).over(parameters_of(prompt.front))
            if self._compat:
                question = question_as_written(prompt, texts, judge=self._judge, asked_with=asked_with)
            else:
                parts, absent = evidence_for_prompt(self._evidence, texts)
                question = judge_question(
                    prompt, texts, absent, parts=parts, headings=HEADINGS, judge=self._judge, asked_with=asked_with
                )
        except (PromptyError, TemplateError, WrongParameter) as problem:
            raise Misconfigured(f"its .prompty cannot be used: {problem}") from None
        if question.schema is None:
            return (await ask_once(self._ask, question))[0]
        return (await ask_judge(self._ask, question, reply_object))[0]


def _input_defaults(front: Mapping[str, Any]) -> dict[str, object]:
    inputs = front.get("inputs")
    declared = inputs if isinstance(inputs, dict) else {}
    return {
        name: input_spec["default"]
        for name, input_spec in declared.items()
        if isinstance(input_spec, dict) and "default" in input_spec
    }


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))


def _number(score: object) -> float | None:
    """A score as a finite number, or None."""
    number = isinstance(score, int | float) and not isinstance(score, bool) and abs(score) <= 1e300
    return float(score) if number else None  # type: ignore[arg-type]


def _failed_score(message: str, details: Mapping[str, object]) -> Score:
    unreadable = "could not parse score" in message.lower()
    code = "judgeOutputUnparseable" if unreadable else "evaluatorError"
    return error_score(code, f"Evaluator failed: {message}"[:MAX_REASON], **details)


def _invalid_score(problem: str, details: Mapping[str, object]) -> Score:
    return error_score("invalidEvaluatorResult", f"Evaluator failed: {problem}", **details)


def _value_text(value: object) -> str:
    text = repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:79]}…"


def _missing_prompty_warning(name: str, files: Mapping[str, bytes]) -> str | None:
    """A warning where code without a .prompty seems to want a judge."""
    source = files[f"{name}.py"].decode("utf-8", "replace")
    words = [word for word in _JUDGE_WORDS if word in source]
    return f"{name}.py mentions {words[0]} but has no {name}.prompty, so it is given no judge" if words else None


_NEW = '''"""NAME: says whether an answer is good, by rules of your own."""


def score(response, expected):
    """True where the answer passes. A number from 0 to 1 passes from 0.5, and either may come with a reason.

    Ask for more by name: prompt, references, context, history, variables, tool_calls, diagnostics, latency_ms, cost,
    tokens, threshold, options. A parameter with a default, such as words=50, is an option of the dataset:
    "NAME": {"options": {"words": 30}}.
    """
    if not expected:
        return bool(response.strip()), "the answer says something" if response.strip() else "the answer is empty"
    found = expected.casefold() in response.casefold()
    return found, f"{expected!r} is {'' if found else 'not '}in the answer"
'''
_NEW_TEST = '''"""Tests of NAME; run them with pytest."""

from NAME import score


def test_what_is_expected_passes_in_any_case():
    assert score("It is PARIS.", "Paris")[0]
    assert not score("It is Rome.", "Paris")[0]


def test_without_an_expectation_any_answer_passes_but_an_empty_one():
    assert score("Hello", None)[0]
    assert not score(" ", None)[0]
'''


def check_new_evaluator(root: Path, name: str, builtin: Iterable[str]) -> None:
    """Whether a new evaluator can have this name; ValueError and FileExistsError say why not."""
    if problem := name_problem(name, builtin):
        raise ValueError(problem)
    if name in sys.stdlib_module_names:
        raise ValueError(f"{name} is a module of Python's own, which {name}.py would hide; choose another name")
    if (root / FOLDER / name).exists():
        raise FileExistsError(f"{FOLDER}/{name} is already there; nothing was written")


def new_evaluator_text(name: str) -> str:
    """The function that a new evaluator begins with."""
    return _NEW.replace("NAME", name)


def write_new_evaluator(root: Path, name: str, builtin: Iterable[str]) -> tuple[Path, Path]:
    """Write an evaluator with a function and its test; ValueError and FileExistsError say why not."""
    check_new_evaluator(root, name, builtin)
    folder = root / FOLDER / name
    make_folder(folder)
    file, test = folder / f"{name}.py", folder / f"test_{name}.py"
    write_atomically(file, new_evaluator_text(name).encode())
    write_atomically(test, _NEW_TEST.replace("NAME", name).encode())
    return file, test


def custom_evaluator(name: str, folder: Path, trust: Trust) -> type[Evaluator]:
    """The evaluator class of one custom evaluator; nothing of it is read or run before it scores."""
    file = main_file(name, folder)
    if file.endswith(SCRIPT):
        about = f"Passes when the function in {FOLDER}/{name}/{file} says so."
        return type(name, (JavaScriptFile,), {"name": name, "folder": folder, "trust": trust, "__doc__": about})
    judged = (folder / f"{name}.prompty").is_file()
    options = JudgeOptions if judged else CodeOptions
    description = f"Passes when the score that {FOLDER}/{name}/{file} gives reaches the threshold."
    members = {
        "name": name,
        "folder": folder,
        "trust": trust,
        "judged": judged,
        "Options": options,
        "__doc__": description,
    }
    return type(name, (CustomEvaluator,), members)
