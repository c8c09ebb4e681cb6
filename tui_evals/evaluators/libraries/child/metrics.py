"""The metrics of five libraries, each made, fed and read the way its library means it to be."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import math
import re
import threading
from asyncio import wrap_future
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from .judge_server import MODEL, USUAL_ALTERNATIVES, JudgeServer, Refused, chat, embeddings, said_and_logprobs

_WORDS = {
    **dict.fromkeys(("input", "query", "question", "user_input", "instructions"), "prompt"),
    **dict.fromkeys(("output", "answer", "actual_output", "prediction", "predictions"), "response"),
    **dict.fromkeys(("expected_output", "reference", "ground_truth", "references"), "expected"),
    **dict.fromkeys(("retrieval_context", "retrieved_contexts", "reference_contexts", "contexts"), "context"),
    **dict.fromkeys(("tools_called",), "tool_calls"),
    "tool_definitions": "tools",
}
"""Our words for parameters of the libraries."""


_REMEDIES = {
    "langchain_community": "ragas needs an older langchain-community: pip install 'langchain-community<0.4'",
}
"""Fixes for a library that does not find a module of another one."""


def why_unloadable(problem: BaseException) -> str:
    """The exception of a library's import, with the fix if one is known."""
    said = f"{type(problem).__name__}: {problem}"
    helps = [remedy for module, remedy in _REMEDIES.items() if isinstance(problem, ImportError) and module in said]
    return f"{said}. {helps[0]}" if helps else said


@dataclass(frozen=True)
class Job:
    """One answer to measure."""

    number: int
    given: Mapping[str, Any]
    server: JudgeServer
    begin_ask: Callable[[Mapping[str, Any]], Future[Any]]

    @property
    def key(self) -> str:
        """The key with which a client of OpenAI's protocol asks for this job."""
        return self.server.key(self.number)

    def ask(self, question: Mapping[str, Any]) -> Any:
        """Ask the judge, and wait in this thread."""
        return self.begin_ask(question).result()

    async def ask_async(self, question: Mapping[str, Any]) -> Any:
        """Ask the judge without blocking other tasks."""
        return await wrap_future(self.begin_ask(question))

    def value(self, parameter: str) -> Any:
        """The value for a parameter of a library; None if the evidence has none."""
        values, variables = self.given["values"], self.given["variables"]
        source = self.given["map"].get(parameter)
        if source is not None:
            if source not in values and source not in variables:
                raise LookupError(f"{source!r}, which the map names for {parameter}, is no evidence and no variable")
            found = values[source] if source in values else variables[source]
            if found is None:
                raise LookupError(f"there is no {source}, which the map names for {parameter}")
            return found
        found = values.get(_WORDS.get(parameter, parameter))
        return variables.get(parameter) if found is None else found

    def inputs(self, parameters: Sequence[str], *, lists: Sequence[str] = ()) -> dict[str, Any]:
        """The values for some parameters, and for those that the map names; those in `lists` become lists."""
        named = dict.fromkeys([*parameters, *self.given["map"]])
        found = {each: value for each in named if (value := self.value(each)) is not None}
        return {each: _listed(value) if each in lists else value for each, value in found.items()}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


@dataclass(frozen=True)
class Metric:
    """A metric that is loaded: the release of its library, and what measures a job (async or not)."""

    version: str
    measure: Callable[[Job], Any]


@dataclass(frozen=True)
class Library:
    """How metrics of a library are opened, and which it has, with their inputs."""

    open: Callable[[str, dict[str, Any], JudgeServer], Callable[[Job], Any]]
    listed: Callable[[], Mapping[str, Sequence[str]]]


def open_metric(library: str, name: str, options: Mapping[str, Any], server: JudgeServer) -> Metric:
    """A metric by the names of its library and itself."""
    measure = LIBRARIES[library].open(name, dict(options), server)
    return Metric(importlib.metadata.version(library), measure)


def _named(module: Any, name: str, library: str) -> Any:
    if not hasattr(module, name):
        raise LookupError(f"{library} has no {name}")
    return getattr(module, name)


