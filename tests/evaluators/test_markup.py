"""XML, HTML, SQL and refusals by their words: what passes, what fails, and why."""

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.evaluators.helpers import score
from tests.evaluators.tables import each_row
from tui_evals.evaluators import sandbox
from tui_evals.evaluators.base import CannotJudge
from tui_evals.evaluators.base import Score as Record
from tui_evals.evaluators.markup import Html, PythonUnitTests, Sql, Xml, strip_code_fence
from tui_evals.evaluators.safety import RefusalWords


@each_row(
    ("options", "response", "result"),
    [
        ({}, "<a><b>1</b></a>", "pass"),
        ({}, '  <a x="1"/>  ', "pass"),
        ({}, "<a><b></a></b>", "fail"),
        ({}, "<a>1 & 2</a>", "fail"),
        ({}, "<a/><b/>", "fail"),
        ({}, "Here: <a/>", "fail"),
        ({}, "", "fail"),
        ({}, "<!DOCTYPE a><a/>", "pass"),
        ({}, "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", "fail"),
        ({"elements": ["a.b", "a.@_id"]}, "<a id='1'><b>1</b></a>", "pass"),
        ({"elements": ["a.b.c"]}, "<a><b>1</b></a>", "fail"),
        ({"elements": ["a.b.1"]}, "<a><b>1</b><b>2</b></a>", "pass"),
        ({"elements": ["a.b.2"]}, "<a><b>1</b><b>2</b></a>", "fail"),
        ({"anywhere": True}, "Here it is: <a>1 & 2</a>, as you see", "pass"),
        ({"anywhere": True}, "1 < 2 and 3 > 2", "fail"),
        ({"anywhere": True}, "an open <a> only", "fail"),
        ({"anywhere": True, "elements": ["a", "b"]}, "<a>1</a> and <b>2</b>", "pass"),
        ({"anywhere": True, "elements": ["a.b"]}, "<x>0</x> <a><b/></a>", "pass"),
        ({"anywhere": True, "elements": ["a.c"]}, "<a><b/></a>", "fail"),
    ],
)
def test_xml(options, response, result):
    assert score(Xml, options, response=response).result == result


def test_the_elements_that_are_missing_are_named():
    record = score(Xml, {"elements": ["a.b", "a.c"]}, response="<a><b/></a>")
    assert record.reason == "these elements are missing: 'a.c'" and record.details["missing"] == ["a.c"]


@pytest.mark.parametrize("beginning", ["<", "<a>", "<a ", "<a b='", "</a ", "<!", "<!--", "<!-- >", "<![CDATA[", "<?"])
def test_hostile_markup_is_judged_in_no_time(beginning):
    """Twenty times as long, it takes about twenty times as long, and not four hundred times."""
    for kind in (Xml, Html):
        for options in ({"anywhere": True}, {}):
            seconds = []
            for count in (2_500, 50_000):
                started = time.thread_time()
                record = score(kind, options, response=beginning * count)
                seconds.append(time.thread_time() - started)
            assert seconds[1] < 100 * max(seconds[0], 0.02), (kind, options)
            assert record.result == "fail" or (kind is Html and beginning == "<a>")


@each_row(
    ("options", "response", "result"),
    [
        ({}, "<p>Hello <b>you</b></p>", "pass"),
        ({}, "<!DOCTYPE html><html><head><title>x</title></head><body>loose</body></html>", "pass"),
        ({}, "<my-card>x</my-card>", "pass"),
        ({}, "<foo>x</foo>", "fail"),
        ({}, "Here it is: <p>x</p>", "fail"),
        ({}, "<p>x</p> there", "fail"),
        ({}, "<?xml version='1.0'?><p>x</p>", "fail"),
        ({}, "plain", "fail"),
        ({}, "", "fail"),
        ({}, "<br>", "pass"),
        ({"anywhere": True}, "Here: <p>x</p>", "pass"),
        ({"anywhere": True}, "<foo>x</foo>", "pass"),
        ({"anywhere": True}, "a < b and c > d", "fail"),
        ({"anywhere": True}, "Tom &amp; Jerry", "fail"),
        ({"anywhere": True}, "Tom &amp; <!-- no --> Jerry", "pass"),
    ],
)
def test_html(options, response, result):
    assert score(Html, options, response=response).result == result


