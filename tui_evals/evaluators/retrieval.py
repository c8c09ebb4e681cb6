"""What an agent looked up: its retrieval queries, and the hits they brought."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tui_evals.text.measures import Measure

from .base import Evaluator, Evidence, JudgedOptions, Misconfigured, Options, Score, measured_score
from .chunks import object_rows
from .judging import Piece, ask_judge, judge_question, required_verdict
from .values import quoted, quoted_list

Text = Annotated[str, Field(min_length=1)]

_SUCCESS = ("success", "succeeded", "ok", "completed")


class RetrievalQueryOptions(Options):
    """What RetrievalQuery takes."""

    capability: Text = Field(description="Only executions of this retrieval capability count.")
    selector: Text = Field(description="Text that marks the queries to look at, in any case.")
    includes: list[Text] = Field([], description="Texts that must each stand in a marked query, in any case.")
    excludes: list[Text] = Field([], description="Texts that may stand in no marked query, in any case.")


class ExpectedItem(BaseModel):
    """One thing the hits must say."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    claim: Text = Field(alias="retrievalExtract_contains", description="What an extract must contain or support.")


class RetrievalResultOptions(JudgedOptions):
    """What RetrievalResult takes."""

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
    """A retrieved document: its rank, where it is, and the texts taken from it, as they are and folded."""

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
    """Whether no execution succeeded; one that says nothing about it counts as a success."""
    statuses = [row.get("status") for row in executions]
    return not any(status is None or str(status).strip().casefold() in _SUCCESS for status in statuses)


def _parts_in(parts: Sequence[str], folded: Sequence[str]) -> list[str]:
    """The parts that stand in some of the texts, which are folded already."""
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
        """The finding as the record lists it; what is not known is left out."""
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
    """Whether a judge calls a claim supported, by which hit, and why."""
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
        hit = hits[number - 1] if supported and number and 0 < number <= len(hits) else None
        return Finding(claim, supported, hit, reason)


def _result_score(
    options: RetrievalResultOptions, findings: Sequence[Finding], hits: Sequence[Hit], mode: str, failed: bool
) -> Score:
    """The share of expected items that was found; it passes only when there are hits enough as well."""
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
