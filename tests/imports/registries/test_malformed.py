"""Registries that are wrong: the message names the file, the line and the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_evals.datasets.paths import DatasetError
from tui_evals.evaluators.registry import built_in
from tui_evals.imports.openai_evals import load

CATALOGUE = {name: kind.Options for name, kind in built_in().items()}
MATCH = "x.dev.v0:\n  class: evals.elsuite.basic.match:Match\n  args:\n    samples_jsonl: x.jsonl\n"
GRADED = (
    "x.dev.v0:\n  class: evals.elsuite.modelgraded.classify:ModelBasedClassify\n"
    "  args:\n    samples_jsonl: x.jsonl\n    modelgraded_spec: mine\n"
)
QUIZ = "x.dev.v0:\n  class: evals.elsuite.multiple_choice:MultipleChoice\n  args:\n    dataset: x.jsonl\n"
GOOD = '{"input": "a", "ideal": "b"}\n'


def run(folder: Path, files: dict[str, str | bytes], name: str = "x.dev.v0") -> None:
    for path, content in {"evals/x.yaml": MATCH, "data/x.jsonl": GOOD, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    for spec in load([folder], CATALOGUE).find(name):
        spec.document()


WRONG_ENTRIES = {
    "no YAML": ("x: [1", "x.yaml:1: not valid YAML"),
    "no mapping": ("- a\n- b\n", "x.yaml:1: a mapping is needed here"),
    "an entry that is no mapping": ("a: {id: x}\nx: 3\n", "x.yaml:2: x: must be a mapping"),
    "a reserved word": (MATCH + "  group: y\n", "x.yaml:5: x.dev.v0.group: 'group' is a reserved word"),
    "a name twice": (MATCH + "\n" + MATCH, "x.yaml:6: the key 'x.dev.v0' appears twice in one mapping; keep one of "
                                            "them (the first is on line 1)"),
    "an unknown id": ("a:\n  metrics: []\n  id: b.c\n", "x.yaml:3: a.id: 'a' refers to 'b.c', and there is no such"),
    "ids in a circle": ("a:\n  id: b\nb:\n  id: a\n", "x.yaml:4: b.id: the ids lead in a circle: a -> b -> a"),
    "an id that is no text": ("a:\n  id: [b]\n", "x.yaml:2: a.id: the id of 'a' must be the name"),
    "neither class nor id": ("a.b:\n  args: {}\n", "x.yaml:1: a.b.class: names no class"),
    "args that are a list": ("a.b:\n  class: evals.elsuite.basic.match:Match\n  args: [1]\n", "x.yaml:3: a.b.args: "),
    "no data named": ("a.b:\n  class: evals.elsuite.basic.match:Match\n", "samples_jsonl is missing"),
    "data that are no text": (MATCH.replace("x.jsonl", "7"), "x.yaml:4: x.dev.v0.args.samples_jsonl: samples_jsonl"),
    "a wrong count": (MATCH + "    num_few_shot: two\n", "x.yaml:5: x.dev.v0.args.num_few_shot: num_few_shot must be"),
    "examples without a file": (MATCH + "    num_few_shot: 2\n", "x.yaml:3: x.dev.v0.args: few_shot_jsonl is missing"),
    "a wrong flag": (MATCH.replace("match:Match", "includes:Includes") + "    ignore_case: 3\n", "ignore_case must be"),
    "no dot in the name": (MATCH.replace("x.dev.v0", "a"), "its name has no dot"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG_ENTRIES)
def test_a_wrong_entry_is_named_with_its_line_and_field(tmp_path: Path, kind: str) -> None:
    text, sentence = WRONG_ENTRIES[kind]
    with pytest.raises(DatasetError) as error:
        run(tmp_path, {"evals/x.yaml": text}, text.partition(":")[0])
    assert sentence in str(error.value)
    assert f"{tmp_path / 'evals' / 'x.yaml'}:" in str(error.value)


WRONG_SAMPLES = {
    "no JSON": (MATCH, '{"input": "a", }\n', "x.jsonl:2: not valid JSON"),
    "no object": (MATCH, "[1]\n", "x.jsonl:2: a sample must be a JSON object"),
    "NaN": (MATCH, '{"input": "a", "ideal": "b", "c": NaN}\n', "x.jsonl:2: NaN is not a JSON number"),
    "no UTF-8": (MATCH, b'{"input": "\xff"}\n', "x.jsonl:2: the byte 0xff is not UTF-8"),
    "no input": (MATCH, '{"ideal": "b"}\n', "x.jsonl:2: input: the sample has no input; its fields are: ideal"),
    "no ideal": (MATCH, '{"input": "b"}\n', "x.jsonl:2: ideal: the sample has no ideal"),
    "an ideal that is a number": (MATCH, '{"input": "b", "ideal": [1]}\n', "x.jsonl:2: ideal: ideal must be text"),
    "an input that is a number": (MATCH, '{"input": 1, "ideal": "b"}\n', "x.jsonl:2: input: input must be text"),
    "a message that is text": (MATCH, '{"input": ["a"], "ideal": "b"}\n', "x.jsonl:2: input[0]: a chat message"),
    "an unknown role": (
        MATCH,
        '{"input": [{"role": "user", "content": "a"}, {"role": "robot", "content": ""}], "ideal": "b"}\n',
        "x.jsonl:2: input[1].role: the role",
    ),
    "content that is a number": (
        MATCH,
        '{"input": [{"role": "user", "content": 1}], "ideal": "b"}\n',
        "x.jsonl:2: input[0].content: the content",
    ),
    "a label that is not there": (QUIZ, '{"question": "a", "answers": ["b"], "label": 1}\n', "x.jsonl:2: label: must"),
    "choices that are text": (QUIZ, '{"question": "a", "answers": "b", "label": 0}\n', "x.jsonl:2: answers: the"),
    "no choices": (QUIZ, '{"question": "a"}\n', "x.jsonl:2: a multiple-choice sample holds"),
}  # fmt: skip
FINE = {QUIZ: b'{"question": "a", "answers": ["b", "c"], "label": "1"}\n'}


@pytest.mark.parametrize("kind", WRONG_SAMPLES)
def test_a_wrong_sample_is_named_with_its_line_and_field(tmp_path: Path, kind: str) -> None:
    entry, line, sentence = WRONG_SAMPLES[kind]
    raw = line if isinstance(line, bytes) else line.encode()
    with pytest.raises(DatasetError) as error:
        run(tmp_path, {"evals/x.yaml": entry, "data/x.jsonl": FINE.get(entry, GOOD.encode()) + raw})
    assert sentence in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("spec", "extra", "sentence"),
    [
        ("mine:\n  choice_strings: AB\n", "", "m.yaml:1: mine: prompt is missing"),
        ("mine:\n  prompt: x\n  choice_strings: AB\n  input_outputs: [a]\n", "", "m.yaml:4: mine.input_outputs: must"),
        ("mine:\n  id: yours\n", "", "m.yaml:2: mine.id: 'mine' refers to 'yours', and there is no such"),
        ("mine:\n  prompt: x\n  choice_strings: 'A,'\n", "", "cannot be found in a reply"),
        ("yours:\n  prompt: x\n  choice_strings: AB\n", "", "there is no grading spec 'mine'"),
        (
            "mine:\n  prompt: x\n  choice_strings: AB\n",
            "    multicomp_n: many\n",
            "x.yaml:6: x.dev.v0.args.multicomp_n: multicomp_n must be a whole number",
        ),
        ("mine:\n  prompt: x\n  choice_strings: AB\n", "    metaeval: true\n", "x.jsonl:1: choice: metaeval compares"),
    ],
)
def test_a_wrong_grading_spec_is_named(tmp_path: Path, spec: str, extra: str, sentence: str) -> None:
    with pytest.raises(DatasetError) as error:
        run(tmp_path, {"evals/x.yaml": GRADED + extra, "modelgraded/m.yaml": spec})
    assert sentence in str(error.value)


def test_a_name_in_two_files_is_named_with_both(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as error:
        run(tmp_path, {"evals/y.yaml": "\n" + MATCH})
    first, second = tmp_path / "evals" / "x.yaml", tmp_path / "evals" / "y.yaml"
    assert str(error.value).startswith(f"{second}:2: x.dev.v0: the name is in {first}:1 as well")


def test_a_name_in_two_registries_is_named_with_both(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        run(tmp_path / folder, {})
    with pytest.raises(DatasetError, match=r"the name is in .*one.*x\.yaml:1 as well"):
        load([tmp_path / "one", tmp_path / "two"], CATALOGUE)


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        ("a: {evals: 3}\n", "a", "s.yaml:1: a.evals: a set needs evals"),
        ("a:\n  evals: [b]\nb:\n  evals: [a]\n", "a", "the sets hold one another: a -> b -> a"),
        ("a:\n  evals: [nobody]\n", "a", "s.yaml:2: a.evals: no eval is known that the set 'a' names"),
        ("a:\n  evals: [x.dev.v0]\n", "x.dv.v0", "there is no eval or set named 'x.dv.v0'; did you mean x.dev.v0?"),
        ("a:\n  evals: [x.dev.v0]\n", "zzzz", "lists all"),
    ],
)
def test_a_wrong_set_or_name_is_told(tmp_path: Path, text: str, name: str, sentence: str) -> None:
    with pytest.raises(DatasetError) as error:
        run(tmp_path, {"eval_sets/s.yaml": text}, name)
    assert sentence in str(error.value)


def test_an_example_that_is_no_example_is_named(tmp_path: Path) -> None:
    shown = MATCH + "    num_few_shot: 1\n    few_shot_jsonl: f.jsonl\n"
    with pytest.raises(DatasetError, match=r"f\.jsonl:1: sample: an example needs sample"):
        run(tmp_path, {"evals/x.yaml": shown, "data/f.jsonl": "{}\n"})
    with pytest.raises(DatasetError, match=r"x\.jsonl:1: input: examples .* can only be shown in a chat"):
        run(tmp_path, {"evals/x.yaml": shown, "data/f.jsonl": '{"sample": []}\n'})


def test_a_packed_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"x\.jsonl\.gz: cannot be unpacked"):
        run(tmp_path, {"evals/x.yaml": MATCH.replace("x.jsonl", "x.jsonl.gz"), "data/x.jsonl.gz": GOOD})


def test_data_that_are_not_there_are_told_with_the_field_that_names_them(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as error:
        run(tmp_path, {"evals/x.yaml": MATCH.replace("x.jsonl", "gone.jsonl")})
    place = f"{tmp_path / 'evals' / 'x.yaml'}:4: x.dev.v0.args.samples_jsonl: "
    assert str(error.value) == f"{place}its data are missing: there is no {tmp_path / 'data' / 'gone.jsonl'}"


def test_no_samples_are_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"x\.jsonl: holds no samples"):
        run(tmp_path, {"data/x.jsonl": "\n"})


def test_all_wrong_lines_are_told_but_not_thousands(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as error:
        run(tmp_path, {"data/x.jsonl": "[]\n" * 1000})
    assert len(error.value.problems) == 21
    assert str(error.value).endswith("x.jsonl:21: 980 more problems, from this line on")


def test_a_folder_that_is_no_registry_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="is no registry"):
        load([tmp_path], CATALOGUE)
    with pytest.raises(DatasetError, match="there is no such folder"):
        load([tmp_path / "nothing"], CATALOGUE)


def test_a_pipe_among_the_files_is_not_waited_for(tmp_path: Path) -> None:
    import os

    (tmp_path / "evals").mkdir()
    os.mkfifo(tmp_path / "evals" / "x.yaml")
    with pytest.raises(DatasetError, match="is not a file"):
        load([tmp_path], CATALOGUE)
