"""What the real `evals` package makes of a registry, as JSON that a test compares with ours.

Run by hand, in an environment that has `evals`; nothing is fetched and no model is asked:

    python tests/interop/evals_registry.py tests/imports/registries/example > tests/imports/registries/example.json
    python tests/interop/evals_registry.py tests/imports/registries/letter > tests/imports/registries/letter.json

For each name it writes the full name the package finds, for each set the evals it would run, and for each eval that it
can run with answers of our own every call in the order in which it is made (the sample's id, the prompt, the parameters
and the answer), what it recorded about each sample, and its report: once for all samples and once for the first two.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import Any

ANSWERS = ("Paris: GREEN {it is}.", "Lima", "White, the snow!", "Nairobi and blackness", "redder", "Bagdad", "Ndjamena")
JSON = ('{"b": 0, "g": 0, "r": 255.0}', '{"b": 254}', "null")
JUDGED = ("It is kind.\n\nYes", "No", "Yes.\nWell, No", "Perhaps")
LETTER = ("", "Paris", " Paris", "{x} and {{y}}", "Lima!", "paris\n", "LIMA")
LETTER_JSON = ('{"a": 1.0}', "[1, 1]", "null", "NaN", "true", " {} ", "")
LETTER_JUDGED = ("Yes", "I think\nNo.", "", "B\nMaybe", "Not sure\n\nReasons", "Y", "N\nC")
MAX_SAMPLES = 2


class Recording:
    """A completion function that keeps what it is asked."""

    def __init__(self, role: str, calls: list[dict[str, Any]]) -> None:
        self.role = role
        self.calls = calls

    def __call__(self, prompt: Any, **params: Any) -> Recording:
        from evals.record import default_recorder

        sample = default_recorder().current_sample_id()
        place, before = int(sample.rsplit(".", 1)[1]), sum(call["sample"] == sample for call in self.calls)
        answers = _letters(self.role, sample) or (
            JUDGED if self.role == "judge" else JSON if sample.startswith(("colours-json", "colours-v")) else ANSWERS
        )
        self.answer = answers[(place + before) % len(answers)]
        call = {"role": self.role, "sample": sample, "params": params, "answer": self.answer}
        told = self.role != "judge" or sample.startswith("letter")  # those of the package itself are left out
        self.calls.append({**call, "prompt": deepcopy(prompt)} if told else call)
        return self

    def get_completions(self) -> list[str]:
        return [self.answer]


def _letters(role: str, sample: str) -> tuple[str, ...]:
    if not sample.startswith("letter"):
        return ()
    if role == "judge":
        return LETTER_JUDGED
    return LETTER_JSON if sample.startswith(("letter-json", "letter-valid")) else LETTER


def solving(asked: Recording) -> Any:
    """A solver that asks as the package's own do, with the task before the chat."""
    from evals.solvers.solver import Solver, SolverResult

    class Solving(Solver):
        def __init__(self) -> None:
            super().__init__()

        def copy(self) -> Any:
            return self

        def _solve(self, state: Any, **params: Any) -> Any:
            task = {"role": "system", "content": state.task_description}
            return SolverResult(asked([task, *(part.to_dict() for part in state.messages)]).get_completions()[0])

    return Solving()


def described(folder: Path) -> dict[str, Any]:
    """All that is compared."""
    registry = registry_in(folder)
    evals, sets = registry._evals, registry._eval_sets
    return {
        "package": version(),
        "names": {name: registry.get_eval(name).key for name in evals},
        "sets": {name: in_set(registry, name) for name in sets},
        "arguments": {name: [spec["cls"], spec.get("args")] for name, spec in evals.items() if "cls" in spec},
        "lettered": list(lettered(folder / "data" / "quiz" / "samples.jsonl")),
        "runs": dict(runs(folder, [name for name, spec in evals.items() if "cls" in spec])),
    }


def registry_in(folder: Path) -> Any:
    """The folder's registry, with the grading specs of the package beside its own."""
    from evals.registry import DEFAULT_PATHS, Registry

    registry = Registry([folder])
    registry._modelgraded_specs = Registry([*DEFAULT_PATHS[:1], folder])._modelgraded_specs
    return registry


def in_set(registry: Any, name: str) -> list[str]:
    return sorted({spec.key for spec in registry.get_evals(registry.get_eval_set(name).evals)})


def lettered(file: Path) -> Iterator[dict[str, str]]:
    """The choices of multiple-choice questions as the package shuffles them; it can fetch questions, but not read."""
    from random import Random

    from evals.formatting import make_abc

    if not file.is_file():
        return
    for place, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
        sample, name = json.loads(line), f"quiz.dev.{place}"
        random = Random(f"{name}:20220722".encode())
        choices, letter = make_abc(sample["answers"], correct_idx=sample["label"], rng=random)
        yield {"sample": name, "choices": choices, "letter": letter}


def runs(folder: Path, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each eval with the calls it makes and what is recorded, or the error it ends with."""
    for name in names:
        found: dict[str, Any] = {}
        for key, most in (("all", None), ("first", MAX_SAMPLES)):
            calls: list[dict[str, Any]] = []
            try:
                report, events = one_run(folder, name, most, calls)
                found[key] = calls
                if most is None:
                    found["report"] = {part: value for part, value in report.items() if not part.endswith("strap_std")}
                    found["recorded"] = [
                        {"sample": event.sample_id, "type": event.type, "data": event.data} for event in events
                    ]
            except Exception as problem:
                found["error"] = type(problem).__name__
        yield name, found


def one_run(folder: Path, name: str, most: int | None, calls: list[dict[str, Any]]) -> tuple[dict[str, Any], list[Any]]:
    """An eval run as the package's own command runs it, one sample after the other."""
    import evals.eval
    from evals.base import RunSpec
    from evals.record import RecorderBase

    registry = registry_in(folder)
    spec = registry.get_eval(name)
    args = spec.args or {}
    if str(args.get("dataset", "")).startswith("hf:"):
        raise ConnectionError("nothing is fetched here")
    targets = 2 if args.get("multicomp_n") == "from_models" else 1
    asked: list[Any] = [Recording("target", calls) for _ in range(targets)]
    if "modelgraded_spec" in args:
        asked.append(Recording("judge", calls))
    if "MatchWithSolvers" in spec.cls:
        asked = [solving(asked[0])]
    evals.eval.set_max_samples(most)
    made = registry.get_class(spec)(
        completion_fns=asked, name=spec.key, eval_registry_path=spec.registry_path, registry=registry
    )
    base, split, *_ = spec.key.split(".")
    recorder = RecorderBase(RunSpec(["recording"], spec.key, base, split, {}, ""))
    recorder._flush_events_internal = lambda events: None
    report: dict[str, Any] = made.run(recorder)
    return report, recorder.get_events("match") + recorder.get_events("metrics")


def version() -> str:
    from importlib.metadata import version as installed

    return f"evals {installed('evals')}"


def main() -> None:
    os.environ.setdefault("OPENAI_API_KEY", "not used")
    os.environ["EVALS_SEQUENTIAL"] = "1"
    logging.disable(logging.CRITICAL)
    with redirect_stdout(sys.stderr):
        found = described(Path(sys.argv[1]))
    print(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True, default=str))


if __name__ == "__main__":
    main()
