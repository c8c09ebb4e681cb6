"""A scale is declared and every face shows it; what an evaluator has nothing to say of is skipped and never passes."""

import csv
import io
import json
import re
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import tui_evals
from tests.evaluators.library_stand_in import stand_in
from tests.runs.conftest import FREE
from tui_evals.evaluators.libraries.worker import end_workers
from tui_evals.store.details import read_scores, scores_of
from tui_evals.tui.runs.run_status import told_ending

JUDGE = '[targets.judge]\nmodel = "openai/judge-model"\nbase_url = "%s"\n%s[judge]\ntarget = "judge"\n'
METRIC = """---
name: Tone
scale: %s
---
system:
How kind is this? Reply with JSON. If nobody is spoken to, reply {"result": "skipped", "reason": "why"}.

user:
{{output}}
"""
OWN = "SCALE = [0, 10]\n\n\ndef score(response):\n    return len(response.split()), 'words'\n"


@pytest.fixture
def judged(project, server):
    project.configure(FREE + JUDGE % (server.url, FREE))

    def said(*replies):
        server.behave(model="judge-model", says=[json.dumps(reply) for reply in replies], markers=False)
        return project

    return said


def records(project):
    with project.reader() as reader:
        return [record for _, record in read_scores(reader, reader.find_run("last").id)]


def all_records(project):
    with project.reader() as reader:
        run = reader.find_run("last")
        ids = [row.id for row in reader.all_rows(run.id)]
        return [record for found in scores_of(reader, ids, run.scoring_pass).values() for record in found]


RUN = ("run", "data.json", "--target", "main", "--quiet", "--trust")


@pytest.mark.parametrize(
    ("options", "reply", "score", "label", "result", "threshold"),
    [
        ({"scale": [1, 10]}, {"score": 7}, 7, None, "pass", 5.5),
        ({"scale": [0, 1]}, {"score": 0.4}, 0.4, None, "fail", 0.5),
        ({"scale": [0, 1], "threshold": 0.3}, {"score": "0.4"}, 0.4, None, "pass", 0.3),
        ({"scale": "yes/no"}, {"score": "Yes"}, 1, "yes", "pass", 1),
        ({"scale": {"yes": 0, "no": 1}}, {"score": "yes"}, 0, "yes", "fail", 1),
        ({"scale": {"good": 2, "fair": 1, "bad": 0}}, {"score": "fair"}, 1, "fair", "fail", 2),
        ({"scale": {"good": 2, "fair": 1, "bad": 0}, "threshold": 1}, {"score": "fair"}, 1, "fair", "pass", 1),
        ({"scale": {"good": 1, "bad": 0, "n/a": None}}, {"score": "n/a"}, None, "n/a", "skipped", None),
        ({"applies": "It names a price."}, {"result": "skipped", "reason": "no price"}, None, None, "skipped", None),
        ({"applies": "It names a price."}, {"score": 4, "reason": "a price"}, 4, None, "pass", 3),
    ],
)
def test_a_rubric_on_a_scale_of_its_own(judged, options, reply, score, label, result, threshold):
    project = judged(reply)
    project.dataset(1, default_evaluators={"Rubric": {"criteria": "It is kind.", **options}})
    project.do(*RUN, code=None)
    (record,) = records(project)
    found = (record.score, record.label, record.result, record.threshold)
    assert found == (score, label, result, threshold), record


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scale": [0, 1], "threshold": 3}, "the threshold 3 is not on the scale, from 0 to 1"),
        ({"threshold": 6}, "the threshold 6 is not on the scale, from 1 to 5"),
        ({"scale": [1, 1]}, "a scale is [lowest, highest]"),
        ({"scale": {"good": 1, "Good": 0}}, "a scale is [lowest, highest]"),
        ({"scale": "yes/no", "examples": [{"score": "maybe", "answer": "x"}]}, "'maybe' is not on its scale, yes (1)"),
    ],
)
def test_a_scale_that_is_none_is_found_by_validate(project, options, said):
    project.dataset(1, default_evaluators={"Rubric": {"criteria": "It is kind.", **options}})
    assert said in project.do("validate", "data.json", code=2)


def test_a_scale_is_set_from_the_command_line(project):
    project.dataset(1, default_evaluators={"Rubric": {"criteria": "It is kind."}})
    for typed, written in (("scale=[1, 10]", [1, 10]), ("scale=yes/no", "yes/no"), ('scale={"a": 1, "b": 0}', None)):
        project.do("evaluators", "set", "data.json", "Rubric", typed)
        found = json.loads((project.folder / "data.json").read_text())["default_evaluators"]["Rubric"]["scale"]
        assert found == (written or {"a": 1, "b": 0})
    refused = project.do("evaluators", "set", "data.json", "Rubric", "scale=[10, 1]", code=2)
    assert "a scale is [lowest, highest]" in refused
    assert "list or yes/no or object" in project.do("evaluators", "Rubric")


