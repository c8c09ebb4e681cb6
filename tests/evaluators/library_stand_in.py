"""A Python with a small library of the form of azure-ai-evaluation, so that everyday tests need no registry."""

from __future__ import annotations

import sys
from pathlib import Path

LIBRARY = '''
import json, math, os, signal, time, urllib.request


class WordsEvaluator:
    def __call__(self, *, response):
        return {"words": float(len(response.split()))}


class PoliteEvaluator:
    """Asks the model that its configuration names, by OpenAI's protocol."""

    def __init__(self, model_config, *, threshold=3):
        self.model, self.threshold = model_config, threshold

    def __call__(self, *, query, response):
        body = {"model": self.model["model"], "messages": [{"role": "user", "content": f"{query}: {response}"}]}
        said = self.post("/chat/completions", body)["choices"][0]["message"]["content"]
        score = float(said.split()[0])
        verdict = "pass" if score >= self.threshold else "fail"
        return {"polite": score, "polite_result": verdict, "polite_reason": said, "polite_threshold": self.threshold}

    def post(self, path, body):
        headers = {"Authorization": "Bearer " + self.model["api_key"], "Content-Type": "application/json"}
        request = urllib.request.Request(self.model["base_url"] + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


class SamplesEvaluator:
    """Asks for two samples at once, and for one more by the same question."""

    def __init__(self, model_config):
        self.model, self.post = model_config, PoliteEvaluator(model_config).post

    def __call__(self, *, response):
        said = []
        for wanted in ({"n": 2}, {}):
            messages = [{"role": "user", "content": response}]
            body = {"model": self.model["model"], "temperature": 0.8, "messages": messages, **wanted}
            done = self.post("/chat/completions", body)
            said += [choice["message"]["content"] for choice in done["choices"]]
        return {"samples": float(len(set(said))), "samples_reason": " ".join(said)}


class LikelyEvaluator:
    """Weighs the numbers that the model found likely."""

    def __init__(self, model_config):
        self.model, self.post = model_config, PoliteEvaluator(model_config).post

    def __call__(self, *, response):
        messages = [{"role": "user", "content": response}]
        body = {"model": self.model["model"], "messages": messages, "logprobs": True, "top_logprobs": 20}
        ((token),) = self.post("/chat/completions", body)["choices"][0]["logprobs"]["content"]
        likely = [(float(one["token"]), math.exp(one["logprob"])) for one in token["top_logprobs"]]
        return {"likely": sum(n * p for n, p in likely) / sum(p for _, p in likely)}


class QuietEvaluator:
    """Has nothing to say of an answer without a claim."""

    def __call__(self, *, response):
        if "claim" in response:
            return {"quiet": 1.0, "quiet_result": "pass"}
        return {"quiet": None, "quiet_result": "not applicable", "quiet_reason": "there is no claim"}


class KeysEvaluator:
    def __call__(self, *, response):
        return {"keys": 1.0, "keys_result": "pass", "keys_reason": json.dumps(dict(os.environ))}


class DiesEvaluator:
    """Dies the first time."""

    def __init__(self, *, mark):
        self.mark = mark

    def __call__(self, *, response):
        try:
            with open(self.mark, "x"):
                os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            return {"alive": 1.0}


class HangsEvaluator:
    def __call__(self, *, response):
        if "stop" in response:
            os.kill(os.getpid(), signal.SIGSTOP)  # which another thread may take, so that this one goes on a little
        time.sleep(600 if "hang" in response or "stop" in response else 0)
        return {"alive": 1.0}


class RaisesEvaluator:
    def __call__(self, *, response):
        raise ValueError("it cannot be measured")
'''


def stand_in(folder: Path, version: str = "9.1.2") -> Path:
    """The Python in a folder of this kind, which is made there."""
    (folder / "bin").mkdir(parents=True)
    base = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    (packages / "azure" / "ai" / "evaluation").mkdir(parents=True)
    (packages / "azure" / "ai" / "evaluation" / "__init__.py").write_text(LIBRARY)
    about = packages / f"azure_ai_evaluation-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: azure-ai-evaluation\nVersion: {version}\n")
    return folder / "bin" / "python"
