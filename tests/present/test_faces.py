"""One run, many faces: the command line, JSON, HTML, Markdown, JUnit and the workbench state the same of it.

Each face has one function that reads back what it states; another face is one more entry in FACES.
"""

from __future__ import annotations

import json
import re
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import unescape
from typing import get_args

import pytest

from tests.cli.helpers import Shell
from tests.present.conftest import Project
from tests.reports.written import report_text
from tui_evals.present.runs import Cost
from tui_evals.present.status import ANSWER_LOOKS, RUN_LOOKS, status_phrase
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerStatus, Totals
from tui_evals.text.measures import duration
from tui_evals.tui.answer.rows import AnswerView, answer_rows
from tui_evals.tui.answer_context import AnswerFinder, ComparedAnswer
from tui_evals.tui.results.totals import RunNumbers, totals_rows
from tui_evals.tui.rows import row_text
from tui_evals.tui.runs.rows import ListedRun, about_lines, run_columns, run_line

STATES = {
    "finished": ("finished", {"pass": 1, "fail": 1, "error": 1}, "$0.140"),
    "served": ("finished", {"pass": 1, "fail": 2}, "<$0.0001"),
    "cached": ("finished", {"pass": 1, "fail": 2}, "$0"),
    "several targets": ("finished", {"pass": 2, "fail": 3, "error": 1}, "$0.140 and 3 unpriced"),
    "conversation": ("finished", {"pass": 2, "partial": 1}, "cost unknown, 3 unpriced"),
    "scripted": ("finished", {"pass": 1}, "$0"),
    "unjudged": ("finished", {"pass": 1, "fail": 1}, "$0.140"),
    "nothing judges": ("finished", {"unjudged": 2}, "$0.140"),
    "nothing can fail": ("finished", {"scored": 2}, "$0.140"),
    "dead target": ("interrupted", {"pending": 1}, "$0"),
    "budget spent": ("interrupted", {"pass": 1, "pending": 2}, "$0.0700 of $0.150"),
    "interrupted": ("interrupted", {"pass": 1, "answered": 1, "pending": 2}, "$0.250 and 1 unpriced"),
}
"""The status, the counts and the cost of each run; nothing is in flight in a run that is over."""
REASONS = {"dead target": "the connection broke", "budget spent": "resume with a larger --max-cost"}
"""Of what the store keeps about a run that was stopped, a part."""
_WIDE = 600
PHRASES = {**{status_phrase(status): status for status in get_args(AnswerStatus)}, "interrupted": "pending"}


@dataclass(frozen=True)
class Stated:
    """What a face states of a run."""

    status: str
    reason: str
    counts: Mapping[str, int]
    cost: str
    duration: str


@dataclass(frozen=True)
class Shown:
    """A run, and the ways to show it."""

    project: Project
    key: str
    shell: Shell

    def report(self, kind: str) -> str:
        with Reader(self.project.store) as reader:
            return report_text(kind, reader, [reader.find_run(self.key)])

    def answer(self, item: str) -> str:
        """What the workbench shows of an answer."""
        with Reader(self.project.store) as reader:
            run = reader.find_run(self.key)
            answer = next(row.id for row in reader.all_rows(run.id) if row.name == item)
        case = AnswerFinder(self.project.store).find(answer)
        rows = answer_rows(ComparedAnswer(case), AnswerView(layout="unified"), _WIDE)
        return "\n".join(row_text(row) for row in rows)


def counts_of(sentence: str) -> dict[str, int]:
    """Counts from "2 of 3 judged pass (…) · 1 pending"."""
    parts = sentence.split(" · ")
    counts = {}
    if rate := re.match(r"(\d+) of (\d+) (?:judged )?pass", parts[0]):
        passed, judged = map(int, rate.groups())
        counts = {"pass": passed, "fail": judged - passed}
        del parts[0]
    for part in (part for part in parts if part[0].isdigit() and not part.endswith("from the cache")):
        count, _, phrase = part.partition(" ")
        counts[PHRASES[phrase]] = int(count)
    return {status: count for status, count in counts.items() if count}


def headline_of(text: str) -> tuple[str, str]:
    """Status and duration from "■ finished in 3.0 s"."""
    glyph, word, took = re.fullmatch(r"(\S) (\w+)(?: in (.+))?", text).groups()
    assert RUN_LOOKS[word].glyph == glyph
    return word, took or ""


