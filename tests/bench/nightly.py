"""Faults by the dozen, and what they cost: `python -m tests.bench.nightly [--rounds 50] [--only WORD]`.

Each round of a course is a project of its own, the real command line and a real server, and a fault at a random moment.
Afterwards what is in the store is held against a run that nothing happened to, and against what the server billed. A
course is a function of a `Round` that gives a `Tally`; whoever knows another fault appends it to COURSES.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.generate import server as generate_server
from tests.generate.conftest import ROLES, full_prompt
from tests.generate.conftest import Project as Shop
from tests.runs.conftest import Project, kill, until
from tests.server import Server, running
from tui_evals.store import run_figures
from tui_evals.store.battles import battles, bouts
from tui_evals.store.connection import store_wait
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader

KILLS = 2
"""Kills in each round of a course that kills."""
AT_ONCE = 3
"""Calls of each target and of the judge that may be in flight."""
TOKENS, LONGEST = 40, 50
PRICE = 0.001
"""Dollars for each token of an answer; questions cost nothing."""
ANSWERS = 48
ROOM = 1_000.0
"""A limit that is never reached."""
VERDICT = {"say": '{"reason": "It is fair.", "score": 4}', "markers": False}
CHOICE = {"say": '{"reason": "It stands first.", "winner": "first"}', "markers": False}
_SLACK = 1e-6


@dataclass(frozen=True)
class Tally:
    """What came of some rounds of a course."""

    rounds: int = 1
    lost: int = 0
    """Answers, verdicts or files that are missing or are not what they would have been."""
    again: int = 0
    """Calls made again beyond those that were in flight when the fault came."""
    over: int = 0
    """Rounds in which the server billed more than the limit."""
    wrong: int = 0
    """Rounds after which the sums in the store are not those of the server."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(one + two for one, two in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class Round:
    """An empty folder, a server, and a source of chance for one round."""

    folder: Path
    server: Server
    draw: random.Random

    def project(self, fault: str = "", **target: Any) -> Project:
        """Eight items, half of them conversations, for two targets and a judge; `fault` marks every third question."""
        project = Project(self.folder, self.server)
        write_project(project, fault, **target)
        return project


@dataclass(frozen=True)
class Course:
    """A kind of fault, by the name it has in the table."""

    name: str
    play: Callable[[Round], Tally]


@dataclass(frozen=True)
class Undisturbed:
    """What a run comes to that nothing happens to, and what is asked for it."""

    rows: dict[Any, Any]
    asked: Counter[tuple[str, str]]

    @property
    def calls(self) -> int:
        """How many calls it takes."""
        return sum(self.asked.values())


BEHAVIOURS: dict[str, dict[str, Any]] = {"one-model": {}, "two-model": {"size": 200}, "judge-model": VERDICT}
"""What the models of a round say."""


def behave(server: Server, model: str, **fault: Any) -> None:
    """Have a model of a round answer, until it meets a fault."""
    usual = {"tokens": TOKENS, "latency": 0.02, "jitter": 0.02, "retry_after": 0}
    server.behave(model, **{**usual, **BEHAVIOURS[model], **fault})


def write_project(project: Project, fault: str = "", **target: Any) -> None:
    """Write the configuration and the dataset of a round."""
    settings = {"concurrency": AT_ONCE, **target}
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    lines += f"price = {{ input_per_million = 0.0, output_per_million = {1e6 * PRICE} }}\n"
    lines += f"params = {{ max_tokens = {LONGEST} }}\n"
    project.configure(
        "".join(
            f'[targets.{name}]\nmodel = "openai/{name}-model"\nbase_url = "{project.server.url}"\n{lines}'
            for name in ("one", "two", "judge")
        )
        + '[judge]\ntarget = "judge"\n'
    )
    for model in BEHAVIOURS:
        behave(project.server, model)

    def asked(number: int, turn: int) -> dict[str, str]:
        marked = fault if fault and number % 3 == 0 else ""
        return {"prompt": f"question {number} of turn {turn} {marked}", "expected_response": f"question {number}"}

    items = [asked(n, 0) if n % 2 else {"turns": [asked(n, turn) for turn in (0, 1)]} for n in range(8)]
    document = {
        "schemaVersion": "1.11.0",
        "default_evaluators": {"Includes": {}, "Relevance": {}, "Coherence": {}},
        "items": items,
    }
    (project.folder / "data.json").write_text(json.dumps(document))


