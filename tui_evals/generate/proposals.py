"""Proposed items: a model writes them from items of a dataset, or failed answers become them; the user decides."""

from __future__ import annotations

import asyncio
import json
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tui_evals.datasets.paths import CURRENT_VERSION, Data, get_at, set_at
from tui_evals.datasets.paths import Path as DataPath
from tui_evals.evaluators.base import JudgingStopped
from tui_evals.generate.asking import CannotGenerate, Halted, Messages, ModelAsker, Prompts, is_refusal, json_objects
from tui_evals.generate.request import Roles, session_of_run
from tui_evals.light_records import dataclass
from tui_evals.present.battles import price_text
from tui_evals.runs.approving import missing_of_targets
from tui_evals.runs.asking import PricedTarget, StoreLedger, close_all
from tui_evals.runs.judges import price_for
from tui_evals.runs.limits import Budget
from tui_evals.runs.project import Project
from tui_evals.runs.status import GENERATION
from tui_evals.store.reader import Reader
from tui_evals.store.records import AnswerRow, NewRun, RunRow
from tui_evals.store.writer import Writer
from tui_evals.targets.base import TargetConfig, Usage
from tui_evals.targets.permissions import Permission, destinations
from tui_evals.text.measures import estimate_tokens
from tui_evals.text.safe import safe_line

STEP = "proposals"
FACTS = "proposal"
"""The name under an item's extensions that says where the item comes from."""
MOST = 50
"""Items that are read from one reply."""
_ANY_COUNT = 10
"""Items that a reply is priced for where the instruction leaves their number open."""
_CARRIED = (
    *("category", "tags", "context", "tools", "tool_results", "allowed_tools", "allowed_tools_mode", "attachments"),
    *("messages", "response_format", "max_steps", "weight", "threshold", "repeats", "variables"),
)
"""The fields that a new item copies from its seed. Not its evaluators, whose values may fit only the seed."""
_NEAR = 90
"""The similarity in percent from which two questions count as alike."""
_COMPARED = 4_000
"""Characters of a question that are compared."""
_AGAIN = "That is not a JSON list of items with the fields of the given item. Reply with the JSON list only."


@dataclass(frozen=True, slots=True)
class Seed:
    """The item that others are written from: its position in the dataset, its name, and its content."""

    place: int
    name: str
    item: Data


@dataclass(frozen=True, slots=True)
class Proposal:
    """An item that waits for a decision; its extensions say where it comes from."""

    item: Data
    seed: Seed

    @property
    def facts(self) -> Mapping[str, Any]:
        """Its origin."""
        return proposal_facts(self.item)

    def stored(self) -> Data:
        """The proposal as plain data."""
        return {"item": self.item, "place": self.seed.place, "name": self.seed.name, "seed": self.seed.item}


def stored_proposals(stored: object) -> list[Proposal]:
    """The proposals that `Proposal.stored` wrote."""
    rows = [one for one in stored if isinstance(one, dict)] if isinstance(stored, list) else []
    return [
        Proposal(row["item"], Seed(row["place"], row["name"], row["seed"]))
        for row in rows
        if isinstance(row.get("item"), dict)
        and isinstance(row.get("seed"), dict)
        and isinstance(row.get("place"), int)
        and isinstance(row.get("name"), str)
    ]


def proposal_facts(item: object) -> Mapping[str, Any]:
    """The origin of a proposed item; empty for any other."""
    extensions = item.get("extensions") if isinstance(item, dict) else None
    facts = extensions.get(FACTS) if isinstance(extensions, dict) else None
    return facts if isinstance(facts, dict) else {}


# -- the texts of an item


def item_texts(item: Data) -> list[tuple[DataPath, str]]:
    """The texts of an item in reading order, each with its path."""
    turns = item.get("turns")
    found: list[tuple[DataPath, str]] = []
    for where, unit in [((), item), *((("turns", n), turn) for n, turn in enumerate(turns or ()))]:
        variables = unit.get("variables") if isinstance(unit, dict) else None
        paths: list[DataPath] = [
            ("prompt",),
            *(("variables", name) for name in variables or ()),
            ("expected_response",),
        ]
        for path in paths if isinstance(unit, dict) else ():
            if isinstance(text := get_at(unit, path), str):
                found.append(((*where, *path), text))
    return found


