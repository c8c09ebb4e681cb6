"""Runs without a store, for the tests of what is compared."""

from tui_evals.compare.runs import compare_runs
from tui_evals.compare.sides import ComparedRun
from tui_evals.store.records import AnswerRow, RunRow
from tui_evals.store.run_figures import ComparedRow, Judged


def run(**given):
    fields = dict.fromkeys(RunRow.__dataclass_fields__)
    return RunRow(**{**fields, "targets": ("demo",), "prompts": ("",), "scoring_pass": 1, **given})


def answer(id, item=0, status="pass", score=None, preview="yes", turn=0, prompt=0, target=0, repeat=0, **given):
    fields = {**dict.fromkeys(AnswerRow.__dataclass_fields__), "id": id, "item": item, "status": status}
    fields |= {"score": score, "preview": preview, "turn": turn, "prompt": prompt, "target": target, "repeat": repeat}
    return AnswerRow(**{**fields, "name": f"#{item + 1}", "category": "", **given})


def document(*test_ids):
    return {"items": [{"testId": one, "prompt": f"ask {number}"} for number, one in enumerate(test_ids)]}


ONE = document("a")


def ran(rows, asked=ONE, judged=(), **given):
    compared_rows = [ComparedRow(*(getattr(row, name) for name in ComparedRow._fields)) for row in rows]
    return ComparedRun(run(**given), compared_rows, asked, judged)


def compared(*sides, asked=ONE, differing=lambda pairs: set(), **given):
    """Runs of the same dataset from their answers."""
    return compare_runs([ran(rows, asked, **given) for rows in sides], differing)


def scored(answer, score=1.0, key="Match", threshold=None, result=None):
    return Judged(answer, key, score, result, threshold)
