"""`tui-evals compare`: which runs, what it says of them, and which answers it lists."""

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.past import Said, passing, past
from tests.store.helpers import judged
from tests.tui.hostile import STRANGE
from tui_evals.cli.compare import compare
from tui_evals.compare.verdicts import difference_sentence
from tui_evals.store.baselines import set_baseline
from tui_evals.store.reader import Reader
from tui_evals.store.writer import Writer

pytestmark = [pytest.mark.usefixtures("project"), pytest.mark.story]


@pytest.fixture
def narrow(monkeypatch):
    """A terminal of 80 columns."""
    monkeypatch.setattr(compare, "columns", lambda: 80)


def two():
    first = past(Said("e"), Said("d"), Said("c"), Said("b", "fail", "no"), Said("a"))
    later = past(
        Said("e", "error", None), Said("d"), Said("c", text="yes indeed"), Said("b"), Said("a", "fail", "wrong")
    )
    return first, later


def heads(out):
    """The lines that name an answer."""
    return re.findall(r"^[✗✓~=‹›?] (\w+(?: comparable)?)  (\S+)", out, re.MULTILINE)


def test_two_runs_have_a_verdict_and_their_changes_in_order(shell):
    first, later = two()
    done = shell("compare", first.key, later.key)
    assert done.code == 0
    assert re.search(rf"^A +{first.key} +nightly +demo +75.0 % +4 items +25.9 to 99.4$", done.out, re.MULTILINE)
    assert re.search(rf"^B +{later.key} +nightly +demo +75.0 % +4 items +25.9 to 99.4$", done.out, re.MULTILINE)
    assert "Pass rates are over the items that both runs judged." in done.out
    assert "B passes as many of 4 items as A: no difference." in done.out
    assert re.search(
        r"^4 shared answers: cost \S+ → \S+ · tokens \S+ → \S+ · median latency .+ → .+$", done.out, re.MULTILINE
    )
    assert "1 broken · 1 fixed · 1 changed · 1 same · 1 not comparable" in done.out
    assert heads(done.out) == [("broken", "a"), ("fixed", "b"), ("changed", "c"), ("not comparable", "e")]
    assert re.search(r"A ✓ pass +yes\n +B ✗ fail +wrong\n", done.out)


def test_the_verdict_is_the_sentence_of_every_other_place(shell):
    first, later = past(*passing(20, 20)), past(*passing(20, 8))
    with compare.project.reader() as reader:
        found = compare.read_comparison(reader, [first.id, later.id])
    says = difference_sentence(found.against[0], "A", "B")
    assert "12 fewer" in says and "B is worse" in says
    done = shell("compare", first.key, later.key)
    assert says in done.out
    assert re.search(r"^passes +100.0 % +40.0 % +-60.0 pts .* worse$", done.out, re.MULTILINE)
    assert re.search(r"^Match +1.000 +0.400 +-0.600 .* worse$", done.out, re.MULTILINE)


def test_only_and_limit_choose_what_is_listed(shell):
    first, later = two()
    assert heads(shell("compare", first.key, later.key, "--only", "same").out) == [("same", "d")]
    some = shell("compare", first.key, later.key, "--only", "fixed", "--only", "broken", "--limit", 1).out
    assert heads(some) == [("broken", "a")] and "1 more; `--limit 2` shows all" in some
    assert "No answer is gone." in shell("compare", first.key, later.key, "--only", "gone").out


def test_runs_that_agree_say_so(shell):
    first, later = past(Said()), past(Said())
    assert "No answer changed." in shell("compare", first.key, later.key).out


def test_three_runs_each_have_a_sentence_a_table_and_a_kind_for_every_answer(shell):
    runs = past(Said()), past(Said(status="fail", text="no")), past(Said(text="certainly"))
    out = shell("compare", *(run.key for run in runs)).out
    assert "B passes 1 fewer of 1 item than A" in out and "C passes the same of 1 item as A" in out
    assert "B - A" in out and "C - A" in out
    assert re.search(r"B ✗ fail +broken +no\n +C ✓ pass +changed +certainly", out)
    assert heads(shell("compare", *(run.key for run in runs), "--only", "changed").out) == [("broken", "a")]


def test_what_one_run_was_not_asked_is_said_where_there_are_others(shell):
    runs = past(Said(), Said("b")), past(Said()), past(Said(), Said("c"))
    two, three = (shell("compare", *(run.key for run in runs[:count])).out for count in (2, 3))
    assert heads(two) == [("gone", "b")] and "not asked" not in two
    assert heads(three) == [("gone", "b"), ("new", "c")] and three.count("– not asked") == 4


