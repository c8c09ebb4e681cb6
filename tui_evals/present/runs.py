"""Wording for runs: state, end, results, cost, workers, the effect of other rules, and the next step."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_evals.light_records import dataclass
from tui_evals.present.figures import figure_data, rate_text
from tui_evals.present.status import Look, final_count, run_look, status_counts, status_phrase
from tui_evals.runs.status import GENERATION, next_command
from tui_evals.store.reader import Reader
from tui_evals.store.records import CHANGES, LIVE_STATUSES, OVER_STATUSES, RunRow, StoreWait, Totals, WorkerRow
from tui_evals.text.measures import counted, duration, money, per_second, plain_number, rough_duration
from tui_evals.text.names import numbered
from tui_evals.text.safe import safe_line

if TYPE_CHECKING:  # most runs are shown without what judges them again
    from tui_evals.runs.rescoring import Rule
    from tui_evals.runs.what_if import WhatIf

_NAMED_RUNS = 5
Column = tuple[int, int]
"""A prompt and a target of a run, by position."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run and its budget, including judges, with the number of calls without a price."""

    amount: float
    judges: float = 0.0
    unpriced: int = 0
    perhaps: float = 0.0
    """The possible cost of calls without an answer: they may be billed anyway."""
    budget: float | None = None
    """The cost limit; None without one."""

    @property
    def text(self) -> str:
        """Everything but the share of the judges."""
        budget = f" of {money(self.budget)}" if self.budget else ""
        perhaps = f", perhaps {money(self.perhaps)} more" if self.perhaps else ""
        if self.is_unknown:
            limit = f", limit {money(self.budget)}" if self.budget else ""
            return f"cost unknown, {self.unpriced:,} unpriced{limit}"
        unpriced = f" and {self.unpriced:,} unpriced" if self.unpriced else ""
        return f"{money(self.amount)}{budget}{unpriced}{perhaps}"

    @property
    def is_unknown(self) -> bool:
        """Whether no call at all has a price."""
        return bool(self.unpriced) and not (self.amount or self.perhaps)

    @property
    def short(self) -> str:
        """The amount for a column, with a plus sign where it may be more, or that nothing of it has a price."""
        if self.is_unknown:
            return "unpriced"
        return money(self.amount) + ("+" if self.unpriced or self.perhaps else "")

    @property
    def judge_text(self) -> str:
        """The share of the judges; empty where they cost nothing."""
        return f"of it judges {money(self.judges)}" if self.judges else ""


def run_cost(totals: Totals, budget: float | None = None) -> Cost:
    """The cost in totals, targets and judges together."""
    return Cost(totals.cost + totals.judge_cost, totals.judge_cost, totals.unpriced, totals.may_cost, budget)


