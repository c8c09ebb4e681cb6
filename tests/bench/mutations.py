"""Random faults in the core, and which the tests notice: `python -m tests.bench.mutations [--rounds 60] [--seed 1]`.

Each round changes one expression of a core module in a copy of the checkout: a comparison, a condition, a number, `and`
and `or`, a returned value, a default, `+` and `-`. The test files that import the module run then, and all others of
its room: the fast ones first, then the stories. A mutant is noticed when a test fails, survives when all pass, and is
unfinished when the time ends before. The exit code is 1 when fewer than --least of all mutants are noticed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import difflib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("store", "runs", "compare", "evaluators", "present", "datasets", "text", "targets", "generate")
_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip


_FAST = "(first or not story) and not nightly"
_STORIES = "story and not first and not nightly"


@dataclass(frozen=True)
class Mutant:
    """A module with one expression replaced."""

    path: Path
    line: int
    kind: str
    before: str
    source: str

    def diff(self) -> str:
        lines = difflib.unified_diff(self.before.splitlines(), self.source.splitlines(), lineterm="", n=2)
        return "\n".join(list(lines)[2:])


def _replaced(source: str, node: ast.expr, text: str) -> str:
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or node.lineno) - 1])) + (node.end_col_offset or 0)
    whole = source.encode()
    return (whole[:start] + text.encode() + whole[end:]).decode()


def _swapped(node: ast.expr, field: str) -> str | None:
    changed = copy.deepcopy(node)
    value = getattr(changed, field)
    operator = value[0] if isinstance(value, list) else value
    if (other := _SWAPPED.get(type(operator))) is None:
        return None
    setattr(changed, field, [other(), *value[1:]] if isinstance(value, list) else other())
    return f"({ast.unparse(changed)})"


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
    """Yield kind, expression and new text for each change that `node` itself allows."""
    match node:
        case ast.Compare():
            if text := _swapped(node, "ops"):
                yield "comparison", node, text
        case ast.BoolOp():
            yield "and/or", node, _swapped(node, "op") or ""
        case ast.BinOp(left=left, right=right) if not any(
            isinstance(part, ast.JoinedStr | ast.List | ast.Tuple)
            or (isinstance(part, ast.Constant) and isinstance(part.value, str | bytes))
            for part in (left, right)
        ):
            if text := _swapped(node, "op"):
                yield "plus/minus", node, text
        case ast.Constant(value=value) if isinstance(value, int | float) and not isinstance(value, bool):
            yield "number", node, repr(value + random.choice((1, -1)))
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return", value, "None"
        case ast.arguments():
            for default in (*node.defaults, *node.kw_defaults):
                if isinstance(default, ast.Constant) and isinstance(default.value, bool):
                    yield "default", default, repr(not default.value)
    tests = node.ifs if isinstance(node, ast.comprehension) else [node.test] if hasattr(node, "test") else []
    for test in tests:
        if not isinstance(node, ast.Assert) and "TYPE_CHECKING" not in ast.unparse(test):
            yield "condition", test, f"(not ({ast.unparse(test)}))"


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those inside f-strings, whose places Python 3.11 does not know."""
    yield node
    if not isinstance(node, ast.JoinedStr):
        for child in ast.iter_child_nodes(node):
            yield from _walk(child)


def mutants(rounds: int, rooms: list[str]) -> list[Mutant]:
    """Draw mutants, each place of the rooms with the same chance."""
    files = sorted(path for room in rooms for path in (ROOT / "tui_evals" / room).rglob("*.py"))
    places = [
        (path, change) for path in files for node in _walk(ast.parse(path.read_text())) for change in _changes(node)
    ]
    drawn = random.sample(places, min(rounds, len(places)))
    return [
        Mutant(path.relative_to(ROOT), node.lineno, kind, source, _replaced(source, node, text))
        for path, (kind, node, text) in drawn
        for source in [path.read_text()]
    ]


