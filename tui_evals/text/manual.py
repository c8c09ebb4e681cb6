"""Pages and sections of the manual, and the search over them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from typing import NamedTuple

_WORD = re.compile(r"[\w^@$]+(?:\.\w+)*")
_COMMON = frozenset(
    "a an and are at be can did do does for from how i in is it me my of on or that the this to was what with".split()  # noqa: SIM905
)
_ENDINGS = re.compile(r"(?:ings?|ies|ied|es|ed|s|y|e)$")
_SHORT_ENDINGS = re.compile(r"[se]$")
_SENTENCE_END = re.compile(r"(?<=[.?:]) ")
_TASKS = "tasks"
"""The page whose sections come first among equals: each answers a question with a command."""
_LEFT_OUT = "changes"
"""The page that search leaves out: what older versions changed answers no question."""


class Section(NamedTuple):
    """A heading of a page and the text below it."""

    page: str
    heading: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands of the section, one a line."""
        return [line.strip() for line in self.text.splitlines() if line.startswith("    tui-evals ")]


def pages() -> dict[str, str]:
    """The pages by name, as Markdown."""
    folder = files("tui_evals") / "help"
    files_by_name = {entry.name.removesuffix(".md"): entry for entry in folder.iterdir() if entry.name.endswith(".md")}
    return {name: files_by_name[name].read_text(encoding="utf-8") for name in sorted(files_by_name)}


def title_of(page: str) -> str:
    """The title of a page: its first heading."""
    return page.partition("\n")[0].removeprefix("# ").strip()


def sections(manual: Mapping[str, str]) -> Iterator[Section]:
    """The sections of all pages; a page's own heading holds what comes before its first section."""
    for name, page in manual.items():
        first, *others = page.split("\n## ")
        yield Section(name, title_of(first), first.partition("\n")[2])
        for other in others:
            heading, _, text = other.partition("\n")
            yield Section(name, heading.strip(), text)


def search(question: str, manual: Mapping[str, str]) -> list[Section]:
    """The sections that answer a question, best first.

    A section has to hold every word of the question, unless none does. A word counts by how rare it is in the manual
    and by where it occurs: heading, name of the page, command or text.
    """
    wanted = _stems(question)
    counted = [(section, _weights(section)) for section in sections(manual) if section.page != _LEFT_OUT]
    having = Counter(stem for _, weights in counted for stem in set(wanted) & weights.keys())
    known = [stem for stem in wanted if having[stem]]
    if not known:
        return []

    def rank(weights: Mapping[str, float]) -> tuple[int, float]:
        found = [stem for stem in known if stem in weights]
        return len(found), sum(weights[stem] * math.log(1 + len(counted) / having[stem]) for stem in found)

    ranked = sorted(((rank(weights), section) for section, weights in counted), key=lambda one: one[0], reverse=True)
    most = ranked[0][0][0]
    return [section for (found, _), section in ranked if found == most]


def summary_of(section: Section, question: str) -> str:
    """The line of a section that answers a question best: a command, else a sentence."""
    wanted = set(_stems(question))
    lines = [line for line in section.text.splitlines() if line.strip()]
    prose = " ".join(" ".join(line for line in lines if not line.startswith(("    ", "|"))).split())
    candidates = section.commands or (_SENTENCE_END.split(prose) if prose else [line.strip() for line in lines])
    return max(candidates, key=lambda line: len(wanted & set(_stems(line))), default="")


def _weights(section: Section) -> dict[str, float]:
    """How much each word of a section counts; often is worth little more than once."""
    weights = {stem: 1 + math.log(times) for stem, times in Counter(_stems(section.text)).items()}
    for text, more in ((" ".join(section.commands), 2.0), (section.page, 3.0), (section.heading, 6.0)):
        for stem in set(_stems(text)):
            weights[stem] = weights.get(stem, 0.0) + more
    return {stem: 2 * weight for stem, weight in weights.items()} if section.page == _TASKS else weights


def _stems(text: str) -> list[str]:
    return list(_stemmed(word for word in _WORD.findall(text.casefold()) if word not in _COMMON))


def _stemmed(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        yield (_ENDINGS if len(word) > 4 else _SHORT_ENDINGS).sub("", word) if len(word) > 3 else word
