"""Looking things up: the manual's pages, and what this machine offers."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import site
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from tui_evals.cli.output import Stop, columns, say, say_json
from tui_evals.datasets.discover import find_dataset, project_root
from tui_evals.evaluators.isolation import NOT_ISOLATED, isolation_kind
from tui_evals.present.stores import store_standing
from tui_evals.private_files import check_private
from tui_evals.runs.store_path import place_of_store
from tui_evals.store.damage import check
from tui_evals.store.database import StoreError
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import load_settings
from tui_evals.targets.environment import Variables, environment
from tui_evals.targets.guides import GUIDES, find_guide, guide_lines
from tui_evals.text.manual import pages, title_of
from tui_evals.text.nearest import did_you_mean
from tui_evals.version import __version__

from .terminal import Finding, Verdict, terminal_findings

_MALICIOUS = {"litellm": ("1.82.7", "1.82.8")}
_PACKAGES = ("textual", "pydantic", "litellm", "jinja2", "sqlite-utils", "google-re2", "regex")
_CHECK_SECONDS = 5.0
"""How long the pages of a store are looked at; `tui-evals db check` takes the time it needs."""
_KEYS = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "AZURE_API_KEY",
    "AZURE_AI_API_KEY",
    "GEMINI_API_KEY",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "OPENROUTER_API_KEY",
)
_WORDS_PAGE = "words"
"""The page that is made of words, each under a heading of its own."""
_PROVIDERS_PAGE = "targets"
"""The page after which a provider may be named."""
_MARKS: Mapping[Verdict, tuple[str, str]] = {"ok": ("✓", "green"), "note": ("·", "yellow"), "bad": ("✗", "red")}


def word_meanings() -> dict[str, str]:
    """The meaning of each word of comparing."""
    meanings: dict[str, str] = {}
    for section in pages()[_WORDS_PAGE].split("\n## ")[1:]:
        word, _, meaning = section.partition("\n")
        meanings[word.strip()] = " ".join(meaning.split())
    return meanings


def show_page(topic: str | None) -> None:
    """Show a page of the manual, what one word of comparing means, or the list of pages."""
    manual = pages()
    if topic is None:
        say("Pages of the manual (`tui-evals help TOPIC`):")
        for name, text in manual.items():
            say(f"  {name:<16} {title_of(text)}")
        say(f"Every word of the page '{_WORDS_PAGE}' is a topic too, such as kappa or pass^k.")
        return
    first, _, provider = topic.partition(" ")
    if first == _PROVIDERS_PAGE and provider:
        _show_provider(provider)
        return
    if topic not in manual:
        _show_word(topic, manual)
        return
    for line in manual[topic].splitlines():
        heading = line.startswith("#")
        say(line.lstrip("# ") if heading else line, bold=heading)


def _show_provider(word: str) -> None:
    found = find_guide(word)
    if found is None:
        raise Stop(
            f"there is no provider '{word}' in the manual{did_you_mean(word, GUIDES)}; these are {', '.join(GUIDES)}. "
            "Others are written as provider/name and asked through litellm"
        )
    title, *lines = guide_lines(*found)
    say(title, bold=True)
    for line in lines:
        say(line)


def _show_word(topic: str, manual: Mapping[str, str]) -> None:
    meanings = word_meanings()
    word = next((word for word in meanings if word.casefold() == " ".join(topic.split()).casefold()), None)
    if word is None:
        raise Stop(f"there is no page '{topic}'{did_you_mean(topic, (*manual, *meanings))}; `tui-evals help` lists all")
    say(word, bold=True)
    for line in textwrap.wrap(meanings[word], min(columns() or 100, 100)):
        say(line)


def doctor(as_json: bool) -> int:
    """Check this installation, the project and the terminal; keys are looked for, never shown."""
    parts = {"Installation": _installation, "Project": _project, "Terminal": terminal_findings, "Keys": _keys}
    findings = [(title, finding) for title, part in parts.items() for finding in part()]
    if as_json:
        rows = [
            {"part": title.lower(), "name": name, "verdict": verdict, "text": text}
            for title, (verdict, name, text) in findings
        ]
        say_json({"ok": not _is_broken(findings), "findings": rows})
        return int(_is_broken(findings))
    for title, group in groupby(findings, key=itemgetter(0)):
        say(title, bold=True)
        for _, (verdict, name, text) in group:
            mark, colour = _MARKS[verdict]
            say(f"  {mark} {name:<18} {text}", fg=colour if verdict != "ok" else None)
    return int(_is_broken(findings))


def _is_broken(findings: Iterable[tuple[str, Finding]]) -> bool:
    return any(verdict == "bad" for _, (verdict, _, _) in findings)


def _installation() -> Iterator[Finding]:
    yield "ok", "tui-evals", __version__
    yield "ok", "python", f"{platform.python_version()} ({sys.executable})"
    for name in _PACKAGES:
        version = _version(name)
        if version is None:
            yield "note", name, "not installed"
        elif version in _MALICIOUS.get(name, ()):
            yield "bad", name, f"{version} is a malicious release: uninstall it now and change every key it could read"
        else:
            yield "ok", name, version
    isolated = isolation_kind()
    yield "ok" if isolated else "note", "code of models", f"isolated by {isolated}" if isolated else NOT_ISOLATED
    for path in _start_up_files():
        verdict: Verdict = "bad" if path.name.startswith("litellm") else "note"
        yield verdict, "start-up file", f"{path} runs code whenever Python starts; make sure you know it"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _start_up_files() -> Iterator[Path]:
    """The .pth files that run code; editable installs and setuptools bring harmless ones of known names."""
    for folder in {*site.getsitepackages(), site.getusersitepackages()}:
        for path in sorted(Path(folder).glob("*.pth")):
            harmless = path.name.startswith(("_editable", "__editable__", "distutils-precedence", "_virtualenv"))
            if not harmless and any(line.startswith(("import ", "import\t")) for line in _lines(path)):
                yield path


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _project() -> Iterator[Finding]:
    root = project_root(Path.cwd())
    folder = root / ".evals"
    yield "ok", "root", str(root)
    try:
        for name in ("config.toml", "evals.db", "evals.db-wal", "evals.db.lock", "logs", "locks", "results"):
            check_private(folder / name, links_within=root if name == "config.toml" else None)
    except OSError as problem:
        yield "bad", ".evals/", str(problem)
    if folder.is_dir():
        yield (
            ("ok" if os.access(folder, os.W_OK) else "bad"),
            ".evals/",
            "there" if os.access(folder, os.W_OK) else "cannot be written to; runs could not be stored",
        )
    else:
        yield "note", ".evals/", "not there yet; `tui-evals init` makes it"
    yield _database(place_of_store(root))
    config = folder / "config.toml"
    yield "ok", "configuration", f"{config} ({'there' if config.exists() else 'none, defaults hold'})"
    dataset = find_dataset(Path.cwd())
    yield "ok" if dataset else "note", "dataset", str(dataset) if dataset else "none in the usual places"


def _database(path: Path) -> Finding:
    if not path.exists():
        return "ok", "database", f"{path} (made by the first run)"
    try:
        checked = check(path, seconds=_CHECK_SECONDS)
    except StoreError as problem:
        return "bad", "database", str(problem)
    return "bad" if checked.problems else "ok", "database", f"{path} is {store_standing(checked)}"


def _keys() -> Iterator[Finding]:
    variables, remarks = _variables()
    for name in dict.fromkeys((*_KEYS, *variables.of_files)):
        file = variables.file_of(name)
        where = "in the environment" if file is None else f"in {file}"
        yield ("ok", name, f"found {where}") if variables.get(name) else ("note", name, "not set")
    for remark in remarks:
        yield "note", "files", remark


def _variables() -> tuple[Variables, tuple[str, ...]]:
    root = project_root(Path.cwd())
    try:
        return environment(root, None, load_settings(root).variables)
    except ConfigurationError as problem:
        return Variables({}, os.environ), (str(problem),)
