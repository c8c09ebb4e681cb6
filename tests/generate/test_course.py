"""How a generation is led: budgets, Ctrl-C, steps that are chosen, edited, confirmed and made anew."""

import json
import signal
import socket
from dataclasses import replace

import pytest

from tests.generate.conftest import ROLES, full_prompt
from tests.generate.test_pipeline import EVERYTHING, amounts
from tests.runs.conftest import until
from tests.tui.terminal import workbench
from tui_evals.store.details import read_details
from tui_evals.store.reader import Reader

# -- what ends it


def test_a_budget_stops_with_a_sentence_and_a_larger_one_goes_on_without_asking_again(shop):
    shop.configure(price="{ input_per_million = 1000.0, output_per_million = 1000.0 }", concurrency=2)
    options = (*amounts(shop), "--quiet")
    told = shop.generate(*options, "--max-cost", 7, code=4).err
    assert "the budget is spent" in told and "larger --max-cost" in told and "kept" in told
    asked = shop.server.asked()
    assert 2 < asked < 16 and not (shop.folder / "shop.json").exists()
    shop.generate(*options, "--max-cost", 500)
    assert shop.server.repeated() == [] and shop.server.asked() > asked
    assert len(json.loads(shop.read("shop.json"))["items"]) == 4


def test_going_on_without_a_budget_asks_nothing_again_either(shop):
    shop.configure(price="{ input_per_million = 1000.0, output_per_million = 1000.0 }", concurrency=2)
    options = (*amounts(shop), "--quiet")
    shop.server.behave("groundtruth-judge", first=("402",))
    shop.generate(*options, "--max-cost", 500, code=4)
    shop.server.behave("groundtruth-judge")  # the account has credit again
    shop.generate(*options)
    assert shop.server.repeated() == []