RUN = ("run", "data.json", "--target", "one,two", "--repeats", 2, "--quiet")


def rows_of(project: Project) -> dict[Any, Any]:
    """What was said and how it was judged in the last run, by item, turn, target and repeat."""
    with project.reader() as reader:
        run = reader.find_run("last")
        found: dict[int, list[Any]] = {}
        for answer, record in read_scores(reader, run.id):
            found.setdefault(answer, []).append((record.key, record.result, record.score))
        texts = reader.records(row.id for row in reader.all_rows(run.id))
        return {
            (row.item, row.turn, row.target, row.repeat): (
                row.status,
                texts[row.id].text if row.id in texts else None,
                sorted(found.get(row.id, ())),
            )
            for row in reader.all_rows(run.id)
        }


def asked_of(server: Server, word: str = "asked") -> Counter[tuple[str, str]]:
    """How often each question was asked, the short one that looks for a target apart."""
    questions = (one for one in server.counts()["questions"] if not one["text"].startswith("Reply with the word"))
    return Counter({(one["model"], one["key"]): one[word] for one in questions})


def billed(server: Server) -> float:
    """What the server charges for all calls that it took on."""
    return PRICE * server.counts()["billed"].get("completion_tokens", 0)


def differing(rows: dict[Any, Any], wanted: dict[Any, Any]) -> int:
    """How many are missing or are not as they were to be."""
    return sum(rows.get(key) != value for key, value in wanted.items())


def repeated(asked: Counter[tuple[str, str]], wanted: Counter[tuple[str, str]], in_flight: int) -> int:
    """How many calls were made beyond those that it takes and those that were in flight."""
    return max(0, sum((asked - wanted).values()) - in_flight)


def money_of(project: Project) -> tuple[float, float, bool]:
    """What the last run says it cost, what it may have cost besides, and whether its totals agree with its calls."""
    with project.reader() as reader:
        run = reader.find_run("last")
        totals, cost = reader.totals(run.id), run_figures.spent(reader, run.id)
        return cost, totals.may_cost, abs(totals.cost + totals.judge_cost - cost) < _SLACK


def sums_differ(project: Project, bill: float, unknown: float = 0.0) -> bool:
    """Whether the server billed less than is known, or more than is said to be possible."""
    cost, perhaps, agree = money_of(project)
    return not (agree and cost - _SLACK <= bill <= cost + perhaps + unknown + _SLACK)


def survive(
    project: Project | Shop,
    draw: random.Random,
    calls: int,
    asked: Callable[[], int],
    first: tuple[object, ...],
    after: tuple[object, ...],
    seen: Callable[[], None] = lambda: None,
) -> None:
    """Run a command that is killed again and again at random moments, and let it come to its end."""
    process, begun = project.start(*first), asked()
    for moment in sorted(draw.sample(range(1, calls - 1), KILLS)):
        until(lambda moment=moment, process=process: asked() - begun >= moment or process.poll() is not None)
        if process.poll() is not None:
            break
        kill(process)
        seen()
        process = project.start(*after)
    out, err = process.communicate(timeout=300)
    assert "Traceback" not in err and process.returncode in (0, 4), out + err


@cache
def undisturbed(server: Server) -> Undisturbed:
    """The run of a project that nothing happens to, which asks for everything anew."""
    with tempfile.TemporaryDirectory() as name:
        server.reset()
        project = Project(Path(name), server)
        write_project(project)
        project.do(*RUN, "--no-cache", code=None)
        rows, asked = rows_of(project), asked_of(server)
    assert len(rows) == ANSWERS and {status for status, *_ in rows.values()} == {"pass"}
    return Undisturbed(rows, asked)


# -- kills


def killed_run(place: Round, *flags: object) -> Tally:
    """Conversations, judges, repeats and two targets."""
    wanted, server = undisturbed(place.server), place.server
    server.reset()
    project = place.project()
    begin = (*RUN, "--max-cost", ROOM, *flags)
    survive(project, place.draw, wanted.calls, partial(calls_of, server), begin, ("resume", "last", "--quiet"))
    again = repeated(asked_of(server), wanted.asked, KILLS * 3 * AT_ONCE)
    bill = billed(server)
    return Tally(1, differing(rows_of(project), wanted.rows), again, bill > ROOM, sums_differ(project, bill))


