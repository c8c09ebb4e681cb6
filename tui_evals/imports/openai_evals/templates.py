"""The eval classes we have an equal for: what their arguments mean here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from tui_evals.imports.base import Losses
from tui_evals.imports.openai_evals.samples import about_pictures, last_word, multiple_choice
from tui_evals.light_records import dataclass
from tui_evals.text.yamls import load_yaml

from .files import Args, Entries, RegistryEntry, resolved
from .samples import Recipe

_COUNTING = frozenset(("best", "diversity"))
"""The shipped grading specs that speak of the number of answers."""
_PAIRED = {"battle": {"input1": "completion1", "input2": "completion2"}}
"""The shipped grading specs that do not read `input` and judge `completion`."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of an eval's run besides a target."""

    judge: bool = False
    answers: int = 1
    """How many answers to each item one target gives; with as many targets each gives one."""
    targets: int = 1
    """How many targets there must be at least."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters the original sends with each question."""
    judge_params: Mapping[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """The unusual needs, as plain data."""
        named = {"params": dict(self.params), "judge_params": dict(self.judge_params)}
        return {name: value for name, value in named.items() if value}


@dataclass(frozen=True, slots=True)
class Plan:
    """An eval in our terms; `missing` says what keeps it from running."""

    evaluator: str
    options: dict[str, Any]
    needs: Needs
    losses: Losses
    data: str | None = None
    recipe: Recipe | None = None
    few_shot: str | None = None
    num_few_shot: int = 0
    missing: tuple[str, ...] = ()
    data_field: str = "samples_jsonl"
    inline: tuple[Mapping[str, Any], ...] = ()
    """Samples that the class holds in its code."""
    most: int | None = None
    """How many samples there are at most."""
    shuffled: bool = False
    """Whether the samples are shuffled before they are numbered."""
    differs: tuple[str, ...] = ()
    """Why the figures of a faithful run do not compare with those of the original."""


Maker = Callable[[RegistryEntry, Entries, bool], Plan]
"""Makes the plan of an entry with the grading specs there are, faithful to the original or hardened."""


def _basic(
    evaluator: str,
    params: Mapping[str, Any],
    *,
    max_tokens: int | None = None,
    needs_ideal: bool = True,
    few_shot: bool = False,
    flags: tuple[str, ...] = (),
    differs: tuple[str, str] | None = None,
    library: str | None = None,
    to_the_letter: Mapping[str, Any] | None = None,
    inline: str | None = None,
    apart: str | None = None,
) -> Maker:
    """A template that judges the answer without a model."""

    def make(entry: RegistryEntry, _: Entries, faithful: bool) -> Plan:
        args = Args(entry)
        samples = "" if inline else args.text("samples_jsonl")
        options: dict[str, Any] = {name: True for name in flags if args.flag(name)}
        options |= to_the_letter if faithful and to_the_letter else {}
        shown = args.count("num_few_shot") if few_shot else 0
        examples = args.optional_text("few_shot_jsonl") if few_shot else None
        if shown and examples is None:
            raise entry.error("few_shot_jsonl is missing, and num_few_shot asks for examples from it", "args")
        sent = dict(params)
        if max_tokens is not None:
            sent["max_tokens"] = args.count("max_tokens", max_tokens)
        args.unsent("max_tokens")
        args.sent(sent)
        if differs and not faithful:
            args.losses.changed(differs[0], entry.where, differs[1])
        missing = library is not None and find_spec(library) is None
        return Plan(
            evaluator,
            options,
            Needs(params=sent),
            args.rest(),
            samples,
            Recipe({}, needs_ideal=needs_ideal, faithful=faithful),
            examples if shown else None,
            shown,
            (f"its metric is computed by the Python package {library}, which is not installed",) if missing else (),
            inline=_inline(inline) if inline else (),
            differs=(apart,) if apart else (),
        )

    return make


def _inline(name: str) -> tuple[Mapping[str, Any], ...]:
    """The samples of a class that holds them in its code, from a file next to this one."""
    samples = load_yaml((files(__package__) / name).read_text(encoding="utf-8"))
    return tuple(samples) if isinstance(samples, list) else ()


def _match_with_solvers(entry: RegistryEntry, _: Entries, faithful: bool) -> Plan:
    """Match with a task before each chat, and the first reference also with a capital."""
    args = Args(entry)
    samples, task = args.text("samples_jsonl"), args.text("task_description")
    most = args.count("n_samples") or None
    shuffled = args.flag("shuffle", True)
    options: dict[str, Any] = {"no_reference": "fail"} if faithful else {}
    recipe = Recipe({}, before=({"role": "system", "content": task},), capitalized=True, faithful=faithful)
    return Plan("Match", options, Needs(), args.rest(), samples, recipe, most=most, shuffled=shuffled)


def _fetched(
    evaluator: str,
    params: Mapping[str, Any],
    columns: str,
    make: Callable[..., dict[str, Any]],
    *,
    said: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
    hardened: tuple[str, Mapping[str, Any]] | None = None,
    ignored: tuple[str, ...] = (),
) -> Maker:
    """A maker for a class that fetches its data and has its own columns; supports only data in local files.

    `said` names the texts of the entry that are the first arguments of `make`. `hardened` is the evaluator of a run
    that is not faithful, if it differs.
    """

    def plan(entry: RegistryEntry, _: Entries, faithful: bool) -> Plan:
        args = Args(entry)
        texts = [args.text(name) if name == "subject" else args.optional_text(name) or "" for name in said]
        named = next((name for name in ("dataset", "samples_jsonl") if name in args.left), None)
        source = args.text(named) if named else "the data set that the class names"
        for name in ("samples_jsonl", *ignored):  # the original reads the data set and ignores these
            args.left.pop(name, None)
        args.sent(params)
        name, chosen = (evaluator, options or {}) if faithful or hardened is None else hardened
        if not faithful:
            args.losses.changed("the instruction how to answer", entry.where, "reworded")
        if not faithful and name == "MultipleChoice":
            why = "'Because' is no B here; it is one in the original"
            args.losses.changed("what counts as a letter", entry.where, why)
        needs, data_field = Needs(params=params), named or "samples_jsonl"
        if named is None or "://" in source:
            why = (
                f"its data {source[:80]} are fetched over the network, which is not done here; save them as JSONL with "
                f"{columns}, and name that file with `run --registry ... --data FILE`"
            )
            return Plan(name, dict(chosen), needs, args.rest(), missing=(why,), data_field=data_field)
        recipe = Recipe({}, make=partial(make, *texts, faithful), faithful=faithful)
        apart = ("the original fetches its questions, so these must be the same in the same order",)
        return Plan(name, dict(chosen), needs, args.rest(), source, recipe, data_field=data_field, differs=apart)

    return plan


def _graded(entry: RegistryEntry, grading: Entries, faithful: bool) -> Plan:
    """A judge that chooses by a grading spec: the registry's own of that name, else a shipped one."""
    args = Args(entry)
    samples, name = args.text("samples_jsonl"), args.text("modelgraded_spec")
    spec = resolved(grading, name, "grading spec") if name in grading else None
    differs: list[str] = []
    if spec is None:
        differs.append(
            f"the registry has no grading spec {name}, and the shipped one is reworded; name the registry of the "
            "package as well, by a comma"
        )
        args.losses.changed(f"the grading spec {name}", entry.where, "the shipped one of that name, reworded")
    options: dict[str, Any] = {"spec": f"{spec.file}#{spec.name}" if spec else name}
    if values := args.mapping("modelgraded_spec_args"):
        options["spec_args"] = values
    options |= {key: value for key in ("eval_type", "match_fn") if (value := args.optional_text(key))}
    several = args.answers_at_once("multicomp_n")
    if several != 1 or _counts_answers(spec, name):
        options["multicomp_n"] = several
    if metaeval := args.flag("metaeval"):
        options["metaeval"] = True
    names = args.names("samples_renamings")
    params, judge_params = args.calls("sample_kwargs"), args.calls("eval_kwargs")
    args.sent(params)
    args.sent(judge_params, "judge")
    if faithful:
        options["compat"] = True
        differs += _unlike_itself(spec, options.get("eval_type"))
    else:
        why = "errors without a score here; --faithful gives them the lowest score, as the original does"
        args.losses.changed("replies of the judge without a choice", entry.where, why)
    return Plan(
        "ModelGraded",
        options,
        Needs(
            judge=True,
            answers=several if isinstance(several, int) else 1,
            targets=2 if several == "from_models" else 1,
            params=params,
            judge_params=judge_params,
        ),
        args.rest(),
        samples,
        Recipe(_inputs(spec, name), needs_ideal=False, needs_choice=metaeval, names=names, faithful=faithful),
        differs=tuple(differs),
    )


def _counts_answers(spec: RegistryEntry | None, name: str) -> bool:
    """Whether a grading prompt speaks of the number of answers, which is one where the eval names none."""
    return name in _COUNTING if spec is None else "{n}" in str(spec.data.get("prompt"))


def _unlike_itself(spec: RegistryEntry | None, eval_type: str | None) -> Iterator[str]:
    """Reasons why the original itself has no figures, or different ones each time."""
    if spec is None:
        return
    if eval_type is None and spec.data.get("eval_type") is None:
        yield "neither the eval nor its grading spec has an eval_type, and the original ends with an error there"
    if eval_type is not None and isinstance(spec.data.get("prompt"), list):
        yield "the original appends its instruction once more with each sample where the grading prompt is a chat"


def _inputs(spec: RegistryEntry | None, name: str) -> Mapping[str, str]:
    """Which fields of a sample ask, and which hold the answers."""
    usual = {"input": "completion"}
    if spec is None:
        return _PAIRED.get(name, usual)
    given = spec.data.get("input_outputs", usual)
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise spec.error("must name the field of the answer for each field of the input", "input_outputs")
    for needed in ("prompt", "choice_strings"):
        if needed not in spec.data:
            raise spec.error(f"{needed} is missing; a grading spec needs it")
    return given


_COLD = {"temperature": 0}
_LETTERS = ("Match", {**_COLD, "max_tokens": 1}, "question, answers and label")
_STRICT = ("NaN and Infinity", "are no JSON here unless the option compat is true")
_MISS = {"no_reference": "fail"}
_MEANS = "the original scores the whole corpus at once, which is not the mean of its sentences"

PLANS: Mapping[str, Maker] = {
    "evals.elsuite.basic.match:Match": _basic("Match", _COLD, few_shot=True, to_the_letter=_MISS),
    "evals.elsuite.basic.match_with_solvers:MatchWithSolvers": _match_with_solvers,
    "evals.elsuite.test.match:TestMatch": _basic(
        "Match", _COLD, few_shot=True, to_the_letter=_MISS, inline="test_match.yaml"
    ),
    "evals.elsuite.basic.includes:Includes": _basic("Includes", {}, flags=("ignore_case",), to_the_letter=_MISS),
    "evals.elsuite.basic.fuzzy_match:FuzzyMatch": _basic("FuzzyMatch", _COLD, max_tokens=100),
    "evals.elsuite.basic.json_match:JsonMatch": _basic("JsonMatch", _COLD, max_tokens=512, to_the_letter=_MISS),
    "evals.elsuite.basic.json_validator:JsonValidator": _basic(
        "JsonValid", _COLD, needs_ideal=False, differs=_STRICT, to_the_letter={"compat": True}
    ),
    "evals.elsuite.translate:Translate": _basic(
        "Translate", {}, max_tokens=500, few_shot=True, library="sacrebleu", apart=_MEANS
    ),
    "evals.elsuite.multiple_choice:MultipleChoice": _fetched(
        *_LETTERS, multiple_choice, said=("instructions",), hardened=("MultipleChoice", {})
    ),
    "evals.elsuite.mmlu:MMLU": _fetched(
        *_LETTERS, partial(multiple_choice, None), hardened=("MultipleChoice", {}), ignored=("split",)
    ),
    "evals.elsuite.mmmu.eval:MMMU": _fetched(
        "Includes",
        {**_COLD, "max_tokens": 4096},
        "question, options, answer, question_type and image_1 to image_7",
        about_pictures,
        said=("subject",),
        hardened=("Includes", {"whole_word": True}),
    ),
    "evals.elsuite.lambada:Lambada": _fetched(
        "Match", {**_COLD, "max_tokens": 8}, "text", last_word, options={"whole_word": True}, ignored=("subset",)
    ),
    "evals.elsuite.modelgraded.classify:ModelBasedClassify": _graded,
}
"""The plan of each class of the original."""
