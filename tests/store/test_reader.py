"""What can be asked: windows, changes, sorting and filters against a plain model, totals, runs by word."""

import asyncio
import inspect
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.helpers import cells, judged, new_run, said
from tui_evals.store import run_figures
from tui_evals.store.database import connect, open_store
from tui_evals.store.filters import FilterError, parse_filter
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord, PlannedAnswer, Settled
from tui_evals.store.writer import Writer

TARGETS = ("openai/gpt", "demo", "50%_off")
PROMPTS = ("short", "prompts/long", "50%_off")
TAGS = {0: ["slow"], 1: ["Slow-ish", "b"], 2: []}
TEXTS = ["Paris it is", "100% sure_thing", 'say "hi"', "", "Ünïcode *star* ~"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A run with every kind of answer in it, beside a run that must never show."""
    path = open_store(tmp_path_factory.mktemp("store") / "evals.db")
    planned = [
        PlannedAnswer(
            n // 2,
            item,
            turn,
            target,
            target,
            repeat,
            f"MT-{item}" if item % 2 else f"#{item + 1}",
            ["", "geo", "Geo_2"][item % 3],
        )
        for n, (target, item, repeat, turn) in enumerate(
            (t, i, r, u) for t in range(3) for i in range(4) for r in range(2) for u in range(2)
        )
    ]
    items = [{"tags": TAGS.get(n, []), "turns": [{"tags": ["first"]}, {"prompt": "?"}]} for n in range(4)]

    async def fill(writer, reader, run):
        for n, row in enumerate(reader.window(run.id, 0, 100)):
            if n % 11 == 10:
                continue
            writer.running([row.id], float(100 - n))
            if n % 7 == 6:
                await writer.answered(row.id, said(None, code="agentTimeout", message="took too long"), "error")
                continue
            answer = said(
                TEXTS[n % 5],
                cost=n / 10 if n % 3 else None,
                latency_ms=float(n * 37 % 11) * 1_000,
                finish_reason=("stop", "length", "max_tokens", "odd_one")[n % 4],
                diagnostics={"refusal": "I would rather not"} if n % 9 == 1 else None,
            )
            await writer.answered(row.id, answer, "answered")
            if n % 5 != 4:
                passed = n * 13 % 3 != 0
                record = judged("Match" if n % 2 else "Relevance", float(passed))
                if n % 8 == 3:
                    record = judged("Match", None, result="error", reason="the judge took a nap")
                    await writer.scored(row.id, 1, [record], "partial", None)
                    continue
                await writer.scored(row.id, 1, [record], "pass" if passed else "fail", n * 17 % 101 / 1.0)

    with Writer(path) as writer, Reader(path) as reader:
        snapshot = writer.snapshot({"items": items}, "x")
        for name in ("one", "other"):
            run = writer.plan(new_run(name=name, targets=TARGETS, prompts=PROMPTS, snapshot=snapshot), planned)
            if name == "one":
                asyncio.run(fill(writer, reader, run))
                wanted = run
            ids = reader.ids(run.id)
            for n, (verdict, author) in enumerate([("pass", "ann"), ("fail", "ann"), ("fail", "bob"), ("pass", "bob")]):
                for place in range(n, n + 4):
                    writer.label(ids[place], verdict, author, note="too blunt" if n == 1 else "")
            writer.label(ids[20], "fail", "ann", evaluator="Match", note="too blunt")
        yield reader, wanted
    with Writer(path):
        pass


@pytest.fixture(scope="module")
def everything(filled):
    reader, run = filled
    rows = reader.window(run.id, 0, 100)
    return [(row, reader.detail(row.id)) for row in rows]


def same(pattern, text):
    """What a value with stars matches: whole texts, letters of ASCII in either case."""

    def fold(t):
        return "".join(c.lower() if c.isascii() else c for c in t)

    first, *rest = fold(pattern).split("*")
    text = fold(text)
    if not rest:
        return text == first
    if not text.startswith(first):
        return False
    text = text[len(first) :]
    *middle, last = rest
    for part in middle:
        at = text.find(part)
        if at < 0:
            return False
        text = text[at + len(part) :]
    return text.endswith(last)


def compares(number, value):
    sign = value[: len(value) - len(value.lstrip("<>="))]
    limit = float(value.lstrip("<>="))
    if number is None:
        return False
    ways = {"<": number < limit, "<=": number <= limit, ">": number > limit, ">=": number >= limit}
    return {**ways, "": number == limit}[sign]


def holds(key, value, row, detail, everyone):
    scores = detail.scores.get(1, ())
    text = detail.answer.text or "" if detail.answer else ""

    def fold(t):
        return "".join(c.lower() if c.isascii() else c for c in t)

    match key:
        case "status":
            return row.status == value
        case "score":
            return compares(row.score, value)
        case "latency":
            number, unit = re.fullmatch(r"(.*?)(ms|s|m|)", value).groups()
            factor = {"ms": 1, "s": 1_000, "": 1_000, "m": 60_000}[unit]
            return compares(None if row.latency_ms is None else row.latency_ms / factor, number)
        case "cost":
            return compares(row.cost, value.replace("$", ""))
        case "evaluator":
            return any(same(value, score.key) for score in scores)
        case "category":
            return same(value, row.category)
        case "tag":
            return any(same(value, tag) for tag in TAGS.get(row.item, [])) or (row.turn == 0 and same(value, "first"))
        case "id":
            return same(value, row.name)
        case "target" | "prompt":
            name = TARGETS[row.target] if key == "target" else PROMPTS[row.prompt]
            return same(value, name) or same(f"*/{value}", name)
        case "turn":
            return row.turn == int(value) - 1
        case "errored":
            return row.status == "error"
        case "fail" | "pass" | "partial":
            return row.status == key
        case "empty":
            return detail.answer is not None and detail.answer.text is not None and not row.preview
        case "length" | "refusal":
            return row.ending == key
        case "ending":
            return same(value, row.ending)
        case "cause":
            about = [detail.answer.code or "", detail.answer.message or ""] if detail.answer else []
            about += [score.reason for score in scores if score.result == "error"]
            return any(same(f"*{value}*", part) for part in about)
        case "failed" if value:
            return any(same(value, score.key) for score in scores if score.result == "fail")
        case "error":
            about = (detail.answer.code or "", detail.answer.message or "") if detail.answer else ("",)
            return row.status == "error" and any(same(f"*{value}*", part) for part in about)
        case "label":
            mine = [label for label in detail.labels if label.evaluator is None]
            if value in ("good", "bad"):
                return bool(mine) and mine[-1].verdict == {"good": "pass", "bad": "fail"}[value]
            return any(same(f"*{value}*", label.note) for label in mine)
        case "failed":
            return row.status == "fail"
        case "flaky":
            mine = [r for r, _ in everyone if (r.item, r.target) == (row.item, row.target)]
            return any({"pass", "fail"} <= {r.status for r in mine if r.turn == turn} for turn in (0, 1))
        case "text":
            return any(fold(value) in fold(place) for place in (row.name, row.preview, text))
    raise AssertionError(key)


VALUES = {
    "status": ["pass", "fail", "error", "pending", "answered"],
    "score": ["<50", "<=34", ">=34", ">80", "34"],
    "latency": ["<4s", "<=3000ms", ">=0.05m", ">2", ">6s"],
    "cost": [">1", "<=$0.5", "0.5"],
    "failed": ["Match", "rel*", "*", "None", ""],
    "error": ["took", "timeout", "nap", ""],
    "label": ["good", "bad", "blunt", "*"],
    "prompt": ["short", "long", "50%*", "prompts/*"],
    "evaluator": ["Match", "match", "Rel*", "None"],
    "category": ["geo", "GEO_2", "geo*", "*"],
    "tag": ["slow", "slow*", "first", "b", "none"],
    "id": ["MT-*", "MT-1", "#1", "mt-3"],
    "target": ["demo", "gpt", "openai/*", "50%_off", "50%*"],
    "turn": ["1", "2", "3"],
    **{word: [""] for word in ("errored", "fail", "pass", "partial", "empty", "length", "refusal")},
    "ending": ["length", "odd*", "stop"],
    "cause": ["took", "Timeout", "nap", "nothing_of_it"],
    "flaky": [""],
    "text": ["paris", "%", "_", "it", "*star*", "~", "took too", "Ünï", "MT-", "nowhere"],
}
TERMS = st.sampled_from([(key, value) for key, values in VALUES.items() for value in values])


def written(key, value, negated):
    word = key if not value else f'"{value}"' if key == "text" else f"{key}:{value}"
    return "!" * negated + word


@given(st.lists(st.tuples(TERMS, st.booleans()), max_size=4))
def test_filters_find_what_a_plain_model_finds(filled, everything, terms):
    reader, run = filled
    where = parse_filter("  ".join(written(key, value, negated) for (key, value), negated in terms))
    wanted = [
        row.id
        for row, detail in everything
        if all(holds(key, value, row, detail, everything) != negated for (key, value), negated in terms)
    ]
    assert list(reader.ids(run.id, where)) == wanted
    found = [row for row in reader.search(where, 1_000) if row.run == run.id]
    assert sorted(row.id for row in found) == wanted


@pytest.mark.parametrize("key, values", VALUES.items())
def test_each_filter_lets_something_through_and_keeps_something_back(filled, everything, key, values):
    reader, run = filled
    counts = {len(reader.ids(run.id, parse_filter(written(key, value, False)))) for value in values}
    assert any(0 < count < len(everything) for count in counts)


@given(
    st.sampled_from(
        ["pos", "score", "cost", "latency_ms", "status", "preview", "name", "started", "evaluator:Match", None]
    ),
    st.booleans(),
)
def test_sorting_is_that_of_a_plain_model_with_nulls_last(filled, everything, column, descending):
    reader, run = filled

    def value(row, detail):
        if column and column.startswith("evaluator:"):
            return next((score.score for score in detail.scores.get(1, ()) if score.key == "Match"), None)
        return getattr(row, column or "pos")

    having = [(value(row, detail), row.id) for row, detail in everything if value(row, detail) is not None]
    lacking = [row.id for row, detail in everything if value(row, detail) is None]
    if isinstance(having[0][0], str):
        having = [(text.encode(), answer) for text, answer in having]
    having.sort(key=lambda pair: pair[0], reverse=descending)  # a stable sort, so ties stay in the order of the plan
    assert list(reader.ids(run.id, None, column, descending)) == [answer for _, answer in having] + lacking


@given(st.integers(0, 60), st.integers(0, 60))
def test_windows_and_rows_by_id(filled, everything, offset, limit):
    reader, run = filled
    rows = [row for row, _ in everything]
    assert reader.window(run.id, offset, limit) == rows[offset : offset + limit]
    chosen = rows[offset : offset + limit][::-1]
    assert reader.rows([10**9, *(row.id for row in chosen)]) == chosen


@pytest.mark.parametrize(
    "text, said_",
    [
        ("status:failed", "no status 'failed' .did you mean 'fail'"),
        ("score:much", "'score:much' is not a comparison"),
        ("score:<nan", "not a comparison"),
        ("score:<1e999", "not a comparison"),
        ("latency:2s", "'latency:2s' is not a comparison with a time; write latency:>2s"),
        ("latency:>2h", "not a comparison with a time"),
        ("cost:>much", "comparison with US dollars; write cost:>0.01"),
        ("turn:0", "turn:1 for the first"),
        ("turn:²", "turn:1 for the first"),
        ("statsu:fail", "no filter 'statsu:' .did you mean 'status'.*quotation marks"),
        ("kind:broken", "tui-evals compare"),
        ('id:"MT 1', "never closed"),
        ('"open', "never closed"),
        ("status:", "needs a value after the colon, as in status:fail"),
        ("!", "says nothing"),
        ('""', "says nothing"),
        ("a\0b", "control characters"),
        ("x" * 2_000, "too long"),
        ("a " * 51, "51 terms"),
    ],
)
def test_a_bad_filter_names_its_term(text, said_):
    with pytest.raises(FilterError, match=said_):
        parse_filter(text)


@given(st.text(max_size=40))
def test_any_text_is_a_filter_that_runs_or_a_sentence(filled, text):
    reader, run = filled
    try:
        where = parse_filter(text)
    except FilterError:
        return
    reader.ids(run.id, where)


def test_sorting_by_what_is_not_there_says_so(filled):
    reader, run = filled
    with pytest.raises(FilterError, match=r"sorted by 'latency'.*"):
        reader.ids(run.id, None, "latency")


async def test_changes_come_once_in_their_present_state_and_in_order(path, writer, reader):
    runs = [writer.plan(new_run(), cells(5)) for _ in range(2)]
    seen = reader.seq()
    assert reader.changed(seen) == []
    rows = reader.window(runs[0].id, 0, 5)
    other = reader.window(runs[1].id, 0, 1)[0]
    for row in (rows[3], rows[1], other):
        writer.running([row.id], 1.0)
        await writer.answered(row.id, said(), "answered")
    await writer.scored(rows[3].id, 1, [judged()], "pass", 100.0)
    changed = reader.changed(seen)
    assert [(row.id, row.status) for row in changed] == [
        (rows[1].id, "answered"),
        (other.id, "answered"),
        (rows[3].id, "pass"),
    ]
    assert [row.id for row in reader.changed(seen, runs[1])] == [other.id]
    assert reader.changed(changed[1].seq) == [changed[2]]
    assert reader.seq() == changed[-1].seq


async def test_each_change_of_an_answer_has_a_later_number_of_its_own(writer, reader):
    run = writer.plan(new_run(), cells(9)).id
    ids = list(reader.ids(run))
    right, failed, unjudgeable = ids[:4], ids[4:6], ids[6:]
    failure = said(None, code="agentTimeout", message="late")
    problem = judged("Other", score=None, result="error")

    def settle(number, answers, record, status, *scores):
        return writer.settled(number, [Settled(answer, record, scores or None, status, None) for answer in answers])

    def wait(answers):
        for answer in answers:
            writer.waiting(run, None, answer)

    def judge_anew():
        return settle(writer.begin_pass(run, {}), right, None, "fail", judged())

    for changed, step, *arguments in [
        (ids, writer.running, ids, 1.0),
        (ids, wait, ids),
        (right, settle, 1, right, said(), "pass", judged()),
        (failed, settle, 1, failed, failure, "error"),
        (unjudgeable, settle, 1, unjudgeable, said(), "answered"),
        (unjudgeable, settle, 1, unjudgeable, None, "partial", judged(), problem),
        (right, writer.label_each, right, "pass", "ann", ""),
        ([], judge_anew),
        (right, writer.count_pass, run),
        (unjudgeable, settle, 2, unjudgeable, None, "partial", judged(), problem),
        (failed + unjudgeable, writer.reopen_errors, run),
        (failed, writer.running, failed, 2.0),
        (failed, wait, failed),
        (failed, writer.running, failed, 3.0),
        (failed, writer.run_status, run, "interrupted"),
    ]:
        for answer in changed[:1]:  # the number below the next one is free once this answer changes again
            writer.label(answer, "fail", "bob")
        seen = reader.seq()
        if inspect.isawaitable(done := step(*arguments)):
            await done
        writer.flush()
        rows = reader.changed(seen)
        assert [row.id for row in rows] == changed, step
        assert [row.seq for row in rows] == list(range(seen + 1, reader.seq() + 1)), step


def test_changes_and_windows_are_read_through_an_index(path):
    connection = connect(path)
    for query, index in (
        ("SELECT * FROM answers WHERE seq > 5 AND +run = 1 ORDER BY seq", "answers_seq"),
        ("SELECT * FROM answers WHERE run = 1 AND pos >= 5 AND pos < 9 ORDER BY pos", "answers_run_pos"),
    ):
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
        assert [index in line[-1] for line in plan] == [True]
    connection.close()


async def test_totals_and_money(path, writer, reader):
    planned = [PlannedAnswer(n, n, 0, 0, n % 2, 0, f"#{n}", "geo" if n < 3 else "") for n in range(6)]
    run = writer.plan(new_run(targets=("a", "b")), planned)
    ids = [row.id for row in reader.window(run.id, 0, 6)]
    await writer.answered(ids[0], said(cost=0.25, input_tokens=10, output_tokens=5), "answered")
    await writer.scored(ids[0], 1, [judged()], "pass", 100.0)
    await writer.answered(ids[1], said(cost=9.0, from_cache=True), "answered")
    await writer.scored(ids[1], 1, [judged(score=0.0)], "fail", 0.0)
    await writer.answered(ids[2], said(), "answered")
    await writer.answered(ids[3], said(scripted=True), "answered")
    await writer.scored(ids[3], 1, [judged(score=None, result="error")], "partial", None)
    await writer.answered(ids[4], said(None, code="agentTimeout", message="late"), "error")
    for kind, cost, code, cached in (
        ("target", 0.25, None, False),
        ("target", None, None, False),
        ("judge", 0.5, None, False),
        ("judge", None, None, True),
        ("target", None, "agentTimeout", False),
    ):
        call = CallRecord(
            answer=ids[0],
            kind=kind,
            target="a",
            attempt=1,
            started=1.0,
            latency_ms=2.0,
            cost=cost,
            code=code,
            from_cache=cached,
        )
        writer.call(call, run.id)
    writer.flush()
    total = reader.totals(run.id)
    assert (total.total, total.pending, total.passed, total.failed, total.answered, total.partial, total.errored) == (
        6,
        1,
        1,
        1,
        1,
        1,
        1,
    )
    assert (total.cost, total.judge_cost, total.unpriced, total.input_tokens, total.output_tokens) == (
        0.25,
        0.5,
        1,
        10,
        5,
    )
    by_target = reader.totals_by(run.id, "target")
    assert [by_target[n].judge_cost for n in (0, 1)] == [0.5, 0.0]
    assert {key: found.total for key, found in reader.totals_by(run.id, "category").items()} == {"geo": 3, "": 3}
    assert {key: found.total for key, found in reader.totals_by(run.id, "column").items()} == {(0, 0): 3, (0, 1): 3}
    with pytest.raises(ValueError, match="not by 'colour'"):
        reader.totals_by(run.id, "colour")
    assert run_figures.spent(reader, run.id) == 0.75
    assert [call.kind for call in reader.calls(run.id)] == ["target", "target", "judge", "judge", "target"]
    (mean,) = run_figures.evaluator_means(reader, run.id)
    assert (mean.key, mean.scored, mean.mean, mean.passed, mean.failed, mean.errored) == ("Match", 2, 0.5, 1, 1, 1)
    assert [(mean.target, mean.scored) for mean in run_figures.evaluator_means(reader, run.id, columns=True)] == [
        (0, 1),
        (1, 1),
    ]


def test_a_run_without_answers_has_totals(writer, reader):
    run = writer.plan(new_run(), [])
    total = reader.totals(run.id)
    assert (total.total, total.cost, total.passed) == (0, 0.0, 0)
    assert reader.totals_by(run.id, "target") == {}


def test_finding_a_run_by_what_people_write(path, writer, reader, monkeypatch):
    with pytest.raises(LookupError, match="no runs in"):
        reader.find_run("last")
    signs = iter(["a", "0", "0", "0", "0", "1", "a", "0", "0", "0", "0", "2", "b", "0", "0", "0", "0", "3"])
    monkeypatch.setattr("tui_evals.store.housekeeping.secrets.choice", lambda _: next(signs))
    runs = [writer.plan(new_run(name=name), cells(1)) for name in ("nightly", "nightly", "b")]
    assert [run.key for run in runs] == ["a00001", "a00002", "b00003"]
    assert reader.find_run("last") == runs[2]
    assert reader.find_run("A00001") == runs[0]
    assert reader.find_run("nightly") == runs[1]
    assert reader.find_run("b") == runs[2]
    assert reader.find_run("b0") == runs[2]
    assert reader.run(runs[0].id) == runs[0]
    with pytest.raises(LookupError, match=r"several runs .a00002, a00001."):
        reader.find_run("a0")
    with pytest.raises(LookupError, match="did you mean 'nightly'"):
        reader.find_run("nigthly")
    for word in ("", "%", "*", "_"):
        with pytest.raises(LookupError, match="there is no run"):
            reader.find_run(word)


def test_the_last_run_among_runs_without_answers_is_said_to_have_none(writer, reader):
    writer.plan(new_run(snapshot=writer.snapshot({"items": []}, "evals.json")), cells(0))
    with pytest.raises(LookupError, match=r"no run in .* has answers; `tui-evals runs` lists them"):
        reader.find_run("last")


def test_listing_runs(writer, reader):
    runs = [
        writer.plan(new_run(name=name, tags=(tag,)), cells(1))
        for name, tag in (("Alpha one", "x"), ("beta", "y"), ("alpha 100%", "x"))
    ]
    assert reader.runs() == runs[::-1]
    assert reader.runs(limit=1, offset=1) == [runs[1]]
    assert reader.runs(text="alpha x") == [runs[2], runs[0]]
    assert reader.runs(text="100%") == [runs[2]]
    assert reader.runs(text="nothing") == []
