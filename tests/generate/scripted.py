"""Generations in this process, whose models say what a script says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui_evals.generate.asking import Prompts
from tui_evals.generate.folder import GenerationFolder
from tui_evals.generate.work import Generation, Models, Options, read_subject
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.judges import opened
from tui_evals.runs.limits import Budget
from tui_evals.store.records import AnswerRecord
from tui_evals.targets.base import TargetConfig

Reply = Callable[[str, str, int], str]
"""What is said to a question: by the model's name, all of its text, and the attempt."""


@dataclass
class Script:
    """Takes the place of ModelAsker: every question is noted, and answered by a function."""

    reply: Reply
    questions: list[tuple[str, str]] = field(default_factory=list)

    async def ask(
        self,
        model: PricedTarget,
        messages: Sequence[Mapping[str, Any]],
        step: str,
        *,
        attempt: int = 0,
        params: Mapping[str, Any] | None = None,
        worth: Callable[[str], bool] = bool,
    ) -> AnswerRecord:
        text = "\n\n".join(str(message["content"]) for message in messages)
        self.questions.append((step, text))
        return AnswerRecord(text=self.reply(model.config.name, text, attempt), request={})

    def halt(self) -> None:
        raise AssertionError("nobody stops a script")


def model(name: str) -> PricedTarget:
    return opened(TargetConfig(name=name, model="demo"), "judge", Budget(None), {}, Path())


def work_on(
    folder: Path,
    prompt: str,
    reply: Reply = lambda name, text, attempt: "",
    *,
    name: str = "speech-tag.prompty",
    judges: Sequence[str] = (),
    beside: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    **options: Any,
) -> Generation:
    """A generation for a prompt, with files beside the prompt and files that earlier steps wrote."""
    file = folder / name
    file.write_text(prompt)
    for other, text in (beside or {}).items():
        (folder / other).write_text(text)
    given = Options(**options)
    subject = read_subject(file, given)
    place = GenerationFolder(folder / subject.name)
    for other, text in (files or {}).items():
        place.write(other, text)
    writer = model("writer")
    jury = tuple(model(judge) for judge in judges)
    return Generation(
        subject=subject,
        options=given,
        folder=place,
        prompts=Prompts(folder),
        models=Models(rules=writer, baseline=writer, groundtruth=writer, judges=jury, groundtruth_judges=jury),
        asker=Script(reply),  # type: ignore[arg-type]
    )


def notes_of(work: Generation) -> tuple[Generation, list[str]]:
    """The same generation, with a list that takes what it tells."""
    from dataclasses import replace

    told: list[str] = []
    return replace(work, tell=told.append), told
