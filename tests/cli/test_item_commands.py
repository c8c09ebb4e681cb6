"""Items by command: everything the workbench does to a dataset, checked alike, and taken back."""

import io
import json
import os
import re
import shlex
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui_evals.cli.main import run
from tui_evals.cli.manual import pages
from tui_evals.datasets import history

TEXT = """\
{
    "schemaVersion": "1.2.0",
    "items": [
        {"testId": "A", "prompt": "one", "tags": ["x", "slow"]},

        {"prompt": "two",   "weight": 0.50},
        {"testId": "T", "name": "talk", "turns": [{"prompt": "hi"}, {"prompt": "bye"}]}
    ]
}
"""


@pytest.fixture
def file(project) -> Path:
    (project / "d.json").write_text(TEXT)
    return Path("d.json")


def items(file):
    return json.loads(file.read_text())["items"]


def ok(done):
    assert done.code == 0, done.err
    return done.out


def refused(done, *words):
    assert done.code == 2, done.out
    for word in words:
        assert word in done.err
    assert "Traceback" not in done.err
    return True


def test_items_are_listed_and_those_that_a_filter_finds(shell, file):
    out = ok(shell("item", "list", file)).splitlines()
    assert out[0].split() == ["item", "name", "tags", "turns", "prompt"]
    assert out[3].split() == ["3", "T", "2", "hi"]
    assert [row["item"] for row in json.loads(ok(shell("item", "list", file, "BYE", "talk", "--json")))] == [3]
    assert [row["item"] for row in json.loads(ok(shell("item", "list", file, "!tag:slow", "id:*", "--json")))] == [2, 3]
    assert "no item of d.json fits 'nowhere'" in ok(shell("item", "list", file, "nowhere"))
    assert refused(shell("item", "list", file, "categry:x"), "(did you mean 'category'?)")
    assert refused(shell("item", "list", file, "fail"), "`tui-evals show last --only fail` lists those")


def test_an_item_or_a_field_of_it_is_shown(shell, file):
    assert ok(shell("item", "show", file, "talk")).splitlines() == [
        "item 3 (T)",
        "testId: T",
        "name: talk",
        *("turn 1", "  prompt: hi", "turn 2", "  prompt: bye"),
    ]
    assert ok(shell("item", "show", file, "last", "turns.2.prompt")) == "bye\n"
    assert json.loads(ok(shell("item", "show", file, "A", "--json"))) == items(file)[0]
    assert refused(shell("item", "show", file, 1, "promt"), "there is no 'promt' here (did you mean 'prompt'?)")


def test_an_item_is_added_at_the_end_or_behind_another(shell, file):
    assert "added item 4 (N) to d.json, which has 4 now" in ok(shell("item", "add", file, "testId=N", "prompt=new"))
    told = json.loads(ok(shell("item", "add", file, "prompt=first", "expected_response=1", "--after", 0, "--json")))
    assert told["items"] == [{"item": 1, "name": None}] and told["changed"] is True
    ok(shell("item", "add", file, "prompt=behind", "--after", "A"))
    assert [item.get("prompt") for item in items(file)] == ["first", "one", "behind", "two", None, "new"]
    assert '        {"prompt": "two",   "weight": 0.50},\n' in file.read_text(), "other lines are as they were"


def test_items_come_from_a_file_or_from_standard_input(shell, file, monkeypatch):
    Path("more.json").write_text('[{"prompt": "a"}, {"prompt": "b"}]')
    assert "added items 4-5" in ok(shell("item", "add", file, "--from", "more.json"))
    monkeypatch.setattr("sys.stdin", io.StringIO('{"prompt": "c", "category": "k"}'))
    ok(shell("item", "add", file, "--from", "-", "testId=C"))
    assert items(file)[-1] == {"testId": "C", "prompt": "c", "category": "k"}
    Path("bad.json").write_text('{"prompt": \n "a",}')
    assert refused(shell("item", "add", file, "--from", "bad.json"), "bad.json:2: not valid JSON")
    Path("list.json").write_text("[1]")
    assert refused(shell("item", "add", file, "--from", "list.json"), "list.json holds no item")
    assert refused(shell("item", "add", file), "say what to add")


