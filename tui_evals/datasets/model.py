"""The eval document as types: Dataset, Item and Turn. There is no I/O, and no rule that needs more than one field.

`python -m tui_evals.datasets.model` writes its JSON Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from tui_evals.datasets.paths import MAX_TURNS, Role, pretty_json
from tui_evals.text.patterns import PatternError, compile_pattern
from tui_evals.text.strictjson import expectation_text

Mode = Literal["extend", "replace"]
Text = Annotated[str, Field(min_length=1)]
ToolId = Annotated[str, Field(pattern=r"\S")]
EvaluatorKey = Annotated[str, Field(pattern=r"^[a-zA-Z][a-zA-Z0-9_]*$")]
Evaluators = dict[EvaluatorKey, dict[str, Any]]
Matrix = dict[str, Annotated[list[Any], Field(min_length=1)]]
Share = Annotated[float, Field(ge=0, le=1)]


def _check_response_format(value: object) -> object:
    if value in ("text", "json") or isinstance(value, dict):
        return value
    raise ValueError("must be 'text', 'json' or a JSON Schema object")


ResponseFormat = Annotated[
    Any,
    BeforeValidator(_check_response_format),
    WithJsonSchema({"anyOf": [{"enum": ["text", "json"]}, {"type": "object"}]}),
]


def _check_content(value: object) -> object:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return value
    raise ValueError("must be text or a list of content blocks")


Content = Annotated[
    Any,
    BeforeValidator(_check_content),
    WithJsonSchema({"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "object"}}]}),
]


def _check_score_record(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError("must be an object")
    if value.get("result") != "error":
        return value
    if extra := set(value) - {"result", "error", "code"}:
        raise ValueError(f"an errored score holds result, error and code only, not {', '.join(sorted(extra))}")
    if not isinstance(value.get("error"), str) or not value["error"]:
        raise ValueError("an errored score needs an error text")
    return value


ScoreRecord = Annotated[
    dict[str, Any],
    BeforeValidator(_check_score_record),
    WithJsonSchema(
        {
            "type": "object",
            "if": {"properties": {"result": {"const": "error"}}, "required": ["result"]},
            "then": {
                "required": ["error"],
                "properties": {"result": {}, "error": {"type": "string", "minLength": 1}, "code": {"type": "string"}},
                "additionalProperties": False,
            },
        }
    ),
]


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)


class Message(_StrictModel):
    """One chat message; additional fields of a provider are kept."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    role: Role
    content: Content = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class ToolResult(_StrictModel):
    """A prepared result for matching calls of a tool, so that an agent can be tested without its tools."""

    tool: Text = Field(description="The tool's name.")
    arguments: dict[str, Any] | None = Field(
        default=None, description="Arguments the call must have; it may have more, and so may each object within."
    )
    patterns: dict[str, str] | None = Field(
        default=None, description="Regular expressions by the name of an argument, in whose text each must be found."
    )
    result: Any = Field(default=None, description="What the tool gives: text as it is, anything else as JSON.")
    error: Text | None = Field(default=None, description="What the tool fails with, instead of a result.")
    delay: Annotated[float, Field(ge=0, le=3600)] | None = Field(
        default=None, description="Seconds until the tool answers."
    )
    times: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="How many calls of a turn it answers; then the next one that fits does. Any number if absent.",
    )

    @field_validator("patterns")
    @classmethod
    def _check_patterns(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        for name, pattern in (value or {}).items():
            try:
                compile_pattern(pattern)
            except PatternError as problem:
                raise ValueError(f"the pattern of {name} cannot be used: {problem}") from None
        return value

    @model_validator(mode="after")
    def _check_outcome(self) -> ToolResult:
        if (self.result is None) == (self.error is None):
            raise ValueError("give result or error, one of them")
        return self


McpServer = Annotated[str, Field(pattern=r"^(stdio:\s*\S|https?://\S)")]
MaxSteps = Annotated[int, Field(ge=1, le=1000)]


class SimulatedUser(_StrictModel):
    """A user that a model plays in place of fixed turns, until a goal is reached."""

    goal: Text = Field(description="What the user wants from the conversation. The target does not see it.")
    persona: Text | None = Field(default=None, description="Who the user is, knows and how the user speaks.")
    opening: Text | None = Field(
        default=None, description="The user's first message. Without it, the simulated user writes one."
    )
    max_turns: Annotated[int, Field(ge=1, le=100)] = Field(
        default=8, description="How often the user speaks at most; 8 if absent."
    )
    target: Text | None = Field(default=None, description="The target that plays the user; else the run's judge.")


def _check_attachment(value: object) -> object:
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, dict) or not isinstance(value.get("path"), str) or not value["path"]:
        raise ValueError("must be the path of a file, or an object with its path")
    if extra := set(value) - {"path", "media_type", "size", "sha256"}:
        raise ValueError(f"unknown field '{min(extra)}'; a file has path, media_type, size and sha256")
    return value


