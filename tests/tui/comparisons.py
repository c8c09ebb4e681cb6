"""Comparisons without a store, for the views that draw them."""

from tests.compare.helpers import run
from tui_evals.compare.measures import MeasuredDifference, RunDifference, shared_figure
from tui_evals.compare.runs import KINDS, ComparedLine, Comparison, RunSide, SharedRates
from tui_evals.compare.sides import Answer
from tui_evals.figures import mcnemar
from tui_evals.store.records import ScoreRecord
from tui_evals.tui.compare.rows import LineTexts


def line(*kinds, statuses=("pass", "fail"), scores=(1.0, 0.25), **given):
    """A line of one answer in each run; a status of None is no answer."""
    answers = tuple(
        status and Answer(number, status, score, 0)
        for number, (status, score) in enumerate(zip(statuses, scores, strict=True))
    )
    fields = {"item": "t-1", "turn": None, "repeat": None, "column": "", "category": "", "how": "testId"}
    return ComparedLine(**{**fields, "answers": answers, "kinds": kinds or ("broken",), "edited": False, **given})


def passes(broken=0, fixed=0, items=10, **given):
    p = mcnemar(broken, fixed)
    fields = {
        "what": "",
        "items": items,
        "before": 0.8,
        "after": 0.8 + (fixed - broken) / (items or 1),
        "interval": None,
    }
    return MeasuredDifference(**{**fields, "p": p, "adjusted": p, "needed": None, "direction": 1, **given})


def against(broken=0, fixed=0, tests=(), items=10, **given):
    counts = {**dict.fromkeys(KINDS, 0), "broken": broken, "fixed": fixed}
    return RunDifference(items, broken, fixed, passes(broken, fixed, items, **given), tests, counts)


def side(number, scores=None, usage=(), part=None, **given):
    named = {"id": number, "key": f"key{number}", "name": f"run {number}", "status": "finished", **given}
    return RunSide(run(**named), scores or {}, frozenset(scores or ()), usage=dict(usage), part=part)


def figure(passed, items):
    """A pass rate over items of one answer each."""
    return shared_figure([1.0] * passed + [0.0] * (items - passed), items)


def rates(runs, passed=8, items=10, category="", column="demo"):
    """What each of some runs passes of the same items."""
    return SharedRates((column,) * runs, category, (figure(passed, items),) * runs)


def comparison(lines=(), found=None, sides=None, categories=(), columns=None):
    found = found or (against(),)
    sides = sides or tuple(side(number) for number in range(1, len(found) + 2))
    columns = (rates(len(sides)),) if columns is None else columns
    return Comparison(tuple(lines), tuple(sides), tuple(found), tuple(columns), tuple(categories))


def record(key, score, result, reason=""):
    return ScoreRecord(key=key, evaluator=key, score=score, result=result, reason=reason)


def faced(*texts, one=None, **given):
    fields = {"line": one or line(), "question": "2 + 2?", "expected": None, "judged": ()}
    return LineTexts(**{**fields, "texts": texts or ("It is 4 today.", "It is 5 today."), **given})
