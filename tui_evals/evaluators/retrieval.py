"""Retrieval: queries and results, and whether the answer is supported by them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tui_evals.evaluators.judging import chunk_pieces, chunks_of, object_rows, reference_text, source_of
from tui_evals.light_records import dataclass
from tui_evals.text.measures import Measure

from .base import (
    CannotJudge,
    Evaluator,
    Evidence,
    JudgedOptions,
    Misconfigured,
    Options,
    Score,
    Text,
    measured_score,
    skipped_score,
)
from .judging import Piece, ask_judge, judge_question, required_verdict
from .values import quoted, quoted_list
from .verdicts import Checklist, Entries, ShareOptions, ask_lists, share_score

_SUCCESS = ("success", "succeeded", "ok", "completed")


class RetrievalQueryOptions(Options):
    """Options of RetrievalQuery."""

    capability: Text = Field(description="Only executions of this retrieval capability count.")
    selector: Text = Field(description="Text that marks the queries to look at, in any case.")
    includes: list[Text] = Field([], description="Texts that a marked query must contain. Case is ignored.")
    excludes: list[Text] = Field([], description="Texts that no marked query may contain. Case is ignored.")


class ExpectedItem(BaseModel):
    """One expected content of the hits."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    claim: Text = Field(alias="retrievalExtract_contains", description="What an extract must contain or support.")


class RetrievalResultOptions(JudgedOptions):
    """Options of RetrievalResult."""

    capability: Text = Field(description="Only executions of this retrieval capability count.")
    max_rank: int = Field(10, ge=1, description="The last rank whose hits count.")
    min_expected_count: int | None = Field(None, ge=1, description="How many hits there must be at least.")
    expected_items: list[ExpectedItem] = Field([], min_length=1, description="What the extracts of the hits must say.")
    mode: Literal["auto", "substring", "judge"] = Field(
        "auto",
        description="How an expected item is looked for: by its text, by a judge, or by a judge if there is one.",
    )

    @model_validator(mode="after")
    def _asserts_something(self) -> RetrievalResultOptions:
        if not self.expected_items and self.min_expected_count is None:
            raise ValueError("give expected_items, min_expected_count or both")
        return self


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved document: its rank, its address, and the texts taken from it, both original and case-folded."""

    rank: int
    url: str | None
    extracts: tuple[str, ...]
    folded: tuple[str, ...]


def _executions(evidence: Evidence, capability: str, code: str) -> list[Mapping[str, Any]]:
    """The executions of a capability, from the diagnostics of the answer."""
    executions = (evidence.diagnostics or {}).get("retrieval_executions")
    if not isinstance(executions, list | tuple):
        reason = "the diagnostics hold no list of retrieval_executions, so what was retrieved is not known"
        raise Misconfigured(reason, diagnostic_code=code)
    return [row for row in object_rows(executions) if row.get("capability") == capability]


def _all_failed(executions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no execution succeeded; one without a status counts as a success."""
    statuses = [row.get("status") for row in executions]
    return not any(status is None or str(status).strip().casefold() in _SUCCESS for status in statuses)


def _parts_in(parts: Sequence[str], folded: Sequence[str]) -> list[str]:
    """The parts that are in some of the texts, which are folded already."""
    return [part for part in parts if any(part.casefold() in text for text in folded)]