@pytest.mark.nightly
def test_ctrl_c_once_lets_what_is_in_flight_finish_and_the_next_command_goes_on(shop):
    options = (*amounts(shop, rules=3, tests=3), "-c", 2)
    shop.server.behave("groundtruth", always="held")
    process = shop.generating(*options)
    until(lambda: shop.server.asked("groundtruth") == 2 or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any("finishing open requests" in line for line in process.stderr)
    shop.server.held = False
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "the same command continues" in err
    assert shop.server.asked("groundtruth") == 2
    shop.generate(*options)
    assert shop.server.repeated() == [] and shop.server.asked("groundtruth") == 18


def test_a_wrong_key_ends_with_a_sentence_and_exit_3(shop, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "sk-of-somebody-else")
    told = shop.generate(code=3).err
    assert "stopped: writer cannot be asked: " in told and "API key" in told and "same command continues" in told


def test_a_server_that_is_not_there_is_named_in_a_sentence(shop):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shop.server.port, real = port, shop.server.port
    shop.configure()
    shop.server.port = real
    told = shop.generate(code=3).err
    assert "stopped: writer cannot be asked: " in told and "same command continues" in told


def test_a_server_that_fails_twice_is_asked_again(shop):
    shop.server.behave("rules", "tests", first=("500", "500"))
    shop.generate(*amounts(shop))
    assert shop.server.asked("rules") == 3 and shop.server.answered("rules") == 1


@pytest.mark.nightly
def test_two_generations_into_one_folder_at_once_the_second_is_refused(shop):
    shop.server.behave("rules", always="held")
    first = shop.generating(*amounts(shop))
    until(lambda: shop.server.asked("rules") == 1 or first.poll() is not None)
    told = shop.generate(code=1).err
    assert "another process generates into" in told and "--out" in told
    shop.server.held = False
    out, err = first.communicate(timeout=60)
    assert first.returncode == 0, out + err
    assert shop.server.asked("rules") == 1


# -- which steps


def test_until_ends_after_a_step_and_the_same_command_without_it_goes_on(shop):
    told = shop.generate(*amounts(shop), "--until", "rules").out
    assert "rules.txt is there" in told
    assert set(shop.made()) == {"rules.txt"} and shop.server.per_step == {"rules": 1}
    shop.generate()
    assert shop.server.asked("rules") == 1 and "shop.json" in shop.made()


def test_from_puts_the_old_files_aside_and_takes_the_step_and_all_behind_it_anew(shop):
    options = amounts(shop)
    shop.generate(*options)
    before = shop.made()
    shop.use(full_prompt())
    shop.server.expect(max_rules=2, tests_per_rule=1, per_question=1)
    told = shop.generate("--from", "inverse").err
    (place,) = (shop.folder / "earlier").iterdir()
    assert str(place.relative_to(shop.root)) in told
    aside = {file.name: file.read_text(encoding="utf-8") for file in place.iterdir()}
    names = {"inverse_rules.txt", "tests.json", "test_groundtruth.json"}
    assert {name: before[name] for name in names} == {name: aside[name] for name in names}
    assert not {"intent", "inputspec", "rules"} & shop.server.per_step.keys()
    assert len(shop.rows("tests.json")) == 8 and {"intent.txt", "rules.txt"}.isdisjoint(aside)


def test_what_comes_out_as_it_was_because_the_reply_is_known_is_said(shop):
    shop.generate(*amounts(shop))
    asked = shop.server.asked()
    assert "rules.txt came out as it was" in shop.generate("--from", "rules").err
    assert shop.server.asked() == asked
    assert "came out" not in shop.generate("--from", "dataset").err


def test_events_are_one_object_a_line_and_the_last_says_how_it_ended(shop):
    shop.server.behave("tests", first=("some_columns",))
    events = [json.loads(line) for line in shop.generate(*amounts(shop, tests=3), "--json").out.splitlines()]
    assert {event["event"] for event in events} == {"step", "note", "end"}
    end = {"event": "end", "status": "finished", "folder": "shop", "dataset": "shop/shop.json", "problems": []}
    assert events[-1].pop("cost") >= 0 and events[-1] == end
    shop.server.behave("rules", always="none")
    *_, last = shop.generate("--from", "rules", "--no-cache", "--json", code=1).out.splitlines()
    assert json.loads(last)["status"] == "failed" and "wrote no output rules" in json.loads(last)["problems"][0]


def test_steps_that_are_not_there_are_named_with_those_that_are(shop):
    for option in ("--until", "--from", "--confirm"):
        told = shop.generate(option, "rulez", code=2).err
        assert option in told and "rulez" in told and "groundtruth" in told
    assert "--from expansion" in shop.generate("--from", "expansion", code=2).err


@pytest.mark.parametrize(("flags", "said"), [((), "resting after rules"), (("--yes",), "")])
def test_confirm_rests_where_nobody_can_be_asked_and_yes_goes_on(shop, flags, said):
    err = shop.generate(*amounts(shop), "--confirm", "rules", *flags).err
    assert said in err and ("rules.txt" in err) == bool(said)
    assert (shop.folder / "shop.json").exists() != bool(said)
    assert shop.server.asked("inverse") == (0 if said else 1)
    if said:
        shop.generate()
        assert shop.server.asked("rules") == 1 and (shop.folder / "shop.json").exists()


@pytest.mark.nightly
@pytest.mark.parametrize(("keys", "code"), [("\x03", 130), ("\x04", 0), ("n\r", 0)])
def test_whoever_says_no_or_interrupts_or_hangs_up_at_a_question_gets_the_shell_back(tmp_path, keys, code):
    (tmp_path / "short.txt").write_text("Answer in one word: {{question}}")
    with workbench(tmp_path, "generate", "short.txt", "--target", "demo", "--confirm", "rules") as terminal:
        terminal.wait(r"rules\.txt\. Go on\? \[Y/n\]")
        terminal.press(keys)
        assert terminal.end() == code
    assert "stopped before the end" in terminal.shown and "Traceback" not in terminal.shown
    assert not (tmp_path / "short" / "inverse_rules.txt").exists()


def test_a_question_is_asked_again_until_it_is_answered(tmp_path):
    (tmp_path / "short.txt").write_text("Answer in one word: {{question}}")
    with workbench(tmp_path, "generate", "short.txt", "--target", "demo", "--confirm", "rules") as terminal:
        terminal.wait(r"Go on\? \[Y/n\]")
        terminal.after("perhaps\r", r"answer y or n\s+rules wrote .*Go on\? \[Y/n\]")
        terminal.press("\r")
        assert terminal.end() == 0
    assert (tmp_path / "short" / "short.json").exists()


# -- what a person edits


def test_what_is_edited_is_kept_and_the_steps_behind_it_work_from_it(shop):
    options = amounts(shop)
    shop.generate(*options, "--until", "inverse")
    edited = "The answer rhymes.\nThe answer names the shop.\n"
    (shop.folder / "rules.txt").write_text(edited)
    told = shop.generate().err
    assert "inverse_rules.txt was made before rules.txt changed" in told and "--from inverse" in told
    assert shop.read("rules.txt") == edited
    assert {test["rule"] for test in shop.rows("tests.json") if not test["inverse"]} == set(edited.splitlines())
    told = shop.generate("--from", "inverse").err
    assert "changed" not in told and shop.read("rules.txt") == edited
    assert shop.lines("inverse_rules.txt") == [f"Not so: {rule}" for rule in edited.splitlines()]


@pytest.mark.parametrize("name", ["intent.txt", "input_spec.txt", "rules.txt", "inverse_rules.txt"])
def test_a_file_of_lines_that_somebody_wrote_is_never_written_over(shop, name):
    shop.folder.mkdir()
    (shop.folder / name).write_text("Mine, and mine alone.\n")
    shop.generate(*amounts(shop))
    assert shop.read(name) == "Mine, and mine alone.\n"
    assert len(shop.rows("tests.json")) in (2, 3, 4)


def test_an_edit_of_the_prompt_is_said_until_what_was_made_from_it_is_made_anew(shop):
    options = amounts(shop)
    shop.generate(*options)
    file = shop.root / "shop.prompty"
    file.write_text(file.read_text() + "\nStay calm.\n")
    prompt = shop.server.expected.prompt
    shop.server.expect(prompt=replace(prompt, body=f"{prompt.body}\n\nStay calm."))
    told = shop.generate().err
    assert (
        "intent.txt, input_spec.txt and rules.txt were made before shop.prompty changed; "
        "`--from intent,inputspec,rules` makes them again"
    ) in told
    assert shop.server.asked("rules") == 1, "it says so, and does nothing by itself"
    shop.generate("--from", "intent,inputspec,rules")
    assert shop.server.asked("rules") == 2
    assert "made before" not in shop.generate().err


def test_two_prompts_of_one_name_do_not_mix(shop):
    shop.generate(*amounts(shop))
    before = shop.made()
    (shop.root / "shop.md").write_text("Translate {{text}}.")
    done = shop.do("generate", "shop.md", *ROLES, code=2)
    assert "another prompt of the same name" in done.err and "shop.prompty" in done.err and "--out" in done.err
    assert shop.made() == before


def test_a_prompt_that_was_renamed_goes_on_where_it_was(shop):
    shop.generate(*amounts(shop))
    (shop.root / "shop.prompty").rename(shop.root / "shop.prompty.txt")
    (shop.root / "shop.prompty.txt").rename(shop.root / "shop.md")
    asked = shop.server.asked()
    shop.do("generate", "shop.md", *ROLES)
    assert shop.server.asked() == asked


def test_a_prompt_that_is_a_link_keeps_its_name(shop):
    (shop.root / "real").mkdir()
    (shop.root / "shop.prompty").rename(shop.root / "real" / "other.prompty")
    (shop.root / "shop.prompty").symlink_to("real/other.prompty")
    shop.generate(*amounts(shop))
    asked, names = shop.server.asked(), set(shop.made())
    shop.do("generate", "shop", *ROLES)
    assert shop.server.asked() == asked and set(shop.made()) == names


@pytest.mark.parametrize("options", [(), ("--from", "tests")])
def test_a_folder_that_cannot_be_made_is_a_sentence(shop, options):
    if options:
        shop.generate(*amounts(shop))
    (shop.folder / "earlier" if options else shop.folder).write_text("in the way")
    told = shop.generate(*options, code=1 if options else 2).err
    assert "shop" in told and ("cannot be made" in told or "cannot be read" in told)


def test_a_folder_whose_prompt_is_gone_says_where_it_was_and_what_to_do(shop):
    shop.generate(*amounts(shop))
    shop.folder.rename(shop.root / "moved")
    (shop.root / "shop.prompty").unlink()
    told = shop.do("generate", "moved", *ROLES, code=2).err
    assert "shop.prompty" in told and "--out" in told


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"options": {"max_rules": "x"}}, "generation.json, options, max_rules"),
        ({"targets": 5}, "generation.json: targets"),
        ({"targets": {"judges": "writer"}}, "generation.json: targets"),
        ({"targets": {"rules": 5}}, "generation.json: targets"),
    ],
)
def test_a_record_that_cannot_be_is_a_sentence(shop, record, says):
    shop.folder.mkdir()
    (shop.folder / "generation.json").write_text(json.dumps(record))
    assert says in shop.generate(code=2).err


