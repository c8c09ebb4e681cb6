"""What can be wrong with a file: what stands in its place, what stands in it, and what its texts say."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import socket
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOUD = "\x1b[6;107m"
TEXTS: tuple[str, ...] = (
    f"{LOUD}loud\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1b[2J\x1b[H\x1b[?1049h",
    "\x1bP+q544e\x1b\\",
    "\x9b2J\x9d0;t\x9c\x90q\x9c",
    "a\rb\x08c\x07d\x00e\x7ff",
    "\u202eright\u2066left\u2069 \u061c\u200e\u200f",
    "\u200b\u2060\ufeff\U000e0041\U000e0042",
    "[@click=app.quit]x[/] [/b] [link=file:///etc/passwd]y[/link] [bold",
    "::error::x\n##vso[task.complete result=Failed]\n##[error]z\nsection_start:1:x",
    "\x1b" + "[" + "1;" * 5000 + "m\x1b]" + "x" * 5000,
    "e\u0301" * 2000 + "\u0300" * 3000,
    "https://evil.example/" + "a" * 20_000,
    "two\nlines\r\nthree\u2028four\x0bfive\x0csix\x85seven",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 500,
)
"""What no terminal may be given as it is."""
CODE: tuple[str, ...] = (
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "{{ 'a' * 500000000 }}{{ '%0999999999d' % 1 }}",
    "{{ cycler.__init__.__globals__.os.system('id') }}",
    "{{" * 3000,
    "${env:OPENAI_API_KEY} {env.HOME} $(id) `id`",
    "'; DROP TABLE runs; --",
    "__import__('os').system('id')",
    "=cmd|' /C calc'!A0",
)
PATTERNS = ("^(a+)+$", "(.*)*\\1", "a{99999}{99999}", "(?=" * 200, "[" * 5000, "(?i)(a|a)*b")
PATHS = (
    "../../outside/secret.txt",
    "/dev/zero",
    "/etc/passwd",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    "a\x00b",
    "." * 5000,
)
NUMBERS = (10**400, -(10**30), -1, 0, 1.5e308, 5e-324, 2**63, -(2**63) - 1, 99999999999999)
RAW = (
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 6000,
    '"\\ud800"',
    '"\\u0000"',
    "[" * 100_000,
    '{"a":1,"a":2}',
    "-0",
    '"\\u001b]52;c;aGk=\\u0007"',
)
"""What JSON can say and Python's writer of it does not."""
_HERE = "<here>"


@dataclass(frozen=True)
class Wild:
    """Where a clone is, what it would harm, and the choices of its seed."""

    root: Path
    outside: Path
    port: int
    chance: random.Random

    def value(self) -> Any:
        """Something that is not what a reader waits for."""
        chance, mark = self.chance, self.outside / "value"
        match chance.randrange(8):
            case 0 | 1 | 2:
                return chance.choice(TEXTS)
            case 3:
                return chance.choice((*CODE, *PATTERNS))
            case 4:
                return chance.choice((*PATHS, str(self.outside / "secret.txt")))
            case 5:
                return chance.choice(NUMBERS)
            case 6:
                runs = (f"command:touch {mark}", "python:helper:answer", "env:OPENAI_API_KEY", "mcp:touch")
                return chance.choice((*runs, f"http://127.0.0.1:{self.port}/v1", "tcp://127.0.0.1:9"))
            case _:
                return chance.choice(self._shapes())()

    def _shapes(self) -> tuple[Callable[[], Any], ...]:
        return (
            lambda: None,
            lambda: True,
            list,
            dict,
            lambda: "",
            lambda: "x" * 200_000,
            lambda: _nested(60),
            lambda: [[]] * 3000,
            lambda: {f"key {n}": n for n in range(3000)},
            lambda: {self.chance.choice(TEXTS): 1},
            lambda: "9999-99-99T99:99:99Z",
            lambda: "1" * 5000,
        )


def _nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = {"a": [value]}
    return value


Malice = Callable[[Path, Wild], None]
"""Does something to a file of a clone."""


def _replaced(make: Callable[[Path, Wild], None]) -> Malice:
    def do(file: Path, wild: Wild) -> None:
        file.unlink(missing_ok=True)
        make(file, wild)

    return do


def _filled(make: Callable[[bytes, Wild], bytes]) -> Malice:
    def do(file: Path, wild: Wild) -> None:
        file.write_bytes(make(file.read_bytes(), wild))

    return do