def killed_under_a_limit(place: Round) -> Tally:
    """The same with a limit that ends the run; a larger one lets it come to its end."""
    wanted, server = undisturbed(place.server), place.server
    server.reset()
    project, limit = place.project(), 0.5 * wanted.calls * TOKENS * PRICE
    begin = (*RUN, "--max-cost", limit, "--no-cache")
    wrong = over = False

    def look() -> None:
        nonlocal wrong, over
        bill = billed(server)
        wrong, over = wrong or sums_differ(project, bill), over or bill > limit + _SLACK

    survive(
        project, place.draw, wanted.calls // 3, partial(calls_of, server), begin, ("resume", "last", "--quiet"), look
    )
    look()
    project.do("resume", "last", "--max-cost", ROOM, "--quiet")
    again = repeated(asked_of(server), wanted.asked, KILLS * 3 * AT_ONCE)
    return Tally(
        1, differing(rows_of(project), wanted.rows), again, over, wrong or sums_differ(project, billed(server))
    )


def killed_rescoring(place: Round) -> Tally:
    """The answers of a run judged again without the cache."""
    wanted, server = undisturbed(place.server), place.server
    server.reset()
    project = place.project()
    project.do(*RUN, "--no-cache", "--without-judges")
    verdicts = Counter({key: count for key, count in wanted.asked.items() if key[0] == "judge-model"})
    begin = ("rescore", "last", "--judge", "judge", "--no-cache", "--quiet")
    onwards = ("resume", "last", "--quiet")
    survive(project, place.draw, sum(verdicts.values()), partial(calls_of, server), begin, onwards)
    again = repeated(asked_of(server), wanted.asked, KILLS * AT_ONCE)
    lost, unknown = differing(rows_of(project), wanted.rows), KILLS * AT_ONCE * TOKENS * PRICE
    return Tally(1, lost, again, 0, sums_differ(project, billed(server), unknown))


PAIRS = 12
BATTLE = ("battle", "one", "two", "--judge", "judge", "--json")


def killed_battle(place: Round) -> Tally:
    """Bouts between two runs; their bills are of the later run."""
    place.server.reset()
    project = place.project()
    make_opponents(project)
    survive(project, place.draw, 2 * PAIRS, partial(calls_of, place.server), BATTLE, BATTLE)
    return battle_tally(project, KILLS * AT_ONCE)


def make_opponents(project: Project, *store: object) -> None:
    """Two runs, and a judge to choose between their answers."""
    for name in ("one", "two"):
        project.do(*store, "run", "data.json", "--target", name, "--name", name, "--quiet", "--without-judges")
    project.server.behave("judge-model", tokens=TOKENS, latency=0.02, jitter=0.02, **CHOICE)


def battle_tally(project: Project, in_flight: int) -> Tally:
    """What came of a battle, where so many calls may have been in flight when the fault came."""
    server = project.server
    with project.reader() as reader:
        left, right = (reader.find_run(name).id for name in ("one", "two"))
        (question,) = {row for (row,) in reader.query("SELECT question FROM bouts")}
        decided = sum(bout.winner is not None for bout in bouts(reader, left, right, "judge", question))
        known = run_figures.spent(reader, left) + run_figures.spent(reader, right)
        of_judge = sum(call.cost or 0.0 for run in (left, right) for call in reader.calls(run) if call.kind == "judge")
        agree = abs(battles(reader)[0].cost - of_judge) < _SLACK
    verdicts = sum(count for (model, _), count in asked_of(server).items() if model == "judge-model")
    again = max(0, verdicts - 2 * PAIRS - in_flight)
    wrong = not (agree and known - _SLACK <= billed(server) <= known + in_flight * TOKENS * PRICE + _SLACK)
    return Tally(1, PAIRS - decided, again, 0, wrong)


@contextmanager
def shop_of(folder: Path, server: generate_server.Server) -> Iterator[Shop]:
    """A project that generates tests, and the end of what it left behind."""
    shop = Shop(folder, server, full_prompt(), None)  # type: ignore[arg-type]
    shop.configure(concurrency=2, price="{ input_per_million = 1.0, output_per_million = 1.0 }")
    server.expect(max_rules=2, tests_per_rule=1, per_question=1)
    try:
        yield shop
    finally:
        shop.close()


