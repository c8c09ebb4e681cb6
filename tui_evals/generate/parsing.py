"""Parses the replies of models: rules, texts between lines of equals signs, refusals."""

from __future__ import annotations

import re

_FENCE = re.compile(r"\s*(`{3,}|~{3,})[^\n`]*\n(.*?)\n?[ \t]*\1\s*", re.DOTALL)
_BULLET = re.compile(r"(?:[0-9]+\.|[_*-])\s+")
_LIST = re.compile(r'\["(.*)"\]')
_START = r"[\s\"'*_>\u201c]*(?:unfortunately,? )?"
_DECLINED = re.compile(_START + r"i can(?:no|['\u2019])t (?:assist|help) with (?:that|this)", re.IGNORECASE)
_SORRY = re.compile(_START + r"(?:i['\u2019]m|i am)? ?(?:very |so |really )?sorry\b", re.IGNORECASE)
_CANNOT = re.compile(r"\bcan(?:no|['\u2019])t\b|\bunable\b|\bnot able\b|\bwon['\u2019]t\b|\bwill not\b", re.IGNORECASE)
_HEADING = re.compile(r"^[#*\s]*test case\s*[0-9]*\s*[:.]?[*\s]*$|^[#*\s]*test case\s*[0-9]+\s*:[*]*", re.IGNORECASE)


def strip_fence(text: str) -> str:
    """The text without a code fence around all of it."""
    match = _FENCE.fullmatch(text)
    return match[2] if match else text


def is_refusal(text: str) -> bool:
    """Whether a model declined: in few lines, the first of which says so, as an input may begin with an apology."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not 0 < len(lines) <= 3:
        return False
    sorry = _SORRY.match(lines[0])
    return bool(_DECLINED.match(lines[0]) or (sorry and (len(lines[0]) < 30 or _CANNOT.search(lines[0]))))


def tidy_rules(text: str) -> str:
    """One rule a line, without the fence, numbers and bullets that models put around them."""
    rules = []
    for line in strip_fence(text).replace("\r\n", "\n").split("\n"):
        rule = _BULLET.sub("", line, count=1) if _BULLET.match(line) else line
        rule = rule.rstrip()
        if unwrapped := _LIST.fullmatch(rule.strip()):
            rule = unwrapped[1]
        if rule.strip() and rule.strip() != "Rules:":
            rules.append(rule)
    return "\n".join(rules)


def split_baseline_inputs(text: str) -> list[str]:
    """The texts between lines of `===`, without headings such as "Test Case 2"."""
    inputs = []
    for part in re.split(r"^\s*={3,}\s*$", strip_fence(text), flags=re.MULTILINE):
        lines = part.strip().split("\n")
        lines[0] = _HEADING.sub("", lines[0])
        if plain := "\n".join(lines).strip():
            inputs.append(plain)
    return inputs


def model_slug(model: str) -> str:
    """A model as a file name: without its provider, in plain small letters."""
    return re.sub(r"[^a-z0-9.-]", "_", model.partition(":")[2].lower() if ":" in model else model.lower())
