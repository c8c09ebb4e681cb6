"""One law: no fault of the infrastructure becomes a row or a second bill, and only calls in flight are asked again.

Over every state of a target or judge, at the first call, in the middle and at the last, for plain answers, streams and
agents with tools, beside other targets or alone, in every command that asks. What was asked and billed the server says.
"""

import itertools
import json
from dataclasses import dataclass

import pytest

from tests.generate import server as generate_server
from tests.generate.conftest import ROLES, full_prompt
from tests.generate.conftest import Project as Shop
from tests.generate.expected import TRUTH
from tests.generate.server import KEY, Break
from tests.runs.conftest import Project
from tests.server import SHORT

ITEMS, AT_ONCE = 6, 2
SAID = {"say": '{"reason": "fine", "score": 5}', "markers": False}
CHOICE = {"say": '{"reason": "It stands first.", "winner": "first"}', "markers": False}
STATES = {
    "refused: key": {"then": "401"},
    "refused: permission": {"then": "403"},
    "refused: model": {"then": "404"},
    "refused: credit": {"then": "402"},
    "refused: quota": {"then": "429quota"},
    "refused: inside a reply": {"then": "stated401"},
    "away": {"then": "500"},
    "away: hangs up": {"then": "reset"},
    "away: inside a stream": {"then": "stream_error"},
    "away for a while": {"then": "503", "calls": 4, "retry_after": 0},
    "limited": {"then": "429", "calls": 4, "retry_after": 0},
    "limited for long": {"then": "429", "retry_after": 3600},
}
"""What every call meets from some moment on; where `calls` are given it passes by itself."""
MOMENTS = ("first", "middle", "last")
REFUSED = ("test-model", "two-model", "three-model")
"""The models that refuse everything before a run is resumed."""
FORMS = ("plain", "stream", "tools")
COMMANDS = ("run", "resume", "rescore", "battle", "generate")


