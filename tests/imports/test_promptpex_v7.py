"""Folders of PromptPex's older versions: tables that models wrote, row by row, with the report as the fallback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tui_evals.store.reader import Reader

TESTS = """ruleid, testid, testinput, expectedoutput, reasoning
1, 1, "Text: Tesla, Apple and Elon Musk met.", "Companies: Tesla, Apple", "Tests whether 'companies' are listed."
1, 2, "Text: nobody, nothing.", "", "An empty list, for there is none.",
2, 1, "Text: \\"Stars\\" twinkle.", "<p>Stars</p>", "Quotes inside, escaped as models do."
2, 2, "Text: Ada said "hi", then left.", "People: Ada", "Quotes inside, not escaped."
3, 1, "猫が街を歩いている。", "Cats
and towns", "An inverse rule, and a cell of two lines."
4, 1, "Text: last.", "No label", "The last one."
"""
READ = [
    (1, "Text: Tesla, Apple and Elon Musk met.", "Companies: Tesla, Apple"),
    (1, "Text: nobody, nothing.", None),
    (2, 'Text: "Stars" twinkle.', "<p>Stars</p>"),
    (2, 'Text: Ada said "hi", then left.', "People: Ada"),
    (3, "猫が街を歩いている。", "Cats\nand towns"),
    (4, "Text: last.", "No label"),
]
HEAD = "id,promptid,ruleid,rule,baseline,model,error,input,output,compliance,complianceText\n"
OVERVIEW = (
    "model,tests,tests compliant,tests positive,tests positive compliant,tests negative,tests negative compliant,"
    "baseline,baseline compliant\ngemma2:9b,6,50%,67%,33%,33%,17%,1,100%\n"
)


def results(rows) -> str:
    """A table of answers as PromptPex itself writes it: quoted where needed, without a column `inverse`."""
    verdicts = ["ok", "err", "ok", "", "ok", "err"]
    lines = [
        f'{n:07x},0abc,{rule},"A rule.",,gemma2:9b,,{_quoted(text)},"said, {n}  ",{verdict},"why\n{verdict.upper()}"\n'
        for n, ((rule, text, _), verdict) in enumerate(zip(rows, verdicts, strict=True))
    ]
    return HEAD + "".join(lines) + 'b,0abc,,,1,gemma2:9b,,"Text: a baseline.",said,ok,OK\n'


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


@pytest.fixture
def folder(project):
    """A folder as `evals/v7` holds them, without its report."""
    made = project / "elements"
    made.mkdir()
    (made / "rules.txt").write_text("Companies are listed.\nThere is a label.\n")
    (made / "inverse_rules.txt").write_text("Companies are not listed.\nThere is no label.\n")
    (made / "tests.csv").write_text(TESTS)
    (made / "test_results.csv").write_text(results(READ))
    (made / "overview.csv").write_text(OVERVIEW)
    (made / "rule_evals.csv").write_text("id,promptid,ruleid,rule,groundedText,grounded\nr,0abc,1,Companies.,OK,ok\n")
    return made


def report(folder: Path) -> None:
    tests = [
        {"ruleid": str(rule), "testinput": text, **({"expectedoutput": wanted} if wanted else {})}
        for rule, text, wanted in READ
    ]
    (folder / "report.json").write_text(
        json.dumps({"prompt": "system:\nList {{text}}", "rules": ["a"], "tests": tests, "testResults": []})
    )


def facts() -> list[tuple[object, ...]]:
    items = json.loads(Path("elements/elements.json").read_text())["items"]
    return [
        (own.get("ruleid"), own["testinput"], own.get("expectedoutput") or None)
        for item in items
        if not (own := item["extensions"]["promptpex"]).get("baseline")
    ]


def test_a_folder_of_an_older_version_comes_in_and_what_cannot_be_read_is_named(shell, folder):
    done = shell("import", "elements", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert facts() == [row for row in READ if row is not READ[3]] + [(2, READ[3][1], None)]  # known from its answer
    losses = [loss["what"] for loss in said["losses"]]
    assert any("tests.csv, line 5 cannot be read as a row of a table" in what for what in losses)
    # The overview counts a blank verdict, and shares are of the tests: nothing of it differs.
    assert said["notes"] == [
        "there is no prompt next to the tests, so each item asks only its test's input",
        "2 of the tests are known from their answers only",
    ]
    with Reader(Path(".evals/evals.db")) as reader:
        (run,) = reader.runs()
        texts = [reader.detail(row.id).answer.text for row in reader.all_rows(run.id)]
    assert sorted(texts) == sorted([*(f"said, {n}  " for n in range(6)), "said"])
    shown = shell("report", run.key, "--overview")
    (line,) = [line for line in shown.out.splitlines() if "gemma2:9b" in line]
    assert "60%" in line and "50%" in line, shown.out  # of those judged, and of all, as PromptPex counts


def test_the_report_stands_for_a_file_that_cannot_be_read_whole(shell, folder):
    report(folder)
    done = shell("import", "elements", "--json")
    assert done.code == 0, done.err
    assert facts() == READ
    (named,) = [loss["what"] for loss in json.loads(done.out)["losses"] if "tests.csv" in loss["what"]]
    assert "line 5" in named and "report.json, tests holds was taken instead" in named


def test_a_file_that_is_no_table_at_all_gives_way_to_the_report(shell, folder):
    report(folder)
    (folder / "tests.csv").write_bytes(b"\xff\xfe\x00 not a text")
    done = shell("import", "elements", "--json")
    assert done.code == 0, done.err
    assert facts() == READ
    (folder / "report.json").unlink()
    refused = shell("import", "elements", "--out", "other")
    assert refused.code == 2 and "tests.csv:1 is not UTF-8 text" in refused.err


def test_one_record_of_json_that_cannot_be_read_does_not_cost_the_others(shell, project):
    (project / "p").mkdir()
    rows = [{"ruleid": 1, "testinput": "a"}, {"ruleid": "what", "testinput": "b"}, "chatter", {"testinput": "c"}]
    (project / "p" / "tests.json").write_text(json.dumps(rows))
    done = shell("import", "p", "--json")
    assert done.code == 0, done.err
    losses = [loss["what"] for loss in json.loads(done.out)["losses"] if loss["kind"] == "left out"]
    assert [what.partition("tests.json, ")[2] for what in losses] == [
        "entry 2, ruleid: 'what' is no number",
        "entry 3: must be an object, such as {...}",
    ]
