"""Whatever happens to a run, every face shows what its raw rows say, computed here without the product."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sqlite3
import time
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from dataclasses import dataclass
from html import unescape

import pytest
from scipy import stats

from tests.cli.helpers import Shell
from tests.reports.written import report_text
from tests.store.helpers import judged, new_run, said
from tui_evals.cli.run.watching import _line
from tui_evals.present.status import status_phrase
from tui_evals.store.database import open_store
from tui_evals.store.reader import Reader
from tui_evals.store.records import CallRecord, PlannedAnswer
from tui_evals.store.writer import Writer
from tui_evals.tui.results.totals import RunNumbers, totals_rows
from tui_evals.tui.rows import row_text
from tui_evals.tui.runs.rows import RunHistory
from tui_evals.tui.watch import Watch

pytestmark = pytest.mark.story


@dataclass(frozen=True)
class Raw:
    """A column of a run as its rows say."""

    statuses: Counter[str]
    cost: float
    judges: float
    unpriced: int
    cached: int
    items: int
    answers: int
    low: float
    high: float

    @property
    def passed(self) -> int:
        return self.statuses["pass"]

    @property
    def judged(self) -> int:
        return self.statuses["pass"] + self.statuses["fail"]


def interval(by_item: dict[int, list[bool]]) -> tuple[float, float]:
    """The 95 % interval of a rate as the manual describes it: by item, with three more, half of which always pass."""
    answers = sum(map(len, by_item.values()))
    size = sum(len(own) ** 2 for own in by_item.values()) / answers
    items = [(len(own), sum(own), 1.0) for own in by_item.values()] + [(size, size, 1.5), (size, 0.0, 1.5)]
    count = sum(weight * n for n, _, weight in items)
    rate = sum(weight * passes for _, passes, weight in items) / count
    spread = sum(weight * (passes - rate * n) ** 2 for n, passes, weight in items)
    half = stats.norm.ppf(0.975) * (spread / (count**2 - sum(weight * n * n for n, _, weight in items))) ** 0.5
    passes, least = sum(sum(own) for own in by_item.values()), 1 - 0.975 ** (1 / answers)
    low, high = (least if passes else 0.0), (1 - least if passes < answers else 1.0)
    return max(low, rate - half), min(high, rate + half)


def raw_columns(path, run: int) -> dict[tuple[int, int], Raw]:
    with sqlite3.connect(path) as store:
        store.row_factory = sqlite3.Row
        answers = store.execute("SELECT * FROM answers WHERE run = ?", [run]).fetchall()
        calls = store.execute("SELECT * FROM calls WHERE run = ? AND answer IS NOT NULL", [run]).fetchall()
    column_of = {row["id"]: (row["prompt"], row["target"]) for row in answers}
    found = {}
    for column in sorted(set(column_of.values())):
        own = [row for row in answers if column_of[row["id"]] == column]
        noted = [call for call in calls if column_of[call["answer"]] == column and call["kind"] == "judge"]
        by_item: dict[int, list[bool]] = defaultdict(list)
        for row in own:
            if row["status"] in ("pass", "fail"):
                by_item[row["item"]].append(row["status"] == "pass")
        priceless = [row for row in own if row["cost"] is None and row["body"] is not None and row["code"] is None]
        low, high = interval(by_item) if by_item else (0.0, 1.0)
        found[column] = Raw(
            Counter(row["status"] for row in own),
            sum(row["cost"] or 0.0 for row in own if not row["from_cache"]),
            sum(call["cost"] or 0.0 for call in noted),
            sum(not row["from_cache"] for row in priceless) + sum(call["cost"] is None for call in noted),
            sum(row["from_cache"] for row in own),
            len(by_item),
            sum(map(len, by_item.values())),
            low,
            high,
        )
    return found


def raw_shares(path, run: int) -> dict[tuple[int, int], dict[int, float]]:
    """In each column the share of repeats that pass of each item; a repeat is as good as the worst of its turns."""
    with sqlite3.connect(path) as store:
        rows = store.execute("SELECT prompt, target, item, repeat, status FROM answers WHERE run = ?", [run]).fetchall()
    repeats: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for prompt, target, item, repeat, status in rows:
        repeats[prompt, target, item, repeat].append(status)
    found: dict[tuple[int, int], dict[int, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for (prompt, target, item, _), statuses in repeats.items():
        if {"pass", "fail"} & set(statuses) and set(statuses) <= {"pass", "fail", "answered", "unjudged", "scored"}:
            found[prompt, target][item].append("fail" not in statuses)
    columns = sorted({(prompt, target) for prompt, target, *_ in rows})
    return {column: {item: sum(own) / len(own) for item, own in found[column].items()} for column in columns}


class Course:
    """A run that is asked, judged, judged again, stopped and resumed at random."""

    def __init__(self, folder, shell, seed: int) -> None:
        self.random, self.folder, self.shell = random.Random(seed), folder, shell
        self.path = open_store(folder / ".evals" / "evals.db")
        self.writer, self.reader = Writer(self.path), Reader(self.path)
        pick = self.random.randint
        targets, prompts = ("small", "large")[: pick(1, 2)], ("short", "long")[: pick(1, 2)]
        self.turns, self.repeats = pick(1, 2), pick(1, 3)
        items = [{"testId": f"t{n}", "prompt": "?", "category": "ab"[n % 2]} for n in range(pick(1, 7))]
        if self.turns > 1:
            items = [{**item, "turns": [{"prompt": "?"}] * self.turns} for item in items]
        asked = sorted(self.random.sample(range(len(items)), pick(1, len(items))))  # maybe a subset
        self.run = self.writer.plan(
            new_run(targets=targets, prompts=prompts, snapshot=self.writer.snapshot({"items": items}, "evals.json")),
            self._plan(asked, len(prompts), len(targets)),
        )
        self.asked = asked
        self.ids = list(self.reader.ids(self.run.id))
        self.watch = Watch(self.path)
        self.watch.open_run(self.run.id)

    def _plan(self, asked, prompts, targets):
        cell = 0
        for prompt in range(prompts):
            for target in range(targets):
                for item in asked:
                    for repeat in range(self.repeats):
                        for turn in range(self.turns):
                            yield PlannedAnswer(cell, item, turn, prompt, target, repeat, f"t{item}", "ab"[item % 2])
                        cell += 1

    async def step(self) -> None:
        await self.random.choice((self.answer, self.answer, self.score, self.note, self.again, self.stop))()
        self.writer.flush()

    async def answer(self) -> None:
        chosen = self.random.sample(self.ids, self.random.randint(1, len(self.ids)))
        self.writer.run_status(self.run.id, "running", started=1.0)
        self.writer.running(chosen, 1.0)
        for one in chosen[: self.random.randint(1, len(chosen))]:
            failed = self.random.random() < 0.2
            record = said(
                None if failed else "yes",
                code="agentTimeout" if failed else None,
                cost=self.random.choice([None, 0.25, 0.5]),
                from_cache=self.random.random() < 0.3,
                latency_ms=20.0,
            )
            await self.writer.answered(one, record, "error" if failed else "answered")

    def verdict(self) -> str:
        return self.random.choice(("pass", "pass", "fail", "partial", "unjudged"))

    async def score(self) -> None:
        for one in self.random.sample(self.ids, self.random.randint(1, len(self.ids))):
            verdict = self.verdict()
            await self.writer.scored(one, 1, [judged(score=float(verdict == "pass"))], verdict, None)

    async def note(self) -> None:
        call = CallRecord(
            answer=self.random.choice(self.ids),
            kind="judge",
            target="j",
            attempt=1,
            started=1.0,
            latency_ms=2.0,
            cost=self.random.choice([None, 0.25]),
            code=None,
            from_cache=False,
        )
        self.writer.call(call, self.run.id)

    async def again(self) -> None:
        """Another scoring pass, which may be dropped before it counts."""
        number = self.writer.begin_pass(self.run.id, {})
        for one in self.random.sample(self.ids, self.random.randint(0, len(self.ids))):
            await self.writer.scored(one, number, [judged()], self.verdict(), None)
        self.check()
        (self.writer.count_pass if self.random.random() < 0.6 else self.writer.drop_pass)(self.run.id)

    async def stop(self) -> None:
        self.writer.run_status(self.run.id, self.random.choice(("interrupted", "finished")), finished=9.0)
        if self.random.random() < 0.5:
            self.writer.reopen_errors(self.run.id)

    def check(self) -> None:
        """Hold every face to the raw rows."""
        self.writer.flush()
        raw = raw_columns(self.path, self.run.id)
        live = (self.workbench, self.list_of_runs, self.watch_lines)
        for face in (*live, self.show_data, self.runs_data, self.show_text):
            face(raw)

    def reports(self) -> None:
        raw = raw_columns(self.path, self.run.id)
        for face in (self.junit, self.html, self.results, self.trend):
            face(raw)

    def names(self, raw) -> dict[tuple[int, int], str]:
        run = self.run
        several = len(run.prompts) > 1
        return {(p, t): run.targets[t] + (f" · {run.prompts[p]}" if several else "") for p, t in raw}

    # -- faces

    def workbench(self, raw) -> None:
        self.watch.poll()
        for column, one in raw.items():
            same_totals(self.watch.columns[column], one)
        columns = self.watch.columns if len(raw) > 1 else {}
        shown = totals_rows(self.watch.run, RunNumbers(self.watch.totals, columns), time.time(), 300, 9)
        lines = [row_text(row) for row in shown][1 : 1 + len(raw)]
        for line, one in zip(lines, raw.values(), strict=True):
            rate = re.search(r"([\d.]+) %(?: of (\d+) items?)? \((\d+)–(\d+)\)", line)
            assert bool(rate) == bool(one.judged)
            if rate:
                assert float(rate[1]) == rounded(one.passed / one.judged, 1)
                assert (float(rate[3]), float(rate[4])) == (rounded(one.low, 0), rounded(one.high, 0))
                assert int(rate[2] or one.answers) == one.items

    def list_of_runs(self, raw) -> None:
        (listed,) = RunHistory(self.path, self.folder).load().listed
        rates = sorted(one.passed / one.judged for one in raw.values() if one.judged)
        assert sorted(listed.rates) == pytest.approx(rates)
        assert (listed.rate is None) == (len(rates) != 1)

    def show_data(self, raw) -> None:
        found = json.loads(self.shell("show", self.run.key, "--json").out)
        statuses = sum((one.statuses for one in raw.values()), Counter())
        assert (found["totals"]["passed"], found["totals"]["failed"]) == (statuses["pass"], statuses["fail"])
        assert found["totals"]["total"] == statuses.total()
        assert found["cost"] == pytest.approx(sum(one.cost + one.judges for one in raw.values()))
        assert found["unpriced"] == sum(one.unpriced for one in raw.values())
        assert (found["totals"]["pass_rate"] is None) == (len(raw) > 1 or not statuses["pass"] + statuses["fail"])

    def runs_data(self, raw) -> None:
        (run,) = json.loads(self.shell("runs", "--json").out)
        assert [one["column"] for one in run["columns"]] == list(self.names(raw).values())
        for told, one in zip(run["columns"], raw.values(), strict=True):
            assert (told["passed"], told["cached"]) == (one.passed, one.cached)
            same_rate(told["pass_rate"], one)

    def watch_lines(self, raw) -> None:
        run = self.reader.run(self.run.id)
        for totals, one in zip(self.reader.totals_by(run.id, "column").values(), raw.values(), strict=True):
            line = " ".join(_line("x", totals, None))
            final = sum(one.statuses[name] for name in ("pass", "fail", "partial", "error", "unjudged"))
            assert f"x: {final}/{one.statuses.total()}" in line
            assert f"✓ {one.passed} ✗ {one.judged - one.passed}" in line or not one.judged

    def show_text(self, raw) -> None:
        out = self.shell("show", self.run.key).out
        for column, name in self.names(raw).items():
            (line,) = re.findall(rf"^{re.escape(name)}: (.*)$", out, re.MULTILINE)
            same_sentence(line, raw[column])

    def junit(self, raw) -> None:
        suites = ET.fromstring(report_text("junit", self.reader, [self.reader.run(self.run.id)]).partition("\n")[2])
        for suite, one in zip(suites, raw.values(), strict=True):
            facts = {fact.get("name"): fact.get("value") for fact in suite.iter("property")}
            same_sentence(facts["counts"], one)
            assert suite.get("failures") == str(one.statuses["fail"])

    def html(self, raw) -> None:
        page = unescape(report_text("html", self.reader, [self.reader.run(self.run.id)]))
        for one in raw.values():
            if one.judged:
                ends = re.findall(r"([\d.]+) to ([\d.]+) %", page)
                own = (rounded(one.low, 1), rounded(one.high, 1))
                assert any((float(low), float(high)) == own for low, high in ends)

    def results(self, raw) -> None:
        found = json.loads(report_text("json", self.reader, [self.reader.run(self.run.id)]))
        totals = found["extensions"]["tui_evals_run"]["totals"]
        assert totals["passed"] == sum(one.passed for one in raw.values())

    def trend(self, raw) -> None:
        """A finished run stands in the trend of its dataset, with its own rates and marked where it asked a part."""
        out = self.shell("trend", "evals.json", "--json").out
        points = json.loads(out)["runs"] if out.strip() else []
        if self.reader.run(self.run.id).status != "finished":
            assert self.run.key not in [point["run"] for point in points]
            return
        (point,) = [point for point in points if point["run"] == self.run.key]
        told = [one for one in point["pass_rates"] if one["value"] is not None]
        for found, one in zip(told, [one for one in raw.values() if one.judged], strict=True):
            same_rate(found, one)

    async def compared(self) -> None:
        """Both sides of a comparison are over what both runs judged: for each column the mean share of its items."""
        run = self.run
        other = self.writer.plan(
            new_run(name="other", targets=run.targets, prompts=run.prompts, snapshot=run.snapshot),
            self._plan(self.asked, len(run.prompts), len(run.targets)),
        )
        for one in self.reader.ids(other.id):
            await self.writer.answered(one, said("yes"), "answered")
            verdict = self.verdict()
            await self.writer.scored(one, 1, [judged(score=float(verdict == "pass"))], verdict, None)
        self.writer.flush()
        sides = [raw_shares(self.path, one.id) for one in (other, run)]
        found = json.loads(self.shell("compare", other.key, run.key, "--json").out)["runs"]
        for told, own in zip(found, sides, strict=True):
            shared = [
                [own[column][item] for item in sides[0][column] if item in sides[1][column]] for column in sides[0]
            ]
            for rate, shares in zip(told["pass_rates"], filter(None, shared), strict=True):
                assert (rate["value"], rate["items"]) == (pytest.approx(sum(shares) / len(shares)), len(shares))
                ends = interval({number: [share] for number, share in enumerate(shares)})
                assert rate["interval"] == pytest.approx(ends, abs=1e-9)

    def close(self) -> None:
        self.watch.close()
        self.reader.close()
        self.writer.close()


def same_totals(totals, one: Raw) -> None:
    names = {"pass": "passed", "fail": "failed", "error": "errored"}
    for status in ("pending", "running", "answered", "pass", "fail", "partial", "error", "unjudged", "scored"):
        own = getattr(totals, names.get(status, status))
        raw = one.statuses[status]
        if status in ("pending", "running"):  # a question that nobody waits for any more is pending
            own, raw = totals.pending + totals.running, one.statuses["pending"] + one.statuses["running"]
        assert own == raw, status
    assert (totals.cost, totals.judge_cost) == pytest.approx((one.cost, one.judges))
    assert (totals.unpriced, totals.cached) == (one.unpriced, one.cached)
    rate = totals.pass_rate
    assert (rate is None) == (not one.judged)
    if rate is not None:
        assert (rate.items, rate.answers) == (one.items, one.answers)
        assert (rate.interval.low, rate.interval.high) == pytest.approx((one.low, one.high), abs=1e-9)


def rounded(share: float, decimals: int):
    """A share in percent as it is written, either way where it lies between two."""
    return pytest.approx(100 * share, abs=0.5 * 10**-decimals + 1e-6)


def same_rate(told, one: Raw) -> None:
    assert (told is None) == (not one.judged)
    if told is not None:
        assert told["value"] == pytest.approx(one.passed / one.judged) and told["items"] == one.items
        assert told["interval"] == pytest.approx([one.low, one.high], abs=1e-9)


def same_sentence(line: str, one: Raw) -> None:
    """ "3 of 4 judged pass (75.0 % of 2 items, 2 answers each, 95 % interval 1.3 to 98.7) · 1 pending · $0.500"."""
    if one.judged:
        assert re.match(rf"{one.passed} of {one.judged} (judged )?pass \(", line)
        low, high = re.search(r"95 % interval ([\d.]+) to ([\d.]+)\)", line).groups()
        assert (float(low), float(high)) == (rounded(one.low, 1), rounded(one.high, 1))
        assert (f" of {one.items} item" in line) == (one.items != one.answers)
    for status in ("partial", "error", "unjudged"):
        phrase = f"{one.statuses[status]:,} {status_phrase(status)}"
        assert (phrase in line) == bool(one.statuses[status])
    assert (f"{one.cached:,} of" in line and "from the cache" in line) == bool(one.cached)


async def walk(course: Course, steps: int) -> None:
    for _ in range(steps):
        await course.step()
        course.check()
    course.reports()
    await course.compared()


@pytest.mark.cases(1)
@pytest.mark.parametrize("seed", range(6))
def test_every_face_shows_what_the_rows_say_after_each_change(tmp_path, monkeypatch, capsys, seed):
    monkeypatch.chdir(tmp_path)
    course = Course(tmp_path, Shell(capsys), seed)
    try:
        asyncio.run(walk(course, 6))
    finally:
        course.close()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "seed", [*range(100, 106), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(106, 140))]
)
def test_every_face_shows_what_the_rows_say_in_long_courses(tmp_path, monkeypatch, capsys, seed):
    monkeypatch.chdir(tmp_path)
    course = Course(tmp_path, Shell(capsys), seed)
    try:
        asyncio.run(walk(course, 15))
    finally:
        course.close()
