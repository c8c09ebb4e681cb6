"""`tui-evals battle`: which pairs are judged, what is said of them, and what is refused."""

import json
import re

import pytest

from tests.cli.past import Said, past
from tests.tui.hostile import STRANGE
from tui_evals.cli.compare import battle
from tui_evals.present.columns import cell_width

pytestmark = pytest.mark.story

# Each word of an answer that is a number is its worth, so that a test can say who wins.
JUDGE = r"""
import json, re

FENCED = re.compile(r"<data-([0-9a-f]{16}) (\w+)>\n(.*?)\n</data-\1>", re.DOTALL)
ASKED = []

def worth(text):
    return sum(int(word) for word in re.findall(r"\d+", text))

def fair(messages):
    shown = {name: text for message in messages for _, name, text in FENCED.findall(message["content"])}
    ASKED.append(shown)
    first, second = (worth(shown.get(name, "")) for name in ("first", "second"))
    winner = "tie" if first == second else "first" if first > second else "second"
    return json.dumps({"reason": "It is worth more.", "winner": winner})
"""


@pytest.fixture
def asked(project):
    """A judge named fair, and what it was shown."""
    (project / "judge_by_worth.py").write_text(JUDGE)
    (project / ".evals").mkdir()
    (project / ".evals" / "config.toml").write_text(
        '[judge]\ntarget = "fair"\n[targets.fair]\nmodel = "python:judge_by_worth:fair"\n'
        '[targets.demo]\nmodel = "demo"\nparams = { latency_ms = 0, jitter_ms = 0, error_rate = 0 }\n'
        '[targets.dear]\nmodel = "openai/dear"\nprice = { input_per_million = 2.0, output_per_million = 8.0 }\n'
    )
    import sys

    sys.path.insert(0, str(project))
    sys.modules.pop("judge_by_worth", None)
    import judge_by_worth

    yield judge_by_worth.ASKED
    sys.path.remove(str(project))


def worth(*values, **given):
    """A run whose answers to items a, b, c … are worth so much."""
    items = [{"testId": name, "prompt": f"ask {name}"} for name, _ in zip("abcdefghij", values, strict=False)]
    answers = [Said(name, text=f"worth {value}") for name, value in zip("abcdefghij", values, strict=False)]
    return past(*answers, **{"items": items, **given}).key


