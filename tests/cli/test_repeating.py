"""`show --by repeats`: what repeats and judgings say together, and how to get them."""

import json
import sys

import pytest


@pytest.fixture
def judged(project, one_server):
    """A dataset of three items that a model answers and another one judges."""
    interval = sys.getswitchinterval()
    server = one_server
    server.reset()
    server.behave(model="judge-model", say='{"reason": "fine", "score": 4}', markers=False)
    items = [{"prompt": f"question {n}", "expected_response": f"question {n}"} for n in range(3)]
    evaluators = {"Relevance": {}, "Includes": {}}
    dataset = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": items}
    (project / "data.json").write_text(json.dumps(dataset))
    (project / ".evals").mkdir()
    targets = "".join(
        f'[targets.{name}]\nmodel = "openai/{model}"\nbase_url = "{server.url}"\n'
        for name, model in (("main", "test-model"), ("judge", "judge-model"))
    )
    (project / ".evals" / "config.toml").write_text(f'{targets}[judge]\ntarget = "judge"\n')
    yield server
    sys.setswitchinterval(interval)


RUN = ("run", "data.json", "--target", "main", "--quiet")


def repeats(shell):
    return json.loads(shell("show", "last", "--by", "repeats", "--json").out)


def test_a_run_without_repeats_says_how_to_get_them(judged, shell):
    assert shell(*RUN).code == 0
    shown = shell("show", "last", "--by", "repeats").out
    assert "--repeats 5" in shown and "--no-cache" in shown
    assert "pass@k" not in shown and "noise of the" not in shown


def test_judges_are_asked_again_only_where_that_is_wished(judged, shell):
    shell(*RUN)
    assert judged.counts()["asked"] == 6
    shell("rescore", "last", "--quiet")
    assert judged.counts()["asked"] == 6
    assert repeats(shell)["passes"] == [2]
    judged.behave(model="judge-model", say='{"reason": "fine", "score": 2}', markers=False)
    shell("rescore", "last", "--no-cache", "--quiet")
    assert judged.counts()["asked"] == 9
    found = repeats(shell)
    assert found["passes"] == [1, 3]
    (column,) = found["columns"]
    assert column["noise"]["Relevance"] == {"model": None, "judge": pytest.approx(2**0.5)}
    assert column["noise"]["Includes"] == {"model": None, "judge": 0.0}
    assert "from 2 equal scoring passes" in shell("show", "last", "--by", "repeats").out


def test_other_evaluators_are_no_repeated_judging(judged, shell):
    shell(*RUN)
    shell("rescore", "last", "-e", '{"Relevance": {"threshold": 5}}', "--no-cache", "--quiet")
    assert repeats(shell)["passes"] == [2]
    shell("rescore", "last", "--no-cache", "--quiet")
    assert repeats(shell)["passes"] == [1, 3]


def test_repeats_are_shown_by_k_with_the_flaky_items(judged, shell):
    judged.behave(model="test-model", say="nothing of the kind", markers=False)
    shell(*RUN, "--repeats", 2)
    steady = shell("show", "last", "--by", "repeats").out
    assert "3 items judged, 3 of them more than once" in steady
    assert "majority 0.0 % · flakiness 0.0 % · 0 flaky" in steady
    assert [line.split()[0] for line in steady.splitlines() if line.startswith("  ")][:3] == ["k", "1", "2"]
    (column,) = repeats(shell)["columns"]
    assert [(one["k"], one["pass@k"], one["pass^k"], one["at_least_k"]) for one in column["by_k"]] == [
        (1, 0.0, 0.0, 0.0),
        (2, 0.0, 0.0, 0.0),
    ]


def test_flaky_items_are_named_with_how_many_of_their_repeats_pass(project, shell):
    items = [{"prompt": "a", "expected_response": "yes"}, {"prompt": "b", "expected_response": "yes"}]
    evaluators = {"Includes": {}}
    dataset = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": items, "repeats": 3}
    (project / "data.json").write_text(json.dumps(dataset))
    (project / "answering_by_turns.py").write_text(
        "def answer(request):\n"
        "    asked = request['messages'][-1]['content']\n"
        "    return 'no' if asked == 'a' and request['repeat'] == 1 else 'yes'\n"
    )
    interval = sys.getswitchinterval()
    done = shell("run", "data.json", "--target", "python:answering_by_turns:answer", "--quiet")
    sys.setswitchinterval(interval)
    assert done.code == 0, done.err
    shown = shell("show", "last", "--by", "repeats").out
    assert "~ #1  2 of 3 pass" in shown and "1 flaky" in shown
    (column,) = repeats(shell)["columns"]
    assert column["flaky_items"] == [{"name": "#1", "passed": 2, "judged": 3, "flakiness": pytest.approx(2 / 3)}]
    assert column["noise"]["Includes"]["model"] == pytest.approx((1 / 6) ** 0.5)
