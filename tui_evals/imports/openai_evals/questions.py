"""Samples with columns of their own as items: multiple-choice questions, questions about pictures, words to guess."""

from __future__ import annotations

import ast
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from pathlib import Path as File
from random import Random
from string import ascii_uppercase
from typing import Any

from tui_evals.datasets.attachments import MAX_BYTES, CannotAttach, media_type, read_attachment

from .samples import Data, Unfit

_QUESTIONS = (("question", "answers", "label"), ("ctx", "endings", "label"), ("question", "choices", "answer"))
_LETTER = "Please answer with the letter of the correct answer."
_OUR_LETTER = "Reply with the letter of the right choice and nothing else."
_NEXT_WORD = "Please answer with the word which is most likely to follow:"
_OUR_NEXT_WORD = "Reply with the one word that most likely follows this text, and nothing else."
_PICTURES = tuple(f"image_{number}" for number in range(1, 8))
_ANSWER = "ANSWER: "


def multiple_choice(instructions: str | None, faithful: bool, sample: Data, random: Random, _: File) -> dict[str, Any]:
    """A question with its choices after letters, in the order the original would shuffle them."""
    names = next((names for names in _QUESTIONS if all(name in sample for name in names)), None)
    if names is None:
        raise Unfit(f"a multiple-choice sample holds question, answers and label; this one: {_held(sample)}")
    question = _text(sample, names[0], "the question must be text")
    lines, right = _lettered(sample[names[1]], sample[names[2]], random, names[1], names[2])
    heading = [instructions] if instructions or (faithful and instructions is not None) else []
    item = _asked([*heading, _LETTER if faithful else _OUR_LETTER, "", question, *lines], faithful)
    category = sample.get("category", sample.get("subject"))
    return {**item, "expected_response": right, **({"category": category} if isinstance(category, str) else {})}


def last_word(faithful: bool, sample: Data, _: Random, __: File) -> dict[str, Any]:
    """A text whose last word is to be guessed."""
    words = _text(sample, "text", "the sample has no text whose last word could be asked for").split()
    if len(words) < 2:
        raise Unfit("the text needs two words or more, because its last word is asked for", "text")
    item = _asked([_NEXT_WORD if faithful else _OUR_NEXT_WORD, "", " ".join(words[:-1])], faithful)
    return {**item, "expected_response": words[-1]}


def about_pictures(subject: str, faithful: bool, sample: Data, random: Random, file: File) -> dict[str, Any]:
    """A question of MMMU with its pictures, which are in the sample or in files next to it."""
    question = _text(sample, "question", f"a sample holds question, options, answer, question_type; {_held(sample)}")
    choices = sample.get("question_type", "multiple-choice") == "multiple-choice"
    answer = sample.get("answer")
    if choices:
        place = ord(answer) - ord("A") if isinstance(answer, str) and len(answer) == 1 else answer
        lines, right = _lettered(_options(sample.get("options")), place, random, "options", "answer")
        question, form = "\n".join((question, *lines)), "exactly one of A,B,C,D"
    else:
        right = _text(sample, "answer", "the answer to an open question must be text")
        form = "only the answer and nothing else"
    told = (
        f"You are an expert in {subject} whose job is to answer questions from the user using images. First, reason "
        f'about the correct answer. Then write the answer in the following format where X is {form}: "{_ANSWER}X"'
        if faithful
        else f"Answer this question about {subject} from its pictures. Reason first. End with a line "
        f'"{_ANSWER}X", where X is {"the letter of the right choice" if choices else "the answer alone"}.'
    )
    pictures = [_picture(sample[name], name, file) for name in _PICTURES if sample.get(name) is not None]
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    messages = [
        {"role": "system", "content": [{"type": "text", "text": told}]},
        {"role": "user", "content": [{"type": "text", "text": question}, *shown]},
    ]
    return {"messages": messages, "expected_response": _ANSWER + right}


def _asked(lines: Sequence[str], faithful: bool) -> dict[str, Any]:
    """A text as the prompt; the original sends it as a system message."""
    text = "\n".join(lines)
    return {"messages": [{"role": "system", "content": text}]} if faithful else {"prompt": text}


def _held(sample: Data) -> str:
    return (", ".join(map(str, sample)) or "none")[:200]


def _text(sample: Data, name: str, otherwise: str) -> str:
    value = sample.get(name)
    if not isinstance(value, str) or not value:
        raise Unfit(otherwise, name)
    return value


def _lettered(choices: object, right: object, random: Random, *names: str) -> tuple[list[str], str]:
    """The choices in another order after letters, and the letter of the right one, given by its place."""
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise Unfit("the choices must be a list of texts", names[0])
    if not 1 <= len(choices) <= len(ascii_uppercase):
        raise Unfit(f"there are {len(choices)} choices; 1 to {len(ascii_uppercase)} can have a letter", names[0])
    place = int(right) if isinstance(right, str) and right.isdecimal() and right.isascii() else right
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(choices):
        raise Unfit("must be the place of the right choice, counted from 0", names[1])
    order = list(range(len(choices)))
    random.shuffle(order)
    lines = [f"{letter}) {choices[at]}" for letter, at in zip(ascii_uppercase, order, strict=False)]
    return lines, ascii_uppercase[order.index(place)]


def _options(given: object) -> object:
    """The choices of MMMU, which its data set writes as the text of a Python list."""
    if not isinstance(given, str):
        return given
    try:
        return ast.literal_eval(given)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise Unfit("must be a list of texts", "options") from None


def _picture(given: object, name: str, file: File) -> str:
    """A picture as a data URL: of an address, of base64 in `bytes`, or of a file next to the data."""
    if isinstance(given, str) and given.startswith(("data:image/", "https://", "http://")):
        return given
    if isinstance(given, Mapping):
        packed, given = given.get("bytes"), given.get("path")
        if isinstance(packed, str):
            return _data_url(_unpacked(packed, name), name)
    if not isinstance(given, str) or not given:
        raise Unfit("must be a file next to the data, a data: URL, or an object with bytes in base64", name)
    try:
        return _data_url(read_attachment(file.parent, given), name)
    except CannotAttach as problem:
        raise Unfit(str(problem), name) from None


def _unpacked(packed: str, name: str) -> bytes:
    if len(packed) > MAX_BYTES * 4 // 3 + 4:
        raise Unfit(f"is larger than the {MAX_BYTES // 1_000_000} MB that a picture may have", name)
    try:
        return b64decode(packed, validate=True)
    except (NotBase64, ValueError):
        raise Unfit("its bytes are not base64", name) from None


def _data_url(content: bytes, name: str) -> str:
    for ending in (".png", ".jpg", ".gif", ".webp"):
        try:
            kind = media_type(f"picture{ending}", content)
        except CannotAttach:
            continue
        if kind.startswith("image/"):
            return f"data:{kind};base64,{b64encode(content).decode()}"
    raise Unfit("is no picture; PNG, JPEG, GIF and WebP can be sent", name)