GENERATE = (
    *("--max-rules", 2, "--tests-per-rule", 1, "--test-generations", 1, "--max-rules-per-test-generation", 1),
    *("--max-cost", ROOM, "--quiet", "--no-cache"),
)
GENERATION = ("generate", "shop.prompty", *ROLES, *GENERATE)


def killed_generation(place: Round) -> Tally:
    """Tests made from a prompt, by five models, without the cache."""
    with generate_server.running() as server, ExitStack() as stack:
        costs, made, calls = [], [], []
        for name in ("undisturbed", "killed"):
            (folder := place.folder / name).mkdir()
            shop = stack.enter_context(shop_of(folder, server))
            before = server.asked()
            if name == "killed":
                survive(shop, place.draw, calls[0], server.asked, GENERATION, GENERATION)
            else:
                out, err = shop.generating(*GENERATE).communicate(timeout=300)
                assert not err, out + err
            calls.append(server.asked() - before if name == "killed" else server.asked())
            made.append(shop.made())
            with Project(folder, place.server).reader() as reader:
                costs.append(sum(run_figures.spent(reader, run.id) for run in reader.runs()))
        lost = sum(made[1].get(file) != text for file, text in made[0].items())
        allowed = KILLS * 5 * 2
        wrong = costs[1] < costs[0] - _SLACK or bool(server.complaints)
        return Tally(1, lost, max(0, calls[1] - calls[0] - allowed), 0, wrong)


# -- keys, permissions and models


def refused_run(place: Round, kind: str) -> Tally:
    """A target or the judge refuses everything from some call on; once it answers again the run comes to its end."""
    wanted, server = undisturbed(place.server), place.server
    server.reset()
    project, model = place.project(), place.draw.choice(list(BEHAVIOURS))
    calls = sum(count for (asked, _), count in wanted.asked.items() if asked == model)
    behave(server, model, after=place.draw.randrange(1, calls), then=kind)
    code, out, err = project.as_process(*RUN, "--max-cost", ROOM, "--no-cache")
    assert "Traceback" not in err and code == 4 and "continues it" in err, out + err
    rows = sum(status in ("error", "partial") for status, *_ in rows_of(project).values())
    behave(server, model)
    project.do("resume", "last", "--quiet")
    again, bill = repeated(asked_of(server), wanted.asked, AT_ONCE), billed(server)
    lost = rows + differing(rows_of(project), wanted.rows)
    return Tally(1, lost, again, bill > ROOM, sums_differ(project, bill))


# -- the network


def faulty_run(place: Round, fault: str, **target: Any) -> Tally:
    """Every third question meets a fault the first time it is asked, or the first times."""
    wanted, server = undisturbed(place.server), place.server
    server.reset()
    project = place.project(fault, timeout=0.6, **target)
    project.do(*RUN, "--max-cost", ROOM, "--no-cache")
    # A question bears the mark of its fault, so that it is another to the server: what counts is how many there are.
    answered = sum(asked_of(server, "answered").values())
    bill = billed(server)
    lost = sum(status != "pass" for status, *_ in rows_of(project).values())
    return Tally(1, lost, max(0, answered - wanted.calls), bill > ROOM, sums_differ(project, bill))


def dying_server(place: Round) -> Tally:
    """The server is killed at a random moment, and another one takes its port."""
    wanted = undisturbed(place.server)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    with ExitStack() as first:
        server = first.enter_context(running("--port", port))
        project = Round(place.folder, server, place.draw).project()
        process = project.start(*RUN, "--max-cost", ROOM, "--no-cache")
        moment = place.draw.randrange(AT_ONCE * 3, wanted.calls - 1)
        until(lambda: calls_of(server) >= moment or process.poll() is not None)
        for model in ("one-model", "two-model", "judge-model"):  # so that it answers nothing after the last look at it
            server.behave(model, always="hang", tokens=TOKENS)
        answered, bill = asked_of(server, "answered"), billed(server)
    with running("--port", port) as server:
        write_project(Project(place.folder, server))
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err and process.returncode == 0, out + err
        again = repeated(answered + asked_of(server), wanted.asked, 3 * AT_ONCE)
        bill += billed(server)
    lost = differing(rows_of(project), wanted.rows)
    return Tally(1, lost, again, bill > ROOM, sums_differ(project, bill))


