"""The evaluators of a place as rows: which judge and why, options, problems, and trial results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tui_evals.datasets.paths import Data, Path, get_at
from tui_evals.datasets.resolve import SYSTEM_DEFAULTS, EffectiveEvaluator, Options, Origin, effective_evaluators
from tui_evals.datasets.steps import DEFAULTS
from tui_evals.light_records import dataclass
from tui_evals.text.measures import score_figures
from tui_evals.text.safe import safe_line
from tui_evals.tui.rows import Piece, Row, Style, fit, paragraph, row, wrapped

if TYPE_CHECKING:
    from tui_evals.evaluators.base import Evaluator, Score
    from tui_evals.tui.judges.trial import TrialResult


@dataclass(frozen=True, slots=True)
class JudgesHere:
    """The evaluators that judge at the level one works on."""

    place: Path
    """The path that edits go to: the dataset's default_evaluators, or a unit."""
    entries: tuple[EffectiveEvaluator, ...]
    own: frozenset[str] = frozenset()
    """The keys that are written at this very place."""
    base: Origin = "dataset"
    """The origin of inherited evaluators."""
    replaces: bool = False
    left_out: tuple[str, ...] = ()
    broken: frozenset[str] = frozenset()
    """Keys whose options are no object."""
    turns: tuple[str, ...] | None = None
    """The prompts of a conversation, which has no evaluators itself."""
    remark: str = ""

    @property
    def of_dataset(self) -> bool:
        """Whether one works on the evaluators of all units."""
        return self.place == DEFAULTS

    def home(self, entry: EffectiveEvaluator) -> Path:
        """The path of an evaluator in the document; a built-in default has none."""
        if entry.origin == "system":
            return ()
        return (*evaluators_path(DEFAULTS if entry.origin == "dataset" else self.place), entry.key)


def evaluators_path(place: Path) -> Path:
    """The path of the evaluators of a place."""
    return place if place == DEFAULTS else (*place, "evaluators")


def judges_here(data: Data, where: Path, of_dataset: bool) -> JudgesHere:
    """The evaluators in effect at a place, as far as the data is valid."""
    defaults, broken, remark = _evaluators(data, DEFAULTS)
    base: Origin = "system" if defaults is None else "dataset"
    if of_dataset or not where:
        entries = effective_evaluators(defaults, None, None, "item")
        return JudgesHere(DEFAULTS, entries, frozenset(defaults or ()), base, broken=broken, remark=remark)
    unit = get_at(data, where)
    if not isinstance(unit, dict):
        return JudgesHere(where, (), remark="this is no object; fix it in the file")
    if isinstance(turns := unit.get("turns"), list):
        prompts = (turn.get("prompt") if isinstance(turn, dict) else None for turn in turns)
        return JudgesHere(where, (), turns=tuple(text if isinstance(text, str) else "" for text in prompts))
    own, more, mine = _evaluators(data, evaluators_path(where))
    mode = unit.get("evaluators_mode")
    entries = effective_evaluators(
        defaults, own, mode if isinstance(mode, str) else None, "turn" if len(where) > 2 else "item"
    )
    shown = {entry.key for entry in entries}
    return JudgesHere(
        where,
        entries,
        frozenset(own or ()),
        base,
        own is not None and mode == "replace",
        tuple(key for key in (SYSTEM_DEFAULTS if defaults is None else defaults) if key not in shown),
        more | frozenset(key for key in broken if own is None or key not in own),
        remark=mine or remark,
    )


def _evaluators(data: Data, path: Path) -> tuple[dict[str, Options] | None, frozenset[str], str]:
    """The evaluators set at a path, those whose options are not an object, and an error of all of them."""
    evaluators = get_at(data, path)
    if evaluators is None:
        return None, frozenset(), ""
    if not isinstance(evaluators, dict):
        return None, frozenset(), f"{path[-1]} is no object and counts for nothing; fix it in the file"
    broken = frozenset(key for key, options in evaluators.items() if not isinstance(options, dict))
    return {key: {} if key in broken else options for key, options in evaluators.items()}, broken, ""


