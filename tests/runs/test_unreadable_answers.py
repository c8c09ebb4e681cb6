"""A reply that cannot be read is asked for twice more, then an error that quotes it."""

import pytest

KINDS = ("cut", "empty", "wrong_json", "html")
PRICE = "[targets.main.price]\ninput_per_million = 0.0\noutput_per_million = 100.0\n"


def answers(project):
    with project.reader() as reader:
        run = reader.find_run("last")
        return run, [reader.detail(row.id) for row in reader.all_rows(run.id)]


def test_what_cannot_be_read_is_asked_for_twice_more_and_then_an_error_that_says_what_came(project):
    project.configure("[targets.main.params]\nmax_tokens = 10\n" + PRICE, concurrency=20)
    marks = [*(["cut*2", "wrong_json*2"] * 4), *KINDS]
    project.dataset(12, lambda number: f"question {number} [[{marks[number]}]]")
    code, out, err = project.as_process("run", "data.json", "--target", "main", "--quiet")
    assert code == 0, out + err
    assert sum(project.server.counts()["met"][kind] for kind in KINDS) == 8 * 2 + 4 * 3
    run, details = answers(project)
    assert [detail.row.status for detail in details] == ["pass"] * 8 + ["error"] * 4
    assert [call.code for call in details[0].calls] == ["agentResponseUnparseable"] * 2 + [None]
    broken, nothing, half, page = (detail.answer.message for detail in details[8:])
    assert "broke off" in broken and '{"id": "chatcmpl-' in broken
    assert "nothing at all" in nothing and '{"choices": [{"message":' in half and "an HTML page" in page
    with project.reader() as reader:
        assert reader.totals(run.id).unpriced == 8 * 2 + 4 * 3  # each may have cost something


def test_what_such_a_reply_may_have_cost_counts_against_the_budget(project):
    project.configure("[targets.main.params]\nmax_tokens = 100\n" + PRICE, concurrency=1)  # a call may cost 0.01
    project.dataset(4, "question {} [[empty]]".format)
    said = project.do("run", "data.json", "--target", "main", "--max-cost", 0.045, "--quiet", code=4)
    assert "the budget is spent" in said
    assert project.server.counts()["met"]["empty"] == 4


@pytest.mark.parametrize("retries", [0, 1])
def test_whoever_wants_fewer_attempts_gets_no_more(project, retries):
    project.configure(retries=retries)
    project.dataset(1, "question {} [[empty]]".format)
    project.do("run", "data.json", "--target", "main", "--quiet", code=None)
    assert project.server.counts()["met"]["empty"] == retries + 1
