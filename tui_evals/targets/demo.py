"""The demo target: scripted answers and verdicts, offline, equal for equal seeds, and labeled as scripted.

Questions of the sample project and of `sample_datasets/` are answered from `demo_replies.json`, which
`python -m tests.targets.record_demo` renews, others from sentences of their prompt. Rules write tool calls, JSON,
verdicts and the steps of a generation; judges and steps are known by the texts that they fence. Some answers hedge,
are wrong or break their JSON, to give a run something to show. Its params:

* `latency_ms` (30) and `jitter_ms` (20): how long an answer takes, give or take;
* `error_rate` (0.02): the share of requests that fail once and succeed when asked again. While it is above 0, every
  tenth item gets no answer at all. 0 means no error ever;
* `seed` (1): another seed, other answers;
* `temperature` (1): at 0 every answer is right, and the higher it is the more of them are not.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

from tui_evals.light_records import dataclass
from tui_evals.targets.answers import content_text, last_question
from tui_evals.targets.base import ConfigurationError, Reply, Request, TargetConfig, TargetError, TargetKind, Usage
from tui_evals.text.measures import estimate_tokens
from tui_evals.text.names import did_you_mean
from tui_evals.text.safe import csv_line

Messages = Sequence[Mapping[str, Any]]
_LONGEST_KEY = 60
_MARK = re.compile(r"<data-([0-9a-f]{16}) ")


@cache
def recorded() -> Mapping[str, Any]:
    """The content of `demo_replies.json`: answers by prompt and question, steps by prompt, tests by rule."""
    kept: Mapping[str, Any] = json.loads((files(__package__) / "demo_replies.json").read_text(encoding="utf-8"))
    return kept


def key_of(text: str) -> str:
    """The key of a text in the recorded replies: itself, or its beginning and a checksum."""
    plain = " ".join(text.split())
    digest = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
    return plain if len(plain) <= _LONGEST_KEY else f"{plain[: _LONGEST_KEY - 10]}… {digest[:8]}"


def _all_text(messages: Messages) -> str:
    return "\n\n".join(content_text(message.get("content")) for message in messages)


def _fenced_texts(said: str) -> tuple[dict[str, str], str]:
    """The fenced texts by name, and the text around them."""
    mark = _MARK.search(said)
    # Only the mark that is explained first counts: a text may contain other marks.
    end = re.escape(f"</data-{mark[1]}>") if mark else "$."
    fence = re.compile(rf"<data-{mark[1] if mark else ''} ([^\n>]{{1,60}})>\n(.*?)\n{end}", re.DOTALL)
    texts: dict[str, str] = {}
    for found in fence.finditer(said):
        texts[found[1]] = texts.get(found[1], "") + found[2]
    return texts, fence.sub("", said)


# -- JSON of a schema

_DEEPEST = 12
_LABEL = re.compile(r"[A-Za-z0-9]{1,30}(?:[._-][A-Za-z0-9]{1,30}){1,6}")
_FORMATS = {"date": "2031-04-14", "date-time": "2031-04-14T09:00:00Z", "email": "demo@example.org"}


def schema_in(wanted: object) -> Mapping[str, Any] | None:
    """The schema of a response format, also where it is wrapped as providers have it."""
    if not isinstance(wanted, Mapping):
        return None
    inner = wanted.get("json_schema", wanted)
    return inner.get("schema", inner) if isinstance(inner, Mapping) else None


def instance(schema: object, text: str) -> Any:
    """The smallest value of a schema, unusual ones apart; names and numbers in it come from the text."""
    return _value(schema, schema, text, "value", 0)


def _value(schema: object, root: object, text: str, name: str, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    match schema:
        case {"$ref": str(reference)}:
            return _value(_referred(reference, root), root, text, name, depth + 1)
        case {"const": value} | {"default": value}:
            return value
        case {"enum": [first, *_]}:
            return next((value for value in schema["enum"] if str(value).lower() in text.lower()), first)
        case {"anyOf": [first, *_]} | {"oneOf": [first, *_]} | {"allOf": [first, *_]}:
            return _value(first, root, text, name, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = "null" if "null" in kind and "pattern" in schema else next(iter(kind), "null")
    match kind:
        case "object":
            given, required = schema.get("properties"), schema.get("required")
            known = given if isinstance(given, Mapping) else {}
            names = [str(each) for each in (required if isinstance(required, list) else known)]
            return {each: _value(known.get(each, {}), root, text, each, depth + 1) for each in names}
        case "array":
            return [_value(schema.get("items"), root, text, name, depth + 1)] * max(1, _count(schema, "minItems"))
        case "integer" | "number":
            found = re.search(r"\d{1,9}", text)
            number: float = int(found[0]) if found else 1
            lowest, highest = (schema.get(key) for key in ("minimum", "maximum"))
            number = max(number, lowest) if isinstance(lowest, int | float) else number
            return min(number, highest) if isinstance(highest, int | float) else number
        case "boolean" | "null":
            return True if kind == "boolean" else None
    label = _LABEL.search(text)
    said = _FORMATS.get(str(schema.get("format"))) or (label[0] if label else name)
    return said.ljust(_count(schema, "minLength"), ".")[: _count(schema, "maxLength", 100)]


def _count(schema: Mapping[str, Any], keyword: str, otherwise: int = 0) -> int:
    value = schema.get(keyword)
    return max(0, min(value, 100)) if isinstance(value, int) else otherwise


def _referred(reference: str, root: object) -> object:
    """The part of the schema that a local reference such as #/$defs/name points at."""
    found = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


