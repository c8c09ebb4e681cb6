"""PythonUnitTests: code in the answer, run together with a test of it. Off until the user allows it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from tui_evals.evaluators import sandbox
from tui_evals.project_files import RefusedFile, read_text

from .base import Evaluator, Evidence, Misconfigured, Options, Score, error_score, verdict_score

ALLOW_CODE_VARIABLE = "TUI_EVALS_ALLOW_CODE"
MAX_TEST_BYTES = 1_000_000
MAX_MEMORY = 512_000_000


class PythonUnitTestsOptions(Options):
    """Options of PythonUnitTests."""

    test: str | None = Field(None, description="The test of this item: Python that raises when the answer is wrong.")
    unit_tests: str | list[str] | None = Field(
        None, description="One test, or several of which the item's variable `unit_test` picks one."
    )
    unit_test_dir: str | None = Field(
        None, description="A folder of tests inside the project, sorted by file name, picked from in the same way."
    )
    timeout: float = Field(3.0, gt=0, le=600, description="Seconds the answer and its test may take together.")


class PythonUnitTests(Evaluator):
    """Passes when the test of the item runs without an exception after the code of the answer.

    The answer runs first, then the test among its names, in a process that the answer cannot reach; exceptions, exits,
    crashes, too much memory or time are fails, and code that starts other processes fails too. What is compared with
    the test's own data has to be plain data: an object of the answer's classes equals only others of them. A Markdown
    fence around the whole answer is taken off. The
    test is the option `test`, else the one of `unit_tests` or `unit_test_dir` that the item's variable `unit_test`
    names by number (from 1) or by file name, else the text of that variable.

    This runs code a model wrote, so nothing runs until TUI_EVALS_ALLOW_CODE=1 is set. Bubblewrap or Landlock keep it
    from your files, keys, processes and the network; where a machine has neither, the run says "not isolated" before it
    starts, and so does `tui-evals doctor`.
    """

    name = "PythonUnitTests"
    aliases = ("python_unit_testing",)
    family = "Arthur Bench"
    Options = PythonUnitTestsOptions
    example: ClassVar = {
        "options": {"test": "assert double(4) == 8"},
        "response": "def double(number):\n    return 2 * number\n",
    }
    allowed: ClassVar[bool] = False
    root: ClassVar[Path | None] = None

    @classmethod
    def is_allowed(cls) -> bool:
        """Whether the user lets code of models run."""
        return cls.allowed or os.environ.get(ALLOW_CODE_VARIABLE) == "1"

    @classmethod
    def caution(cls) -> str | None:
        """A warning if the code will run without isolation."""
        return sandbox.NOT_ISOLATED if cls.is_allowed() and sandbox.isolation_kind() is None else None

    def obstacle(self) -> str | None:
        """Why it cannot judge: running code is not allowed."""
        if self.is_allowed():
            return None
        return (
            f"{self.name} would run code that a model wrote, on this machine and with your rights; "
            f"set {ALLOW_CODE_VARIABLE}=1 to allow it"
        )

    async def score(self, evidence: Evidence) -> Score:
        """Run the answer and its test, once."""
        if obstacle := self.obstacle():
            return error_score("evaluatorConfigurationError", obstacle)
        test = self._test(evidence)
        files = {"answer.py": strip_code_fence(evidence.response or "").encode("utf-8", "surrogatepass")}
        limits = sandbox.Limits(seconds=self.options.timeout, memory=MAX_MEMORY, processes=0)
        details: dict[str, Any] = {"isolation": "none"} if self.caution() else {}
        try:
            outcome, printed = await sandbox.run_job({"kind": "unit_test", "test": test}, files, limits)
        except sandbox.CodeStopped as stopped:
            details["printed"] = stopped.printed
            return verdict_score(False, f"the code did not finish: {stopped}", **details)
        details["printed"] = printed
        if outcome.get("failed") == "unusable":
            raise Misconfigured(f"the test is not Python: {outcome.get('why')}")
        if outcome.get("passed") is True:
            return verdict_score(True, "the test ran without an exception", **details)
        failure = "the test failed" if outcome.get("failed") == "test" else "the code of the answer does not run"
        return verdict_score(False, f"{failure}: {str(outcome.get('why') or outcome.get('raised'))[:200]}", **details)

    def _test(self, evidence: Evidence) -> str:
        """The test of this item, wherever it is written."""
        options, selector = self.options, evidence.variables.get("unit_test")
        if options.test is not None:
            return str(options.test)
        if options.unit_test_dir is not None:
            tests = self._folder(options.unit_test_dir)
        else:
            listed = options.unit_tests or ()
            tests = {
                str(number): text for number, text in enumerate((listed,) if isinstance(listed, str) else listed, 1)
            }
        if not tests and isinstance(selector, str):
            return selector
        if not tests:
            raise Misconfigured(
                f"{self.name} has no test; give `test`, `unit_tests`, `unit_test_dir` or the variable `unit_test`",
            )
        return _pick_test(tests, selector)

    def _folder(self, path: str) -> dict[str, str]:
        """The tests of a folder by file name; nothing outside the project is read."""
        root = (self.root or Path.cwd()).resolve()
        try:
            folder = (root / path).resolve()
            files = [file for file in sorted(folder.iterdir()) if file.is_file()]
            if not folder.is_relative_to(root):
                raise ValueError(f"{folder} is outside the project {root}")
            return {file.name: read_text(file, root=root, most=MAX_TEST_BYTES) for file in files}
        except RefusedFile as problem:
            raise Misconfigured(f"the tests in unit_test_dir cannot be read: {problem.filename}: {problem}") from None
        except (OSError, ValueError) as problem:
            raise Misconfigured(f"the tests in unit_test_dir cannot be read: {problem}") from None


def _pick_test(tests: dict[str, str], selector: object) -> str:
    """The test an item names by file name or number; the only one needs no name."""
    name = str(selector)
    if selector is None and len(tests) == 1:
        name = next(iter(tests))
    elif name not in tests and name.isdecimal() and 1 <= int(name[:9]) <= len(tests):
        name = list(tests)[int(name[:9]) - 1]
    if name in tests:
        return tests[name]
    problem = "nothing says which is this item's" if selector is None else f"the variable unit_test is {name[:60]!r}"
    raise Misconfigured(
        f"there are {len(tests)} tests and {problem}; set it to a number from 1 to {len(tests)} or a file name",
    )


def strip_code_fence(text: str) -> str:
    """A text without the Markdown code fence around the whole of it, if there is one."""
    lines = text.strip().split("\n")
    fenced = len(lines) > 1 and lines[0].startswith("```") and lines[-1].strip() == "```"
    return "\n".join(lines[1:-1]) if fenced else text