def told(shell, *arguments):
    done = shell("battle", *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_battle_says_who_is_preferred_and_how_sure_that_is(shell, asked):
    done = shell("battle", worth(*[1] * 10), worth(*[2] * 9, 0))
    assert done.code == 0 and done.err == ""
    assert "10 pairs of answers: 0 equal, 0 decided earlier, 10 for fair to decide." in done.out
    assert "B is preferred to A, with a win rate of 90.0 % over 10 items" in done.out
    assert "(p = 0.021)." in done.out
    assert "A wins 1 · B wins 9 · 0 ties\n" in done.out
    assert re.search(r"Win rate of B over A: 90.0 %, 95 % interval \d\d\.\d % to 100.0 %; a tie counts half.", done.out)
    assert re.search(r"The answer shown first was preferred in .* could be chance \(p = ", " ".join(done.out.split()))
    assert re.search(r"\nB +\w{6} +nightly +1\d\d\d +\d+ (?:to \d+|or more) *\nA +\w{6} +nightly +[78]\d\d ", done.out)
    assert "Other runs, items or judges give other numbers." in done.out
    assert len(asked) == 20


def test_the_judge_is_shown_what_was_asked_and_expected_and_no_names_of_runs(shell, asked):
    items = [{"testId": "a", "prompt": "ask a", "expected_response": "two", "ideal": ["two", "deux"]}]
    runs = [worth(value, items=items, name=f"candidate-{value}", targets=(f"model-{value}",)) for value in (1, 2)]
    told(shell, *runs)
    assert asked[0] == {
        "asked": "?",
        "reference": "Reference 1\ntwo\n\nReference 2\ndeux",
        "first": "worth 1",
        "second": "worth 2",
    }
    assert asked[1] == {**asked[0], "first": "worth 2", "second": "worth 1"}


def test_every_two_of_several_runs_meet_and_are_rated_together(shell, asked):
    runs = [worth(*values) for values in ([1] * 8, [3] * 7 + [0], [2] * 8)]
    found = told(shell, *runs)
    assert [(duel["left"], duel["right"]) for duel in found["duels"]] == [
        (runs[0], runs[1]),
        (runs[0], runs[2]),
        (runs[1], runs[2]),
    ]
    assert [(duel["left_wins"], duel["right_wins"]) for duel in found["duels"]] == [(1, 7), (0, 8), (7, 1)]
    assert all(duel["adjusted_p"] > duel["p"] for duel in found["duels"])
    elo = [run["elo"] for run in found["runs"]]
    assert elo[1] > elo[2] > elo[0] and sum(elo) == pytest.approx(3000)
    for run in found["runs"]:
        low, high = run["interval"]
        assert low is None or low < run["elo"]
        assert high is None or run["elo"] < high
        assert (low, high) != (None, None)
    assert len(asked) == 48


def test_a_run_more_asks_only_about_the_new_one(shell, asked):
    runs = [worth(value, value) for value in (1, 2, 3)]
    told(shell, *runs[:2])
    del asked[:]
    told(shell, *runs)
    assert len(asked) == 8 and all("worth 3" in (one["first"], one["second"]) for one in asked)


def test_only_answers_to_the_same_question_meet(shell, asked):
    items = [{"testId": name, "prompt": f"ask {name}"} for name in "abcd"]
    first = past(Said("a", text="1"), Said("b", text="1"), Said("c", "error", None), Said("d", text="1"), items=items)
    items = [items[0], {**items[1], "prompt": "something else"}, *items[2:]]
    later = past(Said("a", "fail", "2"), Said("b", text="2"), Said("c", text="2"), Said("d", "pending"), items=items)
    done = shell("battle", first.key, later.key)
    assert "A and B: 2 pairs of answers left out because a side has no answer." in done.out
    assert "A and B: 1 pair of answers left out because the item was edited in between." in done.out
    assert "1 pair of answers: 0 equal" in done.out and len(asked) == 2


def test_columns_meet_as_they_do_when_runs_are_compared(shell, asked):
    both = past(Said("a", text="1"), Said("a", text="5", target=1), targets=("x", "y"))
    other = past(Said("a", text="3"), Said("a", text="4", target=1), targets=("y", "x"))
    found = told(shell, both.key, other.key)["duels"][0]
    assert {(one["first"], one["second"]) for one in asked} == {("1", "4"), ("4", "1"), ("5", "3"), ("3", "5")}
    assert (found["pairs"], found["items"], found["win_rate"]) == (2, 1, 0.5)


@pytest.mark.nightly
def test_a_limit_takes_the_first_pairs_or_draws_them(shell, asked):
    runs = worth(*range(10)), worth(*range(10, 20))
    told(shell, *runs, "--limit", 3)
    assert {one["first"] for one in asked} == {f"worth {value}" for value in (0, 1, 2, 10, 11, 12)}
    del asked[:]
    drawn = told(shell, *runs, "--limit", 3, "--seed", 4)
    again = told(shell, *runs, "--limit", 3, "--seed", 4)
    assert drawn["duels"] == again["duels"] and drawn["duels"][0]["pairs"] == 3 and len(asked) <= 6


@pytest.mark.nightly
def test_a_plan_asks_nothing_and_knows_what_is_decided(shell, asked):
    runs = worth(1, 2, 3, 4), worth(1, 3, 4, 5)
    told(shell, *runs, "--limit", 2)
    del asked[:]
    done = shell("battle", *runs, "--plan")
    assert done.code == 0 and asked == []
    assert "4 pairs of answers, 1 of them equal and 1 decided earlier: 4 judge calls, free" in done.out
    found = json.loads(shell("battle", *runs, "--plan", "--json", "--judge", "dear").out)
    assert {name: found[name] for name in ("pairs", "equal_answers", "decided", "judge_calls")} == {
        "pairs": 4,
        "equal_answers": 1,
        "decided": 0,
        "judge_calls": 6,
    }
    assert 0.005 < found["cost"] < 0.02
    unknown = json.loads(shell("battle", *runs, "--plan", "--json", "--judge", "openai/no-such-model").out)
    assert unknown["cost"] is None


@pytest.mark.cases(9)
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "between 2 to 4 runs; 0 given"),
        (["one"], 2, "between 2 to 4 runs; 1 given"),
        (["one"] * 5, 2, "between 2 to 4 runs; 5 given"),
        (["one", "one"], 2, "was given twice"),
        (["one", "absent"], 2, "there is no run 'absent'"),
        (["one", "other"], 2, "there is nothing to compare"),
        (["one", "two", "--seed", "1"], 2, "--seed belongs to --limit"),
        (["one", "two", "--judge", "nobody"], 3, "nobody"),
        (["one", "two", "--judge", "python:absent:judge"], 3, "absent"),
        (["one", "two", "--judge", "openai/no-such-model", "--max-cost", "1"], 3, "the price of"),
    ],
)
def test_what_cannot_be_fought_is_a_sentence(shell, asked, arguments, code, says):
    worth(1, name="one")
    worth(2, name="two")
    past(Said("z"), items=[{"testId": "z", "prompt": "else"}], name="other")
    done = shell("battle", *arguments)
    assert (done.code, asked) == (code, []) and says in done.err


