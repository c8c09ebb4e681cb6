"""Metrics of an installed library: their process, the server in front of the judge, what they get and give."""

from __future__ import annotations

import asyncio
import json
import math
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import Shell
from tests.evaluators.library_stand_in import stand_in
from tui_evals import evaluate as evaluate_dataset
from tui_evals.evaluators.base import CannotJudge, Evidence, Question, Score, evaluate, note_choices
from tui_evals.evaluators.libraries import installed_version
from tui_evals.evaluators.libraries.child import judge_server as protocol
from tui_evals.evaluators.libraries.child.metrics import Job, why_unloadable
from tui_evals.evaluators.libraries.metric import LibraryMetric, library_metric
from tui_evals.evaluators.libraries.worker import end_workers
from tui_evals.text.model_output import Choice

NAME = "azure-ai-evaluation"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    yield stand_in(tmp_path_factory.mktemp("there") / "env")
    end_workers()


async def said(question: Question) -> str:
    return "4 kind enough"


def metric(python: Path, name: str, ask: Any = said, **options: Any) -> LibraryMetric:
    kind = library_metric(f"{NAME}:{name}", python.parent)
    return kind(kind.Options.model_validate({"python": str(python), **options}), ask)


def judged(evaluator: LibraryMetric, *responses: str, **more: Any) -> list[Score]:
    async def all_of_them() -> list[Score]:
        given = [Evidence(prompt="Hello?", response=response, **more) for response in responses]
        return await asyncio.gather(*(evaluate(evaluator, evidence) for evidence in given))

    return asyncio.run(all_of_them())


