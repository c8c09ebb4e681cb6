"""Markdown for pull requests, drawn as a host draws it: no text of a dataset or a model becomes markup."""

import tempfile
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.reports.stores import Given, Ran, bad, errored, every, good, store, unjudged
from tests.store.helpers import judged, said
from tui_evals.reports.markdown import block, code, code_element, summary
from tui_evals.store.reader import Reader

pytestmark = pytest.mark.story

HOSTILE = [
    "</summary></details></pre></code><img src=x onerror=alert(1)><script>alert(1)</script>",
    "<!-- hidden -->",
    "@octocat @org/team closes #12 GH-12 owner/repo#7 fixes https://github.com/o/r/issues/1",
    "[click](javascript:alert(1)) ![x](https://example.com/x.png) <https://example.com>",
    "www.example.com https://example.com someone@example.com",
    "| a | b |\n| --- | --- |\n| 1 | 2 |",
    "a\\|b|c|",
    "|",
    "\\",
    "`tick` ``two`` `",
    "```\nfence\n```\n~~~\n",
    "# heading\n\n- list\n\n> quote\n\n---\n\n1. one",
    "*a* _b_ ~~c~~ **d** $x$ :smile: &lt;b&gt; &#42;",
    "\n\n</pre>\n\n# out\n\n<pre>",
    "::add-mask::x\n\u202e\x1b[31mred\x00",
    " ",
    "",
]
DRAWN = MarkdownIt("gfm-like")
OURS = {"h2", "h3", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "details", "summary"}


