"""Failures are grouped by what their reasons share."""

from tui_evals.store.failures import Failure, FailureGroups


def grouped(*reasons):
    return FailureGroups(Failure(at, 0, 0, "", None, "Length", "", reason) for at, reason in enumerate(reasons))


def test_a_group_names_the_numbers_and_quotations_that_all_its_failures_have():
    for reasons, said in (
        (["Match score: 0.146", "Match score: 0.2"], "Match score: …"),
        (["Match score: 0.146"] * 2, "Match score: 0.146"),
        (["12 words, at most 10", "14 words, at most 10"], "… words, at most 10"),
        (["no 'yes' in 'a'", "no 'yes' in 'b'"], "no 'yes' in …"),
        (["", "no match"], "no match"),
    ):
        [group] = [group for group in grouped(*reasons) if group.reason]
        assert group.reason == said
        assert len(group.failures) == sum(map(bool, reasons))


def test_of_reasons_in_other_words_those_of_the_first_are_said():
    [group] = grouped(
        "the refund of 30 days is missing here", "the refund of 20 days is missing", "the refund of 30 days is missing"
    )
    assert group.reason == "the refund of … days is missing"
