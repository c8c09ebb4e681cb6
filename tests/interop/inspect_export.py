"""Reads a log that tui-evals wrote with Inspect itself, as `inspect view` does, and prints what it found there as JSON.

In an environment with `inspect-ai` installed: `python tests/interop/inspect_export.py LOG`. No model is asked. The test
of the export runs it with the interpreter that INSPECT_PYTHON names.
"""

from __future__ import annotations

import json
import sys

from inspect_ai.log import read_eval_log, read_eval_log_samples


def main(path: str) -> None:
    log = read_eval_log(path)
    header = read_eval_log(path, header_only=True)
    samples = list(read_eval_log_samples(path, all_samples_required=False))
    figures = {score.name: {name: one.value for name, one in score.metrics.items()} for score in log.results.scores}
    found = {
        "status": header.status,
        "model": log.eval.model,
        "figures": figures,
        "samples": [
            {
                "id": sample.id,
                "epoch": sample.epoch,
                "roles": [message.role for message in sample.messages],
                "answer": sample.output.completion,
                "error": sample.error.message if sample.error else None,
                "target": sample.target,
                "calls": [call.function for one in sample.messages for call in getattr(one, "tool_calls", None) or ()],
                "scores": {name: score.value for name, score in (sample.scores or {}).items()},
            }
            for sample in samples
        ],
    }  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
