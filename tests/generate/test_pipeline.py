"""The whole pipeline as the command line runs it, against a server that refuses questions with something missing."""

import asyncio
import contextlib
import json
import random

import pytest

from tests.generate.conftest import ROLES, Project, full_prompt
from tests.runs.conftest import kill, until
from tui_evals.generate.pipeline import STEPS, Pipeline, needed_steps

EVERYTHING = ("--baseline-tests", "--validity", "--groundedness", "--coverage", "--test-expansions", 1)
QUESTIONS = {
    "tests": ("tests", "more"),
    "review": ("validity", "coverage", "compliance"),
    "groundtruth": ("groundtruth", "groundtruth-judge"),
}
RULES = [f"The output obeys: {rule}" for rule in ("Never promise a refund.", "End with the name of the shop.")]


def amounts(project: Project, *, rules: int = 2, tests: int = 1, at_once: int = 1, rounds: int = 1) -> tuple:
    """The options for so many rules and tests, which the server then expects to see in the questions."""
    project.server.expect(max_rules=rules, tests_per_rule=tests, per_question=at_once)
    counts = ("--max-rules", rules, "--tests-per-rule", tests, "--test-generations", rounds)
    return (*counts, "--max-rules-per-test-generation", at_once)


# -- from the prompt to the overview


@pytest.mark.nightly
def test_the_whole_pipeline_writes_every_file_and_a_dataset_that_runs(project):
    server = project.server
    process = project.generating(*amounts(project, rounds=2), *EVERYTHING)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, server.complaints) == (0, []), out + err
    assert project.lines("intent.txt") == [
        "Help as this says: You answer the customers of a shop in the language of {{locale}}."
    ]
    assert project.lines("input_spec.txt") == [
        f"The input {name} is a short text." for name in ("locale", "question", "mood")
    ]
    assert project.lines("rules.txt") == RULES
    assert project.lines("inverse_rules.txt") == [f"Not so: {rule}" for rule in RULES]
    assert [(row["ruleid"], row["grounded"]) for row in project.rows("rule_evals.json")] == [(1, "err"), (2, "ok")]
    _look_at_tests(project)
    _look_at_dataset(project)
    assert server.per_step == {
        "intent": 1, "inputspec": 1, "rules": 1, "inverse": 1, "groundedness": 2, "tests": 8, "more": 8, "baseline": 1,
        "expansion": 16, "validity": 32, "coverage": 32, "compliance": 32, "groundtruth": 32, "groundtruth-judge": 32,
    }  # fmt: skip
    assert server.repeated() == []
    assert "valid" in project.do("validate", "shop/shop.json").out
    project.do("run", "shop/shop.json", "--target", "under-test", "--judge", "judge", "--quiet")
    assert server.asked("answer") == 64 and server.asked("accuracy") >= 32
    header, *rows = project.do("report", "--overview").out.splitlines()
    assert "tests compliant" in header and "accuracy with judge" in header
    assert [row.split()[:3] for row in rows] == [["under-test", "english", "16"], ["under-test", "calm", "16"]]


def _look_at_tests(project):
    tests = project.rows("tests.json")
    made, baseline = tests[:16], tests[16:]
    assert [test["ruleid"] for test in made] == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4
    assert {test["rule"] for test in made if test["inverse"]} == set(project.lines("inverse_rules.txt"))
    assert [test["scenario"] for test in made[:4]] == ["english", "english", "calm", "calm"]
    assert [test["generation"] for test in made[:4]] == [0, 1, 0, 1]
    first, calm = made[0], made[2]
    told = {name: f"{name}: rule 1, test 1 (open)" for name in ("question", "mood")}
    assert json.loads(first["testinputOriginal"]) == told
    assert json.loads(first["testinput"]) == {name: f"{text} And so on, and so on." for name, text in told.items()}
    assert calm["testinput"] == "question: rule 1, test 1 (calm) And so on, and so on."
    assert (first["expectedoutput"], first["reasoning"]) == ('say "rule 1, test 1"', "rule 1, test 1")
    assert all(test["baseline"] and "ruleid" not in test and json.loads(test["testinput"]) for test in baseline)
    assert project.read("baseline_tests.txt").count("===") == len(baseline) - 1 == 15
    assert len({test["testuid"] for test in tests}) == 32
    evals = {row["testuid"]: row for row in project.rows("test_evals.json")}
    assert [evals[test["testuid"]]["validity"] for test in made[:4]] == ["err", "ok", "err", "ok"]
    assert {row["coverage"] for row in evals.values()} == {"ok"} and len(evals) == 32
    truths = {row["testuid"]: row for row in project.rows("test_groundtruth.json")}
    assert {row["groundtruthScore"] for row in truths.values()} == {90} and truths.keys() == evals.keys()


