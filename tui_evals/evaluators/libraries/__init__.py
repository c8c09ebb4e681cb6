"""Metrics of installed libraries: where a library is and in which release, found without running anything of it."""

from __future__ import annotations

import re
from pathlib import Path

from tui_evals.interpreter import our_python

LIBRARIES = ("autoevals", "deepeval", "ragas", "azure-ai-evaluation", "evaluate")
CODE_METRICS: dict[str, frozenset[str]] = {
    "autoevals": frozenset(
        ("Levenshtein", "LevenshteinScorer", "ExactMatch", "NumericDiff", "JSONDiff", "ValidJSON", "ListContains")
    ),
    "deepeval": frozenset(("ExactMatchMetric", "PatternMatchMetric", "ToolPermissionMetric")),
    "ragas": frozenset(
        (
            *("BleuScore", "RougeScore", "ChrfScore", "ExactMatch", "StringPresence", "NonLLMStringSimilarity"),
            *("NonLLMContextPrecisionWithReference", "NonLLMContextRecall", "DataCompyScore", "QuotedSpansAlignment"),
            *("IDBasedContextPrecision", "IDBasedContextRecall", "DistanceMeasure"),
        )
    ),
    "azure-ai-evaluation": frozenset(
        (
            *("BleuScoreEvaluator", "F1ScoreEvaluator", "GleuScoreEvaluator", "MeteorScoreEvaluator"),
            *("RougeScoreEvaluator", "DocumentRetrievalEvaluator"),
        )
    ),
}
"""The metrics that ask no model, by library; none of evaluate asks one."""
VECTOR_METRICS = frozenset(("autoevals:EmbeddingSimilarity", "ragas:SemanticSimilarity", "ragas:AnswerSimilarity"))
"""The metrics that ask for vectors alone."""


def is_library_metric(name: object) -> bool:
    """Whether a name is that of a metric of a library, such as autoevals:Factuality."""
    library, colon, metric = name.partition(":") if isinstance(name, str) else ("", "", "")
    return bool(colon and metric) and library in LIBRARIES


def asks_model(library: str, metric: str) -> bool:
    """Whether a metric needs a judge."""
    return library != "evaluate" and metric not in CODE_METRICS[library]


def python_of(word: str | None, root: Path) -> str:
    """The Python that is meant: our own, or one below the project's folder or elsewhere."""
    return our_python() if word is None else str(root / Path(word).expanduser())


def installed_version(python: str, library: str) -> str | None:
    """The release of a library where this Python looks for packages, None where it is not found there."""
    if python == our_python():
        from importlib.metadata import PackageNotFoundError, version  # imported when needed

        try:
            return version(library)
        except PackageNotFoundError:
            return None
    prefix = Path(python).parent.parent
    wanted = re.compile(rf"{re.sub(r'[-_.]+', '[-_.]+', library)}-([^-]+)\.dist-info", re.IGNORECASE)
    for folder in prefix.glob("lib/python3*/site-packages/*.dist-info"):
        if found := wanted.fullmatch(folder.name):
            return found[1]
    return None
