"""One metric of each library, end to end, in an environment that `.ci/nightly` builds beside this one."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.runs.conftest import FREE, Project, until
from tests.server import Server
from tui_evals.store.details import read_scores

ENVIRONMENT = Path(os.environ.get("TUI_EVALS_LIBRARIES", Path(__file__).parents[2] / ".venv-libraries"))
PYTHON = ENVIRONMENT / "bin" / "python"
REPLY = json.dumps(
    {"reasons": "the same", "choice": "C", "statements": ["a"], "verdicts": [{"verdict": "yes"}]}
    | {"reason": "fine", "verdict": 1, "score": 4}
)
JUDGE = f"""[targets.judge]
model = "openai/judge-model"
base_url = "%s"
{FREE}
[judge]
target = "judge"
"""
OVERLAP = """import datasets
import evaluate


class Overlap(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": text})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        pairs = [(set(one.split()), set(other.split())) for one, other in zip(predictions, references)]
        return {"overlap": sum(len(one & other) / len(other) for one, other in pairs) / len(pairs)}
"""
METRICS: dict[str, dict[str, Any]] = {
    "autoevals:Factuality": {"scale": [0, 1], "threshold": 0.6},
    "deepeval:AnswerRelevancyMetric": {},
    "ragas:AspectCritic": {"options": {"name": "kind", "definition": "Is it kind?"}},
    "azure-ai-evaluation:RelevanceEvaluator": {"scale": [1, 5]},
    "evaluate:overlap": {"threshold": 0.1, "options": {"result": "overlap"}},
}
ASKED = {"autoevals": 1, "deepeval": 3, "ragas": 1, "azure-ai-evaluation": 1, "evaluate": 0}


@pytest.fixture
def judged(project: Project, server: Server, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> Project:
    if not PYTHON.exists():
        pytest.skip(f"no libraries in {ENVIRONMENT}: `.ci/nightly` installs them, where the registry has them")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    server.behave(model="judge-model", say=REPLY, markers=False)
    project.configure(f"{FREE}\n{JUDGE % server.url}")
    (project.folder / "overlap").mkdir()
    (project.folder / "overlap" / "overlap.py").write_text(OVERLAP)
    return project


def calls(server: Server) -> int:
    return sum(each["asked"] for each in server.counts()["questions"] if each["model"] == "judge-model")


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_judges_with_budget_cache_and_record(judged: Project, server: Server, metric: str) -> None:
    library = metric.partition(":")[0]
    judged.dataset(3, default_evaluators={"Fact": {"type": metric, "python": str(PYTHON), **METRICS[metric]}})
    refused = judged.do("run", "data.json", "--target", "main", "--quiet", code=2)
    assert f"runs {metric} of {library}" in refused
    judged.do("trust", "--yes")
    judged.do("run", "data.json", "--target", "main", "--quiet")
    with judged.reader() as reader:
        records = [record for _, record in read_scores(reader, reader.find_run("last").id)]
    assert [record.result for record in records] == ["pass"] * 3, records
    assert {record.details["library"] for record in records} == {library}
    assert all(record.details["version"] in refused for record in records)
    assert calls(server) == 3 * ASKED[library]
    judged.do("run", "data.json", "--target", "main", "--quiet")
    assert calls(server) == 3 * ASKED[library], "what the judge said before is in the cache"


def test_a_budget_holds_for_what_a_library_asks(judged: Project, server: Server) -> None:
    dear = "price = { input_per_million = 1000, output_per_million = 1000 }\n"
    judged.configure(f"{FREE}\n{(JUDGE % server.url).replace(FREE, dear)}")
    judged.dataset(3, default_evaluators={"Fact": {"type": "autoevals:Factuality", "python": str(PYTHON)}})
    said = judged.do("run", "data.json", "--target", "main", "--quiet", "--trust", "--max-cost", "0.01", code=None)
    assert calls(server) == 0 and "0.01" in said, said


def test_a_process_that_is_killed_in_the_middle_is_replaced(judged: Project, server: Server) -> None:
    server.behave(model="judge-model", say=REPLY, markers=False, latency=0.5)
    judged.dataset(8, default_evaluators={"Fact": {"type": "autoevals:Factuality", "python": str(PYTHON)}})
    process = judged.start("run", "data.json", "--target", "main", "--quiet", "--trust")
    until(lambda: calls(server) >= 2)
    killed = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(PYTHON).encode() == words[0]:
            os.kill(int(pid), signal.SIGKILL)
            killed += 1
    _, problems = process.communicate(timeout=120)
    assert killed and process.returncode == 0, problems
    assert [row[2] for row in judged.table()] == ["pass"] * 8
