"""The signed chain of each run: the rows that it covers, and the records that changes append.

The process that ends a run states every part of it, outside of any transaction that others wait for. A later change to
a part states the part again in its own transaction, so a reader never finds one without the other.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.provenance.chain import (
    DELETIONS,
    FORM,
    FORMS,
    Builder,
    Change,
    Kind,
    Link,
    Record,
    Statement,
    appended,
    canonical,
    difference,
    next_previous,
    plain_changes,
    unexpected,
)
from tui_evals.provenance.keys import KeyProblem, own_key
from tui_evals.version import __version__

TABLES = """
CREATE TABLE chain(
  run TEXT NOT NULL, number INTEGER NOT NULL, record TEXT NOT NULL, key TEXT NOT NULL, signature TEXT NOT NULL,
  PRIMARY KEY(run, number)) WITHOUT ROWID;
CREATE TABLE statements(
  run TEXT NOT NULL, part TEXT NOT NULL, statement TEXT NOT NULL, hints BLOB NOT NULL, PRIMARY KEY(run, part));
ALTER TABLE cache ADD COLUMN run TEXT NOT NULL DEFAULT '';
"""
"""The chain of each run by its key, the latest statement of each part, and the run of each cached answer."""

DIGESTS = "digests"
"""The column that differs where it is the kept digests of a part that were changed."""
Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
_PAGE = 1_000
PARTS_OF_PASS = ("pass", "scores", "together")
PARTS_OF_VERDICTS = ("outcome", "verdicts", "earlier")
_ONE = frozenset(("plan", "about", "outcome"))
_UNNAMED = frozenset(("calls",))
_UNASKED, _UNJUDGED = "('pending', 'running')", "('pending', 'running', 'answered')"

# -- covered columns


def _columns(part: str, table: str, form: int, **otherwise: str) -> str:
    return ", ".join(otherwise.get(name, f"{table}.{name}") for name in FORMS[form][part])


_OF_BODY = {"request": "b.request", "text": "b.text", "answer": "b.answer"}


def _pages(ask: Ask, run: int, part: str, form: int = FORM) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a part of a run, in the order in which they are covered: each its place, then the columns."""
    kind, _, number = part.partition("/")
    if kind in _ONE:
        document = "(SELECT document FROM snapshots s WHERE s.hash = r.snapshot)"
        yield ask(f"SELECT 0, {_columns(kind, 'r', form, document=document)} FROM runs r WHERE r.id = ?", [run])
    elif kind == "pass":
        document = f"(SELECT document FROM snapshots s WHERE s.hash = {_if_json('p.config', '$.dataset')})"
        columns = _columns(kind, "p", form, document=document)
        yield ask(f"SELECT 0, {columns} FROM passes p WHERE p.run = ? AND p.pass = ?", [run, int(number)])
    elif kind in ("answers", "verdicts"):
        # Answers in flight when a process dies count as pending, so the time in their rows means nothing.
        asked = f"iif(a.status IN {_UNASKED}, NULL, a.started)"
        status = f"iif(a.status IN {_UNASKED}, 'pending', a.status)"
        columns = _columns(kind, "a", form, **_OF_BODY, started=asked, status=status)
        bodies = " LEFT JOIN bodies b ON b.id = a.body" if kind == "answers" else ""
        yield from _paged(ask, f"SELECT a.pos, {columns} FROM answers a{bodies} WHERE", "ORDER BY a.pos", [run])
    elif kind == "scores":
        columns = _columns(kind, "s", form, pos="a.pos")
        select = f"SELECT a.pos, {columns} FROM answers a JOIN scores s ON s.answer = a.id AND s.pass = ? WHERE"
        yield from _paged(ask, select, "ORDER BY a.pos, s.key", [int(number), run])
    elif kind == "together":
        query = f"SELECT g.item, {_columns(kind, 'g', form)} FROM group_scores g WHERE g.run = ? AND g.pass = ? "
        yield ask(f"{query} ORDER BY g.item, g.turn, g.key", [run, int(number)])
    elif kind == "earlier":
        columns = _columns(kind, "e", form, **_OF_BODY, pos="a.pos")
        yield ask(
            f"SELECT a.pos, {columns} FROM earlier e JOIN answers a ON a.id = e.answer JOIN runs r ON r.id = e.run "
            "LEFT JOIN bodies b ON b.id = e.body WHERE e.run = ? AND "
            f"ifnull({_if_json('e.judging', '$.pass')} <= r.scoring_pass, true) ORDER BY a.pos, e.id",
            [run],
        )
    elif kind == "labels":
        columns = _columns(kind, "l", form, pos="a.pos")
        yield ask(
            f"SELECT a.pos, {columns} FROM labels l JOIN answers a ON a.id = l.answer WHERE l.run = ? "
            "ORDER BY a.pos, l.id",
            [run],
        )