class Seen(HTMLParser):
    """The elements of a page, and its text outside and inside of code."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.outside, self.inside, self.cells = [], [], "", "", []
        self.depth = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs if name != "style"]
        self.depth += tag in ("code", "pre")
        if tag == "tr":
            self.cells.append(0)
        elif tag in ("td", "th"):
            self.cells[-1] += 1

    def handle_endtag(self, tag):
        self.depth -= tag in ("code", "pre")

    def handle_data(self, data):
        if self.depth:
            self.inside += data
        else:
            self.outside += data

    def handle_comment(self, data):
        self.tags.append("comment")


def written(path, *runs):
    with Reader(path) as reader:
        return summary(reader, [reader.run(number) for number in runs or (1,)])


def item(name, **more):
    return {"testId": name, "prompt": f"ask {name}", "expected_response": "yes", **more}


def by_name(answers):
    return lambda row: answers[row.name]


@pytest.fixture
def path(tmp_path):
    """Two runs: b broke, c was fixed, d has no answer, e could not be judged."""
    items = [item(name, category="easy") for name in "abcde"]
    before = {"a": good(), "b": good("it was so"), "c": bad(), "d": errored(), "e": unjudged()}
    after = {**before, "b": bad("it is not so", reason="too short"), "c": good()}
    old, new = Ran(items, by_name(before), name="old"), Ran(items, by_name(after), name="new", targets=("other",))
    return store(tmp_path, old, new)


def test_a_run_is_summed_up_with_its_columns_evaluators_and_what_failed(path):
    text = written(path)
    assert text.startswith("## `old`: 2 of 3 pass\n")
    assert "2 of 3 judged pass (66.7 %, 95 % interval 15.1 to 99.2)" in text
    assert "· 1 could not be judged · 1 without an answer" in text
    assert "| `demo` | 2 of 3 (66.7 %) | 15.1 to 99.2 | 1 | 1 | $0.0200 and 2 unpriced |" in text
    assert "| `Match` | 0.667 | 2 of 3 (66.7 %) | 15.1 to 99.2 | 0 |" in text
    assert "### What failed: 3 answers" in text
    titles = [line[18:40] for line in text.splitlines() if line.startswith("<details>")]
    assert [title[:15] for title in titles] == ["! <code>d</code", "✗ <code>c</code", "◐ <code>e</code"]
    assert "show" not in text


def test_a_comparison_says_what_changed_whether_it_is_real_and_what_broke(path):
    text = written(path, 1, 2)
    assert "**B passes as many of 3 items as A: no difference.**" in text
    assert "B against A: 1 broken, 1 fixed, 1 same, 2 not comparable." in text
    assert "| `Match` | 0.667 | 0.667 | 0.000 |" in text
    assert "| `easy` | 66.7 % | 66.7 % | 3 items |" in text
    assert "### What broke: 1 answer\n" in text
    details = text[text.index("<details>") :]
    assert details.count("<details>") == 1
    assert details.index("answer of A") < details.index("it was so") < details.index("answer of B")
    assert details.index("answer of B") < details.index("it is not so")


def test_every_later_run_is_held_against_the_first(path):
    text = written(path, 1, 2, 1)
    assert "**B passes as many" in text and "**C passes the same of 3 items as A" in text
    assert "### Evaluators: B against A" in text and "### Evaluators: C against A" in text


def test_nothing_failed_and_nothing_broke_are_said(tmp_path):
    path = store(tmp_path, Ran([item("a")], every(good())), Ran([item("a")], every(good())), Ran([], every(good())))
    assert written(path).endswith("### Nothing failed\n")
    assert written(path, 1, 2).endswith("### Nothing broke\n")
    assert "nothing was judged" in written(path, 3) and "0 of 0" not in written(path, 3)


def test_what_makes_the_numbers_mean_less_and_which_way_a_difference_goes_are_said(tmp_path):
    items = [item(f"t{n}") for n in range(12)]
    path = store(tmp_path, Ran(items, every(bad())), Ran(items, every(good()), source="`new`.json"))
    text = written(path, 1, 2)
    assert "Note: ``B asked another dataset than A: `new`.json instead of evals.json.``" in text
    assert "| better |" in text and "| worse |" in written(path, 2, 1)


def test_a_run_without_a_verdict_has_neither_failed_nor_broken_anything(tmp_path):
    path = store(tmp_path, Ran([item("a")], every(good())), Ran([item("a")], every(Given())))
    assert written(path, 2).endswith("### Nothing failed, and nothing passed\n")
    assert written(path, 1, 2).endswith("### Nothing could be compared\n")


def test_an_item_that_was_edited_between_the_runs_says_so(tmp_path):
    first, second = Ran([item("a")], every(good())), Ran([item("a", prompt="another")], every(bad()))
    assert "the item itself was edited between the runs" in written(store(tmp_path, first, second), 1, 2)


def test_more_failures_than_anyone_reads_are_counted_and_a_command_lists_them(tmp_path):
    path = store(tmp_path, Ran([item(f"i{n}") for n in range(25)], every(bad())), Ran([item("i0")], every(good())))
    text = written(path)
    with Reader(path) as reader:
        key = reader.run(1).key
    assert text.count("<details>") == 20
    assert text.endswith(f"20 of 25 are shown here; `tui-evals show {key} --only '!status:pass'` lists all.\n")


@pytest.mark.nightly
def test_the_page_stays_below_what_a_comment_may_hold(tmp_path):
    long = "<" * 2_000
    items = [item(f"{n}{long}", prompt=long, expected_response=long, category=f"{n}|`{long}") for n in range(40)]
    scores = tuple(judged(f"{n}|`{long}", 0.0, reason=long) for n in range(40))
    wide = {"targets": tuple(f"{n}|`{long}" for n in range(2)), "name": long}
    path = store(
        tmp_path, Ran(items, every(good()), **wide), Ran(items, every(Given(said(long), "fail", scores)), **wide)
    )
    for runs in [(2,), (1, 2), (2, 1)]:
        text = written(path, *runs)
        assert len(text) < 65_536
    assert " are shown here; " in written(path, 1, 2)
    assert "more rows are left out" in written(path, 2)


@pytest.mark.cases(6)
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_wherever_it_comes_from(tmp_path, text):
    assert_harmless(tmp_path, text, text or "name")


@pytest.mark.story
@settings(max_examples=10)
@given(st.text(st.sampled_from("`|\\<>&@#[]()!*_~\n\r :/ab-=")) | st.text())
@example("`|`")
def test_any_text_stays_text(text):
    with tempfile.TemporaryDirectory() as folder:
        assert_harmless(Path(folder), text, text or "name")


def assert_harmless(folder, text, name):
    """Put the text everywhere, and compare what is drawn with what harmless text draws in its place."""
    for hostile, harmless in zip(drawn_with(folder, text, name), harmless_pages(), strict=True):
        assert set(hostile.tags) <= OURS
        # An empty text has no part of its own, and a bar splits its code in two: all else is the same.
        kept = [tag for tag in hostile.tags if tag not in ("code", "pre", "p", "strong")]
        assert kept == [tag for tag in harmless.tags if tag not in ("code", "pre", "p", "strong")]
        assert hostile.attributes == harmless.attributes == []
        assert hostile.cells == harmless.cells
        assert not text or bare(hostile.outside) == bare(harmless.outside)
        assert not set(hostile.outside) & set("@[]<>#`\\")
        assert not set(hostile.outside + hostile.inside) & set("\x00\x1b\u202e")


@cache
def harmless_pages():
    with tempfile.TemporaryDirectory() as folder:
        return drawn_with(Path(folder), "x", "x")


def drawn_with(folder, text, name):
    one = {"testId": name, "prompt": text, "expected_response": text, "category": name}
    failed = Given(said(text), "fail", (judged(name, 0.0, reason=text),))
    options = {"targets": (name, "z"), "prompts": (name,), "name": name, "source": name}
    path = store(folder, Ran([one], every(good(text)), **options), Ran([one], every(failed), **options))
    return [Seen(DRAWN.render(written(path, *runs))) for runs in [(2,), (1, 2)]]


def bare(outside):
    return "".join(outside.replace("|", "").split())


@given(st.text(min_size=1))
@example("a|b")
@example("`")
@example(" a ")
def test_a_name_in_code_reads_as_it_was(text):
    seen = Seen(DRAWN.render(f"{code(text)} end"))
    plain = Seen(DRAWN.render(f"{code_element('x')} end"))
    assert seen.outside.replace("|", "").replace("–", "") == plain.outside
    assert set(seen.tags) <= {"p", "code"}


@given(st.text())
def test_a_block_holds_all_of_its_text_and_nothing_else(text):
    seen = Seen(DRAWN.render(f"before\n\n{block(text)}\n\nafter"))
    assert seen.tags == ["p", "pre", "p"]