GLYPHS: Mapping[Origin, str] = {"system": "○", "dataset": "◇", "item": "◆", "turn": "◆"}
ORIGINS: Mapping[Origin, str] = {"system": "system default", "dataset": "dataset", "item": "item", "turn": "turn"}
RESULTS: Mapping[str | None, tuple[str, Style]] = {
    "pass": ("✓ pass", "pass"),
    "fail": ("✗ fail", "fail"),
    "error": ("! error", "error"),
    "skipped": ("– skipped", "dim"),
    None: ("· no verdict", "warn"),
}
_LABEL = 8
_LONGEST_VALUE = 80
_LONGEST_REASON = 1_000


@dataclass(frozen=True, slots=True)
class EvaluatorBlock:
    """One evaluator as shown in the pane."""

    entry: EffectiveEvaluator
    kind: type[Evaluator] | None
    problems: tuple[str, ...] = ()
    tried: TrialResult | str | None = None
    """The result of a trial, or a message while it is running."""
    passing: str = ""
    """How many recorded answers pass at its threshold and near it."""


@dataclass(frozen=True, slots=True)
class JudgesPage:
    """All the pane shows."""

    standing: JudgesHere
    name: str
    """How the item or turn is called; empty at the dataset itself."""
    blocks: tuple[EvaluatorBlock, ...] = ()
    judge: str | None = None
    embedder: str | None = None
    problems: tuple[str, ...] = ()
    """The problems of the evaluators of the place as a whole."""


def judge_rows(shown: JudgesPage, width: int) -> list[Row]:
    """The pane: the current place, the mode, who is asked, then a block for each evaluator."""
    here = shown.standing
    rows = [*_labelled("level", *_level(shown), width)]
    if here.turns is not None:
        return rows + list(_turns(here.turns, width))
    rows += _labelled("mode", *_mode(here), width)
    judged = [block for block in shown.blocks if _asks(block) and not _embeds(block)]
    if any(_asked(block, shown) is None for block in judged):
        rows += _labelled("judge", "no judge named", "settings: ,", width, "warn")
    elif judged:
        rows += _labelled("judge", shown.judge or "named in the options", "", width)
    for problem in filter(None, (here.remark, *shown.problems)):
        rows += paragraph(f"! {problem}", width, "error")
    rows.append(row())
    for block in shown.blocks:
        rows += _block(block, here, _asked(block, shown), width)
    if not shown.blocks:
        rows += paragraph("Nothing judges here. Press a to add an evaluator.", width, "dim")
    if here.left_out:
        rows += paragraph(f"left out here: {', '.join(map(_line, here.left_out))}", width, "dim")
    return rows


def _level(shown: JudgesPage) -> tuple[str, str]:
    if not shown.name:
        return "the dataset", "for every item"
    if shown.standing.of_dataset:
        return "the dataset", f"l: only {shown.name}"
    return shown.name, "l: the dataset"


def _mode(here: JudgesHere) -> tuple[str, str]:
    if here.of_dataset:
        return (
            ("system defaults", "the file names none")
            if here.base == "system"
            else ("defaults", "of all items and turns")
        )
    if here.replaces:
        return "replace", "m: extend"
    return "extend", "m: replace"


def _labelled(label: str, text: str, more: str, width: int, style: Style = "strong") -> Iterator[Row]:
    """A label with its value; details that do not fit the line follow below."""
    room = max(width - _LABEL, 8)
    value = _line(text)
    if more and len(value) + len(more) + 3 <= room:
        yield row(fit(label, _LABEL, "dim"), (value, style), (f" · {more}", "dim"))
        return
    for number, line in enumerate(wrapped(value, room)):
        yield row(fit("" if number else label, _LABEL, "dim"), (line, style))
    for line in wrapped(more, room) if more else ():
        yield row(fit("", _LABEL), (line, "dim"))


def _turns(prompts: Iterable[str], width: int) -> Iterator[Row]:
    message = "A conversation has no evaluators itself: its turns have. Choose one (enter)."
    yield row()
    yield from paragraph(message, width, "dim")
    for number, prompt in enumerate(prompts):
        name = f"turn {number + 1}"
        yield row((f"{name:<{_LABEL}}", "strong"), fit(prompt, width - _LABEL), key=("turn", number))