def _result(score: Any, **more: Any) -> dict[str, Any]:
    """The result for the parent: without a score the metric does not apply, and NaN is no score."""
    if score is None:
        return {"skipped": str(more.get("reason") or "the library gave no score")}
    number = float(score) if isinstance(score, (int, float)) or hasattr(score, "__float__") else None
    if number is not None and math.isnan(number):
        number = None
    return {"score": number, **{name: value for name, value in more.items() if value is not None}}


# autoevals


def _open_autoevals(name: str, options: dict[str, Any], server: JudgeServer) -> Callable[[Job], Any]:
    import autoevals
    from autoevals import oai

    kind = _named(autoevals, name, "autoevals")
    scorer = kind(**options)

    class NeverRaised(Exception):
        """Retries are the judge's."""

    class Client(oai.LLMClient):  # type: ignore[misc]
        def __post_init__(self) -> None:
            """Check that its required inputs are given."""

    async def complete(job: Job, **body: Any) -> dict[str, Any]:
        return await _replied(job, chat, body)

    async def embed(job: Job, **body: Any) -> dict[str, Any]:
        return await _replied(job, embeddings, body)

    async def moderation(job: Job, **body: Any) -> dict[str, Any]:
        raise Refused("a judge moderates nothing")

    async def measure(job: Job) -> dict[str, Any]:
        # Kept with the task of this job alone.
        oai._client_var.set(
            Client(
                None,
                complete=partial(complete, job),
                embed=partial(embed, job),
                moderation=partial(moderation, job),
                RateLimitError=NeverRaised,
                is_async=True,
            )
        )
        given = {**job.given["variables"], **job.inputs(("input", "output", "expected", "context"))}
        output = given.pop("output", "")
        done = await scorer.eval_async(output, given.pop("expected", None), **given)
        metadata = dict(done.metadata or {})
        reason = metadata.pop("rationale", None)
        if done.score is None:
            return {"skipped": reason or f"{name} gave no score"}
        return _result(done.score, label=metadata.get("choice"), reason=reason, metadata=metadata)

    return measure