def test_files(module: Path, checkout: Path) -> list[str]:
    """Return the test files that import `module` and all others of its room, those first that find most."""
    room, name = module.parts[1], module.stem
    package = re.escape(".".join(module.with_suffix("").parts[:-1]))
    imported = rf"from {package} import (?:[^\n(]*|\([^)]*)\b{name}\b"
    imports = re.compile(rf"{package}\.{name}\b|{imported}")
    ranked = []
    for path in (checkout / "tests").rglob("test_*.py"):
        text, place = path.read_text(), path.relative_to(checkout)
        found, own, named = len(imports.findall(text)), place.parts[1] == room, name in path.stem
        if found or own:
            slow = place.parts[1] == "tui"
            ranked.append((not (found or named), not named, not own, slow, -found, str(place)))
    return [path for *_, path in sorted(ranked)]


def outcome(mutant: Mutant, checkout: Path, seconds: float) -> tuple[str, str]:
    """Run the tests of a mutant in `checkout`; return noticed, survived or unfinished, and what says so."""
    files = test_files(mutant.path, checkout)
    target = checkout / mutant.path
    target.write_text(mutant.source)
    until = time.monotonic() + seconds
    try:
        for marks in (_FAST, _STORIES):
            code, said = _tested(files, marks, checkout, until - time.monotonic())
            if code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
                failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR", "E   "))]
                return "noticed", (failed or said.strip().splitlines() or ["no output"])[-1][:160]
        return "survived", f"{len(files)} test files pass"
    except subprocess.TimeoutExpired:
        return "unfinished", f"{seconds:g} s are not enough for {len(files)} test files"
    finally:
        target.write_text(mutant.before)


def _tested(files: list[str], marks: str, checkout: Path, seconds: float) -> tuple[int, str]:
    """The exit code of pytest, and what it says, for the tests of files that have these marks."""
    python = ROOT / ".venv" / "bin" / "python"
    command = [str(python), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", "-m", marks, *files]
    environment = os.environ | {
        "PYTHONPATH": str(checkout),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(checkout / "hypothesis"),
    }
    tests = subprocess.Popen(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        said = tests.communicate(timeout=max(seconds, 0.0))[0]
        return tests.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(tests.pid, signal.SIGKILL)
        tests.communicate()
        raise


def main() -> int:
    """Run a round and print each mutant that no test noticed, and the sums."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--least", type=float, default=0.0, help="share of all mutants that have to be noticed")
    parser.add_argument("--room", choices=ROOMS, action="append")
    given = parser.parse_args()
    random.seed(given.seed)
    drawn = mutants(given.rounds, given.room or list(ROOMS))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(given.jobs) as pool:
        checkouts: SimpleQueue[Path] = SimpleQueue()
        for job in range(given.jobs):
            checkout = Path(directory) / str(job)
            ignored = shutil.ignore_patterns(".git", ".venv*", "*_cache", "__pycache__", ".hypothesis")
            shutil.copytree(ROOT, checkout, ignore=ignored)
            checkouts.put(checkout)

        def run(mutant: Mutant) -> tuple[Mutant, str, str]:
            checkout = checkouts.get()
            try:
                return mutant, *outcome(mutant, checkout, given.seconds)
            finally:
                checkouts.put(checkout)

        for mutant, result, why in pool.map(run, drawn):
            counts[result] += 1
            print(f"{result}: {mutant.path}:{mutant.line} ({mutant.kind}): {why}", flush=True)
            if result != "noticed":
                print(mutant.diff(), flush=True)
    print(
        f"{counts['noticed']} of {len(drawn)} mutants noticed, {counts['survived']} survived, "
        f"{counts['unfinished']} unfinished, which counts as not noticed (seed {given.seed})"
    )
    return int(counts["noticed"] < given.least * len(drawn))


if __name__ == "__main__":
    sys.exit(main())
