"""`tui-evals help`: pages of the manual, words and providers."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from tui_evals.cli.output import Stop, columns, say
from tui_evals.targets.providers import GUIDES, find_guide, guide_lines
from tui_evals.text.manual import pages, title_of
from tui_evals.text.names import did_you_mean

_WORDS_PAGE = "words"
"""The page that is made of words, each under a heading of its own."""
_PROVIDERS_PAGE = "targets"
"""The page after which a provider may be named."""


def word_meanings() -> dict[str, str]:
    """The meaning of each word of comparing."""
    meanings: dict[str, str] = {}
    for section in pages()[_WORDS_PAGE].split("\n## ")[1:]:
        word, _, meaning = section.partition("\n")
        meanings[word.strip()] = " ".join(meaning.split())
    return meanings


def show_page(topic: str | None) -> None:
    """Show a page of the manual, what one word of comparing means, or the list of pages."""
    manual = pages()
    if topic is None:
        say("Pages of the manual (`tui-evals help TOPIC`):")
        for name, text in manual.items():
            say(f"  {name:<16} {title_of(text)}")
        say(f"Every word of the page '{_WORDS_PAGE}' is a topic too, such as kappa or pass^k.")
        return
    first, _, provider = topic.partition(" ")
    if first == _PROVIDERS_PAGE and provider:
        _show_provider(provider)
        return
    if topic not in manual:
        _show_word(topic, manual)
        return
    for line in manual[topic].splitlines():
        heading = line.startswith("#")
        say(line.lstrip("# ") if heading else line, bold=heading)


def _show_provider(word: str) -> None:
    found = find_guide(word)
    if found is None:
        raise Stop(
            f"there is no provider '{word}' in the manual{did_you_mean(word, GUIDES)}; these are {', '.join(GUIDES)}. "
            "Others are written as provider/name and asked through litellm"
        )
    title, *lines = guide_lines(*found)
    say(title, bold=True)
    for line in lines:
        say(line)


def _show_word(topic: str, manual: Mapping[str, str]) -> None:
    meanings = word_meanings()
    word = next((word for word in meanings if word.casefold() == " ".join(topic.split()).casefold()), None)
    if word is None:
        raise Stop(f"there is no page '{topic}'{did_you_mean(topic, (*manual, *meanings))}; `tui-evals help` lists all")
    say(word, bold=True)
    for line in textwrap.wrap(meanings[word], min(columns() or 100, 100)):
        say(line)