async def _replied(job: Job, protocol: Callable[..., dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
    """The answer of a protocol whose one question is asked without holding up others."""
    asked: list[Mapping[str, Any]] = []

    class Wanted(Exception):
        pass

    def note(question: Mapping[str, Any]) -> Any:
        asked.append(question)
        raise Wanted

    try:
        protocol(body, note)
    except Wanted:
        reply = await job.ask_async(asked[0])
    return protocol(body, lambda question: reply)


def _list_autoevals() -> Mapping[str, Sequence[str]]:
    import autoevals

    found: dict[str, Sequence[str]] = {}
    for name, kind in vars(autoevals).items():
        if not (inspect.isclass(kind) and issubclass(kind, autoevals.Scorer) and not inspect.isabstract(kind)):
            continue
        if name in ("Moderation", "OpenAILLMClassifier", "SpecFileClassifier"):  # no judge, or bases of others
            continue
        inputs = ["output", "expected"]
        try:
            messages = getattr(kind(), "messages", ())
        except Exception:  # for example, it needs options
            messages = ()
        for message in messages:
            inputs += re.findall(r"{{[{#]?\s*(\w+)", message["content"])
        found[name] = [each for each in dict.fromkeys(inputs) if not each.startswith("__")]
    return found


# deepeval


def _open_deepeval(name: str, options: dict[str, Any], server: JudgeServer) -> Callable[[Job], Any]:
    import deepeval.metrics
    from deepeval.models import DeepEvalBaseLLM
    from deepeval.test_case import LLMTestCase, ToolCall

    kind = _named(deepeval.metrics, name, "deepeval")
    if "evaluation_params" in options:
        options["evaluation_params"] = _deepeval_params(options["evaluation_params"])
    takes_model = "model" in inspect.signature(kind).parameters

    class Judge(DeepEvalBaseLLM):  # type: ignore[misc]
        def __init__(self, job: Job) -> None:
            self.job = job
            super().__init__(MODEL)

        def load_model(self) -> Any:
            return self

        def get_model_name(self) -> str:
            return MODEL

        def generate(self, prompt: Any, schema: Any = None) -> Any:
            return _as_schema(self.job.ask(_prompt_question(prompt, schema)), schema)

        async def a_generate(self, prompt: Any, schema: Any = None) -> Any:
            return _as_schema(await self.job.ask_async(_prompt_question(prompt, schema)), schema)

        def generate_raw_response(self, prompt: Any, top_logprobs: int = USUAL_ALTERNATIVES, **_: Any) -> Any:
            return _raw_response(self.job.ask(_prompt_question(prompt, None, top_logprobs))), 0

        async def a_generate_raw_response(self, prompt: Any, top_logprobs: int = USUAL_ALTERNATIVES, **_: Any) -> Any:
            return _raw_response(await self.job.ask_async(_prompt_question(prompt, None, top_logprobs))), 0

    parameters = [each for each in LLMTestCase.model_fields if each in (*_WORDS, "context", "expected_tools")]

    async def measure(job: Job) -> dict[str, Any]:
        given = job.inputs(parameters, lists=("context", "retrieval_context"))
        for tools in ("tools_called", "expected_tools"):
            if tools in given:
                given[tools] = [
                    ToolCall(name=call["name"], input_parameters=call.get("arguments")) for call in given[tools]
                ]
        metric = kind(**({"model": Judge(job)} if takes_model else {}), **options)
        await metric.a_measure(LLMTestCase(**given), _show_indicator=False)
        if getattr(metric, "skipped", False) is True:
            return {"skipped": str(metric.reason or f"{name} does not apply")}
        if metric.error:
            raise RuntimeError(str(metric.error))
        return _result(
            metric.score,
            passed=bool(metric.is_successful()),
            threshold=metric.threshold,
            reason=metric.reason,
            metadata=getattr(metric, "score_breakdown", None),
        )

    return measure


def _raw_response(reply: Any) -> Any:
    """A reply with log-probabilities, in the form of the OpenAI client that GEval reads."""
    said, logprobs = said_and_logprobs(reply)
    choice = {"message": {"content": said}, "logprobs": logprobs}
    return json.loads(json.dumps({"choices": [choice]}), object_hook=lambda held: SimpleNamespace(**held))


def _prompt_question(prompt: Any, schema: Any, likelihoods: int = 0) -> dict[str, Any]:
    if not isinstance(prompt, str):
        raise Refused("a judge is shown text only, and this prompt holds something else")
    form = schema.model_json_schema() if schema is not None else None
    asked = {"messages": [{"role": "user", "content": prompt}], "schema": form}
    return {**asked, "likelihoods": likelihoods} if likelihoods else asked


def _as_schema(said: str, schema: Any) -> Any:
    """A reply as the requested object; an invalid one is returned as text, and the library reports it."""
    if schema is None:
        return said
    start = said.find("{")
    try:
        return schema.model_validate(json.JSONDecoder().raw_decode(said, max(start, 0))[0])
    except ValueError:
        return said


def _deepeval_params(names: Sequence[str]) -> list[Any]:
    from deepeval import test_case

    kinds = getattr(test_case, "SingleTurnParams", None) or test_case.LLMTestCaseParams
    return [kinds(name.lower()) for name in names]


def _list_deepeval() -> Mapping[str, Sequence[str]]:
    import deepeval.metrics

    found: dict[str, Sequence[str]] = {}
    for name, kind in vars(deepeval.metrics).items():
        if inspect.isclass(kind) and issubclass(kind, deepeval.metrics.BaseMetric) and name != "BaseMetric":
            params = getattr(kind, "_required_params", ())
            found[name] = [each.value for each in params] if isinstance(params, list) else []
    return found


# ragas


def _open_ragas(name: str, options: dict[str, Any], server: JudgeServer) -> Callable[[Job], Any]:
    from langchain_core.outputs import Generation, LLMResult
    from ragas.dataset_schema import SingleTurnSample
    from ragas.embeddings.base import BaseRagasEmbeddings
    from ragas.llms.base import BaseRagasLLM
    from ragas.run_config import RunConfig

    kind = _ragas_kinds().get(name)
    if kind is None:
        raise LookupError(f"ragas has no single-turn metric {name}")
    once = RunConfig(max_retries=1)  # retries are the judge's

    class Judge(BaseRagasLLM):  # type: ignore[misc]
        def __init__(self, job: Job) -> None:
            super().__init__(run_config=once)
            self.job = job

        def generate_text(self, prompt: Any, n: int = 1, temperature: float | None = None, **ignored: Any) -> Any:
            question = _sampled(prompt, n, temperature)
            return _told([self.job.ask(question) for _ in range(n)])

        async def agenerate_text(
            self, prompt: Any, n: int = 1, temperature: float | None = None, **ignored: Any
        ) -> Any:
            question = _sampled(prompt, n, temperature)
            return _told([await self.job.ask_async(question) for _ in range(n)])

        def is_finished(self, response: Any) -> bool:
            return True

    def _sampled(prompt: Any, n: int, temperature: float | None) -> dict[str, Any]:
        """A question whose several samples may differ."""
        question = _prompt_question(prompt.to_string(), None)
        return {**question, "sampling": {"temperature": temperature}} if n > 1 and temperature else question

    def _told(texts: list[str]) -> Any:
        return LLMResult(generations=[[Generation(text=text) for text in texts]])

    class Vectors(BaseRagasEmbeddings):  # type: ignore[misc]
        def __init__(self, job: Job) -> None:
            super().__init__()
            self.job = job
            self.set_run_config(once)

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            vectors: list[list[float]] = self.job.ask({"texts": texts})
            return vectors

        async def aembed_query(self, text: str) -> list[float]:
            return (await self.aembed_documents([text]))[0]

        async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
            vectors: list[list[float]] = await self.job.ask_async({"texts": texts})
            return vectors

    takes = inspect.signature(kind).parameters
    lists = ("retrieved_contexts", "reference_contexts")
    parameters = [each for each in SingleTurnSample.model_fields if each in (*_WORDS, "response", "rubrics")]

    async def measure(job: Job) -> dict[str, Any]:
        metric = kind(**options)
        if "llm" in takes or hasattr(metric, "llm"):
            metric.llm = Judge(job)
        if "embeddings" in takes or hasattr(metric, "embeddings"):
            metric.embeddings = Vectors(job)
        metric.init(once)
        done = await metric.single_turn_ascore(SingleTurnSample(**job.inputs(parameters, lists=lists)))
        return _result(getattr(done, "value", done), reason=getattr(done, "reason", None))

    return measure


def _ragas_kinds() -> Mapping[str, Any]:
    from ragas import metrics
    from ragas.metrics.base import SingleTurnMetric

    kinds = (getattr(metrics, name, None) for name in dir(metrics))
    return {
        kind.__name__: kind
        for kind in kinds
        if inspect.isclass(kind) and issubclass(kind, SingleTurnMetric) and not inspect.isabstract(kind)
    }


def _list_ragas() -> Mapping[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    for name, kind in _ragas_kinds().items():
        try:
            columns = kind().required_columns
        except Exception:  # for example, it needs options
            columns = {}
        found[name] = sorted({each.split(":")[0] for names in columns.values() for each in names})
    return found


# azure-ai-evaluation


def _open_azure(name: str, options: dict[str, Any], server: JudgeServer) -> Callable[[Job], Any]:
    from azure.ai import evaluation

    kind = _named(evaluation, name, "azure-ai-evaluation")
    takes = inspect.signature(kind).parameters
    wanted = options.pop("result", None)

    def measure(job: Job) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if "model_config" in takes:
            given = {"model_config": {"type": "openai", "model": "gpt-4o", "base_url": server.base_url}}
            given["model_config"]["api_key"] = job.key
        metric = kind(**given, **options)
        return _of_mapping(metric(**job.inputs(_azure_inputs(metric))), wanted)

    return measure


def _azure_inputs(metric: Any) -> list[str]:
    sets = getattr(metric, "_singleton_inputs", None)
    if sets is None:
        return [each for each in inspect.signature(metric.__call__).parameters if each != "kwargs"]
    return list(dict.fromkeys(each for inputs in sets for each in inputs))


def _of_mapping(done: Mapping[str, Any], wanted: str | None) -> dict[str, Any]:
    """The figure `wanted` of a result with several, or the first one, with its reason."""
    figures = {
        name: value
        for name, value in done.items()
        if value is None or (not isinstance(value, (bool, str)) and hasattr(value, "__float__"))
        if not name.endswith(("_threshold", "_result", "_reason", "_status"))
    }
    if wanted is None:
        wanted = next((name for name in figures if f"{name}_result" in done), next(iter(figures), ""))
    if {done.get(f"{wanted}_status"), done.get(f"{wanted}_result")} & {"skipped", "not_applicable", "not applicable"}:
        return {"skipped": str(done.get(f"{wanted}_reason") or "it does not apply")}
    if wanted not in done:
        raise LookupError(f"its result has no figure {wanted!r}; there are {', '.join(figures) or 'none'}")
    verdict = done.get(f"{wanted}_result")
    return _result(
        done[wanted],
        passed={"pass": True, "fail": False}.get(str(verdict)),
        threshold=done.get(f"{wanted}_threshold"),
        reason=done.get(f"{wanted}_reason"),
        metadata={name: value for name, value in figures.items() if name != wanted and value is not None} or None,
    )


def _list_azure() -> Mapping[str, Sequence[str]]:
    from azure.ai import evaluation

    configuration = {"type": "openai", "model": MODEL, "api_key": "none", "base_url": "http://127.0.0.1:9/v1"}
    found: dict[str, Sequence[str]] = {}
    for name in dir(evaluation):
        kind = getattr(evaluation, name)
        if name.startswith("_") or not name.endswith("Evaluator") or not inspect.isclass(kind):
            continue
        takes = inspect.signature(kind).parameters
        if "azure_ai_project" in takes:  # needs an Azure service, which a judge cannot replace
            continue
        try:
            found[name] = _azure_inputs(kind(**({"model_config": configuration} if "model_config" in takes else {})))
        except Exception:  # for example, it needs options
            found[name] = ()
    return found


# evaluate (Hugging Face)


def _open_evaluate(name: str, options: dict[str, Any], server: JudgeServer) -> Callable[[Job], Any]:
    import evaluate

    wanted = options.pop("result", None)
    loading = options.pop("load", {})
    metric = evaluate.load(name, keep_in_memory=True, **loading)
    features = metric.features[0] if isinstance(metric.features, list) else metric.features
    one_at_a_time = threading.Lock()

    def measure(job: Job) -> dict[str, Any]:
        found = job.inputs(list(features))
        if "references" not in job.given["map"] and _several(features.get("references")):
            found["references"] = job.given["values"]["references"]
        given = {each: [_shaped(value, features[each])] for each, value in found.items()}
        with one_at_a_time:
            return _of_mapping(metric.compute(**given, **options), wanted)

    return measure


def _shaped(value: Any, feature: Any) -> Any:
    """A value as the metric declares it: a number where it wants one, a list where it wants several."""
    kind = str(getattr(feature, "dtype", ""))
    if kind.startswith(("int", "float")) and isinstance(value, str):
        return float(value) if kind.startswith("float") else int(value)
    return [value] if _several(feature) and not isinstance(value, list) else value


def _several(feature: Any) -> bool:
    return type(feature).__name__ in ("Sequence", "List", "list")


LIBRARIES: Mapping[str, Library] = {  # the names are those of the packages, and `location.LIBRARIES` has the same
    "autoevals": Library(_open_autoevals, _list_autoevals),
    "deepeval": Library(_open_deepeval, _list_deepeval),
    "ragas": Library(_open_ragas, _list_ragas),
    "azure-ai-evaluation": Library(_open_azure, _list_azure),
    "evaluate": Library(_open_evaluate, dict),
}