def _of_size(size: int) -> Callable[[Path, Wild], None]:
    """A file of zeros that takes no room on the disk, nor much in a repository."""

    def make(file: Path, wild: Wild) -> None:
        with open(file, "wb") as hole:
            hole.truncate(size)

    return make


def _socket(file: Path, wild: Wild) -> None:
    here = os.getcwd()
    os.chdir(file.parent)  # an address of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(file.name)
    finally:
        os.chdir(here)


def _inside(data: bytes, wild: Wild) -> bytes:
    """Hostile texts between the lines and the words of a text."""
    lines = data.decode("utf-8", "replace").split("\n")
    for _ in range(4):
        at = wild.chance.randrange(len(lines))
        words = lines[at].split(" ")
        words[wild.chance.randrange(len(words))] += str(wild.value())[:30_000]
        lines[at] = " ".join(words)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _cut(data: bytes, wild: Wild) -> bytes:
    return data[: wild.chance.randrange(max(1, len(data)))]


def _flipped(data: bytes, wild: Wild) -> bytes:
    changed = bytearray(data or b"x")
    for _ in range(8):
        changed[wild.chance.randrange(len(changed))] = wild.chance.randrange(256)
    return bytes(changed)


SHAPES: Mapping[str, Malice] = {
    "device": _replaced(lambda file, wild: file.symlink_to("/dev/zero")),
    "pipe": _replaced(lambda file, wild: os.mkfifo(file)),
    "folder": _replaced(lambda file, wild: file.mkdir()),
    "out": _replaced(lambda file, wild: file.symlink_to(wild.outside / "secret.txt")),
    "loop": _replaced(lambda file, wild: file.symlink_to(file.name)),
    "socket": _replaced(_socket),
    "sparse": _replaced(_of_size(6 * 2**30)),
    "gone": _replaced(lambda file, wild: None),
    "closed": lambda file, wild: file.chmod(0),
    "empty": _filled(lambda data, wild: b""),
    "noise": _filled(lambda data, wild: wild.chance.randbytes(5000)),
    "nul": _filled(lambda data, wild: b"\0" * 5000),
    "utf16": _filled(lambda data, wild: data.decode("utf-8", "replace").encode("utf-16")),
    "long": _filled(lambda data, wild: data + b"a" * 15 * 2**20),
    "wide": _filled(lambda data, wild: data + b"a,b;c\n" * 30_000),
    "deep": _filled(lambda data, wild: b"[" * 200_000),
    "cut": _filled(_cut),
    "flipped": _filled(_flipped),
    "inside": _filled(_inside),
}
"""What can be done to a file of any kind."""
LARGE: Mapping[str, Malice] = {"large": _replaced(_of_size(900 * 2**20))}
"""What can be done to files of which none is large: a dataset may have a gigabyte."""


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value below a value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in entries for place in ((*path, key), *_places(inner, (*path, key)))]


def poisoned(value: Any, wild: Wild, times: int) -> Any:
    """The value with something else in a few places, and with hostile names."""
    for _ in range(times):
        places = _places(value)
        if not places:
            return wild.value()
        *way, last = wild.chance.choice(places)
        holder = value
        for key in way:
            holder = holder[key]
        if isinstance(holder, dict) and wild.chance.random() < 0.2:
            holder[wild.chance.choice((*TEXTS, *PATHS))] = holder.pop(last)
        else:
            holder[last] = wild.value()
    return value


def _poisoned_json(data: bytes, wild: Wild) -> bytes:
    return json.dumps(poisoned(json.loads(data), wild, wild.chance.choice((1, 1, 3, 8)))).encode()


