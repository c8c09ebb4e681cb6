"""Compares our scores with those of arthur-bench, row by row, and writes the folder that the tests read; by hand only.

arthur-bench needs pydantic 1 and tui_evals needs pydantic 2, so there are two steps in two environments:

    python tests/interop/arthur_bench.py write FOLDER      # where arthur-bench and textstat 0.7.3 are installed
    python tests/interop/arthur_bench.py compare FOLDER    # where tui_evals is installed; also on your own bench_runs/

What arthur-bench imports for its model-based scorers (torch, langchain, tiktoken, …) is replaced, installed or not: the
ones used here compute their scores without it, and some of it loads files from the network. Nothing is sent anywhere.
"""

from __future__ import annotations

import asyncio
import importlib.machinery
import os
import sys
from pathlib import Path
from unittest.mock import MagicMock

HERE = Path(__file__).resolve().parent
FIXTURE = HERE.parent / "imports" / "recordings" / "bench_runs"
HEAVY = [
    *("bert_score", "evaluate", "langchain", "langchain.chains", "langchain.chat_models", "langchain.chat_models.base"),
    *("langchain.prompts", "langchain.prompts.chat", "langchain.schema", "tiktoken", "tiktoken.core", "wordfreq"),
    *("nltk", "amplitude"),
]
INPUTS = ["one", "two", "three", "four", "five", "six, with a comma", "seven\nin two lines", "<b>acht</b> \u202e"]
REFERENCES = ["Paris", "yes", "007", "straße", "İstanbul", " padded ", "two\nlines", "日本語"]
CANDIDATES = ["paris", "yes", "7", "STRASSE", "i̇stanbul", "padded", "two\nlines", "日本語"]
OTHERS = ["Paris", "No", "007", "straße", "İstanbul", " padded ", "two lines", "中文"]
TEXTS = [
    "The cat sat on the mat. It was happy.",
    "State-of-the-art methodologies don't necessarily guarantee extraordinary interpretability!",
    "",
    "?!... --",
    "No. Yes. Perhaps so, he said; but nobody listened to him any more.",
    "Привет мир. Это просто предложение из нескольких слов.",
    "これは文です。もう一つの文です。",
    "A very long sentence without any end " * 8,
]
WORDS = [
    ("The last train is at nine.", "It leaves at nine in the evening."),
    ("one two three four", "one two three four five six seven eight nine"),
    ("state-of-the-art", "state of the art"),
    ("a b", ""),
    ("... !", "word"),
    ("don't stop", "do not stop"),
    ("日本語 テキスト", "日本語"),
    ("one\ntwo\tthree", "one two three"),
]


def write(folder: Path) -> None:
    """Make suites and runs with the package itself."""
    os.environ |= {"BENCH_TELEMETRY_DISABLED": "1", "BENCH_FILE_DIR": str(folder)}
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != HERE]  # this file has its name
    for name in HEAVY:
        module = MagicMock()
        module.__spec__, module.__path__ = importlib.machinery.ModuleSpec(name, None), []
        sys.modules[name] = module
    from arthur_bench.models.models import Category, ScoreResult
    from arthur_bench.run.testsuite import TestSuite
    from arthur_bench.scoring import ExactMatch, Scorer

    class Length(Scorer):
        """A categorical scorer of somebody's own."""

        def __init__(self, most: int = 5) -> None:
            self.most = most

        @staticmethod
        def name() -> str:
            return "length"

        @staticmethod
        def requires_reference() -> bool:
            return False

        @staticmethod
        def is_categorical() -> bool:
            return True

        @staticmethod
        def categories() -> list[Category]:
            return [Category(name="short"), Category(name="long", description="more than most characters")]

        def run_batch(self, candidate_batch, reference_batch=None, input_text_batch=None, context_batch=None):
            kinds = [self.categories()[len(text) > self.most] for text in candidate_batch]
            return [ScoreResult(score=float(kind.name == "short"), category=kind) for kind in kinds]

    def pairs(name, scorer, **more):
        return TestSuite(name, scorer, input_text_list=INPUTS, reference_output_list=REFERENCES, **more)

    suite = pairs("capitals", "exact_match", description="as the package has it")
    suite.run("first", candidate_output_list=CANDIDATES, model_name="dropped by the package")
    suite.run("second run", candidate_output_list=OTHERS, batch_size=3)
    pairs("capitals raw", ExactMatch(case_sensitive=False)).run("first", candidate_output_list=CANDIDATES)
    TestSuite("reading", "readability", input_text_list=INPUTS).run("only", candidate_output_list=TEXTS)
    references, candidates = map(list, zip(*WORDS, strict=True))
    counted = TestSuite("words", "word_count_match", input_text_list=INPUTS, reference_output_list=references)
    counted.run("only", candidate_output_list=candidates)
    TestSuite("own", Length(), input_text_list=INPUTS).run("only", candidate_output_list=CANDIDATES)


def compare(folder: Path) -> int:
    """Score every recorded output anew and say where our score is another; how many are."""
    from tui_evals.evaluators.base import Evidence, evaluate
    from tui_evals.evaluators.registry import built_in
    from tui_evals.imports.bench import read

    differ = 0
    _, recordings, losses = read(folder)
    print(*losses.sentences(), sep="\n")
    for run in recordings:
        ((name, options),) = run.document["default_evaluators"].items()
        kind = built_in().get(name)
        if kind is None or kind.judged:
            print(f"{run.suite} · {run.name}: {name} is not computed here")
            continue
        rows = differ
        for one in run.answers:
            item = run.document["items"][one.item]
            given = Evidence(
                prompt=item["prompt"], response=one.answer.text or "", expected=item.get("expected_response")
            )
            ours = asyncio.run(evaluate(kind(kind.Options.model_validate(dict(options))), given))
            if ours.score is None or abs(ours.score - (one.scores[0].score or 0.0)) > 1e-9:
                differ += 1
                print(f"{run.suite} · {run.name} #{one.item + 1}: {one.scores[0].score} there, {ours.score} here")
        print(f"{run.suite} · {run.name}: {len(run.answers)} rows by {name}, {differ - rows} differ")
    return differ


if __name__ == "__main__":
    what, place = sys.argv[1], Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else FIXTURE
    sys.exit(write(place) if what == "write" else 1 if compare(place) else 0)
