"""`tui-evals help`: pages of the manual, words, providers, and a search over the sections."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

from tui_evals.cli.output import Stop, cell, columns, say
from tui_evals.targets.providers import GUIDES, find_guide, guide_lines
from tui_evals.text.manual import pages, search, sections, summary_of, title_of
from tui_evals.text.measures import counted
from tui_evals.text.names import did_you_mean

_WORDS_PAGE = "words"
"""The page that is made of words, each under a heading of its own."""
_PROVIDERS_PAGE = "targets"
"""The page after which a provider may be named."""
_WIDTH = 100
"""The widest line of text."""
_GAP, _LEAST = 2, 6
"""Cells between two columns of a table, and the least that a column has."""
_LEAST_SAID, _INDENT = 24, 8
"""The least cells for the text after a command, and its indentation if there are fewer."""
_SHOWN = 8
"""How many sections a search shows."""


def word_meanings() -> dict[str, str]:
    """The meaning of each word of comparing."""
    meanings: dict[str, str] = {}
    for section in pages()[_WORDS_PAGE].split("\n## ")[1:]:
        word, _, meaning = section.partition("\n")
        meanings[word.strip()] = " ".join(meaning.split())
    return meanings


def show_page(topic: str | None) -> None:
    """Show the list of pages, a page, a section, the meaning of a word, or the sections that answer a question."""
    manual = pages()
    if topic is None:
        say("Pages of the manual (`tui-evals help PAGE`):")
        for name, text in manual.items():
            say(f"  {name:<16} {title_of(text)}")
        say("Search all pages: `tui-evals help gate pull request`. Words such as kappa or pass^k are explained too.")
        return
    first, _, provider = topic.partition(" ")
    if first == _PROVIDERS_PAGE and provider and (found := find_guide(provider)):
        title, *lines = guide_lines(*found)
        _say_lines([(title, True), *((line, False) for line in lines)])
    elif first == _PROVIDERS_PAGE and " " not in provider and (hint := provider and did_you_mean(provider, GUIDES)):
        raise Stop(f"there is no provider '{provider}' in the manual{hint}; these are {', '.join(GUIDES)}")
    elif topic in manual:
        _say_lines(laid_out(manual[topic], columns()))
    elif meaning := _meaning(topic):
        _say_lines(laid_out(meaning, columns() or _WIDTH))
    else:
        _show_sections(topic, manual)


def _say_lines(lines: Iterable[tuple[str, bool]]) -> None:
    """Print lines, each with whether it is bold."""
    for text, bold in lines:
        say(text, bold=bold)


def _meaning(topic: str) -> str | None:
    wanted = " ".join(topic.split()).casefold()
    return next((f"# {word}\n{text}" for word, text in word_meanings().items() if word.casefold() == wanted), None)


def _show_sections(question: str, manual: Mapping[str, str]) -> None:
    """Show the section of this heading, else two lines for each section that answers the question."""
    found = search(question, manual)
    named = next((one for one in sections(manual) if one.heading.casefold() == question.casefold()), None)
    if named is not None:
        _say_lines(laid_out(f"# {named.heading}\n{named.text}".rstrip(), columns()))
        return
    if not found:
        first, _, provider = question.partition(" ")
        if first == _PROVIDERS_PAGE and provider:
            raise Stop(
                f"The manual has no provider '{provider}'{did_you_mean(provider, GUIDES)}. It has {', '.join(GUIDES)}. "
                "Write others as provider/name; litellm calls them."
            )
        known = (*manual, *word_meanings())
        sentence = f"The manual says nothing about '{question}'{did_you_mean(question, known)}."
        raise Stop(f"{sentence} List its pages: `tui-evals help`")
    width = columns() or _WIDTH
    for section in found[:_SHOWN]:
        say(f"{section.heading}  (help {section.page})", bold=True)
        say(f"    {cell(summary_of(section, question), width - 4)}")
    if len(found) > _SHOWN:
        more = counted(len(found) - _SHOWN, "more section matches", "more sections match")
        say(f"{more}. Add a word to narrow the search.")


def laid_out(page: str, width: int | None) -> list[tuple[str, bool]]:
    """The lines of a page, wrapped to a width if one is given, and whether each is a heading."""
    lines: list[tuple[str, bool]] = []
    for block in page.split("\n\n"):
        if lines:
            lines.append(("", False))
        for piece in _pieces(block):
            if piece.startswith("#"):
                heading = piece.lstrip("# ")
                lines += ((line, True) for line in (textwrap.wrap(heading, width) if width else [heading]))
            elif width is not None and piece.startswith("|"):
                lines += _table_lines(piece, width)
            elif width is not None and piece.startswith(" "):
                lines += ((line, False) for example in piece.splitlines() for line in _example_lines(example, width))
            elif width is None or piece.startswith(("|", "```")):
                lines += ((line, False) for line in piece.splitlines())
            else:
                hanging = "  " if piece.startswith("* ") else ""
                wrapped = textwrap.wrap(
                    " ".join(piece.split()), min(width, _WIDTH), subsequent_indent=hanging, break_on_hyphens=False
                )
                lines += ((line, False) for line in wrapped)
    return lines


def _pieces(block: str) -> Iterator[str]:
    """Headings, list items and lines of examples one by one; tables and the text between them whole."""
    piece: list[str] = []
    for line in block.splitlines():
        is_text = not line.startswith(("#", "* ", "|", "    "))
        goes_on = piece and (
            (is_text and not piece[0].startswith(("#", "|", "    "))) or (line[:1] == piece[0][0] == "|")
        )
        if piece and not goes_on:
            yield "\n".join(piece)
            piece = []
        piece.append(line)
    if piece:
        yield "\n".join(piece)


def _example_lines(example: str, width: int) -> list[str]:
    """A line of an example; the text after a command is wrapped below its start."""
    said = [match.end() for match in re.finditer(r"(?<=\S) {2,}", example)]
    if len(example) <= width or not said:
        return [example]  # a command or code, which stays one line to copy
    below = " " * (said[-1] if said[-1] <= width - _LEAST_SAID else _INDENT)
    return textwrap.wrap(example, width, subsequent_indent=below, break_long_words=False, break_on_hyphens=False)


def _table_lines(table: str, width: int) -> Iterator[tuple[str, bool]]:
    """A Markdown table in columns that fit the width: long cells continue below, and the row of headings is one."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in table.splitlines()]
    rows = [[cell.replace("\\|", "|") for cell in row] for row in rows if not set("".join(row)) <= set("-: ")]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = max(min(width, _WIDTH) - _GAP * (len(widths) - 1), len(widths) * _LEAST)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    for number, row in enumerate(rows):
        parts = [
            textwrap.wrap(cell, room_of, break_on_hyphens=False) for cell, room_of in zip(row, widths, strict=True)
        ]
        for below in zip_longest(*parts, fillvalue=""):
            line = (" " * _GAP).join(f"{part:<{room_of}}" for part, room_of in zip(below, widths, strict=True))
            yield line.rstrip(), number == 0
