"""A judge's log-probabilities gave no score: five answers of the same written score could not be told apart."""

import json
import os
import subprocess

import pytest

from tests.runs.conftest import FREE
from tests.server_replies import tokens
from tui_evals.evaluators.base import Evidence, Question, evaluate, note_choices
from tui_evals.evaluators.registry import built_in
from tui_evals.runs.judges import request_for
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.chat import join_chunks, parse_completion, parse_response, response_body
from tui_evals.targets.model_table import Fitting
from tui_evals.text.model_output import choices_of
from tui_evals.tui.answer.rows import figures_text

VERDICT = '{"reason": "Ça va, as 2 of 3 criteria are met", "score": 4}'
LIKELY = {"4": 0.6, "5": 0.2, "3": 0.1, "x": 0.05}
EXPECTED = (4 * 0.6 + 5 * 0.2 + 3 * 0.1) / 0.9


def judged_by(project, options=None, more="", **behaviour):
    project.server.behave("judge-model", **{"say": VERDICT, "markers": False, "likely": LIKELY} | behaviour)
    judge = f'[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "{project.server.url}"\n{more}'
    project.configure(f'{FREE}[judge]\ntarget = "judge"\n{judge}')
    options = {"criteria": "It is right.", "expected_score": True, "threshold": 4.2, **(options or {})}
    project.dataset(2, default_evaluators={"Rubric": options})


def scores(project, run="last"):
    with project.reader() as reader:
        found = reader.find_run(run)
        rows = list(reader.all_rows(found.id))
        return [reader.detail(row.id).scores[found.scoring_pass][0] for row in rows]


def test_the_score_is_the_mean_of_what_the_judge_might_have_written(project):
    judged_by(project)
    project.do("run", "data.json", "--target", "main", code=None)
    sent = project.server.last()["body"]
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 5)
    record = scores(project)[0]
    assert record.score == pytest.approx(EXPECTED, abs=1e-4) and record.result == "fail" and record.threshold == 4.2
    assert record.details["written"] == 4 and record.details["expected"] == record.score
    assert record.details["levels"] == {"3": 0.1111, "4": 0.6667, "5": 0.2222}
    assert record.reason.endswith("criteria are met. Expected score 4.11, written 4.")
    assert figures_text(record) == "4.11 of 1–5 (at least 4.2)"
    assert "4.11 of 1–5 (at least 4.2)" in project.do("show", "last", "--item", "#1")
    project.do("report", "last", "-o", "out.html")
    assert "Expected score 4.11, written 4." in (project.folder / "out.html").read_text()
    assert "Sent otherwise" not in (project.folder / "out.html").read_text()

    asked = project.server.counts()["met"]["answer"]
    project.do("run", "data.json", "--target", "main", code=None)
    assert scores(project)[0].details == record.details and project.server.counts()["met"]["answer"] == asked
    judged_by(project, {"expected_score": False})
    project.do("run", "data.json", "--target", "main", code=None)
    assert project.server.counts()["met"]["answer"] == asked + 2  # the same question without them is another question
    assert "logprobs" not in project.server.last()["body"]
    assert scores(project)[0].score == 4 and "expected" not in scores(project)[0].details


@pytest.mark.parametrize(
    ("behaviour", "more", "refused"),
    [
        ({"likely": {}}, "", 0),
        ({"rules": "certain"}, "concurrency = 1\n", 1),
        ({}, 'params = { logprobs = "unset", top_logprobs = "unset" }\n', 0),
    ],
)
def test_a_judge_that_tells_none_counts_by_what_it_wrote_and_that_is_said(project, behaviour, more, refused):
    judged_by(project, more=more, **behaviour)
    said = project.do("run", "data.json", "--target", "main", code=None)
    for record in scores(project):
        assert (record.score, record.result) == (4, "fail") and record.details["expected"] is None
        assert record.reason.endswith("The written score counts, for the judge's log-probabilities did not come.")
    assert said.count("log-probabilities were asked for and none came, so written scores count") == 1
    assert project.server.counts()["met"].get("parameter", 0) == refused
    assert ("judge: top_logprobs is not sent, for the model refused it" in said) == bool(refused)
    assert not {"logprobs", "top_logprobs"} & project.server.last()["body"].keys() or not refused


