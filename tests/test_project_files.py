"""The one way to read a file of a project, and the law that nothing reads one in another way."""

import ast
import functools
import os
from pathlib import Path

import pytest

from tui_evals.files import CannotSave, make_folder, write_atomically
from tui_evals.project_files import MOST, RefusedFile, TooLarge, read_bytes, read_head, read_text, real_path

PACKAGE = Path(__file__).parent.parent / "tui_evals"

OTHERWISE = {
    "project_files.py": "the one way",
    "files.py": "opens what lies below .evals/, where nothing is a link, and writes",
    "store": "opens the store through its own checks",
    "terminal_facts.py": "/dev/tty",
    "tui/terminal.py": "/dev/tty",
    "cli/output.py": "/dev/null",
    "cli/write/items.py": "a value that the user names, which may be a pipe: --field @<(command)",
    "tui/external_programs.py": "a file in a temporary folder that was made just now",
    "targets/model_table.py": "a file of the installed litellm",
    "targets/tools.py": "opens a connection",
    "interpreter.py": "a file of the installed tui_evals",
    "cli/compare/ci.py": "how the installed tui_evals was installed, and the summary of a job, which is written",
    "cli/doctor.py": "the .pth files of the installed Python",
    "evaluators/registry.py": "its own folder: the source of the evaluators that come with tui_evals",
    "targets/config_file.py": "writes a draft in a temporary folder",
    "datasets/history.py": "opens a folder, to lock it",
    "datasets/save.py": "writes a new file",
    "present/manual_tables.py": "a page of the help",
    "text/manual.py": "a page of the help",
    "sealed_imports.py": "runs in another Python, before anything of ours, and reads what that imports",
    "evaluators/child": "runs in the sandbox, on files that were put there",
}
READING_MODULES = {"os", "io", "gzip", "bz2", "lzma", "codecs", "tarfile", "tokenize", "fileinput"}
READING_NAMES = {"read_text", "read_bytes"}
READING_MODES = {"r", "rb", "rt", "r+", "r+b"}
COPYING_NAMES = {"copy", "copy2", "copyfile", "copytree"}
NAMES = {"open", "Path", "cmp"} | READING_NAMES | COPYING_NAMES