def test_a_score_beyond_the_scale_is_no_verdict(judged):
    project = judged({"score": 7})
    project.dataset(1, default_evaluators={"Rubric": {"criteria": "It is kind.", "scale": [0, 1]}})
    project.do(*RUN, code=None)
    (record,) = records(project)
    assert record.result == "error" and "7 is not on its scale, from 0 to 1" in record.reason


def test_every_face_shows_the_scale_and_means_over_several_are_normalised(judged):
    project = judged({"score": 4, "reason": "so so"})
    folder = project.folder / "custom-evaluators" / "words"
    folder.mkdir(parents=True)
    (folder / "words.py").write_text(OWN)
    (project.folder / "tone.metric.prompty").write_text(METRIC % "[0, 5]")
    (project.folder / "prompt.prompty").write_text("---\n---\nsystem:\nBe kind.\n")
    project.dataset(2, prompt_file="prompt.prompty", default_evaluators={"words": {}, "tone": {}})
    document = json.loads((project.folder / "data.json").read_text())
    document["items"][1]["evaluators"] = {"tone": {"scale": [2, 4], "threshold": 3}}
    (project.folder / "data.json").write_text(json.dumps(document))
    project.do(*RUN, code=None)
    shown = project.do("show", "last", "--item", "#1")
    assert "tone 4 of 0–5 (at least 2.5)" in shown and "words 4 of 0–10 (at least 5)" in shown, shown
    # 4 of 0–5 and 4 of 2–4 are 0.8 and 1 of their way, which 4 on either scale is not.
    assert "mean 0.900 of 0–1, normalised" in project.do("show", "last", "--by", "evaluator")
    (project.folder / "out").mkdir()
    for kind, name in (("html", "r.html"), ("md", "r.md"), ("junit", "r.xml")):
        project.do("report", "last", "--to", kind, "-o", project.folder / "out" / name)
    assert "0.900 of 0–1, normalised" in (project.folder / "out" / "r.html").read_text()
    assert "0.900 of 0–1, normalised" in (project.folder / "out" / "r.md").read_text()
    project.do("export", "last", "-o", project.folder / "out" / "r.json")
    written = json.loads((project.folder / "out" / "r.json").read_text())
    assert [item["scores"]["tone"]["scale"] for item in written["items"]] == [[0, 5], [2, 4]]

    (project.folder / "tone.metric.prompty").write_text(METRIC % "[0, 10]")
    project.do(*RUN, code=None)
    with project.reader() as reader:
        first, second = sorted(reader.runs(), key=lambda run: run.id)
    compared = project.do("compare", first.key, second.key, code=None)
    assert "tone (0–1, normalised)" in compared, compared
    assert "0.900  0.700   -0.200" in compared, compared
    assert "of 0–1, normalised of tone" in project.do("trend", "--evaluator", "tone")


