"""OpenAI Evals registries: their evals and sets by name, which of them run here, and their samples as a document."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path as File
from random import Random
from typing import Any

from pydantic import BaseModel, ValidationError

from tui_evals.datasets.paths import CURRENT_VERSION, DatasetError, Problem
from tui_evals.datasets.validate import problem_of
from tui_evals.evaluators.base import CannotJudge, Evidence
from tui_evals.evaluators.modelgraded import ModelGraded
from tui_evals.imports.base import Losses
from tui_evals.imports.openai_evals import samples as data_files
from tui_evals.imports.openai_evals.files import (
    KINDS,
    Entries,
    RegistryEntry,
    matching,
    nearest,
    read_entries,
    resolved,
    roots_of,
)
from tui_evals.imports.openai_evals.samples import NoData, Recipe, Sample, Unfit
from tui_evals.imports.openai_evals.templates import PLANS, Needs, Plan
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text

SHUFFLE_SEED = 123  # as in the original, whatever --seed is
SEED = 20220722


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The context of an eval beyond its own entry."""

    roots: tuple[File, ...]
    grading: Entries
    catalogue: Mapping[str, type[BaseModel]]
    broken: Mapping[File, DatasetError] = field(default_factory=dict)
    """Files of grading specs that cannot be read."""


@dataclass(frozen=True, slots=True)
class EvalSpec:
    """An eval under its full name, `<eval>.<split>.<version>`."""

    entry: RegistryEntry
    aliases: tuple[str, ...]
    about: Mapping[str, Any]
    """Description, disclaimer and metrics, which the entry that points here holds."""
    surroundings: Surroundings = field(repr=False)
    faithful: bool = False
    """Whether it asks and judges to the letter of the original."""
    data: File | None = None
    """A file of samples to use instead of the one in the entry."""

    @property
    def name(self) -> str:
        """The full name."""
        return self.entry.name

    @property
    def base(self) -> str:
        """The part of the name before the first dot."""
        return self.name.split(".")[0]

    @property
    def split(self) -> str:
        """The second part of the name."""
        return (*self.name.split("."), "")[1]

    @property
    def class_name(self) -> str:
        """The class the original would make, `module:Class`."""
        return str(self.entry.data.get("class", ""))

    @property
    def needs(self) -> Needs:
        """The needs of a run; DatasetError if the entry cannot be used."""
        return self._plan().needs

    def unlike(self) -> tuple[str, ...]:
        """Why the figures of a faithful run do not compare with those of the original; nothing where they do."""
        plan = self._plan()
        own = ("its samples come from another file than its entry names",) if self.data and not plan.differs else ()
        return (*plan.differs, *own)

    def reasons(self) -> tuple[str, ...]:
        """Why it cannot run here; none where it can."""
        return tuple(dict.fromkeys(message for message, _ in self._reasons()))

    def document(self, max_samples: int | None = None, seed: int = SEED) -> tuple[dict[str, Any], Losses]:
        """The eval as an eval document, and the losses; DatasetError if it cannot run.

        `max_samples` takes that many in the order of the original. `seed` shuffles the choices of multiple-choice
        questions.
        """
        plan = self._plan()
        for message, field_of_it in self._reasons():
            raise self.entry.error(message, *field_of_it)
        samples = self._samples(plan)
        recipe, losses = self._with_examples(plan)
        items = _items(self._chosen(samples, max_samples), recipe, f"{self.base}.{self.split}", seed)
        self._note(plan, items, losses)
        return self._document(plan, items, {"max_samples": max_samples, "seed": seed}), losses

    def _plan(self) -> Plan:
        make = PLANS.get(self.class_name)
        if make is None:
            why = f"the class {self.class_name[:100]} has no equal here" if self.class_name else "names no class"
            raise self.entry.error(why, "class")
        if self.data is None:
            return make(self.entry, self.surroundings.grading, self.faithful)
        args = self.entry.data.get("args")
        given = dict(args) if isinstance(args, Mapping) else {}
        named = {"dataset" if "dataset" in given else "samples_jsonl": str(self.data)}
        entry = replace(self.entry, data={**self.entry.data, "args": {**given, **named}})
        return make(entry, self.surroundings.grading, self.faithful)

    def _reasons(self) -> Iterator[tuple[str, Sequence[str]]]:
        """The reasons why it cannot run, each with the field of the entry."""
        if "." not in self.name:
            yield "its name has no dot; a full name is <eval>.<split>.<version>", ()
        try:
            plan = self._plan()
        except DatasetError as problem:
            yield "; ".join(part.message for part in problem.problems), ()
            return
        for message in plan.missing:
            yield message, ("class",)
        model = self.surroundings.catalogue.get(plan.evaluator)
        if model is None:
            yield f"there is no evaluator {plan.evaluator} here", ("class",)
        else:
            yield from ((message, ("args",)) for message in _refused(model, plan.options))
        yield from ((message, ("args", "modelgraded_spec")) for message in self._lost_specs(plan))
        yield from self._data_reasons(plan)

    def _lost_specs(self, plan: Plan) -> Iterator[str]:
        """Unreadable files that may have the grading spec, so no other one is used."""
        name = str(plan.options.get("spec", "#"))
        if "#" in name:
            return
        written = re.compile(rf"""^["']?{re.escape(name)}["']?[ \t]*:""", re.MULTILINE)
        for file, problem in self.surroundings.broken.items():
            try:
                held = written.search(read_text(file, errors="replace", root=file.parents[1]))
            except OSError:
                held = None
            if held:
                yield f"its grading spec {name} is in a file that cannot be read: {problem}"

    def _data_reasons(self, plan: Plan) -> Iterator[tuple[str, Sequence[str]]]:
        for given, named in ((plan.data, plan.data_field), (plan.few_shot, "few_shot_jsonl")):
            try:
                if given:
                    data_files.files_of(self._located(given))
            except NoData as problem:
                yield str(problem), ("args", named)
                return
        if plan.recipe is None or plan.evaluator != "ModelGraded":
            return
        try:
            samples = self._samples(plan)
            items = _items(samples if len(plan.recipe.inputs) > 1 else samples[:1], plan.recipe, "", SEED)
            grading_prompt(plan.options, items[0])
        except DatasetError as problem:
            yield str(problem).partition("\n")[0], ("args", plan.data_field)
        except ValidationError:  # which the options have been refused for
            return
        except CannotJudge as problem:
            yield f"the judge could not be asked about its first sample: {problem}", ("args", "modelgraded_spec")

    def _located(self, given: str) -> File:
        if self.data is not None and given == str(self.data):
            return self.data
        return data_files.located(given, self.entry.root, self.surroundings.roots)

    def _samples(self, plan: Plan) -> list[Sample]:
        if plan.inline:
            return [
                Sample(place, self.entry.file, self.entry.line, dict(data)) for place, data in enumerate(plan.inline)
            ]
        path = self._located(plan.data or "")
        samples = data_files.read(path)
        if plan.shuffled:
            order = data_files.shuffled_as_there(len(samples), SEED)
            samples = [replace(samples[place], index=number) for number, place in enumerate(order)]
        samples = samples[: plan.most]
        if not samples:
            raise DatasetError(str(path), [Problem("holds no samples; write one JSON object a line")])
        return samples

    def _chosen(self, samples: list[Sample], max_samples: int | None) -> list[Sample]:
        if max_samples is None:
            return samples
        if max_samples < 1:
            raise self.entry.error("max_samples must be 1 or more")
        order = list(range(len(samples)))
        Random(SHUFFLE_SEED).shuffle(order)
        return [samples[place] for place in order[:max_samples]]

    def _with_examples(self, plan: Plan) -> tuple[Recipe, Losses]:
        """The recipe with the examples it shows."""
        losses = Losses()
        losses.extend(plan.losses)
        if plan.recipe is None:
            raise self.entry.error("has no samples that could be read", "args")
        if plan.few_shot is None:
            return plan.recipe, losses
        examples = data_files.read(self._located(plan.few_shot))[: plan.num_few_shot]
        if len(examples) < plan.num_few_shot:
            losses.changed(f"num_few_shot {plan.num_few_shot}", self.entry.where, f"the file holds {len(examples)}")
        for example in examples:
            if "sample" not in example.data:
                problems = [Problem("an example needs sample, a list of messages", ("sample",), example.line)]
                raise DatasetError(str(example.file), problems)
        return replace(plan.recipe, few_shot=tuple(example.data for example in examples)), losses

    def _note(self, plan: Plan, items: list[dict[str, Any]], losses: Losses) -> None:
        where = self.entry.where
        losses.carried(f"{len(items)} samples", where)
        as_user = any("prompt" in item and "messages" not in item for item in items)
        if as_user and not self.faithful and not (plan.recipe and plan.recipe.make):
            losses.changed("input that is text", where, "asked as the user; the original sends it as a system message")
        if plan.data and self._located(plan.data).is_dir():
            why = "numbered by the names of its files; the original goes by the order of the file system"
            losses.changed("a folder of samples", where, why)
        if not self.faithful and any(item.get("ideal") == [] for item in items):
            losses.changed("samples with an empty list of ideals", where, "an error here; the original counts a miss")
        if any("response" in item for item in items):
            why = "judged as they are, and asked of no target"
            losses.changed("answers the samples hold already", where, why)
        for name in sorted(set(self.entry.data) - {"class", "args", "id", "description", "metrics", "disclaimer"}):
            losses.left_out(name, where, "the original ignores it as well")
        if self.about.get("metrics"):
            losses.left_out("metrics", where, "a run here reports its own")

    def _document(self, plan: Plan, items: list[dict[str, Any]], chosen: Mapping[str, Any]) -> dict[str, Any]:
        texts = (self.about.get("description"), self.about.get("disclaimer"))
        description = "\n\n".join(text for text in texts if isinstance(text, str))
        args = self.entry.data.get("args") or {}
        manner = {"faithful": True} if self.faithful else {}
        given = [item for item in items if "response" in item]
        for item in given if plan.needs.answers > 1 else ():
            item["repeats"] = 1  # one item for all answers that are judged together
        held = {"given": [item["testId"] for item in given]} if given else {}
        origin = {"eval": self.name, "class": self.class_name, "args": args, **chosen, **manner, **held}
        origin |= plan.needs.plain()
        return {
            "schemaVersion": CURRENT_VERSION,
            "metadata": {"name": self.name} | ({"description": description} if description else {}),
            "default_evaluators": {plan.evaluator: plan.options},
            **({"repeats": plan.needs.answers} if plan.needs.answers > 1 else {}),
            "extensions": {"openai_evals": origin},
            "items": items,
        }