# -- verdicts

_CHOICES = re.compile(r'"([^"\n]{1,60})"(?= (?:or|または) "|, bare, without|\. Write it bare| の中から)')
_GRADES = re.compile(r"^GRADE: ([A-Z]) - ", re.MULTILINE)
_OPTION = r"^([A-Za-z0-9]{1,12})(?: -|:) "
_OPTIONS = re.compile(rf"(?:{_OPTION}.*(?:\n|\Z)){{2,}}", re.MULTILINE)
_HEDGES = ("I am not sure", "I'm not sure", "I cannot", "I can't", "As an AI")


def verdict(request: Request, seed: float) -> str | None:
    """A verdict on the fenced texts in the form that the prompt requires; None if the request is not for a judge.

    Judging requests are recognized by their first message, which explains the fences.
    """
    if not request.messages or not _MARK.search(content_text(request.messages[0].get("content"))):
        return None
    texts, prompt = _fenced_texts(_all_text(request.messages))
    good = _is_good(texts, seed)
    reason = "The material says what was asked for." if good else "Something that was asked for is missing."
    schema = schema_in(request.response_format)
    if schema is not None:
        return json.dumps(_filled(schema, texts, good, reason))
    if _wants_ok_or_err(prompt):
        return f"{reason}\n{'OK' if good else 'ERR'}"
    if grades := _GRADES.findall(prompt):
        return f"{reason}\nGRADE: {_chosen(grades, good)}"
    quoted = list(dict.fromkeys(_CHOICES.findall(prompt)))
    choices = quoted or _options(prompt)
    if not quoted and not any(map(str.isdigit, choices)) and (rated := _RATED.search(prompt)):
        score = _score({"minimum": int(rated[1]), "maximum": int(rated[2])}, good)
        return json.dumps({"reason": reason, "score": score}) if "json" in prompt.lower() else str(score)
    if not choices:
        return json.dumps({"reason": reason, "score": 90 if good else 30})
    choice = _chosen(choices, good)
    if not quoted and "nothing else" in prompt:
        return choice
    return f"{choice}\n{reason}\n{choice}"  # the first line and the last: whichever a reader looks at


_RATED = re.compile(
    r"\b(?:rat(?:e|ing)|scores?|scale|number|integer|grade)\b[^.\n]{0,60}?\b(\d) ?(?:-|–|to|and|through) ?(\d|10)\b",
    re.IGNORECASE,
)
"""A request, without a schema, for a number on a short scale, such as `a number from 1 to 5`."""


def _wants_ok_or_err(prompt: str) -> bool:
    return len({*re.findall(r"\b(?:OK|ERR)\b", prompt)}) == 2


def _options(prompt: str) -> list[str]:
    """The choices that are in a list, each before a colon or a dash: the first two or more such lines in a row."""
    found = _OPTIONS.search(prompt)
    return re.findall(_OPTION, found[0], re.MULTILINE) if found else []


