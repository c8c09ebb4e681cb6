"""Labels at the command line: one by one, blind at a real terminal, and how far evaluators agree."""

import asyncio
import contextlib
import json
import re
import signal
import termios

import pytest

from tests.compare.labelled_runs import JUDGE, OTHER, SECRETS, TARGET, label, labelled_run, score
from tests.tui.hostile import FORBIDDEN, STRANGE
from tests.tui.terminal import workbench
from tui_evals.store.reader import Reader

PASS, FAIL = [score(value=0.37)], [score(value=0.0, result="fail")]
ASKED = r"g good · b bad · s skip · u undo · n note · q stop"


def stored(folder, answers, **given):
    return asyncio.run(labelled_run(folder, answers, **given))


def labels(path):
    """What was said in the end: of which answer, by whom."""
    with Reader(path) as reader:
        return {(one.answer, one.evaluator): (one.verdict, one.note) for one in reader.labels(1)}


@contextlib.contextmanager
def labelling(folder, *more, size=(80, 24)):
    """A person at a terminal who labels blind."""
    with workbench(folder, "label", "last", "--blind", "--author", "ada", *more, size=size) as terminal:
        yield terminal


# -- one by one


def test_a_label_of_one_answer_is_kept_under_the_login_name(project, shell, monkeypatch):
    path, run = stored(project, [PASS, FAIL])
    monkeypatch.setattr("getpass.getuser", lambda: "eve")
    assert shell("label", "last", "t-1", "fail", "--note", "too short").out == f"{run.key} t-1: fail\n"
    with Reader(path) as reader:
        (one,) = reader.labels(run.id)
    assert (one.answer, one.verdict, one.author, one.note, one.evaluator) == (2, "fail", "eve", "too short", None)


def test_a_target_is_asked_for_where_there_are_several(project, shell):
    path, _ = stored(project, [PASS], targets=("one", "two"))
    done = shell("label", "last", "t-0", "pass")
    assert done.code == 2 and "t-0 was answered by one, two; choose one with --target" in done.err
    assert "has no target 'thre'" in shell("label", "last", "t-0", "pass", "--target", "thre").err
    assert shell("label", "last", "t-0", "pass", "--target", "two").code == 0
    assert list(labels(path)) == [(2, None)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["last"], "say which answer, and what you think of it: `tui-evals label last ITEM pass` or fail"),
        (["last", "t-0"], "say which answer, and what you think of it"),
        (["last", "t-9", "pass"], "has no answer to t-9"),
        (["last", "t-0", "pass", "--sample", "3"], "--sample says how many answers --blind goes through"),
        (["last", "t-0", "pass", "--blind"], "--blind goes through many answers: leave ITEM, verdict"),
        (["last", "--blind", "--note", "x"], "--blind goes through many answers"),
        (["last", "--blind", "--turn", "2"], "--blind goes through many answers"),
        (
            ["last", "--blind"],
            "--blind shows one answer after the other and needs a terminal; `tui-evals label last ITEM",
        ),
        (["nope", "t-0", "pass"], "there is no run 'nope'"),
    ],
)
def test_what_is_missing_or_too_much_is_a_sentence(project, shell, arguments, says):
    stored(project, [PASS])
    done = shell("label", *arguments)
    assert done.code == 2 and says in done.err


# -- blind


def test_one_key_for_each_answer_and_at_the_end_what_it_comes_to(project):
    path, run = stored(project, [PASS, FAIL])
    with labelling(project) as terminal:
        terminal.wait(rf"2 answers of {run.key}, all of them; none labelled already\.")
        terminal.wait(r"── 1 of 2 ─(.|\n)*question 1(.|\n)*reply 1(.|\n)*" + ASKED)
        terminal.after("b", r"→ bad(.|\n)*── 2 of 2 ─(.|\n)*question 0(.|\n)*" + ASKED)
        terminal.after("g", r"2 of 2 labelled, and kept\.(.|\n)*They agree on 2 of 2 answers")
        assert terminal.end() == 0
    assert labels(path) == {(1, None): ("pass", ""), (2, None): ("fail", "")}


def test_nothing_that_was_said_of_an_answer_shows_before_the_end(project):
    path, run = stored(project, [[*PASS, score(OTHER)], [*FAIL, score(OTHER)]], name=f"{TARGET} nightly")
    label(path, run, {0: "-", 1: "+"}, "bob", note="bob's note")
    with labelling(project) as terminal:
        terminal.wait(ASKED)
        terminal.after("s", r"── 2 of 2 ─(.|\n)*" + ASKED)
        shown = terminal.shown.replace(run.key, "")
        terminal.after("q", "labelled, and kept")
        assert terminal.end() == 0
        ended = terminal.shown.replace(run.key, "")
    assert "question 0" in shown and "context 1" in shown and "expected 1" in shown
    assert [word for word in (*SECRETS, "bob", "t-0", "t-1") if word in shown] == []
    assert [word for word in (*SECRETS, "bob") if word in ended] == []


