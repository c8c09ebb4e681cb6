"""What cannot fail has means and labels in place of a rate, and meets no gate on a share."""

import json

import pytest

from tests.cli.helpers import asked

READABLE = {"Readability": {}}
TEXTS = ["The cat sat.", "A dog ran off.", "In consideration of prevailing meteorological circumstances."]


@pytest.fixture
def scored(dataset, answers, shell):
    dataset(asked(3), READABLE)
    return lambda *options, texts=TEXTS: shell("run", "data.json", "-t", answers(texts), "--no-cache", *options)


def test_means_with_their_interval_stand_in_the_place_of_a_rate(scored, shell, folder):
    done = scored("-o", "r.md", "-o", "r.html", "-o", "r.xml")
    assert done.code == 0
    shown = [
        done.out,
        shell("show", "last").out,
        *((folder / f"r.{kind}").read_text() for kind in ("md", "html", "xml")),
    ]
    for text in shown:
        assert "Readability: mean " in text and "95 % interval" in text and "of 3 pass" not in text
    assert shell("show", "last").out.count("– scored") == 3


@pytest.mark.story
def test_labels_are_counted(dataset, answers, shell, folder):
    (folder / ".evals").mkdir()
    (folder / ".evals" / "config.toml").write_text('[targets.judge]\nmodel = "python:judging_labels:reply"\n')
    (folder / "judging_labels.py").write_text(
        "def reply(prompt):\n    return 'Because.\\n' + ('B' if 'apple' in prompt else 'D')\n"
    )
    items = [{"prompt": f"ask {n}", "expected_response": "x"} for n in range(3)]
    dataset(items, {"fact": {"type": "ModelGraded", "spec": "fact"}})
    done = shell("run", "data.json", "-t", answers(["apple", "pear", "apple"]), "-j", "judge", "--trust")
    assert "fact: B 2, D 1" in done.out and "pass" not in done.out.replace("passes", "")
    assert "fact: B 2, D 1" in shell("show", "last").out
    assert shell("run", "data.json", "-t", answers(["apple"] * 3), "-j", "judge", "--trust", "--quiet").code == 0
    compared = shell("compare")
    assert "B 2, D 1 in A; B 3 in B" in compared.out and "can fail" in compared.out


def test_a_gate_on_a_share_is_not_met_by_what_cannot_fail(scored):
    assert scored("--quiet", "--fail-under", "0").code == 1
    done = scored("--quiet", "--fail-on", "fail")
    assert done.code == 1 and "Nothing that judged these answers can fail" in done.err
    assert scored("--quiet", "--fail-on", "error").code == 0


@pytest.mark.nightly
@pytest.mark.story
def test_comparisons_are_of_the_means_and_never_equal_out_of_nothing(scored, shell):
    scored("--quiet", texts=TEXTS)
    scored("--quiet", texts=TEXTS[::-1][:1] * 3)
    done = shell("compare")
    assert done.code == 0 and "Readability" in done.out
    assert "equal" not in done.out and "100" not in done.out.split("Readability")[0]
    assert "no item in common" not in done.out and "can fail" in done.out
    data = json.loads(shell("compare", "--json").out)
    assert all(run["pass_rates"] == [] for run in data["runs"])