def text_label(path: DataPath) -> str:
    """How a text of an item is called."""
    if path[0] == "turns":
        return f"turn {int(path[1]) + 1} {'.'.join(map(str, path[2:]))}"
    return ".".join(map(str, path))


# -- duplicates


def question_of(item: Data) -> str:
    """The question of an item, normalized: case, spaces, forms of letters."""
    asked = "\n".join(text for path, text in item_texts(item) if path[-1] != "expected_response")
    return " ".join(unicodedata.normalize("NFKC", asked).casefold().split())


def find_duplicates(proposals: Sequence[Proposal], items: Iterable[tuple[str, object]]) -> list[str]:
    """The name of the item or earlier proposal that each proposal repeats; empty if it repeats none."""
    from rapidfuzz import fuzz, process  # imported when needed: most commands propose nothing

    names: list[str] = []
    questions: list[str] = []
    exact: dict[str, str] = {}

    def learn(name: str, question: str) -> None:
        if question:
            names.append(name)
            questions.append(question[:_COMPARED])
            exact.setdefault(question, name)

    for name, item in items:
        if isinstance(item, dict):
            learn(name, question_of(item))
    found = []
    for number, proposal in enumerate(proposals, 1):
        question = question_of(proposal.item)
        if question in exact:
            found.append(f"asks the same as {exact[question]}")
        else:
            near = process.extractOne(question[:_COMPARED], questions, scorer=fuzz.ratio, score_cutoff=_NEAR)
            found.append(f"{near[1]:.0f} % like {names[near[2]]}" if near else "")
        learn(f"proposal {number}", question)
    return found


# -- the request


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalRequest:
    """Items to be written by a model from each seed, as an instruction says."""

    instruction: str
    seeds: Sequence[Seed]
    target: TargetConfig
    count: int | None = None
    """How many from each seed; None where the instruction says it."""
    rule: str = ""
    """The rule the items are about."""
    about: str = ""
    """The prompt under test."""

    def messages(self, seed: Seed, prompts: Prompts) -> Messages:
        """The question about one seed."""
        shown: Data = {}
        for path, text in item_texts(seed.item):
            place, *rest = path
            if place == "turns":
                turns = shown.setdefault("turns", [])
                while len(turns) <= int(rest[0]):
                    turns.append({})
                turns[int(rest[0])][rest[1]] = text
            elif place == "variables":
                shown.setdefault("variables", {})[rest[0]] = text
            else:
                shown[str(place)] = text
        texts = {"about": self.about, "rule": self.rule, "item": json.dumps(shown, ensure_ascii=False, indent=1)}
        items = "one item" if self.count == 1 else f"{self.count} items" if self.count else ""
        count = items or f"as many items as the instruction says, 5 where it does not say, {MOST} at most"
        return prompts.messages(STEP, texts, {"instruction": self.instruction, "count": count})

    def missing(self, project: Project) -> list[Permission]:
        """The missing permissions for asking."""
        return missing_of_targets(project, [self.target])

    def price(self, project: Project) -> str:
        """The price in words, and where questions and keys go. Asks nothing."""
        prompts, price = Prompts(project.root), price_for(self.target)
        cost = None if price is None else 0.0
        for seed in self.seeds:
            messages = self.messages(seed, prompts)
            read = sum(estimate_tokens(str(message["content"])) for message in messages)
            one = sum(estimate_tokens(text) + 12 for _, text in item_texts(seed.item))
            if price is not None and cost is not None:
                cost += price.cost(Usage(read, (self.count or _ANY_COUNT) * one)) or 0.0
        return price_text(len(self.seeds), cost, destinations([self.target], project.environment))


# -- the reply