def _if_json(column: str, path: str) -> str:
    """A value in a column, or NULL if it is not JSON."""
    return f"iif(json_valid({column}), {column} ->> '{path}', NULL)"


def _paged(ask: Ask, select: str, order: str, values: list[object]) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a query over answers in pages of positions, so that no read is long."""
    after: float = float("-inf")
    while True:
        ends = "SELECT pos FROM answers WHERE run = ? AND pos > ? ORDER BY pos LIMIT 1 OFFSET ?"
        last = ask(ends, [values[-1], after, _PAGE - 1])
        upper = f"a.run = ? AND a.pos > ?{' AND a.pos <= ?' if last else ''} "
        yield ask(f"{select} {upper} {order}", [*values, after, *(last[0] if last else ())])
        if not last:
            return
        after = last[0][0]


def _call_pages(ask: Ask, run: int, form: int, upto: int | None) -> Iterator[list[tuple[Any, ...]]]:
    columns = _columns("calls", "c", form, pos="(SELECT pos FROM answers WHERE id = c.answer)")
    limit = "" if upto is None else " AND c.id <= ?"
    query = f"SELECT c.id, {columns} FROM calls c WHERE c.run = ? AND c.id > ?{limit} ORDER BY c.id LIMIT {_PAGE}"
    after = -1
    while page := ask(query, [run, after, *(() if upto is None else (upto,))]):
        yield page
        after = page[-1][0]


def parts_of(ask: Ask, run: int) -> list[str]:
    """Every part of a run that is covered: those of each scoring pass that counts or did."""
    query = "SELECT p.pass FROM passes p JOIN runs r ON r.id = p.run WHERE p.run = ? AND p.pass <= r.scoring_pass"
    numbers = [number for (number,) in ask(f"{query} ORDER BY p.pass", [run])]
    of_passes = [f"{kind}/{number}" for number in numbers for kind in PARTS_OF_PASS]
    return ["plan", "about", "outcome", "answers", "verdicts", *of_passes, "earlier", "calls", "labels"]


def current_statement(ask: Ask, run: int, part: str, said: Statement | None = None) -> Statement:
    """The current statement about a part of a run; with the form and the rows of `said` if given."""
    form = FORM if said is None else said.form
    builder = Builder(part, form, named=part not in _UNNAMED)
    if part == "calls":
        last = ask("SELECT ifnull(max(id), 0) FROM calls WHERE run = ?", [run])[0][0]
        upto = last if said is None else said.upto
        for page in _call_pages(ask, run, form, upto):
            builder.add(page)
        return builder.statement(upto=upto)
    still_open = open_places(ask, run, part) if said is None else said.open
    for page in _pages(ask, run, part, form):
        builder.add(page, frozenset(still_open or ()))
    return builder.statement(still_open)


def open_places(ask: Ask, run: int, part: str) -> tuple[int, ...] | None:
    """The positions of a part that are still open; None if all of it is."""
    kind, _, number = part.partition("/")
    if kind not in ("answers", "verdicts", "scores", "together"):
        return ()
    ((status, counting),) = ask("SELECT status, scoring_pass FROM runs WHERE id = ?", [run]) or [("", 0)]
    if number and int(number) != counting:
        return ()
    if kind == "together":
        return () if status == "finished" else None
    states = _UNASKED if kind == "answers" else _UNJUDGED
    return tuple(pos for (pos,) in ask(f"SELECT pos FROM answers WHERE run = ? AND status IN {states}", [run]))


def unsigned_answers(ask: Ask, run: int, key: str) -> int:
    """How many answers of a run its chain does not cover; all of them if it has no chain."""
    said = kept_statement(ask, key, "answers")
    if said is None:
        query = f"SELECT count(*) FROM answers WHERE run = ? AND status NOT IN {_UNASKED}"
        return int(ask(query, [run])[0][0])
    return len(set(said.open or ()) - set(open_places(ask, run, "answers") or ()))


# -- the records


_LINK = "number, CAST(record AS TEXT), CAST(key AS TEXT), CAST(signature AS TEXT)"


def links_of(ask: Ask, run: str) -> list[Link]:
    """The chain of a run, by its key."""
    query = f"SELECT {_LINK} FROM chain WHERE run = ? ORDER BY number"
    return [Link(*row) for row in ask(query, [run])]


def last_link(ask: Ask, run: str) -> Link | None:
    """The last record of a chain; None where a run has none."""
    query = f"SELECT {_LINK} FROM chain WHERE run = ? ORDER BY number DESC LIMIT 1"
    return next((Link(*row) for row in ask(query, [run])), None)


def kept_statement(ask: Ask, run: str, part: str) -> Statement | None:
    """The kept statement of a part of a run, whether or not its record names it."""
    for statement, hints in ask("SELECT statement, hints FROM statements WHERE run = ? AND part = ?", [run, part]):
        try:
            kept = Statement.of(json.loads(statement), bytes(hints))
            return kept if kept.form in FORMS else None
        except (ValueError, TypeError, RecursionError):
            return None
    return None


def lossless_query(connection: sqlite3.Connection) -> Ask:
    """How rows are asked for, in which no byte of a text is lost."""

    def ask(query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            return connection.execute(query, values).fetchall()
        except (sqlite3.OperationalError, UnicodeDecodeError) as problem:
            if "decode" not in str(problem):
                raise
        usual, connection.text_factory = connection.text_factory, _lossless
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.text_factory = usual

    return ask


def _lossless(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


@contextmanager
def following(
    connection: sqlite3.Connection,
    run: int,
    kind: Kind,
    parts: Sequence[str],
    about: Mapping[str, Any] | None = None,
    expected: Collection[int] = (),
) -> Iterator[None]:
    """Record in a run's chain what a block changes in these parts, in its transaction; does nothing without a chain.

    `expected` has the positions of the answers that the block works on.
    """
    ask = lossless_query(connection)
    key = key_of(ask, run)
    if not parts or last_link(ask, key) is None:
        yield
        return
    # Check the parts before the block if their rows cannot be compared one by one after it.
    others = [
        part for part in parts if part in _ONE or part.startswith("together/") or _is_of_other_form(ask, key, part)
    ]
    changes = list(part_differences(ask, run, key, others))
    yield
    states = {part: current_statement(ask, run, part) for part in parts}
    changes += unexpected_changes(ask, run, key, {part: states[part] for part in parts if part not in others}, expected)
    append(connection, run, kind, states, about, changes)


def _is_of_other_form(ask: Ask, key: str, part: str) -> bool:
    said = kept_statement(ask, key, part)
    return said is not None and said.form != FORM


def key_of(ask: Ask, run: int) -> str:
    """The key of a run; empty where it is not there."""
    return next((str(key) for (key,) in ask("SELECT key FROM runs WHERE id = ?", [run])), "")


def append(
    connection: sqlite3.Connection,
    run: int,
    kind: Kind,
    states: Mapping[str, Statement],
    about: Mapping[str, Any] | None = None,
    changes: Sequence[Change] = (),
) -> None:
    """Append a record that states parts of a run to its chain, the first one too."""
    key = key_of(lossless_query(connection), run)
    _append(connection, key, kind, {part: said.digest for part, said in states.items()}, about, changes)
    connection.executemany(
        "INSERT OR REPLACE INTO statements VALUES (?,?,?,?)",
        [(key, part, canonical(said.plain()).decode(), said.hints) for part, said in states.items()],
    )


def _append(
    connection: sqlite3.Connection,
    key: str,
    kind: Kind,
    states: Mapping[str, str],
    about: Mapping[str, Any] | None = None,
    changes: Sequence[Change] = (),
) -> None:
    last = last_link(lossless_query(connection), key)
    numbers = "SELECT ifnull(max(number), 0) + 1 FROM chain WHERE run = ? AND typeof(number) = 'integer'"
    ((number,),) = connection.execute(numbers, [key]).fetchall()
    sign, why = None, ""
    try:
        sign = own_key().sign
    except KeyProblem as problem:
        why = str(problem)
    record = Record(
        run=key,
        number=number,
        kind=kind,
        time=time.time(),
        previous=next_previous(last),
        program=__version__,
        states=states,
        unexpected=plain_changes(changes),
        about=about or {},
        unsigned=why,
    )
    link = appended(record, sign)
    connection.execute("INSERT INTO chain VALUES (?,?,?,?,?)", [key, link.number, link.text, link.key, link.signature])


def part_differences(ask: Ask, run: int, key: str, parts: Iterable[str]) -> Iterator[Change]:
    """How parts of a run differ from what its chain states."""
    for part in parts:
        said = kept_statement(ask, key, part)
        if _is_lost(ask, key, part, said):
            yield Change(part, (DIGESTS,))
        elif said is not None and said.open is not None:
            change = difference(part, said, current_statement(ask, run, part, said))
            if change is not None:
                yield change


def _is_lost(ask: Ask, key: str, part: str, said: Statement | None) -> bool:
    """Whether the kept statement of a part is not the one that the chain has last."""
    stated = None
    for link in links_of(ask, key):
        stated = _content_of(link).get("states", {}).get(part, stated)
    return stated is not None and (said is None or said.digest != stated)


def unexpected_changes(
    ask: Ask, run: int, key: str, states: Mapping[str, Statement], expected: Collection[int] = ()
) -> Iterator[Change]:
    """Changes of stated rows that happened before, without a record."""
    for part, now in states.items():
        said = kept_statement(ask, key, part)
        if part in _ONE:
            continue
        if _is_lost(ask, key, part, said):
            yield Change(part, (DIGESTS,))
        elif said is None:
            continue
        elif part in _UNNAMED or said.form != now.form:
            yield from part_differences(ask, run, key, [part])
        elif (change := unexpected(part, said, now, expected)) is not None:
            yield change


def _content_of(link: Link) -> dict[str, Any]:
    """The content of a record, unchecked; None if it is not a record."""
    try:
        content = json.loads(link.text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) and isinstance(content.get("states"), dict) else {}


def deleted(connection: sqlite3.Connection, run: int, kind: Kind) -> None:
    """Note in the chain of a run that it is being deleted; the chain stays."""
    ask = lossless_query(connection)
    key = key_of(ask, run)
    last = last_link(ask, key)
    if last is not None and _content_of(last).get("kind") not in DELETIONS:
        _append(connection, key, kind, {})
        connection.execute("DELETE FROM statements WHERE run = ?", [key])


def migrated(connection: sqlite3.Connection, before: int, after: int) -> None:
    """Append a record of the migration to every chain."""
    for (key,) in connection.execute("SELECT DISTINCT run FROM chain").fetchall():
        _append(connection, key, "migration", {}, {"from": before, "to": after})


def repaired(connection: sqlite3.Connection) -> None:
    """State the parts again that a repair could not save completely, so that each chain says what was lost."""
    ask = lossless_query(connection)
    for run, key in connection.execute("SELECT id, key FROM runs WHERE key IN (SELECT run FROM chain)").fetchall():
        changes = list(part_differences(ask, run, key, parts_of(ask, run)))
        if changes:
            append(
                connection,
                run,
                "repair",
                {one.part: current_statement(ask, run, one.part) for one in changes},
                {},
                changes,
            )


# -- the end of an execution

_QUICK = (*sorted(_ONE), "labels")
"""Parts that others change too, and that are stated in the transaction of the record."""


@dataclass(frozen=True, slots=True)
class PreparedEnd:
    """The statements for the end of an execution, prepared while others may write."""

    mark: tuple[object, ...]
    states: Mapping[str, Statement]


def prepare_end(connection: sqlite3.Connection, run: int, *, again: bool) -> PreparedEnd:
    """State the answers and verdicts of a run; after judging `again`, only what that may have changed."""
    ask = lossless_query(connection)
    key, mark = key_of(ask, run), _mark(ask, run)
    known = {part for (part,) in ask("SELECT part FROM statements WHERE run = ?", [key])}
    states = {}
    for part in parts_of(ask, run):
        number = part.partition("/")[2]
        is_past = number and int(number) != mark[0]
        if part not in _QUICK and not (part in known and (is_past or (again and part == "answers"))):
            states[part] = current_statement(ask, run, part)
    return PreparedEnd(mark, states)


def end(connection: sqlite3.Connection, run: int, prepared: PreparedEnd, kind: Kind, about: Mapping[str, Any]) -> bool:
    """Append the record of an end; False if something changed since it was prepared."""
    ask = lossless_query(connection)
    if _mark(ask, run) != prepared.mark:
        return False
    key = key_of(ask, run)
    changes = list(part_differences(ask, run, key, _QUICK))
    changes += unexpected_changes(ask, run, key, prepared.states)
    states = {**prepared.states, **{part: current_statement(ask, run, part) for part in _QUICK}}
    append(connection, run, kind, states, about, changes)
    return True


def _mark(ask: Ask, run: int) -> tuple[object, ...]:
    """Something else whenever an answer, a verdict or a call of a run changed."""
    query = (
        "SELECT scoring_pass, (SELECT max(seq) FROM answers WHERE run = r.id), "
        "(SELECT max(id) FROM calls WHERE run = r.id), (SELECT max(id) FROM earlier WHERE run = r.id) "
        "FROM runs r WHERE id = ?"
    )
    return next(iter(ask(query, [run])), ())
