"""Sentences that a person reads use the words of the interface, and none of the words that these replaced."""

import ast
import io
import re
import textwrap
import tokenize
from pathlib import Path

import tui_evals
from tui_evals.text.manual import pages

PACKAGE = Path(tui_evals.__file__).parent
WORDS = {
    "fix": r"mends?|mended",
    "next to, and, compared with": r"beside",
    "unknown, not, no one": r"nobody|somebody|whoever|anybody",
    "continues": r"goes? on",
    "is in": r"lies (?:in|outside|too)|stands? (?:in|on|there|here|below|above|alone|at the)",
    "undo": r"(?:take|takes|taken) (?:this |it )?back",
    "is selected": r"stands first",
    "appears twice": r"stands twice",
    "allow this": r"let it\?",
    "expensive": r"dear(?:er)?",
}
"""What to write, and the words that it replaces."""
REFUSED = re.compile(rf"\b(?:{'|'.join(WORDS.values())})(?!\w)", re.IGNORECASE)
EXCEPTIONS = {
    "evaluators/canaries.py": "answers with known verdicts, written as people write",
    "evaluators/safety.py": "questions to judges, whose wording is part of the rubric",
    "evaluators/text.py": "the greeting of a letter",
}
MADE = {"changes", "keys", "providers"}
"""Pages that do not count towards the length of the manual: one line a change, and what is made from code."""
LONGEST = 30
MOST_WORDS = 25_000
"""How many words the manual has at most, without examples, the changes and what is made from code."""


def messages(file):
    """The string constants of a module that are sentences: no docstring, no single word, no style sheet."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes
        if is_text and " " in node.value.strip() and "{ " not in node.value:
            yield node.lineno, node.value


def modules_that_have(refused):
    """The modules whose source has such a word anywhere: to parse the others would take ten seconds."""
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        as_said = re.sub(r'"\s+f?"|\\.', "", source), re.sub(r"\\.|[\"'{}]", "\n", source)
        if any(map(refused.search, as_said)):
            yield file


def test_what_is_left_out_is_one_more_thing_or_several():
    """A number before `more things` comes from `counted`, for there may be one."""
    left_out = re.compile(r"\} more [a-z]+s\b")
    found = [
        (str(file.relative_to(PACKAGE)), line.strip())
        for file in sorted(PACKAGE.rglob("*.py"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if left_out.search(line)
    ]
    assert [name for name, _ in found] == ["evaluators/judging.py"], found  # the wording of questions to judges


def sentences(page):
    """The sentences of a page outside tables, commands and headings."""
    prose = "\n".join("" if re.match(r"    |\||#", line) else line for line in page.splitlines())
    for paragraph in re.split(r"\n\s*\n|\n(?=\* )", prose):
        yield from re.split(r"(?<=[.?:])\s+", " ".join(paragraph.split()))


def test_no_message_has_a_word_that_was_replaced():
    found = [
        f"{file.relative_to(PACKAGE)}:{line}: {word.group()}"
        for file in modules_that_have(REFUSED)
        if file.relative_to(PACKAGE).as_posix() not in EXCEPTIONS
        for line, text in messages(file)
        if (word := REFUSED.search(text))
    ]
    assert found == []


def notes(file):
    """The docstrings and comments of a module, with their lines."""
    text = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_docstrings_and_comments_say_who_and_where_in_plain_words():
    refused = re.compile(r"\b(?:somebody|whoever|nobody|anybody|beside)\b(?! =|`)|^(?:The same|That)\b", re.IGNORECASE)
    found = [
        f"{file.relative_to(PACKAGE)}:{line}: {text[:60]}"
        for file in modules_that_have(re.compile(refused.pattern, re.IGNORECASE | re.MULTILINE))
        for line, text in notes(file)
        if refused.search(text)
    ]
    assert found == []


def test_every_exception_is_still_needed():
    for name in EXCEPTIONS:
        assert any(REFUSED.search(text) for _, text in messages(PACKAGE / name)), name


def test_the_manual_is_short():
    read = [re.sub(r"(?m)^    .*$", "", page) for name, page in pages().items() if name not in MADE]
    assert sum(len(page.split()) for page in read) <= MOST_WORDS


def test_paragraphs_have_at_most_four_lines():
    for name, page in pages().items():
        prose = re.sub(r"(?m)^(?:    |#|\|).*$", "", page) if name not in MADE else ""
        paragraphs = [" ".join(text.split()) for text in re.split(r"\n\s*\n|\n(?=\* )", prose)]
        assert [text for text in paragraphs if len(textwrap.wrap(text, 100)) > 4] == [], name


def test_pages_have_plain_words_and_short_sentences():
    manual = pages()
    for name in manual:
        assert not REFUSED.search(manual[name]), name
        long = [sentence for sentence in sentences(manual[name]) if len(sentence.split()) > LONGEST]
        assert long == [], name
