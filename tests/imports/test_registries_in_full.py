"""Registries in full: battles of two questions, questions from a file, specs never swapped, each reason once."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.server import Server
from tui_evals.datasets.model import Item
from tui_evals.datasets.paths import DatasetError
from tui_evals.evaluators.base import Evidence
from tui_evals.evaluators.registry import built_in
from tui_evals.imports.openai_evals import by_reason, load
from tui_evals.reports.oaieval import log_lines
from tui_evals.reports.results import read
from tui_evals.runs.executors import Cell
from tui_evals.runs.executors.cluster.terms import dump_cells, load_cells
from tui_evals.store.reader import Reader

CATALOGUE = {name: kind.Options for name, kind in built_in().items()}
GRADED = (
    "x.dev.v0:\n  class: evals.elsuite.modelgraded.classify:ModelBasedClassify\n"
    "  args: {samples_jsonl: x.jsonl, modelgraded_spec: fact, eval_type: classify}\n"
)
BATTLE = GRADED.replace("spec: fact", "spec: contest")
CONTEST = (
    "contest:\n  prompt: '{one} {first} / {two} {second}: better?'\n  choice_strings: ['Yes', 'No']\n"
    "  choice_scores: {'Yes': 1, 'No': 0}\n  input_outputs: {one: first, two: second}\n"
)
QUIZ = (
    "quiz.dev.v0:\n  class: evals.elsuite.multiple_choice:MultipleChoice\n"
    "  args: {dataset: 'hf://hellaswag?split=validation', instructions: Choose.}\n"
)


def registry(project: Path, entry: str, data: str, grading: str = "") -> Path:
    folder = project / "own"
    files = {"evals/x.yaml": entry, "data/x.jsonl": data, **({"modelgraded/m.yaml": grading} if grading else {})}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def server(one_server: Server, project: Path) -> Server:
    one_server.reset()
    (project / ".evals").mkdir()
    target = '[targets.{0}]\nmodel = "openai/{0}"\nbase_url = "' + one_server.url + '"\n'
    settings = "".join(map(target.format, ("main", "grader"))) + '[targets.warm]\nmodel = "openai/warm"\n'
    (project / ".evals" / "config.toml").write_text(
        settings + f'base_url = "{one_server.url}"\nparams = {{ temperature = 0.9 }}\n'
    )
    return one_server


def test_a_battle_asks_both_its_questions_and_the_log_keeps_how_it_was_run(shell, project, server):
    pairs = (("[[say A1]] {cats}", "[[say B2]] dogs"), ("[[say C3]]", "[[say C3]]"))
    chats = [[[{"role": "user", "content": text}] for text in pair] for pair in pairs]
    data = "".join(json.dumps({"one": one, "two": two}) + "\n" for one, two in chats)
    own = registry(project, BATTLE, data, CONTEST)
    command = ("run", "--registry", own, "x.dev.v0", "--target", "main", "--judge", "grader", "--faithful")
    server.behave("grader", say="Yes", markers=False)
    done = shell(*command, "--max-samples", 2)
    assert done.code == 0, done.err
    told = "figures compare with oaieval, except usage_*: oaieval counts the tokens of the judge too"
    assert told in done.out.splitlines()
    judged = {text.partition("\n")[0] for _, text in server.moments() if "better?" in text}
    assert judged == {"[[say A1]] {{cats}} A1 / [[say B2]] dogs B2: better?", "[[say C3]] C3 / [[say C3]] C3: better?"}
    with Reader(Path(".evals/evals.db")) as reader:
        (run,) = reader.runs()
        spec = json.loads(next(iter(log_lines(reader, run))))["spec"]["run_config"]
    assert (run.total, spec["seed"], spec["max_samples"]) == (4, 20220722, 2)
    assert spec["eval_spec"]["args"]["modelgraded_spec"] == "contest" and "tui-evals" in spec["command"]


def test_parameters_of_ones_own_keep_figures_from_comparing_and_that_is_said(shell, project, server):
    own = registry(project, QUIZ.replace("hf://hellaswag?split=validation", "x.jsonl"), '{"question": "Q", ')
    (own / "data" / "x.jsonl").write_text('{"question": "Q", "answers": ["a", "b"], "label": 1}\n')
    done = shell("run", "--registry", own, "quiz.dev.v0", "--target", "warm", "--faithful")
    (line,) = [line for line in done.out.splitlines() if line.startswith("figures do not compare with oaieval: ")]
    assert "fetches its questions" in line and "warm is configured with temperature 0.9" in line


def test_questions_that_would_be_fetched_come_from_a_file(shell, project, server):
    own = registry(project, QUIZ, "")
    (project / "questions.jsonl").write_text('{"ctx": "[[say B) b]]", "endings": ["a", "b"], "label": "0"}\n')
    assert "--data FILE" in shell("run", "--registry", own, "quiz.dev.v0", "--target", "main").err
    done = shell("run", "--registry", own, "quiz.dev.v0", "--target", "main", "--data", "questions.jsonl", "--faithful")
    assert done.code in (0, 1) and "accuracy" in done.out
    sent = server.last()["body"]["messages"]
    assert sent[0]["role"] == "system"
    assert sent[0]["content"].startswith(
        "Choose.\nPlease answer with the letter of the correct answer.\n\n[[say B) b]]"
    )
    assert "belongs to --registry" in shell("run", "nothing.json", "--data", "questions.jsonl").err


def test_a_grading_spec_of_the_registry_is_never_swapped(shell, project):
    own = registry(project, GRADED, '{"input": "a"}\n', "fact:\n  prompt: [\n")
    done = shell("registry", own)
    assert "0 of 1 evals run here" in done.out and "its grading spec fact is in a file that cannot be read" in done.out
    twice = "fact:\n  prompt: one\n  prompt: 'two {completion}'\n  choice_strings: AB\n"
    (own / "modelgraded" / "m.yaml").write_text(twice)
    done = shell("registry", own)
    assert done.out.startswith("1 of 1 evals run here") and "m.yaml:3: the key 'prompt' appears twice" in done.err
    (spec,) = load([own], CATALOGUE).find("x.dev.v0")
    options = spec.document()[0]["default_evaluators"]["ModelGraded"]
    assert built_in()["ModelGraded"](built_in()["ModelGraded"].Options.model_validate(options)).spec.prompt == (
        "two {completion}"
    )


@pytest.mark.parametrize("faithful", [False, True])
def test_the_grading_prompt_of_the_first_sample_is_tried(project, faithful):
    grading = "fact:\n  prompt: '{completion} {ruling}'\n  choice_strings: AB\n"
    (found,) = load([registry(project, GRADED, '{"input": "a"}\n', grading)], CATALOGUE).find("x.dev.v0")
    spec = replace(found, faithful=faithful)
    (reason,) = spec.reasons()
    assert "could not be asked about its first sample" in reason and "ruling" in reason


def test_each_reason_is_told_once(shell, project):
    names = "".join(f"n{place}.dev.v0:\n  class: some.module{place}:Novel\n" for place in range(9))
    own = registry(project, names + GRADED, '{"input": "a", "ideal": "b"}\n')
    done = shell("run", "--registry", own, "*", "--target", "demo")
    lines = [line for line in done.err.splitlines() if "no equal here" in line]
    assert lines == ["  the class … has no equal here: n0.dev.v0, n1.dev.v0, n2.dev.v0 and 6 more"]
    assert len([line for line in done.out.splitlines() if line.startswith("n")]) == 0
    listed = shell("registry", own).out.splitlines()
    assert listed[:2] == ["1 of 10 evals run here", "    9  the class … has no equal here"]
    assert by_reason({"a": ["x /y/z"], "b": ["x /q"]}) == {"x …": ["a", "b"]}


def test_the_questions_of_an_item_reach_the_workers_of_a_cluster():
    item = Item.model_validate({"prompt": "one", "other_questions": ["two", [{"role": "user", "content": "three"}]]})
    cells = [Cell(item.asking(at), "#1", 0, 0, 0, at, (at,), {}, frozenset()) for at in range(3)]
    there = load_cells(dump_cells(cells))
    assert [cell.item.prompt for cell in there] == ["one", "two", None]
    assert there[2].item.messages is not None and there[2].item.messages[0].content == "three"


MMMU = (
    "mmmu-art:\n  id: mmmu-art.validation.v1\n  metrics: [accuracy]\nmmmu-art.validation.v1:\n"
    "  class: evals.elsuite.mmmu.eval:MMMU\n  args:\n    dataset: hf://mmmu/mmmu?name=Art&split=validation\n"
    "    subject: Art\n"
)
MMLU = "mmlu.val.v1:\n  class: evals.elsuite.mmlu:MMLU\n  args: {split: validation}\n"
LAMBADA = "lambada.test.v1:\n  class: evals.elsuite.lambada:Lambada\n  args: {subset: default}\n"
DOT = Path(__file__).parent / "inspect_datasets" / "dot.png"


def lines(*samples: dict) -> str:
    return "".join(json.dumps(sample) + "\n" for sample in samples)


@pytest.mark.parametrize("faithful", [True, False])
def test_questions_of_mmmu_are_asked_with_their_pictures(shell, project, server, faithful):
    own = registry(project, MMMU, "")
    assert "name that file with `run --registry" in shell("run", "--registry", own, "mmmu-art", "--target", "main").err
    (project / "pictures").mkdir()
    (project / "pictures" / "dot.png").write_bytes(DOT.read_bytes())
    chosen = {"question": "[[say so ANSWER: A]] <image 1>", "options": "['red', 'red']", "answer": "A"}
    chosen |= {"question_type": "multiple-choice", "image_1": "pictures/dot.png", "image_2": None}
    packed = base64.b64encode(DOT.read_bytes()).decode()
    given = {"question": "[[say ANSWER: 12]] How many?", "options": "[]", "answer": "1", "question_type": "open"}
    (project / "art.jsonl").write_text(lines(chosen, {**given, "image_1": {"bytes": packed, "path": None}}))
    to_the_letter = ("--faithful",) if faithful else ()
    done = shell("run", "--registry", own, "mmmu-art", "--target", "main", "--data", "art.jsonl", *to_the_letter)
    assert done.code in (0, 1), done.err
    with Reader(Path(".evals/evals.db")) as reader:
        run = reader.find_run("last")
        rows = reader.all_rows(run.id)
        entries = list(read(reader, run, rows, reader.dataset(run).items, requests=True))
    asked = [entry.record.request["messages"] for entry in entries]
    assert {chat[1]["content"][1]["image_url"]["url"] for chat in asked} == {f"data:image/png;base64,{packed}"}
    assert ("You are an expert in Art whose job is" in str(asked)) is faithful
    numbers = next(entry for entry in entries if "How many" in str(entry.record.request))
    result = "pass" if faithful else "fail"  # 12 holds 1, and is another number
    assert (numbers.record.text, numbers.scores[0].result) == ("ANSWER: 12", result)


def test_all_subjects_of_mmlu_come_from_one_file_with_their_categories(project):
    own = registry(project, MMLU, "")
    rows = project / "mmlu.jsonl"
    rows.write_text(lines({"question": "1+1?", "choices": ["1", "2"], "answer": 1, "subject": "global_facts"}))
    (spec,) = load([own], CATALOGUE).find("mmlu.val.v1")
    assert "fetched over the network" in spec.reasons()[0]
    data, _ = replace(spec, data=rows, faithful=True).document()
    (item,) = data["items"]
    text = item["messages"][0]["content"]
    assert text.startswith("Please answer with the letter of the correct answer.\n\n1+1?\nA) ")
    assert item["category"] == "global_facts" and f"{item['expected_response']}) 2" in text
    assert list(data["default_evaluators"]) == ["Match"]


@pytest.mark.parametrize(("answer", "result"), [("dogs.", "pass"), ("dogs", "pass"), ("dogsled", "fail")])
def test_the_last_word_of_lambada_is_asked_for_and_matched_as_a_word(project, answer, result):
    own = registry(project, LAMBADA, "")
    rows = project / "lambada.jsonl"
    rows.write_text(lines({"text": "cats  chase dogs"}))
    (spec,) = load([own], CATALOGUE).find("lambada.test.v1")
    spec = replace(spec, data=rows, faithful=True)
    data, _ = spec.document()
    content = "Please answer with the word which is most likely to follow:\n\ncats chase"
    assert data["items"][0]["messages"] == [{"role": "system", "content": content}]
    assert spec.needs.params == {"temperature": 0, "max_tokens": 8}
    ((name, options),) = data["default_evaluators"].items()
    evaluator = built_in()[name]
    score = evaluator(evaluator.Options(**options)).score(Evidence(response=answer, expected="dogs"))
    assert score.result == result


@pytest.mark.parametrize(
    ("sample", "sentence"),
    [
        ({"options": ["a"], "answer": "A"}, "a sample holds question, options, answer, question_type"),
        ({"question": "q", "options": "[", "answer": "A"}, "must be a list of texts"),
        ({"question": "q", "options": ["a"], "answer": "B"}, "must be the place of the right choice"),
        ({"question": "q", "options": ["a"], "answer": "A", "image_1": "../x.png"}, "no path to a file"),
        ({"question": "q", "options": ["a"], "answer": "A", "image_1": {"bytes": "?"}}, "its bytes are not base64"),
        ({"question": "q", "options": ["a"], "answer": "A", "image_1": {"bytes": "eHl6"}}, "is no picture"),
        ({"question": "q", "question_type": "open", "answer": 3}, "the answer to an open question must be text"),
    ],
)
def test_a_question_about_pictures_that_cannot_be_asked_is_named_with_its_line(project, sample, sentence):
    own = registry(project, MMMU, "")
    (project / "art.jsonl").write_text(lines(sample))
    (spec,) = load([own], CATALOGUE).find("mmmu-art")
    with pytest.raises(DatasetError, match=r"art\.jsonl:1: ") as error:
        replace(spec, data=project / "art.jsonl").document()
    assert sentence in str(error.value)
