"""Sentences about an answer as statements about the output, and the other way round."""

from __future__ import annotations

import re

from .words import listed

_OPENERS = re.compile(
    r"(?:please|then|and|also|but|so|always remember to|remember to|make sure (?:that|to)|ensure that|note that|"
    r"your (?:task|job|role|goal) is to|(?:i want|i need|i would like) you to|"
    r"you (?:will|shall|need to|have to)|you)\s+",
    re.IGNORECASE,
)
VERBS = frozenset(
    listed(
        "add admit analyse analyze answer apply ask assist avoid be begin calculate call capitalise "
        "capitalize check choose cite classify compare complete compose compute consider contain convert "
        "correct count create decide decline describe detect determine do draft edit end ensure evaluate "
        "explain express extract fill find finish fix follow format generate give greet guess help identify "
        "ignore include introduce invent keep label leave limit list make mark match mention name note offer "
        "omit organise organize output paraphrase pick plan point praise present print produce propose "
        "provide put quote rank rate read recommend refer refuse rephrase replace reply report repeat respond "
        "restate return review rewrite round say score select send separate show sign simplify sort speak "
        "split start state stay stick stop suggest summarise summarize tag talk tell thank transform "
        "translate treat try use wrap write"
    )
)
NO_VERBS = frozenset(
    listed(
        "are can may must should have need do never always only just not the a an this that these those it he she we "
        "they i there here is was in on at for to by from with as of and or but so no your my our their its all any "
        "each every some one two three what which who when where how why because whether if"
    )
)
_MAKING = frozenset(listed("answer reply respond output return write give print produce provide generate say"))
_THING = re.compile(
    r"(?:an?|the|one|only|just|exactly|at|no|valid|nothing|two|three|four|five)\b|[\"“'`0-9A-Z]|"
    r"(?:yes|no|true|false|unknown|none|null|neither|other)\W*$"
)
_SIZE = re.compile(
    r"in ((?:at most |at least |exactly |no more than |fewer than |less than |only )?"
    r"(?:\d+|one|two|three|four|five|six|ten) (?:\w+ )??"
    r"(?:words?|sentences?|lines?|paragraphs?|characters?|bullets?))\b(.*)",
    re.IGNORECASE,
)
_WHAT = r"(?:output|answer|reply|response|result|summary|translation|message|text|email|list|explanation)s?"
_NAMED = re.compile(rf"(?:your|the|each|every|all) (?:\w+ )?{_WHAT} (.+)", re.IGNORECASE)
_NOT = re.compile(
    r"(?:do not|don['’]t|must not|should not|shouldn['’]t|mustn['’]t|may not|cannot|can['’]t) (\w+)(.*)", re.I
)
_ADVERB = re.compile(r"(never|always|only|just) (\w+)(.*)", re.IGNORECASE)
_MUST = re.compile(r"(must|should|have to|need to|may only|can only) (.+)", re.IGNORECASE)


def opened(text: str) -> str:
    """The sentence without what stands before its verb."""
    while opener := _OPENERS.match(text):
        text = text[opener.end() :]
    return text


def predicate(text: str, *, sure: bool = True) -> str | None:
    """What a sentence in the imperative, or about the answer, says of the output: None for any other sentence.

    Without `sure`, a word that is not known as a verb counts as one where a verb may stand.
    """
    plain = opened(text)
    spoken = plain != text or not sure
    if named := _NAMED.fullmatch(plain):
        return named[1]
    if forbidden := _NOT.fullmatch(plain):
        return f"does not {forbidden[1].lower()}{forbidden[2]}"
    if said := _MUST.fullmatch(plain):
        return f"must {said[2]}"
    if how := _ADVERB.fullmatch(plain):
        known = how[2].lower() in VERBS or spoken
        return f"{how[1].lower()} {third(how[2].lower())}{how[3]}" if known else None
    first, _, rest = plain.partition(" ")
    verb = first.lower()
    if verb not in VERBS and not (spoken and verb.isalpha() and verb not in NO_VERBS):
        return None
    return _made(verb, rest)


def _made(verb: str, rest: str) -> str:
    if verb in _MAKING and (size := _SIZE.fullmatch(rest)):
        return f"is {size[1]} long{size[2]}"
    if verb in _MAKING and (said := re.match(r"(?:only )?(with|in|using) ", rest)):
        return f"is {rest if said[1] != 'with' else rest.replace('with ', '', 1)}"
    if verb in _MAKING and _THING.match(rest):
        return f"is {rest}"
    return f"{third(verb)} {_joined(rest)}".strip()


def _joined(rest: str) -> str:
    """What follows a verb, with further verbs in the same form."""
    more = re.compile(r"\b(and|or|then) (\w+)(?= (?:an?|the|it|them|your|no|only|its|their)\b)")
    return more.sub(lambda found: f"{found[1]} {third(found[2])}" if found[2] in VERBS else found[0], rest)


# -- turning a rule round


def inverse(rule: str) -> str:
    """A rule that no output can keep together with the given one."""
    plain = re.sub(r": (?:no|not|never|without)\b.*", "", " ".join(rule.split())).rstrip(" .")
    said = re.fullmatch(r"(.*?\b[Tt]he output )(\w+)(?:( (?:not|never|only|always|just))? (.+))?", plain)
    told = _turned(said[2].lower(), (said[3] or "").strip(), said[4] or "") if said else None
    return closed(f"{said[1]}{told}" if said and told else f"The output does not keep to this: {plain}")


def _turned(verb: str, how: str, rest: str) -> str | None:
    first, _, more = rest.partition(" ")
    if verb == "does" and how == "not":
        return f"{third(first)} {more}".strip()
    if verb in ("is", "must", "has", "should", "can", "may", "are"):
        turned = f"{verb} {rest}" if how == "not" else f"{verb}{'' if verb == 'can' else ' '}not {how} {rest}"
        return " ".join(turned.split()) if verb != "has" or how == "not" else f"does not have {rest}"
    if verb == "never":
        return f"sometimes {rest}"
    if verb in ("always", "only", "just"):
        return f"does not {verb} {base(first)} {more}".strip()
    return f"does not {base(verb)} {how} {rest}".replace("  ", " ").strip() if verb.endswith("s") else None


def third(verb: str) -> str:
    """The verb as it stands behind `it`."""
    known = {"be": "is", "have": "has"}
    if verb in known:
        return known[verb]
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ies"
    return f"{verb}es" if re.search(r"(?:s|sh|ch|x|zz|o)$", verb) else f"{verb}s"


def base(verb: str) -> str:
    """The verb as it stands behind `to`."""
    known = {"is": "be", "has": "have"}
    if verb.lower() in known:
        return known[verb.lower()]
    if verb.endswith("ies") and len(verb) > 4:
        return f"{verb[:-3]}y"
    return verb[:-2] if re.search(r"(?:ss|sh|ch|x|zz|o)es$", verb) else verb.removesuffix("s")


def closed(text: str) -> str:
    """The text with a full stop, unless it ends in one."""
    return text if re.search(r"[.!?。][\"”'`]*$", text) else f"{text}."