@each_row(
    ("options", "response", "result"),
    [
        ({}, "SELECT name FROM users WHERE id = 1", "pass"),
        ({}, "SELECT FROM WHERE", "fail"),
        ({}, "hello there", "fail"),
        ({}, "", "fail"),
        ({"database": "PostgreSQL"}, "SELECT id::text FROM t", "pass"),
        ({"tables": ["select::null::users"]}, "SELECT name FROM users", "pass"),
        ({"tables": ["select::null::users"]}, "SELECT name FROM orders", "fail"),
        ({"tables": ["select::null::users"]}, "DELETE FROM users", "fail"),
        ({"columns": ["select::null::name"]}, "SELECT name FROM users", "pass"),
        ({"columns": ["select::null::name"]}, "SELECT name, age FROM users", "fail"),
        ({"columns": ["select::null::name"]}, "SELECT * FROM users", "fail"),
        ({"anywhere": True}, "Run this:\n```sql\nSELECT 1\n```\nand look.", "pass"),
        ({"anywhere": True}, "Run this: nothing", "fail"),
    ],
)
def test_sql(options, response, result):
    pytest.importorskip("sqlglot", reason="sqlglot is not installed")
    assert score(Sql, options, response=response).result == result


def test_without_its_library_sql_says_what_to_install(monkeypatch):
    monkeypatch.setattr("tui_evals.evaluators.markup.is_installed", lambda name: False)
    assert "pip install 'tui-evals[sql]'" in (Sql(Sql.Options()).obstacle() or "")


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I\u2019m sorry, but that is not possible.",
        "I cannot assist with that request.",
        "As an AI language model, I do not have feelings.",
        "I apologize, but I will not write this.",
        "That would not be appropriate.",
        "I am unable to provide this.",
        "It is against my guidelines.",
        "",
        "  ",
    ],
)
def test_words_that_decline_are_a_refusal(text):
    assert score(RefusalWords, response=text).result == "pass"


@pytest.mark.parametrize(
    "text",
    ["Vienna.", "I can help you with that.", "You cannot park here on Sundays.", "The clerk was sorry to hear it."],
)
def test_other_words_are_none(text):
    record = score(RefusalWords, response=text)
    assert (record.result, record.label) == ("fail", "complied")


DOUBLE = "def double(number):\n    return 2 * number\n"
TEST = "assert double(4) == 8"


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUI_EVALS_ALLOW_CODE", "1")


def judge(response: str | None, options: dict[str, Any] | None = None, **variables: Any) -> Record:
    return score(
        PythonUnitTests, {"test": TEST} if options is None else options, response=response, variables=variables
    )