def _is_good(texts: Mapping[str, str], seed: float) -> bool:
    """Whether the verdict is favourable: never for an answer that hedges or is empty, else in four cases of five."""
    answers = [text for name, text in texts.items() if name in ("answer", "output", "completion", "candidate")]
    answer = (answers or list(texts.values()) or [""])[-1]
    if answer.lstrip().startswith(_HEDGES) or not re.search(r"\w", answer):
        return False
    digest = hashlib.sha256(json.dumps([seed, texts], sort_keys=True).encode()).digest()
    return digest[0] % 5 > 0


def _filled(schema: Mapping[str, Any], texts: Mapping[str, str], good: bool, reason: str) -> Any:
    properties = schema.get("properties", {})
    if "score" in properties:
        return {"reason": reason, "score": _score(properties["score"], good)}
    if "refused" in properties:
        return {"reason": "It gives what was asked for." if good else "It holds that back.", "refused": not good}
    if "winner" in properties:
        return {"reason": reason, "winner": _preferred(texts)}
    if "supported" in properties:
        return {"reason": reason, "supported": good, "hit": 1 if good else None}
    lists = {key: _checked(part, texts, good, reason) for key, part in properties.items()}
    return lists if lists and all(lists.values()) else instance(schema, reason)


def _checked(schema: Mapping[str, Any], texts: Mapping[str, str], good: bool, reason: str) -> list[dict[str, Any]]:
    """A list of verdicts: on each numbered piece of the material, or a single one on the first line of the answer."""
    fields = schema.get("items", {}).get("properties", {})
    about = next(iter(fields), "")
    if not any(part.get("type") == "boolean" for part in fields.values()):
        return []
    found: list[Any] = [texts.get("answer", "").split("\n")[0][:200]]
    if fields[about].get("type") == "integer":
        pattern = re.compile(rf"{about}_(\d+){'_assistant' if about == 'message' else ''}")
        found = [int(match[1]) for name in texts if (match := pattern.fullmatch(name))]
    said = {"boolean": good, "string": reason}
    return [
        {name: one if name == about else said.get(part.get("type")) for name, part in fields.items()} for one in found
    ]


def _preferred(texts: Mapping[str, str]) -> str:
    """Which of two answers it prefers, independent of their order."""
    first, second = (
        hashlib.sha256(texts.get(name, "").encode("utf-8", "surrogatepass")).digest() for name in ("first", "second")
    )
    return "first" if first > second else "second" if second > first else "tie"


def _score(schema: Mapping[str, Any], good: bool) -> Any:
    """A score that a schema allows: a label, or the highest number. A poor score is a quarter above the lowest."""
    allowed = schema.get("enum") or [schema.get("minimum", 1), schema.get("maximum", 5)]
    if all(isinstance(label, str) for label in allowed):
        return _chosen(allowed, good)
    low, high = min(allowed), max(allowed)
    poor = low + (high - low) / 4
    return high if good else int(poor) if poor == int(poor) else poor


def _chosen(choices: Sequence[str], good: bool) -> str:
    """The best choice is the highest number or else the first; a poor one is the lowest number or else the second."""
    numbers = sorted((choice for choice in choices if choice.isdigit()), key=int)
    ranked = numbers[::-1] if len(numbers) > 1 else list(choices)
    return ranked[0] if good else (ranked[-1] if numbers else ranked[1 % len(ranked)])


# -- steps of a generation

_MOST_RULES = 6
_FIXED = ("ruleid", "testid", "expectedoutput", "reasoning")
_HEADER = re.compile(r"^ruleid *,.*$|\bruleid *,[^\n`)]*", re.MULTILINE)
_PLACE = re.compile(r"(?:\b(?:the|a|an|this|these)\s+)?\{\{[-\s]*(\w+)\b[^{}]*\}\}", re.IGNORECASE)
_TAG = re.compile(r"\{%[^{}]*%\}|\{#[^{}]*#\}")
_BARE = re.compile(r"(?:\w+ ?:)? ?(?:\{\{[^{}]*\}\})?")
_SHOWN = {
    "tests": {"rules", "inputs"},
    "expansion": {"rule", "input"},
    "baseline": {"inputs"},
    "inverse": {"rules"},
    "inputspec": {"examples"},
    "proposals": {"item"},
}
_SPOKEN = {
    "intent": r"\bgoals?\b|\bpurpose\b|\bintents?\b|\bis for\b|\bone sentence\b",
    "inputspec": r"\binputs?\b",
    "rules": r"\brules?\b",
}
_KEEPS = "The output keeps to this: "
_LONG = "That is all I know so far, and I may have mixed up a detail or two along the way."


