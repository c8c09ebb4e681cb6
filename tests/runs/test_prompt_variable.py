"""`{{ prompt }}` in a prompt under test: the text of the item is in it, and is asked once."""

from pathlib import Path

import pytest

from tui_evals.datasets.model import Dataset
from tui_evals.datasets.validate import document_of_data
from tui_evals.runs.prompting import chat_for, of_dataset, prompts_from, unfilled_items
from tui_evals.store.details import read_details
from tui_evals.store.reader import Reader


def chat(item, text="Answer briefly.\n\n{{ prompt }}", **dataset):
    data = Dataset.model_validate(
        {"schemaVersion": "1.11.0", "messages": [{"role": "user", "content": text}], **dataset, "items": [item]}
    )
    answers = [{"role": "assistant", "content": "yes"}]
    place = len(data.items[0].units) - 1
    return [
        (message["role"], message["content"])
        for message in chat_for(data, data.items[0], place, of_dataset(data), answers)
    ]


def test_a_prompt_that_names_the_question_asks_it_once():
    assert chat({"prompt": "Who {{ x }}?"}) == [("user", "Answer briefly.\n\nWho {{ x }}?")]


def test_a_prompt_that_does_not_is_followed_by_the_question():
    assert chat({"prompt": "Who?"}, "Answer briefly.") == [("user", "Answer briefly."), ("user", "Who?")]


def test_a_variable_of_that_name_goes_before():
    assert chat({"prompt": "Who?", "variables": {"prompt": "mine"}}, "{{ prompt }}") == [
        ("user", "mine"),
        ("user", "Who?"),
    ]


def test_of_a_conversation_the_first_question_is_filled_in():
    item = {"turns": [{"prompt": "One?"}, {"prompt": "Two?"}]}
    assert chat(item, "Q: {{ prompt }}") == [("user", "Q: One?"), ("assistant", "yes"), ("user", "Two?")]


def test_the_history_goes_before_the_question():
    item = {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
        "prompt": "Who?",
    }
    assert chat(item, "Q: {{ prompt }}") == [("user", "Hi"), ("assistant", "Hello"), ("user", "Q: Who?")]


def test_an_item_without_a_question_lacks_it(tmp_path):
    file = tmp_path / "p.txt"
    file.write_text("Q: {{ prompt }}")
    document = document_of_data({"schemaVersion": "1.11.0", "items": [{"prompt": "Who?"}, {"variables": {"a": "b"}}]})
    (problem,) = unfilled_items(document, Dataset.model_validate(document.data), prompts_from([file]))
    assert problem.path == ("items", 1) and "no value for {{ prompt }}" in problem.message


@pytest.mark.parametrize("ending", ["txt", "prompty"])
def test_a_run_sends_the_question_inside_the_prompt(shell, dataset, answers, ending):
    text = "Reply in one word: {{prompt}}"
    Path(f"brief.{ending}").write_text(text if ending == "txt" else f"---\nname: brief\n---\nuser:\n{text}")
    name = dataset([{"prompt": "ask 0", "expected_response": "right"}], {"ExactMatch": {}})
    done = shell("run", name, "-t", "demo", "--prompt", f"brief.{ending}", "--quiet")
    assert done.code == 0, done.err
    with Reader(Path(".evals", "evals.db")) as reader:
        (row,) = reader.all_rows(reader.find_run("last").id)
        (told,) = read_details(reader, reader.find_run("last"), [row], requests=True)
    assert [message["content"] for message in told.answer.request["messages"]] == ["Reply in one word: ask 0"]
