"""`tui-evals report`, and the files that other commands write through the same table."""

import csv
import json
import xml.etree.ElementTree as ET

import pytest

from tests.reports.stores import Ran, bad, every, good, store
from tui_evals.reports.results import names, report_kind
from tui_evals.store.reader import Reader

pytestmark = pytest.mark.story

ITEMS = [{"testId": name, "prompt": f"ask {name}", "expected_response": "yes"} for name in "ab"]
TEXTS = [name for name in names() if report_kind(name).is_text]
STARTS = {
    "html": "<!doctype html>",
    "md": "## ",
    "junit": "<?xml ",
    "csv": "",
    "json": "{",
    "jsonl": "{",
    "oaieval-log": '{"spec": ',
    "inspect": '{"version": 2, ',
}


@pytest.fixture
def keys(project):
    """The ids of two runs; the second one broke everything."""
    path = store(project, Ran(ITEMS, every(good()), name="old"), Ran(ITEMS, every(bad()), name="new"))
    with Reader(path) as reader:
        return [reader.run(1).key, reader.run(2).key]


@pytest.mark.cases(5)
@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("several", [False, True])
def test_each_kind_is_written_to_its_place_and_the_place_is_said(shell, project, keys, kind, several):
    done = shell("report", ",".join(keys) if several else keys[1], "--to", kind)
    name = "-".join(keys) if several else keys[1]
    file = project / ".evals" / "results" / (name + report_kind(kind).endings[0])
    assert done.code == 0 and done.out.startswith(f"wrote {file}\n")
    companion = file.with_name(file.name + ".tui-evals")
    assert companion.exists() == (report_kind(kind).has_companion and not several)
    assert done.out.count("wrote ") == (2 if companion.exists() else 1)
    assert file.read_text().lower().startswith(STARTS[kind])


def test_without_words_the_last_run_becomes_a_page(shell, project, keys):
    assert shell("report").out == f"wrote {project / '.evals' / 'results' / keys[1]}.html\n"


@pytest.mark.parametrize(
    ("name", "kind"), [(f"deep/x{end}", kind) for kind in TEXTS for end in report_kind(kind).endings]
)
def test_the_ending_of_a_file_names_its_kind(shell, project, keys, name, kind):
    assert shell("report", "-o", name).out.startswith(f"wrote {name}\n")
    assert (project / name).read_text().lower().startswith(STARTS[kind])


def test_a_kind_that_is_asked_for_beats_the_ending(shell, project, keys):
    shell("report", "--to", "md", "-o", "x.txt")
    assert (project / "x.txt").read_text().startswith("## `new`")


def test_a_report_can_go_to_the_screen(shell, project, keys):
    done = shell("report", ",".join(keys), "--to", "md", "-o", "-")
    assert done.out.startswith("## A `old`, B `new` compared\n")
    assert not (project / ".evals" / "results").exists()


def test_raw_csv_leaves_formulas_as_they_are(shell, project):
    store(project, Ran(ITEMS, every(good("=1+1"))))
    written = {("report",): "'=1+1", ("report", "--raw-csv"): "=1+1", ("export", "--raw-csv"): "=1+1"}
    for words, expected in written.items():
        assert shell(*words, "--to", "csv", "-o", "x.csv").code == 0
        with open("x.csv", newline="") as file:
            assert {row["response"] for row in csv.DictReader(file)} == {expected}


def test_annotations_alone_are_printed_and_nothing_is_written(shell, project, keys):
    done = shell("report", "--annotations")
    assert [line.split("::")[1] for line in done.out.splitlines()] == [f"error title={name}%3A failed" for name in "ab"]
    assert not (project / ".evals" / "results").exists()
    both = shell("report", ",".join(keys), "--annotations", "--to", "junit").out.splitlines()
    assert both[0].startswith("::error title=a%3A broken::") and both[-1].startswith("wrote ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nobody"], "there is no run 'nobody'"),
        ([","], "name one run, or up to 4"),
        (["a,b,c,d,e"], "name one run, or up to 4"),
        (["old,old"], "old,old names the same run twice"),
        (["-o", "x.pdf"], "x.pdf: unknown ending. Use one of .html, .htm, .md, "),
        (["-o", "x"], "x: unknown ending"),
        (["--annotations", "-o", "-"], "the report needs a file"),
    ],
)
def test_mistakes_end_in_a_sentence(shell, keys, words, says):
    done = shell("report", *words)
    assert done.code == 2 and says in done.err and not done.out


@pytest.mark.parametrize("command", ["report", "export"])
def test_a_path_that_cannot_be_written_is_a_sentence_and_the_run_is_kept(shell, project, keys, command):
    (project / "folder.json").mkdir()
    (project / "file").write_text("mine")
    for name in ("folder.json", "file/x.json"):
        done = shell(command, "last", "-o", name)
        assert done.code == 1 and name.partition("/")[0] in done.err and done.err.endswith("the run is kept\n")
    assert (project / "file").read_text() == "mine" and list(project.glob("*.tmp")) == []
    assert shell("show", keys[1]).code == 0


def test_a_run_writes_every_kind_directly(shell, project):
    (project / "evals.json").write_text(json.dumps({"schemaVersion": "1.11.0", "items": ITEMS}))
    files = ["out/x.html", "x.md", "x.xml", "x.csv", "x.json", "x.jsonl"]
    outputs = [word for name in files for word in ("-o", name)]
    done = shell("run", "evals.json", "--target", "demo", "--judge", "demo", "--quiet", *outputs)
    assert done.code == 0, done.err
    assert (project / "out/x.html").read_text().lower().startswith("<!doctype html>")
    assert (project / "x.md").read_text().startswith("## `evals`: ")
    assert ET.parse(project / "x.xml").getroot().get("tests") == "2"
    assert len((project / "x.csv").read_text().splitlines()) == 3
    assert [one["testId"] for one in json.loads((project / "x.json").read_text())["items"]] == ["a", "b"]
    assert len((project / "x.jsonl").read_text().splitlines()) == 2


def test_half_a_character_in_json_becomes_its_escape(shell, project):
    items = [{"testId": "a", "prompt": "x\ud800", "expected_response": "yes"}]
    store(project, Ran(items, every(good())), Ran(items, every(good())))
    assert shell("report", "-o", "x.json").code == 0
    assert json.loads((project / "x.json").read_text())["items"][0]["prompt"] == "x\ud800"
    for kind in TEXTS:
        assert shell("report", "--to", kind, "-o", "y").code == 0
        (project / "y").read_text("utf-8")
