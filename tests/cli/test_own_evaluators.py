"""Evaluators of one's own: begun by a command, judged by plain functions, and found wrong before a run."""

import json
import subprocess
import sys

import pytest

from tests.cli.helpers import Shell

DATASET = {"items": [{"prompt": "Say yes", "expected_response": "yes"}], "default_evaluators": {"shouting": {}}}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / ".evals").mkdir()
    (tmp_path / "d.json").write_text(json.dumps(DATASET))
    return tmp_path


@pytest.mark.nightly
def test_new_writes_a_function_and_a_test_that_pass_as_they_are(project, capsys):
    shell = Shell(capsys)
    done = shell("evaluators", "new", "shouting")
    assert done.code == 0 and "custom-evaluators/shouting/test_shouting.py" in done.out
    folder = project / "custom-evaluators" / "shouting"
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder], capture_output=True
    )
    assert tested.returncode == 0, tested.stdout
    assert shell("validate", "d.json").code == 0
    done = shell("score", "shouting", "--response", "It is PARIS", "--expected", "Paris", "--trust")
    assert "pass" in done.out and "'Paris' is in the answer" in done.out
    again = shell("evaluators", "new", "shouting")
    assert again.code != 0 and "already there" in again.err
    for name, said in (("equals", "built-in Equals"), ("json", "Python's own"), ("a-b", "letters, digits")):
        refused = shell("evaluators", "new", name)
        assert refused.code != 0 and said in refused.err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, "custom-evaluators/shouting/shouting.py is missing"),
        ("def score(response:\n", "shouting.py:1: this is not valid Python"),
        ("\n\ndef judge(response): ...\n", "shouting.py:1: there is neither a function score nor a class"),
        ("\ndef score(respons): ...\n", "shouting.py:2: score asks for 'respons', which is not known (did you mean"),
    ],
)
def test_a_wrong_file_is_found_by_validate_and_before_a_run(project, capsys, source, said):
    folder = project / "custom-evaluators" / "shouting"
    folder.mkdir(parents=True)
    if source is not None:
        (folder / "shouting.py").write_text(source)
    shell = Shell(capsys)
    done = shell("validate", "d.json")
    assert done.code == 2 and said in done.out and "default_evaluators.shouting" in done.out, done
    done = shell("run", "d.json", "-t", "demo", "--trust")
    assert done.code != 0 and (said if source else "missing required file 'shouting.py'") in done.err, done


FLOW = (
    "import json, re\nfrom pathlib import Path\nfrom promptflow.client import load_flow\n\n"
    "class Tone:\n"
    "    def __init__(self, model_config, threshold=3, options=None):\n"
    "        configuration = {'configuration': model_config}\n"
    "        self._flow = load_flow(Path(__file__).with_suffix('.prompty'), model=configuration)\n\n"
    "    def __call__(self, prompt, response, expected_response, context):\n"
    "        said = self._flow(user_prompt=prompt, response=response)\n"
    "        data = said if isinstance(said, dict) else {'score': re.search('[1-5]', str(said))[0]}\n"
    "        return {'score': int(data['score']), 'reason': 'read'}\n"
)
JSON_MODE = "model: {parameters: {response_format: {type: json_object}}}\n"
ASKED = {
    "json": (JSON_MODE, "Rate the tone from 1 to 5. Return a JSON object with score and reason."),
    "number": ("", "How consistent is it? Reply with only a number from 1 to 5."),
    "scale": ("", "Give a score on a scale of 1-5."),
}


@pytest.mark.story
@pytest.mark.parametrize("form", ASKED)
def test_a_judged_one_as_microsoft_writes_them_can_be_tried_with_the_demo_judge(project, capsys, form):
    folder = project / "custom-evaluators" / "tone"
    folder.mkdir(parents=True)
    (folder / "tone.py").write_text(FLOW)
    front, asked = ASKED[form]
    inputs = "inputs: {user_prompt: {type: string}, response: {type: string}}\n"
    body = f"system:\n{asked}\nuser:\nUser prompt: {{{{user_prompt}}}}\nResponse: {{{{response}}}}\n"
    (folder / "tone.prompty").write_text(f"---\n{front}{inputs}---\n{body}")
    items = [{"prompt": f"What is rule {number}?"} for number in range(8)]
    (project / "d.json").write_text(json.dumps({"items": items, "default_evaluators": {"tone": {}}}))
    done = Shell(capsys)("run", "d.json", "-t", "demo", "-j", "demo", "--trust", "--json")
    totals = json.loads(done.out.splitlines()[-1])["totals"]
    assert done.code == 0 and totals["passed"] + totals["failed"] == 8 and totals["partial"] == 0, totals