def _items(samples: list[Sample], recipe: Recipe, split: str, seed: int) -> list[dict[str, Any]]:
    """The items of samples; DatasetError names the lines that cannot be one."""
    items: list[dict[str, Any]] = []
    problems: dict[File, list[Problem]] = {}
    for sample in samples:
        name = f"{split}.{sample.index}"
        try:
            items.append({"testId": name, **recipe.item(sample.data, Random(f"{name}:{seed}".encode()), sample.file)})
        except Unfit as problem:
            problems.setdefault(sample.file, []).append(Problem(str(problem), problem.path, sample.line))
    for file, wrong in problems.items():
        raise data_files.too_many(file, wrong)
    return items


def grading_prompt(options: Mapping[str, Any], item: Mapping[str, Any]) -> None:
    """Make the question to the judge about an item that is not answered yet; CannotJudge where that cannot be done."""
    made = ModelGraded(ModelGraded.Options.model_validate(dict(options)))
    missing = sum(output not in item.get("variables", {}) for output in made.outputs)
    together = (
        made.count if isinstance(made.count, int) and made.count > 1 else 2 if len(made.outputs) == 1 else missing
    )
    prompt = [{"role": "user", "content": item["prompt"]}] if "prompt" in item else []
    evidence = Evidence(
        request=(*item.get("messages", ()), *prompt),
        response=item.get("response", "-"),
        expected=item.get("expected_response"),
        alternatives=tuple(item.get("ideal", ())),
        variables=item.get("variables", {}),
        completions=("-",) * together,
    )
    for _ in made.questions(evidence):
        pass


def _refused(model: type[BaseModel], options: Mapping[str, Any]) -> Iterator[str]:
    try:
        model.model_validate(dict(options))
    except ValidationError as errors:
        yield str(problem_of(errors.errors(include_url=False)[0], model))


@dataclass(frozen=True, slots=True)
class Listed:
    """One eval of a registry; without reasons it can run here."""

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
        """Its class without the module."""
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
        """The evals with a name, matching a pattern with `*`, or in a set; an eval wins over a set of the same name."""
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
        """The evals of each set that is found by its name; only sets with one of the `shown` evals, if given."""
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
        """The needs of an eval's run besides a target."""
        return next(spec.needs for spec in self.find(name) if spec.name == name)

    def remarks(self) -> list[str]:
        """Oddities that affect no other eval: unreadable files, repeated keys, hidden sets, unknown names in sets."""
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
        """The entries that refer to each full name."""
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
