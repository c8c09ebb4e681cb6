"""Usage, ends, refusals and attempts, from the provider's words to every face."""

import asyncio
import csv
import io
import json
import re
import time
from types import SimpleNamespace

import pytest

from tests.cli.helpers import Shell
from tests.providers import AZURE_BLOCKED, GEMINI_BAD_KEY, gemini_quota, openai_chat, speaking
from tests.tui.story import at_the_workbench
from tui_evals.runs.asking import PricedTarget
from tui_evals.runs.availability import room_of
from tui_evals.runs.limits import Budget
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord
from tui_evals.store.writer import Writer
from tui_evals.targets.base import Request, TargetConfig
from tui_evals.text.measures import money

pytestmark = pytest.mark.story

USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 200,
    "total_tokens": 1200,
    "prompt_tokens_details": {"cached_tokens": 400},
    "completion_tokens_details": {"reasoning_tokens": 120},
}
PRICE = "{ input_per_million = 2.5, cached_per_million = 1.25, output_per_million = 10 }"


@pytest.fixture(scope="module")
def provider():
    with speaking() as provider:
        yield provider


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys, provider):
    """The command line in a project with three items and a provider."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    lines = ['[run]\ntargets = ["main"]\n[targets.main]\nmodel = "openai/m"', f'base_url = "{provider.url}"']
    (tmp_path / ".evals" / "config.toml").write_text("\n".join([*lines, f"price = {PRICE}", "retries = 1\n"]))
    items = [{"prompt": f"question {number}", "expected_response": "Hi"} for number in range(3)]
    (tmp_path / "data.json").write_text(json.dumps({"default_evaluators": {"ExactMatch": {}}, "items": items}))
    return Shell(capsys)


def test_the_line_of_the_only_target_has_the_cost_of_the_whole_run(shell, provider, tmp_path):
    provider.says(openai_chat(usage=USAGE))
    shell("run", "data.json", "--quiet")
    with Writer(tmp_path / ".evals" / "evals.db") as writer, Reader(tmp_path / ".evals" / "evals.db") as reader:
        (run,) = reader.runs()
        is_back = CallRecord(
            answer=None, kind="target", target="main", attempt=1, started=time.time(), latency_ms=5.0, cost=0.5
        )
        writer.call(is_back, run.id)
        writer.flush()
        cost = money(reader.totals(run.id).cost)
    assert cost.startswith("$0.51") and f" · {cost}\n" in shell("show", "last").out


def test_cached_and_thinking_tokens_are_shown_by_every_face(shell, provider, tmp_path):
    provider.says(openai_chat(usage=USAGE))
    shell("run", "data.json", "--quiet")
    detail = shell("show", "last", "--item", "#1").out
    assert "1,000 tokens in (400 cached), 200 out (120 thinking) · $0.0040" in detail
    counted = {"input_tokens": 1000, "output_tokens": 200, "cached_tokens": 400, "reasoning_tokens": 120}
    (data,) = json.loads(shell("show", "last", "--item", "#1", "--json").out)
    for part in (data["row"], data["answer"], *data["calls"]):
        assert {name: part[name] for name in counted} == counted and part["cost"] == pytest.approx(0.004)
    totals = json.loads(shell("show", "last", "--json").out)["totals"]
    assert {name: totals[name] for name in counted} == {name: 3 * count for name, count in counted.items()}
    row = next(csv.DictReader(io.StringIO(shell("report", "last", "--to", "csv", "-o", "-").out)))
    assert {name: int(row[name]) for name in counted} == counted
    line = json.loads(shell("report", "last", "--to", "jsonl", "-o", "-").out.splitlines()[0])
    assert {name: line["answer"][name] for name in counted} == counted
    page = shell("report", "last", "--to", "html", "-o", "-").out
    assert "3,000 in (1,200 cached), 600 out (360 thinking)" in page
    assert "$2.50, $1.25 cached + $10.00 per million tokens" in shell("targets").out


def test_a_filter_that_answers_by_an_error_is_an_answer_with_an_end(shell, provider):
    provider.says(AZURE_BLOCKED, 400)
    shell("run", "data.json", "--quiet")
    rows = json.loads(shell("show", "last", "--only", "content_filter", "--json").out)["answers"]
    assert [(row["status"], row["ending"], row["code"]) for row in rows] == [("fail", "content_filter", None)] * 3
    detail = shell("show", "last", "--item", "#1").out
    assert "blocked by the provider's content filter" in detail
    assert "The answer is empty: 127.0.0.1:" in detail and "content management policy." in detail
    assert len(provider.asked) == 3, "nobody asks a filter twice"
    assert re.search(r"perhaps <?\$0\.0001", detail), "what a filter read may be billed, and no answer"
    provider.says(AZURE_BLOCKED, 400)
    assert shell("run", "data.json").code == 0 and len(provider.asked) == 3, "it is in no cache"


REFUSALS = {
    "a quota of the day": (gemini_quota("GenerateRequestsPerDayPerProject", "0.1s"), 429, "in a day is spent"),
    "credit": ({"error": {"message": "You exceeded it.", "code": "insufficient_quota"}}, 429, "out of credit"),
    "a key": (GEMINI_BAD_KEY, 400, "API key not valid. Please pass a valid API key. Check the key"),
}


@pytest.mark.parametrize("answered", [0, 1])
@pytest.mark.parametrize("why", REFUSALS)
def test_what_will_not_change_ends_the_run_at_once_and_loses_nothing(shell, provider, why, answered):
    document, status, words = REFUSALS[why]
    provider.says(document, status, first=[openai_chat()] * answered)
    done = shell("run", "data.json", "--concurrency", "1")
    assert done.code == (4 if answered else 3) and words in done.err and "Check the question" not in done.err
    assert len(provider.asked) == answered + 1 + (why == "a key"), "of a key a short question is asked too"
    provider.says(openai_chat())
    shell("resume", "last", "--quiet")
    assert [row["status"] for row in json.loads(shell("show", "last", "--json").out)["answers"]] == ["pass"] * 3


def test_a_pause_that_google_asks_for_is_kept(shell, provider):
    provider.says(gemini_quota("GenerateRequestsPerMinutePerProject", "900s"), 429)
    done = shell("run", "data.json", "--concurrency", "1")
    assert done.code == 4 and "It asks for a pause of 900 s" in done.err and len(provider.asked) == 1


@pytest.mark.nightly
def test_every_attempt_is_stored_with_its_start_its_length_and_what_came_of_it(shell, provider, tmp_path):
    provider.says(openai_chat(), latency=0.02, first=[{"hello": "world"}] * 2)
    began = time.time()
    shell("run", "data.json", "--items", "1", "--quiet")
    detail = shell("show", "last", "--item", "#1").out
    with Reader(tmp_path / ".evals" / "evals.db") as reader:
        run = reader.find_run("last")
        (row,) = reader.all_rows(run.id)
        calls = reader.detail(row.id).calls
    assert (row.status, row.attempts) == ("error", 2) and "2 attempts" in detail
    assert [call.attempt for call in calls] == [1, 2]
    assert all(20 <= call.latency_ms < 2000 for call in calls)
    first, second = (call.started for call in calls)
    assert began <= first and first + calls[0].latency_ms / 1000 <= second <= time.time()
    for call, number in zip(calls, ("", "attempt 2 · "), strict=True):
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(call.started))
        assert f"! target main · {moment} · {number}{call.latency_ms:.0f} ms · perhaps $" in detail
    assert detail.count("agentResponseUnparseable: 127.0.0.1") == 2

    async def look():
        async with at_the_workbench(tmp_path, dataset="data.json", run="last", size=(160, 60)) as person:
            await person.press("4", "enter", "5", "z")
            await person.sees("Attempts")
            await person.sees("· attempt 2 ·")

    asyncio.run(look())


async def test_an_attempt_given_up_is_noted_where_no_price_is_known_too():
    """A run that was stopped has asked all the same."""
    noted, out = [], asyncio.Event()

    class Hanging:
        async def ask(self, request):
            out.set()
            await asyncio.Event().wait()

    ledger = SimpleNamespace(called=noted.append)
    config = TargetConfig(name="main", model="openai/m")
    target = PricedTarget(config, Hanging(), {}, None, Budget(None), room_of(config))
    began = time.time()
    task = asyncio.create_task(target.ask(Request(messages=()), ledger))
    await out.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (call,) = noted
    assert (call.code, call.attempt, call.cost, call.may_cost) == ("givenUp", 1, None, None)
    assert began <= call.started <= time.time()