def by_command(shown: Shown) -> Stated:
    first, *lines = shown.shell("show", shown.key).out.splitlines()
    headline = first.rsplit("  ", 1)[1]
    told = next(number for number, line in enumerate(lines) if re.search(r": .* · (<?\$|cost unknown)", line))
    reason = [line for line in lines[:told] if "continues it" not in line]
    summed = next((line for line in lines if line.startswith("all ")), lines[told])
    sentence, _, cost = summed.partition(": ")[2].rpartition(" · ")
    status, took = headline_of(headline)
    return Stated(status, "\n".join(reason), counts_of(sentence), cost, took)


def by_data(found: Mapping[str, object]) -> Stated:
    totals = Totals(**{name: value for name, value in found["totals"].items() if name != "pass_rate"})
    names = dict(zip(("pass", "fail", "error"), ("passed", "failed", "errored"), strict=True))
    every = get_args(AnswerStatus)
    counts = {status: getattr(totals, names.get(status, status)) for status in every}
    return Stated(
        found["status"],
        found["message"] or "",
        {status: count for status, count in counts.items() if count},
        Cost(found["cost"], totals.judge_cost, found["unpriced"], found["may_cost"], found["budget"]).text,
        "" if found["seconds"] is None else duration(found["seconds"]),
    )


def by_json_command(shown: Shown) -> Stated:
    found = json.loads(shown.shell("show", shown.key, "--json").out)
    assert found["run"]["message"] == found["message"] and found["run"]["status"] == found["status"]
    return by_data(found)


def by_results(shown: Shown) -> Stated:
    return by_data(json.loads(shown.report("json"))["extensions"]["tui_evals_run"])


def by_page(shown: Shown) -> Stated:
    page = shown.report("html")
    grid = re.findall(r'<dt>(\w[\w ]*)</dt><dd><span class="d">(.*?)</span>(?: <small>(.*?)</small>)?', page)
    facts = {name: (unescape(value), note) for name, value, note in grid}
    legend = re.findall(r'<li class="(\w+)"><i aria-hidden="true">.</i> (\d+) ', page)
    notice = re.search(r'<p class="notice"><i aria-hidden="true">!</i> (.*?)</p>', page)
    reason = re.sub(r"This run .*?\.|\d+ answers? (is|are) not there.*", "", notice[1], count=2) if notice else ""
    status, took = headline_of(" ".join(facts["Status"]).strip())
    return Stated(
        status, unescape(reason).strip(), {name: int(count) for name, count in legend}, facts["Cost"][0], took
    )


def by_markdown(shown: Shown) -> Stated:
    text = shown.report("md")
    headline, sentence = re.search(r"^Run `\w+` · (\S \w+(?: in [^:]+)?): (.*)\.$", text, re.MULTILINE).groups()
    reason = re.search(r"^It stopped: `+ ?(.*?) ?`+$", text, re.MULTILINE)
    counts, _, cost = sentence.rpartition(" · ")
    status, took = headline_of(headline)
    return Stated(status, reason[1] if reason else "", counts_of(counts), cost, took)


def by_junit(shown: Shown) -> Stated:
    suites = ET.fromstring(shown.report("junit").partition("\n")[2])
    found = [{one.get("name"): one.get("value") for one in suite.iter("property")} for suite in suites]
    run = [{name: facts.get(name, "") for name in ("status", "reason", "duration", "run counts", "run cost")}
           for facts in found]  # fmt: skip
    assert all(one == run[0] for one in run)
    status, reason, took, counts, cost = run[0].values()
    return Stated(status, reason, counts_of(counts), cost, took)


def by_workbench(shown: Shown) -> Stated:
    """The rows that stand above the results, and those that are listed and told of the run."""
    with Reader(shown.project.store) as reader:
        run = reader.find_run(shown.key)
        listed = ListedRun(run, reader.totals(run.id))
        totals, columns = reader.totals(run.id), reader.totals_by(run.id, "column")
    rows = totals_rows(run, RunNumbers(totals, columns), time.time(), _WIDE)
    first, *more = map(row_text, rows)
    place, cost, *left = re.split(r"  +", first)
    status, took = headline_of(re.sub(r" [\d,]+/[\d,]+", "", place))
    lines, third = more[: len(columns) or 1], more[len(columns) or 1 :]
    counts = [re.fullmatch(r"(\S) ([\d,]+) (\w+)", group) for line in lines for group in re.split(r"  +", line)]
    stated = Counter({found[3]: 0 for found in counts if found})
    for found in filter(None, counts):
        stated[found[3]] += int(found[2])
    stated["pending"] = next((int(one.split()[0]) for one in left if one.endswith(" interrupted")), 0)
    assert all(ANSWER_LOOKS[found[3]].glyph == found[1] for found in counts if found)
    reason = "".join(third).strip().removeprefix("stopped: ")
    line = row_text(run_line(listed, run_columns([listed], _WIDE, time.time()), shown=False, marked=False))
    assert RUN_LOOKS[status].text in line and " ".join(reason.split()) in line
    about = "\n".join(row_text(row).rstrip() for row in about_lines(listed, "", _WIDE))
    assert reason.rstrip(".") in about
    return Stated(
        status,
        reason,
        {status: count for status, count in stated.items() if count},
        cost,
        took,
    )