def run_budget(run: RunRow) -> float | None:
    """The cost limit of a run; None without one."""
    budget: float | None = (run.config.get("terms") or {}).get("max_cost")
    return budget


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as every face tells it."""

    key: str
    name: str
    look: Look
    reason: str
    """Why it stopped, in the sentence the user saw; empty while it continues or is finished."""
    counts: str
    """The statuses of its answers."""
    cost: Cost
    duration: str
    """How long it took; empty where it has no end."""
    judging: str
    """The progress of a rescoring; empty otherwise."""
    next_step: str
    """The command that continues it; empty if nothing is left to do."""
    verdict: str = ""
    """Whether it met its gates and why not; empty where none were set."""
    rejudged: str = ""
    """How many of its answers are judged by expectations that were edited since; empty where none are."""

    @property
    def headline(self) -> str:
        """The status, and how long the run took."""
        return self.judging or (f"{self.look.text} in {self.duration}" if self.duration else self.look.text)

    @property
    def sentence(self) -> str:
        """The statuses of its answers, and their cost."""
        return " · ".join(filter(None, (self.counts, self.rejudged, self.cost.text)))


def run_facts(run: RunRow, totals: Totals, measures: Sequence[str] = ()) -> RunFacts:
    """The facts of a run; `measures` replace the rate if it has none."""
    return RunFacts(
        key=run.key,
        name=run.name,
        look=run_look(run),
        reason=stop_reason(run),
        counts=counts_sentence(totals, measures, over=run.status in OVER_STATUSES),
        cost=run_cost(totals, run_budget(run)),
        duration=run_duration(run),
        judging=f"{run_look(run).text} · {judging_sentence(run)}"
        if run.status in LIVE_STATUSES and run.staged_pass
        else "",
        next_step=next_step(run),
        verdict=run.verdict,
        rejudged=rejudged_sentence(run),
    )


def rejudged_sentence(run: RunRow) -> str:
    """How many answers of a run are judged by expectations that were edited since; empty where none are."""
    if not run.rejudged:
        return ""
    return f"{run.rejudged:,} {'answer' if run.rejudged == 1 else 'answers'} judged again by an edited dataset"


def judging_sentence(run: RunRow) -> str:
    """How far a scoring pass is that does not count before it is whole; empty where none was begun."""
    if not run.staged_pass:
        return ""
    return f"judged {run.staged:,} of {run.staged_total:,} again (pass {run.staged_pass} under way)"


def stop_reason(run: RunRow) -> str:
    """Why a run stopped, in the sentence the user saw; empty while it continues or is finished."""
    judging = "" if run.status in LIVE_STATUSES else judging_sentence(run)
    return f"{run.message.rstrip('.')}; {judging}" if run.message and judging else run.message or judging


def run_seconds(run: RunRow) -> float | None:
    """How long a finished run took."""
    return None if run.started is None or run.finished is None else run.finished - run.started


def run_duration(run: RunRow) -> str:
    """How long a finished run took, in words; empty where it has no end."""
    seconds = run_seconds(run)
    return "" if seconds is None else duration(seconds)


def next_step(run: RunRow) -> str:
    """The command that continues an unfinished run."""
    if run.status not in ("planned", "interrupted") or GENERATION in run.config:
        return ""
    return next_command(run)


def overshoot_sentence(run: RunRow, totals: Totals) -> str:
    """By how much a run has exceeded its cost limit; empty if it has not."""
    limit, spent = run_budget(run), run_cost(totals).amount
    return f"{money(spent - limit)} over the limit of {money(limit)}" if limit and spent > limit else ""


def open_phrases(run: RunRow, totals: Totals) -> tuple[str, ...]:
    """How many answers are missing: in flight and waiting while the run executes, left over afterwards."""
    if run.status in OVER_STATUSES:
        counts = status_counts(totals, over=True)
        return tuple(one.phrase for one in counts if one.status == "pending" and one.count)
    flying = (f"{totals.running:,} {status_phrase('running')}",) if totals.running else ()
    return (*flying, f"waiting {totals.pending:,}")


def progress(run: RunRow, totals: Totals | None) -> str:
    """How far a run is that continues: the share of its answers that are final, or are judged again; else empty."""
    if run.status not in LIVE_STATUSES or totals is None:
        return ""
    done, total = (run.staged, run.staged_total) if run.staged_pass else (final_count(totals), totals.total)
    return f"{100 * done // total} %" if total else ""


def basis_sentence(totals: Totals) -> str:
    """How many answers the verdict of a run is based on, and the statuses of the others."""
    judged = totals.passed + totals.failed + totals.scored
    if judged == totals.total:
        return f"rests on {'' if totals.total == 1 else 'all '}{counted(totals.total, 'answer')}"
    others = [one.phrase for one in status_counts(totals) if one.count and one.status not in ("pass", "fail", "scored")]
    return f"rests on {judged:,} of {counted(totals.total, 'answer')}: {', '.join(others)}"


def look_sentence(run: RunRow, totals: Totals) -> str:
    """The command that shows the worst answers of a run; it always finds some."""
    worst = {
        "fail": totals.failed,
        "error": totals.errored,
        "partial": totals.partial,
        "unjudged": totals.unjudged,
    }
    word = next((word for word, count in worst.items() if count), "")
    if not word:
        return f"`tui-evals show {run.key}` shows its answers"
    what = {
        "fail": "what failed",
        "error": "what has no answer",
        "partial": "what could not be judged",
        "unjudged": "what nothing judged",
    }[word]
    return f"`tui-evals show {run.key} --only {word}` shows {what}"


def run_data(run: RunRow) -> dict[str, Any]:
    """A run as plain data, with null where it did not stop."""
    nothing = {name: getattr(run, name) or None for name in ("message", "code", "verdict")}
    return {**asdict(run), **nothing}


def standing_data(run: RunRow, totals: Totals) -> dict[str, Any]:
    """How a run is doing, as plain data."""
    cost = run_cost(totals)
    return {
        "status": run.status,
        "message": stop_reason(run) or None,
        "seconds": run_seconds(run),
        "cost": cost.amount,
        "unpriced": cost.unpriced,
        "may_cost": cost.perhaps,
        "budget": run_budget(run),
        "verdict": run.verdict or None,
        "judging": {"pass": run.staged_pass, "judged": run.staged} if run.staged_pass else None,
        "judged_again_by_edited_dataset": run.rejudged,
        "totals": totals_data(totals),
    }


def totals_data(totals: Totals) -> dict[str, Any]:
    """Counts as plain data, with the pass rate where they are of one column."""
    counts = {name: value for name, value in asdict(totals).items() if name != "rated"}
    return {**counts, "pass_rate": figure_data(totals.pass_rate)}


def counts_sentence(totals: Totals, measures: Sequence[str] = (), *, over: bool = False) -> str:
    """How many of the judged answers pass, with the rate where they are of one column, and what else happened.

    Where nothing can pass or fail, the `measures` replace the rate; a run that is `over` asks no more.
    """
    judged = totals.passed + totals.failed
    counts = status_counts(totals, over=over)
    others = [one.phrase for one in counts if one.count and one.status not in ("pass", "fail")]
    # A rate of some of the answers says nothing about the others, so it is named differently.
    parts = [f"{totals.passed:,} of {judged:,} {'judged ' if others else ''}pass"] if judged else list(measures)
    if (rate := totals.pass_rate) is not None:
        parts[0] += f" ({rate_text(rate)})"
    if totals.cached:
        others.append(cached_text(totals))
    return " · ".join([*parts, *others] or ["no answers"])


def cached_text(totals: Totals) -> str:
    """How many answers of a run came from the cache, of how many."""
    return f"{totals.cached:,} of {counted(totals.total, 'answer')} from the cache"


def totals_sentence(run: RunRow, totals: Totals, measures: Sequence[str] = (), cost: Cost | None = None) -> str:
    """`counts_sentence` for a part of a run with its own cost, or with another one, such as that of the whole run."""
    cost = run_cost(totals) if cost is None else cost
    return f"{counts_sentence(totals, measures, over=run.status in OVER_STATUSES)} · {cost.text}"


def target_names(run: RunRow) -> tuple[str, ...]:
    """The targets of a run, each with its model where that is called otherwise."""
    kept = run.config.get("targets")
    models = [_model(one) for one in kept] if isinstance(kept, list) and len(kept) == len(run.targets) else ()
    return tuple(_with_model(name, model) for name, model in zip(run.targets, models or run.targets, strict=True))


def lost_runs_sentence(store: Path, keys: Sequence[str]) -> str:
    """The message that a store lost the runs that were executed into it, and what to do."""
    named = ", ".join(keys[:_NAMED_RUNS]) + (f" and {len(keys) - _NAMED_RUNS:,} more" * (len(keys) > _NAMED_RUNS))
    return (
        f"{store} holds no run, but runs were executed into it ({named}): it was deleted, or another file is in "
        f"its place. Put a backup there, or remove the folder {store.parent / 'locks'} to start again."
    )


def destination_lines(destinations: object) -> list[str]:
    """The destinations of targets and judges, from a plan or a stored run; a line for all of one destination."""
    kept = destinations if isinstance(destinations, dict) else {}
    names: dict[str, list[str]] = {}
    for name, to in kept.items():
        if isinstance(to, dict) and isinstance(sentence := to.get("sentence"), str):
            names.setdefault(sentence, []).append(str(name))
    return [
        safe_line(f"{', '.join(same)} {sentence if len(same) == 1 else _of_several(sentence)}")
        for sentence, same in names.items()
    ]


def _of_several(sentence: str) -> str:
    return sentence.replace("sends its", "send their", 1).replace("sends ", "send ", 1)


def change_lines(run: RunRow) -> list[str]:
    """How requests to each target and judge were changed."""
    kept = run.config.get(CHANGES)
    named = kept.items() if isinstance(kept, dict) else ()
    return [safe_line(f"{name}: {change}") for name, changes in named for change in changes]


def judge_name(run: RunRow) -> str:
    """The judge, in a word or two."""
    kept = run.config.get("judge")
    if isinstance(kept, dict):
        return _with_model(str(kept.get("name") or ""), _model(kept))
    return "left out" if run.config.get("without_judges") else "none named"


def column_names(run: RunRow) -> dict[Column, str]:
    """The name of each prompt and target."""
    # Imported when needed, because comparing would delay the first frame.
    from tui_evals.compare.sides import column_name

    places = ((prompt, target) for prompt in range(len(run.prompts)) for target in range(len(run.targets)))
    return {place: column_name(run, *place) for place in places}


def line_names(run: RunRow) -> dict[Column, str]:
    """The name of each column in lists: the target, and the prompt if there are several."""
    several, targets = len(run.prompts) > 1, numbered(run.targets)
    return {
        (number, target): f"{name} · {prompt}" if several and prompt else name
        for target, name in enumerate(targets)
        for number, prompt in enumerate(run.prompts)
    }


def _model(kept: object) -> str:
    return str(kept.get("model") or "") if isinstance(kept, Mapping) else ""


def _with_model(name: str, model: str) -> str:
    return f"{name} ({model})" if model and model != name else name


_SECONDS = 10.0
_ENOUGH = 5


class Pace:
    """How fast answers become final: over the last ten seconds, or longer where fewer than five came in them."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def note(self, now: float, count: int, going: bool = True) -> None:
        """Record how many answers are final; a pause resets the measurement."""
        samples = self._samples
        if not going:
            samples.clear()
            return
        if samples and count < samples[-1][1]:
            samples.clear()
        if len(samples) > 1 and samples[-1][1] == count == samples[-2][1]:
            samples.pop()
        samples.append((now, count))
        while len(samples) > 2 and now - samples[1][0] >= _SECONDS and count - samples[1][1] >= _ENOUGH:
            samples.popleft()

    def rate(self) -> float | None:
        """Answers per second; None until five have come."""
        if len(self._samples) < 2:
            return None
        (first, before), (last, now) = self._samples[0], self._samples[-1]
        return (now - before) / (last - first) if now - before >= _ENOUGH and last > first else None