def _look_at_dataset(project):
    data = json.loads(project.read("shop.json"))
    assert (data["prompt_file"], data["repeats"]) == ("../shop.prompty", 2)
    assert set(data["default_evaluators"]) == {"Compliance", "accuracy"}
    facts = data["extensions"]["promptpex"]
    assert facts["rules"].split("\n") == RULES and facts["intent"] == project.lines("intent.txt")[0]
    english, calm = data["items"][0], data["items"][2]
    assert english["variables"]["locale"] == "en-us" and calm["variables"]["locale"] == "fr-FR"
    assert calm["variables"] == {
        "locale": "fr-FR",
        "mood": "calm",
        "question": "question: rule 1, test 1 (calm) And so on, and so on.",
    }
    assert english["expected_response"].startswith("Answer to question: rule 1, test 1 (open) And so on")
    assert (english["category"], english["tags"], data["items"][-1]["category"]) == ("rule-1", ["english"], "baseline")
    assert (english["extensions"]["promptpex"]["validity"], english["extensions"]["promptpex"]["coverage"]) == (
        "err",
        "ok",
    )
    assert len(data["items"]) == 32


# -- killed: at a few places as a process, at all of them by a stop from within; at night at all of them as a process


class Died(BaseException):
    """What ends a generation that shares this process."""


def end_as_process(project, condition, *options):
    """Kill a generation when a condition is met."""
    process = project.generating(*options)
    until(lambda: condition() or process.poll() is not None)
    kill(process)


def end_within(project, condition, *options):
    """End a generation in this process when a condition is met, with everything it has under way."""
    whole = Pipeline.run

    async def watch():
        async with asyncio.timeout(180):
            while not condition():
                await asyncio.sleep(0.005)
        raise Died

    async def run(pipeline):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(watch())
                await whole(pipeline)
                raise Died
        finally:  # a pipeline that is ended while it closes its models leaves connections to the end of the process
            await asyncio.gather(*(model.target.close() for model in pipeline._work.models.all))
            await asyncio.sleep(0.01)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(BaseExceptionGroup) as ended:
        patch.setattr(Pipeline, "run", run)
        project.shell("generate", "shop.prompty", *ROLES, *options)
    assert ended.group_contains(Died)


def both_ways(places, as_process, within):
    """A kill at each place, and at all but one a stop from within; but for the two that are named they are nightly."""
    stops = [
        pytest.param(end_within, place, id=f"{place} from within", marks=() if place == within else pytest.mark.nightly)
        for place in places
        if place != as_process
    ]
    kills = [
        pytest.param(
            end_as_process, place, id=f"{place} killed", marks=() if place == as_process else pytest.mark.nightly
        )
        for place in places
    ]
    return stops + kills


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, one_server):
    """What a generation makes and asks when nothing happens to it."""
    found = {}

    def look(project):
        if not found:
            other = Project(tmp_path_factory.mktemp("undisturbed"), project.server, full_prompt(), project.shell)
            with contextlib.chdir(other.root):
                other.generate(*amounts(other), *EVERYTHING)
            found.update(made=other.made(), calls=other.server.per_step)
            project.use(project.prompt)
        return found

    return look


def complete(project, step):
    """Whether the files say that a step is over."""
    if not (project.folder / step.file).exists():
        return False
    rows = project.rows(step.file) if step.file.endswith(".json") and step.name not in ("dataset", "exports") else []
    if step.name == "labels":
        return any(row.get("baseline") for row in rows)
    if step.name == "expansion":
        return all("testinputOriginal" in row for row in rows if not row.get("baseline"))
    return True