def test_how_many_items_a_test_is_over_is_said_where_that_differs(shell):
    every, some = judged("Match"), judged("Relevance")
    runs = [past(Said("a", scores=[every, some]), Said("b", scores=[every])) for _ in range(2)]
    out = shell("compare", *(run.key for run in runs)).out
    assert re.search(r"^evaluator +items ", out, re.M) and re.search(r"^Relevance +1 ", out, re.M)
    assert "items  " not in shell("compare", past(Said()).key, past(Said()).key).out


def test_that_p_is_corrected_and_its_intervals_are_not_is_said_where_there_are_several(shell):
    def run(value):
        return past(Said("a", scores=[judged("Match", value), judged("Relevance", value)])).key

    assert "p is corrected for 2 tests at once" in shell("compare", run(0.0), run(1.0)).out
    assert "corrected" not in shell("compare", past(Said()).key, past(Said(status="fail")).key).out


@pytest.mark.nightly
def test_small_scores_and_small_differences_have_the_decimals_they_need(shell):
    def line(key, before, after):
        runs = [past(Said(scores=[judged(key, value)])).key for value in (before, after)]
        return re.split(" {2,}", re.search(rf"^{key} .*", shell("compare", *runs).out, re.MULTILINE)[0])[1:4]

    assert line("Cost", 0.0000234, 0.0000312) == ["0.0000234", "0.0000312", "+0.0000078"]
    assert line("Match", 0.5, 0.5004) == ["0.5000", "0.5004", "+0.0004"]
    assert line("Match", 0.1 + 0.2, 0.3) == ["0.300", "0.300", "0.000"]
    assert line("Latency", 184.04, 142.63) == ["184.0", "142.6", "-41.4"]