def test_an_edited_test_keeps_its_input_and_gets_ground_truth_of_its_own(shop):
    shop.generate(*amounts(shop))
    tests = shop.rows("tests.json")
    tests[0]["testinput"] = "What does it cost?"
    (shop.folder / "tests.json").write_text(json.dumps(tests))
    asked = shop.server.asked("groundtruth")
    shop.generate()
    assert shop.server.asked("groundtruth") == asked + 1
    assert [test["testinput"] for test in shop.rows("tests.json")] == [test["testinput"] for test in tests]
    item = json.loads(shop.read("shop.json"))["items"][0]
    assert item["variables"] == {"question": "What does it cost?"}
    assert item["expected_response"] == "Answer to What does it cost?"


def test_rule_makes_only_the_tests_of_that_rule_anew(shop):
    shop.generate(*amounts(shop))
    before = {test["testuid"]: test for test in shop.rows("tests.json")}
    shop.server.expect(only=frozenset({3}))
    asked, truths = shop.server.asked("tests"), shop.server.asked("groundtruth")
    shop.server.behave("tests", always="answer")
    shop.generate("--rule", 3)
    assert shop.server.asked("tests") == asked + 1, "the same question is asked anew"
    after = {test["testuid"]: test for test in shop.rows("tests.json")}
    assert {test["ruleid"] for test in after.values()} == {1, 2, 3, 4}
    assert [one for one in after.values() if one["ruleid"] != 3] == [
        one for one in before.values() if one["ruleid"] != 3
    ]
    assert shop.server.asked("groundtruth") == truths, "the server wrote the same test again"