def read_proposals(reply: str, request: ProposalRequest, seed: Seed, when: str) -> list[Proposal]:
    """The items in a reply; those that lack a text of the seed are left out."""
    objects = json_objects(reply) or json_objects(f"[{reply[reply.find('{') : reply.rfind('}') + 1]}]")
    facts = {"from": seed.name, "by": request.target.model, "instruction": request.instruction, "when": when}
    if request.rule:
        facts["rule"] = request.rule
    made = (_item_of(entry, seed.item) for entry in objects[: request.count or MOST])
    return [Proposal({**item, "extensions": {FACTS: facts}}, seed) for item in made if item is not None]


def _item_of(entry: Data, seed: Data) -> Data | None:
    """An item like the seed with the texts of an entry; None where it asks nothing of its own."""
    item = {name: value for name, value in seed.items() if name in _CARRIED}
    if isinstance(seed.get("turns"), list):
        turns = _turns_of(entry.get("turns"))
        return {**item, "turns": turns} if turns else None
    for path, _ in item_texts(seed):
        text = _clean(get_at(entry, path))
        if text:
            item = set_at(item, path, text)
        elif path == ("prompt",):
            return None
    return item if question_of(item) != question_of(seed) or isinstance(seed.get("prompt"), str) else None


def _turns_of(entries: object) -> list[Data]:
    """The turns of a reply up to the first that asks nothing."""
    turns: list[Data] = []
    for entry in entries if isinstance(entries, list) else ():
        prompt = _clean(entry.get("prompt")) if isinstance(entry, dict) else ""
        if not prompt:
            break
        expected = _clean(entry.get("expected_response"))
        turns.append({"prompt": prompt, **({"expected_response": expected} if expected else {})})
    return turns


def _clean(text: object) -> str:
    """A text of a model as a dataset can hold it; hidden characters stay, because attacks are made of them."""
    plain = text.replace("\0", "") if isinstance(text, str) else ""
    return plain.encode("utf-8", "replace").decode() if plain.strip() else ""


# -- asking


@dataclass(frozen=True, slots=True)
class Asked:
    """The result of asking: its cost, and why some seeds got no proposals."""

    spent: float
    problems: tuple[str, ...] = ()


async def ask_for_proposals(
    request: ProposalRequest, project: Project, name: str, found: Callable[[Seed, list[Proposal], float], None]
) -> Asked:
    """Ask once for each seed and pass on its proposals, even if there are none, with the cost so far.

    Cancelling ends it; earlier results stay. `name` is the name of the run that records the cost.
    """

    roles, budget = Roles(rules=request.target), Budget(project.settings.run.max_cost)
    with await asyncio.to_thread(project.writer) as writer, Reader(project.store) as reader:
        fitted, _ = roles.fit_calls(None)
        opening = asyncio.to_thread(roles.open_models, budget, project.environment, project.root, fitted)
        model = (await opening).rules
        try:
            run = await asyncio.to_thread(_new_run, request, name, writer)
            async with session_of_run(run, roles, writer, project.store) as session:
                budget.of_run(run.id, reader, writer)
                asker = ModelAsker(StoreLedger(reader, writer, run.id), run.key, use_cache=True)

                async def ask(seed: Seed) -> str:
                    proposals, problem = await _ask_one(request, seed, model, asker, Prompts(project.root))
                    found(seed, proposals, budget.spent)
                    return problem

                problems = [one for one in await asyncio.gather(*map(ask, request.seeds)) if one]
                session.finished = not problems
                session.message = problems[0] if problems else ""
                session.code = "failed" if problems else "asked"
        finally:
            await close_all([model])
    return Asked(budget.spent, tuple(dict.fromkeys(problems)))


