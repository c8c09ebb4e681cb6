"""Plans, answers and scores for the tests of the store, and other processes that write."""

import subprocess
import sys
from pathlib import Path

from tui_evals.store.records import AnswerRecord, NewRun, PlannedAnswer, ScoreRecord, WorkerRow

ROOT = Path(__file__).parent.parent.parent


def new_run(**given):
    fields = {"name": "nightly", "snapshot": "", "source": "evals.json", "targets": ("demo",)}
    return NewRun(**{**fields, **given})


def cells(count):
    return [PlannedAnswer(n, n, 0, 0, 0, 0, f"#{n + 1}") for n in range(count)]


def said(text="yes", **given):
    return AnswerRecord(**{"text": text, "request": {"messages": [{"role": "user", "content": "?"}]}, **given})


def judged(key="Match", score=1.0, **given):
    result = None if score is None else "pass" if score >= 0.5 else "fail"
    return ScoreRecord(**{"key": key, "evaluator": key, "score": score, "result": result, **given})


def worker(name, **given):
    fields = {"state": "alive", "cells": 7, "calls": 100, "rate": 12.5, "errors": 1, "seen": 1_000.0}
    return WorkerRow(name, **{**fields, **given})


def process(code, *arguments, **options):
    """Another Python process that runs code with the package at hand."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