def test_a_session_that_was_left_goes_on_with_the_same_sample(project):
    path, run = stored(project, [PASS, FAIL] * 10)
    with labelling(project, "--sample", "4") as terminal:
        terminal.wait(r"4 answers of \w+, a plain random sample of 20; none(.|\n)*" + ASKED)
        terminal.after("g", r"── 2 of 4 ─(.|\n)*" + ASKED)
        terminal.after("s", r"── 3 of 4 ─(.|\n)*" + ASKED)
        terminal.after("q", rf"1 of 4 labelled, and kept(.|\n)*tui-evals agreement {run.key}")
        assert terminal.end() == 0
        first = re.findall(r"question \d+", terminal.shown)
    with labelling(project, "--sample", "4") as terminal:
        terminal.wait(r"1 labelled\s+already(.|\n)*── 2 of 4 ─(.|\n)*" + ASKED)
        terminal.after("b", r"── 3 of 4 ─(.|\n)*" + ASKED)
        terminal.after("q", "2 of 4 labelled")
        again = re.findall(r"question \d+", terminal.shown)
    assert again == first[1:]
    assert len(labels(path)) == 2


def test_undo_goes_back_and_takes_the_label_away(project):
    path, _ = stored(project, [PASS, FAIL])
    with labelling(project) as terminal:
        terminal.wait(ASKED)
        terminal.press("u")
        terminal.after("g", r"── 2 of 2 ─(.|\n)*" + ASKED)
        assert list(labels(path).values()) == [("pass", "")]
        terminal.after("u", r"── 1 of 2 ─(.|\n)*" + ASKED)
        assert labels(path) == {}
        terminal.after("b", r"── 2 of 2 ─(.|\n)*" + ASKED)
        terminal.after("q", "1 of 2 labelled")
    assert list(labels(path).values()) == [("fail", "")]


def test_a_note_is_kept_with_the_label_that_follows_and_outlives_an_undo(project):
    path, _ = stored(project, [PASS, FAIL])
    with labelling(project) as terminal:
        terminal.wait(ASKED)
        terminal.after("n", "note")
        terminal.after("nearly — but no\r", ASKED)
        terminal.after("b", "── 2 of 2 ─(.|\n)*" + ASKED)
        terminal.after("u", "── 1 of 2 ─(.|\n)*your note: nearly — but no(.|\n)*" + ASKED)
        terminal.after("g", "── 2 of 2 ─(.|\n)*" + ASKED)
        terminal.after("g", "2 of 2 labelled")
        assert terminal.end() == 0
    assert sorted(labels(path).values()) == [("pass", ""), ("pass", "nearly — but no")]


def test_ctrl_c_and_ctrl_d_end_it_and_leave_the_terminal_as_it_was(project):
    path, _ = stored(project, [PASS, FAIL, PASS])
    for key, code in (("\x03", 130), ("\x04", 0)):
        with labelling(project) as terminal:
            terminal.wait(ASKED)
            before = terminal.attributes()
            assert not before[3] & termios.ICANON
            terminal.after("g", r"→ good(.|\n)*" + ASKED)
            terminal.after(key, "labelled, and kept")
            after = terminal.attributes()
            assert after[3] & termios.ICANON and after[3] & termios.ECHO
            assert terminal.end() == code
            assert "Traceback" not in terminal.shown
    assert len(labels(path)) == 2


def test_who_is_told_to_end_leaves_the_terminal_as_it_was(project):
    path, _ = stored(project, [PASS, FAIL])
    with labelling(project) as terminal:
        terminal.wait(ASKED)
        terminal.after("g", r"→ good(.|\n)*" + ASKED)
        terminal.kill(signal.SIGTERM)
        assert terminal.end() == 128 + signal.SIGTERM
        assert terminal.attributes()[3] & termios.ECHO
    assert len(labels(path)) == 1


def test_keys_that_mean_nothing_here_do_nothing(project):
    path, _ = stored(project, [PASS, FAIL])
    with labelling(project) as terminal:
        terminal.wait(ASKED)
        for keys in ("x", "\x1b[A", "\x1bg", " ", "é", "u"):
            terminal.press(keys)
            terminal.calm(0.1)
        assert labels(path) == {}
        terminal.after("g", r"── 2 of 2 ─")


def test_of_several_keys_at_once_only_the_first_is_a_verdict(project):
    """Nobody has seen what the others would be about."""
    path, _ = stored(project, [PASS, FAIL, PASS])
    with labelling(project) as terminal:
        terminal.wait(ASKED)
        terminal.after("xgbg", r"── 2 of 3 ─(.|\n)*" + ASKED)
        terminal.calm(0.1)
        terminal.after("q", "1 of 3 labelled")
    assert list(labels(path).values()) == [("pass", "")]


