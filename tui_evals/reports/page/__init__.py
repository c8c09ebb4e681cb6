"""A run, or up to four compared runs, as one self-contained page that runs no untrusted code."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tui_evals.compare.runs import MAX_RUNS, read_comparison
from tui_evals.present.provenance import head_text
from tui_evals.present.status import ANSWER_LOOKS, BAD, WORST_FIRST, status_phrase
from tui_evals.reports.page import cards, facing, summary
from tui_evals.reports.page.facing import versus
from tui_evals.reports.results import ReportKind, json_lines
from tui_evals.store import chains
from tui_evals.store.reader import Reader
from tui_evals.store.records import RunRow
from tui_evals.text.measures import counted
from tui_evals.text.safe import safe
from tui_evals.version import __version__

_LARGE = "large.html.j2"
_PIECES = 400  # pieces of a template that are handed on together


def page(reader: Reader, runs: Sequence[RunRow]) -> str:
    """The report of one run, or the comparison of 2 to 4 runs with the first."""
    return "".join(chunks(reader, runs))


def chunks(reader: Reader, runs: Sequence[RunRow]) -> Iterator[str]:
    """The page in pieces; at most one item is in memory."""
    if not 1 <= len(runs) <= MAX_RUNS:
        raise ValueError(f"a page shows one run, or 2 to {MAX_RUNS} runs compared, not {len(runs)}")
    name, values = _run_page(reader, runs[0]) if len(runs) == 1 else _comparison_page(reader, runs)
    heads = [text for run in runs if (text := head_text(run.key, chains.last_link(reader.query, run.key)))]
    stream = _environment().get_template(name).stream(**values, heads=heads, **_assets(name == _LARGE))
    stream.enable_buffering(_PIECES)
    yield from stream


def _run_page(reader: Reader, run: RunRow) -> tuple[str, dict[str, Any]]:
    items = reader.dataset(run).items
    about = summary.summary(reader, run, items)
    given = {"title": run.name, "about": about}
    if run.total <= cards.WHOLE:
        cards_of_all = cards.cards(reader, run, items, about.filters)
        answers = cards.squeezed(json_lines(reader, run))
        return "run.html.j2", {
            **given,
            "matrix": summary.matrix(reader, run),
            "cards": cards_of_all,
            "answers": answers,
        }
    choice = cards.choice(reader, run)
    rows = reader.answers_to(run.id, choice.items)
    return _LARGE, {
        **given,
        "choice": choice,
        "matrix": summary.matrix(reader, run, choice.items),
        "cards": cards.cards(reader, run, items, about.filters, rows),
        "packed": cards.packed(reader, run, items, about.filters, about.words, choice.items),
    }


def _comparison_page(reader: Reader, runs: Sequence[RunRow]) -> tuple[str, dict[str, Any]]:
    comparison = read_comparison(reader, [run.id for run in runs])
    about = versus(reader, comparison)
    names = [f"{run.letter} {run.name}" for run in about.runs]
    title = f"{', '.join(names[:-1])} and {names[-1]}"
    listed = facing.cards(reader, comparison, about.evaluators, about.columns)
    return "comparison.html.j2", {"title": title, "about": about, "cards": listed}


_IN_NOTEBOOK = 10  # items of a page that a notebook shows
_NOTEBOOK = """\
<p><b>{title}</b></p>
<iframe sandbox="" title="{title}" srcdoc="{page}" style="width:100%;height:32em;border:1px solid #8884"></iframe>
{rest}"""


def notebook_frame(reader: Reader, runs: Sequence[RunRow], title: str) -> str:
    """The page as a notebook shows it: in a frame of its own without scripts, with the first items only."""
    values: dict[str, Any]
    if len(runs) == 1:
        (run,), name = runs, "run.html.j2"
        items = reader.dataset(run).items
        about = summary.summary(reader, run, items)
        wrong = reader.items(run.id, BAD)
        shown = wrong[:_IN_NOTEBOOK] or reader.items(run.id, WORST_FIRST)[:_IN_NOTEBOOK]
        listed = cards.cards(reader, run, items, about.filters, reader.answers_to(run.id, shown))
        values = {"title": run.name, "about": about, "matrix": None, "cards": listed, "answers": ()}
        left = about.items - len(shown)
    else:
        name, values = _comparison_page(reader, runs)
        left = max(values["about"].items - _IN_NOTEBOOK, 0)
        values["cards"] = islice(values["cards"], _IN_NOTEBOOK)
    assets = {**_assets(False), "script": Markup()}
    page = _environment().get_template(name).render(**values, heads=(), **assets)
    rest = f"<p>{counted(left, 'more item')} in the file that <code>.report(&quot;run.html&quot;)</code> writes.</p>"
    return _NOTEBOOK.format(title=escape(safe(title)), page=escape(page), rest=rest if left else "")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__name__, ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_safe_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"counted": counted, "looks": ANSWER_LOOKS, "phrase": status_phrase, "version": __version__}
    return environment


def _safe_value(value: object) -> object:
    """The value that a template prints: text with visible control characters, empty for None."""
    return "" if value is None else safe(value) if type(value) is str else value


@cache
def _assets(large: bool) -> dict[str, Any]:
    """Our style and script, and the policy that lets the page use only these."""
    style, script = _asset("style.css"), _asset("script.js")
    if large:
        style, script = style + _asset("rows.css"), script + _asset("rows.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src 'none'; base-uri 'none'; form-action 'none'"
    )
    return {"style": Markup(style), "script": Markup(script), "policy": policy}


def _asset(name: str) -> str:
    return resources.files("tui_evals.reports").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


KINDS = {
    "html": ReportKind(
        (".html", ".htm"), lambda reader, runs, raw: chunks(reader, runs), about="a page to read and to send"
    )
}
