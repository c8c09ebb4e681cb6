"""The bytes that are signed: the same for the same content, for ever, and others for other content."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.provenance.chain import (
    FORM,
    FORMS,
    BrokenLink,
    Builder,
    Link,
    Record,
    Statement,
    appended,
    canonical,
    difference,
    next_previous,
    read_chain,
    unexpected,
)
from tui_evals.provenance.keys import SIGNING_KEY, fingerprint, is_signed, own_key

ROWS = [(0, 0, "pass", 1.0), (1, 1, "fail", 0.1), (2, 2, "error", None)]
DIGEST_OF_ROWS = "df4137df64740cd693bd4b899bb9a7bf353c3549ca7ad80cedb124443076f5fe"
FINGERPRINT_OF_FORM = "86ad-cd25-386a-9793-11e1"
RECORD = (
    '{"about":{},"chain":1,"kind":"end","number":1,"previous":"000000000000000000000000000000000000000000'
    '0000000000000000000000","program":"0.3.0","run":"abc123","states":{"verdicts":"df4137df64740cd693bd4'
    'b899bb9a7bf353c3549ca7ad80cedb124443076f5fe"},"time":1000.5,"unexpected":[],"unsigned":""}'
)
DIGEST_OF_RECORD = "d8134c2ca0041756064d52c4e941ade8bcee64b76aac18432aa3bb89f858f91a"
KEY = "ed25519:O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik="
SIGNATURE = "kyDDHgMx4pkI1zuQga4JNVj1XK9tTRdC+L+Yer2IW34auSVK0Y3yZJb/uZKATUaugBony2/URDU1yq9VXqGbCA=="


def stated(rows, part="verdicts", still_open=()):
    builder = Builder(part)
    builder.add(rows, frozenset(still_open))
    return builder.statement(tuple(still_open))


def test_names_are_sorted_and_text_is_utf_8():
    assert canonical({"b": [1, 1.0, None, True], "a": "é\n"}) == '{"a":"é\\n","b":[1,1.0,null,true]}'.encode()
    assert canonical(0.1 + 0.2) == b"0.30000000000000004"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (math.inf, b'{"float":"inf"}'),
        (math.nan, b'{"float":"nan"}'),
        (b"\xff", b'{"bytes":"ff"}'),
        ([1, -math.inf], b'[1,{"float":"-inf"}]'),
        ("\udcff", b'"\xed\xb3\xbf"'),
    ],
)
def test_what_json_lacks_is_spelled(value, written):
    assert canonical(value) == written


def test_the_first_form_is_what_it_was():
    """It never changes: what was signed in it is checked in it. A new form gets a new number."""
    assert FORM == 1
    assert stated(ROWS).digest == DIGEST_OF_ROWS
    names = json.dumps({part: list(columns) for part, columns in FORMS[1].items()})
    assert fingerprint(names) == FINGERPRINT_OF_FORM


def test_a_chain_of_the_first_version_still_holds():
    first = Link(1, RECORD, KEY, SIGNATURE)
    ((record, link),) = read_chain("abc123", [first], is_signed)
    assert record.kind == "end" and record.states == {"verdicts": DIGEST_OF_ROWS} and link.digest == DIGEST_OF_RECORD


def test_a_statement_is_read_as_it_was_written():
    said = stated(ROWS, still_open=[2])
    assert Statement.of(json.loads(canonical(said.plain())), said.hints) == said
    with pytest.raises(ValueError, match="no statement"):
        Statement.of({"form": 1}, b"")


@given(at=st.integers(1, 5))
def test_pages_do_not_matter(at):
    rows = ROWS * 2
    builder = Builder("verdicts")
    builder.add(rows[:at])
    builder.add(rows[at:])
    assert builder.statement().columns == stated(rows).columns


def test_what_is_open_counts_as_planned_only():
    before = stated(ROWS[:2], still_open=[1])
    assert difference("verdicts", before, stated([ROWS[0], (1, 1, "pass", 1.0)], still_open=[1])) is None
    assert unexpected("verdicts", before, stated([ROWS[0], (1, 1, "pass", 1.0)])) is None
    change = unexpected("verdicts", before, stated([(0, 0, "fail", 1.0), ROWS[1]]))
    assert change is not None and change.changed == (0,)
    assert unexpected("verdicts", before, stated([(0, 0, "fail", 1.0), ROWS[1]]), expected=[0]) is None


def test_values_of_other_types_are_other_values():
    digests = {stated([(0, 0, value, None)]).digest for value in (1, 1.0, "1", b"1", None, True, "", "null")}
    assert len(digests) == 8


def test_every_record_is_signed_over_all_it_says(monkeypatch):
    monkeypatch.setenv(SIGNING_KEY, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    sign = own_key().sign
    records = [Record(run="r", number=1, kind="end", time=1.0, previous=next_previous(None), program="1")]
    links = [appended(records[0], sign)]
    second = Record(run="r", number=2, kind="edit", time=2.0, previous=next_previous(links[0]), program="1")
    links.append(appended(second, sign))
    assert [record.kind for record, _ in read_chain("r", links, is_signed)] == ["end", "edit"]
    swapped = [Link(1, links[1].text, links[1].key, links[1].signature), links[0]]
    for broken in (links[1:], swapped, [links[0], Link(2, links[1].text, links[1].key, links[0].signature)]):
        with pytest.raises(BrokenLink):
            read_chain("r", broken, is_signed)


@given(text=st.text(max_size=60))
def test_no_record_that_somebody_made_up_ends_in_anything_but_a_sentence(text):
    for made_up in (text, json.dumps(text), json.dumps({"chain": 1, "kind": "end", "time": text})):
        with pytest.raises(BrokenLink):
            read_chain("r", [Link(1, made_up, "", "")], is_signed)