def pace_parts(rate: float | None, left: int) -> list[str]:
    """The rate, and the time for the remaining answers; empty while the rate is unknown."""
    if not rate:
        return []
    return [per_second(rate), *([f"{duration(left / rate)} left"] if left else [])]


_WAIT_REASONS: Mapping[str, str] = {
    "agentRateLimited": "rate limited",
    "agentTimeout": "no answer in time",
    "agentResponseUnparseable": "unreadable answer",
    "outage": "away",
}


def wait_sentence(run: RunRow, now: float) -> str:
    """Why a run asks nothing at the moment and when it will again; empty where it does not wait."""
    wait = run.waiting
    if isinstance(wait, StoreWait):
        return store_wait_sentence(wait, now)
    if wait is None or run.status not in ("running", "paused") or wait.until <= now:
        return ""
    who = "" if run.targets == (wait.target,) else f"{wait.target} "
    reason = _WAIT_REASONS.get(wait.code, "call failed")
    attempt = f", attempt {wait.attempt} of {wait.attempts}" if wait.attempts else ""
    return f"{who}{reason}, next try in {rough_duration(wait.until - now)}{attempt}"


def store_wait_sentence(wait: StoreWait, now: float, ends: str = "the run ends, to be resumed") -> str:
    """Why a run asks nothing because of its store, what fixes that, and when it `ends` otherwise."""
    why = {
        "full": f"the disk is full: make room for {wait.path}",
        "locked": f"{wait.cause} keeps {wait.path} locked: let it finish, or stop it",
        "unwritable": f"{wait.path} cannot be written ({wait.cause}): look at the disk and at your quota",
    }[wait.code]
    return f"asking waits, because {why}; in {rough_duration(max(wait.until - now, 0.0))} {ends}"


