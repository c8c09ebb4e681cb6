"""A registry as a whole: its evals and sets by name, which of them run here, and what is odd about it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path as File

from pydantic import BaseModel

from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.light_records import dataclass

from .evals import EvalSpec, Surroundings
from .files import KINDS, Entries, RegistryEntry, matching, nearest, read_entries, resolved, roots_of
from .templates import Needs


@dataclass(frozen=True, slots=True)
class Listed:
    """One eval of a registry; without reasons it runs here."""

    name: str
    aliases: tuple[str, ...]
    class_name: str
    description: str
    where: str
    reasons: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether it can run here."""
        return not self.reasons

    @property
    def kind(self) -> str:
        """Its class without the module it is in."""
        return self.class_name.rpartition(":")[2]

    def fits(self, words: Sequence[str]) -> bool:
        """Whether it has every word in its names, class or description, and none of those with a ! before them."""
        text = " ".join((self.name, *self.aliases, self.class_name, self.description)).casefold()
        return all((word.removeprefix("!").casefold() in text) != word.startswith("!") for word in words)


def load_named(paths: str, catalogue: Mapping[str, type[BaseModel]]) -> Registry:
    """The registry in the folder of a name, or in several that are separated by commas; see `load`."""
    named = [paths] if File(paths).is_dir() else [part.strip() for part in paths.split(",") if part.strip()]
    if not named:
        raise NoFolder("name the folder of a registry, or several by commas")
    return load([File(part) for part in named], catalogue)


_PARTICULAR = re.compile(r"(?<=class )[\w.:]+|[\w.:-]*/[^\s,;]+")