def test_inverse_makes_only_that_inverse_rule_anew(shop):
    shop.generate(*amounts(shop))
    (shop.folder / "inverse_rules.txt").write_text("Mine.\nAnother of mine.\n")
    shop.server.expect(only_inverse=2)
    told = shop.generate("--inverse", 2).err
    assert shop.lines("inverse_rules.txt") == ["Mine.", f"Not so: {shop.lines('rules.txt')[1]}"]
    assert "tests.json was made before inverse_rules.txt changed" in told


@pytest.mark.parametrize(
    ("option", "said"), [("--rule", "there is no rule 9"), ("--inverse", "there is no output rule 9")]
)
def test_a_rule_that_is_not_there_is_refused(shop, option, said):
    shop.generate(*amounts(shop))
    before = shop.made()
    assert said in shop.generate(option, 9, code=2).err
    assert shop.made() == before


def test_baseline_tests_that_are_added_later_get_ground_truth_too(shop):
    shop.generate(*amounts(shop))
    shop.generate("--baseline-tests", "--until", "baseline")
    asked = shop.server.asked("groundtruth")
    shop.generate()
    assert shop.server.asked("groundtruth") == asked + 4
    assert len(json.loads(shop.read("shop.json"))["items"]) == 8


# -- the plan


def planned(project, *options):
    found = json.loads(project.generate(*options, "--plan", "--json").out)
    return {step["step"]: step["calls"] for step in found["steps"] if step["calls"]}