def test_a_dataset_is_begun_only_when_that_is_said(shell, project):
    file = Path("new.json")
    assert refused(shell("item", "add", file, "prompt=a"), "new.json: there is no such file")
    ok(shell("item", "add", file, "prompt=a", "--new"))
    assert items(file) == [{"prompt": "a"}]
    ok(shell("dataset", "undo", file))
    assert not file.exists()
    ok(shell("dataset", "redo", file))
    assert items(file) == [{"prompt": "a"}]


def test_fields_are_set_as_their_kind_has_them(shell, file):
    ok(
        shell(
            *("item", "set", file, 2, "weight=1", "tags=a, b", "ideal=Yes, it is", "ideal=Yes", "category= k "),
            *("variables.city=Rome", "variables.count:=3", 'variables."a.b"=c', "response_format=json", "prompt=a=b"),
        )
    )
    assert items(file)[1] == {
        "prompt": "a=b",
        "weight": 1,
        "tags": ["a", "b"],
        "ideal": ["Yes, it is", "Yes"],
        "category": "k",
        "variables": {"city": "Rome", "count": 3, "a.b": "c"},
        "response_format": "json",
    }
    ok(shell("item", "set", file, 2, "variables.city=Bonn", "--unset", "ideal", "--unset", 'variables."a.b"', "tags="))
    changed = items(file)[1]
    assert changed["variables"] == {"city": "Bonn", "count": 3} and not {"ideal", "tags"} & changed.keys()
    ok(shell("item", "set", file, 2, "--unset", "variables.city", "--unset", "variables.count"))
    assert "variables" not in items(file)[1]


def test_several_items_are_set_at_once_and_turns_by_their_number(shell, file):
    assert "items 1-2: category set" in ok(shell("item", "set", file, "1,2", "category=k"))
    ok(shell("item", "set", file, "T", "turns.2.expected_response=so long", "turns.3.prompt=again"))
    assert [item.get("category") for item in items(file)] == ["k", "k", None]
    assert items(file)[2]["turns"][1:] == [{"prompt": "bye", "expected_response": "so long"}, {"prompt": "again"}]
    ok(shell("item", "set", file, "T", "--unset", "turns.1"))
    assert [turn["prompt"] for turn in items(file)[2]["turns"]] == ["bye", "again"]
    assert refused(shell("item", "set", file, "T", "turns.9.prompt=x"), "turns has entries 1 to 2, and 3 adds one")
    assert refused(shell("item", "set", file, 1, "turns.1.prompt=x"), "`tui-evals item conversation`")


def test_a_value_comes_from_a_file_or_from_standard_input(shell, file, monkeypatch):
    Path("p.md").write_text("two\nlines\n", encoding="utf-8")
    ok(shell("item", "set", file, 1, "prompt=@p.md"))
    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 1}'))
    ok(shell("item", "set", file, 1, "variables:=-", "notes=@@me"))
    assert items(file)[0]["prompt"] == "two\nlines"
    assert items(file)[0]["variables"] == {"a": 1} and items(file)[0]["notes"] == "@me"
    assert refused(shell("item", "set", file, 1, "prompt=@gone.md"), "gone.md cannot be read", "written with @@")
    Path("p.md").write_bytes(b"a\n\xff")
    assert refused(shell("item", "set", file, 1, "prompt=@p.md"), "p.md:2: is not UTF-8 text")
    assert refused(shell("item", "set", file, 1, "prompt=-", "notes=-"), "only one value")


