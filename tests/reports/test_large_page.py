"""The page of a run too large for a card of each item: what it says as text, and that its lines are inert."""

import base64
import gzip
import json
import re

import pytest

from tests.reports.made import add_run, plain, store
from tests.reports.test_html import Census, evil, harmless
from tui_evals.reports.page import cards, page
from tui_evals.store.reader import Reader


@pytest.fixture
def large_from(monkeypatch):
    """Makes runs large from so many answers on, with room for so many cards."""

    def set_sizes(whole, wrong, others):
        for name, value in (("WHOLE", whole), ("_WRONG", wrong), ("_OTHERS", others)):
            monkeypatch.setattr(cards, name, value)

    return set_sizes


async def written(folder, count, say=plain, **given):
    path = store(folder)
    run = await add_run(path, count, say=say, **given)
    with Reader(path) as reader:
        return page(reader, [reader.run(run)]), list(reader.all_rows(run))


def unpacked(made):
    (text,) = re.findall(r'<script type="application/gzip" id="packed">([A-Za-z0-9+/]*={0,2})</script>', made)
    return json.loads(gzip.decompress(base64.b64decode(text, validate=True)))


async def test_every_answer_is_a_line_and_only_some_items_have_a_card(tmp_path, large_from):
    large_from(100, 6, 3)
    made, rows = await written(tmp_path, 40, targets=2)
    lines = unpacked(made)
    assert [line[0] for line in lines["rows"]] == [row.item + 1 for row in rows]
    assert [lines["statuses"][line[2]][0] for line in lines["rows"]] == [row.status for row in rows]
    assert [(lines["columns"][line[4]], lines["categories"][line[5]]) for line in lines["rows"]] == [
        (f"target {row.target}", row.category) for row in rows
    ]
    talk = next(line for line in lines["rows"] if line[0] == 4)
    assert talk[1] == "item-3 turn 1" and talk[8] == "turn 0 of 3"
    failed = [line for line in lines["rows"] if lines["statuses"][line[2]][0] == "fail"]
    assert all(line[6] and line[10].startswith("Relevance ") and "because of" in line[10] for line in failed)
    lost = next(line for line in lines["rows"] if lines["statuses"][line[2]][0] == "error")
    assert lost[9:11] == ["", "it took too long"]
    cards = [int(number) for number in re.findall(r'<details class="card \w+" id="i(\d+)"', made)]
    assert len(cards) == 9 and cards == sorted(cards)
    assert {line[0] for line in lines["rows"] if line[11]} == set(cards)
    bad = {row.item + 1 for row in rows if row.status in ("fail", "error", "partial")}
    assert sum(card in bad for card in cards) == 6
    said = Census(made).text
    assert f"All {len(rows)} answers are in the table" in said
    assert f"in full 9 items: 6 of the {len(bad)} that did not pass, and 3 of the {40 - len(bad)} others" in said
    assert "Without script there is no table here" in said and "The items in full can be read." in said


async def test_hostile_texts_are_inert_in_a_large_page(tmp_path, large_from):
    large_from(5, 4, 2)
    both = {
        name: (await written(tmp_path / name, 8, say, targets=2))[0]
        for name, say in (("evil", evil), ("harmless", harmless))
    }
    found = {name: Census(made) for name, made in both.items()}
    assert found["evil"].elements == found["harmless"].elements
    assert found["evil"].attributes == found["harmless"].attributes
    assert found["evil"].elements["script"] == 2
    data, script = found["evil"].inside["script"]
    assert re.fullmatch("[A-Za-z0-9+/]+={0,2}", data) and "alert(1)" not in script
    assert not re.search("innerHTML|outerHTML|insertAdjacent|document.write|eval|Function", script)
    texts = json.dumps(unpacked(both["evil"]), ensure_ascii=False)
    assert "</script><script>alert(1)" in texts
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e\u200b\ud800-\udfff]", texts)


async def test_a_large_page_keeps_the_policy_and_a_small_one_its_shape(tmp_path, large_from):
    small, _ = await written(tmp_path / "small", 4)
    large_from(5, 4, 2)
    made, _ = await written(tmp_path / "large", 4)
    assert "packed" not in small and 'id="table"' not in small
    found = Census(made)
    (policy,) = [value for tag, name, value in found.values if name == "content" and "default-src" in value]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'; "
        "img-src 'none'; base-uri 'none'; form-action 'none'",
        policy,
    )
    assert not {"src", "style"} & {name for _, name, _ in found.values}
    assert all(not name.startswith("on") for _, name, _ in found.values)