async def _ask_one(
    request: ProposalRequest,
    seed: Seed,
    model: PricedTarget,
    asker: ModelAsker,
    prompts: Prompts,
) -> tuple[list[Proposal], str]:
    """Ask about one seed, and once more if the reply is unreadable; returns proposals, or why there are none."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    config = model.config

    def worth(text: str) -> bool:
        return bool(read_proposals(text, request, seed, when))

    try:
        messages = request.messages(seed, prompts)
        reply = (await asker.ask(model, messages, STEP, worth=worth)).text or ""
        if not worth(reply) and reply.strip() and not is_refusal(reply):
            again = ({"role": "assistant", "content": reply}, {"role": "user", "content": _AGAIN})
            reply = (await asker.ask(model, (*messages, *again), STEP, worth=worth)).text or ""
    except Halted:
        return [], "stopped before it was asked"
    except (CannotGenerate, JudgingStopped) as problem:
        return [], str(problem)
    proposals = read_proposals(reply, request, seed, when)
    if proposals:
        return proposals, ""
    said = safe_line(reply.strip(), 120)
    what = "declined" if is_refusal(reply) else "wrote no items that can be read"
    return [], f"{config.name} {what} for {seed.name}. It said: {said or 'nothing'}"


def _new_run(request: ProposalRequest, name: str, writer: Writer) -> RunRow:
    """A run without answers that records the cost of the questions."""
    items = [seed.item for seed in request.seeds]
    document = {"schemaVersion": CURRENT_VERSION, "metadata": {"name": name}, "items": items}
    new = NewRun(
        name=name,
        snapshot=writer.snapshot(document, name),
        source=name,
        targets=(request.target.name,),
        tags=("generate",),
        config={GENERATION: {"folder": name}},
    )
    return writer.plan(new, ())


# -- failures


FAILED = ("fail", "partial")


def failed_proposals(run: RunRow, reader: Reader) -> list[Proposal]:
    """The items of a run whose answers failed, as they were asked; a conversation ends with its first failed turn."""
    first: dict[int, AnswerRow] = {}
    for row in reader.all_rows(run.id):
        if row.status in FAILED and (row.item not in first or row.turn < first[row.item].turn):
            first[row.item] = row
    items = reader.snapshot(run.snapshot).get("items", [])
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return [
        _failed(items[place], row, {"from": row.name, "run": run.key, "answer": row.id, "when": when})
        for place, row in sorted(first.items())
        if place < len(items) and isinstance(items[place], dict)
    ]


_RESULTS = ("response", "scores", "status", "error", "diagnostics", "citations", "summary", "conversation_id", "testId")


def _failed(item: Data, row: AnswerRow, facts: Data) -> Proposal:
    made = {name: value for name, value in item.items() if name not in _RESULTS}
    if isinstance(turns := made.get("turns"), list):
        made["turns"] = turns[: row.turn + 1]
    return Proposal({**made, "extensions": {FACTS: facts}}, Seed(row.item, row.name, item))


# -- keeping


def place_for(items: Sequence[Any], proposal: Proposal) -> int:
    """The position for a proposal: after its seed and earlier proposals of it, or the end if that was deleted."""
    seed = proposal.seed
    places: Iterator[int] = (place for place in (seed.place, *range(len(items))) if place < len(items))
    place = next((place for place in places if _is_seed(items[place], seed)), len(items) - 1) + 1
    while place < len(items) and proposal_facts(items[place]).get("from") == seed.name:
        place += 1
    return place


def _is_seed(item: object, seed: Seed) -> bool:
    name = seed.item.get("testId")
    return isinstance(item, dict) and (item.get("testId") == name if name else item == seed.item)


def named_item(proposal: Proposal, taken: Collection[str]) -> Data:
    """The item to keep, with a testId after that of its seed where the seed has one."""
    name = proposal.seed.item.get("testId")
    if not isinstance(name, str) or not name:
        return proposal.item
    number = 1
    while f"{name}-{number}" in taken:
        number += 1
    return {"testId": f"{name}-{number}", **proposal.item}


def prompt_text(file: Path | None) -> str:
    """The text of the prompt under test; empty without one."""
    from tui_evals.datasets.prompts import load_prompt

    return "" if file is None else "\n\n".join(section.text for section in load_prompt(file).sections)
