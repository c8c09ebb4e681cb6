"""Labels of answers: a single one, many blind, and how far evaluators agree with them."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import click

from tui_evals.cli import inputs, project
from tui_evals.cli.judge.evaluators import summary
from tui_evals.cli.look.show import answers_to
from tui_evals.cli.output import Stop, asks_on_terminal, columns, redraws, rewind, say, say_json, say_result
from tui_evals.compare.blind import (
    SAMPLE,
    BlindText,
    LabellingSession,
    Verdict,
    answers_by_evaluator,
    draw_sample,
    labelling_parts,
)
from tui_evals.compare.labels import (
    AgreementLine,
    EvaluatorAgreement,
    agreement_json,
    all_agreement_lines,
    evaluator_agreements,
)
from tui_evals.datasets.resolve import effective_evaluators
from tui_evals.evaluators.registry import UnknownEvaluator
from tui_evals.present.columns import wrap
from tui_evals.store import run_figures
from tui_evals.store.baselines import author_here
from tui_evals.store.database import StoreError
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.store.rows import plain
from tui_evals.store.writer import Writer
from tui_evals.text import strictjson
from tui_evals.text.names import did_you_mean

LabelVerdict = Literal["pass", "fail"]


def label(
    word: str,
    *,
    item: str | None,
    verdict: LabelVerdict | None,
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
        targets = columns_of(run, target)
        rows = [row for row in answers_to(reader, run, item, turn) if row.target in targets]
        if not rows:
            raise Stop(f"{run.key} has no answer of {target} to {item}")
        if len({row.target for row in rows}) > 1:
            raise Stop(f"{item} was answered by {', '.join(run.targets)}; choose one with --target")
        with project.writer({}) as writer:
            for row in rows:
                writer.label(row.id, verdict, name, evaluator=evaluator, note=note)
    result = {"run": run.key, "item": item, "turn": turn, "verdict": verdict, "evaluator": evaluator, "author": name}
    say_result(f"{run.key} {item}: {verdict}", result | {"note": note, "answers": len(rows)})
    return 0


def columns_of(run: RunRow, name: str | None) -> frozenset[int]:
    """The numbers of the targets of a name, of all where none is given; or the end of the command."""
    numbers = frozenset(number for number, target in enumerate(run.targets) if name in (None, target))
    if not numbers:
        raise Stop(f"{run.key} has no target {name!r}; it has {', '.join(run.targets)}")
    return numbers


def agreement(word: str, *, evaluator: str | None, limit: int, as_json: bool) -> None:
    """`tui-evals agreement`: evaluators against labels."""
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if evaluator is not None:
            require_verdicts(
                reader,
                run,
                evaluator,
                {label_row.evaluator for label_row in reader.labels(run.id) if label_row.evaluator},
            )
        agreements = evaluator_agreements(reader, run, evaluator, limit)
    if as_json:
        say_json({"run": run.key, "agreement": [agreement_json(entry) for entry in agreements]})
    else:
        say_agreement(run, agreements)


def require_verdicts(
    reader: Reader, run: RunRow, evaluator: str, more: set[str] | frozenset[str] = frozenset()
) -> None:
    """End the command where a run has no label and no verdict of the evaluator."""
    judged_by = {*answers_by_evaluator(reader, run.id), *more}
    if evaluator not in judged_by:
        others = f"those that did: {', '.join(sorted(judged_by))}" if judged_by else "nor did any other"
        raise Stop(f"{evaluator!r} has no verdict in {run.key}{did_you_mean(evaluator, judged_by)}; {others}")


def say_agreement(run: RunRow, agreements: Sequence[EvaluatorAgreement]) -> None:
    """Print how evaluators agree with labels."""
    if not any(entry.agreement.n or entry.unjudged or entry.people_differ for entry in agreements):
        say(f"{run.key} has no labels yet. Start: `tui-evals label {run.key} --blind`")
        return
    say(f"{run.key}  {run.name}", bold=True)
    for line in all_agreement_lines(agreements, run.key):
        say_agreement_lines(line)


def say_agreement_lines(line: AgreementLine) -> None:
    """Print a line, broken between words."""
    width = columns()
    for text in wrap(line.text, None if width is None else width - line.indent - 1):
        say(" " * line.indent + text, bold=line.kind in ("title", "strong"), dim=line.kind == "dim")


_VERDICTS: Mapping[str, Verdict] = {"g": "pass", "b": "fail"}
_ECHOES = {"g": "→ good", "b": "→ bad", "s": "→ skipped"}
_OFFER = "g good · b bad · s skip · u undo · n note · q stop"
_HIDDEN_OPTIONS = ("judge", "weight")  # a judge may be a target of the run, and a weight says nothing of the answer


def label_blind(
    word: str, *, size: int | None, seed: int, target: str | None, evaluator: str | None, author: str
) -> int:
    """Label a sample. An interrupted one returns 130 and keeps its labels."""
    if not (sys.stdin.isatty() and asks_on_terminal()):
        raise Stop(
            "--blind shows one answer after the other and needs a terminal; "
            f"`tui-evals label {word} ITEM pass` (or fail) labels a single one without"
        )
    with project.reader() as reader:
        run = project.run_named(reader, word)
        if evaluator is not None:
            require_verdicts(reader, run, evaluator)
        targets = columns_of(run, target)
        sample = draw_sample(
            reader, run.id, size or SAMPLE, seed=seed, targets=targets, evaluator=evaluator, author=author
        )
        if not sample.pool:
            raise Stop(f"{run.key} has no answers to label yet")
        session = LabellingSession(sample)
        with project.writer({}) as writer:
            return _BlindSession(reader, writer, run, session, evaluator, author).work(sample.pool)


class _Keys:
    """Reads single keys from the terminal, and restores its mode at the end."""

    def __init__(self) -> None:
        self._file = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._file)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the terminal is put back

    def __enter__(self) -> Self:
        tty.setcbreak(self._file)
        modes = termios.tcgetattr(self._file)
        modes[6][termios.VSUSP] = b"\0"  # a shell would get a terminal that echoes nothing
        termios.tcsetattr(self._file, termios.TCSADRAIN, modes)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def forget(self) -> None:
        """Drop keys typed before an answer was shown."""
        termios.tcflush(self._file, termios.TCIFLUSH)

    def next(self, keys: str) -> str:
        """The first typed key among `keys`; keys typed with it are dropped: the next answer is not shown yet."""
        while True:
            typed = os.read(self._file, 64).decode(errors="replace")
            if typed in ("", "\x04"):
                return "q"
            if not typed.startswith("\x1b"):
                for key in typed:
                    if key in keys:
                        return key

    def line(self, question: str, old: str) -> str:
        """A whole line, typed as everywhere else."""
        self.__exit__()
        try:
            return str(click.prompt(question, default=old, show_default=bool(old)))
        finally:
            self.__enter__()


class _BlindSession:
    """One person labels a sample."""

    def __init__(
        self, reader: Reader, writer: Writer, run: RunRow, session: LabellingSession, evaluator: str | None, author: str
    ) -> None:
        self._reader, self._writer, self._run = reader, writer, run
        self._session, self._evaluator, self._author = session, evaluator, author
        document = reader.snapshot(run.snapshot) if run.snapshot else {}
        self._document: Mapping[str, Any] = document
        self._items: Sequence[Mapping[str, Any]] = document.get("items", ())
        self._keys = _Keys()
        self._about = "" if evaluator is None else _evaluator_summary(reader, run, evaluator)

    def work(self, pool: int) -> int:
        """Label until the sample ends or you stop."""
        session, code = self._session, 0
        drawn = "all of them" if session.total == pool else f"a plain random sample of {pool:,}"
        before = session.before or "none"
        lead = (
            f"{session.total} answer{'s' * (session.total != 1)} of {self._run.key}, {drawn}; {before} labelled "
            f"already. Every label is kept at once, under the name {self._author}."
        )
        try:
            with self._keys:
                while (answer := session.answer) is not None:
                    key = self._ask_key(answer, lead)
                    lead = ""
                    if key == "q":
                        break
                    self._do(key, answer)
        except (KeyboardInterrupt, click.Abort):
            code = 130
        except (StoreError, LookupError) as problem:
            raise Stop(str(problem), 1) from None
        self._say_end()
        result = {"run": self._run.key, "labelled": session.done, "drawn": session.total, "author": self._author}
        say_result(None, {**result, "evaluator": self._evaluator})
        return code

    def _do(self, key: str, answer: int) -> None:
        session = self._session
        if key == "u":
            before = session.previous
            if before in session.given and before is not None:
                self._keep(before, None)
            session.go_back()
            return
        verdict = _VERDICTS.get(key)
        if verdict is not None:
            self._keep(answer, verdict, session.note())
        say(_ECHOES[key], dim=True)
        session.go_on(verdict)

    def _keep(self, answer: int, verdict: Verdict | None, note: str = "") -> None:
        self._writer.label(answer, verdict, self._author, evaluator=self._evaluator, note=note, blind=True)

    def _ask_key(self, answer: int, lead: str) -> str:
        """Show an answer screen by screen, and wait for a key that means something."""
        lines = [*((line, False) for line in wrap(lead, _width()) if lead), *self._lines(answer)]
        place = 0
        self._keys.forget()
        while True:
            height = max(shutil.get_terminal_size().lines - 3, 1)
            for line, bold in lines[place : place + height]:
                say(line, bold=bold)
            place += height
            key = self._pressed(more=place < len(lines))
            if key != " ":
                return key

    def _pressed(self, more: bool) -> str:
        """The next key that has an effect here; a line with these keys is shown below the text."""
        session = self._session
        keys = "gbsnq" + ("u" if session.previous is not None else "") + (" " if more else "")
        note = f"your note: {session.note()}\n" if session.note() else ""
        while True:
            offer = wrap(f"{note}{'space more · ' if more else ''}{_OFFER}", _width())
            for line in offer:
                say(line, bold=True)
            key = self._keys.next(keys)
            if redraws():
                rewind(len(offer))
            if key != "n":
                return key
            session.notes[session.answer or 0] = plain(self._keys.line("note", session.note()).strip())
            note = ""  # it is there, just typed

    def _lines(self, answer: int) -> list[tuple[str, bool]]:
        """The lines that show an answer; titles are bold."""
        session = self._session
        parts = labelling_parts(self._reader, self._items, answer)
        if self._evaluator is not None:
            parts = (BlindText("judge it by", self._criterion(answer)), *parts)
        width = _width()
        lines = [("", False), (f"── {session.number} of {session.total} ".ljust(width, "─"), False)]
        for part in parts:
            lines += [(line, True) for line in wrap(part.title, width)]
            lines += [(f"  {line}", False) for line in wrap(part.text, width - 2)]
        return lines

    def _criterion(self, answer: int) -> str:
        """The summary of the evaluator, and its options where the dataset of the run holds them."""
        row = self._reader.detail(answer).row
        item = self._items[row.item] if row.item < len(self._items) else {}
        turns = item.get("turns")
        unit = turns[row.turn] if isinstance(turns, list) and row.turn < len(turns) else item
        mode = unit.get("evaluators_mode")
        evaluators = effective_evaluators(
            self._document.get("default_evaluators"), unit.get("evaluators"), mode, "item"
        )
        entry = next((evaluator for evaluator in evaluators if evaluator.key == self._evaluator), None)
        options = {} if entry is None else {k: v for k, v in entry.settings.items() if k not in _HIDDEN_OPTIONS}
        return f"{self._about}\n{strictjson.dumps(options)}" if options else self._about

    def _say_end(self) -> None:
        """Print how many were labelled, and at the end the agreement."""
        session, run = self._session, self._run
        again = "" if session.done == session.total else " Run the same command again for the rest."
        say_agreement_lines(AgreementLine(f"{session.done} of {session.total} labelled, and kept.{again}"))
        if session.answer is not None:
            say_agreement_lines(
                AgreementLine(f"`tui-evals agreement {run.key}` compares what there is with what the evaluators said.")
            )
            return
        say()
        say_agreement(run, evaluator_agreements(self._reader, run, self._evaluator))


def _evaluator_summary(reader: Reader, run: RunRow, key: str) -> str:
    """The key and summary of an evaluator of a run."""
    name = next((mean.evaluator for mean in run_figures.evaluator_means(reader, run.id) if mean.key == key), key)
    try:
        return f"{key}: {summary(inputs.evaluators().find(name))}"
    except UnknownEvaluator:
        return f"{key}: {name}, which this project no longer has"


def _width() -> int:
    return max(shutil.get_terminal_size().columns - 1, 10)
