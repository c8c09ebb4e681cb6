"""Current packages of other tools beside ours: `python -m tests.bench.compatibility [--only WORD] [--into FOLDER]`.

It installs promptfoo, inspect-ai, deepeval, evals and arthur-bench from their registries, each into a folder of its
own, judges answers that an echo gives on both sides, and writes what promptfoo said to
tests/golden/compatibility.json and the table of `help originals`. What cannot be installed is skipped, which is said.
Nothing asks a model or needs a key.
tests/imports/test_compatibility.py judges what was recorded without installing anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tui_evals.datasets.model import Dataset
from tui_evals.datasets.resolve import resolve_evaluators
from tui_evals.evaluators.base import Evidence, evaluate
from tui_evals.evaluators.conditions import LEFT_OUT
from tui_evals.evaluators.registry import load_registry
from tui_evals.imports.promptfoo import read_config

TESTS = Path(__file__).parents[1]
RECORDED = TESTS / "golden" / "compatibility.json"
PAGE = TESTS.parent / "tui_evals" / "help" / "originals.md"
_WHY = {
    "contains-json": "contains-json differs for an answer that is a list without objects: only objects count there."
}
"""Why a kind differs, which the manual says under its table."""
HEADS = ("assertion", "verdicts", "agree", "differ", "missing")
_SECONDS = 1800

_TEXTS = (
    "Vienna is the capital.",
    "VIENNA",
    "I'm sorry, but I can't help with that.",
    "As an AI language model, I cannot provide that.",
    "I can help you with that.",
    '{"city": "Vienna", "n": 1}',
    'Here: {"city": "Vienna"} as asked',
    "[1, 2]",
    "<a><b>1</b></a>",
    "<a>1 & 2</a>",
    "<a><b></a>",
    "Here: <a><b>1</b></a> and more",
    "<p>Hello <b>you</b></p>",
    "<p>x</p> there",
    "<!DOCTYPE html><html><head><title>x</title></head><body>loose</body></html>",
    "<foo>x</foo>",
    "a < b and c > d",
    "Tom &amp; Jerry",
    "SELECT name FROM users WHERE id = 1",
    "SELECT FROM WHERE",
    "Run this:\n```sql\nSELECT name FROM users\n```\n",
    "the cat sat on the mat",
    "the cat sat on a mat",
    "the dog ran off",
    "The cat. sat on the mat...",
    "12 words are here, more or less, which is a few too many",
)
"""What the echo answers; none is a template."""
CASES: tuple[dict[str, Any], ...] = (
    {"type": "equals", "value": "VIENNA"},
    {"type": "contains", "value": "Vienna"},
    {"type": "icontains", "value": "vienna"},
    {"type": "contains-all", "value": ["cat", "mat"]},
    {"type": "contains-any", "value": ["dog", "Jerry"]},
    {"type": "starts-with", "value": "the"},
    {"type": "regex", "value": "^[A-Z]{3,}$"},
    {"type": "is-json"},
    {"type": "is-json", "value": {"type": "object", "required": ["n"]}},
    {"type": "contains-json"},
    {"type": "levenshtein", "value": "the cat sat on the mat", "threshold": 4},
    {"type": "rouge-n", "value": "the cat sat on the mat", "threshold": 0.6},
    {"type": "bleu", "value": "the cat sat on the mat", "threshold": 0.4},
    {"type": "gleu", "value": "the cat sat on the mat", "threshold": 0.5},
    {"type": "word-count", "value": {"min": 3, "max": 8}},
    {"type": "javascript", "value": "output.length > 20"},
    {"type": "is-xml"},
    {"type": "is-xml", "value": "a.b"},
    {"type": "contains-xml"},
    {"type": "contains-xml", "value": {"requiredElements": ["a.b"]}},
    {"type": "is-html"},
    {"type": "contains-html"},
    {"type": "is-sql"},
    {"type": "is-sql", "value": {"databaseType": "MySQL", "allowedTables": ["select::null::users"]}},
    {"type": "contains-sql"},
    {"type": "is-refusal"},
    {"type": "tool-call-f1", "value": ["search"]},
)
"""The assertions that both sides decide without a model; each is asked with its opposite too."""


@dataclass(slots=True)
class Row:
    """What came of one kind of assertion."""

    kind: str
    agree: int = 0
    missing: int = 0
    differ: list[str] = field(default_factory=list)

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        counts = (self.agree + self.missing + len(self.differ), self.agree, len(self.differ), self.missing)
        return (self.kind, *map(str, counts))


def configuration() -> dict[str, Any]:
    """A configuration of an echo: a test for each text and assertion, because one that raises takes its test along."""
    both = [one for case in CASES for one in (case, {**case, "type": f"not-{case['type']}"})]
    tests = [{"vars": {"text": text}, "assert": [one]} for text in _TEXTS for one in both]
    return {"prompts": ["{{text}}"], "providers": ["echo"], "tests": tests}


def record(installed: Path) -> dict[str, Any]:
    """What the promptfoo of a folder says of the configuration: its version, and the verdicts of each text."""
    package = installed / "node_modules" / "promptfoo"
    about = json.loads((package / "package.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "promptfooconfig.json").write_text(json.dumps(configuration()), encoding="utf-8")
        quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": name}
        words = ["node", package / about["bin"]["promptfoo"], "eval", "-c", "promptfooconfig.json", "-o", "out.json"]
        done = subprocess.run(
            [*words, "--no-cache", "--no-table", "--no-progress-bar"],
            cwd=folder, env={**os.environ, **quiet}, timeout=_SECONDS, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 100):  # 100 says that some test did not pass
            raise SystemExit(f"promptfoo ended with {done.returncode}:\n{done.stderr[-2000:]}")
        results = json.loads((folder / "out.json").read_text(encoding="utf-8"))["results"]["results"]
    results.sort(key=lambda one: one["testIdx"])
    graded = [(one.get("gradingResult") or {}).get("componentResults") or [{}] for one in results]
    verdicts = [parts[0].get("pass") for parts in graded]
    return {"promptfoo": about["version"], "verdicts": verdicts}


def compared(told: Mapping[str, Any]) -> list[Row]:
    """Each kind of assertion with how many verdicts agree with those that were recorded."""
    return asyncio.run(_compared(told))


async def _compared(told: Mapping[str, Any]) -> list[Row]:
    version = tuple(map(int, told["promptfoo"].split(".")))
    found, _ = read_config(json.dumps(configuration()), "promptfooconfig.json", TESTS, version)
    dataset, registry = Dataset.model_validate(found.data), load_registry()
    rows = {case["type"]: Row(case["type"]) for case in CASES}
    for item, test, verdict in zip(dataset.items, configuration()["tests"], told["verdicts"], strict=True):
        text, kind = test["vars"]["text"], test["assert"][0]["type"]
        row, (one,) = rows[kind.removeprefix("not-")], resolve_evaluators(dataset, item)
        if verdict is None:  # it raised there
            continue
        evaluator = None if one.evaluator == LEFT_OUT else registry.build(one.evaluator, one.settings)
        if evaluator is None or evaluator.obstacle() is not None:
            row.missing += 1
            continue
        evidence = Evidence(response=text, tool_calls=(), variables=item.variables or {})
        ours = await evaluate(evaluator, evidence)
        if ours.result == ("pass" if verdict else "fail"):
            row.agree += 1
        else:
            row.differ.append(f"{kind} of {text!r}: {verdict} there, {ours.result} here ({ours.reason})")
    return list(rows.values())


def table(told: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The table of the manual."""
    cells = [HEADS, *(row.cells() for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(HEADS))]
    lines = []
    for name, *counts in cells:
        right = [count.rjust(width) for count, width in zip(counts, widths[1:], strict=True)]
        lines.append("    " + "  ".join((name.ljust(widths[0]), *right)))
    about = f"promptfoo {told['promptfoo']}, {len(_TEXTS)} answers of an echo, each assertion and its opposite:"
    why = "".join(f"\n{_WHY[row.kind]}\n" for row in rows if row.differ)
    return about + "\n\n" + "\n".join(lines) + "\n" + why


