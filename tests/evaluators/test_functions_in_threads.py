"""Functions that judge run in threads, so that slow ones do not wait for one another, and say why in a tuple."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

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


def test_what_a_thread_of_the_function_asks_is_asked_for_its_scoring(tmp_path):
    asked = []

    def judge(messages):
        asked.append(messages)
        return str(len(asked))

    def spread(output, ask):
        with ThreadPoolExecutor() as pool:
            return len(set(pool.map(lambda _: ask(output, temperature=0.7), range(3)))) / 3

    run = evaluate(
        [{"prompt": "q"}], lambda prompt: "an answer", evaluators={"spread": spread}, judge=judge, project=tmp_path
    )
    score = run.answers[0].scores["spread"]
    assert (score.score, score.details["judge_params"]) == (1, "temperature 0.7") and score.details["judge_model"]
