"""An answer and its test run in two processes: what honest tests do works as it would in one."""

from textwrap import dedent
from typing import Any

import pytest

from tests.evaluators.helpers import score
from tui_evals.evaluators.base import Score
from tui_evals.evaluators.markup import PythonUnitTests


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUI_EVALS_ALLOW_CODE", "1")


def judge(answer: str, test: str, **options: Any) -> Score:
    return score(PythonUnitTests, {"test": dedent(test), "timeout": 20, **options}, response=dedent(answer))


STACK = """
    import enum, dataclasses, collections
    class Empty(LookupError): pass
    class Stack:
        limit = 3
        def __init__(self): self.items = []
        def push(self, item): self.items.append(item); return self
        def pop(self):
            if not self.items: raise Empty("nothing there")
            return self.items.pop()
        def __len__(self): return len(self.items)
        def __iter__(self): return iter(self.items)
        def __getitem__(self, index): return self.items[index]
        def __contains__(self, item): return item in self.items
        def __enter__(self): return self
        def __exit__(self, *_): self.items.clear(); return True
        @property
        def top(self): return self.items[-1]
    @dataclasses.dataclass(order=True, frozen=True)
    class Vector:
        x: int
        y: int = 0
        def __add__(self, other): return Vector(self.x + other.x, self.y + other.y)
        def __mul__(self, number): return Vector(self.x * number, self.y * number)
        def __rmul__(self, number): return self * number
        def __abs__(self): return (self.x ** 2 + self.y ** 2) ** 0.5
    class Colour(enum.IntEnum):
        RED = 1
        BLUE = 2
    Point = collections.namedtuple("Point", "x y")
    calls = []
    count = 0
    def tick():
        global count
        count += 1
        calls.append(count)
    def sort(items): items.sort()
    def same(items): return items
    def numbers(n):
        for i in range(n): yield i
    def apply(function, *values): return [function(value) for value in values]
    async def later(value): return value * 2
    def show(text): print("shown", text)
    def ask(): return input("? ").upper()
    def reverse(node):
        before = None
        while node: node.next, before, node = before, node, node.next
        return before
"""
HONEST = {
    "methods": """
        s = Stack().push(1).push('b')
        assert len(s) == 2 and s.top == 'b' and s[0] == 1 and list(s) == [1, 'b']
    """,
    "contains": "s = Stack().push(1); assert 1 in s and 2 not in s",
    "truth": "assert not Stack(); assert Stack().push(0)",
    "own exception": """
        try: Stack().pop()
        except Empty as problem: assert str(problem) == "nothing there" and isinstance(problem, LookupError)
        else: raise AssertionError
    """,
    "base of own exception": """
        import unittest
        with unittest.TestCase().assertRaisesRegex(LookupError, "nothing"): Stack().pop()
    """,
    "instances": """
        assert isinstance(Stack(), Stack)
        assert not isinstance(3, Stack) and type(Stack()).__name__ == 'Stack'
    """,
    "class attribute": "assert Stack.limit == 3; Stack.limit = 4; assert Stack().limit == 4",
    "context manager": """
        s = Stack().push(1)
        with s as inside: assert len(inside) == 1
        assert len(s) == 0
    """,
    "equality of theirs": """
        assert Vector(1, 2) + Vector(1, 1) == Vector(2, 3) != Vector(0)
        assert Vector(1) < Vector(2)
    """,
    "arithmetic": """
        v = Vector(1, 2) * 3
        assert (v.x, v.y) == (3, 6) and 2 * Vector(1) == Vector(2) and abs(Vector(3, 4)) == 5
    """,
    "hash": "assert len({Vector(1), Vector(1), Vector(2)}) == 2 and {Vector(1): 'a'}[Vector(1)] == 'a'",
    "repr": "assert repr(Vector(1)) == 'Vector(x=1, y=0)' and f'{Vector(1)}' == str(Vector(1))",
    "enum": """
        assert Colour.RED == 1
        assert Colour.RED is Colour.RED and Colour['BLUE'].value == 2 and len(list(Colour)) == 2
    """,
    "named tuple": """
        p = same(Point(1, 2))
        assert p == (1, 2) and p.x == 1 and isinstance(p, tuple) and [*p] == [1, 2]
    """,
    "sorted objects": "assert [v.x for v in sorted([Vector(2), Vector(1)])] == [1, 2]",
    "globals": """
        tick(); tick(); assert count == 2 and calls == [1, 2]
        calls.clear(); tick(); assert calls == [3]
    """,
    "module": "import answer; answer.tick(); assert answer.count == 1",
    "mutation": """
        x = [3, 1, 2]; sort(x); assert x == [1, 2, 3]
        nested = {'a': [2, 1]}; sort(nested['a']); assert nested == {'a': [1, 2]}
    """,
    "identity": "x = [1]; assert same(x) is x; o = object(); assert same(o) is o",
    "generator": """
        assert list(numbers(3)) == [0, 1, 2]
        g = numbers(2); assert next(g) == 0 and next(g) == 1 and next(g, 9) == 9
    """,
    "callback": """
        seen = []
        assert apply(lambda v: seen.append(v) or v * 2, 1, 2) == [2, 4] and seen == [1, 2]
    """,
    "built-in callback": "assert apply(str, 1, 2) == ['1', '2'] and apply(len, 'ab') == [2]",
    "raising callback": """
        def bad(_): raise KeyError('k')
        try: apply(bad, 1)
        except KeyError as problem: assert problem.args == ('k',)
        else: raise AssertionError
    """,
    "async": "import asyncio; assert asyncio.run(later(4)) == 8",
    "printed": """
        import contextlib, io
        with contextlib.redirect_stdout(io.StringIO()) as out: show('x')
        assert out.getvalue() == 'shown x\\n'
    """,
    "a built-in replaced": "input = lambda _: 'yes'; assert ask() == 'YES'",
    "a function replaced": "later = None; same = lambda x: 7; assert same(1) == 7",
    "data": """
        import datetime, decimal, fractions, collections, math
        for value in (None, True, 2 ** 80, -1.5, math.inf, 'ü\\ud800', b'b', (1, (2,)), {1, 2}, frozenset('a'),
                      {'a': {1: [2]}}, range(3), 1j, decimal.Decimal('1.50'), fractions.Fraction(1, 3),
                      datetime.date(2024, 2, 29),
                      datetime.datetime(2024, 1, 1, 3, tzinfo=datetime.timezone.utc), datetime.timedelta(1, 2, 3),
                      collections.Counter('aab'), collections.deque([1], 3), ..., int):
            back = same(value)
            assert back == value and type(back) is type(value), value
        assert math.isnan(same(math.nan))
    """,
    "nodes of the test": """
        class Node:
            def __init__(self, value, next=None): self.value, self.next = value, next
        node, values = reverse(Node(1, Node(2, Node(3)))), []
        while node: values.append(node.value); node = node.next
        assert values == [3, 2, 1]
    """,
    "mock": """
        from unittest.mock import Mock
        function = Mock(return_value=5)
        assert apply(function, 1) == [5]
        function.assert_called_once_with(1)
    """,
    "test case": """
        import unittest
        class T(unittest.TestCase):
            def test_it(self): self.assertEqual(same(3), 3); self.assertAlmostEqual(same(0.1) * 3, 0.3)
        result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
        assert result.wasSuccessful() and result.testsRun == 1
    """,
    "copies": "import copy; v = copy.deepcopy(Vector(1)); assert v == Vector(1) and v is not Vector(1)",
    "threads": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(4) as pool: assert list(pool.map(same, range(50))) == list(range(50))
    """,
    "calls": "assert all(same(i) == i for i in range(2000))",
}


@pytest.mark.parametrize("name", HONEST)
def test_what_honest_tests_do(name: str) -> None:
    record = judge(STACK, HONEST[name])
    assert record.result == "pass", record


@pytest.mark.parametrize("name", ["globals", "callback", "test case"])
def test_what_honest_tests_do_fails_when_it_is_wrong(name: str) -> None:
    record = judge(STACK, dedent(HONEST[name]) + "\nassert same(1) == 2")
    assert (record.result, record.reason[:15]) == ("fail", "the test failed"), record


@pytest.mark.parametrize(
    ("answer", "test", "words"),
    [
        ("def sum(values): return 6", "assert sum([1, 2, 3]) == 6", None),
        ("def sum(values): return 7", "assert sum([1, 2, 3]) == 6", "AssertionError"),
        ("def sum(values): return 7\ndef f(): return 1", "assert f() == 1", None),
        ("def sum(values): return 6\ndef f(): return 1", "from answer import sum\nassert sum([f()]) == 6", None),
        ("def sum(values): return 6\ndef f(): return 1", "assert sum([f()]) == 6", "the answer redefines sum"),
    ],
)
def test_an_answer_may_redefine_the_built_in_that_is_tested(answer: str, test: str, words: str | None) -> None:
    record = judge(answer, test)
    assert record.result == ("fail" if words else "pass") and (words or "") in record.reason


def test_the_traceback_is_that_of_the_test() -> None:
    record = judge("def f(): raise ValueError('no')", "x = 1\nassert f()")
    assert 'File "answer_test.py", line 2' in str(record.details["printed"])
    assert "assert f()" in str(record.details["printed"]) and "bridge.py" not in str(record.details["printed"])


def test_a_class_of_the_answer_is_not_derived_from() -> None:
    record = judge(STACK, "class Mine(Stack): pass")
    assert record.result == "fail" and "cannot derive a class from a class of the answer" in record.reason