BEGIN, END = "## The matrix of promptfoo's assertions\n\n", "\n## "


def page_table() -> str:
    """The table as the manual has it."""
    text = PAGE.read_text(encoding="utf-8")
    return text.partition(BEGIN)[2].partition(END)[0]


def is_older(told: Mapping[str, Any]) -> bool:
    """Whether it is of an older promptfoo than what is recorded: npm takes the newest that this Node can run."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    one, other = (tuple(map(int, each["promptfoo"].split("."))) for each in (told, recorded))
    return one < other


def _write(told: Mapping[str, Any]) -> None:
    RECORDED.write_text(json.dumps(told, separators=(",", ":")) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + table(told, compared(told)) + (END + after if after else ""), encoding="utf-8")


def _node(folder: Path) -> bool:
    """Check promptfoo; whether it could be installed."""
    if shutil.which("npm") is None:
        print("promptfoo: skipped, npm is missing")
        return True
    folder.mkdir(parents=True, exist_ok=True)
    packages = ["promptfoo", "node-sql-parser"]
    words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", folder, *packages]
    if not (folder / "node_modules" / "promptfoo").exists():
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode:
            print(f"promptfoo: skipped, npm could not install it: {done.stderr.strip()[-300:]}")
            return True
    told = record(folder)
    rows = compared(told)
    if is_older(told):
        print("promptfoo: a newer version is recorded, which is kept: this Node runs only an older one")
    else:
        _write(told)
    print(table(told, rows))
    for row in rows:
        for line in row.differ:
            print(f"  differs: {line}")
    return True


def _python(folder: Path, packages: str, tests: str, variable: str) -> bool:
    """Install packages into a Python of its own, which tests then take; whether nothing differs."""
    python, package = folder / "bin" / "python", packages.split()[0]
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=_SECONDS)
        install = [python, "-m", "pip", "install", "-q", *packages.split()]
        done = subprocess.run(install, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode:
            shutil.rmtree(folder)
            print(f"{package}: skipped, pip could not install it: {done.stderr.strip()[-300:]}")
            return True
    environment = {**os.environ, variable: str(python)}
    words = [sys.executable, "-m", "pytest", "-q", tests]
    done = subprocess.run(words, cwd=TESTS.parent, env=environment, timeout=_SECONDS, check=False)
    print(f"{package}: {'equal' if done.returncode == 0 else f'differs, status {done.returncode}'}")
    return done.returncode == 0


_PYTHON = {
    "inspect-ai": ("tests/reports/test_inspect_log.py", "INSPECT_PYTHON"),
    "deepeval": ("tests/runs/test_expected_scores.py", "DEEPEVAL_PYTHON"),
    "evals": ("tests/imports/test_to_the_letter.py", "EVALS_PYTHON"),
    # Later releases of textstat count syllables otherwise, and this one imports pkg_resources.
    "arthur-bench textstat==0.7.3 setuptools<81": ("tests/imports/recordings/test_bench_runs.py", "ARTHUR_PYTHON"),
}
"""The packages for Python, each with the tests that run it and the variable that names its Python to them."""


def main() -> None:
    """Check every package, or those whose names contain a word; status 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--into", type=Path, default=TESTS.parent / ".venv-originals", metavar="FOLDER")
    options = parser.parse_args()
    fine = _node(options.into / "node") if options.only in "promptfoo" else True
    for packages, (tests, variable) in _PYTHON.items():
        if options.only in (package := packages.split()[0]):
            fine = _python(options.into / package, packages, tests, variable) and fine
    raise SystemExit(not fine)


if __name__ == "__main__":
    main()