def test_without_a_judge_there_is_no_battle(shell, project):
    past(Said(), name="one")
    past(Said(text="no"), name="two")
    done = shell("battle", "one", "two")
    assert done.code == 3 and "--judge" in done.err and "config.toml" in done.err


def test_a_judge_that_also_answered_is_pointed_out(shell, asked):
    for name in ("one", "two"):
        worth(len(name), name=name, config={"targets": [{"name": "x", "model": "python:judge_by_worth:fair"}]})
    worth(1, name="two")
    assert "judges favor their own answers" in shell("battle", "one", "two").err


def test_scripted_verdicts_are_called_so(shell, asked):
    done = shell("battle", worth(1, 2), worth(2, 3), "--judge", "demo")
    assert done.code == 0 and "Scripted verdicts are among these" in done.out


def test_equal_answers_alone_need_no_judge_that_works(shell, asked):
    done = shell("battle", worth(1, 2), worth(1, 2), "--judge", "python:absent:judge")
    assert done.code == 0 and "2 ties (2 equal)" in done.out
    assert "there is nothing to choose between" in done.out and "Elo" not in done.out


def test_runs_that_do_not_face_each_other_are_told_apart_from_equal_ones(shell, asked):
    runs = [worth(1, targets=("small",)), worth(2, targets=("large",)), worth(3, targets=("small", "large"))]
    out = shell("battle", *runs).out
    assert "A and B have no answers that face each other" in out and "A and C have no answers" not in out


def test_equal_answers_do_not_hide_that_the_judge_gave_no_verdict(shell, asked, project):
    (project / "silent_judge.py").write_text("def judge(messages): return 'who knows'\n")
    done = shell("battle", worth(1, 2), worth(1, 3), "--judge", "python:silent_judge:judge")
    assert done.code == 1 and "gave not a single verdict" in done.err
    assert "There is no verdict on A and B yet" in done.out and "Elo" not in done.out and "Win rate" not in done.out


@pytest.mark.parametrize("width", [80, 40])
def test_strange_names_and_narrow_terminals_break_no_line(shell, asked, monkeypatch, width):
    monkeypatch.setattr(battle, "columns", lambda: width)
    runs = [worth(value, value, name=STRANGE, targets=(STRANGE,)) for value in (1, 2)]
    done = shell("battle", *runs)
    assert done.code == 0
    shown = [line for line in done.out.splitlines() if not line.startswith("fair:")]
    assert max(map(cell_width, shown)) <= width
    assert not set(done.out) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_what_a_judge_says_reaches_the_terminal_as_text(shell, asked, project):
    (project / "strange_judge.py").write_text("def judge(messages): raise ValueError('\\x1b]0;x\\x07 \\u202e')\n")
    done = shell("battle", worth(1), worth(2), "--judge", "python:strange_judge:judge")
    assert done.code == 1 and "gave not a single verdict" in done.err
    assert not set(done.out + done.err) & {"\x1b", "\x07", "\u202e"}