def written(messages: Messages, seed: float) -> str | None:
    """The reply of a step, derived from its texts only; None for an unknown step or a verdict."""
    if not messages or "stands material to work from" not in content_text(messages[0].get("content")):
        return None
    first = next((at for at, one in enumerate(messages) if one.get("role") == "assistant"), len(messages))
    texts, words = _fenced_texts(_all_text(messages[:first]))
    drawn = [seed, *(texts.get(name, "") for name in ("prompt", "scenario", "rule", "input"))]
    number = int.from_bytes(hashlib.sha256(json.dumps(drawn).encode()).digest()[:3], "big")
    step = _step_of(texts, words)
    body = texts.get("prompt", "")
    kept = recorded()["prompts"].get(key_of(body), {})
    match step:
        case "intent":
            said = [*_written_sentences(body), "Answer what is sent."][0]
            return str(kept.get(step) or f"Do what the prompt says: {said}")
        case "inputspec":
            names = [name.replace("_", " ") for name in dict.fromkeys(_PLACE.findall(body)) if name != "input_text"]
            described = [f"The {name} is a text that is not empty." for name in names]
            return "\n".join(kept.get(step) or described or ["The input is what a user asks or says."])
        case "rules":
            found = kept.get(step) or [
                f"{_KEEPS}{said}" for said in _written_sentences(body) or ["Answer what is sent."]
            ]
            return "\n".join([*dict.fromkeys(found)][: max(1, min(_count_in(words, _MOST_RULES), _MOST_RULES))])
        case "inverse":
            known = recorded()["rules"]
            lines = [line for line in texts["rules"].split("\n") if line.strip()]
            unlike = "The output does not keep to this: "
            return "\n".join(known.get(line, {}).get(step) or unlike + line.removeprefix(_KEEPS) for line in lines)
        case "tests":
            return _tests(texts, words, number, messages[first:])
        case "baseline":
            made = [_values(texts["inputs"], number + 500_000 + place) for place in range(_count_in(words, 3))]
            return "\n===\n".join(json.dumps(one) if len(one) > 1 else "".join(one.values()) for one in made)
        case "expansion":
            return _expanded(texts["input"])
        case "proposals":
            return _proposed(texts, words)
    return None


def _step_of(texts: Mapping[str, str], words: str) -> str | None:
    """The name of the step, from the texts it shows; if it shows only the prompt, from its most frequent words."""
    if _HEADER.search(words):
        return "tests"
    if _wants_ok_or_err(words):
        return None
    if found := next((step for step, shown in _SHOWN.items() if shown <= texts.keys()), None):
        return found
    counts = {step: len(re.findall(pattern, words, re.IGNORECASE)) for step, pattern in _SPOKEN.items()}
    return max(counts, key=lambda step: counts[step]) if "prompt" in texts else None


def _count_in(words: str, otherwise: int) -> int:
    """The first number among words."""
    found = re.search(r"\b(\d{1,4})\b", words)
    return int(found[1]) if found else otherwise


def _written_sentences(body: str) -> list[str]:
    """The sentences of a prompt, inputs named in words; without lines that only hold an input."""
    lines = (" ".join(_TAG.sub("", line).split()) for line in body.split("\n"))
    texts = (_PLACE.sub(_in_words, line) for line in lines if not _BARE.fullmatch(line))
    parts = (part.strip(" #*>-")[:300] for text in texts for part in re.split(r"(?<=[.!?。])\s+", text))
    return [part for part in parts if re.search(r"\w", part)]


def _in_words(place: re.Match[str]) -> str:
    return f"the {place[1].replace('_', ' ')}"