def stored_again_sentence(wait: StoreWait) -> str:
    """Text shown when the store is writable again."""
    return f"{wait.path} can be written again, and asking continues"


def command_wait_sentence(wait: StoreWait, now: float, *, is_over: bool) -> str:
    """Text for a command that waits for the store, or that continues after waiting."""
    again = "this ends, and the same command continues"
    return stored_again_sentence(wait) if is_over else store_wait_sentence(wait, now, again)


@dataclass(frozen=True, slots=True)
class WorkerTotals:
    """The workers of a run in numbers."""

    alive: int = 0
    silent: int = 0
    gone: int = 0
    cells: int = 0
    """Conversations in flight; those of lost workers were given to others."""
    rate: float = 0.0
    """Calls per second of those that are alive."""
    calls: int = 0
    errors: int = 0


def together(rows: Sequence[WorkerRow]) -> WorkerTotals:
    """All workers of a run in numbers."""
    states = Counter(row.state for row in rows)
    return WorkerTotals(
        alive=states["alive"],
        silent=states["silent"],
        gone=states["gone"],
        cells=sum(row.cells for row in rows if row.state != "gone"),
        rate=sum(row.rate for row in rows if row.state == "alive"),
        calls=sum(row.calls for row in rows),
        errors=sum(row.errors for row in rows),
    )


