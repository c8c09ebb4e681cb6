"""Neither latency nor a timeout holds the import of litellm."""

import textwrap

import pytest

SLOW = """
import time

started = time.perf_counter()
while time.perf_counter() - started < 5:  # the import, longer than the timeout of the target
    time.sleep(0.01)
imported = False

import httpx


class Answer:
    _hidden_params = {}

    def __init__(self, document):
        self.document = document

    def model_dump(self):
        return self.document


async def acompletion(api_base, model, messages, **rest):
    global imported
    while time.perf_counter() - started < 10 and not imported:  # what the first call imports, also longer than that
        time.sleep(0.01)
    imported = True
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:  # certificates take long to read
        response = await client.post(f"{api_base}/chat/completions", json={"model": model, "messages": messages})
    response.raise_for_status()
    return Answer(response.json())
"""


@pytest.fixture
def slow_litellm(tmp_path):
    folder = tmp_path / "first_on_the_path"
    folder.mkdir()
    (folder / "litellm.py").write_text(textwrap.dedent(SLOW))
    return str(folder)


@pytest.mark.nightly
def test_neither_latency_nor_timeout_hold_the_import_of_litellm(project, slow_litellm):
    project.server.behave(latency=0.02)
    project.configure(via="litellm", timeout=4, concurrency=7)
    project.dataset(
        7,
        lambda number: f"question {number}{' [[hang]]' * (number == 6)}",
        default_evaluators={"Latency": {"threshold": 4000}},
    )
    project.do("run", "data.json", "--target", "main", "--quiet", PYTHONPATH=slow_litellm)
    with project.reader() as reader:
        *rows, hanging = reader.all_rows(reader.find_run("last").id)
    assert [(row.attempts, row.code, row.status) for row in rows] == [(1, None, "pass")] * 6
    assert all(20 <= row.latency_ms < 4000 for row in rows), [row.latency_ms for row in rows]
    assert hanging.code == "agentTimeout" and "4 s" in hanging.preview, "a call that hangs still ends"
    questions = [one for one in project.server.counts()["questions"] if one["text"].startswith("question")]
    assert [question["asked"] for question in questions] == [1] * 6 + [2]
