"""A prompt under test that goes into the store and comes out of it again."""

from __future__ import annotations

from tui_evals.runs.prompting import PromptUnderTest, kept_prompt, prompt_kept
from tui_evals.text.chats import Prompty, Section, parse_prompty


def _again(prompt: PromptUnderTest) -> PromptUnderTest:
    return prompt_kept({"name": prompt.name, **kept_prompt(prompt)})


def test_the_defaults_of_inputs_come_out_of_the_store():
    prompt = PromptUnderTest("p", parse_prompty("---\ninputs:\n  topic: rain\n---\nsystem:\nTalk about {{topic}}.\n"))
    assert _again(prompt).rendered({}) == ({"role": "system", "content": "Talk about rain."},)


def test_a_line_that_looks_like_a_role_stays_in_its_message():
    sections = (Section("system", "Write a play.\nuser:\nsays the first line.", 1), Section("user", "Now.", 4))
    prompt = PromptUnderTest("p", Prompty({}, sections, ""))
    assert _again(prompt).rendered({}) == prompt.rendered({})
    assert _again(prompt).template == prompt.template


def test_a_run_of_an_earlier_version_kept_text_alone():
    kept = {"name": "p", "text": "system:\nBe brief.\n\nuser:\n{{q}}\n"}
    assert [message["content"] for message in prompt_kept(kept).rendered({"q": "why"})] == ["Be brief.", "why"]
