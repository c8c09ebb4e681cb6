"""Renews the recorded replies of the demo target: `python -m tests.targets.record_demo`, and a test compares them.

It asks the demo target every question of the sample project and of `sample_datasets/`. What is recorded stays as it is,
edited by hand or not; a new question gets the answers that the target gives by rule, to be edited; a question that is
asked no more goes. An entry of "answers" stands under its prompt and its question, each shortened where it is long, and
says what is right and what is wrong. "prompts" holds the intent, input specification and rules of a prompt, "rules" the
inverse of a rule and its tests; both are written by hand.
"""

import json
from pathlib import Path

from tui_evals.datasets.document import load
from tui_evals.datasets.prompts import load_prompt
from tui_evals.datasets.validate import parse_dataset
from tui_evals.runs.prompting import PromptUnderTest, assistant, chat_for, of_dataset
from tui_evals.targets.demo import keys_of, recorded, right_and_wrong, schema_in

ROOT = Path(__file__).parents[2]
REPLIES = ROOT / "tui_evals" / "targets" / "demo_replies.json"
SPEECH_TAG = ROOT / "sample_datasets" / "speech-tag" / "speech-tag.prompty"
SUFFIXES = (".json", ".jsonl", ".csv")


def datasets():
    """Every dataset of the sample project and of the samples, with its prompt."""
    places = (ROOT / "tui_evals" / "datasets" / "demo", ROOT / "sample_datasets", *SPEECH_TAG.parent.glob("**/"))
    for file in (file for place in places for file in sorted(place.iterdir()) if file.suffix in SUFFIXES):
        data = load(file).data
        dataset = parse_dataset(data)[0] if "items" in data else None
        if dataset is not None:
            named = dataset.prompt_file
            own = PromptUnderTest(prompty=load_prompt(file.parent / named)) if named else of_dataset(dataset)
            yield dataset, own


def chats():
    """Every conversation up to a question that is answered in words."""
    for dataset, prompt in datasets():
        for item in dataset.items:
            if schema_in(item.response_format or dataset.response_format) is None:
                said = []
                for turn in range(len(item.units)):
                    chat = chat_for(dataset, item, turn, prompt, said)
                    said.append(assistant(right_and_wrong(chat)["right"], ()))
                    yield chat
    tagging = PromptUnderTest(prompty=load_prompt(SPEECH_TAG))
    for rule in recorded()["rules"].values():
        yield from (tagging.rendered(test) for test in rule["tests"])


def renewed():
    """The text of the file as it should be."""
    answers = {}
    for chat in chats():
        prompt, question = keys_of(chat)
        answers.setdefault(prompt, {})[question] = right_and_wrong(chat)
    return json.dumps({**recorded(), "answers": answers}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    REPLIES.write_text(renewed(), encoding="utf-8")
