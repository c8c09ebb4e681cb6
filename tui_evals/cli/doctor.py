"""`tui-evals doctor`: checks of the installation, the project, the terminal and the keys."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import site
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Literal

from tui_evals.cli.output import say, say_json
from tui_evals.datasets.discover import find_dataset, project_root
from tui_evals.evaluators.sandbox import NOT_ISOLATED, isolation_kind
from tui_evals.files import check_private
from tui_evals.present.stores import store_standing
from tui_evals.runs.project import place_of_store
from tui_evals.store.database import StoreError
from tui_evals.store.upkeep import check
from tui_evals.targets.base import ConfigurationError
from tui_evals.targets.config import load_settings
from tui_evals.targets.environment import Variables, environment
from tui_evals.terminal_facts import SIGNS, Answers, Question, Width, colour_count, shade, why_ascii
from tui_evals.text.safe import safe_line
from tui_evals.version import __version__

Verdict = Literal["ok", "note", "bad"]
Finding = tuple[Verdict, str, str]

_COLOURS = {0: "none", 16: "16", 256: "256", 1 << 24: "true colour"}
_WIDTHS: Mapping[Width, tuple[Verdict, str]] = {
    "narrow": ("ok", f"{SIGNS} take one cell each"),
    "wide": ("note", f"{SIGNS} take two cells; the workbench draws them, and letters as wide, in ASCII"),
    "no UTF-8": ("note", "UTF-8 comes out as other signs; the workbench draws in ASCII"),
    "unknown": ("ok", "not measured: the terminal does not report its cursor"),
}
_SLOW_ESCAPE = 100
"""Milliseconds above which the delay of escape is noticeable."""
_TMUX_PATIENCE = 5.0
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
_MARKS: Mapping[Verdict, tuple[str, str]] = {"ok": ("✓", "green"), "note": ("·", "yellow"), "bad": ("✗", "red")}


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
    standing: Verdict = "ok" if checked.own else "note"
    return standing if checked.is_sound else "bad", "database", f"{path} is {store_standing(checked)}"


def _keys() -> Iterator[Finding]:
    variables, named, remarks = _variables()
    for name in dict.fromkeys((*sorted(named), *_KEYS, *variables.of_files)):
        file = variables.file_of(name)
        where = "in the environment" if file is None else f"in {file}"
        wanted = ", which .evals/config.toml names" if name in named else ""
        yield ("ok", name, f"found {where}{wanted}") if variables.get(name) else ("note", name, f"not set{wanted}")
    for remark in remarks:
        yield "note", "files", remark


def _variables() -> tuple[Variables, frozenset[str], tuple[str, ...]]:
    """The variables, those that the configuration names, and remarks."""
    root = project_root(Path.cwd())
    try:
        settings = load_settings(root)
        variables, remarks = environment(root, None, settings.variables)
        return variables, frozenset(settings.variables), (*remarks, *settings.broken.values())
    except ConfigurationError as problem:
        return Variables({}, os.environ), frozenset(), (str(problem),)


def terminal_findings() -> Iterator[Finding]:
    """Findings about the current terminal."""
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    yield "ok" if interactive else "note", "terminal", "yes" if interactive else "no: output goes to a file or pipe"
    term = os.environ.get("TERM", "")
    missing = {"": "not set", "dumb": "dumb"}.get(term)
    needs = f"{missing}; the workbench needs a terminal that can move its cursor, commands do not"
    yield ("note", "TERM", needs) if missing else ("ok", "TERM", term)
    size = shutil.get_terminal_size()
    small = size.columns < 80 or size.lines < 24
    yield "note" if small else "ok", "size", f"{size.columns}×{size.lines}{', 80×24 is the least' if small else ''}"
    ascii_alone = why_ascii(sys.stdout.encoding, os.environ)
    yield _encoding(ascii_alone)
    yield _colours()
    answers = _answers(signs=not ascii_alone) if interactive else Answers()
    dark, why = shade(answers, os.environ)
    yield "ok", "background", f"{'dark' if dark else 'light'} ({why})"
    if interactive and not ascii_alone:
        verdict, text = _WIDTHS[answers.width]
        yield verdict, "signs", text
    if answers.typed:
        words = safe_line(answers.typed.decode("utf-8", "replace").rstrip("\r"), 60)
        yield "note", "typed", f"“{words}” came while the terminal was asked and went nowhere; type it again"
    yield _escape_delay()
    yield from _around()


def _answers(*, signs: bool) -> Answers:
    with Question(os.environ, background=True, signs=signs) as question:
        return question.answers()


def _encoding(why: str) -> Finding:
    encoding = (sys.stdout.encoding or "unknown").lower()
    if not why:
        return "ok", "encoding", encoding
    return "note", "encoding", f"{encoding} ({why}): all is drawn in ASCII; LC_ALL=C.UTF-8 shows every sign"


def _colours() -> Finding:
    count = colour_count(os.environ)
    said = f"COLORTERM={os.environ.get('COLORTERM') or 'not set'}, TERM={os.environ.get('TERM') or 'not set'}"
    if os.environ.get("NO_COLOR"):
        return "ok", "colours", "none (NO_COLOR)"
    if count == 16:
        return "note", "colours", f"16 ({said}); a terminal that has more says so with TERM=xterm-256color"
    return "ok", "colours", f"{_COLOURS[count]} ({said})"


def _escape_delay() -> Finding:
    """The finding about other programs' delay after escape; the workbench has its own."""
    given = os.environ.get("ESCDELAY", "")
    if not given:
        return "ok", "ESCDELAY", "not set"
    slow = given.isdecimal() and int(given) > _SLOW_ESCAPE
    advice = "; your editor may wait that long after escape, 25 is enough" if slow else ""
    return "note" if slow else "ok", "ESCDELAY", f"{given} ms{advice}"


def _around() -> Iterator[Finding]:
    """Findings about SSH, screen and tmux, and the setup of tmux."""
    inside = [
        name for name, variable in (("tmux", "TMUX"), ("screen", "STY"), ("SSH", "SSH_TTY")) if os.environ.get(variable)
    ]
    yield "ok", "inside", ", ".join(inside) or "neither tmux nor SSH"
    if "tmux" not in inside:
        return
    version = _tmux("-V").removeprefix("tmux ")
    if not version:
        yield "note", "tmux", "it does not answer"
        return
    yield "ok", "tmux", version
    delay = _tmux("show", "-sv", "escape-time")
    slow = delay.isdecimal() and int(delay) > _SLOW_ESCAPE
    advice = "; `set -sg escape-time 10` in ~/.tmux.conf makes escape quick" if slow else ""
    yield "note" if slow else "ok", "escape-time", f"{delay or 'unknown'} ms{advice}"
    clipboard = _tmux("show", "-sv", "set-clipboard")
    passed = clipboard == "on" or _tmux("show", "-gwv", "allow-passthrough") in ("on", "all")
    advice = "" if passed else "; `set -s set-clipboard on` in ~/.tmux.conf lets y copy to your own machine"
    yield "ok" if passed else "note", "set-clipboard", f"{clipboard or 'unknown'}{advice}"


def _tmux(*words: str) -> str:
    """The output of tmux; empty if it is missing or fails."""
    try:
        done = subprocess.run(["tmux", *words], capture_output=True, text=True, timeout=_TMUX_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
