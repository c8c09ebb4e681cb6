"""The loss report of an import or export."""

from __future__ import annotations

from tui_evals.imports.base import Loss, Losses


def test_a_loss_says_where_what_and_why() -> None:
    assert str(Loss("left out", "the assert python", "a.yaml:7", "it is code")) == (
        "a.yaml:7: left out: the assert python (it is code)"
    )
    assert str(Loss("carried", "3 tests")) == "carried: 3 tests"


def test_sentences_begin_with_what_was_left_out() -> None:
    losses = Losses()
    losses.carried("2 prompts")
    losses.changed("iequals", "a.yaml:3", "Equals with ignore_case")
    losses.left_out("env", "a.yaml:9")
    assert losses.sentences() == [
        "a.yaml:9: left out: env",
        "a.yaml:3: changed: iequals (Equals with ignore_case)",
        "carried: 2 prompts",
    ]


def test_the_same_entry_is_kept_once_also_from_another_report() -> None:
    losses, other = Losses(), Losses()
    losses.left_out("env", "a.yaml:9")
    losses.left_out("env", "a.yaml:9")
    other.left_out("env", "a.yaml:9")
    other.left_out("env", "a.yaml:10")
    losses.extend(other)
    assert [entry.where for entry in losses.of("left out")] == ["a.yaml:9", "a.yaml:10"]
    assert list(losses.of("carried")) == []
