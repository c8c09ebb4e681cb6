"""Search and the answers made of it: what was found, what an answer says beyond it, and whether that is right."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from tui_evals.text.measures import Measure

from .base import CannotJudge, Evaluator, Evidence, JudgedOptions, Misconfigured, Score, measured_score, skipped_score
from .checklists import Checklist, Entries, ask_lists, share_score
from .chunks import chunks_of
from .judging import Piece
from .shown import chunk_pieces, reference_text, source_of
from .values import quoted_list

Text = Annotated[str, Field(min_length=1)]
_EXAMPLE_CHUNKS = ("Books are lent for four weeks.", "The library was built in 1904.")


class ShareOptions(JudgedOptions):
    """For evaluators whose score is a share."""

    threshold: float = Field(0.7, ge=0, le=1, description="The share from which it passes.")


class ChunksOptions(ShareOptions):
    """For evaluators of what was retrieved."""

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
    """How far what is useful stands before what is not: the mean of the precision at the place of each useful one."""
    places = [place for place, good in enumerate(useful, 1) if good]
    return sum(number / place for number, place in enumerate(places, 1)) / len(places) if places else 0.0


class ContextPrecision(Evaluator):
    """Passes when the chunks that the wanted answer needs stand before those it does not.

    A judge says of each retrieved chunk whether it is useful for the expected response; the score is the mean of the
    precision at the rank of each useful one: 1 when all useful chunks come first, 0 when none is useful.
    """

    name = "ContextPrecision"
    family = "retrieval"
    measure = Measure("at least")
    needs = ("prompt", "expected")
    judged = True
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
    """Passes when enough of what was retrieved bears on the request; the score is the share of chunks that does."""

    name = "ContextRelevance"
    family = "retrieval"
    measure = Measure("at least")
    needs = ("prompt",)
    judged = True
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
    """Passes when what was retrieved holds enough of the wanted answer.

    A judge splits the expected response into claims and looks each of them up in the chunks; the score is the share
    that was found.
    """

    name = "ContextRecall"
    family = "retrieval"
    measure = Measure("at least")
    needs = ("prompt", "expected")
    judged = True
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
    """Passes when enough of what the answer claims is supported by what it rests on.

    A judge splits the answer into claims and looks each of them up in the item's context, the retrieved chunks and
    what tools gave; the score is supported claims of all, and the details show each. An answer without claims passes.
    Hallucination asks the same and fails at the first claim without support.
    """

    name = "Faithfulness"
    family = "retrieval"
    measure = Measure("at least")
    judged = True
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
    """That there is nothing to look claims up in, and what would be."""
    return f"{name} needs what the answer rests on (context, retrieved chunks or what tools gave), and there is nothing"


_SAID, _RIGHT = Checklist("reference", "claim", "said"), Checklist("answer", "claim", "right")


class AnswerCorrectness(Evaluator):
    """Passes when the answer says what the expected response says, and nothing against it.

    A judge splits both into claims. The score is the mean of how much of the answer is right and how much of the
    reference it says (their F1); the details show each claim.
    """

    name = "AnswerCorrectness"
    family = "retrieval"
    measure = Measure("at least")
    needs = ("response", "expected")
    judged = True
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
