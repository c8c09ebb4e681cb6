"""Code of models read the parent's keys from /proc, used the network, killed the run, forked
through ctypes and forged a pass by walking frames. Each is refused under bubblewrap and under Landlock."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.cli.helpers import Shell
from tests.evaluators.helpers import score
from tui_evals import evaluate
from tui_evals.evaluators import sandbox
from tui_evals.evaluators.base import Score
from tui_evals.evaluators.markup import PythonUnitTests
from tui_evals.runs.project import load_project
from tui_evals.runs.start import prepare
from tui_evals.tui.runs.starting import RunOrder, price_words

AVAILABLE = {
    "bubblewrap": sandbox.isolation_kind() == "bubblewrap",
    "Landlock": sandbox.landlock_works(),
}
READABLE = sandbox.readable_paths()
CANARY = "sk-canary-0123456789"


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUI_EVALS_ALLOW_CODE", "1")
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)


@pytest.fixture(params=["bubblewrap", pytest.param("Landlock", marks=pytest.mark.nightly)])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if not AVAILABLE[request.param]:
        pytest.skip(f"this machine has no {request.param} that works here")
    monkeypatch.setattr(sandbox, "isolation_kind", lambda: request.param)
    return str(request.param)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of the same user, with a key in its environment."""
    with subprocess.Popen(["sleep", "1000"], env={"OPENAI_API_KEY": CANARY, "PATH": os.environ["PATH"]}) as process:
        try:
            yield process
        finally:
            process.kill()


def judge(answer: str, test: str = "assert double(4) == 8", **options: Any) -> Score:
    return score(PythonUnitTests, {"test": test, "timeout": 10, **options}, response=dedent(answer))


def outcome(code: str) -> str:
    """What `attack` of this code says in the sandbox; a refusal is an exception's name."""
    body = (
        dedent(code)
        + "\ndef tried():\n    try: return repr(attack())\n    except Exception as e: return type(e).__name__\n"
    )
    record = judge(body, "raise ValueError(tried())")
    assert record.reason.startswith("the test failed: ValueError: "), record
    return record.reason.removeprefix("the test failed: ValueError: ")


