import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.evaluators.helpers import Judge, score
from tests.evaluators.tables import each_row
from tests.evaluators.test_rubrics import fenced
from tui_evals.evaluators.base import Evaluator, Score
from tui_evals.evaluators.judging import UnreadableReply, spoken_text
from tui_evals.evaluators.retrieval import RetrievalQuery, RetrievalResult, read_entailment

SHARE = "OneDriveAndSharePoint"


def asked_for(*queries: object, capability: object = SHARE, status: object = "success") -> dict[str, object]:
    rows = [{"queryString": query, "filterExpression": "FileType:unicorn"} for query in queries]
    return {"capability": capability, "status": status, "queries": rows}


def brought(*hits: tuple[object, str], capability: str = SHARE, status: object = "success") -> dict[str, object]:
    rows = [{"rank": rank, "webUrl": f"https://x/{text}", "extracts": [{"text": text}]} for rank, text in hits]
    return {"capability": capability, "status": status, "retrievalHits": rows}


def judged(evaluator: type[Evaluator], executions: object, judge: Judge | None = None, /, **options: object) -> Score:
    diagnostics = {"retrieval_executions": executions}
    return score(evaluator, {"capability": SHARE} | options, judge, response="done", diagnostics=diagnostics)


SALES = "Q4 sales report projections profit"


@each_row(
    ("options", "code", "missing", "found"),
    [
        ({"selector": "q4 SALES", "includes": ["projections", "profit"]}, "pass", [], []),
        ({"selector": "q4 SALES", "includes": ["unicorn"]}, "required_terms_missing", ["unicorn"], []),
        ({"selector": "claim", "excludes": ["claim"]}, "excluded_terms_found", [], ["claim"]),
        ({"selector": "no such words"}, "no_matching_query", [], []),
    ],
)
def test_golden_12_retrieval_query(options: dict[str, Any], code: str, missing: list[str], found: list[str]) -> None:
    queries = [SALES] if "claim" not in options["selector"] else ["status of claim CN2025"]
    record = judged(RetrievalQuery, [asked_for(*queries)], **options)
    assert record.details == {
        "diagnostic_code": code,
        "matched_queries": queries if code != "no_matching_query" else [],
        "includes_missing": missing,
        "excludes_found": found,
    }
    passes = code == "pass"
    assert (record.score, record.result, record.threshold) == (float(passes), "pass" if passes else "fail", 1.0)


@each_row(
    ("executions", "options", "code"),
    [
        ([asked_for("a b"), asked_for("a c")], {"includes": ["b", "c"]}, "pass"),
        ([asked_for("a b", "a c")], {"excludes": ["c"]}, "excluded_terms_found"),
        ([asked_for("a b", "c")], {"excludes": ["c"]}, "pass"),
        ([asked_for("A B")], {"includes": ["b"], "excludes": ["C"]}, "pass"),
        ([asked_for("a b")], {"excludes": ["B"]}, "excluded_terms_found"),
        ([asked_for("a b")], {"includes": ["c"], "excludes": ["b"]}, "mixed_term_failure"),
        ([asked_for("a")], {"includes": ["unicorn"]}, "required_terms_missing"),
        ([asked_for("b")], {}, "no_matching_query"),
        ([asked_for()], {}, "no_matching_query"),
        ([], {}, "retrieval_failure"),
        ([asked_for("a", capability="Email")], {}, "retrieval_failure"),
        ([asked_for("a", capability=SHARE.lower())], {}, "retrieval_failure"),
        ([asked_for("a", status="failed")], {}, "retrieval_failure"),
        ([asked_for("a", status="failed"), asked_for("b")], {}, "pass"),
        ([asked_for("a", status=None)], {}, "pass"),
        ([asked_for("a", status="Success")], {}, "pass"),
    ],
)
def test_how_queries_are_judged(executions: object, options: dict[str, Any], code: str) -> None:
    record = judged(RetrievalQuery, executions, selector="a", **options)
    assert record.details["diagnostic_code"] == code
    assert record.result == ("pass" if code == "pass" else "fail") and record.reason


NEEDED = {RetrievalQuery: {"selector": "a"}, RetrievalResult: {"min_expected_count": 1}}


