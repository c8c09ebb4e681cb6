"""The zoo: what is only shown of hostile clones starts nothing, sends nothing and ends soon, whatever is in them."""

import os
import re
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.hostile.zoo.animals import KINDS, Animal, acts_on, clones
from tests.hostile.zoo.keeper import Enclosure
from tests.hostile.zoo.watch import MOST_MEMORY, Act, Place, watched
from tests.warm import COLD

pytestmark = pytest.mark.story

ROOT = Path(__file__).parents[2]
SEED = 32
AT_LEAST = 300


def zoo(*words):
    """The zoo in an interpreter of its own, which imports the product once and forks."""
    command = [sys.executable, "-m", "tests.hostile.zoo", "--seed", str(SEED), *words]
    with COLD(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        out, _ = process.communicate()
    return process.returncode, out


@pytest.mark.nightly
def test_no_law_is_broken_in_three_hundred_clones():
    code, out = zoo("--clones", "310", "--screens", "24", "--seconds", "3600")
    assert code == 0, out
    made = re.search(r"(\d+) clones of seed", out)
    assert made is not None and int(made[1]) >= AT_LEAST, out


@pytest.fixture(scope="module")
def enclosure(tmp_path_factory):
    with closing(Enclosure(tmp_path_factory.mktemp("zoo") / "enclosure")) as enclosure:
        yield enclosure


@pytest.mark.story
def test_no_law_is_broken_in_a_few_clones(enclosure):
    for _, animals in zip(range(6), clones(SEED), strict=False):
        for sight in enclosure.show(animals, acts_on(animals, SEED, at_most=4)):
            assert sight.breaches == [], " ".join(map(str, animals))


def test_every_kind_of_file_is_there_before_something_is_wrong_with_it(enclosure):
    list(enclosure.show([], [("runs",)]))
    assert [kind.file for kind in KINDS if not (enclosure.place.root / kind.file).exists()] == []


def test_a_name_makes_the_same_animal_again(enclosure):
    animal = Animal("evals.json", "poison", 5)
    made = []
    for _ in range(2):
        list(enclosure.show([Animal.named(str(animal))], [("runs",)]))
        made.append((enclosure.place.root / "evals.json").read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("animal", "act"),
    [
        (".evals/evals.db:texts:4268", ("trend", "data.json")),
        (".evals/evals.db:schema:9123", ("db", "check")),
        ("helper.py:out:9874", ("trust",)),
    ],
)
def test_a_law_that_was_broken_holds(enclosure, animal, act):
    (sight,) = enclosure.show([Animal.named(animal)], [act])
    assert sight.breaches == []


def breaking(law: str):
    """Something that breaks a law when it is done in a clone."""

    def process(root, act):
        subprocess.run(["true"], check=True)

    def connection(root, act):
        import socket

        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()).close()

    def memory(root, act):
        bytearray(b"x") * MOST_MEMORY

    def seconds(root, act):
        end = time.process_time() + 5.2
        while time.process_time() < end:
            pass

    def terminal(root, act):
        os.write(1, b"\x1b]52;c;aGk=\x07")

    def outside(root, act):
        (root.parent / "outside" / "secret.txt").write_text("theirs")

    def in_project(root, act):
        (root / "new").write_text("theirs")

    def words(root, act):
        raise KeyError("x")

    doing = {"outside .evals": in_project}.get(law) or locals()[law]
    return lambda root, act: doing(root, act) or []


@pytest.mark.nightly
@pytest.mark.parametrize(
    "law",
    [
        "process",
        "connection",
        "memory",
        "terminal",
        "outside",
        "outside .evals",
        "words",
        pytest.param("seconds", marks=pytest.mark.nightly),
    ],
)
def test_each_law_can_be_broken(law, tmp_path):
    place = Place(tmp_path / "clone", tmp_path / "home", tmp_path / "outside")
    for folder in (place.root, place.home, place.outside, tmp_path / "scratch"):
        folder.mkdir()
    (place.outside / "secret.txt").write_text("the user's own")
    act: Act = ("break",)
    (sight,) = watched(place, [act], {"break": breaking(law)}, {"PATH": os.environ["PATH"]})
    assert law in {breach.law for breach in sight.breaches}


@pytest.mark.nightly
def test_what_is_stuck_is_ended_and_the_rest_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.hostile.zoo.watch.PATIENCE", 0.5)
    place = Place(tmp_path / "clone", tmp_path / "home", tmp_path / "outside")
    for folder in (place.root, place.home, place.outside, tmp_path / "scratch"):
        folder.mkdir()
    os.mkfifo(place.root / "pipe")

    def stuck(root, act):
        (root / "pipe").read_bytes()
        return []

    sights = list(watched(place, [("@stuck",), ("@fine",)], {"@stuck": stuck, "@fine": lambda root, act: []}, {}))
    assert [[breach.law for breach in sight.breaches] for sight in sights] == [["seconds"], []]
