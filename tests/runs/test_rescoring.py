"""Judging a run again is a difference: a judge is asked only where its question, or who answers it, has changed."""

import json

import pytest

from tests.runs.conftest import Project
from tui_evals.datasets.document import load
from tui_evals.runs.project import load_project
from tui_evals.runs.rescoring import RescoreRequest, prepare_rescore
from tui_evals.runs.scoring_passes import pass_config
from tui_evals.store.details import group_scores, read_scores
from tui_evals.store.writer import Writer

RATED = '{"reason": "fine", "score": 4}'
BOTH = {"Relevance": {}, "Coherence": {}}
ITEMS = 4


@pytest.fixture
def project(project: Project) -> Project:
    """A run made without the cache: four answers, each judged by two evaluators that ask and one that does not."""
    for judge in ("judge-model", "other-model"):
        project.server.behave(judge, say=RATED, markers=False)
    judges = "".join(
        f'[targets.{name}]\nmodel = "openai/{name}-model"\nbase_url = "{project.server.url}"\n'
        for name in ("judge", "other")
    )
    project.configure(f'{judges}[judge]\ntarget = "judge"')
    project.dataset(ITEMS, default_evaluators={**BOTH, "Includes": {}})
    project.do("run", "data.json", "--target", "main", "--quiet", "--no-cache")
    assert asked(project) == 3 * ITEMS
    return project


def asked(project: Project) -> int:
    return int(project.server.counts()["asked"])


def bought(project: Project, *words: object, code: int | None = 0) -> int:
    """How many calls a rescoring made."""
    before = asked(project)
    project.do("rescore", "last", *words, "--quiet", code=code)
    return asked(project) - before


def plan(project: Project, *words: object) -> dict:
    before = asked(project)
    found = json.loads(project.do("rescore", "last", *words, "--plan", "--json"))
    assert asked(project) == before
    return found


def edit(project: Project, **root: object) -> None:
    file = project.folder / "data.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **root}))


def scores(project: Project) -> dict[str, list[tuple]]:
    """What counts now by evaluator: score, result, threshold and origin of each answer, in the order of the plan."""
    found: dict[str, list[tuple]] = {}
    with project.reader() as reader:
        for _, one in read_scores(reader, reader.find_run("last").id):
            found.setdefault(one.key, []).append((one.score, one.result, one.threshold, one.origin))
    return found


def test_where_nothing_changed_no_judge_is_asked_though_the_run_had_no_cache(project):
    before = plan(project)
    assert (before["judge_calls"], before["kept"], before["known_verdicts"], before["cost"]) == (0, 2 * ITEMS, 0, 0.0)
    assert bought(project) == 0
    found = scores(project)
    assert found["Relevance"] == found["Coherence"] == [(4.0, "pass", 3.0, 1)] * ITEMS
    assert [origin for *_, origin in found["Includes"]] == [0] * ITEMS  # it asks nobody, and judged again
    with project.reader() as reader:
        run = reader.find_run("last")
        totals = reader.totals(run.id)
        assert (run.scoring_pass, run.staged_pass, totals.total, totals.passed) == (2, 0, ITEMS, ITEMS)
        assert [len(list(read_scores(reader, run.id, number))) for number in (1, 2)] == [3 * ITEMS] * 2
    shown = project.do("show", "last", "--item", "#1")
    assert shown.count("kept from pass 1") == 2
    said = project.do("rescore", "last")
    assert f"{2 * ITEMS} scores were kept from earlier judgings; {ITEMS} made now" in said
    end = json.loads(project.do("rescore", "last", "--json").splitlines()[-1])
    assert end["scores"] == {"kept": 2 * ITEMS, "judged": ITEMS}


