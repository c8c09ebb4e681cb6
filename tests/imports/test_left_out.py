"""An assertion that no evaluator stands for stays in sight: in dataset, verdicts, gates, and on the way back."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from tui_evals.store import run_figures
from tui_evals.store.details import read_scores
from tui_evals.store.reader import Reader
from tui_evals.text.chats import parse_prompty, render_messages
from tui_evals.text.yamls import load_mapping
from tui_evals.tui.runs.run_status import told_ending

REPLAY = ("--target", "replay:answers.jsonl", "--quiet")
CONFIG = """\
prompts: ['Say {{word}} now']
tests:
- {vars: {word: yes}, assert: [{type: contains, value: Say}, {type: pi, value: Is it polite?}]}
- {vars: {word: no}, assert: [{type: contains, value: Say}]}
"""


def imported(shell, text=CONFIG, *options):
    Path("promptfooconfig.yaml").write_text(text, encoding="utf-8")
    done = shell("import", "promptfooconfig.yaml", "--name", "data", *options)
    assert done.code == 0, done
    return done, json.loads(Path("data.json").read_text(encoding="utf-8"))


def answer(*texts):
    rows = [{"prompt": text, "response": text} for text in texts]
    Path("answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_every_verdict_without_a_left_out_assertion_is_marked_until_it_is_removed(project, shell):
    done, data = imported(shell)
    assert "left out: pi" in done.out
    assert data["items"][0]["evaluators"]["pi"]["assertion"] == {"type": "pi", "value": "Is it polite?"}
    assert "the verdict of 1 item is incomplete" in shell("validate", "data.json").out
    answer("Say yes now", "Say no now")
    run = ("run", "data.json", *REPLAY)
    gated = shell(*run, "--fail-on-incomplete")
    assert gated.code == 1
    assert "1 of 2 answers has a verdict without what was left out" in gated.out + gated.err
    shown = json.loads(shell("show", "last", "--only", "incomplete", "--json").out)
    assert [one["status"] for one in shown["answers"]] == ["pass"]
    assert "pi of promptfoo was left out" in shell("show", "last", "--item", "#1").out
    del data["items"][0]["evaluators"]["pi"]
    Path("data.json").write_text(json.dumps(data), encoding="utf-8")
    assert shell(*run, "--fail-on-incomplete").code == 0
    assert "incomplete" not in shell("validate", "data.json").out


def test_every_face_marks_a_verdict_without_a_left_out_assertion(project, shell):
    imported(shell)
    answer("Say yes now", "Say no now")
    lacking = "incomplete, because an import left assertions out: 1 verdict without pi"
    assert lacking in shell("run", "data.json", "--target", "replay:answers.jsonl").out
    shown = shell("show", "last").out
    assert lacking in shown and shown.count("[incomplete] ") == 1
    assert "an import left an assertion out of this verdict" in shell("show", "last", "--item", "#1").out
    assert "an import left" not in shell("show", "last", "--item", "#2").out
    for name in ("out.csv", "out.jsonl", "out.html", "out.md", "out.xml"):
        assert shell("report", "last", "-o", name).code == 0
    table = list(csv.DictReader(Path("out.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["incomplete"] for row in table] == ["true", "false"]
    lines = map(json.loads, Path("out.jsonl").read_text(encoding="utf-8").splitlines())
    assert [row["incomplete"] for row in lines if "incomplete" in row] == [True, False]
    for name in ("out.html", "out.md"):
        assert lacking.lower() in Path(name).read_text(encoding="utf-8").lower(), name
    assert Path("out.xml").read_text(encoding="utf-8").count('name="incomplete"') == 1
    with Reader(Path(".evals/evals.db")) as reader:
        run = reader.find_run("last")
        assert (
            "incomplete" in run_figures.filled(reader, run.id)
            and lacking in told_ending(Path(".evals/evals.db"), run).says
        )


def test_what_was_left_out_is_written_back_to_promptfoo(project, shell):
    imported(shell)
    assert shell("convert", "data.json", "--to", "promptfoo", "-o", "back.yaml").code == 0
    first = load_mapping(Path("back.yaml").read_text(encoding="utf-8"))[0]["tests"][0]
    assert {"type": "pi", "value": "Is it polite?"} in first["assert"]


def test_what_not_means_before_a_limit_depends_on_the_version_that_wrote_the_file(project, shell):
    config = (
        "prompts: ['{{q}}!']\ntests:\n- {vars: {q: hi}, assert: [{type: not-levenshtein, value: hi, threshold: 1}]}"
    )
    done, data = imported(shell, config)
    assert "changed: not-levenshtein (depends on the version" in done.out
    assert data["default_evaluators" if data["default_evaluators"] else "items"]
    assert data["items"][0]["evaluators"]["Levenshtein"]["negate"] is True
    for version, turned in (("0.119.0", None), ("0.123.1", True)):
        Path("data.json").unlink()
        done, data = imported(shell, config, "--written-by", version)
        assert data["items"][0]["evaluators"]["Levenshtein"].get("negate") is turned, version
        assert "depends on the version" not in done.out
    Path("data.json").unlink()
    Path("package.json").write_text('{"devDependencies": {"promptfoo": "^0.119.2"}}', encoding="utf-8")
    assert "negate" not in imported(shell, config)[1]["items"][0]["evaluators"]["Levenshtein"]


def test_code_that_raises_fails_its_test_as_it_does_there(project, shell):
    config = "prompts: ['{{q}}!']\ntests:\n- {vars: {q: hi}, assert: [{type: T, value: 'output[99] == context'}]}"
    answer("hi!")
    for kind in ("python", "not-python"):
        imported(shell, config.replace("T", f"{kind}, metric: {kind}"))
        assert shell("run", "data.json", *REPLAY, "--trust").code == 0
        Path("data.json").unlink()
        shown = shell("show", "last", "--item", "#1").out
        assert "its code raised IndexError" in shown and "fail" in shown, kind


def test_blanks_at_the_ends_of_prompts_stay(project, shell):
    imported(shell, 'prompts: ["\\n First {{q}}\\n", "Second {{q}} \\n\\n"]\ntests: [{vars: {q: hi}}]')
    texts = [file.read_text(encoding="utf-8") for file in sorted(Path().glob("*.prompty"))]
    asked = [render_messages(parse_prompty(text), {"q": "hi"})[0]["content"] for text in texts]
    assert asked == ["\n First hi\n", "Second hi \n\n"]


def test_answers_are_matched_whatever_the_spaces_of_their_json_variables(project, shell):
    config = {"prompts": ["Sort {{rows}}"], "tests": [{"vars": {"rows": '{"a": [1,2]}'}, "assert": [ASSERT]}]}
    Path("promptfooconfig.json").write_text(json.dumps(config), encoding="utf-8")
    row = {
        "promptIdx": 0,
        "testIdx": 0,
        "testCase": {"vars": {"rows": {"a": [1, 2]}}, "assert": [ASSERT]},
        "vars": {"rows": {"a": [1, 2]}},
        "prompt": {"raw": 'Sort {"a":[1,2]}', "label": "p"},
        "provider": {"id": "echo"},
        "response": {"output": "Sort it"},
        "success": True,
        "gradingResult": {"componentResults": [{"pass": True, "score": 1, "reason": "", "assertion": ASSERT}]},
    }
    prompts = [{"raw": "Sort {{rows}}", "label": "p"}]
    results = {"evalId": "e", "results": {"version": 3, "prompts": prompts, "results": [row]}, "config": config}
    Path("output.json").write_text(json.dumps(results), encoding="utf-8")
    done = shell("import", "promptfooconfig.json", "--name", "data", "--verify", "output.json")
    assert "1 of 1 assertion judges as before" in done.out, done.out


ASSERT = {"type": "contains", "value": "Sort"}


PARTS = """\
prompts: ['Say {{word}} now']
providers:
- {id: openai:a, config: {temperature: 0.5, response_format: {type: regex, pattern: a+}}}
- {id: openai:b, config: {tools: {function_declarations: [{name: f}]}}}
- {id: openai:c, config: {response_format: {type: json_schema, json_schema: {name: x, strict: true}}}}
tests:
- file://bad.csv
- file://good.csv
- {vars: {word: yes, more: ''}, assert: [{type: contains, value: Say}, {type: icontains, value: '{{more}}'}]}
- {vars: {word: no, more: now}, assert: [{type: contains-any, value: '{{more}}'}]}
"""


def test_one_unusable_part_of_a_configuration_is_left_out_by_name_and_the_rest_is_imported(project, shell):
    Path("bad.csv").write_text("word,more\na,b,c\n", encoding="utf-8")
    Path("good.csv").write_text("word,,\nthree,,\n", encoding="utf-8")
    done, data = imported(shell, PARTS)
    for line in (
        "3: left out: response_format of the provider (must be of type text, json_object or json_schema, the last",
        "4: left out: tools of the provider (must be a list, not a mapping)",
        "5: left out: response_format of the provider (must be of type text",
        "7: left out: tests from file://bad.csv (bad.csv:2: the row has 3 cells but the header has 2)",
        "9: left out: icontains (its template is empty for this test, which is an error there)",
    ):
        assert f"promptfooconfig.yaml:{line}" in done.out, done.out
    assert [item["variables"]["word"] for item in data["items"]] == ["three", "yes", "no"]
    assert data["items"][1]["evaluators"].keys() == {"ContainsAll", "icontains"}
    assert shell("validate", "data.json").code == 0 and "incomplete" in shell("validate", "data.json").out
    experiment = Path("experiment.yaml").read_text(encoding="utf-8")
    assert all(f"openai/{name}" in experiment for name in "abc")


def test_a_test_without_assertions_is_named_because_it_passes_in_promptfoo(project, shell):
    config = "prompts: ['{{q}}!']\ntests:\n- {vars: {q: a}}\n- {vars: {q: b}, assert: [{type: equals, value: b}]}\n"
    done, _ = imported(shell, config)
    said = "promptfooconfig.yaml:3: changed: 1 test without assertions (it passes there with any answer; here it is not"
    assert said in done.out
    shared = config + "defaultTest: {assert: [{type: contains, value: '!'}]}\n"
    Path("data.json").unlink()
    assert "without assertions" not in imported(shell, shared)[0].out


def test_an_assertion_that_promptfoo_does_not_know_either_is_left_out(project, shell):
    config = "prompts: ['{{q}}!']\ntests:\n- {vars: {q: a}, assert: [{type: max-length, value: 3}]}\n"
    done, data = imported(shell, config)
    assert "no assertion of this name is known; promptfoo ends its test with an error" in done.out
    assert data["items"][0]["evaluators"]["max_length"]["type"] == "LeftOut"


def test_a_python_assertion_that_raises_fails_also_where_it_is_turned(project, shell):
    both = "[{type: python, value: '1/0'}, {type: not-python, value: '1/0'}]"
    imported(shell, f"prompts: ['{{{{q}}}}!']\ntests:\n- {{vars: {{q: a}}, assert: {both}}}\n")
    answer("a!")
    shell("run", "data.json", *REPLAY, "--trust")
    with Reader(Path(".evals/evals.db")) as reader:
        (_, first), (_, second) = read_scores(reader, reader.find_run("last").id)
    assert [first.result, second.result] == ["fail", "fail"] and "ZeroDivisionError" in first.reason


def test_the_last_line_break_of_a_prompt_is_asked_as_promptfoo_asks_it(project, shell):
    Path("p.txt").write_text("From a file\n", encoding="utf-8")
    imported(shell, "prompts:\n- |\n  Say {{q}}\n- file://p.txt\ntests:\n- {vars: {q: a}}\n")
    prompts = [parse_prompty(path.read_text(encoding="utf-8")) for path in sorted(Path().glob("*.prompty"))]
    asked = [render_messages(prompt, {"q": "a"})[0]["content"] for prompt in prompts]
    assert sorted(asked) == ["From a file", "Say a\n"]


def test_results_with_a_prompt_whose_template_is_not_read_here_keep_their_answers(project, shell):
    """The importer raised IndexError: the prompts after one that was left out had another place."""
    raw = ["{% macro hi(n) %}Hi {{n}}{% endmacro %}{{ hi(q) }}", "Say {{q}} {{data}}"]
    one = {"type": "equals", "value": "Say {{q}} 1"}
    test = {"vars": {"q": "a", "data": '{"x": 1}'}, "assert": [one]}
    rows = [
        {
            "promptIdx": place,
            "testIdx": 0,
            "prompt": {"raw": f"asked {place}", "label": text},
            "provider": {"id": "echo"},
            "vars": {**test["vars"], "data": '{"x":1}'},
            "testCase": test,
            "success": False,
            "response": {"output": f"asked {place}"},
            "gradingResult": {
                "pass": False,
                "score": 0,
                "componentResults": [{"pass": False, "score": 0, "assertion": one}],
            },
        }
        for place, text in enumerate(raw)
    ]
    results = {"version": 3, "prompts": [{"raw": text, "label": text} for text in raw], "results": rows}
    Path("out.json").write_text(json.dumps({"evalId": "e", "config": {}, "results": results}), encoding="utf-8")
    done = shell("import", "out.json")
    assert done.code == 0 and "left out: the prompt {% macro" in done.out and "without assertions" not in done.out
    shown = json.loads(shell("show", "last", "--json").out)["answers"]
    assert [(row["prompt"], row["preview"]) for row in shown] == [(0, "asked 0"), (1, "asked 1")]
    config = {"prompts": raw, "tests": [test]}
    Path("promptfooconfig.yaml").write_text(json.dumps(config), encoding="utf-8")
    verified = shell("import", "promptfooconfig.yaml", "--name", "again", "--verify", "out.json")
    assert verified.code == 0 and "2 of 2 assertions judge as before" in verified.out