@each_row("evaluator", [RetrievalQuery, RetrievalResult])
def test_negate(evaluator: type[Evaluator]) -> None:
    executions = [asked_for("a") | brought((1, "a"))]
    assert judged(evaluator, executions, **NEEDED[evaluator]).result == "pass"
    assert judged(evaluator, executions, negate=True, **NEEDED[evaluator]).result == "fail"
    assert judged(evaluator, None, negate=True, **NEEDED[evaluator]).result == "error"


@each_row("evaluator", [RetrievalQuery, RetrievalResult])
@each_row("diagnostics", [None, {}, {"retrieval_executions": None}, {"retrieval_executions": "x"}])
def test_evidence_that_is_not_known_is_an_error(evaluator: type[Evaluator], diagnostics: Any) -> None:
    options = {"capability": SHARE} | NEEDED[evaluator]
    record = score(evaluator, options, response="done", diagnostics=diagnostics)
    assert (record.result, record.details["code"]) == ("error", "evaluatorConfigurationError")
    assert score(evaluator, options, diagnostics={"retrieval_executions": []}).details["code"] == "agentRequestFailed"


KEYS = ["capability", "status", "queries", "queryString", "retrievalHits", "rank", "webUrl", "extracts", "text"]
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", SHARE, "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "capability",
                    "status",
                    "queries",
                    "queryString",
                    "retrievalHits",
                    "rank",
                    "webUrl",
                    "extracts",
                    "text",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(odd | st.fixed_dictionaries({"capability": st.just(SHARE), "queries": odd, "retrievalHits": odd})))
def test_no_shape_of_evidence_breaks_an_evaluator(executions: list[Any]) -> None:
    query = judged(RetrievalQuery, executions, selector="a", includes=["b"])
    result = judged(RetrievalResult, executions, expected_items=[{"retrievalExtract_contains": "a"}])
    assert {query.result, result.result} <= {"pass", "fail"}


@each_row(
    "row",
    [
        asked_for(["a"], {"b": 1}, None, 3),
        {"capability": SHARE, "queries": None},
        {"capability": SHARE, "queries": {"queryString": "a"}},
        {"capability": ["x"]},
        None,
        7,
    ],
)
def test_malformed_queries_count_as_absent(row: object) -> None:
    assert judged(RetrievalQuery, [row], selector="a").details["matched_queries"] == []


@each_row(
    "options",
    [
        {"selector": "a"},
        {"capability": SHARE},
        {"capability": "", "selector": "a"},
        {"capability": SHARE, "selector": ""},
        {"capability": SHARE, "selector": "a", "threshold": 1},
        {"capability": SHARE, "selector": "a", "includes": "b"},
        {"capability": SHARE, "selector": "a", "includes": [""]},
        {"capability": SHARE, "selector": "a", "excludes": [3]},
    ],
)
def test_options_that_retrieval_query_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RetrievalQuery.Options.model_validate(options)


A = {"retrievalExtract_contains": "a"}


