"""JavaScript is judged by an engine: as promptfoo's assertions are, within limits, and each answer afresh."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tui_evals.evaluators import javascript_engine
from tui_evals.evaluators.base import Evidence, Score, evaluate
from tui_evals.evaluators.registry import load_registry
from tui_evals.evaluators.trust import Trust

ANSWER = "The total is 42.50 EUR, due on 2024-05-01."
DATA = '{"name": "Ada", "n": "3", "items": [{"price": 2}, {"price": 5.5}], "ok": true, "score": 0.8}'
ONE_LINERS: list[tuple[str, str, str]] = [
    # what an answer contains
    ("output.indexOf('total') !== -1", ANSWER, "pass"),
    ("output.indexOf('Total') >= 0", ANSWER, "fail"),
    ("output.lastIndexOf('0') > output.indexOf('0')", ANSWER, "pass"),
    ("output.includes('EUR') && !output.includes('USD')", ANSWER, "pass"),
    ("['EUR', 'USD'].some(word => output.includes(word))", ANSWER, "pass"),
    ("context.vars.words.every(word => output.includes(word))", ANSWER, "pass"),
    ("output.startsWith('The') && output.endsWith('.')", ANSWER, "pass"),
    # parts of it
    ("output.slice(0, 3) === 'The'", ANSWER, "pass"),
    ("output.slice(-1) == '.'", ANSWER, "pass"),
    ("output.substring(4, 9) === 'total'", ANSWER, "pass"),
    ("output.charAt(0) === output.charAt(0).toUpperCase()", ANSWER, "pass"),
    ("output.replace(/[^0-9]/g, '').length === 12", ANSWER, "pass"),
    ("output.replaceAll('0', '') === output", ANSWER, "fail"),
    ("output.split(/\\s+/).length <= 8", ANSWER, "pass"),
    ("output.split('').reverse().join('') === output", "level", "pass"),
    ("output.trim().split('\\n').filter(Boolean).length == 2", "a\n\nb\n", "pass"),
    # numbers
    ("Number(output.match(/[\\d.]+/)[0]) === 42.5", ANSWER, "pass"),
    ("parseInt(output, 10) > 3", "4 apples", "pass"),
    ("Math.abs(parseFloat(output) - context.vars.expected) < 0.01", "3.14", "pass"),
    ("Math.round(Number(output)) == '3'", "3.14", "pass"),
    ("!isNaN(output)", "three", "fail"),
    ("output == 4", "4", "pass"),
    ("output === 4", "4", "fail"),
    ("output.length", ANSWER, "pass"),
    ("output.length - 1", "x", "fail"),
    ("Math.max(0, 1 - output.length / 1000)", ANSWER, "pass"),
    # JSON
    ("JSON.parse(output).name === 'Ada'", DATA, "pass"),
    ("JSON.parse(output).n == 3", DATA, "pass"),
    ("JSON.parse(output).items.map(i => i.price).reduce((a, b) => a + b, 0) === 7.5", DATA, "pass"),
    ("JSON.parse(output)?.missing?.deep === undefined", DATA, "pass"),
    ("JSON.parse(output).missing.deep === 1", DATA, "fail"),
    ("JSON.parse(output).score", DATA, "pass"),
    ("'ok' in JSON.parse(output)", DATA, "pass"),
    ("JSON.parse(output).ok === true", "no JSON", "fail"),
    # patterns, as the language has them
    ("/^\\d{4}$/.test(output)", "2024\n", "fail"),
    ("/\\d/.test(output)", "٣", "fail"),
    ("/\\p{L}/u.test(output)", "é", "pass"),
    ("/\\p{L}/.test(output)", "é", "fail"),
    ("/(?<year>\\d{4})-\\d\\d/.exec(output).groups.year === '2024'", ANSWER, "pass"),
    ("/TOTAL/i.test(output)", ANSWER, "pass"),
    # verdicts of other shapes
    ("({pass: output.length > 3, score: 0.5, reason: 'half'})", ANSWER, "pass"),
    ("{pass: false, score: 0.9, reason: 'no'}", ANSWER, "fail"),
    ("const n = output.length; n > 3 && output !== 'a;b'", ANSWER, "pass"),
    ("const s = output; s === 'a;b'", "a;b", "pass"),
    ("output.length > 3;", ANSWER, "pass"),
    ("(async () => (await Promise.resolve(output)).length > 3)()", ANSWER, "pass"),
    ("Promise.reject(new Error('no'))", ANSWER, "fail"),
    ("output.match(/total/)", ANSWER, "fail"),
    ("output.match(/total/) !== null", ANSWER, "pass"),
    ("'yes'", ANSWER, "fail"),
    ("undefined", ANSWER, "fail"),
    ("0 / 0", ANSWER, "fail"),
    ("output ? 1 : 0", "", "fail"),
    ("context.prompt === 'What is due?' && context.vars.expected === 3.14", ANSWER, "pass"),
    ("context.providerResponse.output === output", ANSWER, "pass"),
    ("typeof require === 'undefined' && typeof fetch === 'undefined' && typeof process === 'undefined'", "", "pass"),
]


def evidence(response: str, **others: Any) -> Evidence:
    variables = {"words": ["total", "due"], "expected": 3.14}
    return Evidence(prompt="What is due?", response=response, variables=variables, **others)


def judged(code: str, response: str = ANSWER, **options: Any) -> Score:
    return asyncio.run(scored(code, response, **options))


async def scored(code: str, response: str = ANSWER, **options: Any) -> Score:
    one = load_registry().build("JavaScript", {"code": code, **options})
    return await evaluate(one, evidence(response))


def test_one_liners_judge_as_javascript_does() -> None:
    found = [(code, answer, judged(code, answer).result) for code, answer, _ in ONE_LINERS]
    assert found == ONE_LINERS
    assert len(ONE_LINERS) >= 34


def test_a_number_passes_above_0_or_from_a_threshold_and_is_the_score() -> None:
    cases = [("0.4", None, "pass"), ("0", None, "fail"), ("0.4", 0.5, "fail"), ("0.5", 0.5, "pass"), ("-1", -2, "pass")]
    for code, threshold, result in cases:
        record = judged(code, threshold=None if threshold is None else float(threshold))
        assert (record.result, record.score) == (result, float(code)), (code, threshold)


def test_an_object_says_verdict_score_and_reason() -> None:
    record = judged("return {\n  pass: true, score: 0.25, reason: `${output.length} signs`,\n};", threshold=0.5)
    assert (record.result, record.score, record.reason) == ("pass", 0.25, f"{len(ANSWER)} signs")


def test_negate_turns_a_verdict_and_not_an_error_of_the_code() -> None:
    assert judged("output.length > 3", negate=True).result == "fail"
    assert judged("output.length > 99", negate=True).result == "pass"
    assert judged("output.missing.length > 3", negate=True).result == "fail"


def test_what_is_not_javascript_is_an_error_that_says_so() -> None:
    for code in ("/(?i)a/.test(output)", "output ===", "return output", "if (output) return true"):
        record = judged(code)
        assert record.result == "error", code
        assert record.reason.startswith("this is not valid JavaScript: SyntaxError"), record.reason


def test_several_lines_are_a_function_body() -> None:
    code = "const words = output.split(' ');\nfor (const w of words) if (w === 'due') return true;\nreturn false;\n"
    assert judged(code).result == "pass"
    assert judged(code, "nothing").result == "fail"


def test_transforms_feed_the_code_with_values() -> None:
    options = {"transform": ["JSON.parse(output)", "output.items"]}
    assert judged("output.length === 2 && output[1].price === 5.5", DATA, **options).result == "pass"
    assert judged("output.length === 2", "no JSON", **options).reason.startswith("the transform threw SyntaxError")


def test_an_answer_that_is_json_can_be_handed_over_as_its_value() -> None:
    assert judged("output.name === 'Ada'", DATA, parse=True).result == "pass"
    assert judged("typeof output === 'string'", "no JSON", parse=True).result == "pass"


def test_what_code_prints_is_kept_with_the_record() -> None:
    assert judged("console.log('seen', {a: 1}), true").details["printed"] == 'seen {"a":1}'


def test_every_sign_reaches_the_code_as_it_is() -> None:
    for sign in ("\0", "\ud800", "😀", "\u2028", '"\\'):
        assert judged(f"output.length === {len(sign.encode('utf-16-le', 'surrogatepass')) // 2}", sign).result == "pass"
        assert judged("output === context.providerResponse.output", sign).result == "pass"


# one process, many answers


def test_what_code_leaves_behind_does_not_reach_the_next_answer() -> None:
    spoil = (
        "globalThis.left = 1; Object.prototype.left = 2; String.prototype.includes = () => true;\n"
        "JSON.parse = () => ({}); Promise.prototype.then = null; Array.prototype.map = null; context.vars.left = 1;\n"
        "return true"
    )
    judged(spoil)
    clean = "typeof left === 'undefined' && !('x').includes('y') && JSON.parse('[1]').map(x => x + 1)[0] === 2"
    assert judged(clean).result == "pass"


def test_one_process_serves_many_answers() -> None:
    async def all_of_them() -> list[Score]:
        return list(await asyncio.gather(*(scored(f"output.length > {n}") for n in range(100))))

    judged("true")
    before = process()
    records = asyncio.run(all_of_them())
    assert [record.result for record in records] == ["pass" if n < len(ANSWER) else "fail" for n in range(100)]
    assert process() == before


def process() -> int:
    found = javascript_engine._engine._process
    assert found is not None
    return found.pid


STOPPED = {
    "for (;;) {}\nreturn true": "it gave no result within 0.2 s",
    "(async () => { await 1; for (;;) {} })()": "it gave no result within 0.2 s",
    "let p = Promise.resolve(); function again() { p = p.then(again) }; again();\nreturn p": "no result within",
    "/^(a+)+$/.test('a'.repeat(40) + '!')": "it gave no result within 0.2 s",
    "const all = []; for (;;) all.push(new Array(1e6).fill(1));\nreturn true": "it needed more than 256 MB of memory",
    "'x'.repeat(2 ** 29).length > 0": "it needed more than 256 MB of memory",
}


def test_a_loop_and_a_memory_bomb_are_errors_and_the_next_answer_has_a_new_process() -> None:
    for code, why in STOPPED.items():
        judged("true")
        before = process()
        record = judged(code, timeout=5.0 if "memory" in why else 0.2)
        assert record.result == "error", (code, record)
        assert record.reason.startswith("The JavaScript was stopped: ") and why in record.reason, (code, record.reason)
        assert judged("output.length > 3").result == "pass"
        assert process() != before


def test_deep_recursion_and_endless_waiting_end_in_a_record() -> None:
    assert judged("(function deeper() { deeper() })()").reason.endswith("RangeError: Maximum call stack size exceeded")
    assert "a promise that never settles" in judged("new Promise(() => {})").reason


def test_an_answer_is_judged_though_the_process_was_killed_before() -> None:
    judged("true")
    os.kill(process(), signal.SIGKILL)
    assert judged("output.length > 3").result == "pass"


def test_many_answers_a_second_are_judged() -> None:
    async def all_of_them() -> None:
        one = load_registry().build("JavaScript", {"code": "output.length > 3 && /\\d/.test(output)"})
        for _ in range(200):
            await evaluate(one, evidence(ANSWER))

    judged("true")
    spent = javascript_seconds(process())
    began = time.process_time()
    asyncio.run(all_of_them())
    here, there = time.process_time() - began, javascript_seconds(process()) - spent
    assert here + there < 200 * 0.010, (here, there)  # seconds of computing on a slow core; starting Python takes 0.1


def javascript_seconds(pid: int) -> float:
    """The computing time of a process and of those it started, where the kernel tells."""
    try:
        parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, parts[11:15])) / os.sysconf("SC_CLK_TCK")


def test_without_the_engine_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript_engine, "is_installed", lambda library: library != "quickjs")
    for name, options in (
        ("JavaScript", {"code": "true"}),
        ("Transformed", {"transform": "output", "evaluator": {"ContainsAll": {"values": ["EUR"]}}}),
    ):
        one = load_registry().build(name, options)
        record = asyncio.run(evaluate(one, evidence(ANSWER)))
        assert record.result == "error" and "pip install quickjs-ng" in record.reason
        assert "pip install quickjs-ng" in str(one.obstacle())


# what other evaluators judge of it


def transformed(transform: Any, inner: dict[str, Any], response: str = DATA, **options: Any) -> Score:
    one = load_registry().build("Transformed", {"transform": transform, "evaluator": inner, **options})
    return asyncio.run(evaluate(one, evidence(response)))


def test_another_evaluator_judges_what_a_transform_returns() -> None:
    assert transformed("JSON.parse(output).name", {"Equals": {"value": "Ada"}}).result == "pass"
    assert transformed("JSON.parse(output).items", {"JsonValid": {}}).result == "pass"
    assert (
        transformed(["JSON.parse(output)", "output.name"], {"Short": {"type": "Length", "at_most": 3}}).result == "pass"
    )
    assert transformed("output.slice(0, 2)", {"Equals": {"value": "Ada"}}).result == "fail"
    record = transformed("JSON.parse(output).missing", {"Equals": {"value": "Ada"}})
    assert (record.result, record.reason) == ("fail", "the transform threw Error: it returned undefined")


def test_an_evaluator_that_cannot_judge_here_is_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"Equal": {}}, "did you mean"),
        ({"Transformed": {}}, "transforms by itself"),
        ({"EmbeddingSimilarity": {"value": "x"}}, "compares embeddings"),
        ({"Rubric": {"criteria": "x", "judge": "gpt"}}, "the judge is the option judge"),
        ({"Equals": {"valu": 1}}, "Equals.valu: "),
    ]
    for inner, said in cases:
        with pytest.raises(ValueError, match=said):
            load_registry().build("Transformed", {"transform": "output", "evaluator": inner})


# files


FILES = {
    "module.exports = (output, context) => output.includes(context.vars.words[0]);": "pass",
    "module.exports = async (output) => ({pass: output.length > 999, score: 0, reason: 'short'});": "fail",
    "export default (output) => output.length / 100;": "pass",
    "const limit = 3;\nexport default function judge(output) { return output.length < limit }": "fail",
    "const late = await Promise.resolve(true);\nexport default () => late;": "pass",
    "module.exports = 3;": "fail",
    "const fs = require('fs'); module.exports = () => true;": "fail",
    "import fs from 'fs';\nexport default () => true;": "fail",
}


def project_with(tmp_path: Path, source: str) -> Path:
    folder = tmp_path / "custom-evaluators" / "check"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "check.js").write_text(source)
    return folder


def judged_by_file(tmp_path: Path, trust: Trust, **options: Any) -> Score:
    one = load_registry(tmp_path, trust).build("check", options)
    return asyncio.run(evaluate(one, evidence(ANSWER)))


def test_a_file_with_an_exported_function_is_a_custom_evaluator(tmp_path: Path) -> None:
    for source, result in FILES.items():
        project_with(tmp_path, source)
        assert judged_by_file(tmp_path, Trust(always=True)).result == result, source


def test_a_function_of_a_file_is_chosen_by_name(tmp_path: Path) -> None:
    project_with(tmp_path, "module.exports = { strict: () => false, mild: () => true };")
    assert judged_by_file(tmp_path, Trust(always=True), function="mild").result == "pass"
    assert judged_by_file(tmp_path, Trust(always=True), function="strict").result == "fail"
    assert "exports no function other" in judged_by_file(tmp_path, Trust(always=True), function="other").reason


def test_a_file_runs_only_as_it_was_agreed_to(tmp_path: Path) -> None:
    folder = project_with(tmp_path, "module.exports = () => true;")
    trust = Trust(tmp_path / "state")
    refused = judged_by_file(tmp_path, trust)
    assert refused.result == "error" and "tui-evals trust" in refused.reason and "check.js" in refused.reason
    trust.trust(folder / "check.js")
    assert judged_by_file(tmp_path, trust).result == "pass"
    project_with(tmp_path, "module.exports = () => 1;")
    assert judged_by_file(tmp_path, trust).result == "error"