WRONG = {
    "a value that is out of bounds": (("set", 2, "weight=3"), "d.json: item 2, weight: must be at most 1, not 3"),
    "a value of another kind": (("set", 2, "weight=heavy"), "weight: this is not a number: heavy"),
    "a value that is no JSON": (("set", 2, "variables={"), "variables: this is not JSON"),
    "a field there is none of": (("set", 2, "promt=x"), "there is no field 'promt' (did you mean 'prompt'?)"),
    "a field of turns": (("set", "T", "expected_response=x"), "belongs to the turns of a conversation"),
    "what a run wrote": (("set", 2, "status=pass"), "status is what a run wrote"),
    "a prompt that is needed": (("set", 2, "--unset", "prompt"), "item 2, prompt: must not be empty"),
    "a field given twice": (("set", 2, "prompt=a", "prompt=b"), "'prompt' is given twice"),
    "no assignment": (("set", 2, "prompt"), "'prompt' sets no field"),
    "nothing to set": (("set", 2), "say what to set"),
    "an item there is none of": (("rm", "9"), "there is no item 9; the dataset has items 1 to 3"),
    "a name there is none of": (("rm", "tolk"), "there is no item 'tolk' (did you mean 'talk'?)"),
    "a range that runs backwards": (("rm", "3-1"), "runs backwards; write 1-3"),
    "all items": (("rm", "1-3"), "a dataset needs at least one item"),
    "a place there is none of": (("move", "1", "4"), "there is no place '4'; there are 1 to 3"),
    "a turn there is none of": (("rm", "T", "--turn", "3"), "there is no turn '3'; there are 1 to 2"),
    "a conversation of several turns": (("conversation", "T", "--back"), "would be lost"),
    "an item without a prompt": (("add", "category=k"), "item 4: has neither prompt nor turns"),
    "no tag": (("tag", "1", ","), "name the tags"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_a_sentence_and_nothing_is_written(shell, file, name):
    words, sentence = WRONG[name]
    assert refused(shell("item", words[0], file, *words[1:]), sentence)
    assert file.read_text() == TEXT and not Path(".evals").exists()


def test_several_items_of_one_name_are_told_apart_by_number(shell, file):
    ok(shell("item", "set", file, 2, "testId=A"))
    assert refused(shell("item", "rm", file, "A"), "several items have the testId 'A': 1, 2; name one by its number")


def test_a_warning_that_an_edit_brings_is_said(shell, file):
    done = shell("item", "set", file, 2, "testId=A")
    assert done.code == 0 and "note: item 2, testId: testId 'A' is also that of items[0]" in done.err


def test_items_are_moved_copied_tagged_and_removed(shell, file):
    assert "moved to place 1: item 1 (T)" in ok(shell("item", "move", file, "last", 1))
    assert [item.get("testId") for item in items(file)] == ["T", "A", None]
    ok(shell("item", "move", file, "1,3", "last"))
    assert [item.get("testId") for item in items(file)] == ["A", "T", None]
    assert "added item 2 (A-copy)" in ok(shell("item", "copy", file, "A"))
    assert "no longer slow" in ok(shell("item", "tag", file, "1,2,4", "new,-slow"))
    ok(shell("item", "tag", file, 1, "-hold", "-x"))
    assert [item.get("tags") for item in items(file)] == [["new"], ["x", "new"], None, ["new"]]
    out = ok(shell("item", "rm", file, "A-copy,T"))
    assert "removed items 2-3; `tui-evals dataset undo d.json` brings them back" in out
    assert [item.get("testId") for item in items(file)] == ["A", None]


def test_turns_are_added_moved_copied_and_removed(shell, file):
    out = ok(shell("item", "add", file, "--turn-of", "T", "prompt=oh", "--after", 0))
    assert "added a turn to item 3 (T), which has 3 now" in out
    ok(shell("item", "move", file, "T", "last", "--turn", 1))
    ok(shell("item", "copy", file, "T", "--turn", 1))
    assert "removed turn 3 of item 3 (T)" in ok(shell("item", "rm", file, "T", "--turn", 3))
    assert [turn["prompt"] for turn in items(file)[2]["turns"]] == ["hi", "hi", "oh"]
    ok(shell("item", "add", file, "--turn-of", "A", "prompt=and?"))
    assert [turn["prompt"] for turn in items(file)[0]["turns"]] == ["one", "and?"]
    ok(shell("item", "rm", file, "A", "--turn", 2))
    ok(shell("item", "conversation", file, "A", "--back"))
    assert items(file)[0]["prompt"] == "one"


def test_a_dataset_that_is_wrong_can_be_mended_step_by_step(shell, file):
    file.write_text('{"items": [{"propmt": "a", "weight": 7}, {"prompt": "b"}], "schemaVersion": "1.2.0"}')
    done = shell("item", "add", file, "prompt=c", "--after", 0)
    assert done.code == 0 and "not valid, as it was before: 3 problems" in done.err
    assert "item 2, weight: must be at most 1, not 7" in done.err
    assert refused(shell("item", "set", file, 2, "weight=8"), "must be at most 1, not 8")
    ok(shell("item", "set", file, 2, "weight=0.5", "prompt=a", "--unset", "propmt"))
    assert ok(shell("validate", file))


def test_what_only_a_valid_dataset_shows_stands_in_the_way_of_no_mending(shell, project):
    Path("ask.prompty").write_text("user:\nIn {{city}}?\n")
    rest = '"prompt_file": "ask.prompty"'
    Path("d.json").write_text(f'{{"schemaVersion": "1.2.0", {rest}, "items": [{{"weight": 2}}, {{"testId": "B"}}]}}')
    done = shell("item", "set", "d.json", 1, "weight=1")
    assert done.code == 0 and "has no value for {{ city }}" in done.err
    assert refused(shell("item", "add", "d.json", "testId=C"), "item 3: C has no value for {{ city }}")
    assert ok(shell("item", "set", "d.json", 1, "testId=A", "category=k"))
    assert shell("dataset", "set", "d.json", "variables.city=Rome").err == ""


def test_the_dataset_itself_is_set(shell, file):
    ok(shell("dataset", "set", file, "metadata.name=Lib", "metadata.tags=a,b", "description=x", "repeats=2"))
    data = json.loads(file.read_text())
    assert data["metadata"] == {"name": "Lib", "tags": ["a", "b"]} and data["repeats"] == 2
    ok(shell("dataset", "set", file, "--unset", "metadata.name", "--unset", "metadata.tags"))
    assert "metadata" not in json.loads(file.read_text())
    assert refused(shell("dataset", "set", file, "descripton=x"), "(did you mean 'description'?)")
    assert refused(shell("dataset", "set", file, "schemaVersion=1.0.0"), "`tui-evals upgrade`")
    assert refused(shell("dataset", "set", file, "items:=[]"), "items are edited one by one")


def test_nothing_is_written_where_nothing_changes(shell, file):
    assert "that way already; nothing was written" in ok(shell("item", "set", file, 2, "weight=0.50"))
    assert file.read_text() == TEXT and not Path(".evals").exists()


def test_commands_are_taken_back_and_done_again_one_after_the_other(shell, file):
    texts = [TEXT]
    for words in (("add", file, "prompt=n"), ("set", file, 1, "notes=x"), ("rm", file, "2-3")):
        ok(shell("item", *words))
        texts.append(file.read_text())
    assert "item rm 2-3" in ok(shell("dataset", "history", file)).splitlines()[2]
    for text in reversed(texts[:-1]):
        assert "undone: item" in ok(shell("dataset", "undo", file))
        assert file.read_text() == text
    assert refused(shell("dataset", "undo", file), "nothing to undo")
    told = json.loads(ok(shell("dataset", "redo", file, "--json")))
    assert told == {"file": "d.json", "what": "item add 4", "undone": False, "left": 2}
    ok(shell("item", "set", file, 1, "notes=y"))
    assert refused(shell("dataset", "redo", file), "nothing to redo")
    steps = json.loads(ok(shell("dataset", "history", file, "--json")))["steps"]
    assert [step["what"] for step in steps] == ["item add 4", "item set 1 (A) notes"]


def test_what_was_written_since_is_not_taken_back_unasked(shell, file):
    ok(shell("item", "rm", file, 1))
    file.write_text(TEXT.replace("two", "2"))
    done = shell("dataset", "undo", file)
    assert refused(done, "d.json was changed after `item rm 1 (A)`", "--force")
    kept = next(word for word in done.err.split() if ".evals/history/" in word)
    assert Path(kept).read_text() == TEXT and stat.S_IMODE(Path(kept).stat().st_mode) == 0o600
    ok(shell("dataset", "undo", file, "--force"))
    assert file.read_text() == TEXT
    ok(shell("dataset", "redo", file))
    assert file.read_text() == TEXT.replace("two", "2"), "what was overwritten by force is there still"


def test_a_read_only_file_is_written_only_by_force(shell, file):
    file.chmod(0o444)
    for words in ("item rm d.json 1", "evaluators set d.json ExactMatch", "dataset set d.json repeats=2"):
        assert refused(shell(*words.split()), "d.json is read-only", "--force")
    assert file.read_text() == TEXT
    ok(shell("item", "rm", file, 1, "--force"))
    assert len(items(file)) == 2 and stat.S_IMODE(file.stat().st_mode) == 0o444
    assert refused(shell("dataset", "undo", file), "read-only")
    ok(shell("dataset", "undo", file, "--force"))
    assert file.read_text() == TEXT


def test_a_history_is_bounded(shell, file, monkeypatch):
    monkeypatch.setattr(history, "MOST", 3)
    for number in range(5):
        ok(shell("item", "set", file, 1, f"notes={number}"))
    known = history.history_of(file)
    assert [step.what for step in known.steps] == ["item set 1 (A) notes"] * 3
    assert len(os.listdir(known.folder)) == 3 + 1
    monkeypatch.setattr(history, "_LARGEST", len(TEXT))
    ok(shell("item", "rm", file, 1))
    assert [step.what for step in history.history_of(file).steps] == ["item rm 1 (A)"]


def test_a_history_that_leads_elsewhere_or_is_broken_is_a_sentence(shell, file, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    Path(".evals").mkdir()
    Path(".evals/history").symlink_to(elsewhere)
    assert refused(shell("item", "rm", file, 1), "is a link to")
    assert file.read_text() == TEXT and not os.listdir(elsewhere)
    Path(".evals/history").unlink()
    ok(shell("item", "rm", file, 1))
    index = history.history_of(file).folder / "steps.json"
    kept = index.read_text()
    for broken in (
        "{",
        "3",
        '{"steps": 3}',
        kept.replace('"done": 1', '"done": 2'),
        re.sub('"[0-9a-f]{64}"', '"../x"', kept),
    ):
        index.write_text(broken)
        assert refused(shell("dataset", "undo", file), "remove it to begin a new")
    for words in (("item", "rm", file, 1), ("dataset", "undo", file), ("dataset", "history", file)):
        assert refused(shell(*words), "holds no history; remove it to begin a new one")
    index.write_text(re.sub('"time": [0-9.]+', '"time": 1e300', kept))
    assert refused(shell("dataset", "history", file), "remove it to begin a new")


def test_two_commands_at_once_lose_nothing(file, capsys):
    threads = [threading.Thread(target=run, args=(["item", "add", "d.json", f"prompt=p{n}"],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {item.get("prompt") for item in items(file)} >= {f"p{number}" for number in range(8)}


def test_an_older_shape_is_kept_and_samples_and_tables_stay_what_they_are(shell, project):
    Path("a.json").write_text('[{"prompt": "a"}]')
    assert "the older shape is kept as a.json.bak." in ok(shell("item", "add", "a.json", "prompt=b"))
    ok(shell("dataset", "undo", "a.json"))
    assert Path("a.json").read_text() == '[{"prompt": "a"}]'
    Path("s.jsonl").write_text('{"input": "a", "ideal": "b"}\n')
    ok(shell("item", "add", "s.jsonl", "prompt=c", "expected_response=d"))
    assert len(Path("s.jsonl").read_text().splitlines()) == 2
    assert refused(shell("item", "set", "s.jsonl", 1, "weight=0.5"), "cannot hold this dataset", "as a .json file")


def test_hostile_names_stay_in_their_line_and_reach_no_terminal(shell, file):
    name = "a\x1b]52;c;aGk=\x07\n\u202ez"
    ok(shell("item", "set", file, 1, f"testId:={json.dumps(name)}"))
    commands = [
        *(["item", "list", file], ["item", "show", file, 1], ["item", "tag", file, 1, name], ["item", "copy", file, 1]),
        *(["item", "rm", file, 1], ["item", "rm", file, name + "x"], ["dataset", "undo", file]),
    ]
    outputs = [shell(*words) for words in (*commands, ["dataset", "history", file])]
    shown = "".join(done.out + done.err for done in outputs)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    assert len(outputs[-1].out.splitlines()) == 4, "a step is a line"


def test_a_link_is_followed_and_one_to_itself_is_a_sentence(shell, file):
    Path("link.json").symlink_to(file)
    ok(shell("item", "rm", "link.json", 1))
    assert Path("link.json").is_symlink() and len(items(file)) == 2
    ok(shell("dataset", "undo", file))
    assert file.read_text() == TEXT
    Path("loop.json").symlink_to("loop.json")
    for words in (["item", "rm", "loop.json", 1], ["item", "list", "loop.json"], ["dataset", "undo", "loop.json"]):
        assert refused(shell(*words), "loop.json")


def test_half_a_character_is_refused(shell, file):
    assert refused(shell("item", "set", file, 1, "notes=\udcff"), "half of a character")
    assert file.read_text() == TEXT


def test_conversations_that_were_added_are_taken_back_too(shell, file):
    Path("chat.json").write_text('[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "oh"}]')
    ok(shell("item", "from-conversation", "chat.json", "--into", file))
    assert len(items(file)) == 4
    assert "item from-conversation chat.json" in ok(shell("dataset", "undo", file))
    assert file.read_text() == TEXT


STYLES = {
    "wide": TEXT,
    "tabs and line ends of Windows": TEXT.replace("    ", "\t").replace("\n", "\r\n"),
    "one line, escaped, with a mark": "\ufeff" + json.dumps(json.loads(TEXT) | {"x": "é"}),
    "odd": TEXT.replace('"prompt": "one"', '"prompt"  :"one"').rstrip(),
}
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
EDITS = st.one_of(
    st.tuples(st.just("add"), WORDS.map(lambda text: f"prompt=.{text}")),
    st.tuples(st.just("set"), st.sampled_from("123"), WORDS.map(lambda text: f"notes=.{text}")),
    st.tuples(st.just("rm"), st.sampled_from("123")),
    st.tuples(st.just("move"), st.sampled_from("123"), st.sampled_from("123")),
)


@pytest.mark.nightly
@pytest.mark.story
@given(style=st.sampled_from(sorted(STYLES)), edits=st.lists(EDITS, min_size=1, max_size=3))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_done_can_be_taken_back_to_the_byte(project, style, edits):
    file = project / "any.json"
    file.write_bytes(STYLES[style].encode())
    contents = [file.read_bytes()]
    for verb, *words in edits:
        if run(["item", verb, str(file), *words]) == 0 and file.read_bytes() != contents[-1]:
            contents.append(file.read_bytes())
    for content in reversed(contents[:-1]):
        assert run(["dataset", "undo", str(file)]) == 0
        assert file.read_bytes() == content
    for content in contents[1:]:
        assert run(["dataset", "redo", str(file)]) == 0
        assert file.read_bytes() == content


def test_the_examples_of_the_manual_run_one_after_the_other(shell, project):
    lines = [line for line in pages()["authoring"].splitlines() if line.startswith("    tui-evals ")]
    assert len(lines) > 15
    for line in lines:
        ok(shell(*shlex.split(line)[1:]))
    assert [item["prompt"] for item in items(Path("evals.json")) if "prompt" in item] == [
        "What is the capital of Italy?",
        "What is the capital of Italy?",
    ]