# The last steps ask nothing; behind them the run on the model under test waits.
FILES = {"dataset": "shop.json", "exports": "evals.create.json"}


@pytest.mark.story
@pytest.mark.cases(2)
@pytest.mark.parametrize(("end", "step"), both_ways([step.name for step in STEPS], "exports", "tests"))
def test_killed_after_a_step_it_goes_on_without_asking_a_finished_step_again(project, undisturbed, end, step):
    whole, server = undisturbed(project), project.server
    options = (*amounts(project), *EVERYTHING, "--quiet")
    over = needed_steps([step]) - {"dataset"}
    waiting = [name for other in STEPS if other.name not in over for name in QUESTIONS.get(other.name, (other.name,))]
    server.behave(*waiting, "answer", always="hang")
    file = FILES.get(step)
    is_there = (lambda: (project.folder / file).exists()) if file else (lambda: complete(project, _step(step)))
    end(project, is_there, *options, *(("-m", "under-test") if step in FILES else ()))
    finished = {name for other in over for name in QUESTIONS.get(other, (other,))}
    asked = {name: server.asked(name) for name in finished}
    # Without what is kept of replies, only its file can say that a step is over.
    project.do("cache", "clear", "--yes")
    server.behave(*waiting, always="answer")
    project.generate(*options)
    assert {name: server.asked(name) for name in finished} == asked
    assert server.repeated() == []
    assert {name: server.answered(name) for name in whole["calls"]} == whole["calls"]
    assert {name: text for name, text in project.made().items() if name != "evals.run.json"} == whole["made"]


def _step(name):
    return next(step for step in STEPS if step.name == name)


@pytest.mark.nightly
@pytest.mark.cases(2)
@pytest.mark.parametrize("flags", [(), ("--no-cache",)])
@pytest.mark.parametrize(
    ("end", "step"), both_ways(["tests", "expansion", "review", "groundtruth"], "groundtruth", "tests")
)
def test_killed_in_the_middle_of_a_step_only_what_was_in_flight_is_asked_again(project, undisturbed, end, step, flags):
    whole, server = undisturbed(project), project.server
    options = (*amounts(project), *EVERYTHING, "-c", 2, *flags)
    first = QUESTIONS.get(step, (step,))[0]
    server.behave(first, after=3)
    server.behave("coverage", *(["groundtruth"] if step == "review" else []), always="hang")
    server.behave(*(["validity"] if step == "groundtruth" else []), always="hang")
    answered = {name: calls for name, calls in whole["calls"].items() if name in needed_steps([step])}
    answered |= {"groundedness": 2, first: 3, **({"groundtruth-judge": 3} if step == "groundtruth" else {})}
    end(project, lambda: _settled(server, first, answered) and _all_kept(project), *options)
    in_flight = server.asked() - server.answered()
    server.manners.clear()
    project.generate(*options)
    assert server.repeated() == []
    assert server.asked() == sum(whole["calls"].values()) + in_flight
    assert project.made() == whole["made"]


def _settled(server, step, answered):
    """Whether everything that is going to be answered is, and the step hangs."""
    done = {name: server.answered(name) for name in answered}
    return done == answered and server.asked(step) == answered[step] + 2


def _all_kept(project):
    return project.kept() == project.server.answered()


@pytest.mark.story
def test_killed_again_and_again_at_any_moment_it_ends_as_if_undisturbed(project, undisturbed):
    whole, server, draw = undisturbed(project), project.server, random.Random(7)
    options = (*amounts(project), *EVERYTHING, "-c", 2, "--quiet")
    total = sum(whole["calls"].values())
    for moment in sorted(draw.sample(range(2, total - 2), 3)):
        killed = project.generating(*options)
        until(lambda moment=moment, killed=killed: server.asked() >= moment or killed.poll() is not None)
        kill(killed)
    project.generate(*options)
    assert project.made() == whole["made"]
    # Each of the five models has two calls in flight, and as many replies on their way into the store.
    assert server.asked() <= total + 3 * 4 * 5