class RetrievalQuery(Evaluator):
    """Passes when a retrieval query that the selector marks holds every included text and no excluded one.

    The queries come from `diagnostics.retrieval_executions` of the answer. Texts are compared in any case; a filter
    expression is not part of a query. Diagnostics without that list are an error, an empty list is a fail.
    """

    name = "RetrievalQuery"
    family = "M365"
    measure = Measure("exactly")
    needs = ("response", "diagnostics")
    Options = RetrievalQueryOptions
    example: ClassVar = {
        "options": {"capability": "Email", "selector": "budget", "includes": ["2025"], "excludes": ["draft"]},
        "response": "Here is the budget.",
        "diagnostics": {
            "retrieval_executions": [
                {"capability": "Email", "status": "success", "queries": [{"queryString": "Budget 2025 final"}]}
            ]
        },
    }

    def score(self, evidence: Evidence) -> Score:
        """Look at the queries."""
        options = self.options
        executions = _executions(evidence, options.capability, "retrieval_failure")
        values = [query.get("queryString") for row in executions for query in object_rows(row.get("queries"))]
        queries = [query for query in values if isinstance(query, str)]
        matched = [query for query in queries if options.selector.casefold() in query.casefold()]
        texts = [query.casefold() for query in matched]
        included, excluded = _parts_in(options.includes, texts), _parts_in(options.excludes, texts)
        missing = [part for part in options.includes if part not in included]
        if _all_failed(executions):
            code, reason = "retrieval_failure", f"no successful retrieval by {quoted(options.capability)}"
        elif not matched:
            code, reason = "no_matching_query", f"none of the {len(queries)} queries holds {quoted(options.selector)}"
        elif missing or excluded:
            mixed = "mixed_term_failure" if missing and excluded else None
            code = mixed or ("required_terms_missing" if missing else "excluded_terms_found")
            faults = [
                f"{word} {quoted_list(parts)}" for word, parts in (("lack", missing), ("hold", excluded)) if parts
            ]
            reason = f"the matching queries {' and '.join(faults)}"
        else:
            code, reason = "pass", "the matching queries hold all that is wanted and nothing unwanted"
        lists: dict[str, Any] = {"matched_queries": matched, "includes_missing": missing, "excludes_found": excluded}
        return measured_score(float(code == "pass"), 1.0, reason, diagnostic_code=code, **lists)