def test_a_long_answer_is_shown_screen_by_screen_and_whole(project):
    stored(project, [PASS], reply=lambda number: "\n".join(f"line {n:03}" for n in range(60)))
    with labelling(project, size=(60, 20)) as terminal:
        terminal.wait(r"line 00\d(.|\n)*space more · g good")
        assert "line 030" not in terminal.shown
        while "You are short" not in terminal.shown:
            terminal.after(" ", "g good")
        assert terminal.shown.count("space more") > 2
        assert re.findall(r"line \d+", terminal.shown) == [f"line {n:03}" for n in range(60)]
        terminal.after("g", "1 of 1 labelled")


def test_hostile_texts_stay_text(project):
    path, run = stored(project, [PASS, PASS], reply=lambda number: STRANGE, name_of=lambda number: STRANGE)
    label(path, run, {0: "-"}, "bob", note=STRANGE)
    with labelling(project) as terminal:
        terminal.wait(r"\[/INST\](.|\n)*" + ASKED)
        terminal.after("b", r"── 2 of 2 ─(.|\n)*" + ASKED)
        terminal.after("b", "surest(.|\n)*--item")
        assert terminal.end() == 0
        assert [bad for bad in FORBIDDEN if bad in terminal.raw] == []


def test_of_an_evaluator_its_question_is_shown_and_its_verdict_is_labelled(project):
    document = {
        "default_evaluators": {"Brief": {"type": "Rubric", "criteria": "three words", "judge": TARGET, "weight": 0.5}},
        "items": [{"prompt": "?"}],
    }
    from tui_evals.store.writer import Writer

    path, _ = stored(project, [PASS])
    with Writer(path) as writer:
        snapshot = writer.snapshot(document, "evals.json")
    records = [score("Brief", 0.37, "pass", evaluator="Rubric"), score(OTHER)]
    stored(project, [records], snapshot=snapshot)
    with labelling(project, "--evaluator", "Brief") as terminal:
        terminal.wait(r"judge it by(.|\n)*Brief: \w+(.|\n)*three words(.|\n)*" + ASKED)
        assert [word for word in SECRETS if word in terminal.shown.replace("pass", "")] == []
        terminal.after("b", r"Brief(.|\n)*people say bad, but it passes")
        assert terminal.end() == 0
    with Reader(path) as reader:
        (one,) = reader.labels(2)
    assert (one.evaluator, one.verdict, one.author) == ("Brief", "fail", "ada")


def test_what_cannot_be_labelled_is_a_sentence(project):
    stored(project, ["error", None])
    with labelling(project) as terminal:
        terminal.wait("has no answers to label yet")
        assert terminal.end() == 2
    stored(project, [PASS])
    with labelling(project, "--evaluator", "ZebraJuge") as terminal:
        terminal.wait(f"did you mean '{JUDGE}'")
        assert terminal.end() == 2
    with labelling(project, "--target", "nobody") as terminal:
        terminal.wait("has no target 'nobody'")
        assert terminal.end() == 2


def test_a_run_that_is_deleted_meanwhile_ends_it_with_a_sentence(project):
    from tui_evals.store.writer import Writer

    path, run = stored(project, [PASS, FAIL])
    with labelling(project) as terminal:
        terminal.wait(ASKED)
        with Writer(path) as writer:
            writer.delete_run(run)
        terminal.after("g", "is no longer in the store")
        assert terminal.end() == 1
        assert "Traceback" not in terminal.shown


# -- agreement


def test_agreement_says_who_began_nothing(project, shell):
    _, run = stored(project, [PASS])
    done = shell("agreement")
    assert done.code == 0
    assert done.out == f"{run.key} has no labels yet. Start: `tui-evals label {run.key} --blind`\n"
    assert json.loads(shell("agreement", "--json").out) == {"run": run.key, "agreement": []}


def test_agreement_is_told_and_given_as_data(project, shell):
    path, run = stored(project, [PASS, FAIL, PASS, FAIL])
    label(path, run, {0: "+", 1: "-", 2: "-", 3: "-"}, note="see [/b]")
    out = shell("agreement", "last").out
    assert f"{run.key}  nightly\n{JUDGE}\n" in out
    assert "They agree on 3 of 4 answers" in out and "Kappa 0.50: moderate agreement" in out
    assert "  t-2: people say bad, it passes with 0.37\n" in out and "    ada says: see [/b]\n" in out
    assert f"    tui-evals show {run.key} --item t-2\n" in out
    (found,) = json.loads(shell("agreement", "--json", "--limit", "0").out)["agreement"]
    assert (found["evaluator"], found["kappa"], found["disagreements"]) == (JUDGE, 0.5, [])


def test_agreement_of_an_unknown_evaluator_names_those_there_are(project, shell):
    path, run = stored(project, [PASS])
    done = shell("agreement", "last", "--evaluator", "ZebraJuge")
    assert done.code == 2 and f"did you mean '{JUDGE}'" in done.err and f"those that did: {JUDGE}" in done.err
    label(path, run, {0: "+"}, evaluator="Gone")
    done = shell("agreement", "last", "--evaluator", "Gone")
    assert done.code == 0 and "1 labelled answer has no verdict" in done.out