def by_reason(reasons: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The names of evals by why they cannot run, the commonest reason first; paths and classes tell none apart."""
    names: dict[str, list[str]] = {}
    for name, found in reasons.items():
        for reason in found:
            names.setdefault(_PARTICULAR.sub("…", reason), []).append(name)
    return dict(sorted(names.items(), key=lambda entry: -len(entry[1])))


class NoFolder(ValueError):
    """No folder of a registry is named."""


def load(paths: Sequence[File], catalogue: Mapping[str, type[BaseModel]]) -> Registry:
    """The registry in one or more folders (each may be the parent of one); DatasetError where a file is malformed.

    `catalogue` holds the options of the evaluators there are, as validation takes it.
    """
    roots = roots_of(paths)
    broken: dict[File, DatasetError] = {}
    notes: list[str] = []
    entries = {kind: read_entries(roots, kind, broken, notes) for kind in KINDS}
    return Registry(roots, entries, catalogue, broken, tuple(notes))


class Registry:
    """The entries of all folders together."""

    def __init__(
        self,
        roots: tuple[File, ...],
        entries: Mapping[str, Entries],
        catalogue: Mapping[str, type[BaseModel]],
        broken: Mapping[File, DatasetError],
        notes: tuple[str, ...] = (),
    ) -> None:
        self.roots = roots
        self.entries = entries
        self._notes = (*map(str, broken.values()), *notes)
        grading = {file: problem for file, problem in broken.items() if file.parent.name == "modelgraded"}
        self._surroundings = Surroundings(roots, entries["modelgraded"], catalogue, grading)

    def find(self, name: str) -> list[EvalSpec]:
        """The evals of a name, a pattern with `*`, or a set; an eval wins over a set of the same name."""
        evals, sets = self.entries["evals"], self.entries["eval_sets"]
        names = matching(name, evals)
        if not names and name in sets:
            names = list(self._expanded(name, ()))
            if not names:
                raise resolved(sets, name, "set").error(f"no eval is known that the set '{name}' names", "evals")
        if not names:
            known = nearest(name, (*evals, *sets)) or "; `tui-evals registry PATH` lists all"
            message = f"there is no eval or set named '{name[:80]}'{known}"
            raise DatasetError(", ".join(map(str, self.roots)), [Problem(message)])
        full = dict.fromkeys(resolved(evals, full_name, "eval").name for full_name in names)
        return [self._spec(evals[full_name]) for full_name in full]

    def listing(self) -> list[Listed]:
        """Every eval with its other names and why it cannot run here, and every name that leads nowhere."""
        rows: list[Listed] = []
        for entry in self.entries["evals"].values():
            try:
                if resolved(self.entries["evals"], entry.name, "eval") is not entry:
                    continue
            except DatasetError as problem:
                reason = "; ".join(part.message for part in problem.problems)
                rows.append(Listed(entry.name, (), "", "", entry.where, (reason,)))
                continue
            spec = self._spec(entry)
            text = spec.about.get("description")
            description = text if isinstance(text, str) else ""
            rows.append(Listed(spec.name, spec.aliases, spec.class_name, description, entry.where, spec.reasons()))
        return rows

    def sets(self, shown: Collection[str] | None = None) -> dict[str, list[str]]:
        """The evals of each set that is found by its name; of those only that hold one of the `shown`, if any are."""
        sets: dict[str, list[str]] = {}
        for name in self.entries["eval_sets"]:
            if name in self.entries["evals"]:
                continue  # an eval hides it, which is a remark
            try:
                evals = [spec.name for spec in self.find(name)]
            except DatasetError:  # a remark says which of its names lead nowhere
                evals = []
            if shown is None or set(evals) & set(shown):
                sets[name] = evals
        return sets

    def needs(self, name: str) -> Needs:
        """What a run of an eval needs besides a target."""
        return next(spec.needs for spec in self.find(name) if spec.name == name)

    def remarks(self) -> list[str]:
        """What is odd and breaks no other eval: unreadable files, keys twice, hidden sets, dead names in sets."""
        evals, sets = self.entries["evals"], self.entries["eval_sets"]
        remarks = list(self._notes)
        remarks += [
            f"{entry.where}: the set '{name}' has the name of an eval, which is found first"
            for name, entry in sets.items()
            if name in evals
        ]
        for name, entry in sets.items():
            if "id" in entry.data:
                continue
            try:
                patterns = self._patterns(entry)
            except DatasetError as problem:
                remarks.append(str(problem))
                continue
            remarks += [
                f"{entry.where}: the set '{name}' names '{pattern}', and there is no such eval{nearest(pattern, evals)}"
                for pattern in patterns
                if pattern not in sets and not matching(pattern, evals)
            ]
        return remarks

    def _expanded(self, name: str, trail: tuple[str, ...]) -> Iterator[str]:
        """The names of evals in a set, and in the sets it names."""
        evals, sets = self.entries["evals"], self.entries["eval_sets"]
        entry = resolved(sets, name, "set")
        if entry.name in trail:
            raise entry.error(f"the sets hold one another: {' -> '.join((*trail, entry.name))}", "evals")
        for pattern in self._patterns(entry):
            names = matching(pattern, evals)
            yield from names
            if not names and pattern in sets:
                yield from self._expanded(pattern, (*trail, entry.name))

    @staticmethod
    def _patterns(entry: RegistryEntry) -> list[str]:
        given = entry.data.get("evals")
        if not isinstance(given, list) or not given or not all(isinstance(part, str) for part in given):
            raise entry.error("a set needs evals: a list of names or patterns", "evals")
        return given

    @cached_property
    def _aliases(self) -> Mapping[str, list[RegistryEntry]]:
        """The entries that stand for each full name."""
        evals, aliases = self.entries["evals"], dict[str, list[RegistryEntry]]()
        for entry in evals.values():
            if "id" in entry.data:
                try:
                    aliases.setdefault(resolved(evals, entry.name, "eval").name, []).append(entry)
                except DatasetError:  # the listing has it as an eval that cannot run
                    continue
        return aliases

    def _spec(self, entry: RegistryEntry) -> EvalSpec:
        others = self._aliases.get(entry.name, [])
        about = next((other.data for other in others if other.data.keys() - {"id"}), entry.data)
        return EvalSpec(entry, tuple(other.name for other in others), about, self._surroundings)
