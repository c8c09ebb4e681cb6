"""The functions an agent chose and ran, and the tool calls a model made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from tui_evals.text.measures import Measure

from .base import (
    CannotJudge,
    Evaluator,
    Evidence,
    Misconfigured,
    NoValueToJudge,
    Options,
    Score,
    Text,
    ToolCall,
    measured_score,
    verdict_score,
)
from .values import quoted, quoted_list

FunctionName = tuple[str | None, str | None]

MAX_CALLS = 1_000


class Tool(BaseModel):
    """A function of a plugin."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    plugin_name: Text = Field(description="The plugin that offers the function.")
    function_name: Text = Field(description="The function.")


class ExpectedCall(BaseModel):
    """A call that is expected."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    id: Text | None = Field(None, description="A label for the reader, which is not compared.")
    tool: Tool = Field(description="The function that is expected.")

    @property
    def name(self) -> FunctionName:
        """Plugin and function, trimmed as the evidence is."""
        return self.tool.plugin_name.strip(), self.tool.function_name.strip()


class ToolCallExecutionOptions(Options):
    """Options of ToolCallExecution."""

    calls: list[ExpectedCall] = Field(min_length=1, description="The calls that are expected.")


class ToolCallSelectionOptions(ToolCallExecutionOptions):
    """Options of ToolCallSelection."""

    allow_additional_calls: bool = Field(True, description="Whether other functions may be chosen as well.")


def _indeterminate(reason: str) -> CannotJudge:
    return CannotJudge("toolCallEvidenceIndeterminate", reason)


def _call_rows(evidence: Evidence, key: str) -> list[Mapping[str, Any]] | None:
    """One list of the tool-call evidence, None if it is unknown; a malformed row counts as empty."""
    calls = (evidence.diagnostics or {}).get("tool_calls")
    if not isinstance(calls, Mapping):
        raise _indeterminate("the answer came without diagnostics.tool_calls")
    if calls.get("evidence_error"):
        raise _indeterminate(f"the tool calls could not be observed: {str(calls['evidence_error'])[:200]}")
    rows = calls.get(key)
    if not isinstance(rows, list | tuple):
        return None
    if len(rows) > MAX_CALLS:
        raise CannotJudge("responseTooLarge", f"{len(rows):,} tool calls are too many to compare (limit {MAX_CALLS:,})")
    return [row if isinstance(row, Mapping) else {} for row in rows]


def _function_name(row: Mapping[str, Any]) -> FunctionName:
    plugin, function = (
        value.strip() or None if isinstance(value, str) else None
        for value in (row.get("plugin_name"), row.get("function_name"))
    )
    return plugin, function


def _could_be_same(left: FunctionName, right: FunctionName) -> bool:
    """Whether two names can mean the same function; a part that is not known can mean anything."""
    return all(a is None or b is None or a == b for a, b in zip(left, right, strict=True))


def _dotted_names(names: Iterable[FunctionName]) -> list[str]:
    return [".".join(part or "?" for part in name) for name in names]


class ToolCallSelection(Evaluator):
    """Passes when the agent chose every expected function.

    With `allow_additional_calls: false` it may have chosen no other. How often a function was chosen does not matter.
    The evidence is `diagnostics.tool_calls` of the answer; where it is absent or contradicts itself and that could
    change the verdict, the record is an error.
    """

    name = "ToolCallSelection"
    family = "M365"
    measure = Measure("exactly")
    Options = ToolCallSelectionOptions
    example: ClassVar = {
        "options": {"calls": [{"tool": {"plugin_name": "crm", "function_name": "find"}}]},
        "response": "Found.",
        "diagnostics": {
            "tool_calls": {"selected_functions": [{"plugin_name": "crm", "function_name": "find"}], "executions": None}
        },
    }

    def score(self, evidence: Evidence) -> Score:
        """Compare the chosen functions with the expected ones, as sets."""
        rows = _call_rows(evidence, "selected_functions")
        if rows is None:
            raise _indeterminate("diagnostics.tool_calls does not say which functions were selected")
        selected = [_function_name(row) for row in rows]
        ran = [_function_name(row) for row in _call_rows(evidence, "executions") or ()]
        unselected = [name for name in ran if not any(_could_be_same(name, other) for other in selected)]
        uncertain = [name for name in selected if None in name] + unselected
        certain = dict.fromkeys(name for name in selected if None not in name)
        expected = dict.fromkeys(call.name for call in self.options.calls)
        missing = [name for name in expected if name not in certain]
        additional = [] if self.options.allow_additional_calls else [name for name in certain if name not in expected]
        details: dict[str, Any] = {"missing": _dotted_names(missing), "additional": _dotted_names(additional)}
        if additional:
            return measured_score(0.0, 1.0, f"also selected: {quoted_list(_dotted_names(additional))}", **details)
        if not all(any(_could_be_same(name, other) for other in uncertain) for name in missing):
            return measured_score(0.0, 1.0, f"not selected: {quoted_list(_dotted_names(missing))}", **details)
        uncertain_additional = any(name not in expected for name in uncertain)
        if missing or (uncertain_additional and not self.options.allow_additional_calls):
            raise _indeterminate(f"uncertain calls could change the verdict: {quoted_list(_dotted_names(uncertain))}")
        return measured_score(1.0, 1.0, "every expected function was selected", **details)


class ToolCallExecution(Evaluator):
    """Passes when every expected call was run with success, a call expected twice at least twice.

    Success is an HTTP status from 200 to 299. The evidence is `diagnostics.tool_calls` of the answer; where it is
    absent or contradicts itself and that could change the verdict, the record is an error.
    """

    name = "ToolCallExecution"
    family = "M365"
    measure = Measure("exactly")
    Options = ToolCallExecutionOptions
    example: ClassVar = {
        "options": {"calls": [{"tool": {"plugin_name": "crm", "function_name": "find"}}]},
        "response": "Found.",
        "diagnostics": {
            "tool_calls": {
                "selected_functions": None,
                "executions": [{"plugin_name": "crm", "function_name": "find", "response_status": 200}],
            }
        },
    }

    def score(self, evidence: Evidence) -> Score:
        """Compare the successful executions with the expected calls, as multisets."""
        rows = _call_rows(evidence, "executions")
        if rows is None:
            raise _indeterminate("diagnostics.tool_calls does not say which functions were executed")
        selected_rows = _call_rows(evidence, "selected_functions")
        selected = None if selected_rows is None else [_function_name(row) for row in selected_rows]
        certain: Counter[FunctionName] = Counter()
        uncertain: list[FunctionName] = []
        for row in rows:
            name, status = _function_name(row), _response_status(row)
            consistent = selected is None or any(_could_be_same(name, other) for other in selected)
            if status is not None and not 200 <= status < 300:
                continue
            if status is None or None in name or not consistent:
                uncertain.append(name)
            else:
                certain[name] += 1
        shortfall = Counter(call.name for call in self.options.calls) - certain
        missing = _dotted_names(shortfall.elements())
        if not shortfall:
            return measured_score(1.0, 1.0, "every expected call was executed with success", missing=missing)
        if all(sum(_could_be_same(name, other) for other in uncertain) >= count for name, count in shortfall.items()):
            reason = "executions without a clear name or status, or of functions that were not selected, could be"
            raise _indeterminate(f"{reason} the missing ones: {quoted_list(missing)}")
        return measured_score(0.0, 1.0, f"not executed with success: {quoted_list(missing)}", missing=missing)


def _response_status(row: Mapping[str, Any]) -> int | None:
    status = row.get("response_status")
    return status if type(status) is int else None


class ToolCalledOptions(Options):
    """Options of ToolCalled."""

    tool_name: Text = Field(
        validation_alias=AliasChoices("tool_name", "toolName", "tool"),
        description="The tool's name, in this very case.",
    )


ArgumentMatch = Literal["partial", "exact"]
MATCH: Any = Field(
    "partial",
    description="partial: the call may have more arguments, and so may each object within; exact: these and no others.",
)
IGNORE: Any = Field(default_factory=list, description="Arguments that are not compared, whatever they are.")


class ToolCalledWithOptions(ToolCalledOptions):
    """Options of ToolCalledWith."""

    arg_key_name: Text | None = Field(
        None, validation_alias="argKeyName", description="The name of an argument the call must have."
    )
    arguments: dict[str, Any] | None = Field(None, description="Arguments the call must have.")
    match: ArgumentMatch = MATCH
    ignore: list[Text] = IGNORE
    ignore_case: bool = Field(
        False, validation_alias="ignoreCase", description="Compare argument names without regard to case."
    )

    @model_validator(mode="after")
    def _asks_something(self) -> ToolCalledWithOptions:
        if self.arg_key_name is None and self.arguments is None:
            raise ValueError("give argKeyName, arguments or both; use ToolCalled to ask for the call alone")
        if self.arguments is None and (self.match == "exact" or self.ignore):
            raise ValueError("match and ignore are of arguments, which are not given")
        return self


class ToolCalled(Evaluator):
    """Passes when the answer calls the tool.

    Names are compared to the letter; how often and after which other calls does not matter.
    """

    name = "ToolCalled"
    aliases = ("TOOL_CALLED",)
    family = "tools"
    needs = ("response", "tool_calls")
    Options = ToolCalledOptions
    example: ClassVar = {"options": {"toolName": "search"}, "response": "", "tool_calls": (ToolCall("search", {}),)}

    def score(self, evidence: Evidence) -> Score:
        """Look for the call."""
        called = [call.name for call in evidence.tool_calls or ()]
        tool = self.options.tool_name
        return verdict_score(tool in called, _called_reason(tool, called), called=called)


def _called_reason(tool: str, called: Sequence[str]) -> str:
    others = quoted_list(list(dict.fromkeys(called))) or "no tool at all"
    return f"{tool} was called" if tool in called else f"{tool} was not called; called was {others}"


class ToolCalledWith(Evaluator):
    """Passes when the answer calls the tool with an argument of the given name, or with the given arguments.

    One call must have them all. Arguments that cannot be read fail, and `negate` does not turn that.
    """

    name = "ToolCalledWith"
    aliases = ("TOOL_CALLED_WITH",)
    family = "tools"
    needs = ("response", "tool_calls")
    Options = ToolCalledWithOptions
    example: ClassVar = {
        "options": {"toolName": "search", "argKeyName": "query"},
        "response": "",
        "tool_calls": (ToolCall("search", {"query": "weather"}),),
    }

    def score(self, evidence: Evidence) -> Score:
        """Look for a call with the arguments."""
        options = self.options
        calls = [call for call in evidence.tool_calls or () if call.name == options.tool_name]
        if not calls:
            return verdict_score(
                False, _called_reason(options.tool_name, [call.name for call in evidence.tool_calls or ()])
            )
        arguments_of_calls = [{} if call.arguments is None else call.arguments for call in calls]
        readable = [arguments for arguments in arguments_of_calls if isinstance(arguments, Mapping)]
        if any(self._fits(arguments) for arguments in readable):
            return verdict_score(True, f"{options.tool_name} was called with what was asked for")
        if len(readable) < len(arguments_of_calls):
            raise NoValueToJudge(f"the arguments of a call to {options.tool_name} are not a JSON object")
        names = quoted_list(sorted({name for arguments in readable for name in arguments})) or "none"
        return verdict_score(False, f"no call to {options.tool_name} has what was asked for; its arguments are {names}")

    def _fits(self, arguments: Mapping[str, object]) -> bool:
        expected, ignore = dict(self.options.arguments or {}), self.options.ignore
        name = self.options.arg_key_name
        if self.options.ignore_case:
            arguments = {key.casefold(): value for key, value in arguments.items()}
            expected = {key.casefold(): value for key, value in expected.items()}
            name, ignore = name and name.casefold(), [one.casefold() for one in ignore]
        is_there = name is None or name in arguments
        return is_there and arguments_fit(expected, arguments, self.options.match, ignore)


class ValidToolCallsOptions(Options):
    """Options of ValidToolCalls."""

    tools: list[dict[str, Any]] | None = Field(
        None, description="The tools with their schemas, as a chat request names them, instead of those of the item."
    )
    at_least: int = Field(1, ge=0, validation_alias="atLeast", description="The fewest calls the answer must make.")

    @field_validator("tools")
    @classmethod
    def _usable(cls, tools: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        for number, tool in enumerate(tools or (), 1):
            name, schema = _offered(tool)
            if name is None:
                form = '{"type": "function", "function": {"name": "search", "parameters": {}}}'
                raise ValueError(f"tool {number} has no name; write it as {form}")
            if schema is not None:
                from tui_evals.evaluators.structured import (
                    check_schema,  # its library takes a twentieth of a run's start
                )

                check_schema(schema)
        return tools


def _offered(tool: Mapping[str, Any]) -> tuple[str | None, dict[str, Any] | None]:
    """The name of a tool and the schema of its arguments, as the chat protocol nests them or next to its type."""
    function = tool.get("function")
    body = function if isinstance(function, Mapping) else tool
    name, schema = body.get("name"), body.get("parameters", body.get("input_schema"))
    return (name if isinstance(name, str) else None), (schema if isinstance(schema, dict) else None)


class ValidToolCalls(Evaluator):
    """Passes when every tool call of the answer names an offered tool and its arguments fit that tool's schema.

    The tools are those of the item, or those of the option `tools`. Arguments must be a JSON object; a call without any
    counts as one with an empty object. An answer that calls fewer tools than `at_least` fails. The details list the
    first violations of each call.
    """

    name = "ValidToolCalls"
    family = "tools"
    needs = ("response", "tool_calls")
    Options = ValidToolCallsOptions
    example: ClassVar = {
        "options": {
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "search",
                        "parameters": {
                            "type": "object",
                            "properties": {"query": {"type": "string"}},
                            "required": ["query"],
                        },
                    },
                }
            ]
        },
        "response": "",
        "tool_calls": (ToolCall("search", {"query": "weather"}),),
    }

    def score(self, evidence: Evidence) -> Score:
        """Check each call."""
        offered = dict(map(_offered, evidence.tools if self.options.tools is None else self.options.tools))
        calls = evidence.tool_calls or ()
        if len(calls) > MAX_CALLS:
            raise CannotJudge("responseTooLarge", f"{len(calls):,} tool calls are too many to check ({MAX_CALLS:,})")
        if calls and not offered:
            raise Misconfigured("no tools are known: give the item its tools, or the option tools")
        faults = {number: fault for number, call in enumerate(calls, 1) if (fault := self._fault(call, offered))}
        details: dict[str, Any] = {"calls": [call.name for call in calls], "faults": [*faults.values()]}
        if faults:
            number, fault = next(iter(faults.items()))
            return verdict_score(False, f"call {number} of {len(calls)}: {fault}", **details)
        counted = f"{len(calls)} valid tool {'call' if len(calls) == 1 else 'calls'}"
        if len(calls) < self.options.at_least:
            return verdict_score(False, f"{counted}, and at least {self.options.at_least} wanted", **details)
        return verdict_score(True, counted, **details)

    def _fault(self, call: ToolCall, offered: Mapping[str | None, dict[str, Any] | None]) -> str | None:
        """The error of a call, or None."""
        if call.name not in offered:
            known = quoted_list([name for name in offered if name is not None])
            return f"{quoted(call.name)} is no tool that was offered; those are {known}"
        arguments = {} if call.arguments in (None, "") else call.arguments
        if not isinstance(arguments, Mapping):
            return f"the arguments of {quoted(call.name)} are not a JSON object"
        schema = offered[call.name]
        if schema is None:
            return None
        from tui_evals.evaluators.structured import SchemaValidator, check_schema

        try:
            check_schema(schema)
        except ValueError as problem:
            raise Misconfigured(f"the schema of the tool {quoted(call.name)} cannot be used: {problem}") from None
        violations = SchemaValidator(schema).violations([arguments])
        if violations:
            return f"{call.name} at {violations[0]['path']}: {violations[0]['message']}"
        return None


def arguments_fit(expected: Mapping[str, Any], given: object, match: ArgumentMatch, ignore: Collection[str]) -> bool:
    """Whether the arguments of a call are the expected ones, but for those that are ignored."""
    wanted = {name: value for name, value in expected.items() if name not in ignore}
    compared = (
        {name: value for name, value in given.items() if name not in ignore} if isinstance(given, Mapping) else given
    )
    return contains_json(wanted, compared) and (match == "partial" or contains_json(compared, wanted))


def contains_json(expected: object, actual: object) -> bool:
    """Whether a JSON value holds everything of another; lists agree place by place, and true is not 1."""
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(
            key in actual and contains_json(value, actual[key]) for key, value in expected.items()
        )
    if isinstance(expected, list | tuple):
        if not isinstance(actual, list | tuple) or len(actual) != len(expected):
            return False
        return all(map(contains_json, expected, actual))
    return expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
