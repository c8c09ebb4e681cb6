"""The page of a report as text: what it says, and that nothing it was given becomes more than text."""

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports.made import add_run, plain, store
from tests.store.helpers import judged, new_run, said
from tui_evals.compare.runs import read_comparison
from tui_evals.compare.verdicts import difference_sentence
from tui_evals.reports.page import chunks, page, summary
from tui_evals.reports.page.texts import MOST, marks, text
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer

pytestmark = pytest.mark.story

EVIL = (
    '</script><script>alert(1)</script></style><img src=x onerror=alert(1)> "><svg onload=alert(2)> '
    "' onmouseover='alert(3) \" autofocus onfocus=\"alert(4) javascript:alert(5) <!-- --> ]]> </textarea></title> "
    "{{ 7*7 }} {% raw %} <details open ontoggle=alert(6)> </details></div></main> &lt;b&gt; &#60; "
    "<a href=https://evil.example/>x</a> \x1b]52;c;aGk=\x07 \x1b[2J \x9b31m \u202e \x00 \u200b 日本語"
)
HARMLESS = re.sub(r"[<>&\"'/=:{}%#!\[\]]", "x", EVIL)
VOID = {"meta", "input", "br", "link", "img"}


class Census(HTMLParser):
    """Which elements and attributes there are, and what stands between them."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements = Counter()
        self.attributes = Counter()
        self.values = []
        self.inside = {"script": [], "style": []}
        self.parts = []
        self.open = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements[tag] += 1
        self.parts.append(" ")
        for name, value in attrs:
            self.attributes[tag, name] += 1
            self.values.append((tag, name, value))
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_endtag(self, tag):
        self.parts.append(" ")

    def handle_data(self, data):
        if self.lasttag in self.inside and self.cdata_elem == self.lasttag:
            self.inside[self.lasttag][-1] += data
        else:
            self.parts.append(data)

    @property
    def text(self):
        return " ".join("".join(self.parts).split())


def evil(text):
    return f"{text} {EVIL}"


def harmless(text):
    return f"{text} {HARMLESS}"


async def written(folder, count=8, runs=1, say=plain, **given):
    """The page of so many runs."""
    path = store(folder)
    for number in range(runs):
        await add_run(path, count, say=say, shift=number, **given)
    with Reader(path) as reader:
        return page(reader, reader.runs()[::-1])


@pytest.fixture
async def one(tmp_path):
    return await written(tmp_path, 8, targets=2, repeats=2)


@pytest.mark.story
@pytest.mark.cases(1)
@pytest.mark.parametrize("runs", [1, 2, 4])
async def test_hostile_texts_add_no_element_attribute_or_handler(tmp_path, runs):
    pages = [
        Census(await written(tmp_path / name, 8, runs, say, targets=2, repeats=2))
        for name, say in (("evil", evil), ("harmless", harmless))
    ]
    assert pages[0].elements == pages[1].elements
    assert pages[0].attributes == pages[1].attributes
    assert "alert(1)" not in "".join(pages[0].inside["script"] + pages[0].inside["style"])


@pytest.mark.parametrize("runs", [1, 2])
async def test_hostile_texts_stand_on_the_page_as_they_are(tmp_path, runs):
    found = Census(await written(tmp_path, 8, runs, evil, targets=2, repeats=2)).text
    literal = '</script><script>alert(1)</script></style><img src=x onerror=alert(1)> "><svg onload=alert(2)> '
    fields = ["run", "target 1", "item-3", "sums", "what is 0?", "it is the number 4", "because of 4", "Relevance"]
    fields += ["it took too long", "I do not think so", "bob", "look_up"]
    for field in [*fields, *(["suite", "tag", "a note on the run", "a note", "grounds"] if runs == 1 else ())]:
        assert f"{field} {literal}" in found or f"{field} {literal[:40]}" in found, field


@pytest.mark.parametrize("runs", [1, 3])
async def test_nothing_invisible_is_on_the_page(tmp_path, runs):
    made = await written(tmp_path, 4, runs, evil)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u200b\ud800-\udfff]", made)
    assert "&lt;U+202E&gt;" in made and "␀" in made


@pytest.mark.parametrize("runs", [1, 2])
async def test_the_policy_allows_our_style_and_script_and_nothing_else(tmp_path, runs):
    found = Census(await written(tmp_path, 4, runs))
    (policy,) = [v for tag, name, v in found.values if tag == "meta" and name == "content" and "default-src" in v]
    hashes = {}
    for kind in ("style", "script"):
        *_, content = found.inside[kind]  # before the script that runs lie the packed answers, which do not
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        hashes[kind] = f"'sha256-{digest}'"
    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src {hashes['style']}",
        f"script-src {hashes['script']}",
        "img-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


@pytest.mark.parametrize("runs", [1, 2])
async def test_the_page_refers_to_nothing_outside_and_has_no_inline_handler_or_style(tmp_path, runs):
    found = Census(await written(tmp_path, 4, runs, evil))
    for tag, name, value in found.values:
        assert name not in ("src", "style", "srcset", "action", "data", "xlink:href") and not name.startswith("on")
        assert name != "href" or value.startswith("#"), (tag, value)
    assert not found.elements.keys() & {"img", "iframe", "object", "embed", "link", "base", "video", "audio", "a:b"}
    assert "url(" not in "".join(found.inside["style"]) and "@import" not in "".join(found.inside["style"])


async def test_every_element_is_closed_and_no_id_is_there_twice(tmp_path):
    made = await written(tmp_path, 8, 2, targets=2, repeats=2)

    class Strict(Census):
        def handle_starttag(self, tag, attrs):
            super().handle_starttag(tag, attrs)
            if tag not in VOID:
                self.open.append(tag)

        def handle_startendtag(self, tag, attrs):
            super().handle_starttag(tag, attrs)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

    found = Strict(made)
    assert not found.open
    assert set(Counter(value for _, name, value in found.values if name == "id").values()) == {1}


async def test_a_run_is_summed_up_above_its_items(one):
    found = Census(one).text
    assert "Evaluation report run evals.json · suite suite · " in found
    assert re.search(r"(\d+ of \d+) pass \1 judged answers in 2 columns, which have a rate each", found)
    for fact in ("Items 8 48 answers, each asked 2 times", "Targets target 0, target 1", "Status ■ finished in 1m 30s"):
        assert fact in found
    assert "Judge judge (model of the judge)" in found
    assert re.search(r"Cost \$0\.00\d\d Tokens [\d,]+ [\d,]+ in, [\d,]+ out Median latency \d+ ms", found)
    assert "from the cache left out" in found
    assert re.search(r"Relevance 2\.\d+ \d+ \d+ of \d+ target 0 [\d.]+ · \d+\.\d %", found)
    assert "Tone ModelGraded" in found and re.search(r"kind \d+ ", found) and re.search(r"curt \d+ ", found)
    assert re.search(r"history \d+ of \d+ \d+ \d+ \d+ ", found)


async def test_a_run_of_several_targets_has_a_row_for_each_turn(one):
    found = Census(one).text
    section = found[found.index("Item by item") : found.index("Search in all texts")]
    assert "target 0 target 1 item-0 ~ 1/2 75 ✓ 2/2 100 " in " ".join(section.split()) + " "
    assert "item-3.2" in section and '<a href="#i1">item-0</a>' in one
    assert one.count("<h2 id=") == len(set(re.findall("<h2 id=.([a-z]+)", one)))


async def test_a_long_grid_shows_what_columns_disagree_on_and_says_where_the_rest_is(tmp_path, monkeypatch):
    monkeypatch.setattr(summary, "MOST", 2)
    path = store(tmp_path)
    await add_run(path, 4, targets=2)
    with Reader(path) as reader:
        run = reader.run(1)
        made = page(reader, [run])
    assert f"The 2 of 6 on which the columns disagree most; <code>tui-evals show {run.key} --grid</code>" in made
    assert "2 rows" in Census(made).text


async def test_a_card_holds_everything_that_is_known_of_an_item(one):
    found = Census(one).text
    below = found[found.index("Search in all texts") :]
    first = below[below.index("item-0") : below.index("item-1")]
    for part in (
        "tagged a note Prompt what is 0? Context grounds Expected it is the number 0",
        "target 0 · repeat 1",
        "target 1 · repeat 2",
        "Tool call look_up",
        '{"q": "0"}',
        "Relevance 1 (at least 1) because of 0",
        "Exact ExactMatch 1 it is said",
        "✗ ann says fail I do not think so",
        "✓ bob says pass for Exact",
        "800 ms · 30 tokens in, 12 out · $0.0001 · answered by model-1",
        "Diagnostics",
        "All answers to this item it counts into the status of none of them ✗ fail Best 0.5 together",
        "scripted, not a model",
        "from the cache",
        "agentTimeout: it took too long",
    ):
        assert part in (found if "agent" in part or "model" in part or "cache" in part else first), part
    assert "<mark>5" in one or "<mark>4" in one


async def test_a_conversation_shows_its_turns_and_an_overall_status(tmp_path):
    made = await written(tmp_path, 8)
    found = Census(made).text
    talk = found[found.index("item-7") :]
    assert re.search(r"Conversation of 3 turns, overall . \w+ . \w+ Turn 1 turn 0 of 7 \d* Prompt turn 0 of 7", talk)
    assert "Turn 3 turn 2 of 7" in talk
    assert made.count('<details class="turn') == 6


async def test_what_does_not_pass_is_open_at_first_and_the_tools_wait_for_the_script(tmp_path):
    made = await written(tmp_path, 60)
    cards = re.findall(r'<details class="card (\w+)" id="i\d+" data-is="[^"]+" data-rank="[\d.]+"( open)?>', made)
    assert len(cards) == 60
    assert {(status, bool(opened)) for status, opened in cards} == {
        ("pass", False),
        ("fail", True),
        ("error", True),
        ("partial", True),
    }
    assert re.search(r'<form class="tools" id="tools"[^>]* hidden>', made)


async def test_a_run_that_is_not_over_says_so(tmp_path):
    path = store(tmp_path)
    with Writer(path) as writer:
        snapshot = writer.snapshot({"items": [{"prompt": "one"}, {"prompt": "two"}]}, "evals.json")
        rows = [PlannedAnswer(n, n, 0, 0, 0, 0, f"#{n + 1}") for n in range(2)]
        run = writer.plan(new_run(snapshot=snapshot), rows)
        await writer.answered(1, said("yes"), "answered")
        await writer.scored(1, 1, [judged()], "pass", 100.0)
        writer.run_status(run.id, "interrupted")
    with Reader(path) as reader:
        found = Census(page(reader, [reader.run(run.id)])).text
    assert "This run was interrupted before its end. 1 answer is not there or not judged yet." in found
    assert "Not asked yet." in found
    assert "Judge none named" in found
    assert "cost unknown, 1 unpriced" in found


async def test_a_long_text_is_folded_whole_and_an_endless_one_is_cut_with_a_word_on_how_to_see_it(tmp_path):
    long, endless = "word " * 2_000 + "the-end", "x" * (MOST + 5) + "never"
    path = store(tmp_path)
    with Writer(path) as writer:
        snapshot = writer.snapshot({"items": [{"prompt": "one"}, {"prompt": "two"}]}, "evals.json")
        rows = [PlannedAnswer(n, n, 0, 0, 0, 0, f"#{n + 1}") for n in range(2)]
        run = writer.plan(new_run(snapshot=snapshot), rows)
        for answer, said_text in ((1, long), (2, endless)):
            await writer.answered(answer, said(said_text), "answered")
    with Reader(path) as reader:
        row = reader.run(run.id)
        found = Census(page(reader, [row])).text
    assert "the-end" in found and re.search(r"8,\d+ more characters", found)
    assert f'10 more characters are not on this page; `tui-evals show {row.key} --item "#2"` shows all of it.' in found
    assert "never" not in found


@pytest.mark.nightly
async def test_a_comparison_says_what_the_verdicts_say(tmp_path):
    path = store(tmp_path)
    ids = [await add_run(path, 30, shift=number, name=f"run {number}") for number in range(3)]
    with Reader(path) as reader:
        found = read_comparison(reader, ids)
        said_there = Census(page(reader, [reader.run(one) for one in ids])).text
    for letter, one in zip("BC", found.against, strict=True):
        assert difference_sentence(one, "A", letter) in said_there
        assert f"{one.counts['broken']} broken" in said_there
        for test in one.tests:
            assert re.search(rf"{test.what} {test.items} [\d.]+ [\d.]+ [+-]?[\d.]+", said_there), test.what
    assert "Comparison of 3 runs A run 0 · B run 1 · C run 2" in said_there
    assert said_there.count("Item scores, 0 to 100") == 2


@pytest.mark.nightly
async def test_a_comparison_opens_only_what_changed_and_shows_the_sides_with_the_reference(tmp_path):
    made = await written(tmp_path, 30, 2)
    cards = re.findall(r'<details class="card ([\w-]+)" id="i\d+" data-is="([^"]+)" [^>]*?( open)?>', made)
    assert len(cards) == 30
    assert {kind for kind, _, opened in cards if opened} >= {"broken", "fixed", "changed"}
    assert all(re.fullmatch(r"(k\d )+c\d( e\d)*(\|(k\d )+c\d( e\d)*)*", groups) for _, groups, _ in cards)
    found = Census(made).text
    assert "Prompt what is 0? Expected it is the number 0 A ✓ pass 100" in found
    same = await _twice(tmp_path / "same")
    assert re.findall(r'<details class="card same"[^>]*>', same)
    assert not re.findall(r'<details class="(?:card|turn) same"[^>]* open>', same)
    assert "The same answer as A." in Census(same).text


async def _twice(folder):
    path = store(folder)
    ids = [await add_run(path, 4, name=f"run {number}") for number in range(2)]
    with Reader(path) as reader:
        return page(reader, [reader.run(one) for one in ids])


@pytest.mark.parametrize("count", [0, 5])
async def test_no_run_and_too_many_runs_make_no_page(tmp_path, count):
    path = store(tmp_path)
    run = await add_run(path, 1)
    with Reader(path) as reader, pytest.raises(ValueError, match="one run, or 2 to 4 runs"):
        page(reader, [reader.run(run)] * count)


async def test_a_page_comes_piece_by_piece(tmp_path):
    path = store(tmp_path)
    run = await add_run(path, 40)
    with Reader(path) as reader:
        pieces = list(chunks(reader, [reader.run(run)]))
        assert "".join(pieces) == page(reader, [reader.run(run)])
    assert len(pieces) > 5 and max(map(len, pieces)) < 60_000


SOME = st.text(st.sampled_from("ab .\n日é"), max_size=60).map(lambda piece: piece * 60) | st.text(max_size=200)


@given(SOME)
def test_a_folded_text_is_the_text(value):
    found = text(value)
    assert "".join(span.text for span in (*found.head, *found.rest)) == value
    assert found.more == sum(len(span.text) for span in found.rest)


@given(SOME, SOME)
def test_marks_change_no_text(left, right):
    found = marks(left, right)
    if found is not None and left.lstrip()[:1] not in ("{", "["):
        assert "".join(span.text for span in found.left) == left
        assert "".join(span.text for span in found.right) == right


def test_marks_are_on_words_that_the_other_side_lacks():
    found = marks("It costs 12 euros a year.", "It costs 15 euros a year.")
    assert [span.text for span in found.left if span.changed] == ["12"]
    assert [span.text for span in found.right if span.changed] == ["15"]
    assert marks("quite something else", "nothing of the kind here") is None
    assert marks("the same ", "the same") is None
