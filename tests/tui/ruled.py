"""A dataset that was made from rules, with the files of its generation beside it, and runs of it."""

import json

from tests.store.helpers import judged, new_run, said
from tui_evals.store.reader import Reader
from tui_evals.store.records import PlannedAnswer
from tui_evals.store.writer import Writer

RULES = ("The tag is upper case.", "The output is one word.", "An unknown word gets Unknown.")
INVERSE = ("The tag is lower case.", "The output is a sentence.", "An unknown word gets a tag.")


def case_of(number, rule, text, inverse=False, **more):
    of = (rule - 1) % 3 + 1
    facts = {"ruleid": rule, "rule": text, "inverse": inverse, "testinput": f"word {number}", "of": of}
    return {
        "testId": f"test-{number}",
        "category": f"rule-{rule}",
        **({"tags": ["inverse"]} if inverse else {}),
        "variables": {"word": f"word {number}"},
        "expected_response": f"TAG{number}",
        "extensions": {"promptpex": {**facts, **more}},
    }


def baseline(number):
    facts = {"baseline": True, "testinput": f"word {number}"}
    item = case_of(number, 1, RULES[0])
    return {**item, "category": "baseline", "extensions": {"promptpex": facts}}


def dataset(items=None, rules=RULES, inverse=INVERSE, **facts):
    known = {"prompt": "tags", "rules": "\n".join(rules), "inverseRules": "\n".join(inverse), **facts}
    return {
        "schemaVersion": "1.11.0",
        "metadata": {"name": "tags"},
        "messages": [{"role": "user", "content": "{{word}}"}],
        "default_evaluators": {"Includes": {}},
        "extensions": {"promptpex": known},
        "items": ITEMS if items is None else items,
    }


ITEMS = [
    case_of(1, 1, RULES[0]),
    case_of(2, 1, RULES[0]),
    case_of(3, 2, RULES[1]),
    case_of(4, 5, INVERSE[1], inverse=True),
    case_of(5, 6, INVERSE[2], inverse=True),
    baseline(6),
]


def ruled_project(folder, data=None, *, files=True, record=None):
    """The dataset `tags/tags.json`, and the files a generation writes beside it."""
    place = folder / "tags"
    place.mkdir(parents=True, exist_ok=True)
    data = dataset() if data is None else data
    (place / "tags.json").write_text(json.dumps(data, indent=2), encoding="utf-8")
    if files:
        (place / "rules.txt").write_text("".join(f"{rule}\n" for rule in RULES))
        (place / "inverse_rules.txt").write_text("".join(f"{rule}\n" for rule in INVERSE))
        names = ("ruleid", "rule", "inverse", "baseline", "testinput")
        tests = []
        for item in data["items"]:
            facts = item["extensions"]["promptpex"]
            own = {name: facts[name] for name in names if name in facts}
            tests.append({**own, "testuid": item["testId"]})
        (place / "tests.json").write_text(json.dumps(tests))
        kept = {"prompt": "../tags.prompty", "options": {"max_rules": None}, "targets": {"rules": "demo"}}
        (place / "generation.json").write_text(json.dumps(kept if record is None else record))
    return place / "tags.json"


async def add_verdicts(path, verdicts, *, targets=("demo",), status="finished", key="Compliance", **given):
    """A run of `tags/tags.json`: by the name of a test, for each target pass, fail, error or None."""
    with Writer(path) as writer:
        snapshot = writer.snapshot({"items": []}, "tags")
        planned = [
            PlannedAnswer(place * len(targets) + target, place, 0, 0, target, 0, name)
            for place, name in enumerate(verdicts)
            for target in range(len(targets))
        ]
        fields = {"snapshot": snapshot, "source": "tags/tags.json", "targets": targets, **given}
        run = writer.plan(new_run(**fields), planned)
        found = [verdict for each in verdicts.values() for verdict in each]
        await _answer(path, writer, run.id, found, key)
        writer.run_status(run.id, status)
        return run


async def _answer(path, writer, run, verdicts, key):
    with Reader(path) as reader:
        rows = list(reader.all_rows(run))
    for row, verdict in zip(rows, verdicts, strict=True):
        if verdict == "error":
            await writer.answered(row.id, said(None, code="agentRequestFailed", message="no"), "error")
        elif verdict is not None:
            score = 1.0 if verdict == "pass" else 0.0
            await writer.answered(row.id, said("X"), "answered")
            await writer.scored(row.id, 1, [judged(key, score), judged("Other", 0.0)], "fail", 0.5)