class RunWorkers:
    """The workers of a run as it continues; read again only once something was heard of them, or the run is over."""

    def __init__(self) -> None:
        self.rows: Sequence[WorkerRow] = ()
        """By name; a new sequence after each change."""
        self.totals = WorkerTotals()
        self._known: tuple[object, ...] = ()

    def look(self, reader: Reader, run: RunRow) -> bool:
        """Update to the current state of a run; returns whether its workers changed."""
        known = (run.id, run.status, reader.workers_version())
        if known == self._known:
            return False
        rows = reader.workers(run.id)
        self._known = known
        if rows == list(self.rows):
            return False
        self.rows, self.totals = tuple(rows), together(rows)
        return True


def rule_words(rule: Rule) -> str:
    """A rule as a phrase."""
    if rule.name == "pass rule":
        return f"a pass rule of {100 * rule.value:.0f} % of the weights"
    if rule.name == "scale":
        return f"{_label_of(rule)} worth {plain_number(rule.value)}"
    return f"a {rule.name} of {plain_number(rule.value)} for {safe_line(rule.key, 40)}"


def _label_of(rule: Rule) -> str:
    return f"{safe_line(rule.label, 40)} on the scale of {safe_line(rule.key, 40)}"


def rule_entry(rule: Rule) -> tuple[str, str]:
    """The name of a rule in a list, and its current value."""
    if rule.name == "pass rule":
        return "pass rule", f"an answer needs {100 * rule.value:.0f} % of its weights"
    if rule.name == "scale":
        return f"scale of {safe_line(rule.key, 40)}: {safe_line(rule.label, 40)}", f"now {plain_number(rule.value)}"
    return f"{rule.name} of {safe_line(rule.key, 40)}", f"now {plain_number(rule.value)}"


def rule_text(rule: Rule, now: Rule) -> str:
    """A rule with the value it has now."""
    value, before = plain_number(rule.value), plain_number(now.value)
    if rule.name == "pass rule":
        return f"an answer passes with {100 * rule.value:.0f} % of its weights, now {100 * now.value:.0f} %"
    if rule.name == "scale":
        return f"{_label_of(rule)} is worth {value}{'' if value == before else f', now {before}'}"
    return f"the {rule.name} of {safe_line(rule.key, 40)} is {value}{'' if value == before else f', now {before}'}"


def what_if_phrases(found: WhatIf, names: Mapping[Column, str]) -> Sequence[str]:
    """The changes in a few words each: the answers, people's verdicts, then the columns whose rate changes."""
    total = len(found.statuses) + found.open
    phrases = [f"{len(found.changed):,} of {counted(total, 'judged answer')} would change"]
    if found.contradicted or found.contradicted_before:
        phrases.append(f"{found.contradicted_before:,} → {found.contradicted:,} contradict people's verdicts")
    if found.open:
        phrases.append(f"{counted(found.open, 'has', 'have')} to be judged again to know")
    moved = ((column, *both) for column, both in found.columns.items() if both[0] != both[1])
    phrases += [f"{names[column]} {100 * one.share:.0f} → {100 * two.share:.0f} %" for column, one, two in moved]
    return phrases


def what_if_lines(found: WhatIf, names: Mapping[Column, str]) -> Sequence[str]:
    """The answers that change, the pass rate of each column before and after, and what is unknown."""
    change = f"{len(found.changed):,} of {counted(len(found.statuses) + found.open, 'answer')} would change"
    turned = Counter((one.before, one.after) for one in found.changed)
    moves = ", ".join(f"{count:,} {before} → {after}" for (before, after), count in turned.most_common())
    lines = [f"{change}{': ' if moves else ''}{moves}. Nothing was asked and nothing is stored."]
    for column, (before, after) in found.columns.items():
        if before.judged or after.judged:
            lines.append(
                f"{names[column]}: {100 * before.share:.0f} → {100 * after.share:.0f} % pass "
                f"({before.passed:,} → {after.passed:,} of {after.judged:,})"
            )
    if found.contradicted or found.contradicted_before:
        lines.append(f"{found.contradicted_before:,} → {found.contradicted:,} contradict people's verdicts")
    if found.open:
        them = "it counts as it is" if found.open == 1 else "they count as they are"
        lines.append(f"{counted(found.open, 'has', 'have')} to be judged again to know; {them}")
    return lines