@dataclass(frozen=True)
class Case:
    """A fault in a command."""

    state: str
    moment: str = "middle"
    who: str = "target"
    form: str = "plain"
    targets: int = 1
    command: str = "run"

    @property
    def passes(self) -> bool:
        """Whether it is over by itself; who never answered and is not there is not waited for."""
        return "calls" in STATES[self.state] and not (self.moment == "first" and self.state.startswith("away"))

    def behaviour(self, calls: int) -> dict:
        """How the server behaves that takes so many calls in all."""
        return {"after": {"first": 0, "middle": calls // 2, "last": calls - 1}[self.moment], **STATES[self.state]}

    def __str__(self) -> str:
        return " · ".join(map(str, vars(self).values()))


def possible(case: Case) -> bool:
    """Whether there is such a case: a judge is given no tools, and only a run has targets beside it.

    The models of a generation answer in one form: whether they stream is said in the same place of their configuration
    as that of a target, and the server of its tests writes no streams.
    """
    if case.who == "target" and case.command in ("rescore", "battle", "generate"):
        return False
    if (case.who == "judge" and case.form == "tools") or (case.command == "generate" and case.form != "plain"):
        return False
    return case.targets == 1 or case.command in ("run", "resume")


EVERY = [
    case
    for one in itertools.product(STATES, MOMENTS, ("target", "judge"), FORMS, (1, 3), COMMANDS)
    if possible(case := Case(*one))
]
OFTEN = [
    Case("refused: key"),
    Case("refused: permission", "last", form="stream", targets=3),
    Case("refused: model", "first", form="tools", command="resume"),
    Case("refused: quota", who="judge", targets=3),
    Case("away", "middle", form="tools", targets=3),
    Case("away: inside a stream", "last", form="stream"),
    Case("away for a while", "first"),
    Case("limited", "middle", who="judge"),
    Case("limited for long", "middle", "judge", command="rescore"),
    Case("away: hangs up", "first", "judge", command="battle"),
    Case("away: inside a stream", "middle", "judge", form="stream"),
    Case("refused: credit", "last", "judge", form="stream", command="rescore"),
    Case("refused: inside a reply", "middle", "judge", command="battle"),
    Case("refused: key", "middle", "judge", command="generate"),
]


def write(project, case):
    """A configuration with all targets and a judge, and a dataset of the form of the case."""
    lines = f"concurrency = {AT_ONCE}\nretries = 0\nmax_outage = {60 if case.passes else 0.01}\nmax_wait = 60\n"
    streamed = {case.who: "stream = true\n"} if case.form == "stream" else {}
    sections = (
        f'[targets.{name}]\nmodel = "openai/{name}-model"\nbase_url = "{project.server.url}"\n{lines}'
        f"{streamed.get(name, '')}\n"
        for name in ("two", "three", "judge")
    )
    project.configure(lines + streamed.get("target", "") + "".join(sections))
    marks = " [[agent]] call find {}" if case.form == "tools" else ""
    tools = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]
    agents = {"tools": tools, "tool_results": [{"tool": "find", "result": "found"}]} if marks else {}
    evaluators = {"Regex": {"pattern": "."}, **({"Relevance": {}} if case.who == "judge" else {})}
    project.dataset(ITEMS, lambda number: f"question {number}{marks}", default_evaluators=evaluators, **agents)


def behave(project, case, **fault):
    """Have everybody answer, but for the fault of whom the case is about."""
    faults = {case.who: fault}
    form = {case.who: {"always": "stream"}} if case.form == "stream" else {}
    for model, size in (("two-model", 200), ("three-model", 300)):  # so that a judge is asked something else of each
        project.server.behave(model, size=size)
    said = CHOICE if case.command == "battle" else SAID
    project.server.behave("test-model", **form.get("target", {}), **faults.get("target", {}))
    project.server.behave("judge-model", **said, **form.get("judge", {}), **faults.get("judge", {}))


def commands_of(project, case):
    """The command that meets the fault, the one that goes on after it, and how many calls whoever fails has to take."""
    names = ("main", "two", "three")[: case.targets]
    steps = 2 if case.form == "tools" else 1
    calls = ITEMS * steps * (case.targets if case.who == "judge" else 1)
    run = ("run", "data.json", "--target", ",".join(names), "--judge", "judge", "--no-cache", "--quiet")
    resume = ("resume", "last", "--quiet")
    match case.command:
        case "run":
            return run, resume, calls
        case "resume":
            for model in REFUSED:
                project.server.behave(model, after=0, then="402")
            project.do(*run, code=3)
            behave(project, case)
            return resume, resume, calls
        case "rescore":
            project.do(*run, "--without-judges")
            rescore = ("rescore", "last", "--judge", "judge", "--no-cache", "--quiet")
            return rescore, rescore if case.moment == "first" else resume, calls
    for name in ("main", "two"):
        project.do("run", "data.json", "--target", name, "--name", name, "--without-judges", "--quiet")
    battle = ("battle", "main", "two", "--judge", "judge", "--json")
    return battle, battle, 2 * ITEMS


def statuses(project):
    with project.reader() as reader:
        return {row.status for run in reader.runs() for row in reader.all_rows(run.id)}


def assert_asked(project, case, calls):
    """Everything was answered once, and only what was in flight at a fault was asked again."""
    questions = [one for one in project.server.counts()["questions"] if not one["text"].startswith(SHORT)]
    assert {one["answered"] for one in questions} == {1}, "nothing is billed twice"
    model = "test-model" if case.who == "target" else "judge-model"
    failed = [one["asked"] for one in questions if one["model"] == model]
    again = STATES[case.state].get("calls", AT_ONCE)
    refused_before = AT_ONCE if case.command == "resume" else 0
    assert len(failed) == calls and sum(failed) <= calls + again + refused_before
    well = [one["asked"] for one in questions if one["model"] not in (model, *(REFUSED if refused_before else ()))]
    assert set(well) <= {1}, "whoever is well is asked once"


def play(project, case):
    write(project, case)
    behave(project, case)
    meeting, after, calls = commands_of(project, case)
    behave(project, case, **case.behaviour(calls))
    code, out, err = project.as_call(*meeting)
    assert "Traceback" not in err and code in ends(case), out + err
    assert statuses(project) <= {"pass", "pending", "answered"}, "a fault is no row"
    if not case.passes:
        assert "continues" in err or "judges again" in err, err
        behave(project, case)
        project.do(*after)
    assert statuses(project) == {"pass"}
    if case.command == "battle":
        assert not json.loads(project.do(*after))["duels"][0]["not_asked"]
    assert_asked(project, case, calls)


def ends(case):
    """The exit codes of the command that meets the fault."""
    if case.passes:
        return (0,)
    nothing = case.moment == "first" and (case.command == "resume" or case.who == "target" or case.command != "run")
    return (3, 4) if nothing else (4,)


GENERATION = (
    *("generate", "shop.prompty", *ROLES, "--max-rules", 2, "--tests-per-rule", 1, "--test-generations", 1),
    *("--max-rules-per-test-generation", 1, "--quiet"),
)


def generated(folder, server, case=None, calls=0):
    """What a generation makes in which the model for ground truth meets a fault, and how often that was asked."""
    folder.mkdir()
    shop = Shop(folder, server, full_prompt(), None)
    shop.configure(concurrency=AT_ONCE, retries=0, max_outage=60 if case and case.passes else 0.01, max_wait=60)
    server.expect(max_rules=2, tests_per_rule=1, per_question=1)
    codes = (0,)
    if case is not None:
        fault = case.behaviour(calls)
        server.breaks = Break(TRUTH, fault["after"], fault["then"], fault.get("calls"), fault.get("retry_after", 1))
        codes = (0,) if case.passes else (4,)
    code, out, err = Project(folder, server).as_call(*GENERATION, SHOP_KEY=KEY)
    assert "Traceback" not in err and code in codes, out + err
    if code:
        assert TRUTH in err and "the same command continues" in err
        assert server.breaks.questions <= AT_ONCE, "only what was in flight is asked again"
        server.breaks = None
        code, out, err = Project(folder, server).as_call(*GENERATION, SHOP_KEY=KEY)
        assert code == 0, out + err
    assert server.repeated() == [] and server.complaints == []
    return shop.made(), sum(one.model == TRUTH for one in server.log)


def play_generation(folder, case):
    with generate_server.running() as server:
        wanted, calls = generated(folder / "undisturbed", server)
        made, again = generated(folder / "broken", server, case, calls)
    assert made == wanted and again == calls


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr("tui_evals.runs.availability._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("tui_evals.runs.limits._FIRST_DELAY", 0.01)


@pytest.mark.cases(3)
@pytest.mark.parametrize("case", OFTEN, ids=str)
def test_no_fault_of_the_infrastructure_becomes_a_row_or_a_second_bill(case, tmp_path, one_server):
    if case.command == "generate":
        play_generation(tmp_path, case)
    else:
        one_server.reset()
        play(Project(tmp_path, one_server), case)


EACH_CHANGE = {(state, COMMANDS[number % len(COMMANDS)]) for number, state in enumerate(STATES)}
"""Rounds of half a minute each: each state once, each command twice or more. OFTEN has cases of every state too."""


def rounds():
    for state, command in itertools.product(STATES, COMMANDS):
        marks = [] if (state, command) in EACH_CHANGE else [pytest.mark.nightly]
        yield pytest.param(state, command, marks=marks, id=f"{command}-{state}")


@pytest.mark.story
@pytest.mark.cases(2)
@pytest.mark.parametrize(("state", "command"), [*rounds()])
def test_no_fault_does_whatever_it_meets(state, command, tmp_path, one_server):
    for number, case in enumerate(case for case in EVERY if (case.state, case.command) == (state, command)):
        folder = tmp_path / str(number)
        folder.mkdir()
        if command == "generate":
            play_generation(folder, case)
        else:
            one_server.reset()
            play(Project(folder, one_server), case)


LIMITS = "concurrency = 2\nretries = 0\nmax_outage = 0.01\nmax_wait = 60\n"
CUSTOMER = '''
import json, re


def customer(messages):
    """Asks something else in every turn of every item."""
    told = " ".join(str(message["content"]) for message in messages)
    goal, turn = re.search(r"goal-(\\d+)", told)[1], told.count("Assistant:")
    return json.dumps({"goal": "open", "message": f"question {goal} of turn {turn} [[say {goal} {turn}]]"})
'''


def simulated_users(project):
    """A target that talks with users whom code plays."""
    project.configure(f'{LIMITS}[targets.user]\nmodel = "python:customer:customer"\n[judge]\ntarget = "user"\n')
    (project.folder / "customer.py").write_text(CUSTOMER)
    items = [{"user": {"persona": "Ada", "goal": f"goal-{number}", "max_turns": 3}} for number in range(ITEMS)]
    return "main", "test-model", {"UserGoal": {}}, items


def vectors(project):
    """A target that gives vectors to an evaluator."""
    project.configure(
        f'[targets.vectors]\nkind = "embedding"\nmodel = "openai/embed"\nbase_url = "{project.server.url}"\n{LIMITS}'
        '[judge]\nembedding = "vectors"\n'
    )
    said = [f"the shop closes at {number}" for number in range(ITEMS)]
    items = [{"prompt": f"[[say {text}]]", "expected_response": f"{text} today"} for text in said]
    return "main", "embed", {"EmbeddingSimilarity": {}}, items


def service(project):
    """A service of the configuration that holds a session."""
    project.configure(
        f"[targets.bot]\n{LIMITS}[targets.bot.http]\nurl = '{project.server.origin}/service/chat'\n"
        "answer = '$.result.text'\nsession = '$.conv'\n"
        "body = { message = '{{ prompt }}', conversation = '{{ session }}' }\n"
    )
    turns = [[{"prompt": f"question {number} of turn {turn}"} for turn in range(2)] for number in range(ITEMS)]
    return "bot", "service", {"Regex": {"pattern": "question"}}, [{"turns": own} for own in turns]


@pytest.mark.cases(5)
@pytest.mark.parametrize("state", ["refused: key", "away", "limited for long"])
@pytest.mark.parametrize("write_role", [simulated_users, vectors, service])
def test_targets_in_other_roles_keep_the_law_too(write_role, state, project):
    target, model, evaluators, items = write_role(project)
    document = {"schemaVersion": "1.11.0", "default_evaluators": evaluators, "items": items}
    (project.folder / "data.json").write_text(json.dumps(document))
    project.server.behave("test-model", markers=True)
    project.server.behave(model, markers=True, after=ITEMS // 2, **STATES[state])
    code, out, err = project.as_call("run", "data.json", "--target", target, "--quiet", "--no-cache", "--trust")
    assert code == 4 and "Traceback" not in err and "continues" in err, out + err
    assert statuses(project) <= {"pass", "fail", "pending", "answered"} and {"pending", "answered"} & statuses(project)
    project.server.behave(model, markers=True)
    project.do("resume", "last", "--quiet", "--trust")
    assert statuses(project) <= {"pass", "fail"}
    questions = [one for one in project.server.counts()["questions"] if not one["text"].startswith(SHORT)]
    assert {one["answered"] for one in questions} == {1}, "nothing is billed twice"
    texts = 2 if write_role is vectors else 1
    assert sum(one["asked"] for one in questions) <= len(questions) + AT_ONCE * texts, "calls in flight"