def test_columns_and_categories_have_tables_where_there_are_several(shell):
    def run(*statuses):
        return past(
            *(Said(f"t{n}", s, target=n % 2, category="xy"[n // 2]) for n, s in enumerate(statuses)),
            targets=("small", "large"),
        )

    first, later = run("pass", "pass", "fail", "fail"), run("pass", "pass", "pass", "fail")
    out = shell("compare", first.key, later.key).out
    table = out[out.index("\ntarget ") :]
    assert re.search(r"^large +50.0 % +50.0 % +0.0 pts .*equal$", table, re.MULTILINE)
    assert re.search(r"^small +50.0 % +100.0 % +\+50.0 pts .*could be chance$", table, re.MULTILINE)
    assert re.search(r"^x · small +100.0 % +100.0 % +1 item$", out, re.MULTILINE)
    assert re.search(r"^y · small +0.0 % +100.0 % +1 item$", out, re.MULTILINE)
    assert re.search(r"^y · large +0.0 % +0.0 % +1 item$", out, re.MULTILINE)


def test_less_can_be_better(shell):
    def run(score, status):
        record = judged("Hedges", score, result=status, threshold=0.5)
        return past(*(Said(f"t{n}", status, scores=[record]) for n in range(10)))

    out = shell("compare", run(0.1, "pass").key, run(0.9, "fail").key).out
    assert re.search(r"^Hedges +0.100 +0.900 +\+0.800 .* worse$", out, re.MULTILINE)
    assert "Less is better: Hedges." in out


def test_what_to_know_before_trusting_the_numbers_is_said(shell):
    first = past(Said(), status="interrupted")
    later = past(Said(), items=[{"testId": "a", "prompt": "another question"}])
    out = shell("compare", first.key, later.key).out
    assert "A is interrupted: answers it does not have yet cannot be compared, and a difference that shows" in " ".join(
        out.split()
    )
    assert "1 item was edited between the runs." in out
    unnamed = past(Said("#1"), items=[{"prompt": "one"}]), past(Said("#1"), items=[{"prompt": "other"}])
    assert "matched by position only" in shell("compare", *(run.key for run in unnamed)).out


def test_what_a_run_that_ended_had_in_flight_is_not_called_running(shell):
    first, later = past(Said()), past(Said(status="pending"), status="interrupted")
    with Writer(compare.project.store_path()) as writer:
        writer.write("UPDATE answers SET status = 'running' WHERE run = ?", later.id)
    assert "B · pending" in shell("compare", first.key, later.key).out


# -- a single run


def test_a_run_alone_is_compared_with_its_baseline(shell):
    first, _, later = past(Said()), past(Said()), past(Said())
    with Writer(compare.project.store_path()) as writer:
        set_baseline(writer, "evals.json", first.id, "ada")
    for words in ((later.key,), ()):
        out = shell("compare", *words).out
        assert re.search(rf"^A +{first.key} ", out, re.MULTILINE) and re.search(rf"^B +{later.key} ", out, re.MULTILINE)
        assert "A is the baseline of evals.json, set by ada." in out


def test_without_a_baseline_it_is_its_parent(shell):
    first = past(Said())
    past(Said())
    later = past(Said(), parent=first.id)
    out = shell("compare").out
    assert re.search(rf"^A +{first.key} ", out, re.MULTILINE)
    assert f"A is the run that {later.key} was made from." in out


def test_without_a_parent_it_is_the_finished_run_before_of_the_same_dataset(shell):
    first = past(Said())
    past(Said(), status="interrupted")
    past(Said(), source="other.json")
    later = past(Said())
    out = shell("compare").out
    assert re.search(rf"^A +{first.key} ", out, re.MULTILINE)
    assert f"A is the finished run of evals.json before {later.key}." in out


def test_the_baseline_itself_is_compared_with_the_run_before_it(shell):
    first, later = past(Said()), past(Said())
    with Writer(compare.project.store_path()) as writer:
        set_baseline(writer, "evals.json", later.id, "ada")
    assert re.search(rf"^A +{first.key} ", shell("compare").out, re.MULTILINE)


def test_with_nothing_to_compare_with_it_says_so(shell):
    run = past(Said())
    done = shell("compare", run.key)
    assert done.code == 2 and f"there is nothing to compare {run.key} (nightly) with" in done.err


def test_with_only_a_stopped_run_before_it_that_one_is_named(shell):
    cut = past(Said(), status="interrupted")
    past(Said())
    only = f"no finished run of its dataset comes before it, only {cut.key}, which is interrupted"
    assert f"{only}; name another run" in " ".join(shell("compare").err.split())


def test_a_run_twice_too_many_and_unknown_ones_are_refused(shell):
    keys = [past(Said()).key for _ in range(5)]
    assert "was given twice" in shell("compare", keys[0], keys[0]).err
    assert "5 runs are too many to compare. Name at most 4" in shell("compare", *keys).err
    assert "there is no run 'nothing'" in shell("compare", keys[0], "nothing").err
    assert len(heads(shell("compare", *keys[:4], "--only", "same").out)) == 1


# -- how it looks


@pytest.mark.usefixtures("narrow")
def test_in_a_terminal_every_line_fits_whatever_signs_there_are(shell):
    wide = "図書館のカード" * 12
    runs = [
        past(
            Said(wide, status, f"{wide} {status}", category=wide, scores=[judged(wide, score)]),
            items=[{"testId": wide, "prompt": wide}],
            name=wide,
            targets=(wide,),
        )
        for status, score in (("pass", 1.0), ("fail", 0.0))
    ]
    lines = shell("compare", *(run.key for run in runs)).out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert sum("…" in line for line in lines) >= 6


def test_in_a_pipe_nothing_is_cut(shell):
    name = "a very long name of an item that does not end " * 5
    first, later = past(Said(name)), past(Said(name, "fail", "no"))
    assert name in shell("compare", first.key, later.key).out


def test_an_answer_that_goes_on_ends_in_an_ellipsis(shell):
    first, later = past(Said(text="word " * 40)), past(Said(status="fail", text="w" * 79))
    out = shell("compare", first.key, later.key).out
    assert re.search(r"A ✓ pass .*word…$", out, re.MULTILINE) and re.search(r"w{79}$", out, re.MULTILINE)


def test_texts_of_datasets_and_models_are_shown_and_never_obeyed(shell):
    def run(status):
        return past(
            Said(STRANGE, status, STRANGE, category=STRANGE, scores=[judged(STRANGE, float(status == "pass"))]),
            name=STRANGE,
            targets=(STRANGE,),
        )

    out = shell("compare", run("pass").key, run("fail").key).out
    assert "[@click=app.quit]press" in out
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out)


def test_as_json_it_says_everything_with_every_line_or_those_of_a_kind(shell):
    first, later = two()
    found = json.loads(shell("compare", first.key, later.key, "--json", "--limit", 1).out)
    assert [run["run"] for run in found["runs"]] == [first.key, later.key]
    assert found["against"][0]["verdict"] == "B passes as many of 4 items as A: no difference."
    assert len(found["lines"]) == 5
    broken = json.loads(shell("compare", first.key, later.key, "--json", "--only", "broken").out)
    assert [line["item"] for line in broken["lines"]] == ["a"] and len(broken["against"]) == 1


def test_a_parent_that_was_deleted_counts_as_none(shell):
    first = past(Said())
    child = past(Said(), parent=first.id)
    with Writer(compare.project.store_path()) as writer, Reader(compare.project.store_path()) as reader:
        writer.delete_run(reader.run(first.id))
    assert f"there is nothing to compare {child.key}" in shell("compare").err


def test_a_store_that_cannot_be_read_is_a_sentence(shell):
    past(Said("a"))
    connection = sqlite3.connect(".evals/evals.db")
    connection.execute("DROP TABLE labels")
    connection.close()
    done = shell("agreement", "last")
    assert done.code == 1 and "evals.db" in done.err and "Traceback" not in done.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_an_output_that_takes_no_more_is_a_sentence(project):
    past(Said("a"))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tui_evals", "show", "last"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert "could not be written" in done.stderr and "Traceback" not in done.stderr
