"""Why a model ended its answer, in one word whichever provider says it."""

from __future__ import annotations

from collections.abc import Mapping

ENDINGS: Mapping[str, str] = {
    "length": "cut off at the limit of tokens",
    "content_filter": "blocked by the provider's content filter",
    "refusal": "refused by the model",
    "max_steps": "stopped at the most steps it may take",
    "max_turns": "ended at the most turns it may take",
    "given_up": "given up by its simulated user",
}
"""How an answer can end that is none as it was asked for, and what that means."""
BLOCKED = "blocked"
"""The diagnostic that holds what a provider said whose filter refused the question instead of answering it."""
_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("end", "eos", "end_turn", "stop_sequence", "complete", "completed"), "stop"),
    **dict.fromkeys(("function_call", "tool_use"), "tool_calls"),
    **dict.fromkeys(("max_tokens", "max_output_tokens", "model_length"), "length"),
    **dict.fromkeys(("model_context_window_exceeded", "context_length_exceeded"), "length"),
    **dict.fromkeys(("safety", "image_safety", "recitation", "prohibited_content", "blocklist"), "content_filter"),
    **dict.fromkeys(("spii", "error_toxic", "content_filtered", "guardrail_intervened"), "content_filter"),
}
"""What providers call the words of ours, in small letters."""
_LONGEST = 40


def ending_word(reason: str | None, diagnostics: Mapping[str, object] | None = None) -> str:
    """How an answer ended: `stop`, `tool_calls`, a word of ENDINGS, else the provider's own; empty where it says none.

    A refusal in the diagnostics is one under any finish reason.
    """
    if diagnostics and diagnostics.get("refusal"):
        return "refusal"
    word = (reason or "").lower()
    return _NAMES.get(word, word)[:_LONGEST]
