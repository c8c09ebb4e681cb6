"""A budget holds over kills, resumes, timeouts and broken replies."""

import json
import signal

import pytest

from tests.runs.conftest import kill, until
from tui_evals.store.details import read_scores

A_CENT = "[targets.main.price]\ninput_per_million = 0.0\noutput_per_million = 1000.0\n"
LONGEST = "[targets.main.params]\nmax_tokens = 50\n"
"""With this price an answer of 50 tokens, the longest there is, costs 0.05."""


def billed(project):
    return project.server.counts()["billed"].get("completion_tokens", 0) / 1000


def money_of(project):
    """What the last run says it cost, and what it says it may have cost besides."""
    standing = json.loads(project.do("show", "last", "--json"))
    return standing["cost"], standing["may_cost"]


@pytest.mark.story
def test_over_any_number_of_kills_the_server_never_bills_more_than_the_limit(project):
    server = project.server
    server.behave(tokens=50, latency=0.1)
    project.configure(A_CENT + LONGEST, concurrency=5)
    project.dataset(60)
    process = project.start("run", "data.json", "--target", "main", "--max-cost", 1, "--quiet")
    for asked in (3, 9):
        until(lambda asked=asked: server.counts()["asked"] >= asked)
        kill(process)
        cost, perhaps = money_of(project)
        assert cost <= billed(project) <= cost + perhaps + 1e-9 <= 1.0 + 1e-9
        process = project.start("resume", "last", "--quiet")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4 and "perhaps" in err and "of a limit of $1.00" in err, err
    cost, perhaps = money_of(project)
    assert 0.4 < cost <= billed(project) <= cost + perhaps + 1e-9 <= 1.0 + 1e-9
    assert f", perhaps ${perhaps:.3f} more" in (shown := project.do("show", "last")), shown[:1500]
    project.do("resume", "last", "--max-cost", 9, "--quiet")
    assert {row[2] for row in project.table()} == {"pass"}


def test_what_timed_out_or_broke_is_booked_at_what_it_may_have_cost_and_a_refusal_is_not(project):
    project.server.behave(tokens=50, retry_after=0)
    project.configure(A_CENT + LONGEST, concurrency=1, timeout=0.4, retries=1)
    ends = ["", " [[hang]]", " [[reset*1]]", " [[503*1]]", " [[no_usage]]"]
    project.dataset(len(ends), lambda number: f"question {number}{ends[number]}")
    project.do("run", "data.json", "--target", "main", "--max-cost", 1, "--quiet", code=None)
    cost, perhaps = money_of(project)
    # Beside three answers, the short question that looked for the target after the second timeout.
    assert (cost, perhaps) == pytest.approx((0.05 * (3 + 1), 0.05 * (2 + 1 + 1)))
    with project.reader() as reader:
        calls = [(call.code, call.cost, call.may_cost) for call in reader.calls(reader.find_run("last").id)]
        assert reader.totals_by(reader.find_run("last").id, "target")[0].may_cost == pytest.approx(perhaps)
    assert calls.count(("agentTimeout", None, 0.05)) == 2
    assert [call for call in calls if call[0] == "agentRequestFailed"] == [
        ("agentRequestFailed", None, 0.05),
        ("agentRequestFailed", None, None),
    ]
    assert "and 1 unpriced, perhaps $0.200 more" in project.do("show", "last")


@pytest.mark.nightly
def test_timeouts_spend_a_budget_like_answers(project):
    """Two attempts at each question that hangs are 0.10: the limit is reached though nothing is known to have cost."""
    project.server.behave(tokens=50, shares={"hang": 0.8}, seed=4)
    project.configure(A_CENT + LONGEST, concurrency=8, timeout=0.3)
    project.dataset(40)
    said = project.do("run", "data.json", "--target", "main", "--max-cost", 1, "--quiet", code=4)
    assert "the budget is spent" in said and "perhaps" in said
    cost, perhaps = money_of(project)
    assert billed(project) <= cost + perhaps + 1e-9 <= 1.0 + 1e-9