def made_by(server):
    """The calls of each step, as a plan counts them."""
    calls = dict(server.per_step)
    for step, further in (("tests", ("more",)), ("groundtruth", ("groundtruth-judge",))):
        calls[step] = sum(calls.pop(name, 0) for name in (step, *further))
    calls["review"] = sum(calls.pop(name, 0) for name in ("validity", "coverage", "compliance"))
    return {step: number for step, number in calls.items() if number}


@pytest.mark.nightly
@pytest.mark.parametrize("more", [(), EVERYTHING], ids=["plain", "everything"])
@pytest.mark.parametrize("which", ["project", "shop"])
def test_a_plan_asks_nothing_and_counts_the_calls_that_are_made(request, which, more):
    project = request.getfixturevalue(which)
    options = (*amounts(project, rules=2, tests=2, at_once=1, rounds=2), *more)
    plan = planned(project, *options)
    assert project.server.asked() == 0 and not project.folder.exists()
    project.generate(*options)
    assert plan == made_by(project.server)
    assert planned(project) == {}


@pytest.mark.nightly
def test_a_plan_counts_what_is_left(shop):
    options = (*amounts(shop), *EVERYTHING)
    shop.generate(*options, "--until", "labels")
    plan = planned(shop)
    shop.server.log.clear()
    shop.generate()
    assert plan == made_by(shop.server)


@pytest.mark.nightly
def test_a_plan_counts_the_runs_of_the_models_under_test_and_one_limit_holds_for_all(shop):
    shop.configure(price="{ input_per_million = 1000.0, output_per_million = 1000.0 }", concurrency=2)
    options = (*amounts(shop), "-m", "under-test", "--runs-per-test", 3, "--quiet")
    before = planned(shop, *options)
    shop.generate(*options, "--max-cost", 500)
    with Reader(shop.root / ".evals" / "evals.db") as reader:
        (run,) = [run for run in reader.runs() if run.targets == ("under-test",)]
        rows = list(reader.all_rows(run.id))
        generations = sum(reader.totals(one.id).cost + reader.totals(one.id).judge_cost for one in reader.runs())
        scores = [score for told in read_details(reader, run, rows) for score in told.scores]
    assert before["run"] == len(rows) == run.total
    assert before["judging"] == len(scores)
    assert 0 < run.config["terms"]["max_cost"] < 500
    assert generations <= 500
    assert "run" not in planned(shop, *amounts(shop))


def test_asking_again_without_the_cache_is_not_advised_to_leave_out_the_cache(shop):
    shop.generate(*amounts(shop))
    told = shop.generate("--from", "rules", "--no-cache")
    assert "came out as it was" not in told.out + told.err


@pytest.mark.parametrize("course", [("--from", "tests"), ("--from", "expansion"), ("--from", "groundtruth")])
def test_a_plan_counts_what_is_made_anew(shop, course):
    options = (*amounts(shop), "--test-expansions", 1, "--no-cache")
    shop.generate(*options)
    shop.server.log.clear()
    plan = planned(shop, "--no-cache", *course)
    assert shop.server.asked() == 0
    shop.generate("--no-cache", *course)
    assert plan == made_by(shop.server)
