"""Rows of promptfoo's CSV tests: columns are variables, but for those that start with two underscores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path as File
from typing import Any

from tui_evals.datasets.paths import DatasetError
from tui_evals.evaluators.base import CannotJudge
from tui_evals.evaluators.javascript_engine import CodeFailed, Module, Script, value_of
from tui_evals.evaluators.trust import Trust, TrustError
from tui_evals.imports.base import Losses, shown
from tui_evals.imports.promptfoo.values import CodeFiles, NotCarried, Seen, transform_code
from tui_evals.light_records import dataclass
from tui_evals.project_files import read_bytes
from tui_evals.runs.project import trusts_all
from tui_evals.text import strictjson
from tui_evals.text.measures import counted
from tui_evals.text.templates import TemplateError

from .asserts import KINDS, Asserts, Judged, Version, keyed
from .files import Source, Spot, files_named, named_file, shown_name, source_of
from .values import ENV, Values, as_jinja, filled, needs_values, script_text

_CALLED = re.compile(r"(?P<kind>[a-z][a-z0-9:-]*?)(?:\((?P<threshold>\d+(?:\.\d+)?)\))?(?::(?P<value>.*))?", re.DOTALL)
_LISTS = frozenset(("contains-all", "contains-any", "icontains-all", "icontains-any"))
_LIMITS = frozenset(("latency", "cost", "levenshtein", "rouge-n", "similar", "starts-with"))
_USUAL_LIMIT = 0.75  # what promptfoo takes where a cell names no threshold
_ABOUT_ASSERTS = ("__config:", "__metric")
_OF_CONFIG = re.compile(r"__config:__expected(\d*):(\w+)")


def case_of_row(spot: Spot, kinds: frozenset[str], losses: Losses) -> dict[str, Any]:
    """The test in a row; `kinds` are the assertions that a cell can begin with."""
    case: dict[str, Any] = {"vars": {}}
    asserts: list[dict[str, Any]] = []
    for column, cell in spot.value.items():
        if not column.startswith("__"):
            if column:
                case["vars"][column] = cell
        elif column.startswith("__expected"):
            if cell.strip():
                asserts.append(assert_of_cell(cell.strip(), kinds))
        elif cell.strip() and not (column.startswith(_ABOUT_ASSERTS) or _special(spot, column, cell, case)):
            losses.left_out(f"the column {column}", spot.where, "there is no equal")
    _configure(spot, asserts)
    return {**case, "assert": asserts} if asserts else case


def _special(spot: Spot, column: str, cell: str, case: dict[str, Any]) -> bool:
    if column == "__description":
        case["description"] = cell
    elif column in ("__prefix", "__suffix"):
        case.setdefault("options", {})[column.removeprefix("__")] = cell
    elif column == "__providerOutput":
        case["providerOutput"] = cell
    elif column == "__threshold":
        case["threshold"] = _number(spot, column, cell)
    elif column.startswith("__metadata:"):
        name = column.removeprefix("__metadata:")
        value: Any = cell
        if name.endswith("[]"):
            name, value = name[:-2], [part.strip().replace("\\,", ",") for part in re.split(r"(?<!\\),", cell)]
        case.setdefault("metadata", {})[name] = value
    else:
        return False
    return True


def _number(spot: Spot, column: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise spot.wrong(f"{column} must be a number, not {cell[:40]!r}") from None


def _configure(spot: Spot, asserts: list[dict[str, Any]]) -> None:
    """Columns that say more about the assertions of the row: a metric of all, a threshold of one."""
    row: Mapping[str, str] = spot.value
    if metric := row.get("__metric", "").strip():
        for one in asserts:
            one["metric"] = metric
    for column, cell in row.items():
        match = _OF_CONFIG.fullmatch(column)
        if match and cell.strip():
            at = int(match[1] or 1) - 1
            if match[2] != "threshold" or not 0 <= at < len(asserts):
                raise spot.wrong(f"{column} names no threshold of an assertion in this row")
            asserts[at]["threshold"] = _number(spot, column, cell)


def assert_of_cell(cell: str, kinds: frozenset[str]) -> dict[str, Any]:
    """The assertion in a cell; other text must be equal to the answer."""
    for code in ("javascript:", "fn:", "eval:"):
        if cell.startswith(code):
            return {"type": "javascript", "value": cell.removeprefix(code)}
    if cell.startswith("grade:"):
        return {"type": "llm-rubric", "value": cell.removeprefix("grade:")}
    if cell.startswith("file://"):
        return {"type": "python" if ".py" in cell else "javascript", "value": cell}
    match = _CALLED.fullmatch(cell)
    if not match or match["kind"].removeprefix("not-") not in kinds:
        return {"type": "equals", "value": cell}
    kind, value = match["kind"], match["value"]
    bare = kind.removeprefix("not-")
    case: dict[str, Any] = {"type": kind}
    if value:
        case["value"] = [part.strip() for part in value.split(",")] if bare in _LISTS else value.strip()
    if match["threshold"] or bare in _LIMITS:
        case["threshold"] = float(match["threshold"] or _USUAL_LIMIT)
    return case


KEPT = "tui_evals"
KEPT_FIELDS: tuple[str, ...] = (
    *("testId", "category", "notes", "tags", "description"),
    *("expected_response", "ideal", "context", "weight", "repeats"),
)
MOST_ITEMS = 20_000
MOST_CODE = 4_000_000
TRANSFORMS = ("transform", "postprocess")
_SIDES = ("prefix", "suffix")
_AROUND = ("before_prompt", "after_prompt")
_MADE_BY_CODE = "they are made by code; write what it returns to tests.json, name that file here and import again"
_CODE = (".py", ".js", ".ts", ".mjs", ".cjs", ".rb")
_FIELDS = frozenset(("description", "vars", "assert", "threshold", "metadata", "options", "providerOutput"))

_WHY_NOT = {
    "assertScoringFunction": "its code decides there what passes; here each assertion has to, or the threshold's share",
    "provider": "every target of a run is asked every item",
    "providers": "every target of a run is asked every item",
    "prompts": "every prompt of a run is asked with every item",
}

_ANSWER = Seen()

Layers = tuple[Spot, ...]


@dataclass(frozen=True)
class Tests:
    """The tests of a configuration; `renders` tells whether variables are templates too."""

    root: Spot
    folder: File
    renders: bool
    losses: Losses
    version: Version | None = None
    """The version of promptfoo that the configuration was written for."""
    seen: Seen = _ANSWER
    """What is judged unless a test sets it: the answer, or the transform of all providers."""
    code: CodeFiles = field(default_factory=CodeFiles)
    """The custom evaluators that assertions which are code become."""
    elsewhere: list[str] = field(default_factory=list, init=False)
    """The sources of tests that cannot be read, because code generates them or they are stored elsewhere."""
    _noted: set[str] = field(default_factory=set, init=False)

    @cached_property
    def default(self) -> Spot | None:
        """The default test, from its file where it names one."""
        spot = self.root.get("defaultTest")
        if spot is not None and isinstance(spot.value, str):
            file = files_named(spot, self.folder, spot.value)[0]
            source = source_of(file, shown_name(file, self.folder)).note_dates(self.losses)
            spot = Spot(source, (), source.value)
        if spot is not None:
            spot.mapping()
        return spot

    @cached_property
    def cases(self) -> list[Layers]:
        """Every test as its layers, the later over the earlier; the default test is not among them."""
        tests, scenarios = self.root.get("tests"), self.root.get("scenarios")
        cases: list[Layers] = [(spot,) for spot in self._listed(tests)] if tests is not None else []
        for scenario in self._listed(scenarios) if scenarios is not None else ():
            cases += self._of_scenario(scenario)
        return cases if tests is not None or scenarios is not None else [()]

    def _of_scenario(self, scenario: Spot) -> list[Layers]:
        config, tests = scenario.get("config"), scenario.get("tests")
        if config is None:
            raise scenario.wrong("config is missing; it holds the variables of the scenario")
        about = self._listed(config)
        if tests is None:
            return [(data,) for data in about]
        listed = self._listed(tests)
        return [(data, test) for data in about for test in listed]

    def _listed(self, spot: Spot) -> list[Spot]:
        """The mappings of a list, with those of the files it names."""
        if isinstance(spot.value, str):
            return list(self._loaded(spot))
        if isinstance(spot.value, dict) and "path" in spot.value:
            return self._generated(spot, str(spot.value["path"]))
        spots: list[Spot] = []
        faulty: list[tuple[Spot, DatasetError]] = []
        for entry in spot.entries():
            if isinstance(entry.value, str):
                try:
                    spots += list(self._loaded(entry))
                except DatasetError as fault:
                    faulty.append((entry, fault))
            elif isinstance(entry.value, dict) and "path" in entry.value:
                spots += self._generated(entry, str(entry.value["path"]))
            else:
                entry.mapping()
                spots.append(entry)
        if faulty and not spots:
            raise faulty[0][1]
        for entry, why in faulty:
            self._leave_out_tests(entry, entry.text(), str(why))
        return spots

    def _loaded(self, spot: Spot) -> Iterator[Spot]:
        name = spot.text()
        ending = File(name.removeprefix("file://").partition(":")[0]).suffix.lower()
        if "://" in name.removeprefix("file://"):
            self._leave_out_tests(spot, name, "they are kept elsewhere; fetch them as .yaml, .json, .jsonl or .csv")
            return
        if ending in _CODE:
            yield from self._generated(spot, name)
            return
        for file in files_named(spot, self.folder, name):
            source = source_of(file, shown_name(file, self.folder)).note_dates(self.losses)
            whole = Spot(source, (), source.value)
            entries = whole.entries() if isinstance(source.value, list) else [whole]
            for entry in entries:
                entry.mapping()
                if file.suffix.lower() == ".csv":
                    yield Spot(entry.source, entry.path, case_of_row(entry, KINDS, self.losses))
                else:
                    yield entry

    def _generated(self, spot: Spot, name: str) -> list[Spot]:
        """The tests that JavaScript in a file makes, once its code was agreed to."""
        path, _, function = name.removeprefix("file://").partition(":")
        if not path.endswith((".js", ".cjs", ".mjs")):
            self._leave_out_tests(spot, name, _MADE_BY_CODE)
            return []
        file = named_file(spot, self.folder, path)
        config = spot.get("config") if isinstance(spot.value, dict) else None
        try:
            code = read_bytes(file, most=MOST_CODE, follow_out=True)
            if not Trust(always=trusts_all()).accepts(file, {file.name: code}):
                raise NotCarried(f"its code waits for your yes: read it, `tui-evals trust {shown(file)}`, import again")
            script = Script(module=Module(code.decode("utf-8-sig"), function or None))
            made = value_of(script, None if config is None else config.value)
            if not isinstance(made, list) or not all(isinstance(test, dict) for test in made):
                raise NotCarried("its code returns no list of tests")
        except (NotCarried, CannotJudge, CodeFailed, TrustError, OSError, UnicodeError) as why:
            threw = "its code threw " if isinstance(why, CodeFailed) else ""
            self._leave_out_tests(spot, name, f"{threw}{why}")
            return []
        self.losses.carried(f"{counted(len(made), 'test')} from {name}", spot.where, "its code was run")
        source = Source(shown_name(file, self.folder), made, lambda _: None, file.parent)
        return [Spot(source, (number,), test) for number, test in enumerate(made)]

    def _leave_out_tests(self, spot: Spot, name: str, why: str) -> None:
        self.elsewhere.append(name)
        self.losses.left_out(f"tests from {name}", spot.where, why)

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """The environment variables in the configuration."""
        spot = self.root.get("env")
        given = spot.value if spot is not None and isinstance(spot.value, dict) else {}
        return {str(name): script_text(value) for name, value in given.items() if value is not None}

    @cached_property
    def values(self) -> Values:
        """Reads variables."""
        return Values(self.folder, self.renders, self.losses, self.environment)

    @cached_property
    def default_asserts(self) -> list[Spot]:
        """The assertions of the default test."""
        spot = self.default and self.default.get("assert")
        return spot.entries() if spot else []

    @cached_property
    def heaviest(self) -> float:
        """The largest weight of any assertion; weights here are shares."""
        spots = [*self.default_asserts, *(spot for layers in self.cases for spot in self._asserts(layers))]
        weights = [spot.value.get("weight") for spot in spots if isinstance(spot.value, dict)]
        heaviest = max((weight for weight in weights if isinstance(weight, int | float)), default=1.0)
        if heaviest > 1:
            self.losses.changed("weights", "", f"they are shares here, so each is divided by {heaviest:g}")
        return heaviest

    @cached_property
    def around(self) -> frozenset[tuple[str, str]]:
        """The texts before and after the prompt in some tests; empty without any."""
        found = frozenset(map(self._around, self.cases))
        return found if any(map(any, found)) else frozenset()

    @property
    def written_around(self) -> tuple[str, str]:
        """The texts around each prompt if all tests share them, else a variable for each."""
        if len(self.around) == 1:
            (texts,) = self.around
            return as_jinja(texts[0]), as_jinja(texts[1])
        return f"{{{{ {_AROUND[0]} }}}}", f"{{{{ {_AROUND[1]} }}}}"

    def _around(self, layers: Layers) -> tuple[str, str]:
        options = [one for spot in reversed(self._with_default(layers)) if (one := spot.get("options")) is not None]
        texts = ([part.text() for one in options if (part := one.get(key)) and part.value] for key in _SIDES)
        before, after = (next(iter(found), "") for found in texts)
        return before, after

    def _variables_around(self, layers: Layers, values: Mapping[str, Any]) -> dict[str, str]:
        """The texts around the prompt of a test as its variables, where not all tests have the same."""
        if len(self.around) < 2:
            return {}
        texts = dict(zip(_AROUND, self._around(layers), strict=True))
        try:
            return {name: str(filled(text, values)) for name, text in texts.items()}
        except TemplateError as problem:
            self.losses.changed("options.prefix, options.suffix", layers[-1].where, f"unfilled: its template {problem}")
            return texts

    @cached_property
    def shared(self) -> dict[str, Any]:
        """Variables of the default test that are the same in every item."""
        given = self.values.given(self.default) if self.default else {}
        whole = self._option(())
        return {name: self.values.plain(spot) for name, spot in given.items() if self.values.is_plain(spot, whole)}

    @cached_property
    def evaluators(self) -> dict[str, Any] | None:
        """The default evaluators; None if each item needs its own, because of templates or its own transform."""
        if any(map(_is_template, self.default_asserts)):
            return None
        if self.default_asserts and any(self._seen(layers) != self._seen(()) for layers in self.cases):
            return None
        groups = any(spot.value.get("type") == "assert-set" for spot in self.default_asserts)
        if groups and any(bool(self._share(layers)) != bool(self._share(())) for layers in self.cases):
            return None
        return keyed(self._judged((), self.default_asserts, {}), (), self.heaviest, self.losses)

    def items(self) -> Iterator[dict[str, Any]]:
        """The items, one for each combination of the values of a test."""
        count = 0
        bare = [layers for layers in self.cases if layers and not any(map(_has_asserts, self._with_default(layers)))]
        if bare:
            what = f"{counted(len(bare), 'test')} without assertions"
            self.losses.changed(what, bare[0][-1].where, "it passes there with any answer; here it is not judged")
        for layers in self.cases:
            given = dict.fromkeys(name for layer in layers for name in self.values.given(layer))
            for values in self.values.combinations(self._with_default(layers), self._option(layers)):
                count += 1
                if count > MOST_ITEMS:
                    raise self.root.wrong(f"the variables combine to more than {MOST_ITEMS:,} tests")
                yield self._item(layers, given, values)

    def _with_default(self, layers: Layers) -> Layers:
        return layers if self.default is None else (self.default, *layers)

    def _option(self, layers: Layers) -> bool:
        layered = [spot.get("options") for spot in self._with_default(layers)]
        values = [options.mapping().get("disableVarExpansion") for options in layered if options is not None]
        return next((bool(value) for value in reversed(values) if value is not None), False)

    def _asserts(self, layers: Layers) -> list[Spot]:
        spots = [spot.get("assert") for spot in layers]
        return [entry for spot in spots if spot is not None for entry in spot.entries()]

    def _judged(self, layers: Layers, spots: list[Spot], values: Mapping[str, Any]) -> list[Judged]:
        judge, seen = None, self._seen(layers)
        values = {ENV: self.environment, **values} if self.environment else values
        for spot in self._with_default(layers):
            options = spot.get("options")
            if options is not None and options.get("provider") is not None:
                judge = Asserts(values, self.values.of_assert, None, seen, self.losses, self.folder).judge_of(options)
        shares = bool(self._share(layers))
        reader = Asserts(
            values, self.values.of_assert, judge, seen, self.losses, self.folder, self.code, self.version, shares
        )
        return list(reader.all(spots))

    def _seen(self, layers: Layers) -> Seen:
        """The input of a test's assertions: the last transform in its layers applies."""
        options = (spot.get("options") for spot in reversed(self._with_default(layers)))
        named = (one.get(key) for one in options if one is not None for key in TRANSFORMS)
        transform = next((spot for spot in named if spot is not None), None)
        seen = self.seen if transform is None else self.seen.through(transform, self.folder)
        return replace(seen, parsed=True) if self._answer_is_data(layers) else seen

    def _answer_is_data(self, layers: Layers) -> bool:
        """Whether a test has an answer that is not text."""
        output = _merged(self._with_default(layers)).get("providerOutput")
        return output is not None and not isinstance(output.value, str)

    def _item(self, layers: Layers, given: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
        merged = _merged(layers)
        item: dict[str, Any] = {}
        if "description" in merged:
            item["name"] = merged["description"].text()
        more = (name for name, value in values.items() if name not in self.shared or self.shared[name] != value)
        own = {name: values[name] for name in (*given, *more) if name in values}
        own |= self._variables_around(layers, values)
        if own:
            item["variables"] = own
        defaults = self.evaluators
        spots = self._asserts(layers) if defaults is not None else [*self.default_asserts, *self._asserts(layers)]
        judged = self._judged(layers, spots, values)
        if evaluators := keyed(judged, defaults or (), self.heaviest, self.losses):
            item["evaluators"] = evaluators
        self._threshold(item, layers, judged)
        self._metadata(item, layers)
        if output := merged.get("providerOutput"):
            item["response"] = output.value if isinstance(output.value, str) else strictjson.dumps(output.value)
        for spot in self._with_default(layers):
            self._leave_out(spot)
        return item

    def _share(self, layers: Layers) -> float:
        """The share of assertions that a test must pass; 0 where it is all of them."""
        spot = _merged(self._with_default(layers)).get("threshold")
        return 0 if spot is None else spot.number()

    def _threshold(self, item: dict[str, Any], layers: Layers, judged: list[Judged]) -> None:
        spot = _merged(self._with_default(layers)).get("threshold")
        if spot is None or not spot.number():
            return
        if spot.number() > 1:
            raise spot.wrong(f"must be at most 1, not {spot.value:g}")
        item["threshold"] = spot.value
        if any(one.weight not in (None, 1) or one.name == "Rubric" for one in judged):
            self.losses.changed("threshold", spot.where, "it is the share of evaluators that pass, no mean of scores")

    def _metadata(self, item: dict[str, Any], layers: Layers) -> None:
        merged: dict[str, Any] = {}
        for spot in self._with_default(layers):
            metadata = spot.get("metadata")
            for key, part in metadata.members() if metadata is not None else ():
                if key == KEPT:
                    item |= _kept(part)
                else:
                    merged[key] = part.value
        if merged:
            item["extensions"] = {"promptfoo": {"metadata": merged}}

    def _leave_out(self, spot: Spot) -> None:
        """Name what has no equal in a test, once for each place."""
        if spot.where in self._noted:
            return
        self._noted.add(spot.where)
        options = spot.get("options")
        for key, part in options.members() if options is not None else ():
            if part.value is None:
                continue
            if key in TRANSFORMS:
                try:
                    transform_code(part, self.folder)
                    self.losses.carried(f"options.{key}", part.where, "it runs before what judges")
                except NotCarried as why:
                    said = f"it is code {why}. What judges its outcome is left out too"
                    self.losses.left_out(f"options.{key}", part.where, said)
            elif key not in ("disableVarExpansion", "provider", *_SIDES):
                self.losses.left_out(f"options.{key}", part.where, "there is no equal")
        for key, part in spot.members():
            if key not in _FIELDS:
                self.losses.left_out(f"{key} of a test", part.where, _WHY_NOT.get(key, "there is no equal"))


def _has_asserts(spot: Spot) -> bool:
    """Whether a test, or its shared settings, has a list of assertions, even an empty one."""
    return spot.get("assert") is not None


def _is_template(spot: Spot) -> bool:
    """Whether an assertion, or one of a set, compares with a template."""
    if not isinstance(spot.value, dict):
        return False
    inner = spot.get("assert")
    within = inner.entries() if inner is not None else []
    return needs_values(spot.value.get("value")) or any(map(_is_template, within))


def _merged(layers: Layers) -> dict[str, Spot]:
    return {key: spot for layer in layers for key, spot in layer.members() if spot.value is not None}


def _kept(spot: Spot) -> dict[str, Any]:
    for key, part in spot.members():
        if key not in KEPT_FIELDS:
            raise part.wrong(f"'{key}' is not allowed here; allowed are {', '.join(KEPT_FIELDS)}")
    return dict(spot.mapping())
