"""Functions that judge run in threads, so that slow ones do not wait for one another, and say why in a tuple."""

import threading
import time

from tui_evals import evaluate


def test_slow_functions_judge_at_the_same_time(tmp_path):
    together = threading.Barrier(2, timeout=30)
    seen = []

    def slow(output, tries=1):
        together.wait()
        seen.append(threading.current_thread())
        return len(output) > tries, "long enough"

    items = [{"prompt": f"question {number}"} for number in range(4)]
    began = time.monotonic()
    run = evaluate(items, lambda prompt: "an answer", evaluators={"slow": slow}, project=tmp_path)
    assert [answer.status for answer in run.answers] == ["pass"] * 4, time.monotonic() - began
    assert threading.main_thread() not in seen
    assert {score.reason for answer in run.answers for score in answer.scores.values()} == {"long enough"}
