"""Writes the Inspect logs that the tests read, with Inspect itself and its mock model; run by hand only.

In an environment with `inspect-ai` installed: `python tests/interop/inspect_logs.py`. No model is asked and nothing
is sent. The tests read what it wrote and never import it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from inspect_ai import Epochs, Task, eval, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import NOANSWER, PARTIAL, Score, accuracy, choice, includes, match, mean, scorer
from inspect_ai.solver import generate, multiple_choice, solver, system_message, use_tools
from inspect_ai.tool import tool

LOGS = Path(__file__).parent.parent / "imports" / "recordings"
USAGE = ModelUsage(input_tokens=12, output_tokens=3, total_tokens=15)
LONG = "A long text that Inspect keeps once, among the attachments of its sample. " * 30


@tool
def add():
    async def execute(x: int, y: int):
        """Add two numbers.

        Args:
            x: The first.
            y: The second.
        """
        return str(x + y)

    return execute


@scorer(metrics=[mean()])
def length():
    async def score(state, target):
        return Score(value=len(state.output.completion), explanation="how many characters were said")

    return score


@scorer(metrics=[accuracy()])
def judged():
    async def score(state, target):
        said = state.output.completion
        value = NOANSWER if not said else PARTIAL if "perhaps" in said else "C"
        return Score(value=value, answer=said or None, explanation="read twice", metadata={"grader": "none"})

    return score


@scorer(metrics={"polite": [mean()], "brief": [mean()]})
def manners():
    async def score(state, target):
        return Score(value={"polite": "please" in state.output.completion, "brief": 0.25})

    return score


@scorer(metrics=[mean()])
def undefined():
    async def score(state, target):
        return Score(value=float("nan") if state.epoch == 2 else 1.5)

    return score


@solver
def breaking():
    async def solve(state, generate):
        if state.sample_id == "broken":
            raise RuntimeError("the solver broke on purpose")
        return state

    return solve


def answers(messages, tools, tool_choice, config):
    """What the mock model says, from what it is asked."""
    asked, last = messages[-1].text, messages[-1].role
    if last == "tool":
        output = ModelOutput.from_content("mockllm/model", f"It is {asked}.")
    elif "tool" in asked:
        output = ModelOutput.for_tool_call("mockllm/model", "add", {"x": 2, "y": 3})
    elif "silent" in asked:
        output = ModelOutput.from_content("mockllm/model", "")
    elif "cut" in asked:
        output = ModelOutput.from_content("mockllm/model", "4, and then", stop_reason="max_tokens")
    elif "A)" in asked:
        output = ModelOutput.from_content("mockllm/model", "ANSWER: B")
    else:
        output = ModelOutput.from_content("mockllm/model", "4" if "2+2" in asked else "perhaps Paris, please")
    output.usage = USAGE
    return output


@task
def arithmetic() -> Task:
    samples = [
        Sample(id="sum", input="What is 2+2?", target="4", metadata={"level": 1, "topic": "sums"}),
        Sample(id="capital", input="Which is the capital of France?", target=["Paris", "paris"]),
        Sample(id="tool", input="Use the tool to add 2 and 3.", target="5"),
        Sample(
            id="chat",
            input=[
                ChatMessageSystem(content="You are brief."),
                ChatMessageUser(content="Hello."),
                ChatMessageAssistant(content="Good day."),
                ChatMessageUser(content=f"{LONG}What is 2+2?"),
            ],
            target="4",
        ),
        Sample(id="silent", input="Stay silent.", target="4"),
        Sample(id="cut", input="Be cut short after 4.", target="4"),
        Sample(id="broken", input="Break.", target="never"),
    ]
    return Task(
        dataset=MemoryDataset(samples, name="sums"),
        solver=[breaking(), system_message("Think."), use_tools(add()), generate()],
        scorer=[match(location="any"), includes(), length(), judged(), manners(), undefined()],
        epochs=Epochs(2, "mean"),
        fail_on_error=False,
        tags=["fixture"],
        metadata={"purpose": "tests"},
    )


@task
def choices() -> Task:
    samples = [
        Sample(input="Which is a fruit?", choices=["a stone", "a pear", "a chair"], target="B"),
        Sample(input="Which is a city?", choices=["Rome", "blue"], target="A"),
    ]
    return Task(dataset=MemoryDataset(samples, name="picks"), solver=multiple_choice(), scorer=choice())


def write(task: Task, name: str, folder: Path) -> None:
    """Run a task and keep its log in both formats, without the paths of this machine; the JSON without events."""
    model = get_model("mockllm/model", custom_outputs=answers, memoize=False)
    (ran,) = eval(task, model=model, log_dir=str(folder), log_format="eval", display="none")
    assert ran.status == "success", ran.error
    log = read_eval_log(ran.location)
    log.eval.task_file, log.eval.revision = Path(__file__).name, None
    for sample in log.samples:
        if sample.error is not None:
            sample.error.traceback = sample.error.traceback_ansi = ""
            sample.events = []
    write_eval_log(log, str(LOGS / f"{name}.eval"), format="eval")
    for sample in log.samples:
        sample.events = []
    write_eval_log(log, str(LOGS / f"{name}.json"), format="json")


def main() -> None:
    LOGS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write(arithmetic(), "arithmetic", Path(folder))
        write(choices(), "choices", Path(folder))


if __name__ == "__main__":
    main()
