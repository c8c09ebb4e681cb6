"""The gate on items that must pass: what it names, what counts as passed, and every face that says so."""

import json

import pytest

from tui_evals import gate
from tui_evals.runs.gate_options import gates_of

TAGS = {"a": ["critical"], "b": ["critical", "slow"], "c": []}


@pytest.fixture
def ask(project, shell):
    """`ask(wrong, *options)` runs three items, of which the named ones are answered wrongly."""
    items = [
        {"testId": name, "category": "billing", "tags": tags, "prompt": f"ask {name}", "expected_response": "right"}
        for name, tags in TAGS.items()
    ]
    (project / "data.json").write_text(json.dumps({"default_evaluators": {"ExactMatch": {}}, "items": items}))

    def run(wrong, *options):
        rows = [{"prompt": f"ask {name}", "response": "wrong" if name in wrong else "right"} for name in TAGS]
        (project / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return shell("run", "data.json", "--target", "replay:answers.jsonl", *options)

    return run


@pytest.mark.parametrize(
    ("named", "wrong", "sentence"),
    [
        ("a", "c", None),
        ("tag:critical", "c", None),
        ("a,b", "b", "1 of 2 items that must pass does. Not passed: b (fails)"),
        ("tag:critical", "ab", "0 of 2 items that must pass do. Not passed: a (fails), b (fails)"),
        ("c, category:billing", "a", "2 of 3 items that must pass do. Not passed: a (fails)"),
        ("#2", "b", "0 of 1 item that must pass do. Not passed: b (fails)"),
        ("tag:critical tag:slow", "a", None),
        ("a,renamed", "", "1 of 1 item that must pass does. No item of the dataset is renamed"),
    ],
)
def test_each_named_item_has_to_pass_and_a_name_without_an_item_is_not_met(ask, named, wrong, sentence):
    done = ask(wrong, "--must-pass", named, "--quiet")
    assert done.code == (0 if sentence is None else 1)
    assert (sentence or "") in done.err


def test_an_item_that_was_not_asked_is_not_passed(ask):
    done = ask("", "--must-pass", "tag:critical", "--items", "1", "--max-missing", "100", "--quiet")
    assert done.code == 1 and "Not passed: b (not asked or not judged)" in done.err


def test_an_item_without_an_answer_is_not_passed(ask, project, shell):
    ask("", "--quiet")
    (project / "answers.jsonl").write_text(json.dumps({"prompt": "ask a", "response": "right"}) + "\n")
    options = ("--must-pass", "a,b", "--max-missing", "100", "--quiet")
    done = shell("run", "data.json", "--target", "replay:answers.jsonl", "--no-cache", *options)
    assert done.code == 1 and "1 of 2 items that must pass does. Not passed: b (error)" in done.err


def test_an_experiment_lists_them_and_the_reports_have_the_verdict(ask, project, shell):
    ask("")
    (project / "experiment.yaml").write_text(
        "data: data.json\ntargets: ['replay:answers.jsonl']\ngates: {must-pass: [c, 'tag:critical']}\n"
        "outputs: [out.xml, out.md]\n"
    )
    assert shell("validate").code == 0
    assert shell("run").code == 0
    (project / "answers.jsonl").write_text(
        "".join(
            json.dumps({"prompt": f"ask {name}", "response": "wrong" * (name == "b") or "right"}) + "\n"
            for name in TAGS
        )
    )
    done = shell("run", "--no-cache")
    assert done.code == 1 and "--must-pass c, tag:critical" in done.out + done.err
    for file in ("out.xml", "out.md"):
        assert "Not passed: b (fails)" in (project / file).read_text()
    gates = json.loads(shell("show", "last", "--json").out)["gates"]
    assert [one["verdict"] for one in gates] == ["not met"]


def test_the_library_takes_a_list(ask):
    ask("b", "--quiet")
    assert gate("last", must_pass=["a", "c"]).met
    assert not gate("last", must_pass=["tag:critical"]).met


@pytest.mark.parametrize("value", ["", " , ", True, [], "status:fail", "score:<50"])
def test_what_names_no_items_is_refused(value):
    with pytest.raises(ValueError, match="must_pass"):
        gates_of({"must_pass": value})
