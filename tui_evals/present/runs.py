"""What there is to say of a run: how it stands, why it stopped, what came of it, what it cost, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tui_evals.compare.statistics import interval_percent, wilson
from tui_evals.runs.status import GENERATION, resume_command
from tui_evals.store.records import CHANGES, LIVE_STATUSES, OVER_STATUSES, RunRow, Totals
from tui_evals.text.money import money
from tui_evals.text.safe import safe_line

from .figures import duration
from .status import Look, final_count, run_look, status_counts, status_phrase

_NAMED_RUNS = 5
Column = tuple[int, int]
"""A prompt and a target of a run, by position."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What was spent of which budget, judges included, how many calls have no price, and what broken ones may cost."""

    amount: float
    judges: float = 0.0
    unpriced: int = 0
    perhaps: float = 0.0
    """What calls without an answer may have cost besides: they may be billed all the same."""
    budget: float | None = None
    """What may be spent; None where nobody set a limit."""

    @property
    def text(self) -> str:
        """Everything but the share of the judges."""
        budget = f" of {money(self.budget)}" if self.budget else ""
        unpriced = f" and {self.unpriced:,} unpriced" if self.unpriced else ""
        perhaps = f", perhaps {money(self.perhaps)} more" if self.perhaps else ""
        return f"{money(self.amount)}{budget}{unpriced}{perhaps}"

    @property
    def short(self) -> str:
        """The amount for a column, with a plus sign where it may be more, or that nothing of it has a price."""
        if self.unpriced and not (self.amount or self.perhaps):
            return "unpriced"
        return money(self.amount) + ("+" if self.unpriced or self.perhaps else "")

    @property
    def judge_text(self) -> str:
        """The share of the judges; empty where they cost nothing."""
        return f"of it judges {money(self.judges)}" if self.judges else ""


def run_cost(totals: Totals, unpriced: int = 0, budget: float | None = None) -> Cost:
    """What totals cost; `unpriced` are the calls without a price where those of judges are known too."""
    cost, judges = totals.cost + totals.judge_cost, totals.judge_cost
    return Cost(cost, judges, max(totals.unpriced, unpriced), totals.may_cost, budget)