def _every_text(data: bytes, wild: Wild) -> bytes:
    """The same hostile text in each place where there is a text."""
    text = wild.chance.choice(TEXTS)

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: put(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [put(inner) for inner in value]
        return value + text if isinstance(value, str) and not re.fullmatch(r"[\d.]+|\w{1,12}", value) else value

    return json.dumps(put(json.loads(data))).encode()


def _raw_json(data: bytes, wild: Wild) -> bytes:
    value = json.loads(data)
    places = _places(value)
    *way, last = wild.chance.choice(places)
    holder = value
    for key in way:
        holder = holder[key]
    holder[last] = _HERE
    return json.dumps(value).replace(f'"{_HERE}"', wild.chance.choice(RAW)).encode()


def _by_lines(do: Callable[[bytes, Wild], bytes]) -> Callable[[bytes, Wild], bytes]:
    def each(data: bytes, wild: Wild) -> bytes:
        return b"\n".join(do(line, wild) if line.strip() else line for line in data.split(b"\n"))

    return each


JSON: Mapping[str, Malice] = {
    name: _filled(do) for name, do in (("poison", _poisoned_json), ("texts", _every_text), ("raw", _raw_json))
}
JSONL: Mapping[str, Malice] = {
    name: _filled(_by_lines(do))
    for name, do in (("poison", _poisoned_json), ("texts", _every_text), ("raw", _raw_json))
}

_LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
_PYTHON = "x: !!python/object/apply:os.system ['touch {mark}']\n"


def _before(text: str) -> Malice:
    def put(data: bytes, wild: Wild) -> bytes:
        head = b"---\n" if data.startswith(b"---") else b""
        return head + text.replace("{mark}", str(wild.outside / "yaml")).encode() + data.removeprefix(head)

    return _filled(put)


YAML: Mapping[str, Malice] = {
    "laughs": _before(_LAUGHS),
    "python": _before(_PYTHON),
    "itself": _before("loop: &loop [*loop]\n"),
    "twice": _before("same: 1\nsame: 2\n"),
    "flow": _before("deep: " + "[" * 20_000 + "\n"),
    "keys": _before("? {a: [1, 2]}\n: x\n? [1]\n: y\n2001-99-99: z\nno: 1_000\n"),
}


def _bomb(name: str) -> Callable[[bytes, Wild], bytes]:
    def pack(data: bytes, wild: Wild) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            if name == "members":
                for number in range(20_000):
                    archive.writestr(f"samples/{number}.json", "{}")
            else:
                with zipfile.ZipFile(io.BytesIO(data)) as old:
                    for member in old.namelist():
                        if name == "bomb":
                            with archive.open(member, "w") as out:
                                for _ in range(400):
                                    out.write(b"[" + b" " * 2**20)
                        else:
                            for place in (wild.chance.choice(("../../outside/mark", "/etc/x", TEXTS[1])), ""):
                                archive.writestr(place + member, "{}")
        return packed.getvalue()

    return pack


ZIP: Mapping[str, Malice] = {name: _filled(_bomb(name)) for name in ("bomb", "members", "names")}


def _gzip_bomb(data: bytes, wild: Wild) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as out:
        for _ in range(600):
            out.write(b" " * 2**20)
    return packed.getvalue()


GZIP: Mapping[str, Malice] = {
    "bomb": _filled(_gzip_bomb),
    "poison": _filled(lambda data, wild: gzip.compress(_poisoned_json(gzip.decompress(data), wild))),
}


def _poisoned_table(data: bytes, wild: Wild) -> bytes:
    rows = [line.split(",") for line in data.decode().splitlines()]
    for _ in range(4):
        row = wild.chance.choice(rows)
        text = str(wild.value())[:50_000].replace('"', '""')
        row[wild.chance.randrange(len(row))] = f'"{text}"'
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")


CSV: Mapping[str, Malice] = {
    "poison": _filled(_poisoned_table),
    "columns": _filled(lambda data, wild: b",".join([b"a"] * 200_000) + b"\n" + data),
    "quote": _filled(lambda data, wild: data + b'"' + b"x\n" * 200_000),
}


def _poisoned_toml(data: bytes, wild: Wild) -> bytes:
    text = data.decode()
    for found in wild.chance.sample(list(re.finditer(r'= (".*?")$', text, re.MULTILINE)), 2):
        value = wild.value()
        shown = json.dumps(value) if isinstance(value, str | int | float | bool) else json.dumps(str(value)[:1000])
        text = text.replace(found[0], f"= {shown}", 1)
    return text.encode()


def _named_toml(data: bytes, wild: Wild) -> bytes:
    name, model = (json.dumps(wild.chance.choice(TEXTS)) for _ in range(2))
    return data + f"\n[targets.{name}]\nmodel = {model}\n".encode()


TOML: Mapping[str, Malice] = {
    "poison": _filled(_poisoned_toml),
    "names": _filled(_named_toml),
    "dotted": _filled(lambda data, wild: data + b"\n" + b".".join([b"a"] * 20_000) + b" = 1\n"),
    "deep": _filled(lambda data, wild: data + b"\nx = " + b"[" * 20_000),
}