def test_it_judges_a_run_by_the_judge_of_the_run(tmp_path, python, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    asked = []

    def judge(messages):
        asked.append(messages)
        return "5 very" if "please" in messages[-1]["content"] else "1 rude"

    evaluators = {
        "Polite": {"type": f"{NAME}:PoliteEvaluator", "python": str(python), "scale": [1, 5]},
        "Keys": {"type": f"{NAME}:KeysEvaluator", "python": str(python)},
    }
    run = evaluate_dataset(
        [{"prompt": "please"}, {"prompt": "now"}],
        lambda prompt: f"{prompt}!",
        evaluators=evaluators,
        judge=judge,
        project=tmp_path,
    )
    scores = [answer.scores["Polite"] for answer in run.answers]
    assert [(score.score, score.result, score.reason) for score in scores] == [
        (5, "pass", "5 very"),
        (1, "fail", "1 rude"),
    ]
    assert scores[0].details["library"] == NAME and scores[0].details["version"] == "9.1.2"
    assert scores[0].details["rubric"] == f"{NAME}:PoliteEvaluator 9.1.2"
    assert len(asked) == 2
    known = json.loads(run.answers[0].scores["Keys"].reason)
    assert known["OPENAI_API_KEY"] != "sk-of-the-user" and known["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    assert known["DEEPEVAL_TELEMETRY_OPT_OUT"] == "1" and known["RAGAS_DO_NOT_TRACK"] == "true"
    assert known["HF_HUB_DISABLE_TELEMETRY"] == "1"


@pytest.mark.nightly
def test_a_process_that_dies_is_replaced_and_one_that_hangs_is_ended(tmp_path, python):
    dies = metric(python, "DiesEvaluator", options={"mark": str(tmp_path / "died")})
    assert {record.result for record in judged(dies, "a", "b", "c")} == {"pass"}
    assert (tmp_path / "died").exists()
    hangs = metric(python, "HangsEvaluator", seconds=1.0)
    fine, hung, also_fine = judged(hangs, "a", "hang", "b")
    assert fine.result == also_fine.result == "pass"
    assert hung.reason == "Evaluator failed: it gave no result within 1 s of its own and was stopped"
    stopped, later = judged(hangs, "stop", "much to read " * 100_000)
    assert stopped.result == "error"
    assert later.result == "pass" or "was stopped" in later.reason  # unread, where it went to the stopped process
    assert judged(hangs, "c")[0].result == "pass"


def a_job(values, variables=None, named=None):
    return Job(1, {"values": values, "variables": variables or {}, "map": named or {}}, None, None)


def test_a_parameter_of_a_library_is_what_the_map_names_or_what_its_name_means():
    values, variables = {"prompt": "asked", "response": "said", "context": None}, {"response": "other", "tone": "kind"}
    job = a_job(values, variables)
    parameters = ("question", "answer", "response", "tone", "contexts", "unknown")
    assert [job.value(each) for each in parameters] == ["asked", "said", "said", "kind", None, None]
    for source, value in {"prompt": "asked", "response": "said", "tone": "kind"}.items():
        assert a_job(values, variables, {"answer": source}).value("answer") == value
    with pytest.raises(LookupError, match="there is no context, which the map names for answer"):
        a_job(values, variables, {"answer": "context"}).value("answer")
    with pytest.raises(LookupError, match="'mood', which the map names for answer, is no evidence and no variable"):
        a_job(values, variables, {"answer": "mood"}).value("answer")
    mapped = a_job(values, variables, {"style": "tone"})
    assert mapped.inputs(["question", "contexts", "answer"], lists=["answer"]) == {
        "question": "asked",
        "answer": ["said"],
        "style": "kind",
    }


def test_what_it_gives_is_read_and_what_it_lacks_is_said(tmp_path, python):
    (words,) = judged(metric(python, "WordsEvaluator", threshold=2.0), "two words")
    assert (words.score, words.result, words.threshold) == (2, "pass", 2)
    (beyond,) = judged(metric(python, "WordsEvaluator", scale=[0, 1]), "two words")
    assert "WordsEvaluator: 2 is not on its scale, from 0 to 1" in beyond.reason
    (mapped,) = judged(metric(python, "WordsEvaluator", map={"response": "said"}), "one", variables={"said": "a b c"})
    assert mapped.score == 3
    (unmapped,) = judged(metric(python, "WordsEvaluator", map={"response": "said"}), "one")
    assert "'said', which the map names for response, is no evidence and no variable" in unmapped.reason
    (figure,) = judged(metric(python, "WordsEvaluator", options={"result": "letters"}), "one")
    assert "its result has no figure 'letters'; there are words" in figure.reason
    (raised,) = judged(metric(python, "RaisesEvaluator"), "one")
    assert raised.reason == "Evaluator failed: ValueError: it cannot be measured"
    assert "Traceback" in str(raised.details["traceback"])
    (unknown,) = judged(metric(python, "NoSuchEvaluator"), "one")
    assert "azure-ai-evaluation has no NoSuchEvaluator" in unknown.reason
    (alone,) = judged(metric(python, "PoliteEvaluator", ask=None), "one")
    assert alone.reason == f"{NAME}:PoliteEvaluator needs a judge and none was named"

    async def refuses(question: Question) -> str:
        raise CannotJudge("judgeRateLimited", "the judge is busy")

    (refused,) = judged(metric(python, "PoliteEvaluator", ask=refuses), "one")
    assert (refused.details["code"], refused.reason) == ("judgeRateLimited", "the judge is busy")
    (absent,) = judged(metric(tmp_path / "bin" / "python", "WordsEvaluator"), "one")
    assert "which is not there; name it with the option python" in absent.reason


def test_what_is_agreed_to_is_one_release_in_one_python(tmp_path, python):
    kind = library_metric(f"{NAME}:WordsEvaluator", tmp_path)
    does, code = kind.approval({"python": str(python)})
    assert does == f"runs {NAME}:WordsEvaluator of {NAME} 9.1.2 of {python}"
    other = stand_in(tmp_path / "other", "9.2.0")
    assert installed_version(str(other), NAME) == "9.2.0"
    assert kind.approval({"python": str(other)})[1] != code
    lacking = library_metric("ragas:Faithfulness", tmp_path)
    options = lacking.Options.model_validate({"python": str(python)})
    assert f"`{python} -m pip install ragas`" in str(lacking(options).obstacle())


def test_a_row_runs_no_library_that_nobody_agreed_to(tmp_path, python, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    shell = Shell(capsys)
    row = (
        "score",
        f"{NAME}:WordsEvaluator",
        "--response",
        "two words",
        "--options",
        json.dumps({"python": str(python)}),
    )
    refused = shell(*row)
    assert f"runs {NAME}:WordsEvaluator of {NAME} 9.1.2" in refused.out and "tui-evals trust" in refused.out
    assert "2" in shell(*row, "--trust").out


def test_the_metrics_of_a_python_are_listed(python, capsys):
    shell = Shell(capsys)
    done = shell("evaluators", "packages", "--python", python)
    assert "azure-ai-evaluation 9.1.2" in done.out and "azure-ai-evaluation:PoliteEvaluator" in done.out
    assert f"not installed for {python}: autoevals, deepeval, ragas, evaluate" in done.out
    assert shell("evaluators", "packages", "--python", "/no/python").code == 2


def test_the_door_speaks_openais_protocol_to_who_knows_its_token():
    asked: list[tuple[int, Any]] = []

    def ask(job: int, question: Any) -> Any:
        asked.append((job, question))
        if "texts" in question:
            return [[1.0, 2.0] for _ in question["texts"]]
        return 'Sure: {"choice": "B"}' if question["schema"] else "hello"

    server = protocol.JudgeServer(ask, lambda: 7)

    def post(path: str, key: str, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = urllib.request.Request(server.base_url + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)["error"]["message"]

    messages = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": [{"text": "hi"}]}]
    said = post("/chat/completions", server.key(3), messages=messages, max_tokens=9)
    assert said["choices"][0]["message"] == {"role": "assistant", "content": "hello"}
    plain = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert asked[-1] == (3, {"messages": plain, "max_tokens": 9, "schema": None})
    form = {"type": "object", "properties": {"choice": {"enum": ["A", "B"]}}}
    tool = {"name": "choose", "parameters": form}
    called = post("/chat/completions", server.key(), messages=messages, tools=[{"type": "function", "function": tool}])
    function = called["choices"][0]["message"]["tool_calls"][0]["function"]
    assert function == {"name": "choose", "arguments": '{"choice": "B"}'}
    assert asked[-1][0] == 7 and asked[-1][1]["schema"] == form
    responded = post("/responses", server.key(3), input="hi", tools=[{"type": "function", **tool}])
    assert responded["output"][0]["arguments"] == '{"choice": "B"}'
    assert post("/responses", server.key(3), input="hi")["output"][0]["content"][0]["text"] == "hello"
    vectors = post("/embeddings", server.key(3), input=["a", "b"])
    assert [one["embedding"] for one in vectors["data"]] == [[1.0, 2.0]] * 2
    assert post("/chat/completions", "guessed", messages=messages)[0] == 401
    assert post("/files", server.key(3))[0] == 400
    streamed = post("/chat/completions", server.key(3), messages=messages, stream=True)
    assert streamed == (400, "replies are not streamed here")


def test_the_door_passes_how_likely_the_numbers_of_a_reply_were():
    asked = []

    def ask(question):
        asked.append(question)
        return {"text": '{"score": 8}', "choices": [[10, "8", {"8": -0.5, "9": -1.2}]]}

    body = {"messages": [{"role": "user", "content": "Rate it"}], "logprobs": True, "top_logprobs": 20}
    (choice,) = protocol.chat(body, ask)["choices"]
    assert asked[0]["likelihoods"] == 20
    (token,) = choice["logprobs"]["content"]
    assert (choice["message"]["content"], token["token"], token["logprob"]) == ('{"score": 8}', "8", -0.5)
    assert {one["token"]: one["logprob"] for one in token["top_logprobs"]} == {"8": -0.5, "9": -1.2}
    asked.clear()
    assert (
        protocol.chat({"messages": []}, lambda question: asked.append(question) or "8")["choices"][0]["logprobs"]
        is None
    )
    assert "likelihoods" not in asked[0]


def test_a_metric_that_asks_for_likelihoods_is_given_them(python):
    async def reply(question: Question) -> str:
        assert (question.likelihoods, question.params["top_logprobs"]) == (True, 20)
        note_choices((Choice(0, "4", {"4": -0.5, "2": -1.0}),))
        return "4"

    (score,) = judged(metric(python, "LikelyEvaluator", reply), "Hi")
    assert score.score == pytest.approx((4 * math.exp(-0.5) + 2 * math.exp(-1)) / (math.exp(-0.5) + math.exp(-1)))


def test_the_import_error_of_ragas_names_the_remedy():
    missing = ModuleNotFoundError("No module named 'langchain_community.chat_models.vertexai'")
    assert why_unloadable(missing).endswith("pip install 'langchain-community<0.4'")
    assert why_unloadable(ModuleNotFoundError("No module named 'x'")) == "ModuleNotFoundError: No module named 'x'"
    assert why_unloadable(ValueError("langchain_community")) == "ValueError: langchain_community"