def run_budget(run: RunRow) -> float | None:
    """What a run may spend; None where nobody set a limit."""
    budget: float | None = (run.config.get("terms") or {}).get("max_cost")
    return budget


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as every face tells it."""

    key: str
    name: str
    look: Look
    reason: str
    """Why it stopped, in the sentence the user saw; empty while it goes on or is finished."""
    counts: str
    """What became of its answers."""
    cost: Cost
    duration: str
    """How long it took; empty where it has no end."""
    judging: str
    """How it stands while its answers are judged again; empty otherwise."""
    next_step: str
    """The command that goes on with it; empty where nothing is left to do."""
    verdict: str = ""
    """Whether it met its gates and why not; empty where none were set."""
    rejudged: str = ""
    """How many of its answers are judged by expectations that were edited since; empty where none are."""

    @property
    def headline(self) -> str:
        """How it stands: the status, and how long it took."""
        return self.judging or (f"{self.look.text} in {self.duration}" if self.duration else self.look.text)

    @property
    def sentence(self) -> str:
        """What became of its answers, and what that cost."""
        return " · ".join(filter(None, (self.counts, self.rejudged, self.cost.text)))


def run_facts(run: RunRow, totals: Totals, unpriced: int = 0, measures: Sequence[str] = ()) -> RunFacts:
    """The facts of a run; `unpriced` are all its calls without a price, `measures` what it has instead of a rate."""
    return RunFacts(
        key=run.key,
        name=run.name,
        look=run_look(run),
        reason=stop_reason(run),
        counts=counts_sentence(totals, measures, over=run.status in OVER_STATUSES),
        cost=run_cost(totals, unpriced, run_budget(run)),
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
    """Why a run stopped, in the sentence the user saw; empty while it goes on or is finished."""
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
    """What goes on with a run that did not come to its end."""
    if run.status not in ("planned", "interrupted") or GENERATION in run.config:
        return ""
    return f"`{resume_command(run)}` goes on with it"


def overshoot_sentence(run: RunRow, totals: Totals) -> str:
    """By how much a run has exceeded what it may spend; empty where it has not."""
    limit, spent = run_budget(run), run_cost(totals).amount
    return f"{money(spent - limit)} over the limit of {money(limit)}" if limit and spent > limit else ""


def open_phrases(run: RunRow, totals: Totals) -> tuple[str, ...]:
    """What has no answer yet: in flight and waiting while somebody asks, and what was left once nobody does."""
    if run.status in OVER_STATUSES:
        counts = status_counts(totals, over=True)
        return tuple(one.phrase for one in counts if one.status == "pending" and one.count)
    flying = (f"{totals.running:,} {status_phrase('running')}",) if totals.running else ()
    return (*flying, f"waiting {totals.pending:,}")


def progress(run: RunRow, totals: Totals | None) -> str:
    """How far a run is that goes on: the share of its answers that are final, or are judged again; else empty."""
    if run.status not in LIVE_STATUSES or totals is None:
        return ""
    done, total = (run.staged, run.staged_total) if run.staged_pass else (final_count(totals), totals.total)
    return f"{100 * done // total} %" if total else ""


def basis_sentence(totals: Totals) -> str:
    """Of how many of its answers the verdict of a run is made, and what became of the others."""
    judged = totals.passed + totals.failed + totals.scored
    if judged == totals.total:
        return f"rests on all {totals.total:,} answers"
    others = [one.phrase for one in status_counts(totals) if one.count and one.status not in ("pass", "fail", "scored")]
    return f"rests on {judged:,} of {totals.total:,} answers: {', '.join(others)}"


def look_sentence(run: RunRow, totals: Totals) -> str:
    """The command that shows what is worst in a run; never one that finds nothing."""
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


def standing_data(run: RunRow, totals: Totals, unpriced: int = 0) -> dict[str, Any]:
    """How a run stands as plain data; `unpriced` are all its calls without a price."""
    cost = run_cost(totals, unpriced)
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
        "totals": asdict(totals),
    }


def counts_sentence(totals: Totals, measures: Sequence[str] = (), *, over: bool = False) -> str:
    """How many of the judged answers passed, with the interval of the rate, and what else happened.

    Where nothing could pass or fail the `measures` stand in the place of the rate; a run that is `over` asks no more.
    """
    judged = totals.passed + totals.failed
    counts = status_counts(totals, over=over)
    others = [one.phrase for one in counts if one.count and one.status not in ("pass", "fail")]
    # A rate of some of the answers is called that, for it says nothing of the rest.
    parts = [f"{totals.passed:,} of {judged:,} {'judged ' if others else ''}pass"] if judged else list(measures)
    if (interval := wilson(totals.passed, judged)) is not None:
        rate = 100 * totals.passed / judged
        parts[0] += f" ({rate:.1f} %, 95 % interval {interval_percent(interval)})"
    return " · ".join([*parts, *others] or ["no answers"])


def totals_sentence(
    run: RunRow, totals: Totals, unpriced: int = 0, measures: Sequence[str] = (), *, whole: bool = False
) -> str:
    """The same of a part of a run with what it cost, or of the `whole` of it, to which its budget belongs."""
    cost = run_cost(totals, unpriced, run_budget(run) if whole else None)
    return f"{counts_sentence(totals, measures, over=run.status in OVER_STATUSES)} · {cost.text}"


def target_names(run: RunRow) -> tuple[str, ...]:
    """The targets of a run, each with its model where that is called otherwise."""
    kept = run.config.get("targets")
    models = [_model(one) for one in kept] if isinstance(kept, list) and len(kept) == len(run.targets) else ()
    return tuple(_with_model(name, model) for name, model in zip(run.targets, models or run.targets, strict=True))


def lost_runs_sentence(store: Path, keys: Sequence[str]) -> str:
    """That a store holds no run though some were executed into it, and what to do."""
    named = ", ".join(keys[:_NAMED_RUNS]) + (f" and {len(keys) - _NAMED_RUNS:,} more" * (len(keys) > _NAMED_RUNS))
    return (
        f"{store} holds no run, but runs were executed into it ({named}): it was deleted, or another file stands in "
        f"its place. Put a backup there, or remove the folder {store.parent / 'locks'} to begin anew."
    )


def destination_lines(destinations: object) -> list[str]:
    """Where each target and judge sends questions and keys, as a plan says it and a run keeps it."""
    kept = destinations if isinstance(destinations, dict) else {}
    said = {str(name): to.get("sentence") for name, to in kept.items() if isinstance(to, dict)}
    return [safe_line(f"{name} {sentence}") for name, sentence in said.items() if isinstance(sentence, str)]


def change_lines(run: RunRow) -> list[str]:
    """What of the questions to each target and judge was not sent as it stands."""
    kept = run.config.get(CHANGES)
    named = kept.items() if isinstance(kept, dict) else ()
    return [safe_line(f"{name}: {change}") for name, changes in named for change in changes]


def judge_name(run: RunRow) -> str:
    """Who judges, in a word or two."""
    kept = run.config.get("judge")
    if isinstance(kept, dict):
        return _with_model(str(kept.get("name") or ""), _model(kept))
    return "left out" if run.config.get("without_judges") else "none named"


def column_names(run: RunRow) -> dict[Column, str]:
    """What each prompt and target is called."""
    # Imported when it is wanted, because comparing would hold up every first picture.
    from tui_evals.compare.sides import column_name

    places = ((prompt, target) for prompt in range(len(run.prompts)) for target in range(len(run.targets)))
    return {place: column_name(run, *place) for place in places}


def _model(kept: object) -> str:
    return str(kept.get("model") or "") if isinstance(kept, Mapping) else ""


def _with_model(name: str, model: str) -> str:
    return f"{name} ({model})" if model and model != name else name
