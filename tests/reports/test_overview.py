"""The overview of runs whose tests were made from rules: what is counted, and where."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports.overviews import GOLDEN, again, answered, baseline, compliance, golden, item, metric, ruled, run
from tests.reports.stores import Given, bad, errored, every
from tui_evals.reports.overview import NotFromRules, csv_text, json_text, percent, read_overview, table
from tui_evals.store.reader import Reader

UNJUDGED = frozenset({"Match"})
YES, NO, UNKNOWN = (compliance(good) for good in (True, False, None))
TWO = {"Compliance": {}, "a": {"type": "nice", "judge": "judge a"}, "b": {"type": "nice", "judge": "judge b"}}


def overview(folder, *runs):
    with Reader(folder / ".evals" / "evals.db") as reader:
        return read_overview(reader, runs, UNJUDGED)


def lines(folder, *runs):
    """The rows of the table by their headings."""
    headings, rows = table(overview(folder, *runs))
    return [dict(zip(headings, row, strict=True)) for row in rows]


def by_item(*given):
    """The answers of a run by the items they are to."""
    return lambda row: given[row.item]


def test_golden_06_the_recorded_speech_tagger_has_its_percentages_and_pairs(tmp_path):
    rows = lines(tmp_path, golden(tmp_path))
    shares = {row["model"]: f"{row['tests compliant']},{row['baseline compliant']}" for row in rows}
    assert list(shares) == list(GOLDEN)
    assert list(shares.values()) == ["100%,100%", "95%,98%", "98%,93%", "10%,2%"]
    pairs = [f"{row['tests positive compliant']}/{row['tests negative compliant']}" for row in rows]
    assert pairs == ["21/21", "21/19", "20/21", "1/3"]
    counts = {(row["tests"], row["tests positive"], row["tests negative"], row["baseline"]) for row in rows}
    assert counts == {("42", "21", "21", "42")}
    assert "errors" not in rows[0] and "tests valid" not in rows[0] and "scenario" not in rows[0]


def test_golden_10_two_judges_of_a_metric_have_an_average_beside_them(tmp_path):
    scores = answered(YES, metric(80, "a"), metric(60, "b"))
    (row,) = lines(tmp_path, run(tmp_path, ruled(2), every(scores), evaluators=TWO))
    metrics = {name: cell for name, cell in row.items() if name.startswith("nice")}
    assert metrics == {"nice with judge a": "80", "nice with judge b": "60", "nice with average": "70"}


def test_an_average_is_over_judges_in_each_answer_and_then_over_answers(tmp_path):
    both, one = answered(metric(80, "a"), metric(60, "b")), answered(metric(10, "a"))
    (row,) = lines(tmp_path, run(tmp_path, ruled(2), by_item(both, one), evaluators=TWO))
    assert (row["nice with judge a"], row["nice with judge b"]) == ("45", "60")
    assert row["nice with average"] == "40"


def test_a_mean_is_over_what_was_scored_only(tmp_path):
    broken = metric(None, result="error", reason="no number")
    left_out = metric(None, result="skipped")
    given = by_item(answered(metric(90)), answered(metric(40)), answered(broken, status="partial"), answered(left_out))
    made = run(tmp_path, ruled(4), given, evaluators={"nice": {}})
    assert lines(tmp_path, made)[0]["nice with gpt"] == "65"
    found = overview(tmp_path, made)
    (measured,) = json.loads(json_text(found))["rows"][0]["metrics"]
    assert measured == {
        "column": "nice with gpt",
        "metric": "nice",
        "judge": "gpt",
        "average": False,
        "mean": 65.0,
        "scored": 2,
        "passed": 0,
        "failed": 0,
        "errored": 1,
        "skipped": 1,
    }
    assert next(csv.DictReader(io.StringIO(csv_text(found))))["nice with gpt n"] == "2"
    assert any("nice with gpt: 1 answer could not be judged, 1 answer was skipped;" in note for note in found.notes)


def test_a_metric_that_only_says_ok_or_err_shows_how_many_are_ok(tmp_path):
    ok = metric(1.0, label="ok", result="pass")
    err = metric(0.0, label="err", result="fail")
    three = by_item(answered(ok), answered(ok), answered(err))
    (row,) = lines(tmp_path, run(tmp_path, ruled(3), three, evaluators={"nice": {}}))
    assert row["nice with gpt"] == "2 (67%)"
    mixed = by_item(answered(ok), answered(metric(30)), answered(err))
    assert lines(tmp_path, run(tmp_path, ruled(3), mixed, evaluators={"nice": {}}))[0]["nice with gpt"] == "30"


def test_judges_that_only_say_ok_or_err_have_no_average(tmp_path):
    ok = answered(*(metric(1.0, key, label="ok", result="pass") for key in "ab"))
    (row,) = lines(tmp_path, run(tmp_path, ruled(1), every(ok), evaluators=TWO))
    assert [name for name in row if name.startswith("nice")] == ["nice with judge a", "nice with judge b"]


def test_a_score_with_a_threshold_is_a_score_whatever_its_label_says(tmp_path):
    passed = answered(metric(1.0, label="ok", result="pass", threshold=0.5))
    assert lines(tmp_path, run(tmp_path, ruled(2), every(passed), evaluators={"nice": {}}))[0]["nice with gpt"] == "1"


def test_what_was_not_judged_is_in_no_share(tmp_path):
    silent = answered(UNKNOWN, status="partial")
    given = by_item(answered(YES), answered(YES), answered(NO), silent, answered(metric(1)), answered(UNKNOWN))
    made = run(tmp_path, [*ruled(5), *baseline(1)], given)
    (row,) = lines(tmp_path, made)
    assert (row["tests"], row["tests compliant"], row["tests not judged"]) == ("5", "67%", "2")
    assert (row["baseline"], row["baseline not judged"]) == ("1", "1") and "baseline compliant" not in row
    found = json.loads(json_text(overview(tmp_path, made)))["rows"][0]["tests"]
    assert found == {"answers": 5, "compliant": 2, "not_compliant": 1, "not_judged": 2, "share": 2 / 3}


def test_the_first_answer_without_a_text_counts_once(tmp_path):
    given = by_item(errored(), answered(YES), errored())
    (row,) = lines(tmp_path, run(tmp_path, ruled(3), given))
    assert (row["errors"], row["tests"], row["tests compliant"]) == ("2", "1", "100%")


def test_answers_that_are_not_there_yet_count_nowhere_and_are_told(tmp_path):
    found = overview(tmp_path, run(tmp_path, ruled(3), by_item(answered(YES), Given(), Given())))
    assert found.rows[0].tests.answers == 1 and found.rows[0].waiting == 2 and found.rows[0].errors == 0
    assert found.notes == (f"{found.rows[0].run}: 2 answers are not there yet and counted nowhere.",)


def test_without_compliance_the_notes_say_that_nothing_is_known(tmp_path):
    found = overview(tmp_path, run(tmp_path, ruled(1), every(answered(metric(5)))))
    assert table(found)[1][0][:3] == ["demo", "1", "--"]
    assert "Compliance judged no answer" in found.notes[0]


def test_compliance_counts_under_any_key_and_each_judge_may_object(tmp_path):
    keys = {"strict": {"type": "Compliance"}, "lax": {"type": "Compliance", "judge": "x"}}
    both = answered(compliance(True, "strict"), compliance(False, "lax"))
    one = answered(compliance(True, "strict"), compliance(None, "lax"))
    (row,) = lines(tmp_path, run(tmp_path, ruled(2), by_item(both, one), evaluators=keys))
    assert (row["tests compliant"], "Compliance with gpt" in row) == ("50%", False)


def test_scenarios_are_rows_of_a_model_and_the_unnamed_one_takes_the_first_name(tmp_path):
    items = [item("a", rule="x"), item("b", rule="x", scenario="French"), item("c", rule="x", scenario="English")]
    given = by_item(answered(NO), answered(YES), answered(YES))
    rows = lines(tmp_path, run(tmp_path, items, given, targets=("one", "two")))
    found = [(row["model"], row["scenario"], row["tests"], row["tests compliant"]) for row in rows]
    assert found == [
        (model, *rest) for model in ("one", "two") for rest in (("French", "2", "50%"), ("English", "1", "100%"))
    ]


def test_prompts_and_repeats(tmp_path):
    made = run(tmp_path, ruled(2), every(answered(YES)), prompts=("short", "long"), repeats=3)
    assert [(row["prompt"], row["tests"]) for row in lines(tmp_path, made)] == [("short", "6"), ("long", "6")]


def test_valid_and_invalid_tests_are_pairs_where_validity_is_known(tmp_path):
    validities = ["ok", "ok", "err", "unknown", None]
    items = [item(f"{n}", rule="x", validity=validity) for n, validity in enumerate(validities)]
    items.append(item("base", baseline=True, validity="ok"))
    given = by_item(*map(answered, (YES, NO, YES, YES, YES, YES)))
    (row,) = lines(tmp_path, run(tmp_path, items, given))
    found = [row[f"tests {kind}{end}"] for kind in ("valid", "invalid") for end in ("", " compliant")]
    assert found == ["2", "1", "1", "1"]


def test_items_that_were_made_from_nothing_count_as_nothing(tmp_path):
    plain = {"testId": "plain", "prompt": "hi"}
    odd = [{**plain, "extensions": {"promptpex": own}} for own in ("text", {"scenario": "x"}, {"baseline": "yes"})]
    items = [plain, *odd, *ruled(1)]
    (row,) = lines(tmp_path, run(tmp_path, items, by_item(errored(), *[answered(NO)] * 3, answered(YES))))
    assert (row["tests"], row["tests compliant"], "errors" in row, "scenario" in row) == ("1", "100%", False, False)


def test_a_dataset_that_was_not_made_from_rules_is_a_sentence(tmp_path):
    plain = run(tmp_path, [{"testId": "a", "prompt": "hi"}], every(bad()), name="plain")
    with pytest.raises(NotFromRules, match=r"\(plain\) asked evals.json: no item of it was made from a rule.*generate"):
        overview(tmp_path, golden(tmp_path), plain)


def test_evaluators_that_ask_nobody_are_no_metrics(tmp_path):
    scores = answered(YES, metric(1.0, "Match", "Match"), metric(3.0, "Coherence", "Coherence"))
    evaluators = {"Compliance": {}, "Match": {}, "Coherence": {}}
    (row,) = lines(tmp_path, run(tmp_path, ruled(1), every(scores), evaluators=evaluators))
    assert row.get("Coherence with gpt") == "3" and not any(name.startswith("Match") for name in row)


def test_labels_that_measure_different_things_keep_their_names(tmp_path):
    evaluators = {
        "kind": {"type": "Rubric", "criteria": "kind?"},
        "kind too": {"type": "Rubric", "criteria": "kind?", "judge": "other", "threshold": 3},
        "short": {"type": "Rubric", "criteria": "short?"},
    }
    given = answered(metric(1, "kind", "Rubric"), metric(3, "kind too", "Rubric"), metric(5, "short", "Rubric"))
    (row,) = lines(tmp_path, run(tmp_path, ruled(1), every(given), evaluators=evaluators))
    found = {name: cell for name, cell in row.items() if " with " in name}
    assert found == {"kind with gpt": "1", "kind with other": "3", "kind with average": "2", "short with gpt": "5"}


def test_an_item_may_name_a_judge_of_its_own(tmp_path):
    items = ruled(2)
    items[1] |= {"evaluators": {"nice": {"judge": "other"}}}
    (row,) = lines(tmp_path, run(tmp_path, items, every(answered(metric(8))), evaluators={"nice": {}}))
    assert [name for name in row if " with " in name] == ["nice with gpt", "nice with other", "nice with average"]


def test_a_judge_nobody_knows_is_not_named(tmp_path):
    (row,) = lines(tmp_path, run(tmp_path, ruled(1), every(answered(metric(8))), evaluators={"nice": {}}, config={}))
    assert row["nice"] == "8"


def test_baseline_tests_take_no_part_in_metrics(tmp_path):
    given = by_item(answered(metric(80)), answered(metric(0)))
    made = run(tmp_path, [*ruled(1), *baseline(1)], given, evaluators={"nice": {}})
    assert lines(tmp_path, made)[0]["nice with gpt"] == "80"


def test_the_latest_scoring_counts_with_its_judge(tmp_path):
    made = run(tmp_path, ruled(1), every(answered(NO, metric(10))), evaluators={"Compliance": {}, "nice": {}})
    later = again(tmp_path, made, every(answered(YES, metric(90))), {"judge": {"name": "better"}, "dataset": None})
    (row,) = lines(tmp_path, later)
    assert (row["tests compliant"], row["nice with better"], "nice with gpt" in row) == ("100%", "90", False)
    assert overview(tmp_path, later).notes == ()
    edited = again(
        tmp_path, made, every(answered(YES, metric(70, "new"))), {"judge": {"name": "better"}, "dataset": "abc"}
    )
    assert lines(tmp_path, edited)[0]["new"] == "70"
    assert "scored again as an edited dataset says" in overview(tmp_path, edited).notes[0]


def test_runs_stand_below_each_other_with_the_metrics_of_all(tmp_path):
    first = run(tmp_path, ruled(1), every(answered(YES, metric(50))), evaluators={"Compliance": {}, "nice": {}})
    other = run(tmp_path, ruled(1, scenario="French"), every(answered(NO)))
    rows = lines(tmp_path, first, other)
    found = [(row["run"], row["scenario"], row["tests compliant"], row["nice with gpt"]) for row in rows]
    assert found == [(first.key, "", "100%", "50"), (other.key, "French", "0%", "")]


def test_turns_of_a_conversation_count_each(tmp_path):
    talk = {"testId": "talk", "turns": [{"prompt": "a"}, {"prompt": "b"}], "extensions": ruled(1)[0]["extensions"]}
    (row,) = lines(tmp_path, run(tmp_path, [talk], lambda row: answered(compliance(row.turn == 0))))
    assert (row["tests"], row["tests compliant"]) == ("2", "50%")


def test_csv_reads_back_and_names_are_made_harmless(tmp_path):
    scores = answered(YES, metric(33.335, "=nice", "=nice"))
    made = run(tmp_path, ruled(3), every(scores), evaluators={"=nice": {}}, targets=("=1+1", "--"))
    found = overview(tmp_path, made)
    rows = list(csv.DictReader(io.StringIO(csv_text(found))))
    assert [row["model"] for row in rows] == ["'=1+1", "'--"] and "'=nice with gpt" in rows[0]
    assert next(csv.DictReader(io.StringIO(csv_text(found, raw=True))))["model"] == "=1+1"
    unknown = overview(tmp_path, run(tmp_path, ruled(1), every(answered(UNKNOWN))))
    assert next(csv.DictReader(io.StringIO(csv_text(unknown))))["tests compliant"] == "--"


@given(st.integers(0, 500), st.integers(1, 500))
def test_percent_is_the_nearest_and_halves_go_up(part, whole):
    off = 200 * part - 2 * whole * int(percent(part, whole).removesuffix("%"))
    assert -whole <= off < whole


def test_percent_of_halves_and_nothing():
    assert [percent(1, 200), percent(1, 8), percent(3, 200), percent(0, 0), percent(0, 3)] == [
        "1%",
        "13%",
        "2%",
        "--",
        "0%",
    ]
