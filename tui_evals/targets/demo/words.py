"""Words and sentences of the demo target: numbered, so that different numbers give different texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import gcd, prod


def listed(words: str) -> list[str]:
    """The words one by one."""
    return words.split()


_ADJECTIVES = listed(
    "old quiet bright narrow heavy patient curious rusty gentle crooked hollow modest distant clumsy tidy"
)
_PEOPLE = listed(
    "ferryman baker gardener clerk pilot teacher neighbour violinist plumber archivist tailor surveyor nurse beekeeper "
    "carpenter translator courier referee"
)
_VERBS = listed("repaired carried painted measured borrowed polished returned ordered described weighed photographed")
_THINGS = listed(
    "lantern ladder parcel kettle map violin bicycle ledger compass umbrella clock blanket ticket suitcase telescope "
    "basket"
)
_PLACES = (
    *("behind the mill", "near the harbour", "under the bridge", "beside the chapel", "inside the workshop"),
    *("across the square", "outside the bakery", "above the stable", "along the canal", "in the greenhouse"),
)
NAMES = listed("Ada Bruno Clara Dmitri Elena Farid Greta Hugo Ines Jonas Keiko Lena")
_SURNAMES = listed("Abbot Brandt Castillo Dupont Eriksen Ferrara Grant Hofer Ito Jansen Kowalski Larsen Moreau Novak")
_TIMES = (
    *("on Monday", "before breakfast", "after the storm", "at noon", "last winter", "during the fair", "on Friday"),
    *("in April", "at midnight", "after lunch"),
)
_ADVERBS = listed("slowly quietly carefully reluctantly quickly proudly rarely barely")
_NUMBERS = listed("Two Three Four Five Six Seven Nine Eleven Twelve Twenty")
_PLURALS = listed("travellers herons carts children barrels sailors musicians lorries visitors wolves porters kites")
_TOPICS = listed("weather price timetable garden delivery recipe lease journey")
_EXCLAMATIONS = listed("Oh Hey Alas Ouch Wow Hooray Hmm")

_PATTERNS: Sequence[tuple[str, Sequence[Sequence[str]]]] = (
    ("The {} {} {} the {} {}.", (_ADJECTIVES, _PEOPLE, _VERBS, _THINGS, _PLACES)),
    ("{} {} the {} {} {}.", (NAMES, _VERBS, _THINGS, _ADVERBS, _TIMES)),
    ("Why did the {} {} leave the {} {}?", (_ADJECTIVES, _PEOPLE, _THINGS, _PLACES)),
    ("{} {} waited {} {}.", (_NUMBERS, _PLURALS, _PLACES, _TIMES)),
    ("Nobody knew that {} {} a {} {} {}.", (NAMES, _VERBS, _ADJECTIVES[1:], _THINGS, _TIMES)),
)
_FOREIGN = (
    "Der alte Fährmann wartet seit {} Tagen am Hafen.",
    "La voisine a repeint {} fenêtres avant midi.",
    "El jardinero perdió {} llaves cerca del molino.",
)
_LEADS = (
    "When we came back that morning, tired, hungry and a good deal later than anybody had planned, my sister opened "
    "the diary that she has kept since she was nine and wrote in it, in her small and careful hand: “{}”",
    "According to the letter that lay on the kitchen table, which nobody had opened since the guests left and which "
    "was stained with tea on both of its sides, this is how the whole story had begun: “{}”",
    "In the middle of a long report about the village and its people, between two paragraphs full of figures that "
    "hardly anybody has ever read to the end, there stands, without any explanation, the line: “{}”",
)
_BEFORE = (
    "I am not sure whether this is the right place, but I could not find a better one.",
    "Sorry for the long message; I am writing on the train and the connection is poor.",
    "A colleague told me to try this, so here is what I have.",
    "This has been on my mind since last week, and I would like to get it out of the way.",
)
_AFTER = (
    "That is all I know so far, and I may have mixed up a detail or two along the way.",
    "My brother sees it differently, by the way, but he was not there when it happened.",
    "I have looked through my notes twice, and there is nothing else in them that would help.",
    "If it matters, all of this took place within one afternoon, and it was raining.",
    "Please do not mind the spelling; I had to type this with one hand.",
)


def _speech() -> Mapping[str, str]:
    kinds: Sequence[tuple[Sequence[str], str]] = (
        (_ADJECTIVES, "adjective"),
        ((*_PEOPLE, *_THINGS, "nobody"), "noun, singular or mass"),
        ((*_VERBS, "did", "waited", "knew"), "verb, past tense"),
        (NAMES, "proper noun, singular"),
        (_ADVERBS, "adverb"),
        (_NUMBERS, "number"),
        (_PLURALS, "noun, plural"),
        (("the", "a"), "determiner"),
        (listed("behind near under beside inside across outside above along in on at"), "preposition"),
        (("leave",), "verb, base form"),
        (("why",), "wh-adverb"),
        (_EXCLAMATIONS, "interjection"),
        (("and", "but", "or"), "coordinating conjunction"),
        (("he", "she", "it", "they"), "personal pronoun"),
    )
    return {word.lower(): kind for words, kind in kinds for word in words}


SPEECH = _speech()
"""What part of speech a word is in these sentences."""


def speech_of(word: str) -> str:
    """What part of speech a word is, or probably is."""
    return SPEECH.get(word.lower(), "adverb" if word.endswith("ly") else "noun, singular or mass")


def drawn(number: int, lists: Sequence[Sequence[str]]) -> list[str]:
    """One of each list; as long as there are combinations left, another number gives another one."""
    rest = _spread(number, prod(map(len, lists)))
    found = []
    for words in lists:
        rest, place = divmod(rest, len(words))
        found.append(words[place])
    return found


def _spread(number: int, size: int) -> int:
    """A place below the size: neighbours come to lie far apart, and no two numbers below the size on the same."""
    step = max(1, size * 5 // 8)
    while gcd(step, size) > 1:
        step += 1
    return number * step % size


def sentence(number: int) -> str:
    """A sentence."""
    rest, kind = divmod(number, len(_PATTERNS))
    pattern, lists = _PATTERNS[kind]
    return pattern.format(*drawn(rest, lists))


def paragraph(number: int, length: int) -> str:
    """So many sentences."""
    return " ".join(sentence(number + 617 * place) for place in range(length))


def foreign(number: int) -> str:
    """A sentence in another language than English."""
    return _FOREIGN[number % len(_FOREIGN)].format(number % 9973 + 2)


def exclaimed(number: int) -> tuple[str, str]:
    """A sentence that starts with an interjection, and that interjection."""
    word, name, verb, thing, time = drawn(number, (_EXCLAMATIONS, NAMES, _VERBS, _THINGS, _TIMES))
    return f"{word}, {name} {verb} the {thing} {time}!", word


def message(number: int, topic: str) -> str:
    """What a user might ask about a topic."""
    topic = topic or f"the {_TOPICS[number % len(_TOPICS)]}"
    told = paragraph(number - number % len(_PATTERNS), 1)
    forms = (
        f"Could you tell me something about {topic}? {told}",
        f"{told} What does that mean for {topic}?",
        f"I need help with {topic}. {told} What should I do now?",
        f"Hello, {NAMES[number % len(NAMES)]} here. {told} Who can tell me more about {topic}?",
        f"What do I have to know about {topic}? {told}",
    )
    return forms[number % len(forms)]


def word(number: int) -> str:
    """A word."""
    known = [*_THINGS, *_ADJECTIVES, *_PEOPLE, *_ADVERBS, *_VERBS, *_PLURALS]
    return known[_spread(number, len(known))]


def full_name(number: int) -> str:
    """The name of a person."""
    return " ".join(drawn(number, (NAMES, _SURNAMES)))


def topic(number: int) -> str:
    """Something to write about."""
    adjective, thing, place = drawn(number, (_ADJECTIVES, _THINGS, _PLACES))
    return f"the {adjective} {thing} {place}"


def longer(text: str, number: int, one_sentence: bool) -> str:
    """The text with what people write around what they want to say, three times as long or more."""
    if one_sentence:
        return _LEADS[number % len(_LEADS)].format(text)
    before: list[str] = [_BEFORE[number % len(_BEFORE)]]
    after: list[str] = []
    size = len(before[0])
    while size < 2 * len(text):
        place = number + len(after)
        rounds = len(after) >= len(_AFTER)
        after.append(sentence(place) if rounds else _AFTER[place % len(_AFTER)])
        size += len(after[-1]) + 1
    return " ".join([*before, text, *after])


def without_marks(text: str) -> str:
    """The text as a cell of CSV can hold it, whatever reads it: no fences, and no backslash before a quotation mark."""
    return re.sub(r'\\+(?="|$)', "", text.replace("```", "'''")).strip()