# -- the file of the store, and what the system allows


def changed_store(place: Round, change: Callable[[Path, Path, random.Random], None]) -> Tally:
    """At a random moment somebody writes into the file of the store; then it is repaired, and the run goes on.

    The moment is in the first half, while all that was stored is in the log too, which the run still knows.
    """
    wanted, server = undisturbed(place.server), place.server
    server.reset()
    project = place.project()
    for model in BEHAVIOURS:
        behave(server, model, latency=0.2)  # so that it lasts longer than it takes to make a copy
    process = project.start(*RUN, "--max-cost", ROOM)
    copied, moment = sorted(place.draw.sample(range(AT_ONCE * 3, wanted.calls // 2), 2))
    until(lambda: calls_of(server) >= copied)
    project.do("db", "backup", copy := place.folder / "copy.db")
    until(lambda: calls_of(server) >= moment or process.poll() is not None)
    change(project.database, copy, place.draw)
    out, err = process.communicate(timeout=300)
    assert "Traceback" not in err and process.returncode in (0, 4), out + err
    project.do("db", "repair", "--yes", code=None)
    if project.as_call("runs")[0]:  # nothing could be read, so the backup takes its place, as the sentence says
        for file in project.folder.glob(".evals/evals.db*"):
            file.unlink()
        shutil.copy(copy, project.database)
    # A copy that is older than the log beside it changes nothing, and the run came to its end.
    is_lost = process.returncode == 4 and project.as_call("resume", "last", "--quiet")[0] == 2
    if is_lost:  # what was saved knows no answer of the run
        project.do(*RUN, "--max-cost", ROOM)
    again, bill = repeated(asked_of(server), wanted.asked, 3 * AT_ONCE), billed(server)
    wrong = not is_lost and sums_differ(project, bill)  # of a run that is lost nobody knows the sums
    return Tally(1, differing(rows_of(project), wanted.rows), again, bill > ROOM, wrong)


def copy_over(store: Path, copy: Path, draw: random.Random) -> None:
    """An earlier copy is written over the store, into the file that is open."""
    subprocess.run(["cp", copy, store], check=True)


def cut_off(store: Path, copy: Path, draw: random.Random) -> None:
    """The end of the store is cut off."""
    code = "import os, sys; os.truncate(sys.argv[1], int(os.stat(sys.argv[1]).st_size * float(sys.argv[2])))"
    subprocess.run([sys.executable, "-c", code, store, str(draw.random())], check=True)


def few_open_files(place: Round) -> Tally:
    """A run may have fewer open files than it would have calls at once."""
    wanted, server = undisturbed(place.server), place.server
    server.reset()
    project = place.project(concurrency=100)
    limit = place.draw.randrange(40, 80)
    few = Project(project.folder, server, ("bash", "-c", f'ulimit -n {limit} && exec "$@"', "bash"))
    out, err = few.start(*RUN[:-1], "--max-cost", ROOM, "--no-cache").communicate(timeout=300)
    assert "Traceback" not in err and "open files" in err, out + err
    again, bill = repeated(asked_of(server), wanted.asked, 0), billed(server)
    return Tally(1, differing(rows_of(project), wanted.rows), again, bill > ROOM, sums_differ(project, bill))


NEWER = """
import sys
from tui_evals.store import schema
schema.STEPS = (*schema.STEPS, lambda database: database.execute("ALTER TABLE scores ADD COLUMN more TEXT"))
schema.VERSION += 1
from tui_evals.cli.main import run
sys.stdin.readline()
sys.exit(run(["runs"]))
"""
"""A command of a version that has one more column, once it may begin."""


def newer_version(place: Round) -> Tally:
    """A newer version reads the store of a living run, which it would have to change first."""
    wanted, server = undisturbed(place.server), place.server
    server.reset()
    project = place.project()
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    newer = subprocess.Popen([sys.executable, "-c", NEWER], cwd=project.folder, text=True, **pipes)
    process = project.start(*RUN, "--max-cost", ROOM, "--no-cache")
    moment = place.draw.randrange(AT_ONCE * 3, wanted.calls // 2)
    until(lambda: calls_of(server) >= moment or process.poll() is not None)
    said = "".join(newer.communicate("\n", timeout=300))
    out, err = process.communicate(timeout=300)
    assert "Traceback" not in err + said and process.returncode == 0, out + err + said
    assert newer.returncode == 1 and "which is still executing run" in said, said
    again, bill = repeated(asked_of(server), wanted.asked, 0), billed(server)
    return Tally(1, differing(rows_of(project), wanted.rows), again, bill > ROOM, sums_differ(project, bill))


# -- the disk


def troubled_store(place: Round, trouble: Callable[[Path, Callable[[], None]], None]) -> Tally:
    """At a random moment something happens to the disk or the store; `resume` ends what could not go on."""
    wanted, server = undisturbed(place.server), place.server
    server.reset()
    project = place.project(max_outage=20)
    with small_disk(place.folder) as disk:
        store = ("--db", disk / "evals.db")
        process = project.start(*store, *RUN, "--max-cost", ROOM, "--no-cache")
        moment = place.draw.randrange(AT_ONCE * 3, wanted.calls - 1)
        until(lambda: calls_of(server) >= moment or process.poll() is not None)
        trouble(disk / "evals.db", lambda: until(lambda: server.counts()["in_flight"] == 0))
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err and process.returncode in (0, 4), out + err
        if process.returncode:
            project.do(*store, "resume", "last", "--quiet")
        (project.folder / ".evals").mkdir(exist_ok=True)
        project.do(*store, "db", "backup", project.folder / ".evals" / "evals.db")
    again = repeated(asked_of(server), wanted.asked, 0)
    bill = billed(server)
    return Tally(1, differing(rows_of(project), wanted.rows), again, bill > ROOM, sums_differ(project, bill))


def troubled_battle(place: Round, trouble: Callable[[Path, Callable[[], None]], None]) -> Tally:
    """The same under a battle; the same command ends what could not go on."""
    server = place.server
    server.reset()
    project = place.project(max_outage=20)
    with small_disk(place.folder) as disk:
        store = ("--db", disk / "evals.db")
        make_opponents(project, *store)
        begun, process = calls_of(server), project.start(*store, *BATTLE)
        moment = begun + place.draw.randrange(AT_ONCE, 2 * PAIRS - 1)
        until(lambda: calls_of(server) >= moment or process.poll() is not None)
        trouble(disk / "evals.db", lambda: until(lambda: server.counts()["in_flight"] == 0))
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err and process.returncode in (0, 4), out + err
        if process.returncode:
            project.do(*store, *BATTLE)
        project.do(*store, "db", "backup", project.folder / ".evals" / "evals.db")
    return battle_tally(project, 0)


def waits(disk: Path) -> bool:
    """Whether somebody who executes a run into a store on a disk waits for that store."""
    return any(store_wait(lock) for lock in (disk / "locks").glob("*.lock"))


def troubled_generation(place: Round, trouble: Callable[[Path, Callable[[], None]], None]) -> Tally:
    """The same under a generation."""
    with generate_server.running() as server, small_disk(place.folder) as disk:
        (folder := place.folder / "troubled").mkdir()
        with shop_of(folder, server) as shop:
            shop.configure(concurrency=2, max_outage=20, price="{ input_per_million = 1.0, output_per_million = 1.0 }")
            command = ("--db", disk / "evals.db", *GENERATION)
            process, moment = shop.start(*command), place.draw.randrange(1, 30)
            until(lambda: server.asked() >= moment or process.poll() is not None)
            trouble(disk / "evals.db", lambda: until(lambda: waits(disk) or process.poll() is not None))
            out, err = process.communicate(timeout=300)
            assert "Traceback" not in err and process.returncode in (0, 4), out + err
            if process.returncode:
                out, err = shop.start(*command).communicate(timeout=300)
            made = {"tests.json", "test_groundtruth.json", "shop.json"} & shop.made().keys()
            with Reader(disk / "evals.db") as reader:
                calls = [call for run in reader.runs() for call in reader.calls(run.id) if not call.from_cache]
        return Tally(1, 3 - len(made), len(server.repeated()), 0, len(calls) != server.asked())


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of a few megabytes, which root can mount."""
    (disk := folder / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def fill_for_a_while(store: Path, wait: Callable[[], None]) -> None:
    """The disk is full until nothing is in flight any more."""
    filler = store.with_name("filler")
    with suppress(OSError), open(filler, "ab", buffering=0) as stream:
        while True:
            stream.write(bytes(1_000))
    wait()
    filler.unlink()


def lock_for_a_while(store: Path, wait: Callable[[], None]) -> None:
    """Another program holds the store until nothing is in flight any more."""
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        with suppress(sqlite3.OperationalError):
            other.execute("PRAGMA busy_timeout = 5000")
            other.execute("BEGIN IMMEDIATE")
        wait()


def delete(store: Path, wait: Callable[[], None]) -> None:
    """Somebody deletes the store."""
    for file in store.parent.glob("evals.db*"):
        if not file.is_dir():
            file.unlink()


def calls_of(server: Server) -> int:
    """How many calls came so far."""
    return int(server.counts()["asked"])


COURSES: list[Course] = [
    Course("kill: run", killed_run),
    Course("kill: run --no-cache", lambda place: killed_run(place, "--no-cache")),
    Course("kill: run with a limit", killed_under_a_limit),
    Course("kill: rescore --no-cache", killed_rescoring),
    Course("kill: battle", killed_battle),
    Course("kill: generate --no-cache", killed_generation),
    Course("refused in mid-run: 401", lambda place: refused_run(place, "401")),
    Course("refused in mid-run: 403", lambda place: refused_run(place, "403")),
    Course("refused in mid-run: 404", lambda place: refused_run(place, "404")),
    Course("refused in mid-run: 402", lambda place: refused_run(place, "402")),
    Course("network: server dies", dying_server),
    Course("network: hangs", lambda place: faulty_run(place, "[[hang*1]]")),
    Course("network: 500 twice", lambda place: faulty_run(place, "[[500*2]]")),
    Course("network: 503", lambda place: faulty_run(place, "[[503*1]]")),
    Course("network: reset", lambda place: faulty_run(place, "[[reset*1]]")),
    Course("network: cut mid-body", lambda place: faulty_run(place, "[[cut*1]]")),
    Course("network: Retry-After garbage", lambda place: faulty_run(place, "[[429garbage*2]]")),
    Course("store: copied over in place", lambda place: changed_store(place, copy_over)),
    Course("store: cut off", lambda place: changed_store(place, cut_off)),
    Course("store: a newer version reads", newer_version),
    Course("system: few open files", few_open_files),
    Course("disk: full for a while", lambda place: troubled_store(place, fill_for_a_while)),
    Course("disk: store locked", lambda place: troubled_store(place, lock_for_a_while)),
    Course("disk: store deleted", lambda place: troubled_store(place, delete)),
    Course("disk: full under a battle", lambda place: troubled_battle(place, fill_for_a_while)),
    Course("disk: deleted under a battle", lambda place: troubled_battle(place, delete)),
    Course("disk: full under a generation", lambda place: troubled_generation(place, fill_for_a_while)),
    Course("disk: locked under a generation", lambda place: troubled_generation(place, lock_for_a_while)),
    Course("disk: deleted under a generation", lambda place: troubled_generation(place, delete)),
]
"""The faults of the table, in its order; those of the disk need root, who can mount one."""


def play(course: Course, rounds: int, seed: int) -> Tally:
    """Some rounds of a course, each in a folder of its own."""
    tally = Tally(rounds=0)
    with running() as server:
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                draw = random.Random(f"{seed} {course.name} {number}")
                tally += course.play(Round(Path(folder), server, draw))
    return tally


HEAD = ("fault", "rounds", "answers lost", "asked again", "over budget", "sums right")


def line(name: str, tally: Tally) -> str:
    """A line of the table."""
    right = "all" if not tally.wrong else f"{tally.rounds - tally.wrong} of {tally.rounds}"
    return f"{name:<30} {tally.rounds:>6} {tally.lost:>13} {tally.again:>12} {tally.over:>12} {right:>11}"


def main() -> None:
    """Print the table, a line as each course ends; exit 1 where anything is lost, asked again, over or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--only", default="", help="courses with this word in their name")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}\n{HEAD[0]:<30} {HEAD[1]:>6} {HEAD[2]:>13} {HEAD[3]:>12} {HEAD[4]:>12} {HEAD[5]:>11}")
    flawless = True
    for course in COURSES:
        if chosen.only in course.name:
            tally = play(course, chosen.rounds, chosen.seed)
            flawless &= tally == Tally(chosen.rounds)
            print(line(course.name, tally), flush=True)
    sys.exit(not flawless)


if __name__ == "__main__":
    main()
