"""The result of verifying a run, in words: who signed it, what changed, where its answers come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tui_evals.light_records import dataclass
from tui_evals.present.figures import local_time
from tui_evals.provenance.chain import Change, Kind, Link, Record
from tui_evals.provenance.keys import Signer, fingerprint, signer_of
from tui_evals.store.chains import DIGESTS
from tui_evals.store.verifying import UNSTATED, CachedFrom, Verified
from tui_evals.text.measures import counted

ProvenanceVerdict = Literal[
    "unchanged", "unknown key", "changed", "broken", "unsigned", "not signed", "deleted", "unfinished", "executed"
]
"""The verdict on a run. Only `unchanged` says that you, or a person you trust, signed all of its current state."""

_NAMED = 20
_PARTS = {
    "plan": "the plan",
    "about": "the name, tags and note",
    "outcome": "the outcome",
    "answers": "answers",
    "verdicts": "verdicts of answers",
    "pass": "scoring pass {}",
    "scores": "scores of pass {}",
    "together": "scores of answers together, of pass {}",
    "earlier": "earlier attempts",
    "calls": "calls",
    "labels": "verdicts of people",
}
_COLUMNS = {
    "document": "dataset",
    "config": "settings",
    "pos": "order",
    "answer": "details of the answer",
    "scores": "earlier scores",
    "judging": "earlier judging",
}
_KINDS: dict[Kind, str] = {
    "end": "ended",
    "interruption": "interrupted",
    "import": "imported",
    "state": "state or settings changed",
    "edit": "name, tags or note changed",
    "pass": "judged again",
    "rejudged": "one answer judged again",
    "reopened": "errors to be asked again",
    "verdict": "verdict of a person",
    "deletion": "deleted",
    "prune": "deleted by `runs prune`",
    "migration": "store brought up to date",
    "repair": "store repaired",
}


@dataclass(frozen=True, slots=True)
class Provenance:
    """The wording for a run and its chain."""

    verdict: ProvenanceVerdict
    sentence: str
    details: tuple[str, ...]
    """Changes and unsigned parts."""
    sources: tuple[str, ...]
    """The sources of its answers."""

    @property
    def holds(self) -> bool:
        """Whether everything is as a known key signed it."""
        return self.verdict == "unchanged"


def provenance(found: Verified, *, is_live: bool = False) -> Provenance:
    """The verdict on a verified run; `is_live` while a process executes it."""
    signers = [signer_of(key) for key in found.keys if key]
    verdict = _verdict(found, signers, is_live)
    details = [f"  {line}" for change in found.changes for line in change_lines(change, found)]
    for record, change in found.unexpected:
        details.append(f"  before the record of {local_time(record.time)} ({_KINDS[record.kind]}):")
        details += [f"    {line}" for line in change_lines(change, found)]
    if found.later and not is_live:
        came = f"{counted(found.later, 'answer')} came later and are not signed"
        details.append(f"  {came}. `tui-evals resume {found.run}` continues the run and signs them")
    if found.later_calls:
        details.append(f"  {counted(found.later_calls, 'call')} noted later, with their cost, are not signed")
    sources = tuple(source_lines(found))
    return Provenance(verdict, _sentence(found, verdict, signers), tuple(details), sources)


def _verdict(found: Verified, signers: Sequence[Signer], is_live: bool) -> ProvenanceVerdict:
    if found.broken:
        return "broken"
    if not found.records:
        return "executed" if is_live else "not signed"
    if found.is_deleted:
        return "deleted"
    if found.changes or found.unexpected:
        return "changed"
    if is_live:
        return "executed"
    if "" in found.keys:
        return "unsigned"
    if found.later:
        return "unfinished"
    return "unknown key" if any(signer.standing == "unknown" for signer in signers) else "unchanged"


def _sentence(found: Verified, verdict: ProvenanceVerdict, signers: Sequence[Signer]) -> str:
    run = f"Run {found.run}"
    if verdict == "not signed":
        return f"{run} was not signed. It is from an earlier tui-evals, or its process was killed before it ended."
    if verdict == "executed":
        return f"{run} is being executed. It is signed when it ends."
    if verdict == "broken":
        return f"The chain of run {found.run} does not hold: {found.broken}."
    first, last = found.records[0][0], _last_stating(found)
    by = " and ".join(map(signer_text, signers)) or "no key"
    when = local_time(last.time)
    if verdict == "deleted":
        return f"{run} was deleted on {local_time(found.records[-1][0].time)}. Its chain holds. Signed by {by}."
    if verdict == "unsigned":
        unsigned = next((record.unsigned for record, _ in reversed(found.records) if record.unsigned), "")
        return f"{run} is as it was noted on {when}, but not all of it is signed: {unsigned}."
    if verdict == "changed":
        return f"{run} was changed outside tui-evals after {local_time(first.time)}. It was signed by {by}."
    if verdict == "unfinished":
        return f"{run} is unchanged where it was signed by {by} on {when}, and has unsigned answers."
    if verdict == "unknown key":
        return f"{run} is unchanged since it was signed by {by} on {when}. Trust only a key that its owner gave you."
    return f"{run} is unchanged since it was signed by {by} on {when}."


def _last_stating(found: Verified) -> Record:
    return next((record for record, _ in reversed(found.records) if record.states), found.records[-1][0])


def signer_text(signer: Signer) -> str:
    """The signer, with the fingerprint of the key."""
    who = {"you": "you", "trusted": signer.name, "unknown": "an unknown key"}[signer.standing]
    return f"{who} ({signer.fingerprint})"


def part_text(part: str) -> str:
    """A part of a run in words."""
    kind, _, number = part.partition("/")
    return _PARTS[kind].format(number) if kind in _PARTS else part


def change_lines(change: Change, found: Verified) -> Iterator[str]:
    """The changes of one part: its columns, then the rows by name."""
    what = part_text(change.part)
    if change.columns == (DIGESTS,):
        yield f"{what}: what was kept to check them was changed"
        return
    if change.columns == (UNSTATED,):
        yield f"{what}: added, no record says anything of it"
        return
    columns = [_COLUMNS.get(name, name.replace("_", " ")) for name in change.columns]
    if not (change.changed or change.gone or change.added):
        yield f"{what}: {', '.join(columns)} changed"
    for word, places in (("changed", change.changed), ("gone", change.gone), ("added", change.added)):
        if places and change.part in ("plan", "about", "outcome"):
            yield f"{what}: {', '.join(columns) if word == 'changed' else 'all of it'} {word}"
        elif places:
            names = [found.names.get(place, f"number {place + 1}") for place in places[:_NAMED]]
            more = f" and {counted(len(places) - _NAMED, 'more row')}" if len(places) > _NAMED else ""
            which = f" ({', '.join(columns)})" if word == "changed" and columns else ""
            yield f"{what}{which} {word}: {', '.join(names)}{more}"


def source_lines(found: Verified) -> Iterator[str]:
    """The sources of the answers."""
    sources = found.sources
    if sources.asked:
        yield f"{counted(sources.asked, 'answer')} asked by this run"
    for cached in sources.cached:
        yield f"{counted(cached.answers, 'answer')} from the cache, {_cached_text(cached)}"
    if sources.imported:
        yield f"{counted(sources.imported, 'answer')} imported from {sources.by}: not asked here"
    if sources.unanswered:
        yield f"{counted(sources.unanswered, 'answer')} missing"
    if found.found:
        yield f"{counted(found.found, 'answer')} of these were signed as they were found, after an earlier execution"


def _cached_text(cached: CachedFrom) -> str:
    if not cached.run:
        return "asked by a run that was not noted"
    if cached.standing == "absent":
        return f"asked by run {cached.run}, which this store does not have"
    by = f"signed by {signer_text(signer_of(cached.key))}" if cached.key else "not signed"
    said = f"asked by run {cached.run}, {by}"
    if cached.standing == "deleted":
        return f"{said}, deleted since"
    if cached.changed:
        return f"{said}, CHANGED since"
    return f"{said}, {cached.different:,} of them unlike its answers" if cached.different else said


def head_text(run: str, head: Link | None) -> str:
    """The line that identifies the run in an exported file; empty if it was never signed."""
    if head is None:
        return ""
    by = f"signed by key {fingerprint(head.key)}" if head.key else "not signed"
    return f"Run {run}, chain {head.digest}, {by}"


def head_data(head: Link | None) -> dict[str, str | None] | None:
    """The head of the chain as plain data."""
    if head is None:
        return None
    return {"chain": head.digest, "key": head.key or None, "fingerprint": fingerprint(head.key) if head.key else None}


def history_lines(found: Verified) -> Iterator[str]:
    """The records of the chain, one a line."""
    for record, link in found.records:
        by = signer_text(signer_of(link.key)) if link.key else f"not signed: {record.unsigned}"
        yield f"{record.number:>3}  {local_time(record.time)}  {_KINDS[record.kind]}, {by}"


def provenance_data(found: Verified, said: Provenance) -> dict[str, Any]:
    """All of it as plain data."""
    return {
        "run": found.run,
        "verdict": said.verdict,
        "sentence": said.sentence,
        "fingerprint": found.head,
        "signers": [_signer_data(signer_of(key)) if key else {"standing": "none"} for key in found.keys],
        "changes": [{**change.plain, "answers": _named(change, found)} for change in found.changes],
        "changed_before": [
            {"record": record.number, **change.plain, "answers": _named(change, found)}
            for record, change in found.unexpected
        ],
        "unsigned": {"answers": found.later, "calls": found.later_calls},
        "sources": {
            "asked": found.sources.asked,
            "cached": [
                {
                    "run": cached.run or None,
                    "answers": cached.answers,
                    "standing": cached.standing or None,
                    "signer": _signer_data(signer_of(cached.key)) if cached.key else None,
                    "changed": cached.changed,
                    "different": cached.different,
                }
                for cached in found.sources.cached
            ],
            "imported": found.sources.imported,
            "imported_from": found.sources.by or None,
            "missing": found.sources.unanswered,
            "signed_as_found": found.found,
        },
        "records": [
            {
                "number": record.number,
                "kind": record.kind,
                "time": record.time,
                "key": link.key or None,
                "about": record.about,
            }
            for record, link in found.records
        ],
    }


def _named(change: Change, found: Verified) -> list[str]:
    places = (*change.changed, *change.gone, *change.added)
    return [found.names[place] for place in places if place in found.names]


def _signer_data(signer: Signer) -> dict[str, str]:
    named = {"name": signer.name} if signer.name else {}
    return {"standing": signer.standing, "key": signer.key, "fingerprint": fingerprint(signer.key), **named}