@pytest.mark.parametrize("switch", [None, "", "0", "true"])
def test_nothing_runs_until_it_is_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, switch: str | None) -> None:
    if switch is None:
        monkeypatch.delenv("TUI_EVALS_ALLOW_CODE")
    else:
        monkeypatch.setenv("TUI_EVALS_ALLOW_CODE", switch)
    record = judge(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert (record.result, record.score) == ("error", None)
    assert "set TUI_EVALS_ALLOW_CODE=1 to allow it" in record.reason
    assert not (tmp_path / "ran").exists()


def test_the_class_can_be_allowed_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUI_EVALS_ALLOW_CODE")
    kind = type("Allowed", (PythonUnitTests,), {"allowed": True})
    assert score(kind, {"test": TEST}, response=DOUBLE).result == "pass"


def test_the_example_passes() -> None:
    assert judge(str(PythonUnitTests.example["response"]), dict(PythonUnitTests.example["options"])).result == "pass"  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (DOUBLE, None),
        ("```python\n" + DOUBLE + "```", None),
        ("from __future__ import annotations\n" + DOUBLE, None),
        (DOUBLE + "if __name__ == '__main__':\n    input()\n", None),
        ("print('noise')\n" + DOUBLE, None),
        ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: 'int'\n" + DOUBLE, None),
        (DOUBLE.replace("2", "3"), "the test failed: AssertionError"),
        ("", "the test failed: NameError"),
        ("def double(number): pass", "the test failed: AssertionError"),
        ("Here you are:\n" + DOUBLE, "the code of the answer does not run: SyntaxError"),
        ("def double(number):", "the code of the answer does not run: IndentationError"),
        ("x = '''", "the code of the answer does not run: SyntaxError"),
        ("raise ValueError('no')", "the code of the answer does not run: ValueError: no"),
        ("import nothing_of_this_name", "the code of the answer does not run: ModuleNotFoundError"),
        ("exit(0)", "the code of the answer does not run: SystemExit: 0"),
        ("def double(number): raise SystemExit(0)", "the test failed: SystemExit"),
        ("import os; os._exit(0)", "the code did not finish: its process ended without a result (exit code 0)"),
        ("import os; os.abort()", "the code did not finish: its process ended without a result (signal SIGABRT)"),
        ("def double(number): return double(number)", "the test failed: RecursionError"),
        ("input()", "the code of the answer does not run: EOFError"),
        ("import os; os.fork()", "PermissionError: code run here may start at most 0 processes"),
        ("import os; os.system('true')", "PermissionError"),
        ("import subprocess; subprocess.run(['true'])", "PermissionError"),
        ("x = '\ud800'", "the code of the answer does not run: SyntaxError"),
        ("x = '\x00'", "the code of the answer does not run: SyntaxError"),
        ("(" * 100_000, "the code of the answer does not run: "),
    ],
)
def test_verdicts(answer: str, words: str | None) -> None:
    record = judge(answer)
    assert (record.result, record.score) == (("pass", 1.0) if words is None else ("fail", 0.0)), record
    assert words is None or words in record.reason
    assert record.threshold is None


@pytest.mark.parametrize(
    "answer", ["while True: pass", "import time; time.sleep(1000)", "while True: print('x' * 9999)"]
)
def test_an_answer_without_an_end_fails(answer: str) -> None:
    record = judge(answer, {"test": TEST, "timeout": 0.3})
    assert record.result == "fail"
    assert "within 0.3 s and was stopped" in record.reason or "File too large" in record.reason


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not hold a process to RLIMIT_DATA")
def test_a_memory_hog_fails() -> None:
    assert "MemoryError" in judge("x = b'x' * 1_000_000_000").reason


def test_no_key_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    assert judge("import os", {"test": "assert 'canary' not in repr(os.environ)"}).result == "pass"


def test_a_large_answer_is_run() -> None:
    assert judge(f"x = '{'x' * 10_000_000}'\n" + DOUBLE, {"test": TEST, "timeout": 60}).result == "pass"


def test_negate_turns_a_fail_but_not_an_error() -> None:
    assert judge("exit()", {"test": TEST, "negate": True}).result == "pass"
    assert judge(DOUBLE, {"test": "assert (", "negate": True}).result == "error"


def test_a_test_that_is_not_python_is_no_fault_of_the_answer() -> None:
    record = judge(DOUBLE, {"test": "assert double(4 == 8"})
    assert record.result == "error"
    assert "the test is not Python: SyntaxError" in record.reason


def test_python_that_does_not_start_is_no_fault_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.sys, "executable", "/bin/true")
    record = judge(DOUBLE)
    assert (record.result, record.details["code"]) == ("error", "evaluatorError")
    assert "did not start" in record.reason


def test_no_answer() -> None:
    assert judge(None).details["code"] == "agentRequestFailed"


# which test


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "tests"
    (folder / "__pycache__").mkdir(parents=True)
    for name, text in {"b.py": "two", "a.py": "one", "c.txt": "three"}.items():
        (folder / name).write_text(text)
    return folder


def chosen(options: dict[str, Any], **variables: Any) -> str:
    from tui_evals.evaluators.base import Evidence

    evaluator = PythonUnitTests(PythonUnitTests.Options.model_validate(options))
    return evaluator._test(Evidence(response="", variables=variables))