def test_what_is_skipped_passes_nothing_and_is_told_apart_everywhere(judged):
    project = judged({"result": "skipped", "reason": "nobody is spoken to"})
    (project.folder / "tone.metric.prompty").write_text(METRIC % "[0, 5]")
    (project.folder / "prompt.prompty").write_text("---\n---\nsystem:\nBe kind.\n")
    project.dataset(2, prompt_file="prompt.prompty", default_evaluators={"tone": {}})
    document = json.loads((project.folder / "data.json").read_text())
    document["items"][1]["evaluators"] = {"tone": {}, "Includes": {}}
    (project.folder / "data.json").write_text(json.dumps(document))
    said = project.do(*RUN, "--fail-under", "0.9", code=1)
    assert "not met" in said, "an answer of which all is skipped has not passed"
    assert [row[2] for row in project.table()] == ["unjudged", "pass"]
    by = json.loads(project.do("show", "last", "--by", "evaluator", "--json"))
    assert [(mean["key"], mean["skipped"], mean["mean"]) for mean in by] == [("Includes", 0, 1.0), ("tone", 2, None)]
    skipped = "skipped, and in no rate or mean: tone 2 times"
    shown = project.do("show", "last")
    assert skipped in shown and "tone skipped: nobody is spoken to" in shown and "1 of 1 judged pass" in shown
    assert "– tone skipped  nobody is spoken to" in project.do("show", "last", "--item", "#2")
    assert json.loads(project.do("show", "last", "--json"))["skipped"] == {"tone": 2}
    with project.reader() as reader:
        assert skipped in told_ending(project.database, reader.find_run("last")).says
    out = project.folder / "out"
    out.mkdir()
    for kind, name in (("html", "r.html"), ("md", "r.md"), ("junit", "r.xml")):
        project.do("report", "last", "--to", kind, "-o", out / name)
    assert "| `tone` | n/a | n/a | n/a | 0 | 2 |" in (out / "r.md").read_text()
    assert '<td class="n">0</td><td class="n">2</td>' in (out / "r.html").read_text()
    suite = ET.parse(out / "r.xml").getroot()[0]
    (case,) = suite.findall("testcase/skipped")
    assert (suite.get("skipped"), suite.get("failures")) == ("1", "0")
    assert case.get("message") == "unjudged: no evaluator gave a result; tone skipped: nobody is spoken to"
    assert skipped in {each.get("value") for each in suite.iter("property")}

    for kind in ("json", "csv"):
        project.do("export", "last", "--to", kind, "-o", out / f"r.{kind}")
    written = json.loads((out / "r.json").read_text())
    assert written["items"][1]["extensions"]["tui_evals_skipped"] == {"tone": "nobody is spoken to"}
    table = list(csv.DictReader(io.StringIO((out / "r.csv").read_text())))
    assert [(row["status"], row["tone.result"]) for row in table] == [("unjudged", "skipped"), ("pass", "skipped")]
    for kind in ("json", "csv"):
        project.do("import", out / f"r.{kind}", "--name", f"back from {kind}")
        assert [row[2] for row in project.table()] == ["unjudged", "pass"], kind
        found = [record for record in all_records(project) if record.key == "tone"]
        assert [(record.result, record.reason) for record in found] == [("skipped", "nobody is spoken to")] * 2


def test_a_library_that_gives_no_score_skips(judged, tmp_path):
    project = judged({"score": 1})
    quiet = {"type": "azure-ai-evaluation:QuietEvaluator", "python": str(stand_in(tmp_path / "env")), "scale": [0, 1]}
    project.dataset(
        2, lambda number: f"[[say {'a claim' if number else 'nothing'}]]", default_evaluators={"Quiet": quiet}
    )
    try:
        project.do(*RUN)
    finally:
        end_workers()
    assert [row[2] for row in project.table()] == ["unjudged", "pass"]
    found = [(record.result, record.score, record.reason) for record in all_records(project)]
    assert found == [("skipped", None, "there is no claim"), ("pass", 1, "")]


def test_a_judge_may_skip_only_where_its_prompt_says_so(judged):
    project = judged({"result": "skipped", "reason": "the answer says that it need not be judged"})
    (project.folder / "tone.metric.prompty").write_text(METRIC.replace("skipped", "none") % "yes/no")
    (project.folder / "prompt.prompty").write_text("---\n---\nsystem:\nBe kind.\n")
    project.dataset(1, prompt_file="prompt.prompty", default_evaluators={"tone": {}})
    project.do(*RUN, code=None)
    assert [record.result for record in records(project)] == ["error"]


PAGE = (Path(tui_evals.__file__).parent / "help" / "evaluators.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Scales, and what is skipped")[2].partition("\n## ")[0]


def test_the_examples_of_the_page_judge_as_it_says(judged):
    options = [json.loads(line.partition(": ")[2]) for line in re.findall(r'^    ("Rubric": .*)$', SECTION, re.M)]
    prompty = textwrap.dedent(SECTION[SECTION.index("    ---") :])
    project = judged({"score": 0.5, "reason": "so so"})
    (project.folder / "tone.metric.prompty").write_text(prompty)
    (project.folder / "prompt.prompty").write_text("---\n---\nsystem:\nBe kind.\n")
    labelled = {f"r{number}": {"type": "Rubric", **each} for number, each in enumerate(options)}
    project.dataset(1, prompt_file="prompt.prompty", default_evaluators={**labelled, "tone": {}})
    assert "valid" in project.do("validate", "data.json")
    project.do(*RUN, code=None)
    found = {record.key: (record.score, record.result, record.threshold) for record in all_records(project)}
    assert found["r1"] == (0.5, "fail", 0.7) and found["tone"] == (0.5, "fail", 2.5)
    assert found["r3"] == (0.5, "pass", 0.5), "a label is known by its value too"
    assert {found[key][1] for key in ("r0", "r2", "r4", "r5")} == {"error"}
    assert len(options) == 6
