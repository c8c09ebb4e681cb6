"""`tui-evals trend`: which runs, their bars, and whether the last differs from the first."""

import json
import re

import pytest
from rich.cells import cell_len

from tests.cli.past import Said, passing, past
from tests.store.helpers import judged
from tests.tui.hostile import STRANGE
from tui_evals.cli.compare import trend
from tui_evals.compare.trend import align_runs, bar_range, draw_bars, known_span, signed_number, thin_values

pytestmark = [pytest.mark.usefixtures("project"), pytest.mark.story]


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of so many columns."""
    return lambda width: monkeypatch.setattr(trend, "columns", lambda: width)


def test_the_runs_of_the_latest_dataset_are_bars_and_a_table_with_the_oldest_first(shell):
    past(Said("other"), source="other.json")
    runs = [past(*passing(20, good)) for good in (0, 10, 20)]
    past(*passing(20, 0), status="interrupted")
    out = shell("trend").out
    assert "What passes in the latest 3 finished runs of evals.json" in out
    assert re.search(r"^demo +▁▅█ +0.0 % +100.0 % +\+100.0 pts$", out, re.MULTILINE)
    assert f"{runs[2].key} is better than {runs[0].key}: 20 more of 20 items pass (p < 0.001)" in out
    assert re.findall(r"^(\w{6}) +\d{4}-", out, re.MULTILINE) == [run.key for run in runs]
    assert re.search(rf"^{runs[1].key} .* 50.0 % +20 items +29.1 to 70.9 +unpriced$", out, re.MULTILINE)
    assert "the price of some calls is unknown" in out


def test_a_dataset_is_named_by_its_file_its_source_or_a_run(shell, project):
    run = past(Said(), source="evals.json", name="weekly")
    past(Said(), source="other.json")
    (project / "evals.json").write_text("{}")
    for word in ("evals.json", project / "evals.json", "weekly", run.key):
        assert "of evals.json" in shell("trend", word).out
    (project / "evals.json").unlink()
    assert "of evals.json" in shell("trend", "evals.json").out
    (project / "new.json").write_text("{}")
    done = shell("trend", "new.json")
    assert done.code == 1 and "there is no finished run of new.json yet" in done.err
    assert "there is no run 'nothing'" in shell("trend", "nothing").err
    assert "no run has asked a dataset nothing.json" in shell("trend", "nothing.json").err


def test_a_trend_and_a_report_say_the_same_cost(shell):
    past(Said(), Said("b"))
    (run,) = json.loads(shell("trend", "--json").out)["runs"]
    assert run["unpriced"] == 2 and "cost unknown, 2 unpriced" in shell("report", "--to", "md", "-o", "-").out


def test_a_change_of_no_size_is_none_whatever_the_rounding_of_floats(shell):
    for scores in ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1]):
        past(*(Said(f"t{n}", scores=[judged("Match", score)]) for n, score in enumerate(scores)))
    assert re.search(r"^demo +\S+ +0.2 +0.2 +0$", shell("trend", "--evaluator", "Match").out, re.MULTILINE)
    assert signed_number(-1.1e-16, ".3g") == "0" and signed_number(2.5e-6, ".3g") == "+2.5e-06"


def test_a_dataset_is_the_same_from_a_folder_of_the_project(shell, project, monkeypatch):
    past(Said(), source="./evals.json")
    past(Said())
    (project / "evals.json").write_text("{}")
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    for words in ((), ("../evals.json",), ("evals.json",)):
        assert "the latest 2 finished runs of evals.json" in shell("trend", *words).out
    assert "A is the finished run of evals.json before" in shell("compare").out


def test_a_target_of_one_run_alone_has_not_changed_by_nothing(shell):
    past(*passing(4, 4), targets=("small",))
    past(*passing(4, 2), targets=("large",))
    assert re.search(r"^small +█ +100.0 % +100.0 %$", shell("trend").out, re.MULTILINE)


def test_a_target_that_some_runs_do_not_have_leaves_gaps(shell):
    past(*passing(4, 4), targets=("small",))
    past(*passing(4, 0), *passing(4, 2, target=1), targets=("small", "large"))
    past(*passing(4, 4), targets=("large",))
    out = shell("trend").out
    assert re.search(r"^small +█▁ +100.0 % +0.0 % +-100.0 pts$", out, re.MULTILINE)
    assert re.search(r"^large +▅█ +50.0 % +100.0 % +\+50.0 pts$", out, re.MULTILINE)
    assert "small: " in out and "4 fewer of 4 items" in out
    assert "large: " in out and "2 more of 4 items" in out


def test_each_target_is_tested_on_its_own(shell):
    for good in (0, 8):
        past(*passing(8, good), *passing(8, 8 - good, target=1), targets=("up", "down"))
    out = shell("trend").out
    assert re.search(r"^up: \w+ is better than \w+: 8 more of 8 items pass", out, re.MULTILINE)
    assert re.search(r"^down: \w+ is worse than \w+: 8 fewer of 8 items pass", out, re.MULTILINE)


def test_one_run_is_a_sentence_and_its_row(shell):
    run = past(Said())
    out = shell("trend").out
    assert "A trend takes two runs or more." in out and run.key in out


@pytest.mark.nightly
def test_two_hundred_runs_fit_a_terminal_as_means_and_are_whole_in_a_pipe(shell, terminal):
    for number in range(200):
        past(Said(status="pass" if number >= 100 else "fail"))
    out = shell("trend", "--limit", 200).out
    assert "▁" * 100 + "█" * 100 in out and len(out.splitlines()) > 200
    terminal(80)
    out = shell("trend", "--limit", 200).out
    assert max(map(cell_len, out.splitlines())) <= 80
    assert re.search(r"^demo +▁{12,14}.?█{12,14} ", out, re.MULTILINE) and "each the mean of 8 runs" in out
    terminal(80)
    item = shell("trend", "--limit", 200, "--item", "a").out
    assert max(map(cell_len, item.splitlines())) <= 80 and item.count("✗") >= 200


def test_limit_takes_the_latest_runs(shell):
    keys = [past(Said()).key for _ in range(4)]
    out = shell("trend", "--limit", 2).out
    assert re.findall(r"^(\w{6}) +\d{4}-", out, re.MULTILINE) == keys[2:]


def test_a_category_has_its_own_rate_and_its_own_test(shell):
    past(*passing(6, 0, category="maths"), Said("z", category="history"))
    past(*passing(6, 6, category="maths"), Said("z", "fail", "no", category="history"))
    out = shell("trend", "--category", "maths").out
    assert re.search(r"^demo +▁█ +0.0 % +100.0 % ", out, re.MULTILINE) and "6 more of 6 items" in out
    assert "1 fewer of 1 item" in shell("trend", "--category", "history").out
    assert "(did you mean 'maths'?)" in shell("trend", "--category", "math").err


def test_an_evaluator_has_its_mean_score_on_a_scale_that_holds_it(shell):
    def run(score):
        return past(*(Said(f"t{n}", scores=[judged("Relevance", score), judged("Match", 1.0)]) for n in range(9)))

    first, last = run(5.0), run(2.5)
    out = shell("trend", "--evaluator", "Relevance").out
    assert "Match" not in out
    assert re.search(r"^demo +█▅ +5 +2.5 +-2.5$", out, re.MULTILINE) and "Bars from 0 to 5" in out
    assert f"Relevance: 5 in {first.key}, 2.5 in {last.key} over 9 items: " in out
    assert (
        "these runs have no evaluator 'Relevence' (did you mean 'Relevance'?)"
        in shell("trend", "--evaluator", "Relevence").err
    )


def test_an_item_has_a_sign_for_every_run(shell):
    past(Said("a"), Said("b"))
    past(Said("a", "fail"), Said("b"))
    past(Said("b"))
    past(Said("a", "error", None), Said("b"))
    past(Said("a", "fail", repeat=0), Said("a", repeat=1), Said("a", repeat=2))
    out = shell("trend", "--item", "a").out
    assert re.search(r"^demo  ✓✗ !✓$", out, re.MULTILINE)
    assert "✗ fail ×1 · ✓ pass ×2" in out
    for name in ("c", "A", "*"):
        assert f"these runs have no item '{name}'" in shell("trend", "--item", name).err


def test_two_kinds_of_trend_at_once_are_refused(shell):
    done = shell("trend", "--item", "a", "--category", "b")
    assert done.code == 2 and "give one of --item, --category and --evaluator" in done.err


def test_a_dataset_that_was_edited_between_its_runs_is_said_so(shell):
    past(Said())
    past(Said(), items=[{"testId": "a", "prompt": "other"}])
    assert "These runs asked 2 versions of the dataset" in shell("trend").out


def test_as_json_it_has_the_runs_and_the_series(shell):
    runs = [past(*passing(10, good)) for good in (1, 9)]
    found = json.loads(shell("trend", "--json").out)
    assert [run["run"] for run in found["runs"]] == [run.key for run in runs]
    assert [[one["value"] for one in run["pass_rates"]] for run in found["runs"]] == [[0.1], [0.9]]
    (series,) = found["series"]
    assert (series["name"], series["values"]) == ("demo", [0.1, 0.9])
    assert series["last_against_first"]["shown"] is True and series["last_against_first"]["items"] == 10
    item = json.loads(shell("trend", "--json", "--item", "t5").out)
    assert item["series"][0]["values"] == [0.0, 1.0] and item["runs"][0]["answers"] == ["fail"]


def test_texts_of_datasets_are_shown_and_never_obeyed(shell):
    for _ in range(2):
        past(Said(STRANGE, category=STRANGE, scores=[judged(STRANGE)]), targets=(STRANGE,), source=STRANGE)
    for arguments in ((), ("--item", STRANGE), ("--category", STRANGE), ("--evaluator", STRANGE)):
        out = shell("trend", *arguments).out
        assert "[/b]" in out and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out)


# -- values over runs


def test_values_are_lined_up_by_name():
    assert align_runs([{"a": 1}, {"b": 2}, {"a": 3, "b": None}]) == {"a": (1, None, 3), "b": (None, 2, None)}
    assert known_span((None, 1, None, 0, None)) == (1, 3) and known_span((None, None)) is None


def test_bars_go_from_the_lowest_to_the_highest_with_gaps():
    assert draw_bars([0, 0.124, 0.125, 0.5, 0.874, 0.875, 1, None]) == "▁▁▂▅▇██ "
    assert draw_bars([-1, 0, 1], -1, 1) == "▁▅█"
    assert bar_range([0.2, None, 4.5]) == (0, 4.5) and bar_range([-2, 0.5]) == (-2, 1) and bar_range([]) == (0, 1)


def test_too_many_values_become_means_of_neighbours():
    assert thin_values([1, 0, None, None, 1], 3) == (2, [0.5, None, 1])
    assert thin_values([1, 0], 5) == (1, [1, 0]) and thin_values([], 5) == (1, [])