def reads_otherwise(call: ast.Call) -> bool:
    """Whether a call opens or reads a file by its path, other than through `project_files` or `private_opener`."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name not in NAMES:  # before anything is written out, which takes long
        return False
    if any(keyword.arg == "opener" and ast.unparse(keyword.value) == "private_opener" for keyword in call.keywords):
        return False
    if not isinstance(call.func, ast.Attribute):
        return name == "open"
    owner = ast.unparse(call.func.value)
    if name in READING_NAMES:
        return "files(__package__)" not in owner and "resources.files(" not in owner and "demo_files" not in owner
    if name == "open":
        first = call.args[0] if call.args else None
        return (
            owner in READING_MODULES
            or not call.args
            or (isinstance(first, ast.Constant) and first.value in READING_MODES)
        )
    return (owner == "shutil" and name in COPYING_NAMES) or ast.unparse(call.func) in ("zipfile.Path", "filecmp.cmp")


def is_excepted(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}/") for name in OTHERWISE)


@functools.cache
def places() -> dict[str, list[str]]:
    """Where a file is opened or read, by module."""
    found: dict[str, list[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if any(f"{name}(" in source for name in NAMES) else ():
            if isinstance(node, ast.Call) and reads_otherwise(node):
                found.setdefault(file.relative_to(PACKAGE).as_posix(), []).append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def test_nothing_reads_a_file_of_a_project_in_another_way():
    assert {module: lines for module, lines in places().items() if not is_excepted(module)} == {}


def test_every_exception_is_one():
    there = places()
    assert [
        name for name in OTHERWISE if not any(module == name or module.startswith(f"{name}/") for module in there)
    ] == []


@pytest.mark.parametrize(
    "line",
    [
        "open('x')",
        "file.open()",
        "file.open('rb')",
        "file.read_text(encoding='utf-8')",
        "(folder / name).read_bytes()",
        "gzip.open(file)",
        "os.open(file, os.O_RDONLY)",
        "shutil.copy2(one, other)",
    ],
)
def test_the_law_sees_each_way_to_read(line):
    assert reads_otherwise(ast.parse(line, mode="eval").body)


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / ".evals").mkdir(parents=True)
    (root / "file.txt").write_bytes(b"one\r\ntwo\r")
    (tmp_path / "outside.txt").write_text("of the user")
    return root


def test_an_ordinary_file_is_read_as_it_is(project):
    file = project / "file.txt"
    assert read_bytes(file) == b"one\r\ntwo\r"
    assert read_text(file) == "one\ntwo\n"
    assert read_head(file, 3) == b"one"
    with pytest.raises(FileNotFoundError):
        read_bytes(project / "absent")
    with pytest.raises(IsADirectoryError):
        read_bytes(project)


def make_pipe(file):
    os.mkfifo(file)


def link_to(target):
    return lambda file: file.symlink_to(target)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (make_pipe, "it is a pipe, not an ordinary file"),
        (link_to("/dev/zero"), "it leads to /dev/zero, outside the project"),
        (link_to("../outside.txt"), "outside the project"),
        (link_to("pipe"), "it is a pipe, not an ordinary file"),
    ],
)
@pytest.mark.parametrize("read", [read_bytes, read_text, lambda file: read_head(file, 10)])
def test_nothing_else_is_opened(project, make, why, read):
    make_pipe(project / "pipe")
    file = project / "file.prompty"
    make(file)
    with pytest.raises(RefusedFile, match=why):
        read(file)


def test_what_the_user_named_may_be_a_link_but_no_device(project):
    (project / "link").symlink_to("../outside.txt")
    (project / "zero").symlink_to("/dev/zero")
    assert read_text(project / "link", follow_out=True) == "of the user"
    with pytest.raises(RefusedFile, match="it is a device, not an ordinary file"):
        read_bytes(project / "zero", follow_out=True)


def test_a_file_says_by_its_size_or_by_its_content_that_it_is_too_large(project):
    with open(project / "large", "wb") as large:
        large.truncate(MOST + 1)
    with pytest.raises(TooLarge, match="it is larger than 16 MiB"):
        read_bytes(project / "large")
    assert read_head(project / "large", 2) == b"\0\0"
    assert len(read_bytes(project / "large", most=MOST + 1)) == MOST + 1
    says_no_size = Path("/proc/self/status")  # a file of /proc has the size 0
    assert says_no_size.stat().st_size == 0 and b"VmRSS" in read_bytes(says_no_size)
    with pytest.raises(TooLarge, match="it is larger than 10 bytes"):
        read_bytes(says_no_size, most=10)


def test_a_link_stays_in_every_project_that_its_path_passes_through(project, tmp_path):
    (project / "inner" / ".evals").mkdir(parents=True)
    (project / "inner" / "link").symlink_to("../file.txt")
    with pytest.raises(RefusedFile, match=r"outside the project .*inner"):
        real_path(project / "inner" / "link")
    other = tmp_path / "other"
    (other / ".evals").mkdir(parents=True)
    (other / "x").write_text("")
    (project / "folder").symlink_to(other, target_is_directory=True)
    with pytest.raises(RefusedFile, match="outside the project"):
        real_path(project / "folder" / "x")


def test_before_there_is_a_project_the_clone_or_the_working_folder_is_one(tmp_path, monkeypatch):
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    (tmp_path / "clone" / "link").symlink_to("/etc/hostname")
    with pytest.raises(RefusedFile):
        real_path(tmp_path / "clone" / "link")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to("/etc/hostname")
    assert real_path(tmp_path / "folder" / "link") == Path("/etc/hostname"), "a path outside of all is the user's own"
    monkeypatch.chdir(tmp_path / "folder")
    with pytest.raises(RefusedFile):
        real_path(Path("link"))


def test_a_project_below_a_linked_folder_is_one(project, tmp_path):
    (tmp_path / "short").symlink_to(project, target_is_directory=True)
    assert read_bytes(tmp_path / "short" / "file.txt")


def test_nothing_is_written_through_a_link_that_leads_out(project, tmp_path):
    (project / "report.html").symlink_to("../outside.txt")
    (project / "inner.html").symlink_to("file.txt")
    (project / "folder").symlink_to("..", target_is_directory=True)
    for file in (project / "report.html", project / "folder" / "outside.txt", project / "folder" / "new.txt"):
        with pytest.raises(CannotSave, match=r"outside the project .* Remove the link, or name another file"):
            write_atomically(file, b"theirs")
    with pytest.raises(CannotSave, match="outside the project"):
        make_folder(project / "folder" / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside.txt", "project"]
    assert (tmp_path / "outside.txt").read_text() == "of the user"
    write_atomically(project / "inner.html", b"ours")
    assert (project / "file.txt").read_bytes() == b"ours" and (project / "inner.html").is_symlink()
    write_atomically(project / "report.html", b"read before", follow_out=True)
    assert (tmp_path / "outside.txt").read_text() == "read before"
