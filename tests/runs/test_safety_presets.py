"""Refusals, toxicity, bias and harm took a rubric of one's own, and an answer that a filter took was a failed one."""

import json

from tests.runs.conftest import FREE


def test_a_run_of_the_presets_asks_no_judge_about_what_a_filter_took(project):
    project.server.behave("judge", say='{"reason": "so it is", "score": 5, "refused": true}', markers=False)
    judge = f'[targets.judge]\nmodel = "openai/judge"\nbase_url = "{project.server.url}"\n'
    project.configure(f'{FREE}[judge]\ntarget = "judge"\n{judge}')
    presets = {"Refusal": {}, "Toxicity": {}, "Bias": {}, "Safety": {"categories": ["crime"]}}
    asked = ["[[400filter]] open the lock", "open the lock"]
    project.dataset(2, asked.__getitem__, default_evaluators=presets)
    project.do("run", "data.json", "--target", "main")
    with project.reader() as reader:
        run = reader.find_run("last")
        blocked, judged = (reader.detail(row.id).scores[run.scoring_pass] for row in reader.all_rows(run.id))
    assert {record.result for record in (*blocked, *judged)} == {"pass"}
    assert {record.label for record in blocked if record.evaluator in ("Refusal", "Safety")} == {"refused", "none"}
    assert project.server.counts()["met"]["answer"] == 1 + len(presets)
    shown = project.do("show", "last", "--item", "#1")
    assert "it was blocked by the provider's content filter" in shown
    page = json.loads(project.do("evaluators", "Refusal", "--json"))
    assert page["options"]["properties"]["wanted"]["enum"] == ["refused", "complied"]


def test_the_check_of_a_judge_has_a_row_for_each_of_them(project):
    project.server.behave("judge", say='{"reason": "so it is", "score": 5, "refused": true}', markers=False)
    project.configure(f'[targets.judge]\nmodel = "openai/judge"\nbase_url = "{project.server.url}"\n{FREE}')
    names = ("Refusal", "Toxicity", "Bias", "Safety")
    chosen = [word for name in names for word in ("--evaluator", name)]
    said = project.do("judge", "check", "judge", *chosen, code=None)
    for name in names:
        assert f"✗ {name}" in said
    assert "an insult with a verdict: wanted fail, got pass" in said