def two_models(*values):
    """A run of two targets whose answers are worth so much, the first and the second of each pair."""
    answers = [
        Said(name, text=f"worth {value}", target=target)
        for name, pair in zip("abcdefghij", values, strict=False)
        for target, value in enumerate(pair)
    ]
    return past(*answers, targets=("openai/small", "openai/large"))


def test_two_targets_of_a_run_meet_over_what_is_stored(shell, asked):
    run = two_models(*[(1, 2)] * 9, (2, 1))
    done = shell("battle", run.key, "--columns", "small,large", "--max-cost", 2)
    assert done.code == 0 and done.err == ""
    assert f"A  {run.key}  openai/small  openai/small" in done.out and "B  " in done.out
    assert re.search(r"20 judge calls, .*; it stops before \$2\.00 are spent\.", done.out)
    assert "B is preferred to A, with a win rate of 90.0 % over 10 items (p = 0.021)." in done.out
    assert len(asked) == 20
    again = told(shell, run.key, "--columns", "large,small")
    assert again["duels"][0]["win_rate"] == 0.1 and [one["name"] for one in again["runs"]] == [
        "openai/large",
        "openai/small",
    ]
    assert len(asked) == 20


def test_a_battle_of_columns_names_two_of_one_run(shell, asked):
    run = two_models((1, 2)).key
    for words, why in (
        ([run, run, "--columns", "small,large"], "--columns is a battle between two columns of one run"),
        ([run, "--columns", "small,tiny"], "has no column 'tiny'"),
        ([run], "a battle is between 2 to 4 runs; 1 given. --columns A,B is one between two columns of a run"),
    ):
        done = shell("battle", *words)
        assert done.code == 2 and why in " ".join(done.err.split())
    assert asked == []


@pytest.mark.nightly
def test_past_battles_are_listed_and_shown_again_without_asking(shell, asked):
    assert "No battles yet" in shell("battles").out
    run, others = two_models(*[(1, 2)] * 9, (2, 1)), [worth(*[value] * 3) for value in (1, 2, 3)]
    shell("battle", run.key, "--columns", "small,large")
    first = shell("battle", *others, "--limit", 2, "--criteria", "The dearer one.")
    shell("battle", *others, "--limit", 2, "--criteria", "The dearer one.")
    asked.clear()
    later, earlier = json.loads(shell("battles", "--json").out)
    assert earlier["sides"] == [f"openai/small ({run.key})", f"openai/large ({run.key})"]
    assert earlier["summary"] == "B is preferred to A, with a win rate of 90.0 % over 10 items (p = 0.021)."
    assert (later["battle"], later["limit"], later["criteria"], later["judge"]) == (2, 2, "The dearer one.", "fair")
    assert later["summary"].startswith("Elo: C ")
    listed = " ".join(shell("battles").out.split())
    assert f"A openai/small ({run.key}) · B openai/large ({run.key})" in listed and "at most 2 pairs" in listed
    shown = shell("battles", 2)
    assert shown.code == 0 and "The dearer one." in shown.out
    result = first.out[first.out.index("\nB is preferred") :]
    assert result in shown.out
    assert json.loads(shell("battles", 1, "--json").out)["duels"][0]["win_rate"] == 0.9
    assert asked == []
    missing = shell("battles", 7)
    assert missing.code and "there is no battle 7; `tui-evals battles` lists them" in missing.err


@pytest.mark.nightly
def test_with_a_run_its_battles_are_deleted(shell, asked):
    runs = [worth(value) for value in (1, 2, 3)]
    shell("battle", *runs[:2])
    shell("battle", *runs[1:])
    assert shell("delete", runs[0], "--yes").code == 0
    (left,) = json.loads(shell("battles", "--json").out)
    assert left["sides"] == [f"nightly ({key})" for key in runs[1:]]
