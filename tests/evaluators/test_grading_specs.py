import os
from pathlib import Path
from typing import Any

import pytest

from tests.evaluators.helpers import golden
from tests.evaluators.tables import each_row
from tui_evals.evaluators.grading_specs import SpecError, choice_scores, load_spec, shipped_specs

# name: fields of the prompt, choices about two answers, scores
SHIPPED: dict[str, tuple[str, str, list[float] | None]] = {
    "fact": ("completion ideal input", "A B C D E", None),
    "closedqa": ("completion criteria input", "Y N", [1, 0]),
    "battle": ("completion1 completion2 input1 input2", "Yes No", [1, 0]),
    "best": ("completion input n", "1 2", None),
    "diversity": ("completion n", "Yes No", [1, 0]),
    "humor": ("completion", "Yes No Unsure", [1, 0, 0.5]),
    "humor_out_message": ("completion", "Yes No Unsure", [1, 0, 0.5]),
    "humor_likert": ("completion", "1 2 3 4 5", [1, 2, 3, 4, 5]),
    "humor_jp": ("completion", "1 2 3 4 5", [1, 2, 3, 4, 5]),
    "security": ("completion", "Yes No Unsure", [1, 0, 0.5]),
    "sql": ("completion ideal input", "Correct Incorrect", [1, 0]),
    "singlestore": ("completion ideal input", "Correct Incorrect", [1, 0]),
    "translation": ("completion ideal input language", "Y N", [1, 0]),
    "possible": ("completion input", "A B", None),
    "rhyming": ("completion", "A B", None),
    "iambic_pentameter": ("completion", "Yes No Unsure", [1, 0, 0.5]),
    "arithmetic-expression": ("completion input", "Y N", [1, 0]),
    "regression-equation": ("completion ideal", "Y N", [1, 0]),
    "research-question-extraction": ("completion input", "1 2 3 4 5", [1, 2, 3, 4, 5]),
    "seo_keywords": ("completion input", "0 1 2 3", [0, 1, 2, 3]),
    "onomatopoeia": ("completion ideal input", "A B C D E F", [1, 0.8, 0.6, 0.4, 0.2, 0]),
}


def test_the_shipped_names() -> None:
    assert shipped_specs() == tuple(sorted(SHIPPED))


@each_row("name", SHIPPED)
def test_shipped_specs(name: str) -> None:
    spec = load_spec(name)
    fields, choices, scores = SHIPPED[name]
    table = choice_scores(spec.choices(2), spec.choice_scores)
    assert spec.name == name and spec.description
    assert " ".join(sorted(spec.fields)) == fields
    assert " ".join(spec.choices(2)) == choices
    assert (table and [table[choice] for choice in spec.choices(2)]) == scores
    assert spec.eval_type == ("cot_classify" if name in ("closedqa", "translation") else None)
    assert (spec.output_template is not None) == (name in ("best", "diversity"))
    japanese = name in ("humor_jp", "onomatopoeia")
    assert spec.default_eval_type == ("cot_classify_jp" if japanese else "cot_classify")


@each_row("row", golden("openai_evals.json", "shipped_modelgraded_spec"))
def test_golden_specs(row: dict[str, Any]) -> None:
    spec, expected = load_spec(row["args"]["name"]), row["expected"]
    assert sorted(spec.fields) == expected.pop("prompt_fields")
    expected.pop("file_group")
    assert {name: getattr(spec, name) for name in expected} == expected


@each_row(
    ("name", "sentence"),
    [
        ("humour", "did you mean humor"),
        ("closed_qa", "did you mean closedqa"),
        ("zzzzzzzz", "the shipped ones are arithmetic-expression, battle"),
        ("x" * 10_000_000, "there is no grading spec 'x"),
        ("../specs/fact", "there is no grading spec"),
    ],
)
def test_unknown_names_suggest_near_ones(name: str, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        load_spec(name)


def written(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


BARE = "prompt: Good? {completion}\nchoice_strings: 12345\nchoice_scores: {1: 0.5, 2: 1, 3: 1, 4: 1, 5: 1}\n"


def test_a_spec_of_the_users(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, BARE + "format_type: in_message\nkey: x\ngroup: y\neval_type: classify\n"))
    assert (spec.name, spec.eval_type, spec.messages) == (
        "mine",
        "classify",
        [{"role": "user", "content": "Good? {completion}"}],
    )
    assert spec.choices(1) == ("1", "2", "3", "4", "5")
    assert choice_scores(spec.choices(1), spec.choice_scores) == {"1": 0.5, "2": 1.0, "3": 1.0, "4": 1.0, "5": 1.0}
    assert spec.input_outputs == {"input": "completion"}


def test_chat_prompts_and_the_older_name_of_the_output_template(tmp_path: Path) -> None:
    spec = load_spec(
        written(
            tmp_path,
            "prompt:\n- {role: system, content: Be fair.}\n- {role: user, content: '{a}'}\nchoice_strings: [Yes, No]\n"
            "input_outputs: {q: a}\ncompletion_sample_templates: {a: '{i}: {output}'}\n",
        )
    )
    assert [message["role"] for message in spec.messages] == ["system", "user"]
    assert (spec.outputs, spec.template_for("a"), spec.template_for("b")) == (("a",), "{i}: {output}", None)
    assert spec.choices(1) == ("Yes", "No")


REGISTRY = "one:\n  prompt: first\n  choice_strings: AB\ntwo:\n  prompt: second\n  choice_strings: AB\n"


def test_a_registry_file(tmp_path: Path) -> None:
    path = written(tmp_path, REGISTRY)
    assert (load_spec(f"{path}#two").prompt, load_spec(f"{path}#two").name) == ("second", "two")
    with pytest.raises(SpecError, match=r"holds the grading specs one, two; name one of them as .*mine\.yaml#name"):
        load_spec(path)
    with pytest.raises(SpecError, match="holds the grading specs one, two"):
        load_spec(f"{path}#three")
    assert load_spec(written(tmp_path, "only:\n  prompt: p\n  choice_strings: AB\n")).prompt == "p"


@each_row(
    ("text", "sentence"),
    [
        (BARE + "promt: x\nchoices: y\n", "has unknown keys: choices, promt; known: args, choice_scores"),
        ("prompt: p\n", "choice_strings: Field required"),
        ("prompt: p\nchoice_strings: AB\neval_type: cot\n", "eval_type: Input should be 'classify'"),
        ("prompt: p\nchoice_strings: AB\nmatch_fn: near\n", "match_fn: Input should be"),
        ("prompt:\n- {role: robot, content: x}\nchoice_strings: AB\n", "role: Input should be 'system'"),
        ("prompt: [\n", "cannot be read: not valid YAML"),
        ("a: 1\n", "has no prompt; give it prompt and choice_strings"),
        ("- 1\n", "has no prompt"),
        ("", "has no prompt"),
        ("{}", "holds the grading specs none"),
        ("#" * 100_001, "longer than 100,000 bytes"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        load_spec(written(tmp_path, text))


@each_row("path", ["absent.yaml", "/dev/zero#.yaml", "nul\0.yaml", "folder.yaml", "pipe.yaml"])
def test_paths_that_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.yaml").mkdir()
    os.mkfifo("pipe.yaml")
    with pytest.raises(SpecError, match="there is no grading spec"):
        load_spec(path)


def test_a_file_one_may_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path, BARE)
    monkeypatch.setattr("tui_evals.project_files.os.open", refuse)
    with pytest.raises(SpecError, match="cannot be read: Permission denied"):
        load_spec(path)