_ABOUT_FILE = {"path": {"type": "string", "minLength": 1}, "media_type": {"type": "string"}}
Attachment = Annotated[
    Any,
    BeforeValidator(_check_attachment),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {
                    "type": "object",
                    "properties": {**_ABOUT_FILE, "size": {"type": "integer"}, "sha256": {"type": "string"}},
                    "required": ["path"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class ErrorObject(_StrictModel):
    """Why an answer, or its judging, is missing."""

    code: Text
    message: str


class Summary(_StrictModel):
    """How the turns of a conversation came out."""

    turns_total: Annotated[int, Field(ge=1)]
    turns_passed: Annotated[int, Field(ge=0)]
    turns_failed: Annotated[int, Field(ge=0)]
    turns_partial: Annotated[int, Field(ge=0)] = 0
    turns_errored: Annotated[int, Field(ge=0)] = 0
    overall_status: Literal["pass", "fail", "partial", "error"]


_GIVEN: dict[frozenset[str], set[str]] = {}
"""Sets of fields that are given; most items of a dataset share one. No instance is changed, so none of them is."""


def _some_text(value: object) -> object:
    if value is None:
        raise ValueError("must be text or JSON data, not null")
    return expectation_text(value)


_JSON = WithJsonSchema({"type": ["string", "number", "boolean", "array", "object"]})
Expectation = Annotated[JsonValue, BeforeValidator(expectation_text), _JSON]
"""Text, or any other JSON value, which becomes its text."""


class _Unit(_StrictModel):
    """The fields that a turn and a single-turn item share; the second block is written by runs."""

    expected_response: Expectation = Field(
        default=None, description="The reference the answer is compared with: text, or a JSON value."
    )
    context: str | None = Field(default=None, description="Grounding text for judges; never sent to the target.")
    evaluators: Evaluators | None = Field(default=None, description="Evaluators of this unit, by name or label.")
    evaluators_mode: Mode | None = Field(
        default=None, description="Whether they extend (default) or replace the defaults."
    )
    allowed_tools: list[ToolId] | None = Field(default=None, description="Tools the target may use here.")
    allowed_tools_mode: Mode | None = Field(default=None, description="Whether they extend or replace the defaults.")
    tags: list[str] | None = Field(default=None, description="Echoed to the results.")
    extensions: dict[str, Any] | None = Field(default=None, description="Anything else; echoed to the results.")
    ideal: list[Annotated[JsonValue, BeforeValidator(_some_text), _JSON]] | None = Field(
        default=None, description="Acceptable references; the first is the expected response."
    )
    messages: list[Message] | None = Field(default=None, description="Chat history placed before the prompt.")
    attachments: list[Attachment] | None = Field(
        default=None, description="Files that go along with the prompt: paths from the dataset's folder."
    )

    response: str | None = Field(default=None, description="What the target said.")
    citations: list[Any] | None = None
    scores: dict[str, ScoreRecord] | None = None
    diagnostics: dict[str, Any] | None = None
    status: Literal["pass", "fail", "partial", "error"] | None = None
    error: ErrorObject | None = None

    def model_post_init(self, context: object) -> None:
        """Keep only the fields that are given: with the absent ones a large dataset takes several times its text."""
        given = frozenset(self.__pydantic_fields_set__)
        object.__setattr__(self, "__dict__", {name: value for name, value in self.__dict__.items() if name in given})
        object.__setattr__(self, "__pydantic_fields_set__", _GIVEN.setdefault(given, set(given)))

    @property
    def reference(self) -> str | None:
        """The expected response, which is the first ideal where none is given."""
        references = (self.expected_response, *(self.ideal or ()))
        return next((text for text in references if isinstance(text, str)), None)

    @property
    def references(self) -> list[str]:
        """All acceptable references."""
        return [text for text in self.ideal or () if isinstance(text, str)]


class Turn(_Unit):
    """One exchange of an item."""

    prompt: Text = Field(description="What the target is asked.")


Question = Text | Annotated[list[Message], Field(min_length=1)]


class Item(_Unit):
    """A test: a single prompt, or a conversation of turns."""

    prompt: Text | None = Field(default=None, description="What the target is asked; not together with turns.")
    turns: Annotated[list[Turn], Field(min_length=1, max_length=MAX_TURNS)] | None = Field(
        default=None, description="The turns of a conversation, in order; not together with prompt."
    )
    user: SimulatedUser | None = Field(
        default=None, description="A simulated user, played by a model, instead of prompt and turns."
    )
    name: str | None = Field(default=None, description="Display name.")
    description: str | None = None
    testId: str | None = Field(default=None, description="Stable identifier, for comparing runs across versions.")
    category: str | None = Field(default=None, description="Groups items in views and totals.")
    notes: str | None = Field(default=None, description="Free text, such as a linked bug.")
    variables: dict[str, Any] | None = Field(
        default=None, description="Values for the template of the prompt under test."
    )
    matrix: Matrix | None = Field(
        default=None, description="Variables with several values each: one item per combination."
    )
    tools: list[dict[str, Any]] | None = Field(default=None, description="Tool definitions sent to the model.")
    tool_results: list[ToolResult] | None = Field(
        default=None, description="What its tools give, written beforehand; these are looked at before the dataset's."
    )
    max_steps: MaxSteps | None = Field(
        default=None, description="How often the model is asked in a turn with tools; 10 if absent."
    )
    response_format: ResponseFormat | None = Field(
        default=None, description="text, json, or a JSON Schema of the answer."
    )
    weight: Share | None = Field(default=None, description="Share of the item in the run's score; 1 when absent.")
    threshold: Share | None = Field(default=None, description="Share of evaluators that must pass; 1 when absent.")
    repeats: Annotated[int, Field(ge=1)] | None = Field(default=None, description="How often the item is asked.")
    other_questions: Annotated[list[Question], Field(min_length=1)] | None = Field(
        default=None,
        description="Further questions, text or messages, each asked in a conversation of its own; "
        "the answers are judged together.",
    )
    conversation_id: str | None = None
    summary: Summary | None = None

    @property
    def units(self) -> tuple[Item | Turn, ...]:
        """The exchanges to ask and judge in order: the turns, or the item itself."""
        return (self,) if self.turns is None else tuple(self.turns)

    def asking(self, repeat: int) -> Item:
        """The item as one of its conversations asks it: another question replaces the first."""
        if not self.other_questions or not 0 < repeat <= len(self.other_questions):
            return self
        other = self.other_questions[repeat - 1]
        asked = {"prompt": other} if isinstance(other, str) else {"messages": other}
        kept = {name: value for name, value in self.__dict__.items() if name not in ("prompt", "messages")}
        return Item.model_construct(**kept, **asked)


for _model in (Item, Turn):
    for _name, _field in _model.model_fields.items():
        if not _field.is_required():
            type.__setattr__(_model, _name, _field.default)  # the value of an instance without the field


TURN_ONLY_FIELDS = frozenset(Turn.model_fields) - {"tags", "extensions", "messages"}
"""Fields that, in a conversation, are on its turns and not on the item."""


class Metadata(_StrictModel):
    """Where a document comes from; open."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    name: str | None = None
    description: str | None = None
    tags: list[str] | None = None
    extensions: dict[str, Any] | None = None


class Dataset(_StrictModel):
    """A file of items with settings for all of them; other fields are allowed."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, title="tui_evals dataset")

    schemaVersion: Annotated[str, Field(pattern=r"^1\.\d+\.\d+$")] | None = Field(
        default=None, description="Version of the eval document format."
    )
    metadata: Metadata | None = None
    description: str | None = None
    default_evaluators: Evaluators | None = Field(
        default=None, description="Evaluators of every unit; absent means Relevance and Coherence, empty means none."
    )
    default_allowed_tools: list[ToolId] | None = None
    variables: dict[str, Any] | None = Field(
        default=None, description="Values for the template, where an item has none."
    )
    matrix: Matrix | None = Field(
        default=None, description="The matrix of every item, where the item gives no value itself."
    )
    messages: list[Message] | None = Field(default=None, description="The prompt under test as chat messages.")
    prompt_file: Text | None = Field(
        default=None, description="The prompt under test as a .prompty file next to this one."
    )
    tools: list[dict[str, Any]] | None = None
    tool_results: list[ToolResult] | None = Field(default=None, description="What tools give, written beforehand.")
    tool_functions: Text | None = Field(
        default=None, description="A Python file of the project whose public functions are tools."
    )
    mcp: McpServer | list[McpServer] | None = Field(
        default=None, description="MCP servers that give tools: stdio: and a command, or a URL."
    )
    max_steps: MaxSteps | None = None
    response_format: ResponseFormat | None = None
    repeats: Annotated[int, Field(ge=1)] | None = None
    extensions: dict[str, Any] | None = Field(default=None, description="Anything else about the dataset.")
    items: Annotated[list[Item], Field(min_length=1)]

    @property
    def has_prompt(self) -> bool:
        """Whether the dataset itself has a prompt, so that items may hold variables only."""
        return self.messages is not None or self.prompt_file is not None


PORTABLE_TURNS = 20
"""Turns of a conversation that the published schema takes."""
SUPERSET: Mapping[type[BaseModel], frozenset[str]] = {
    Item: frozenset(
        {"testId", "category", "notes", "variables", "matrix", "messages", "ideal", "tools", "response_format"}
        | {"attachments", "tool_results", "max_steps", "user"}
        | {"weight", "threshold", "repeats", "other_questions"}
    ),
    Turn: frozenset({"messages", "attachments", "ideal"}),
}
"""Fields that the published schema refuses; it knows `name` on conversations only, and allows others at the root."""


FILE = Path(__file__).with_name("schema.json")


def json_schema() -> dict[str, Any]:
    """The schema of a dataset; a field that is absent is absent, so null is never a value of it."""
    schema = Dataset.model_json_schema(mode="validation")
    for part in (schema, *schema["$defs"].values()):
        for name, field in part.get("properties", {}).items():
            part["properties"][name] = _without_null(field)
    pairs = (("prompt", "turns"), ("prompt", "user"), ("turns", "user"))
    schema["$defs"][Item.__name__]["not"] = {"anyOf": [{"required": list(pair)} for pair in pairs]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    for branch in (field, *field.get("anyOf", [])):
        if "patternProperties" in branch:
            branch["additionalProperties"] = False
    field = {name: value for name, value in field.items() if not (name == "default" and value is None)}
    branches = [branch for branch in field.get("anyOf", []) if branch != {"type": "null"}]
    if len(branches) == len(field.get("anyOf", [])):
        return field
    rest = {name: value for name, value in field.items() if name != "anyOf"}
    return {**branches[0], **rest} if len(branches) == 1 else {"anyOf": branches, **rest}


if __name__ == "__main__":
    FILE.write_text(pretty_json(json_schema()), encoding="utf-8")
