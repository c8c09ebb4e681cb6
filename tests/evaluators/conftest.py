"""What tests of evaluators share."""

from __future__ import annotations

from pathlib import Path

import pytest

_HEAD = (
    "from langchain.prompts.chat import *\n\nfirst = SystemMessagePromptTemplate.from_template('Grade, says Arthur.')\n"
)
_SHOT = (
    "shot = HumanMessagePromptTemplate.from_template('Example')\nreply = AIMessagePromptTemplate.from_template('1')\n"
)
_LAST = "last = HumanMessagePromptTemplate.from_template({!r})\nASK = ChatPromptTemplate.from_messages([{}])\n"
_PROMPTS = {
    "qa_correctness": "QUESTION: {question}\nCONTEXT: {context}\nANSWER: {answer}\nDECISION:",
    "summary_quality": "Text: {text}\nResponse 0: {summary_A}\nResponse 1: {summary_B}\nChoice:",
}


@pytest.fixture
def arthur_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with prompts where arthur-bench has them and as it writes them; they are reworded."""
    folder = tmp_path / "site" / "arthur_bench" / "scoring" / "prompts"
    folder.mkdir(parents=True)
    (tmp_path / "site" / "arthur_bench" / "__init__.py").write_text("raise ImportError('nothing of it is imported')\n")
    for name, last in _PROMPTS.items():
        text = _HEAD + _SHOT + _LAST.format(last, "first, shot, reply, last")
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")
    from tui_evals.evaluators.grading import original_prompt

    original_prompt.cache_clear()
    return folder