async def judged(reply, likely=LIKELY, name="Relevance"):
    kind = built_in()[name]

    async def ask(question: Question) -> str:
        assert question.likelihoods
        note_choices(choices_of(list(tokens(reply, likely))))
        return reply

    options = dict(kind.example.get("options", {})) | {"expected_score": True, "threshold": 1}
    example = {key: value for key, value in kind.example.items() if key not in ("options", "judge_reply")}
    return await evaluate(kind(kind.Options.model_validate(options), ask), Evidence(**example))


@pytest.mark.parametrize(
    "reply",
    [
        VERDICT,
        '<think>3 or 4? {"score": 2}</think>\n{"reason": "it says \\"score\\": 2", "score":4}',
        '```json\n{"score": "4", "reason": "1 of 2"}\n```',
        "4",
        "**4**",
        "4 - nearly all of it, with 1 gap",
        "Score: 4/5\nIt has 2 gaps.",
        "The first 3 are right.\nFinal score: 4",
        "Größe 5, naïve 3 “quoted” – 日本語 2\nRating: 4 out of 5",
    ],
)
async def test_the_score_is_found_wherever_it_is_written(reply):
    record = await judged(reply)
    assert record.score == pytest.approx(EXPECTED, abs=1e-4), record


async def test_every_rating_from_1_to_5_takes_it():
    rated = [kind for kind in dict.fromkeys(built_in().values()) if "expected_score" in kind.Options.model_fields]
    assert len(rated) >= 8
    for kind in rated:
        record = await judged('{"reason": "so", "score": 4}', name=kind.name)
        assert record.score == pytest.approx(EXPECTED, abs=1e-4), kind.name


@pytest.mark.parametrize(
    ("likely", "expected"),
    [
        ({"4": 1.0, "9": 1e-9}, 4.0),
        ({" 4": 0.25, "4": 0.25, " 5": 0.25, '"5"': 0.25}, 4.5),
        ({"4": 0.5, "4.": 0.2, "45": 0.2, "-5": 0.1}, 4.0),
        ({"5": 0.45, "3": 0.45}, 4.0),
    ],
)
async def test_only_levels_count(likely, expected):
    assert (await judged("Score: 4", likely)).details["expected"] == pytest.approx(expected, abs=1e-4)


async def test_one_piece_without_others_tells_nothing():
    record = await judged("Score: 4", {"4": 1.0})
    assert record.details["expected"] is None and "did not come" in record.reason


async def test_a_score_between_levels_has_no_expectation():
    record = await judged("Score: 4.5")
    assert record.score == 4.5 and "do not tell how likely that score was" in record.reason


@pytest.mark.parametrize(
    "content",
    [None, {}, [], [{"token": "4"}], [{"token": 4, "top_logprobs": []}], [None], "4", [{"token": "4", "logprob": "x"}]],
)
def test_what_is_no_list_of_tokens_has_no_choices(content):
    assert choices_of(content) == ()


@pytest.mark.parametrize("logprobs", [None, [], {}, "none", {"content": None}, {"tokens": ["4"]}, [{"token": "4"}]])
def test_an_answer_is_one_whatever_stands_for_its_logprobs(logprobs):
    choice = {"message": {"content": "4"}, "finish_reason": "stop", "logprobs": logprobs}
    pieces = [{"choices": [{"delta": {"content": "4"}, "logprobs": logprobs, "finish_reason": "stop"}]}]
    for document in ({"choices": [choice]}, join_chunks(pieces)):
        reply = parse_completion(document)
        assert (reply.text, reply.choices) == ("4", ())


def test_they_come_whole_or_in_pieces_and_by_either_protocol():
    listed = list(tokens(VERDICT, LIKELY))
    choice = {"message": {"content": VERDICT}, "finish_reason": "stop", "logprobs": {"content": listed}}
    whole = parse_completion({"choices": [choice]}).choices
    assert [one.text for one in whole] == ["2", "3", "4"] and whole[-1].start == VERDICT.index("4}")
    pieces = [{"choices": [{"delta": {"content": VERDICT}, "logprobs": {"content": listed[:9]}}]}]
    pieces += [{"choices": [{"delta": {}, "logprobs": {"content": listed[9:]}, "finish_reason": "stop"}]}]
    assert parse_completion(join_chunks(pieces)).choices == whole
    part = {"type": "output_text", "text": VERDICT, "logprobs": listed}
    response = {"status": "completed", "output": [{"type": "message", "content": [part]}]}
    assert parse_response(response).choices == whole
    asked = request_for(Question(messages=(), likelihoods=True), TargetConfig(name="t", model="openai/x"))
    body = response_body({"messages": ({"role": "user", "content": "q"},), **asked.params, "include": ["more"]})
    assert body["include"] == ["message.output_text.logprobs", "more"]
    assert body["top_logprobs"] == 5 and "logprobs" not in body


