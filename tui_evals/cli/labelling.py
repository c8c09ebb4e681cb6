"""What people say of answers: one label, many of them blind, and how far evaluators agree with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tui_evals.compare.agreeing import Told, plain, verdicts
from tui_evals.compare.blind import judged_by
from tui_evals.compare.labels import Standing, standings
from tui_evals.store.author import author_here
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.nearest import did_you_mean

from . import project
from .output import Stop, columns, say, say_json
from .reading import answers_to
from .tables import wrapped

Verdict = Literal["pass", "fail"]


def label(
    word: str,
    *,
    item: str | None,
    verdict: Verdict | None,
    blind: bool,
    sample: int | None,
    seed: int,
    turn: int,
    target: str | None,
    evaluator: str | None,
    note: str,
    author: str | None,
) -> int:
    """`tui-evals label`: a verdict on one answer, or blind on a sample of them."""
    name = author or author_here()
    if blind:
        if item is not None or note or turn != 1:
            raise Stop("--blind goes through many answers: leave ITEM, verdict, --turn and --note out")
        from .blind import label_blind

        return label_blind(word, size=sample, seed=seed, target=target, evaluator=evaluator, author=name)
    if sample is not None:
        raise Stop("--sample says how many answers --blind goes through; give both")
    if item is None or verdict is None:
        raise Stop(
            f"say which answer, and what you think of it: `tui-evals label {word} ITEM pass` or fail; "
            f"`tui-evals label {word} --blind` goes through many in turn"
        )
    with project.reader() as reader:
        run = project.run_named(reader, word)
        wanted = columns_of(run, target)
        rows = [row for row in answers_to(reader, run, item, turn) if row.target in wanted]
        if not rows:
            raise Stop(f"{run.key} has no answer of {target} to {item}")
        if len({row.target for row in rows}) > 1:
            raise Stop(f"{item} was answered by {', '.join(run.targets)}; say whom you mean with --target")
        with project.writer({}) as writer:
            for row in rows:
                writer.label(row.id, verdict, name, evaluator=evaluator, note=note)
    say(f"{run.key} {item}: {verdict}")
    return 0


def columns_of(run: RunRow, name: str | None) -> frozenset[int]:
    """The numbers of the targets of a name, of all where none is given; or the end of the command."""
    found = frozenset(number for number, target in enumerate(run.targets) if name in (None, target))
    if not found:
        raise Stop(f"{run.key} has no target {name!r}; it has {', '.join(run.targets)}")
    return found


def agreement(word: str, *, evaluator: str | None, limit: int, as_json: bool) -> None:
    """`tui-evals agreement`: evaluators against labels."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if evaluator is not None:
            known_or_stop(reader, run, evaluator, {one.evaluator for one in reader.labels(run.id) if one.evaluator})
        found = standings(reader, run, evaluator, limit)
    if as_json:
        say_json({"run": run.key, "agreement": [plain(one) for one in found]})
    else:
        say_agreement(run, found)


def known_or_stop(reader: Reader, run: RunRow, evaluator: str, more: set[str] | frozenset[str] = frozenset()) -> None:
    """End the command where an evaluator has judged no answer of a run, nor has anybody labelled it."""
    known = {*judged_by(reader, run.id), *more}
    if evaluator not in known:
        there = f"those that did: {', '.join(sorted(known))}" if known else "nor did any other"
        raise Stop(f"{evaluator!r} has no verdict in {run.key}{did_you_mean(evaluator, known)}; {there}")


def say_agreement(run: RunRow, found: Sequence[Standing]) -> None:
    """Print what the labels of a run come to."""
    if not any(one.together.n or one.unjudged or one.torn for one in found):
        say(f"nobody has labelled answers of {run.key} yet; `tui-evals label {run.key} --blind` begins")
        return
    say(f"{run.key}  {run.name}", bold=True)
    for line in verdicts(found, run.key):
        say_told(line)


def say_told(line: Told) -> None:
    """Print a line of what is told, broken between words."""
    width = columns()
    for text in wrapped(line.text, None if width is None else width - line.indent - 1):
        say(" " * line.indent + text, bold=line.kind in ("title", "strong"), dim=line.kind == "dim")
