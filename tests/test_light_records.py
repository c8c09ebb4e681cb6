"""Records compare, hash and show themselves as those of `dataclasses` do."""

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals import light_records

KINDS = {"ours": light_records.dataclass, "of the standard library": dataclasses.dataclass}


def classes(dataclass):
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: list = dataclasses.field(default_factory=list, hash=False)
        note: str = dataclasses.field(default="", compare=False, repr=False)

    @dataclass(slots=True)
    class Counter:
        count: int = 0

    @dataclass(frozen=True)
    class Named:
        name: str

        def __repr__(self):
            return f"<{self.name}>"

        def __eq__(self, other):
            return isinstance(other, Named) and self.name.lower() == other.name.lower()

        def __hash__(self):
            return hash(self.name.lower())

    @dataclass
    class Nothing:
        pass

    @dataclass(frozen=True, order=True)
    class Version:
        major: int

    return Point, Counter, Named, Nothing, Version


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_compares_hashes_and_shows_itself(kind):
    Point, Counter, Named, Nothing, Version = classes(KINDS[kind])
    assert Point(1, [2], "a") == Point(1, [2], "b") != Point(1, [3]) and Point(1) != (1, [], "")
    assert hash(Point(1, [2])) == hash(Point(1, [3])) != hash(Point(2))
    assert repr(Point(1, [2], "a")).endswith("Point(x=1, y=[2])") and repr(Nothing()).endswith("Nothing()")
    assert Counter(1) == Counter(1) != Counter(2) and Counter.__hash__ is None
    assert Named("A") == Named("a") and repr(Named("A")) == "<A>" and len({Named("A"), Named("a")}) == 1
    assert Nothing() == Nothing() and Version(1) < Version(2)
    assert dataclasses.replace(Point(1), x=2) == copy.copy(Point(2)) and dataclasses.astuple(Point(1)) == (1, [], "")


def test_a_record_that_holds_itself_is_shown():
    Point = classes(light_records.dataclass)[0]
    point = Point(1)
    point.y.append(point)
    assert repr(point).endswith("Point(x=1, y=[...])")


@light_records.dataclass(frozen=True, slots=True)
class Sent:
    """A record of a module, which is what pickle asks for."""

    text: str


def test_a_record_goes_to_another_process():
    assert pickle.loads(pickle.dumps(Sent("a"))) == Sent("a")  # noqa: S301


class Squares(light_records.LazySequence):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def row_at(self, number):
        assert 0 <= number < self.length
        return number * number


@given(st.integers(0, 6), st.integers(-8, 8), st.slices(8))
def test_elements_made_on_demand_are_found_as_in_a_list(length, number, part):
    lazy, made = Squares(length), [number * number for number in range(length)]
    assert list(lazy) == made and lazy[part] == made[part]
    if -length <= number < length:
        assert lazy[number] == made[number]
    else:
        with pytest.raises(IndexError):
            lazy[number]