def _block(block: EvaluatorBlock, here: JudgesHere, asked: str | None, width: int) -> Iterator[Row]:
    entry = block.entry
    name = entry.key if entry.evaluator == entry.key else f"{entry.key} → {entry.evaluator}"
    origin = ORIGINS[entry.origin]
    style: Style = "strong" if entry.key in here.own else ""
    glyph = Piece(f"{GLYPHS[entry.origin]} ", "accent" if entry.key in here.own else "dim")
    room = width - len(origin) - 3
    yield row(glyph, fit(name, room, style), f" {origin}", key=("evaluator", entry.key))
    if entry.settings:
        yield from paragraph(options_words(entry.settings), width, "", 2)
    yield from _family_rows(block, asked, width)
    if block.passing:
        yield from paragraph(block.passing, width, "dim", 2)
    if entry.overridden is not None:
        settings = {name: value for name, value in entry.overridden.items() if name != "type"}
        options = options_words(settings) or "without options"
        yield from paragraph(f"overrides {ORIGINS[here.base]}: {options}", width, "accent", 2)
    for problem in block.problems:
        yield from paragraph(f"! {problem}", width, "error", 2)
    if isinstance(block.tried, str):
        yield from paragraph(f"▸ {block.tried}", width, "running", 2)
    elif block.tried is not None:
        yield from _tried(block.tried, width)


def _family_rows(block: EvaluatorBlock, asked: str | None, width: int) -> Iterator[Row]:
    """Its family, and the target that it asks."""
    if block.kind is None:
        return
    family = block.kind.family
    if _asks(block):
        style: Style = "dim" if asked else "warn"
        does = "compares embeddings" if _embeds(block) else "asks a judge"
        missing = ", and no target for them is named" if _embeds(block) else ", and none is named"
        yield from paragraph(f"{family} · {does}{f': {asked}' if asked else missing}", width, style, 2)
    else:
        yield from paragraph(f"{family} · may ask a judge" if block.kind.may_ask else family, width, "dim", 2)


def _asks(block: EvaluatorBlock) -> bool:
    return block.kind is not None and block.kind.judged


def _embeds(block: EvaluatorBlock) -> bool:
    return block.kind is not None and block.kind.embeds


def _asked(block: EvaluatorBlock, shown: JudgesPage) -> str | None:
    """The target that an evaluator asks: its own judge or the dataset's; for embeddings, the embedder."""
    own = block.entry.settings.get("embedder" if _embeds(block) else "judge")
    return own if isinstance(own, str) and own else shown.embedder if _embeds(block) else shown.judge


def _tried(tried: TrialResult, width: int) -> Iterator[Row]:
    """The result of a trial: status, score, reason."""
    for line in wrapped(f"tried on {tried.of}", width - 4):
        yield row("  ", ("│ ", "accent"), (line, "dim"))
    word, style = RESULTS.get(tried.score.result, RESULTS[None])
    for line in wrapped(f"{word}{_figures(tried.score)}", width - 4):
        yield row("  ", ("│ ", "accent"), (line, style))
    reason = tried.score.reason
    if len(reason) > _LONGEST_REASON:
        reason = f"{reason[:_LONGEST_REASON]}…"
    for line in wrapped(reason, width - 4) if reason else ():
        yield row("  ", ("│ ", "accent"), line)


def _figures(score: Score) -> str:
    parts = []
    if score.score is not None:
        parts.append(score_figures(score.score, score.threshold, score.result, score.measure))
    if score.label is not None:
        parts.append(_line(score.label))
    return "".join(f" · {part}" for part in parts)


def options_words(options: Options) -> str:
    """Options in short: threshold=0.6 mode=equals."""
    return "  ".join(f"{_line(name)}={_value(value)}" for name, value in options.items())


def _value(value: Any) -> str:
    if isinstance(value, str):
        text = value[:_LONGEST_VALUE]
        plain = text and not any(character.isspace() or character in '"=' for character in text)
        words = text if plain else json.dumps(text, ensure_ascii=False)
        return f"{words}…" if len(value) > _LONGEST_VALUE else words
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _line(text: str) -> str:
    return safe_line(text, _LONGEST_VALUE)