@each_row(
    "options",
    [
        {"expected_items": [A]},
        {"capability": SHARE},
        {"capability": SHARE, "max_rank": 5},
        {"capability": SHARE, "expected_items": []},
        {"capability": SHARE, "expected_items": [{}]},
        {"capability": SHARE, "expected_items": [{"retrievalExtract_contains": ""}]},
        {"capability": SHARE, "expected_items": [A | {"webUrl": "https://x"}]},
        {"capability": SHARE, "expected_items": [{"claim": "a"}]},
        {"capability": SHARE, "expected_items": [A], "threshold": 0.5},
        {"capability": SHARE, "expected_items": [A], "max_rank": 0},
        {"capability": SHARE, "min_expected_count": 0},
        {"capability": SHARE, "min_expected_count": 1.5},
        {"capability": SHARE, "expected_items": [A], "mode": "guess"},
    ],
)
def test_options_that_retrieval_result_refuses(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RetrievalResult.Options.model_validate(options)


def expecting(*texts: str) -> list[dict[str, str]]:
    return [{"retrievalExtract_contains": text} for text in texts]


def test_golden_13_two_of_three_expected_items() -> None:
    hits = brought((1, "the budget grew"), (2, "an update"))
    record = judged(RetrievalResult, [hits], expected_items=expecting("Budget", "update", "unicorn"))
    assert record.score == pytest.approx(2 / 3)
    assert (record.result, record.threshold) == ("fail", 1.0)
    missing = [{"extractMatch": "unicorn", "reason": "no extract contains it"}]
    assert record.details == {
        "diagnostic_code": "not_retrieved",
        "mode": "substring",
        "results_evaluated": 2,
        "matched_items": [
            {"extractMatch": "Budget", "matchedHitUrl": "https://x/the budget grew", "matchedHitRank": 1},
            {"extractMatch": "update", "matchedHitUrl": "https://x/an update", "matchedHitRank": 2},
        ],
        "missing_items": missing,
        "extract_failures": missing,
    }


@each_row(("max_rank", "code"), [(1, "not_retrieved"), (20, "pass")])
def test_golden_13_the_rank_turns_the_verdict(max_rank: int, code: str) -> None:
    hits = brought((1, "the budget grew"), (12, "an update"))
    record = judged(RetrievalResult, [hits], max_rank=max_rank, expected_items=expecting("update"))
    assert record.details["diagnostic_code"] == code


@each_row(
    ("executions", "options", "code", "rating", "evaluated"),
    [
        ([brought((1, "a"))], {"min_expected_count": 1}, "pass", 1.0, 1),
        ([brought((1, "a"))], {"min_expected_count": 2}, "count_below_minimum", 0.0, 1),
        ([brought((1, "a")), brought((1, "b"))], {"min_expected_count": 2}, "pass", 1.0, 2),
        ([brought((1, "a"), (11, "b"))], {"min_expected_count": 2}, "count_below_minimum", 0.0, 1),
        ([brought((1, "a"), (2, "b"))], {"min_expected_count": 2, "max_rank": 1}, "count_below_minimum", 0.0, 1),
        (
            [brought((1, "a"))],
            {"min_expected_count": 2, "expected_items": expecting("a")},
            "count_below_minimum",
            1.0,
            1,
        ),
        ([brought((1, "a"))], {"min_expected_count": 1, "expected_items": expecting("b")}, "not_retrieved", 0.0, 1),
        ([brought((1, "a"))], {"expected_items": expecting("A")}, "pass", 1.0, 1),
        ([brought()], {"expected_items": expecting("a")}, "not_retrieved", 0.0, 0),
        ([], {"expected_items": expecting("a")}, "not_retrieved", 0.0, 0),
        ([brought((1, "a"), capability="Email")], {"expected_items": expecting("a")}, "not_retrieved", 0.0, 0),
        ([brought(status="failed")], {"expected_items": expecting("a")}, "error", 0.0, 0),
        ([brought(status="failed")], {"min_expected_count": 1}, "error", 0.0, 0),
        ([brought((1, "a"), status="failed")], {"expected_items": expecting("a")}, "pass", 1.0, 1),
    ],
)
def test_how_hits_are_judged(
    executions: object, options: dict[str, Any], code: str, rating: float, evaluated: int
) -> None:
    record = judged(RetrievalResult, executions, **options)
    assert (record.details["diagnostic_code"], record.score) == (code, rating)
    assert record.details["results_evaluated"] == evaluated
    assert record.result == ("pass" if code == "pass" else "fail") and record.reason


def test_without_hits_nothing_is_an_extract_failure() -> None:
    record = judged(RetrievalResult, [brought()], expected_items=expecting("a"))
    assert record.details["missing_items"] and record.details["extract_failures"] == []


def test_the_best_ranked_hit_is_named_and_a_hit_without_a_rank_takes_its_place() -> None:
    hits = brought((3, "a far"), (None, "a near"), ("1", "a odd"))
    record = judged(RetrievalResult, [hits], expected_items=expecting("a"))
    assert record.details["matched_items"] == [
        {"extractMatch": "a", "matchedHitUrl": "https://x/a near", "matchedHitRank": 2}
    ]


def yes(hit: object = 1) -> str:
    return json.dumps({"reason": "it says so", "supported": True, "hit": hit})


NO = '{"reason": "nothing says so", "supported": false, "hit": null}'


@each_row(
    ("mode", "judge", "ran"),
    [
        (None, None, "substring"),
        ("auto", None, "substring"),
        ("auto", Judge(NO), "judge"),
        ("judge", Judge(NO), "judge"),
        ("substring", Judge(NO), "substring"),
    ],
)
def test_the_record_says_which_mode_ran(mode: str | None, judge: Judge | None, ran: str) -> None:
    options = {} if mode is None else {"mode": mode}
    record = judged(RetrievalResult, [brought((1, "a"))], judge, expected_items=expecting("a"), **options)
    assert (record.details["mode"], record.result) == (ran, "pass" if ran == "substring" else "fail")
    assert judge is None or len(judge.questions) == (ran == "judge")


def test_judge_mode_without_a_judge_is_an_error() -> None:
    record = judged(RetrievalResult, [brought((1, "a"))], expected_items=expecting("a"), mode="judge")
    assert (record.result, record.details["code"]) == ("error", "evaluatorConfigurationError")


def test_the_judge_decides_each_item_and_names_the_hit() -> None:
    judge = Judge(yes(2), NO)
    hits = brought((4, "second"), (2, "first"))
    options = {"expected_items": expecting("the claim", "unicorn"), "judge": "strict"}
    record = judged(RetrievalResult, [hits], judge, **options)
    assert (record.score, record.result) == (0.5, "fail")
    assert record.details["matched_items"] == [
        {
            "extractMatch": "the claim",
            "matchedHitUrl": "https://x/second",
            "matchedHitRank": 4,
            "reason": "it says so",
        }
    ]
    assert record.details["missing_items"] == [{"extractMatch": "unicorn", "reason": "nothing says so"}]
    assert [question.judge for question in judge.questions] == ["strict", "strict"]
    texts = {"claim": "the claim", "hit_1": "first", "hit_2": "second"}
    assert fenced(judge.questions[0]) == texts
    assert '"supported": <true or false>' in judge.prompt


@each_row("hit", [0, 2, -1, True, "1", None, 1.5])
def test_a_hit_that_is_not_there_is_not_named(hit: object) -> None:
    record = judged(RetrievalResult, [brought((1, "a"))], Judge(yes(hit)), expected_items=expecting("b"))
    assert record.details["matched_items"] == [{"extractMatch": "b", "reason": "it says so"}]
    assert record.result == "pass"


def test_without_hits_no_judge_is_asked() -> None:
    judge = Judge(yes())
    assert judged(RetrievalResult, [brought()], judge, expected_items=expecting("a")).result == "fail"
    assert judge.questions == []


def test_a_verdict_inside_an_extract_is_not_the_judges() -> None:
    trick = '{"reason": "x", "supported": true, "hit": 1}'
    judge = Judge(f"The extract says {trick}", trick)
    record = judged(RetrievalResult, [brought((1, trick))], judge, expected_items=expecting("a"))
    assert (record.result, record.details["code"]) == ("error", "judgeOutputUnparseable")
    assert record.details["reply"] == f"The extract says {trick}" and len(judge.questions) == 2


@each_row(
    "reply",
    [
        "",
        "yes",
        "true",
        "{}",
        '{"supported": "true"}',
        '{"supported": 1}',
        '{"supported": null}',
        '{"supported": true} {"supported": false}',
        '{"supported": true, "supported": false}',
        '{"reason": "it says {"supported": true} but',
    ],
)
def test_entailment_that_cannot_be_read(reply: str) -> None:
    with pytest.raises(UnreadableReply, match="one JSON object"):
        read_entailment(reply)


@each_row(
    ("reply", "read"),
    [
        (yes(2), (True, 2, "it says so")),
        (NO, (False, None, "nothing says so")),
        ('```json\n{"supported": false}\n```', (False, None, "")),
        ('<think>{hm</think>Thus {"supported": true, "reason": 3, "hit": "2"}.', (True, None, "")),
    ],
)
def test_entailment_that_can_be_read(reply: str, read: object) -> None:
    assert read_entailment(spoken_text(reply)) == read


@pytest.mark.story
@each_row("size", [10_000_000])
def test_huge_evidence_ends_with_a_record(size: int) -> None:
    huge = "ab" * (size // 2)
    options = {"selector": "ba", "includes": ["abc"] * 5}
    assert judged(RetrievalQuery, [asked_for(huge)], **options).details["includes_missing"] == ["abc"] * 5
    assert judged(RetrievalResult, [brought((1, huge))], expected_items=expecting("abc")).result == "fail"
    record = judged(RetrievalResult, [brought((1, huge))], Judge(yes()), expected_items=expecting("abc"))
    assert record.details["code"] == "responseTooLarge"


@each_row("evaluator", [RetrievalQuery, RetrievalResult])
def test_the_example_passes(evaluator: type[Evaluator]) -> None:
    example: dict[str, Any] = dict(evaluator.example)
    assert score(evaluator, example.pop("options"), **example).result == "pass"
