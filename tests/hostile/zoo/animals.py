"""The animals: each file that the product reads of a project, what can be wrong with it, and what shows it."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .malice import CSV, GZIP, JSON, JSONL, LARGE, SHAPES, TOML, YAML, ZIP, Malice, Wild
from .stores import STORE, STORE_FILE
from .watch import Act


@dataclass(frozen=True)
class Kind:
    """A kind of file: one of them, what only such a file can have wrong with it, and what shows it."""

    file: str
    own: Mapping[str, Malice]
    acts: Sequence[Act]

    @property
    def malices(self) -> Mapping[str, Malice]:
        left_out = ("large", "wide") if self.file.endswith(".py") else ()
        return {name: malice for name, malice in {**SHAPES, **self.own}.items() if name not in left_out}


def _dataset(name: str) -> Sequence[Act]:
    return (
        ("validate", name),
        ("resolve", name),
        ("item", "list", name),
        ("item", "show", name, "1"),
        ("run", name, "--plan", "-t", "demo", "-j", "demo"),
        ("convert", name, "--to", "m365"),
        ("convert", name, "--to", "csv"),
        ("trend", name),
        ("dataset", "history", name),
    )


def _imported(name: str) -> Sequence[Act]:
    return (("import", name, "--out", "made", "--no-targets"), ("import", name, "--into", "made.json", "--json"))


_PLAN: Act = ("run", "evals.json", "--plan", "-t", "demo", "-j", "demo")
_RUNS: Sequence[Act] = (
    ("runs",),
    ("show", "last"),
    ("show", "first", "--item", "#1"),
    ("show", "last", "--grid"),
    ("show", "last", "--by", "evaluator"),
    ("show", "last", "--json"),
    ("compare", "first", "second"),
    ("trend", "data.json"),
    ("diff", "last"),
    ("search", "two"),
    ("agreement", "last"),
    ("battles",),
    ("baseline", "show"),
    ("cache", "info"),
    ("cache", "why", "last"),
    ("export", "last", "--to", "csv", "-o", "-"),
    ("report", "last", "--to", "md", "-o", "-"),
    ("report", "first,second", "--to", "html"),
    ("report", "last", "--to", "junit", "-o", "-"),
    ("db", "check"),
    ("suite", "list"),
    ("suite", "show", "quiz"),
    ("runs", "--json"),
)
_SETTINGS: Sequence[Act] = (("targets",), ("doctor",), ("trust",), ("runs",), _PLAN, ("evaluators", "show", "Mine"))
_PROMPT: Sequence[Act] = (
    ("validate", "tags.prompty"),
    ("generate", "tags.prompty", "--plan"),
    ("run", "evals.json", "-p", "tags.prompty", "--plan", "-t", "demo"),
    ("validate",),
    ("trust",),
)
_RULED: Sequence[Act] = (
    ("validate", "tags/tags.json"),
    ("trust",),
    ("generate", "tags.prompty", "--plan"),
    ("run", "tags/tags.json", "--plan", "-t", "demo", "-j", "demo"),
    ("import", "tags", "--out", "made", "--no-targets"),
)
_EVALUATORS: Sequence[Act] = (
    ("evaluators",),
    ("evaluators", "show", "Mine"),
    ("evaluators", "show", "Asks"),
    ("validate", "evals.json"),
    ("trust",),
    ("trust", "show"),
    _PLAN,
)
_CODE: Sequence[Act] = (("targets",), ("trust",), ("run", "data.json", "--plan", "-t", "function"), ("validate",))
_REGISTRY: Sequence[Act] = (
    ("registry", "registry"),
    ("registry", "registry", "capitals", "--json"),
    ("run", "capitals*", "--registry", "registry", "--plan", "-t", "demo"),
)

KINDS: Sequence[Kind] = (
    Kind("evals.json", JSON, _dataset("evals.json")),
    Kind("data.json", JSON, (*_dataset("data.json"), ("validate",))),
    Kind("packed.json.gz", GZIP, _dataset("packed.json.gz")),
    Kind("cases.csv", CSV, (*_dataset("cases.csv"), *_imported("cases.csv"))),
    Kind("samples.jsonl", JSONL, (*_dataset("samples.jsonl"), *_imported("samples.jsonl"))),
    Kind("chat.jsonl", JSONL, _imported("chat.jsonl")),
    Kind("dot.png", LARGE, (("validate", "evals.json"), _PLAN, ("item", "show", "evals.json", "4"))),
    Kind("tags.prompty", {**YAML, **LARGE}, _PROMPT),
    Kind("tags/tone.metric.prompty", {**YAML, **LARGE}, (*_EVALUATORS, ("validate",))),
    Kind("tags/tags.json", JSON, (*_RULED, *_dataset("tags/tags.json"))),
    Kind("tags/generation.json", JSON, _RULED),
    Kind("tags/tests.json", JSON, _RULED),
    Kind("tags/rules.txt", LARGE, _RULED),
    Kind(
        "template.yaml", {**YAML, **LARGE}, (("validate", "evals.json"), ("resolve", "evals.json"), _PLAN, ("trust",))
    ),
    Kind("custom-evaluators/Mine/Mine.py", LARGE, _EVALUATORS),
    Kind("custom-evaluators/Asks/Asks.prompty", {**YAML, **LARGE}, _EVALUATORS),
    Kind("helper.py", LARGE, _CODE),
    Kind("agent.py", LARGE, _CODE),
    Kind("conftest.py", {}, _CODE),
    Kind(".env.local", LARGE, _SETTINGS),
    Kind(
        "env/.env.test",
        {},
        (("targets", "--env", "test"), ("run", "evals.json", "--plan", "-t", "demo", "--env", "test")),
    ),
    Kind(".evals/config.toml", {**TOML, **LARGE}, _SETTINGS),
    Kind(STORE_FILE, STORE, _RUNS),
    Kind(".git/config", {}, (("trust",), ("doctor",), ("validate",))),
    Kind("promptfooconfig.yaml", YAML, _imported("promptfooconfig.yaml")),
    Kind("countries.csv", CSV, _imported("promptfooconfig.yaml")),
    Kind("output.json", JSON, (*_imported("output.json"), ("compare", "output.json", "first"))),
    Kind("inspect.json", JSON, (*_imported("inspect.json"), ("compare", "inspect.json", "first"))),
    Kind("inspect.eval", ZIP, _imported("inspect.eval")),
    Kind("foundry.json", JSON, _imported("foundry.json")),
    Kind(
        "results.json",
        JSON,
        (*_imported("results.json"), ("compare", "results.json", "second"), ("diff", "results.json")),
    ),
    Kind("results.jsonl", JSONL, _imported("results.jsonl")),
    Kind("results.csv", CSV, _imported("results.csv")),
    Kind("report.html", {}, _imported("report.html")),
    Kind("junit.xml", {}, _imported("junit.xml")),
    Kind("bench_runs", {}, _imported("bench_runs")),
    Kind("tone", {}, _imported("tone")),
    Kind("registry/evals/capitals.yaml", YAML, _REGISTRY),
    Kind("registry/modelgraded/jokes.yaml", YAML, _REGISTRY),
    Kind("registry/data/capitals/samples.jsonl", JSONL, _REGISTRY),
)
ALWAYS: Sequence[Act] = (
    ("validate",),
    ("trust",),
    ("runs",),
    ("show", "last"),
    ("targets",),
    ("doctor",),
    ("suite", "list"),
)
"""What a person does in every clone."""
BY_NAME = {kind.file: kind for kind in KINDS}


@dataclass(frozen=True)
class Animal:
    """Something wrong with a file."""

    file: str
    malice: str
    seed: int

    def __str__(self) -> str:
        return f"{self.file}:{self.malice}:{self.seed}"

    @classmethod
    def named(cls, name: str) -> Animal:
        """The animal that is written so."""
        file, malice, seed = name.rsplit(":", 2)
        return cls(file, malice, int(seed))

    def put_into(self, root: Path, outside: Path, port: int) -> None:
        """Do it to the file of a clone."""
        file = root / self.file
        if file.is_dir() and not file.is_symlink():
            chosen = random.Random(f"{self}").choice(sorted(one for one in file.rglob("*") if one.is_file()))
            BY_NAME[self.file].malices[self.malice](chosen, Wild(root, outside, port, random.Random(f"{self}")))
            return
        BY_NAME[self.file].malices[self.malice](file, Wild(root, outside, port, random.Random(f"{self}")))


def menagerie(seed: int) -> Iterator[Animal]:
    """Animals without an end: every kind of file with everything that can be wrong with it, in an order of the seed."""
    every = [(kind.file, malice) for kind in KINDS for malice in kind.malices]
    for number in itertools.count():
        chance = random.Random(f"{seed} {number}")
        for file, malice in chance.sample(every, len(every)):
            yield Animal(file, malice, chance.randrange(10_000))


def clones(seed: int, at_once: int = 3) -> Iterator[tuple[Animal, ...]]:
    """The animals of one clone after the other, each in a file of its own."""
    chance, animals = random.Random(f"clones {seed}"), menagerie(seed)
    waiting: list[Animal] = []
    while True:
        chosen: dict[str, Animal] = {}
        for animal in list(waiting):
            if animal.file not in chosen and len(chosen) < at_once:
                chosen[animal.file] = animal
                waiting.remove(animal)
        wanted = chance.randint(1, at_once)
        while len(chosen) < wanted:
            animal = next(animals)
            if animal.file in chosen:
                waiting.append(animal)
            else:
                chosen[animal.file] = animal
        yield tuple(chosen.values())


def acts_on(animals: Sequence[Animal], seed: int, more: int = 2, at_most: int = 8) -> list[Act]:
    """What is done in a clone: something that shows each of its animals, and some of what a person always does."""
    chance = random.Random(f"acts {seed} {animals}")
    own = [act for animal in animals for act in BY_NAME[animal.file].acts]
    own = chance.sample(own, min(at_most - more, len(own)))
    return list(dict.fromkeys([*own, *chance.sample(list(ALWAYS), more)]))


def release(animals: Sequence[Animal], sound: Path, root: Path, outside: Path, port: int) -> None:
    """Make the clone with these animals out of the sound one."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(sound, root, symlinks=True)
    for animal in animals:
        animal.put_into(root, outside, port)