def test_a_refusal_of_what_somebody_configured_is_not_learnt_from_words_of_limits():
    said = "Requested sample logprobs of 20, which is greater than max allowed: 5"
    config = TargetConfig(name="t", model="x", params={"top_logprobs": 20, "logprobs": True})
    assert not Fitting(config).learn(said, {"logprobs": True, "top_logprobs": 20})
    fitting, body = Fitting(TargetConfig(name="t", model="x")), {"logprobs": True, "top_logprobs": 5}
    assert fitting.learn(said, body) and len(fitting.fit(body)) == 2 and body == {}


def test_a_model_that_may_not_be_asked_for_them_says_so_with_403():
    said = '{"error": {"message": "You are not allowed to request logprobs from this model", "param": null}}'
    config, body = TargetConfig(name="t", model="x"), {"logprobs": True, "top_logprobs": 5, "temperature": 0}
    assert Fitting(config).learn(said, body, 403) and not Fitting(config).learn(said, body, 401)
    assert not Fitting(config).learn("temperature is not supported for this key", body, 403)


def test_the_option_stands_on_the_page_of_the_evaluator(project):
    page = json.loads(project.do("evaluators", "Rubric", "--json"))
    assert "log-probabilities" in page["options"]["properties"]["expected_score"]["description"]
    assert "expected_score" in project.do("evaluators", "Rubric")
    assert "`weighted` is another word for it" in page["options"]["properties"]["expected_score"]["description"]


def test_weighted_is_the_same_option(project):
    judged_by(project)
    project.dataset(1, default_evaluators={"Rubric": {"criteria": "It is right.", "weighted": True, "threshold": 4.2}})
    project.do("run", "data.json", "--target", "main", code=None)
    assert scores(project)[0].score == pytest.approx(EXPECTED, abs=1e-4)


_GEVAL = """
import json, sys
from deepeval import test_case
from deepeval.metrics import GEval
params = getattr(test_case, "SingleTurnParams", None) or test_case.LLMTestCaseParams
options = json.loads(sys.argv[1])
options["evaluation_params"] = [params(name.lower()) for name in options["evaluation_params"]]
metric = GEval(model="gpt-4o", async_mode=False, **options)
metric.measure(test_case.LLMTestCase(input="Which bus?", actual_output="Line 4."), _show_indicator=False)
print(json.dumps(metric.score))
"""


def test_geval_of_deepeval_comes_to_its_own_weighted_score(project):
    """tests.bench.compatibility runs this with the Python into which it installs deepeval."""
    python = os.environ.get("DEEPEVAL_PYTHON")
    if not python:
        pytest.skip("needs DEEPEVAL_PYTHON, the interpreter of an environment with deepeval (tests/interop)")
    params = ["INPUT", "ACTUAL_OUTPUT"]
    options = {"name": "Right", "criteria": "Right?", "evaluation_steps": ["Look."], "evaluation_params": params}
    likely = {"7": 0.6, "8": 0.3, "5": 0.1}
    project.server.behave("gpt-4o", say='{"reason": "fine", "score": 7}', markers=False, likely=likely)
    environment = {**os.environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": project.server.url}
    environment["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"
    command = [python, "-c", _GEVAL, json.dumps(options)]
    done = subprocess.run(command, env=environment, cwd=project.folder, capture_output=True, text=True, check=True)
    there = json.loads(done.stdout.splitlines()[-1])
    judge = f'[targets.judge]\nmodel = "openai/gpt-4o"\nbase_url = "{project.server.url}"\n'
    project.configure(f'{FREE}[judge]\ntarget = "judge"\n{judge}')
    document = {"default_evaluators": {"GEval": {"type": "deepeval:GEval", "python": python, "options": options}}}
    (project.folder / "data.json").write_text(
        json.dumps({"schemaVersion": "1.11.0", **document, "items": [{"prompt": "Which bus?", "response": "Line 4."}]})
    )
    for _ in range(2):  # the second time from the cache, with its log-probabilities
        project.do("run", "data.json", "--target", "replay:data.json", "--trust", code=None)
        assert scores(project)[0].score == pytest.approx(there, abs=1e-9) and there != pytest.approx(0.7)
