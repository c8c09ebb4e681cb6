"""XML, HTML, SQL and refusals by their words: what passes, what fails, and why."""

import time

import pytest

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators.markup import Html, Sql, Xml
from tui_evals.evaluators.safety import RefusalWords


@each_row(
    ("options", "response", "result"),
    [
        ({}, "<a><b>1</b></a>", "pass"),
        ({}, '  <a x="1"/>  ', "pass"),
        ({}, "<a><b></a></b>", "fail"),
        ({}, "<a>1 & 2</a>", "fail"),
        ({}, "<a/><b/>", "fail"),
        ({}, "Here: <a/>", "fail"),
        ({}, "", "fail"),
        ({}, "<!DOCTYPE a><a/>", "pass"),
        ({}, "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "fail"),
        ({"elements": ["a.b", "a.@_id"]}, "<a id='1'><b>1</b></a>", "pass"),
        ({"elements": ["a.b.c"]}, "<a><b>1</b></a>", "fail"),
        ({"elements": ["a.b.1"]}, "<a><b>1</b><b>2</b></a>", "pass"),
        ({"elements": ["a.b.2"]}, "<a><b>1</b><b>2</b></a>", "fail"),
        ({"anywhere": True}, "Here it is: <a>1 & 2</a>, as you see", "pass"),
        ({"anywhere": True}, "1 < 2 and 3 > 2", "fail"),
        ({"anywhere": True}, "an open <a> only", "fail"),
        ({"anywhere": True, "elements": ["a", "b"]}, "<a>1</a> and <b>2</b>", "pass"),
        ({"anywhere": True, "elements": ["a.b"]}, "<x>0</x> <a><b/></a>", "pass"),
        ({"anywhere": True, "elements": ["a.c"]}, "<a><b/></a>", "fail"),
    ],
)
def test_xml(options, response, result):
    assert score(Xml, options, response=response).result == result


def test_the_elements_that_are_missing_are_named():
    record = score(Xml, {"elements": ["a.b", "a.c"]}, response="<a><b/></a>")
    assert record.reason == "these elements are missing: 'a.c'" and record.details["missing"] == ["a.c"]


@pytest.mark.parametrize("beginning", ["<", "<a>", "<a ", "<a b='", "</a ", "<!", "<!--", "<!-- >", "<![CDATA[", "<?"])
def test_hostile_markup_is_judged_in_no_time(beginning):
    """Twenty times as long, it takes about twenty times as long, and not four hundred times."""
    for kind in (Xml, Html):
        for options in ({"anywhere": True}, {}):
            seconds = []
            for count in (2_500, 50_000):
                started = time.thread_time()
                record = score(kind, options, response=beginning * count)
                seconds.append(time.thread_time() - started)
            assert seconds[1] < 100 * max(seconds[0], 0.02), (kind, options)
            assert record.result == "fail" or (kind is Html and beginning == "<a>")


@each_row(
    ("options", "response", "result"),
    [
        ({}, "<p>Hello <b>you</b></p>", "pass"),
        ({}, "<!DOCTYPE html><html><head><title>x</title></head><body>loose</body></html>", "pass"),
        ({}, "<my-card>x</my-card>", "pass"),
        ({}, "<foo>x</foo>", "fail"),
        ({}, "Here it is: <p>x</p>", "fail"),
        ({}, "<p>x</p> there", "fail"),
        ({}, "<?xml version='1.0'?><p>x</p>", "fail"),
        ({}, "plain", "fail"),
        ({}, "", "fail"),
        ({}, "<br>", "pass"),
        ({"anywhere": True}, "Here: <p>x</p>", "pass"),
        ({"anywhere": True}, "<foo>x</foo>", "pass"),
        ({"anywhere": True}, "a < b and c > d", "fail"),
        ({"anywhere": True}, "Tom &amp; Jerry", "fail"),
        ({"anywhere": True}, "Tom &amp; <!-- no --> Jerry", "pass"),
    ],
)
def test_html(options, response, result):
    assert score(Html, options, response=response).result == result


@each_row(
    ("options", "response", "result"),
    [
        ({}, "SELECT name FROM users WHERE id = 1", "pass"),
        ({}, "SELECT FROM WHERE", "fail"),
        ({}, "hello there", "fail"),
        ({}, "", "fail"),
        ({"database": "PostgreSQL"}, "SELECT id::text FROM t", "pass"),
        ({"tables": ["select::null::users"]}, "SELECT name FROM users", "pass"),
        ({"tables": ["select::null::users"]}, "SELECT name FROM orders", "fail"),
        ({"tables": ["select::null::users"]}, "DELETE FROM users", "fail"),
        ({"columns": ["select::null::name"]}, "SELECT name FROM users", "pass"),
        ({"columns": ["select::null::name"]}, "SELECT name, age FROM users", "fail"),
        ({"columns": ["select::null::name"]}, "SELECT * FROM users", "fail"),
        ({"anywhere": True}, "Run this:\n```sql\nSELECT 1\n```\nand look.", "pass"),
        ({"anywhere": True}, "Run this: nothing", "fail"),
    ],
)
def test_sql(options, response, result):
    pytest.importorskip("sqlglot", reason="sqlglot is not installed")
    assert score(Sql, options, response=response).result == result


def test_without_its_library_sql_says_what_to_install(monkeypatch):
    monkeypatch.setattr("tui_evals.evaluators.markup.is_installed", lambda name: False)
    assert "pip install 'tui-evals[sql]'" in (Sql(Sql.Options()).obstacle() or "")


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I\u2019m sorry, but that is not possible.",
        "I cannot assist with that request.",
        "As an AI language model, I do not have feelings.",
        "I apologize, but I will not write this.",
        "That would not be appropriate.",
        "I am unable to provide this.",
        "It is against my guidelines.",
        "",
        "  ",
    ],
)
def test_words_that_decline_are_a_refusal(text):
    assert score(RefusalWords, response=text).result == "pass"


@pytest.mark.parametrize(
    "text",
    ["Vienna.", "I can help you with that.", "You cannot park here on Sundays.", "The clerk was sorry to hear it."],
)
def test_other_words_are_none(text):
    record = score(RefusalWords, response=text)
    assert (record.result, record.label) == ("fail", "complied")
