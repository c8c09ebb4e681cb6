"""What a person is told about a broken dataset, and the two verdicts on a whole one."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.test_steps import datasets, some_step
from tui_evals.datasets import steps
from tui_evals.datasets import validate as validate_module
from tui_evals.datasets.document import Document, load
from tui_evals.datasets.editing import Editing
from tui_evals.datasets.paths import CannotEdit, DatasetError, problem_with_place
from tui_evals.datasets.portable import PUBLIC
from tui_evals.datasets.prompts import load_prompt
from tui_evals.datasets.validate import Checker, dataset_of, runevals_refusal, validate

BROKEN = Path(__file__).parent / "broken"

SAID = {
    "01-unknown-field-in-turn.json": [
        ":10: items[1].turns[0]: unknown field 'expeceted_response' (did you mean 'expected_response'?)"
    ],
    "02-prompt-and-turns.json": [":4: items[0]: has both prompt and turns"],
    "03-empty-turns.json": [":6: items[0].turns: must hold at least one entry"],
    "04-turn-without-prompt.json": [":6: items[0].turns[0]: prompt is missing"],
    "06-items-not-a-list.json": [":3: items: must be a list, not an object"],
    "07-no-items.json": [":3: items: must hold at least one entry"],
    "08-newer-version.json": [":2: schemaVersion: the document has version 9.0.0, newer than"],
    "09-version-not-semver.json": [":2: schemaVersion: 'one' is not a version such as"],
    "10-unknown-evaluator.json": [
        ":4: default_evaluators.relevance: unknown evaluator 'relevance' (did you mean 'Relevance'?)",
        ":10: items[0].evaluators.PartialMach: unknown evaluator 'PartialMach' (did you mean 'PartialMatch'?)",
    ],
    "11-bad-options.json": [
        ":8: items[0].evaluators.PartialMatch.threshold: must be at most 1, not 3",
        ":10: items[0].evaluators.Relevance: unknown field 'treshold' (did you mean 'threshold'?)",
        ":14: items[0].evaluators.Citations.threshold: must be at least 1, not 0",
        ':17: items[0].evaluators.ExactMatch.case_sensitive: must be true or false, not "yes"',
    ],
    "12-retrieval-incomplete.json": [
        ":7: items[0].evaluators.RetrievalQuery: capability is missing",
        ":10: items[0].evaluators.RetrievalResult: give min_expected_count or expected_items",
        ":14: items[0].evaluators.ToolCallSelection.calls: must hold at least one entry",
    ],
    "13-bad-mode-and-null.json": [
        ":6: items[0].expected_response: is null",
        ":8: items[0].evaluators_mode: must be 'extend' or 'replace', not \"extends\" (did you mean 'extend'?)",
    ],
    "14-errored-score.json": [
        ":7: items[0].scores.relevance: an errored score holds result, error and code only, not score",
        ":12: items[0].scores.coherence: an errored score needs an error text",
    ],
    "15-evaluators-on-conversation.json": [":4: items[0]: 'evaluators' belongs to the turns"],
    "16-trailing-comma.json": [":5: not valid JSON"],
    "17-duplicate-key.json": [":5: the key 'prompt' appears twice"],
    "18-nan.json": [":3: NaN is not a JSON number"],
    "19-huge-integer.json": [":1: a number has too many digits"],
    "21-latin-1.json": [":2: the byte 0xe9 is not UTF-8"],
    "22-utf-16.json": [": is written in UTF-16"],
    "23-empty.json": [": is empty; `tui-evals init`"],
    "24-text.json": [":1: must hold an object with items"],
    "25-unequal-lists.json": [":1: there are 2 prompts but 1 expected_responses"],
    "26-no-input-column.csv": [":1: there is no column 'input' (did you mean 'Input'?)"],
    "27-too-many-cells.csv": [":3: the row has 3 cells but the header has 2"],
    "28-open-quote.csv": [":2: the table cannot be read"],
    "29-bad-line.jsonl": [":3: not valid JSON"],
    "30-ideal-number.jsonl": [":1: ideal must be text or a list of texts"],
    "31-no-input.jsonl": [":1: the sample has no input; its keys are: inptu, ideal"],
    "32-not-gzip.jsonl.gz": [": is named .gz but is not"],
    "33-bad-front-matter.prompty": [":3: unknown field 'input' (did you mean 'inputs'?)"],
    "34-bad-template.prompty": [":5: the system section is not valid"],
}


def sentences(file: Path) -> list[str]:
    try:
        if file.suffix == ".prompty":
            load_prompt(file)
            return []
        problems = validate(load(file), PUBLIC).problems
    except DatasetError as error:
        problems = error.problems
    return [problem_with_place(file.name, problem) for problem in problems]


@pytest.mark.parametrize("file", sorted(BROKEN.iterdir()), ids=lambda file: file.name)
def test_a_broken_file_is_explained_where_it_is_broken(file):
    found = sentences(file)
    for wanted in SAID[file.name]:
        assert any(sentence.startswith(file.name + wanted) for sentence in found), found
    assert not any("not valid under any" in sentence or "Traceback" in sentence for sentence in found)


def test_brackets_nested_200000_deep_are_a_sentence(tmp_path):
    file = tmp_path / "deep.json"
    file.write_text('{"items": ' + "[" * 200_000 + "]" * 200_000 + "}")
    with pytest.raises(DatasetError, match="nested too deeply"):
        load(file)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"prompt": "a", "testId": "x"}, "'testId'"),
        ({"prompt": "a", "name": "x"}, "'name'"),
        ({"prompt": "a", "ideal": ["x"]}, "'ideal'"),
        ({"turns": [{"prompt": "a", "messages": []}]}, "'messages'"),
        ({"prompt": "a", "evaluators": {"Strict": {"type": "ExactMatch"}}}, "labels with a type"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "has no prompt"),
        ({"turns": [{"prompt": "a"}] * 21}, "items[0].turns: runevals takes no conversation of more than 20 turns"),
    ],
)
def test_what_only_we_understand_is_valid_but_not_portable(tmp_path, item, reason):
    file = tmp_path / "d.json"
    file.write_text(json.dumps({"schemaVersion": "1.2.0", "items": [item]}))
    report = validate(load(file), PUBLIC)
    assert report.valid and not report.portable
    assert any(reason in str(problem) for problem in report.portability)


@pytest.mark.parametrize("item", [{"turns": [{"prompt": "a"}], "name": "x"}, {"prompt": "a", "tags": ["t"]}])
def test_what_runevals_takes_is_portable(tmp_path, item):
    file = tmp_path / "d.json"
    file.write_text(json.dumps({"schemaVersion": "1.9.0", "description": "root is open", "items": [item]}))
    assert validate(load(file), PUBLIC).portable


def test_the_projects_own_evaluators_are_known_and_portable(tmp_path):
    file = tmp_path / "d.json"
    file.write_text(
        json.dumps({"schemaVersion": "1.9.0", "items": [{"prompt": "a", "evaluators": {"polite": {"threshold": 2}}}]})
    )
    assert not validate(load(file), PUBLIC).valid
    assert validate(load(file), PUBLIC, ["polite"]).portable


def test_an_item_may_bring_variables_only_for_a_prompt_that_is_named(tmp_path):
    file = tmp_path / "d.json"
    item = {"variables": {"word": "aura"}}
    file.write_text(json.dumps({"schemaVersion": "1.9.0", "items": [item]}))
    report = validate(load(file), PUBLIC)
    assert report.valid and "variables only; run them with --prompt FILE" in str(report.problems[0])
    file.write_text(json.dumps({"schemaVersion": "1.9.0", "prompt_file": "p.prompty", "items": [item]}))
    assert validate(load(file), PUBLIC).valid and not validate(load(file), PUBLIC).problems


def test_two_items_of_one_test_id_are_a_warning(tmp_path):
    file = tmp_path / "d.json"
    items = [{"prompt": "a", "testId": "T"}, {"prompt": "b", "testId": "T"}]
    file.write_text(json.dumps({"schemaVersion": "1.9.0", "items": items}))
    report = validate(load(file), PUBLIC)
    assert report.valid and "also that of items[0]. Runs name this item T#2" in str(report.problems[0])


def test_every_problem_is_said_at_once(tmp_path):
    file = tmp_path / "d.json"
    items = [{"prompt": ""}, {"propmt": "a"}, 3, {"prompt": "a", "weight": 2}]
    file.write_text(json.dumps({"schemaVersion": "1.9.0", "items": items}))
    problems = [str(problem) for problem in validate(load(file), PUBLIC).problems]
    assert "items[0].prompt: must not be empty" in problems
    assert "items[1]: unknown field 'propmt' (did you mean 'prompt'?)" in problems
    assert "items[2]: must be an object, not 3" in problems
    assert "items[3].weight: must be at most 1, not 2" in problems


def test_an_invalid_document_has_no_dataset(tmp_path):
    file = tmp_path / "d.json"
    file.write_text('{"schemaVersion": "1.0.0", "items": [{}]}')
    with pytest.raises(DatasetError, match=r"d\.json:1: items\[0\]: has neither prompt nor turns"):
        dataset_of(load(file), PUBLIC)


def test_refusal_says_why_runevals_would_not_take_an_evaluator():
    assert runevals_refusal("Relevance", {"threshold": 4}) is None
    assert runevals_refusal("Relevance", {"weight": 0.5}) == "unknown field 'weight'"
    assert runevals_refusal("Equals", {}) == "'Equals' is not an evaluator of runevals"
    assert runevals_refusal("polite", {"threshold": 1}, ["polite"]) is None


@given(st.data())
def test_a_checker_that_goes_along_with_edits_says_what_a_fresh_one_says(data):
    edited, checker = data.draw(datasets), Checker()
    for _ in range(data.draw(st.integers(1, 4))):
        step, *arguments = data.draw(some_step(edited))
        with contextlib.suppress(CannotEdit):
            edited = step(edited, *arguments)
        document = Document(Path("d.json"), json.dumps(edited), "", "document", edited)
        assert checker.validate(document, {}, ("Equals",)) == validate(document, {}, ("Equals",))


def test_an_edit_has_only_the_items_checked_again_that_it_changed(monkeypatch):
    checked = []
    parse = validate_module._parsed_item
    monkeypatch.setattr(validate_module, "_parsed_item", lambda item: checked.append(item) or parse(item))
    items = [{"testId": f"t{number}", "prompt": "x"} for number in range(1000)]
    edit = Editing(Document(Path("d.json"), "{}", "", "document", {"schemaVersion": "1.11.0", "items": items}))

    def check():
        del checked[:]
        report = edit.checker.validate(edit.document.with_data(edit.data), {}, ())
        assert report.dataset is not None and len(report.dataset.items) == len(edit.data["items"])
        return len(checked)

    assert check() == 1000
    edit.apply(steps.duplicate_items(edit.data, [500]), "copy")
    assert check() == 1
    edit.undo()
    assert check() == 0
    edit.apply(steps.set_field(edit.data, ("items", 7), "notes", "n"), "notes")
    edit.apply(steps.move_items(edit.data, [900], 1), "move")
    assert check() == 1


def test_a_check_gives_way_to_keys_before_each_item(monkeypatch):
    ways = []
    monkeypatch.setattr(validate_module.foreground, "give_way", lambda: ways.append(1))
    items = [{"testId": f"t{number}", "prompt": "x"} for number in range(100)]
    data = {"schemaVersion": "1.11.0", "items": items}
    validate(Document(Path("d.json"), "{}", "", "document", data), {}, ())
    assert len(ways) >= 100
