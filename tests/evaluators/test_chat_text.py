from typing import Any

from tests.evaluators.helpers import golden
from tests.evaluators.tables import each_row
from tui_evals.text.chats import chat_to_text, is_chat


@each_row("row", golden("openai_evals.json", "chat_prompt_to_text_prompt"))
def test_golden_chats(row: dict[str, Any]) -> None:
    assert chat_to_text(row["args"]["prompt"], cue=row["args"]["for_completion"]) == row["expected"]


@each_row("row", golden("openai_evals.json", "CompletionPrompt.to_formatted_prompt"))
def test_golden_completion_prompts(row: dict[str, Any]) -> None:
    assert chat_to_text(row["args"]["raw_prompt"], cue=True) == row["expected"]


@each_row(
    ("message", "line"),
    [
        ({"role": "system", "content": "S"}, "S\n"),
        ({"role": "system", "name": "example_user", "content": "Q"}, "User: Q\n"),
        ({"role": "system", "name": "example_assistant", "content": "A"}, "Assistant: A\n"),
        ({"role": "user", "content": "two\nlines"}, "User: two\nlines\n"),
        ({"role": "user", "content": [{"type": "text", "text": "t"}]}, "User: t\n"),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}, 'Assistant: [{"id":"1"}]\n'),
        ({"role": "assistant", "content": "\ud800"}, "Assistant: \ud800\n"),
        ({"content": "nobody"}, "User: nobody\n"),
    ],
)
def test_a_message_among_others(message: dict[str, Any], line: str) -> None:
    assert chat_to_text([message, {"role": "user", "content": "end"}]) == line + "User: end\n"


@each_row(
    ("value", "expected"),
    [([{"role": "user", "content": "x"}], True), ([], False), ("text", False), ([{"a": 1}], False), (None, False)],
)
def test_what_a_chat_is(value: object, expected: bool) -> None:
    assert is_chat(value) is expected
