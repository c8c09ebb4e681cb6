"""Runs, answers and totals as the store gives them, without a store."""

from tui_evals.figures import single_answers
from tui_evals.store.records import AnswerRow, RunRow, Totals

RUN = {
    **dict.fromkeys(("suite", "snapshot", "control", "note"), ""),
    **dict.fromkeys(("parent", "finished", "heartbeat", "pid", "host")),
    "id": 1,
    "key": "k3fa9z",
    "name": "nightly",
    "source": "evals.json",
    "status": "running",
    "targets": ("demo",),
    "prompts": ("",),
    "tags": (),
    "created": 100.0,
    "started": 100.0,
    "total": 10,
    "config": {},
    "scoring_pass": 1,
}
ANSWER = {
    **dict.fromkeys(("run", "seq", "pos", "cell", "item", "turn", "prompt", "target", "repeat"), 0),
    "id": 1,
    "name": "a",
    "category": "",
    "status": "pass",
    "score": 100.0,
    "attempts": 1,
    "preview": "yes",
    "input_tokens": 10,
    "output_tokens": 5,
    "cost": 0.25,
    "latency_ms": 1500.0,
    "from_cache": False,
    "scripted": False,
    "started": 1.0,
    "code": None,
}
COUNTS = ("pending", "running", "answered", "passed", "failed", "partial", "errored", "input_tokens", "output_tokens")


def a_run(**given):
    return RunRow(**{**RUN, **given})


def an_answer(**given):
    return AnswerRow(**{**ANSWER, **given})


def totals(**given):
    fields = {**dict.fromkeys(COUNTS, 0), "total": 10, "cost": 0.0, "unpriced": 0, **given}
    rated = single_answers(fields["passed"], fields["passed"] + fields["failed"])
    return Totals(**{"rated": rated, **fields})