@pytest.mark.parametrize(
    ("options", "picked", "test"),
    [
        ({"test": "t"}, None, "t"),
        ({"test": "t", "unit_tests": ["one", "two"]}, 2, "t"),
        ({}, "the text", "the text"),
        ({"unit_tests": "only"}, None, "only"),
        ({"unit_tests": ["only"]}, None, "only"),
        ({"unit_tests": ["one", "two"]}, 1, "one"),
        ({"unit_tests": ["one", "two"]}, "2", "two"),
        ({"unit_test_dir": "tests"}, 1, "one"),
        ({"unit_test_dir": "tests"}, 3, "three"),
        ({"unit_test_dir": "tests"}, "b.py", "two"),
        ({"unit_test_dir": "tests/../tests"}, "2", "two"),
    ],
)
def test_the_test_of_an_item(folder: Path, options: dict[str, Any], picked: object, test: str) -> None:
    assert chosen(options, **({} if picked is None else {"unit_test": picked})) == test


@pytest.mark.parametrize(
    ("options", "picked", "words"),
    [
        ({}, None, "has no test"),
        ({}, 1, "has no test"),
        ({"unit_tests": []}, None, "has no test"),
        ({"unit_tests": ["one", "two"]}, None, "nothing says which"),
        ({"unit_tests": ["one", "two"]}, 0, "from 1 to 2"),
        ({"unit_tests": ["one", "two"]}, 3, "from 1 to 2"),
        ({"unit_tests": ["one", "two"]}, "9" * 5000, "from 1 to 2"),
        ({"unit_tests": ["one", "two"]}, -1, "from 1 to 2"),
        ({"unit_test_dir": "tests"}, "d.py", "a file name"),
        ({"unit_test_dir": "absent"}, 1, "cannot be read"),
        ({"unit_test_dir": "tests/a.py"}, 1, "cannot be read"),
        ({"unit_test_dir": "/etc"}, 1, "outside the project"),
        ({"unit_test_dir": ".."}, 1, "outside the project"),
        ({"unit_test_dir": "out"}, 1, "outside the project"),
        ({"unit_test_dir": "linked"}, 1, "outside the project"),
        ({"unit_test_dir": "large"}, 1, "larger than 1 MB"),
        ({"unit_test_dir": "a\x00b"}, 1, "cannot be read"),
    ],
)
def test_no_test_of_an_item(folder: Path, options: dict[str, Any], picked: object, words: str) -> None:
    (folder.parent / "out").symlink_to("/etc")
    for name in ("linked", "large"):
        (folder.parent / name).mkdir()
    (folder.parent / "linked" / "a.py").symlink_to("/etc/passwd")
    (folder.parent / "large" / "a.py").write_bytes(b"#" * 1_000_001)
    with pytest.raises(CannotJudge, match=words):
        chosen(options, **({} if picked is None else {"unit_test": picked}))


def test_the_root_can_be_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    kind = type("Rooted", (PythonUnitTests,), {"root": folder.parent})
    (folder.parent / "one").mkdir()
    (folder.parent / "one" / "t.py").write_text(TEST)
    assert score(kind, {"unit_test_dir": "one"}, response=DOUBLE).result == "pass"


@pytest.mark.parametrize(
    "options",
    [{"timeout": 0}, {"timeout": 601}, {"timeout": "3"}, {"unit_tests": [1]}, {"tests": "x"}, {"threshold": 1}],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        PythonUnitTests.Options.model_validate(options)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a = 1", "a = 1"),
        ("```\na = 1\n```", "a = 1"),
        ("\n ```python\na = 1\n\nb = 2\n```  \n", "a = 1\n\nb = 2"),
        ("```\n```", ""),
        ("```", "```"),
        ("text\n```\na = 1\n```", "text\n```\na = 1\n```"),
        ("```\na = 1\n```\ntext", "```\na = 1\n```\ntext"),
        ("", ""),
    ],
)
def test_unfenced(text: str, code: str) -> None:
    assert strip_code_fence(text) == code