def outside(code: str) -> str:
    """What `attack` says without any sandbox, so that it is known to be one."""
    command = [sys.executable, "-c", dedent(code) + "\nprint(repr(attack()))"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


READ_ENVIRONMENTS = """
    import glob
    def attack():
        texts = ""
        for file in glob.glob("/proc/[0-9]*/environ") or [f"/proc/{n}/environ" for n in range(1, 100_000)]:
            try: texts += open(file).read()
            except OSError: pass
        return "sk-" + "canary" in texts
"""


def test_keys_in_proc(kind: str, bystander: subprocess.Popen[bytes]) -> None:
    assert outside(READ_ENVIRONMENTS) == "True\n"
    assert outcome(READ_ENVIRONMENTS) == "False"


def test_keys_of_the_process_that_asks(kind: str) -> None:
    """Its own environment, its parents' memory, and whatever descriptor was left open."""
    code = f"""
        import os
        def attack():
            texts = [repr(os.environ)]
            for pid in range(1, 100):
                for name in ("environ", "mem", "maps", "cwd", "root", "fd/3"):
                    try: texts.append(open(f"/proc/{{pid}}/{{name}}").read(100))
                    except OSError: pass
            for number in range(3, 100):
                try: texts.append(repr((number, os.pread(number, 1000, 0))))
                except OSError: pass
            return [text for text in texts if {CANARY[:9]!r} in text or "environ" not in text]
    """
    assert outcome(code) == "[]"


def test_files_of_the_user(kind: str, tmp_path: Path) -> None:
    secret = tmp_path / ".env.local"
    secret.write_text(CANARY)
    names = [str(secret), "/etc/passwd", str(Path.home() / ".bashrc"), __file__]
    code = f"""
        import os
        def attack():
            read = []
            for name in {names!r}:
                try: read.append((name, open(name).read(9)))
                except OSError: pass
                for way in ("a", "w"):
                    try: open(name + ".new", way).close(); read.append((name, way))
                    except OSError: pass
            return read
    """
    assert outcome(code) == "[]"
    assert secret.read_text() == CANARY and not Path(f"{secret}.new").exists()


def test_the_test_of_the_item_is_not_there_to_be_read(kind: str) -> None:
    code = """
        import glob, gc, os, sys
        def attack():
            found = [name for name in glob.glob("**", recursive=True) if name != "answer.py"]
            found += [o for o in gc.get_objects() if isinstance(o, dict) and "marked_" + "in_the_test" in o]
            frame = sys._getframe()
            while frame:
                found += [name for name in (*frame.f_locals, *frame.f_globals) if name == "marked_" + "in_the_test"]
                frame = frame.f_back
            return found
        def tried(): return repr(attack())
    """
    record = judge(code, "marked_in_the_test = 3\nraise ValueError(tried())")
    assert record.reason == "the test failed: ValueError: []"


@pytest.fixture
def listener() -> Iterator[tuple[int, list[object]]]:
    """A port of this machine, and who connected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        connected: list[object] = []
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                try:
                    connected.append(server.accept()[1])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server.getsockname()[1], connected
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize(
    "attempt",
    [
        "socket.create_connection(('127.0.0.1', {port}), 2)",
        "__import__('urllib.request').request.urlopen('http://127.0.0.1:{port}/', timeout=2)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))",
        "socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')",
        "(n := ctypes.CDLL(None).socket(2, 1, 0)) < 0 and 1 / 0",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', '/dev/log')",
        "__import__('fcntl').fcntl(0, __import__('fcntl').F_SETOWN, 1)",
        "(n := ctypes.CDLL(None).syscall(425, 8, bytes(200))) < 0 and 1 / 0",
    ],
)
def test_the_network(kind: str, attempt: str, listener: tuple[int, list[object]]) -> None:
    port, connected = listener
    code = f"import socket, ctypes\ndef attack(): return {attempt.format(port=port)}"
    assert outcome(code) in ("PermissionError", "URLError", "ZeroDivisionError")
    assert not connected


def test_no_signal_is_sent_through_a_file_and_no_key_is_typed_into_a_terminal(kind: str) -> None:
    code = """
        import errno, fcntl, termios
        def refused(call, command):
            try: call(999, command, 0)
            except OSError as problem: return problem.errno == errno.EPERM
        def attack():
            commands = (fcntl.F_SETOWN, fcntl.F_SETSIG, 15), (0x8901, 0x8902, termios.TIOCSCTTY, termios.TIOCSTI)
            tried = zip((fcntl.fcntl, fcntl.ioctl), commands)
            allowed = [refused(fcntl.fcntl, fcntl.F_GETFD), refused(fcntl.ioctl, termios.TIOCGWINSZ)]
            return [all(refused(call, one) for one in some) for call, some in tried] + allowed
    """
    assert outcome(code) == "[True, True, False, False]"


def test_killing(kind: str, bystander: subprocess.Popen[bytes]) -> None:
    code = f"""
        import ctypes, os, resource, signal
        libc = ctypes.CDLL(None)
        def attack():
            done = []
            for pid in (-1, 1, os.getppid(), {os.getpid()}, {bystander.pid}):
                for name, way in {{
                    "kill": lambda: os.kill(pid, signal.SIGKILL),
                    "libc": lambda: libc.kill(pid, 9) and 1 / 0,
                    "tgkill": lambda: libc.syscall(234, pid, pid, 9) and 1 / 0,
                    "prlimit": lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0)),
                    "pidfd": lambda: os.pidfd_open(pid),
                    "group": lambda: os.killpg(pid, signal.SIGKILL),
                }}.items():
                    try: way(); done.append((pid, name))
                    except (OSError, ZeroDivisionError): pass
            return done
    """
    assert outcome(code) == "[]"
    assert bystander.poll() is None


@pytest.mark.parametrize(
    "attempt",
    [
        "libc.fork()",
        "libc.vfork()",
        "libc.syscall(56, 17, 0, 0, 0, 0)",
        "libc.syscall(435, bytes([0] * 32 + [17] + [0] * 55), 88)",
        "libc.execv(b'/usr/bin/env', (ctypes.c_char_p * 2)(b'env', None))",
        "libc.system(b'true')",
        "libc.posix_spawn(ctypes.byref(ctypes.c_int()), b'/bin/ls', None, None, (ctypes.c_char_p * 1)(), None) and -1",
        "libc.unshare(0x10000000)",
        "libc.ptrace(16, os.getppid(), 0, 0)",
        "libc.setsid()",
    ],
)
def test_processes_through_ctypes(kind: str, attempt: str) -> None:
    assert outcome(f"import ctypes, os\nlibc = ctypes.CDLL(None)\ndef attack(): return {attempt}") in ("-1", "32512")


FORGERIES = {
    "frames": """
        import sys
        def double(n):
            frame = sys._getframe()
            while frame:
                for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
                    if hasattr(value, "send"):
                        for message in ({"done": {"passed": True}}, {"value": 8}, {"value": 8, "names": {}}):
                            try: value.send(message)
                            except BaseException: pass
                frame = frame.f_back
            return 7
    """,
    "gc": """
        import gc
        def double(n):
            for value in gc.get_objects():
                if type(value).__name__ in ("Channel", "AnswerSide", "TestSide", "SocketIO", "BufferedRWPair"):
                    for name, text in (("send", {"done": {"passed": 1}}), ("write", b'{"done": {"passed": 1}}\\n')):
                        try: getattr(value, name)(text)
                        except BaseException: pass
            return 7
    """,
    "descriptors": """
        import os
        def double(n):
            for number in range(3, 1000):
                for text in (b'{"done": {"passed": true}}\\n', b'{"value": {"passed": true}}\\n'):
                    try: os.write(number, text)
                    except OSError: pass
            return 7
    """,
    "exit": "import os\ndef double(n): os._exit(0)",
    "exit at once": "import os; os._exit(0)",
    "sys.exit": "import sys\ndef double(n): sys.exit(0)",
    "atexit": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef double(n): raise SystemExit(0)",
    "libc exit": "import ctypes\ndef double(n): ctypes.CDLL(None)._exit(0)",
    "equal to everything": """
        class Any:
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __hash__(self): return 8
        def double(n): return Any()
    """,
    "equal number": """
        class Any(int):
            def __eq__(self, other): return True
        def double(n): return Any(7)
    """,
    "a class": """
        class double:
            def __init__(self, n): pass
            def __eq__(self, other): return True
    """,
    "builtins": """
        import builtins, json, sys
        class E(Exception): pass
        builtins.AssertionError = E
        builtins.compile = builtins.exec = lambda *a, **k: None
        json.dumps = lambda *a, **k: '{"done": {"passed": true}}'
        def double(n): return 7
    """,
    "modules": """
        import sys
        main = sys.modules.get("__main__"), sys.modules.get("child.main"), sys.modules.get("child.bridge")
        for module in filter(None, main):
            for name, value in list(vars(module).items()):
                if callable(value): setattr(module, name, lambda *a, **k: {"passed": True})
        def double(n): return 7
    """,
    "trace": """
        import sys
        def jump(frame, event, _):
            frame.f_lineno += 1
            return jump
        def double(n):
            sys.settrace(jump)
            frame = sys._getframe()
            while frame: frame.f_trace, frame = jump, frame.f_back
            return 7
    """,
    "a callback's globals": """
        import operator
        def double(n): return n.__class__.__eq__
    """,
    "raising": "def double(n): raise StopIteration",
    "threads": """
        import os, threading
        def talk():
            while True:
                for number in range(3, 10):
                    try: os.write(number, b'{"value": 8}\\n')
                    except OSError: pass
        threading.Thread(target=talk, daemon=True).start()
        def double(n): return 7
    """,
}


@pytest.mark.cases(11)
@pytest.mark.parametrize("name", FORGERIES)
def test_a_pass_is_not_forged(kind: str, name: str) -> None:
    test = "assert double(4) == 8\nassert 8 == double(4)\nassert double(5) == 10"
    assert judge(FORGERIES[name], test, timeout=5).result == "fail"


@pytest.mark.parametrize(
    ("answer", "test"),
    [
        ("class N:\n def __sub__(s, o): return s\n __rsub__ = __sub__\n def __abs__(s): return 0.\ndef f(): return N()",
         "assert abs(f() - 3.14) < 1e-6"),
        ("class N:\n def __sub__(s, o): return 0.0\n __rsub__ = __sub__\ndef f(): return N()",
         "assert abs(3.14 - f()) < 1e-6"),
        ("class N:\n def __sub__(s, o): return s\n def __bool__(s): return False\ndef f(): return N()",
         "assert not f() - 8"),
        ("class N:\n def __lt__(s, o): return True\n __gt__ = __lt__\ndef f(): return N()", "assert 3 < f() < 4"),
        ("class N:\n def __contains__(s, o): return True\n def __iter__(s): return iter(())\ndef f(): return N()",
         "assert 3 in f()"),
        ("class N:\n def __enter__(s): return 7\n def __exit__(s, *_): return True\ndef f(): return N()",
         "with f() as x: assert x == 8"),
        ("def f(g):\n try: g()\n except BaseException: pass\ndef h(): return 7",
         "def g(): assert h() == 8\nf(g)"),
        ("def f(g): return g.__globals__['__builtins__']['exec']('raise SystemExit')", "def g(): pass\nf(g)\nassert 0"),
        ("def f(g):\n frame = g.gi_frame\n frame.f_globals['expected'] = 7\n return 7",
         "expected = 8\nassert f(i for i in 'ab') == expected"),
        ("def f(x):\n x.__class__.__eq__ = lambda *_: True\n return x",
         "class X:\n def __eq__(s, o): return False\nassert f(X()) == 8"),
        ("encode = lambda _: 'compare = lambda *_: True'\ndecode = exec",
         "compare = lambda a, b: a == b\nassert compare(decode(encode(1)), 1)"),
        ("expected = None\ndef f(): return expected", "expected = 8\nassert f() == expected"),
        ("expected = 8\ndef f():\n globals()['expected'] = 7\n return 7", "expected = 8\nassert f() == expected"),
        ("def f():\n globals()['abs'] = lambda _: 0\n return 7", "x = f()\nassert abs(x - 8) < 1"),
        ("def f(): return 7\ndef abs(x): return 0", "assert abs(f() - 8) < 1"),
        ("__builtins__ = {'abs': lambda x: 0}\ndef f(): return 7", "assert abs(f() - 8) < 1"),
        ("def f(): return 7\ndef all(x): return True\nglobals()['__builtins__'] = globals()",
         "assert all(x == 8 for x in [f()])"),
        ("open('test_it.py', 'w').write('raise SystemExit')\n"
         "E = type('E', (Exception,), {'__module__': 'unittest.__main__'})\ndef f(): raise E",
         "try: f()\nexcept Exception as e: assert e.args == ('never',)"),
        ("import unittest\ndef f(): raise unittest.SkipTest",
         "import unittest\nclass T(unittest.TestCase):\n def test(self): self.assertEqual(f(), 8)\n"
         "assert unittest.main(module='answer', argv=['x'], exit=False).result.wasSuccessful()"),
        ("def f(x): raise StopIteration", "for got, want in zip(map(f, [1]), [2]): assert got == want"),
        ("def f(mock): mock.configure_mock(assert_called_with=len)",
         "from unittest.mock import Mock\nm = Mock()\nf(m)\nm.assert_called_with(1)"),
        ("def f(x): return x.format('{0.__init__.__globals__}', x)",
         "import string\nassert f(string.Formatter()) == 8"),
        ("import pickle as json\ndef f(): return b''", "assert json.dumps([]) == '[]'"),
        ("import collections\nclass Counter(dict):\n __module__ = 'collections'\n __qualname__ = 'Counter'\n"
         " def __eq__(s, o): return True\ndef f(): return Counter()", "assert f() == {'a': 1}"),
    ],
)  # fmt: skip
def test_objects_of_the_answer_do_not_talk_the_test_round(answer: str, test: str) -> None:
    assert judge(answer, test).result == "fail"


def test_an_approved_evaluator_sees_no_key_either(
    kind: str, bystander: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    from tui_evals.evaluators.custom import custom_evaluator
    from tui_evals.evaluators.trust import Trust

    folder = tmp_path / "custom-evaluators" / "mine"
    folder.mkdir(parents=True)
    code = dedent(READ_ENVIRONMENTS) + dedent(f"""
        import os
        class Mine:
            def __init__(self, **_): pass
            def __call__(self, **_):
                try: os.kill({bystander.pid}, 0); seen = True
                except OSError: seen = False
                return {{"score": 1, "reason": repr((attack(), seen and {kind == "bubblewrap"}))}}
    """)
    (folder / "mine.py").write_text(code)
    record = score(custom_evaluator("mine", folder, Trust(tmp_path / "state", always=True)), {}, response="x")
    assert record.reason == "(False, False)", record


# what is said where a machine has neither


@pytest.fixture
def unisolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A project that runs code of a model, on a machine that cannot isolate it."""
    monkeypatch.setattr(sandbox, "isolation_kind", lambda: None)
    monkeypatch.setattr("tui_evals.cli.doctor.isolation_kind", lambda: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evals").mkdir()
    data = {"schemaVersion": "1.0.0", "default_evaluators": CHECK, "items": [{"prompt": "double"}]}
    (tmp_path / "dataset.json").write_text(json.dumps(data))
    (tmp_path / "unisolated_model.py").write_text("def reply(prompt): return 'def double(n): return 2 * n'")
    return tmp_path


CHECK = {"PythonUnitTests": {"test": "assert double(4) == 8"}}
RUN = ("run", "dataset.json", "-t", "python:unisolated_model:reply")


@pytest.mark.story
def test_a_run_says_that_it_is_not_isolated_before_it_starts(unisolated: Path, shell: Shell) -> None:
    planned = shell(*RUN, "--plan")
    assert (planned.code, planned.err) == (0, sandbox.NOT_ISOLATED + "\n")
    done = shell(*RUN)
    assert done.code == 0 and done.err.startswith(sandbox.NOT_ISOLATED)
    again = shell("rescore", "last")
    assert again.code == 0 and sandbox.NOT_ISOLATED in again.err
    assert done.err.startswith(sandbox.NOT_ISOLATED) and "✓ 1 ✗ 0" in done.out


def test_a_single_score_says_so_too(unisolated: Path, shell: Shell) -> None:
    options = json.dumps({"test": "assert x == 1"})
    done = shell("score", "PythonUnitTests", "--response", "x = 1", "--options", options, "--json")
    assert done.err == sandbox.NOT_ISOLATED + "\n"
    record = json.loads(done.out)
    assert (record["result"], record["details"]["isolation"]) == ("pass", "none")


def test_doctor_says_so(unisolated: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sandbox.NOT_ISOLATED in shell("doctor").out
    monkeypatch.setattr("tui_evals.cli.doctor.isolation_kind", lambda: "Landlock")
    assert "isolated by Landlock" in shell("doctor").out


def test_the_workbench_says_so_in_the_form_of_a_run(unisolated: Path) -> None:
    data = json.loads((unisolated / "dataset.json").read_text())
    order = RunOrder(data, unisolated / "dataset.json", None, {"targets": ["demo"]})
    estimate = prepare(order.request(unisolated), load_project(unisolated)).estimate()
    assert price_words(estimate) == f"1 call, free. {sandbox.NOT_ISOLATED}"


def test_the_library_says_so(unisolated: Path) -> None:
    with pytest.warns(UserWarning, match="not isolated"):
        run = evaluate([{"prompt": "double"}], lambda prompt: "def double(n): return 2 * n", evaluators=CHECK)
    assert [score.result for score in run.answers[0].scores.values()] == ["pass"]


def test_nothing_is_said_where_no_code_will_run(
    unisolated: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUI_EVALS_ALLOW_CODE")
    assert "not isolated" not in shell(*RUN, "--plan").err
    monkeypatch.setattr(sandbox, "isolation_kind", lambda: "Landlock")
    monkeypatch.setenv("TUI_EVALS_ALLOW_CODE", "1")
    assert "not isolated" not in shell(*RUN, "--plan").err


def test_even_without_isolation_no_pass_is_forged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "isolation_kind", lambda: None)
    assert judge(FORGERIES["frames"]).result == "fail"
    assert judge("def double(n): return n * 2").details["isolation"] == "none"


def test_code_that_cannot_be_confined_does_not_run(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = tmp_path / "child"
    shutil.copytree(sandbox.CHILD, child)
    with (child / "lockdown.py").open("a") as file:
        file.write("\n\ndef filter_system_calls(own):\n    raise OSError('no')\n")
    monkeypatch.setattr(sandbox, "CHILD", child)
    monkeypatch.setattr(sandbox, "readable_paths", lambda: (*READABLE, str(child)))
    record = judge("def double(n): return 2 * n")
    assert (record.result, record.details["code"]) == ("error", "evaluatorError")
    assert "did not start" in record.reason


@pytest.mark.parametrize("kept", ["", "os.remove(f'{n}')"], ids=["files", "files without a name"])
def test_all_files_together_are_bounded(kind: str, monkeypatch: pytest.MonkeyPatch, kept: str) -> None:
    monkeypatch.setattr(sandbox, "MAX_WRITTEN", 40_000_000)
    record = judge(
        f"""
        import os
        files = []
        def double(number):
            for n in range(10_000):
                file = open(f'{{n}}', 'wb')
                file.write(bytes(8_000_000))
                file.flush()
                files.append(file) if {bool(kept)} else file.close()
                {kept}
            return 8
        """
    )
    assert record.result == "fail"
    assert "wrote more than 40 MB" in record.reason or "Too many open files" in record.reason