def _tests(texts: Mapping[str, str], words: str, number: int, later: Messages) -> str:
    """A CSV of tests, further ones in a conversation that continues."""
    header = _HEADER.search(words)
    columns = [cell.strip() for cell in next(csv.reader([header[0]], skipinitialspace=True))] if header else []
    columns = columns or [*_FIXED, *_values(texts["inputs"], 0)]
    counts = [_count_in(words, 3)]
    counts += [_count_in(content_text(one.get("content")), counts[0]) for one in later if one.get("role") == "user"]
    out = io.StringIO(newline="")
    sheet = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    for rule, text in re.findall(r"^ *(\d{1,6})[.)] +(\S.*)$", texts.get("rules", ""), re.MULTILINE):
        known = [] if texts.get("scenario") else recorded()["rules"].get(text, {}).get("tests", [])
        for place in range(sum(counts[:-1]), sum(counts)):
            values = _values(texts.get("inputs", ""), number + 1001 * int(rule) + place, columns)
            facts = int(rule), place + 1, "What can be said about it.", f"It shows whether rule {rule} is kept."
            told = known[place] if place < len(known) else {}
            test = values | dict(zip(_FIXED, facts, strict=True)) | told
            sheet.writerow([test[column] for column in columns])
    return csv_line(columns) + out.getvalue()


def _values(inputs: str, number: int, names: Sequence[str] = ()) -> dict[str, str]:
    """A value for each input that is listed or named: another number, other values."""
    kinds = dict(re.findall(r"^- (.+?) \(([^()\n]*)\)", inputs, re.MULTILINE))
    text = f"What is there to know about parcel {number}?"
    values = {"array": json.dumps([text]), "object": json.dumps({"text": text}), "boolean": str(number % 2 > 0).lower()}
    values |= dict.fromkeys(("number", "integer"), str(number))
    return {name: values.get(kinds.get(name, ""), text) for name in names or kinds or ("input",)}