FACES: Mapping[str, Callable[[Shown], Stated]] = {
    "show": by_command,
    "show --json": by_json_command,
    "results as JSON": by_results,
    "HTML": by_page,
    "Markdown": by_markdown,
    "JUnit": by_junit,
    "workbench": by_workbench,
}


@pytest.fixture
def shown(request, every_state, shell, monkeypatch) -> Shown:
    monkeypatch.chdir(every_state.folder)
    return Shown(every_state, every_state.runs[request.param], shell)


@pytest.mark.nightly
@pytest.mark.cases(3)
@pytest.mark.parametrize(("shown", "state"), [(state, state) for state in STATES], indirect=["shown"])
def test_every_face_states_the_same_of_a_run(shown, state):
    stated = {name: extract(shown) for name, extract in FACES.items()}
    first = stated["show"]
    assert stated == dict.fromkeys(FACES, first)
    status, counts, cost = STATES[state]
    assert (first.status, first.counts, first.cost) == (status, counts, cost)
    assert bool(first.duration) == (status == "finished")
    assert REASONS.get(state, "") in first.reason
    assert bool(first.reason) == (status == "interrupted")


@pytest.mark.parametrize("shown", ["dead target", "interrupted"], indirect=True)
def test_the_lists_of_runs_name_the_status_and_why_it_stopped(shown):
    with Reader(shown.project.store) as reader:
        run = reader.find_run(shown.key)
    (listed,) = [one for one in json.loads(shown.shell("runs", "--json").out) if one["key"] == shown.key]
    assert listed["status"] == "interrupted" and listed["message"] == run.message
    line, *_ = re.findall(rf"^{shown.key} .*\n", shown.shell("runs").out, re.MULTILINE)
    assert "! interrupted" in line
    assert f"run {shown.key} is interrupted" in shown.shell("watch", shown.key).out


@pytest.mark.parametrize(
    ("shown", "item", "facts"),
    [
        ("finished", "good", r"\d+ ms · \$0\.0700 · answered by m-1"),
        ("cached", "good", r"from the cache · \d+ tokens in, \d+ out · answered by served"),
        ("scripted", "good", r"scripted, not a model · \d+ ms( · .*)?"),
    ],
    indirect=["shown"],
)
def test_the_facts_of_an_answer_are_the_same_on_the_page_in_the_terminal_and_in_the_workbench(shown, item, facts):
    said = shown.shell("show", shown.key, "--item", item).out.splitlines()[-1].strip()
    assert re.fullmatch(facts, said)
    page = unescape(re.sub(r"<[^>]+>", " ", shown.report("html")))
    for part in said.split(" · "):
        assert part in page
    assert said in shown.answer(item)


@pytest.mark.parametrize("shown", ["finished"], indirect=True)
def test_of_a_call_that_never_came_to_an_answer_no_face_invents_figures(shown):
    said = shown.shell("show", shown.key, "--item", "lost").out
    assert "no answer today" in said
    for text in (said, shown.answer("lost")):
        assert not re.search(r"\b0 ms|0 \+ 0|tokens in|unpriced", text)


@pytest.mark.parametrize("shown", ["conversation"], indirect=True)
def test_every_face_shows_all_that_was_expected(shown):
    texts = [shown.shell("show", shown.key, "--item", "talk").out]
    texts.append(unescape(re.sub(r"<[^>]+>", "", shown.report("html"))))
    texts.append(re.sub(r"^[-+~] ?", "", shown.answer("talk"), flags=re.MULTILINE))
    for text in texts:
        assert re.search(r"Yes\s+yes", text)