def test_tools_and_schemas_count_among_what_a_call_may_cost(project):
    """Calls that go out together must not overshoot because their questions are longer than their messages."""
    from tui_evals.runs.limits import most_it_can_cost
    from tui_evals.targets.base import Price, Request

    tools = ({"type": "function", "function": {"name": "look_up", "description": "x" * 1000}},)
    plain = Request(messages=({"role": "user", "content": "x"},), params={"max_tokens": 10, "n": 2})
    price = Price(1e6, 1e6)
    full = Request(messages=plain.messages, params=plain.params, tools=tools, response_format={"schema": "x" * 500})
    assert most_it_can_cost(plain, price) < 2 * 10 + 100
    assert most_it_can_cost(full, price) > most_it_can_cost(plain, price) + 1500


JUDGE = """[targets.judge]
model = "openai/judge-model"
base_url = "{url}"
concurrency = 4
[judge]
target = "judge"
"""
VERDICT = {"say": '{"reason": "poor", "score": 1}', "markers": False}


@pytest.mark.story
@pytest.mark.parametrize("again", [False, True])
def test_a_kill_during_judging_asks_nothing_again_beyond_calls_in_flight_also_without_the_cache(project, again):
    server = project.server
    server.behave(model="judge-model", latency=0.05, **VERDICT)
    project.configure(JUDGE.format(url=server.url), concurrency=20)
    project.dataset(30, default_evaluators={"Relevance": {}, "Coherence": {}})
    if again:
        project.do("run", "data.json", "--target", "main", "--quiet", "--no-cache", "--without-judges")
        server.reset()
        server.behave(model="judge-model", latency=0.05, **VERDICT)
        process = project.start("rescore", "last", "--judge", "judge", "--no-cache", "--quiet")
    else:
        process = project.start("run", "data.json", "--target", "main", "--quiet", "--no-cache")
    judged = lambda: [q["asked"] for q in server.counts()["questions"] if q["model"] == "judge-model"]  # noqa: E731
    until(lambda: sum(judged()) >= 25)
    kill(process)
    project.do("resume", "last", "--quiet")
    assert len(judged()) == 60 and sum(judged()) <= 60 + 4
    with project.reader() as reader:
        run = reader.find_run("last")
        assert len(list(read_scores(reader, run.id))) == 60
        assert reader.query("SELECT count(*) FROM replies") == [(0,)], "they are kept until the pass is whole"
        assert not reader.cache_info().entries


def test_the_short_question_never_waits_for_money_that_those_hold_who_wait_for_it(project):
    """Two questions wait for the short one while a third came out far above its limit: all of them must end."""
    server = project.server
    server.behave(model="test-model", tokens=50, latency=0.4)
    server.behave(model="large-model", tokens=500, markers=False)
    large = f'[targets.large]\nmodel = "openai/large-model"\nbase_url = "{server.url}"\n'
    same = (A_CENT + LONGEST).replace("targets.main", "targets.large")
    project.configure(A_CENT + LONGEST + large + same, concurrency=2, retries=0)
    project.dataset(2, lambda number: f"question {number} [[500]]")
    process = project.start("run", "data.json", "--target", "main,large", "--max-cost", 1.04, "--quiet")
    try:
        until(lambda: process.poll() is not None, 30)
    finally:
        kill(process)
    assert {row[4] for row in project.table()} == {"agentRequestFailed", None}


def test_calls_that_are_given_up_while_they_are_out_may_have_been_paid_for(project):
    project.configure(A_CENT + LONGEST, concurrency=3)
    project.dataset(9, "question {} [[hang]]".format)
    process = project.start("run", "data.json", "--target", "main", "--max-cost", 1)
    until(lambda: project.server.counts()["asked"] == 3)
    process.send_signal(signal.SIGINT)
    assert any("Ctrl-C again stops now" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert money_of(project) == pytest.approx((0.0, 0.15))