def test_another_threshold_or_weight_is_applied_to_the_scores_that_are_there(project):
    edit(project, default_evaluators={"Relevance": {"threshold": 5}, "Coherence": {"weight": 0.5}, "Includes": {}})
    sentence = f"0 calls of the judge ({2 * ITEMS} scores are kept), free"
    assert sentence in project.do("rescore", "last", "--dataset", "data.json", "--plan")
    assert bought(project, "--dataset", "data.json") == 0
    found = scores(project)
    assert found["Relevance"] == [(4.0, "fail", 5.0, 1)] * ITEMS
    assert found["Coherence"] == [(4.0, "pass", 3.0, 1)] * ITEMS
    with project.reader() as reader:
        run = reader.find_run("last")
        assert {row.status for row in reader.all_rows(run.id)} == {"fail"}
        assert [row.score for row in reader.all_rows(run.id)] == [pytest.approx(60.0)] * ITEMS
    # And back, to the verdicts of the first judging.
    assert bought(project) == 0
    assert scores(project)["Relevance"] == [(4.0, "pass", 3.0, 1)] * ITEMS


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    ("words", "calls"),
    [
        (("-e", '{"Relevance": {"expected_score": true}, "Coherence": {}}'), ITEMS),
        (("-e", '{"Relevance": {}, "Rubric": {"criteria": "It is short."}}'), ITEMS),
        (("-e", '{"Relevance": {"judge": "other"}, "Coherence": {}}'), ITEMS),
        (("-e", '{"Relevance": {"rubric": "m365"}, "Coherence": {}}'), ITEMS),
        (("-e", '{"Relevance": {"negate": true}, "Coherence": {}}'), ITEMS),
        (("--judge", "other"), 2 * ITEMS),
        (("--no-cache",), 2 * ITEMS),
        (("--only", "id:#1"), 2),
        (("--items", "1,2", "--evaluator", "Relevance"), 2),
        (("--evaluator", "Relevance"), ITEMS),
        (("--evaluator", "Relevance", "--judge", "other"), ITEMS),
        (("--without-judges",), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_what_changed_or_was_named_is_judged_and_the_plan_says_so_before(project, words, calls):
    before = plan(project, *words)
    assert before["judge_calls"] == calls
    assert bought(project, *words, code=None) == calls


def test_an_edited_expectation_is_judged_in_its_item_alone(project):
    file = project.folder / "data.json"
    file.write_text(file.read_text().replace('"expected_response": "question 1"', '"expected_response": "Answer"'))
    assert plan(project, "--dataset", "data.json")["judge_calls"] == 2
    assert bought(project, "--dataset", "data.json") == 2
    assert [origin for *_, origin in scores(project)["Relevance"]] == [1, 0, 1, 1]


def test_what_no_judge_is_shown_changes_nothing(project):
    items = json.loads((project.folder / "data.json").read_text())["items"]
    edit(project, items=[{**item, "category": "new", "notes": "seen", "threshold": 0.5} for item in items])
    assert bought(project, "--dataset", "data.json") == 0


def test_a_judge_that_is_configured_otherwise_is_another_judge(project):
    configuration = project.folder / ".evals" / "config.toml"
    configuration.write_text(
        configuration.read_text().replace('model = "openai/judge-model"', 'model = "openai/other-model"')
    )
    edit(project, default_evaluators={"Relevance": {"threshold": 5}, "Includes": {}})
    said = project.do("rescore", "last", "--dataset", "data.json", "--quiet", code=3)
    assert "judge has answered questions of this run, and is configured differently now" in said
    configuration.write_text(
        configuration.read_text().replace('model = "openai/other-model"', 'model = "openai/judge-model"', 1)
    )
    assert bought(project, "--dataset", "data.json", "--judge", "other") == ITEMS


def test_named_evaluators_judge_and_all_other_scores_stay(project):
    project.server.behave("judge-model", say='{"reason": "poor", "score": 2}', markers=False)
    assert bought(project, "--evaluator", "Relevance") == ITEMS
    found = scores(project)
    assert found["Relevance"] == [(2.0, "fail", 3.0, 0)] * ITEMS
    assert found["Coherence"] == [(4.0, "pass", 3.0, 1)] * ITEMS
    assert [origin for *_, origin in found["Includes"]] == [1] * ITEMS
    # Of an edited dataset only the named one holds.
    edited = {"Relevance": {"threshold": 2}, "Coherence": {"threshold": 5}, "Includes": {}, "Citations": {}}
    edit(project, default_evaluators=edited)
    assert bought(project, "--dataset", "data.json", "--evaluator", "Relevance", "--evaluator", "Citations") == 0
    found = scores(project)
    assert found["Relevance"] == [(2.0, "pass", 2.0, 2)] * ITEMS
    assert found["Coherence"] == [(4.0, "pass", 3.0, 1)] * ITEMS
    assert set(found) == {"Relevance", "Coherence", "Citations", "Includes"}
    with project.reader() as reader:
        judged_by = reader.judged_by(reader.find_run("last")).document["default_evaluators"]
    assert judged_by["Coherence"] == {} and judged_by["Relevance"] == {"threshold": 2}
    said = project.do("rescore", "last", "--evaluator", "Relevanz", "--plan", code=2)
    assert "no evaluator 'Relevanz' judges" in said and "Relevance" in said


def test_an_evaluator_that_could_not_judge_is_asked_again_and_the_others_are_not(project):
    project.server.behave("judge-model", say="no verdict at all", markers=False)
    assert bought(project, "--evaluator", "Coherence", code=None) == 2 * ITEMS  # each with a repair
    project.server.behave("judge-model", say=RATED, markers=False)
    assert scores(project)["Coherence"][0][:2] == (None, "error")
    # The first judging gave a verdict to the same question, so nobody need be asked.
    assert bought(project) == 0
    assert scores(project)["Coherence"] == [(4.0, "pass", 3.0, 1)] * ITEMS


def test_a_rescoring_that_stopped_goes_on_with_what_it_may_keep(project):
    edit(project, default_evaluators={"Relevance": {"threshold": 5}, "Rubric": {"criteria": "It is short."}})
    here = load_project(project.folder)
    with project.reader() as reader, Writer(project.database) as writer:
        run = reader.find_run("last")
        job = prepare_rescore(run, RescoreRequest(dataset=load(project.folder / "data.json")), reader, here)
        how = {"use_cache": False, "named": (), "anew": False}
        writer.begin_pass(run.id, pass_config(job.plan, run, here, reader, writer, **how))
        writer.run_status(run.id, "interrupted", message="killed", code="killed")
    before = asked(project)
    project.do("resume", "last", "--quiet", code=None)
    assert asked(project) - before == ITEMS
    assert scores(project)["Relevance"] == [(4.0, "fail", 5.0, 1)] * ITEMS


def test_the_verdict_on_a_group_is_kept_like_any_other(project):
    project.server.behave("judge-model", say="Best: 2\n2", markers=False)
    best = '{"best": {"type": "ModelGraded", "spec": "best"}}'
    project.do("run", "data.json", "--target", "main", "--repeats", 2, "-e", best, "--quiet", "--no-cache", code=None)
    with project.reader() as reader:
        run = reader.find_run("last")
        first = [one.record for one in group_scores(reader, run.id)]
    assert len(first) == ITEMS and first[0].details["judge_model"]
    assert bought(project, code=None) == 0
    with project.reader() as reader:
        assert [one.record.origin for one in group_scores(reader, reader.find_run("last").id)] == [1] * ITEMS


def test_a_kept_verdict_is_no_second_opinion(project):
    assert bought(project) == 0
    assert "noise of the judge" not in project.do("show", "last", "--by", "repeats")
    (column,) = json.loads(project.do("show", "last", "--by", "repeats", "--json"))["columns"]
    assert "Relevance" not in column["noise"]
    project.server.behave("judge-model", say='{"reason": "poor", "score": 2}', markers=False)
    assert bought(project, "--evaluator", "Relevance") == ITEMS
    (column,) = json.loads(project.do("show", "last", "--by", "repeats", "--json"))["columns"]
    assert column["noise"]["Relevance"]["judge"] == pytest.approx(2**0.5)
    assert "Coherence" not in column["noise"]


PROMPTY = "---\nname: Tone\ninputs: {response: {type: string}}\n---\nuser:\nRate the tone from 1 to 5: {{response}}\n"


@pytest.mark.nightly
def test_an_evaluator_of_the_project_is_asked_again_once_its_files_change(project):
    folder = project.folder / "custom-evaluators" / "Tone"
    folder.mkdir(parents=True)
    source = (
        "from promptflow.client import load_flow\n"
        "import pathlib\n"
        "class Tone:\n"
        "    def __init__(self, model_config, **others):\n"
        "        self.flow = load_flow(source=str(pathlib.Path(__file__).with_name('Tone.prompty')),\n"
        "                              model={'configuration': model_config})\n"
        "    def __call__(self, *, response, **more):\n"
        "        self.flow(response=response)\n"
        "        return {'score': 4, 'reason': 'said'}\n"
    )
    (folder / "Tone.py").write_text(source)
    (folder / "Tone.prompty").write_text(PROMPTY)
    assert bought(project, "-e", "Tone", "--trust") == ITEMS
    assert scores(project)["Tone"][0][:2] == (4.0, "pass")
    assert bought(project, "-e", "Tone", "--trust") == 0
    (folder / "Tone.py").write_text(source.replace("'said'", "'says'"))
    assert bought(project, "-e", "Tone", "--trust") == ITEMS


def test_an_item_that_is_judged_by_an_edited_dataset_buys_only_what_the_edit_changes(project):
    edit(project, default_evaluators={"Relevance": {"threshold": 5}, "Coherence": {}, "Rubric": {"criteria": "Short."}})
    words = ("rescore", "last", "--item", "#1", "--dataset", "data.json")
    assert json.loads(project.do(*words, "--plan", "--json"))["judge_calls"] == 1
    before = asked(project)
    assert "✗ fail" in project.do(*words)
    assert asked(project) - before == 1
    with project.reader() as reader:
        answer = next(reader.all_rows(reader.find_run("last").id))
        assert [call.kind for call in reader.detail(answer.id).calls].count("judge") == 3


def test_that_the_dataset_decides_another_rubric_is_said_before_it_is_paid_for(project):
    edit(project, default_evaluators=BOTH)
    said = project.do("rescore", "last", "--dataset", "data.json", "--plan")
    assert f"{2 * ITEMS} calls of the judge" in said
    assert "Relevance, Coherence: rated by the rubric m365, and by strict before" in said
    edit(project, default_evaluators={name: {"rubric": "strict"} for name in BOTH})
    said = project.do("rescore", "last", "--dataset", "data.json", "--plan")
    assert "0 calls of the judge" in said and "rubric" not in said