def _hits(executions: Sequence[Mapping[str, Any]], max_rank: int) -> list[Hit]:
    """The hits up to a rank, best first; a hit without a rank has the rank of its place."""
    hits = []
    for row in executions:
        for place, hit in enumerate(object_rows(row.get("retrievalHits")), 1):
            rank, url = hit.get("rank"), hit.get("webUrl")
            extracts = [extract.get("text") for extract in object_rows(hit.get("extracts"))]
            texts = tuple(text for text in extracts if isinstance(text, str))
            folded = tuple(map(str.casefold, texts))
            hits.append(Hit(rank if type(rank) is int else place, url if isinstance(url, str) else None, texts, folded))
    return sorted((hit for hit in hits if hit.rank <= max_rank), key=lambda hit: hit.rank)


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether the hits support a claim, the first hit that does where it is known, and why."""

    claim: str
    supported: bool
    hit: Hit | None = None
    reason: str = ""

    @property
    def entry(self) -> dict[str, object]:
        """The finding as the record lists it, without unknown values."""
        entry = {
            "extractMatch": self.claim,
            "matchedHitUrl": self.hit and self.hit.url,
            "matchedHitRank": self.hit and self.hit.rank,
            "reason": self.reason or None,
        }
        return {key: value for key, value in entry.items() if value is not None}


def _find_text(claim: str, hits: Sequence[Hit]) -> Finding:
    """The best hit with an extract that contains the claim, word for word."""
    for hit in hits:
        if _parts_in([claim], hit.folded):
            return Finding(claim, True, hit)
    return Finding(claim, False, None, "no extract contains it")


ENTAILMENT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "supported": {"type": "boolean"},
        "hit": {"type": ["integer", "null"]},
    },
    "required": ["reason", "supported", "hit"],
    "additionalProperties": False,
}


def read_entailment(reply: str, judged: Collection[str] = ()) -> tuple[bool, int | None, str]:
    """Whether a judge calls a claim supported, the number of the hit, and the reason."""
    form = '{"reason": "...", "supported": true or false, "hit": number or null}'
    verdict = required_verdict(reply, "supported", lambda value: isinstance(value, bool), judged, form)
    hit, reason = verdict.get("hit"), verdict.get("reason")
    return verdict["supported"], hit if type(hit) is int else None, reason if isinstance(reason, str) else ""


class RetrievalResult(Evaluator):
    """Passes when the retrieved hits say everything they are expected to, and there are enough of them.

    The hits come from `diagnostics.retrieval_executions` of the answer. With a judge, an expected item counts when the
    extracts support it; without one, when an extract contains its text, in any case. `details.mode` says which was
    done. The score is the share of expected items that were found.
    """

    name = "RetrievalResult"
    family = "M365"
    measure = Measure("exactly")
    may_ask = True
    needs = ("response", "diagnostics")
    Options = RetrievalResultOptions
    example: ClassVar = {
        "options": {
            "capability": "Email",
            "min_expected_count": 1,
            "expected_items": [{"retrievalExtract_contains": "12 million"}],
            "mode": "substring",
        },
        "response": "The budget is 12 million.",
        "diagnostics": {
            "retrieval_executions": [
                {"capability": "Email", "retrievalHits": [{"rank": 1, "extracts": [{"text": "Budget: 12 million"}]}]}
            ]
        },
    }

    async def score(self, evidence: Evidence) -> Score:
        """Look at the hits."""
        options = self.options
        executions = _executions(evidence, options.capability, "error")
        hits = _hits(executions, options.max_rank)
        mode = options.mode if options.mode != "auto" else "judge" if self._ask else "substring"
        findings = [await self._find(item.claim, hits, mode) for item in options.expected_items]
        return _result_score(options, findings, hits, mode, bool(executions) and _all_failed(executions))

    async def _find(self, claim: str, hits: Sequence[Hit], mode: str) -> Finding:
        """Look for one claim in the hits."""
        if not hits:
            return Finding(claim, False, None, "there is no hit to look in")
        if mode == "substring":
            return _find_text(claim, hits)
        extracts = [Piece(f"hit_{number}", "\n".join(hit.extracts)) for number, hit in enumerate(hits, 1)]
        question = judge_question(
            "entailment",
            {"claim": claim},
            parts={"extracts": extracts},
            schema=ENTAILMENT_SCHEMA,
            judge=self.options.judge,
        )
        judged = (claim, *(piece.text for piece in extracts))
        (supported, number, reason), _ = await ask_judge(self.ask, question, partial(read_entailment, judged=judged))
        hit = hits[number - 1] if supported and number is not None and 0 < number <= len(hits) else None
        return Finding(claim, supported, hit, reason)


def _result_score(
    options: RetrievalResultOptions, findings: Sequence[Finding], hits: Sequence[Hit], mode: str, failed: bool
) -> Score:
    """The share of expected items that were found; it passes only if there are also enough hits."""
    too_few = len(hits) < (options.min_expected_count or 0)
    matched = [finding.entry for finding in findings if finding.supported]
    missing = [finding.entry for finding in findings if not finding.supported]
    within = f"{len(hits)} hits of {quoted(options.capability)} within rank {options.max_rank}"
    if failed and not hits:
        code, reason = "error", f"no retrieval by {quoted(options.capability)} succeeded"
    elif too_few:
        code, reason = "count_below_minimum", f"{within}, and at least {options.min_expected_count} were expected"
    elif missing:
        code, reason = "not_retrieved", f"{len(matched)} of {len(findings)} expected items found in {within}"
    else:
        code, reason = "pass", f"all that was expected found in {within}"
    score = len(matched) / len(findings) if findings else float(not too_few)
    details = {
        "diagnostic_code": code,
        "mode": mode,
        "results_evaluated": len(hits),
        "matched_items": matched,
        "missing_items": missing,
        "extract_failures": missing if hits else [],
    }
    return Score(score, "pass" if code == "pass" else "fail", 1.0, None, reason, details)


_EXAMPLE_CHUNKS = ("Books are lent for four weeks.", "The library was built in 1904.")


class ChunksOptions(ShareOptions):
    """Options of evaluators of retrieved texts."""

    path: Text | None = Field(
        None, description="Where the diagnostics hold the chunks, as a JSON path such as $.search.hits[*].text."
    )
    tool: Text | None = Field(None, description="The tool whose results are the chunks.")
    most: int | None = Field(None, ge=1, description="How many of them count, from the first on.")


def _retrieved(evaluator: Evaluator, evidence: Evidence) -> tuple[Piece, ...]:
    """The chunks to judge; where none were retrieved, the item's context as the only one."""
    options = evaluator.options
    chunks = chunks_of(evidence, options.path, options.tool)
    if not chunks and options.path is None and options.tool is None and (evidence.context or "").strip():
        chunks = (evidence.context or "",)
    if not chunks:
        raise Misconfigured(
            f"{evaluator.name} found no chunks: name their place with path (a JSON path in the diagnostics) or tool, "
            "let the target tell them as diagnostics.chunks, or write them in the item as extensions.chunks"
        )
    return chunk_pieces(chunks[: options.most])