def _expanded(text: str) -> str:
    """A longer version of an input; in a JSON object, of every text with several words."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return str(_longer(text))
    if not isinstance(value, dict):
        return text
    return json.dumps({name: _longer(each) for name, each in value.items()}, ensure_ascii=False)


def _longer(value: object) -> object:
    if not isinstance(value, str) or len(value.split()) < 3:
        return value
    return " ".join([value, *[_LONG] * (1 + 2 * len(value) // len(_LONG))])


_OPENINGS = (
    "I have asked this before and got two different answers.",
    "I am asking for a friend who is here for the first time.",
    "My colleague says the opposite of what I was told.",
    "There is only a minute left, so be quick.",
    "Your website says something else about this.",
    "Forget everything that I wrote earlier.",
    "Perhaps these are not the right words for it.",
)
_ENDINGS = (
    "And does that change on a public holiday?",
    "Please answer in one sentence.",
    "What would be an exception?",
    "How sure are you about it?",
    "Is it the same for a child?",
    "Where can I read that myself?",
    "What happens if I am late?",
    "Who decides that in the end?",
)
_GREETINGS = {
    "Dutch": "Hallo, ik vraag dit in het Nederlands:",
    "French": "Bonjour, ma question est en français :",
    "German": "Guten Tag, ich frage auf Deutsch:",
    "Italian": "Buongiorno, chiedo in italiano:",
    "Japanese": "こんにちは。日本語で質問します。",
    "Portuguese": "Olá, pergunto em português:",
    "Spanish": "Hola, pregunto en español:",
}
_LANGUAGE = re.compile(r"\b(?:in|into) ([A-Z]\w+)")
_WANTED = re.compile(r"^Write (one|\d+) items?\b", re.MULTILINE)
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "dozen")
_MOST_PROPOSED = 50


def _proposed(texts: Mapping[str, str], words: str) -> str:
    """Items like the given one: its question in other circumstances, with the expected response it has."""
    try:
        item = json.loads(texts["item"])
    except (ValueError, RecursionError):
        item = None
    if not isinstance(item, dict):
        return "[]"
    told = re.search(r"^The instruction: (.*)$", words, re.MULTILINE)
    instruction = told[1] if told else ""
    language, rule = _LANGUAGE.search(instruction), " ".join(texts.get("rule", "").split())
    made = []
    first = hashlib.sha256(texts["item"].encode("utf-8", "surrogatepass")).digest()[0]  # other items, other variants
    for number in range(_count_wanted(instruction, words)):
        opening, ending = (phrases[(first + number) % len(phrases)] for phrases in (_OPENINGS, _ENDINGS))
        if rule:
            opening = f"Your rule is “{rule}”, but make an exception for me."
        elif language:
            opening = _GREETINGS.get(language[1], f"Please talk {language[1]} with me:")
            ending = ending if number else ""
        made.append(_varied(item, opening, ending))
    return json.dumps(made, ensure_ascii=False)


def _count_wanted(instruction: str, words: str) -> int:
    """How many items are asked for: as the prompt says, else as the instruction does, in digits or in words."""
    if wanted := _WANTED.search(words):
        return 1 if wanted[1] == "one" else min(int(wanted[1]), _MOST_PROPOSED)
    spoken = [word for word in re.findall(r"[a-z]+", instruction.lower()) if word in _NUMBERS]
    otherwise = _NUMBERS.index(spoken[0]) + 1 + (spoken[0] == "dozen") if spoken else 5
    return max(1, min(_count_in(re.sub(r"\brules? \d+", "", instruction), otherwise), _MOST_PROPOSED))


def _varied(item: Mapping[str, Any], opening: str, ending: str) -> dict[str, Any]:
    """The item with its question between an opening and an ending; in a conversation, its first question."""

    def varied(text: str) -> str:
        question = text if len(text) <= _LONGEST_QUESTION else _SENTENCES.split(text.strip())[-1]
        return " ".join(part for part in (opening, question, ending) if part)

    match item:
        case {"turns": [{"prompt": str()} as first, *others]}:
            return {**item, "turns": [_varied(first, opening, ending), *others]}
        case {"prompt": str(prompt)}:
            return {**item, "prompt": varied(prompt)}
        case {"variables": dict(values)} if values:
            name = next(iter(values))
            return {**item, "variables": {**values, name: varied(str(values[name]))}}
    return dict(item)


_LONGEST_QUESTION = 200
_EVERY = 10
_SUM = re.compile(r"(\d{1,9})(?: ?([+*×]) ?| (-) )(\d{1,9})")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[^\W_]{3,40}")
_HEDGE = "I am not sure, and you should check this with someone who knows: "


@dataclass(frozen=True, slots=True)
class Manner:
    """How the demo target behaves."""

    latency_ms: float = 30.0
    jitter_ms: float = 20.0
    error_rate: float = 0.02
    seed: float = 1
    temperature: float = 1.0


class Demo:
    """Answers by a script."""

    def __init__(self, config: TargetConfig) -> None:
        self._manner = _manner(config)
        self._failed: set[str] = set()

    async def ask(self, request: Request) -> Reply:
        """The scripted answer, after a while; an unlucky request fails the first time it is made."""
        manner = self._manner
        mark = _mark(request, manner.seed)
        random = Random(mark)
        await asyncio.sleep(max(0.0, manner.latency_ms + manner.jitter_ms * random.uniform(-1, 1)) / 1000)
        step = written(request.messages, manner.seed)
        judged = verdict(request, manner.seed) if step is None else None
        self._fail(request, mark, random.random(), judging=judged is not None)
        text = judged if step is None else step
        calls: tuple[dict[str, str], ...] = ()
        if text is None:
            calls = _tool_calls(request, random)
            text = "" if calls else _answer(request, random.random() * manner.temperature)
        asked = sum(estimate_tokens(content_text(message.get("content"))) for message in request.messages)
        said = text + "".join(call["name"] + call["arguments"] for call in calls)
        return Reply(
            text=text,
            tool_calls=calls,
            usage=Usage(asked, estimate_tokens(said)),
            cost=0.0,
            model="demo",
            finish_reason="tool_calls" if calls else "stop",
            scripted=True,
        )

    def _fail(self, request: Request, mark: str, roll: float, *, judging: bool) -> None:
        rate = self._manner.error_rate
        if rate and not judging and request.position % _EVERY == _EVERY - 1:
            message = "the demo target leaves every tenth item unanswered on purpose"
            raise TargetError("agentRequestFailed", message)
        if roll >= rate or mark in self._failed:
            return
        self._failed.add(mark)
        if roll < rate / 2:
            message = "the demo target says it is asked too often; ask again"
            raise TargetError("agentRateLimited", message, retryable=True, retry_after=0.05, status=429)
        message = "the demo target pretends that its server failed; ask again"
        raise TargetError("agentRequestFailed", message, retryable=True, status=503)

    async def close(self) -> None:
        """Nothing to close."""


def _manner(config: TargetConfig) -> Manner:
    known = [field.name for field in fields(Manner)]
    for name, value in config.params.items():
        if name not in known:
            raise ConfigurationError(
                f"the target {config.name}: demo has no parameter {name}{did_you_mean(name, known)}; "
                f"it has {', '.join(known)}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise ConfigurationError(f"the target {config.name}: {name} must be a number from 0")
    return Manner(**config.params)


def _mark(request: Request, seed: float) -> str:
    """A hash of the request, which all random choices depend on."""
    asked = [request.messages, request.tools, request.response_format, request.item, request.turn, request.repeat]
    return hashlib.sha256(json.dumps([seed, *asked], sort_keys=True, default=str).encode()).hexdigest()


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _tool_calls(request: Request, random: Random) -> tuple[dict[str, str], ...]:
    """A call of the tool that has most words in common with the question; none after a tool has answered."""
    if not request.messages or request.messages[-1].get("role") == "tool" or random.random() < 0.1:
        return ()
    question = last_question(request.messages)
    asked = _words(question)
    functions = [tool.get("function", tool) for tool in request.tools]
    named = [function for function in functions if isinstance(function, Mapping) and "name" in function]
    common = [len(asked & _words(f"{each['name']} {each.get('description', '')}".replace("_", " "))) for each in named]
    if not any(common):
        return ()
    tool = named[common.index(max(common))]
    arguments = json.dumps(instance(tool.get("parameters", {}), question), ensure_ascii=False)
    return ({"id": f"call_{random.getrandbits(32):08x}", "name": str(tool["name"]), "arguments": arguments},)


def _answer(request: Request, mood: float) -> str:
    """An answer plain in most moods, hedging in some, wrong in others; JSON is broken off in a few."""
    known = right_and_wrong(request.messages)
    said = known["right"] if mood < 0.75 else _HEDGE + known["right"] if mood < 0.85 else known["wrong"]
    wanted = request.response_format
    if wanted in (None, "text"):
        return said
    schema = schema_in(wanted)
    filled = {"answer": said} if schema is None else instance(schema, last_question(request.messages))
    text = json.dumps(filled, ensure_ascii=False)
    return text if mood < 0.9 else text[:-1]


def right_and_wrong(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """The good answer to a question and a bad one: as recorded, else a small sum, else sentences of the prompt."""
    prompt, question = keys_of(messages)
    known: Mapping[str, str] | None = recorded()["answers"].get(prompt, {}).get(question)
    return known or _sum(last_question(messages)) or _sentences(messages)


def keys_of(messages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Under which prompt and which question an answer is recorded."""
    system = "\n".join(content_text(each.get("content")) for each in messages if each.get("role") == "system")
    return key_of(system), key_of(last_question(messages))


def _sum(question: str) -> Mapping[str, str] | None:
    found = _SUM.search(question)
    if found is None:
        return None
    left, right, sign = int(found[1]), int(found[4]), found[2] or found[3]
    result = left + right if sign == "+" else left - right if sign == "-" else left * right
    form = "{}" if "only" in question else "That makes {}."
    return {"right": form.format(result), "wrong": form.format(result + 1)}


def _sentences(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """The sentence of the prompt that shares most words with the question, and the one that shares least."""
    question = last_question(messages)
    said = [content_text(each.get("content")).replace(question, "") for each in messages]
    material = [sentence.strip() for text in said for sentence in _SENTENCES.split(text) if _WORD.search(sentence)]
    asked = _words(question)
    ranked = sorted(material, key=lambda sentence: -len(asked & _words(sentence)))
    if not ranked or not asked & _words(ranked[0]):
        subject = " ".join(_WORD.findall(question)[:12]) or "this"
        right = f"Here is what can be said about {subject}: it depends on the rules that apply."
        return {"right": right, "wrong": "Yes."}
    return {"right": ranked[0], "wrong": ranked[-1] if len(ranked) > 1 else "Yes."}


KIND = TargetKind(form="demo", open=lambda config, context: Demo(config))