def average_precision(useful: list[bool]) -> float:
    """The mean of the precision at the rank of each useful chunk: how far useful ones come first."""
    places = [place for place, good in enumerate(useful, 1) if good]
    return sum(number / place for number, place in enumerate(places, 1)) / len(places) if places else 0.0


class ContextPrecision(Evaluator):
    """Passes when the chunks needed for the wanted answer come before the others.

    A judge decides for each retrieved chunk whether it is useful for the expected response; the score is the mean of
    the precision at the rank of each useful one: 1 when all useful chunks come first, 0 when none is useful.
    """

    name = "ContextPrecision"
    family = "retrieval"
    measure = Measure("at least")
    needs = ("prompt", "expected")
    judged = True
    compares = True
    Options = ChunksOptions
    example: ClassVar = {
        "prompt": "For how long may I keep a book?",
        "expected": "Four weeks.",
        "chunks": _EXAMPLE_CHUNKS,
        "judge_reply": '{"chunks": [{"chunk": 1, "reason": "It names the time.", "useful": true},'
        ' {"chunk": 2, "reason": "Not about lending.", "useful": false}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each chunk."""
        chunks = _retrieved(self, evidence)
        form = Checklist("chunks", "chunk", "useful", len(chunks))
        texts = {"request": evidence.prompt, "reference": reference_text(evidence)}
        lists, reply = await ask_lists(self, [form], texts, {"chunks": chunks})
        useful = [entry["useful"] for entry in lists["chunks"]]
        ranks = ", ".join(str(place) for place, good in enumerate(useful, 1) if good)
        reason = f"of {len(useful)} chunks useful: {ranks or 'none'}"
        shown = {"chunks": lists["chunks"], "counted": len(useful), "useful": sum(useful), "reply": reply}
        return measured_score(average_precision(useful), self.options.threshold, reason, **shown)


class ContextRelevance(Evaluator):
    """Passes when enough of the retrieved chunks are relevant to the request; the score is their share."""

    name = "ContextRelevance"
    family = "retrieval"
    measure = Measure("at least")
    needs = ("prompt",)
    judged = True
    compares = True
    Options = ChunksOptions
    example: ClassVar = {
        "options": {"threshold": 0.5},
        "prompt": "For how long may I keep a book?",
        "chunks": _EXAMPLE_CHUNKS,
        "judge_reply": '{"chunks": [{"chunk": 1, "reason": "It names the time.", "relevant": true},'
        ' {"chunk": 2, "reason": "Not about lending.", "relevant": false}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each chunk."""
        chunks = _retrieved(self, evidence)
        form = Checklist("chunks", "chunk", "relevant", len(chunks))
        lists, reply = await ask_lists(self, [form], {"request": evidence.prompt}, {"chunks": chunks})
        return share_score(lists["chunks"], form, self.options.threshold, reply, nothing="there are no chunks")


class ContextRecall(Evaluator):
    """Passes when the retrieved chunks contain enough of the wanted answer.

    A judge splits the expected response into claims and looks each of them up in the chunks; the score is the share
    that was found.
    """

    name = "ContextRecall"
    family = "retrieval"
    measure = Measure("at least")
    needs = ("prompt", "expected")
    judged = True
    compares = True
    Options = ChunksOptions
    example: ClassVar = {
        "prompt": "For how long may I keep a book?",
        "expected": "Four weeks.",
        "chunks": _EXAMPLE_CHUNKS,
        "judge_reply": '{"claims": [{"claim": "Books are lent for four weeks.", "reason": "chunk 1", "found": true}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each claim of the reference."""
        chunks, form = _retrieved(self, evidence), Checklist("claims", "claim", "found")
        texts = {"request": evidence.prompt, "reference": reference_text(evidence)}
        lists, reply = await ask_lists(self, [form], texts, {"chunks": chunks})
        if not lists["claims"]:
            return skipped_score("the expected response makes no claim that could be looked up")
        return share_score(lists["claims"], form, self.options.threshold, reply, nothing="")


class Faithfulness(Evaluator):
    """Passes when enough claims of the answer are supported by its sources.

    A judge splits the answer into claims and looks each of them up in the item's context, the retrieved chunks and the
    tool results; the score is the share of supported claims, and the details show each. An answer without claims
    passes. Hallucination asks the same and fails at the first claim without support.
    """

    name = "Faithfulness"
    family = "retrieval"
    measure = Measure("at least")
    judged = True
    compares = True
    Options = ShareOptions
    example: ClassVar = {
        "options": {"threshold": 0.5},
        "prompt": "For how long may I keep a book?",
        "response": "For four weeks, and you may renew it twice.",
        "chunks": _EXAMPLE_CHUNKS,
        "judge_reply": '{"claims": [{"claim": "Books are lent for four weeks.", "reason": "chunk 1",'
        ' "supported": true}, {"claim": "A loan can be renewed twice.", "reason": "No chunk says so.",'
        ' "supported": false}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each claim of the answer."""
        sources, names = source_of(evidence)
        if not sources:
            raise Misconfigured(no_source(self.name))
        form = Checklist("claims", "claim", "supported")
        texts = {"request": evidence.prompt, "answer": evidence.response or ""}
        lists, reply = await ask_lists(self, [form], texts, {"source": sources})
        nothing = "the answer makes no claim"
        return share_score(lists["claims"], form, self.options.threshold, reply, nothing=nothing, grounded_in=names)


def no_source(name: str) -> str:
    """The message for an answer without sources to look claims up in."""
    return f"{name} needs what the answer rests on (context, retrieved chunks or what tools gave), and there is nothing"


_SAID, _RIGHT = Checklist("reference", "claim", "said"), Checklist("answer", "claim", "right")


class AnswerCorrectness(Evaluator):
    """Passes when the answer says what the expected response says, and nothing against it.

    A judge splits both into claims. The score is the F1 of how much of the answer is right and how much of the
    reference it covers; the details show each claim.
    """

    name = "AnswerCorrectness"
    family = "retrieval"
    measure = Measure("at least")
    needs = ("response", "expected")
    judged = True
    compares = True
    Options = ShareOptions
    example: ClassVar = {
        "options": {"threshold": 0.5},
        "prompt": "When does the shop close?",
        "response": "At 18:00 on weekdays.",
        "expected": "At 18:00, on Saturdays at 13:00.",
        "judge_reply": '{"answer": [{"claim": "It closes at 18:00 on weekdays.", "reason": "the same", "right": true}],'
        ' "reference": [{"claim": "It closes at 18:00.", "reason": "the same", "said": true},'
        ' {"claim": "On Saturdays it closes at 13:00.", "reason": "not said", "said": false}]}',
    }

    async def score(self, evidence: Evidence) -> Score:
        """Ask of each claim of both."""
        texts = {
            "request": evidence.prompt,
            "reference": reference_text(evidence),
            "answer": evidence.response or "",
        }
        lists, reply = await ask_lists(self, [_RIGHT, _SAID], texts)
        right, said = lists["answer"], lists["reference"]
        if not said:
            raise CannotJudge(
                "judgeOutputUnparseable", "the judge found no claim in the expected response", reply=reply
            )
        good, covered = _count(right, "right"), _count(said, "said")
        precision, recall = good / len(right) if right else 0.0, covered / len(said)
        score = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        reason = f"{good} of {len(right)} claims are right, and {covered} of {len(said)} expected ones are said"
        wrong = [entry["claim"] for entry in right if not entry["right"]]
        missing = [entry["claim"] for entry in said if not entry["said"]]
        reason += f"; wrong: {quoted_list(wrong)}" if wrong else ""
        reason += f"; missing: {quoted_list(missing)}" if missing else ""
        shown: dict[str, Any] = {"claims": right, "expected_claims": said, "precision": precision, "recall": recall}
        return measured_score(score, self.options.threshold, reason, **shown, reply=reply)


def _count(entries: Entries, verdict: str) -> int:
    return sum(entry[verdict] for entry in entries)
