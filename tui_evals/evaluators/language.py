"""Language: which language an answer is written in, as the library `py3langid` tells, which is an extra."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar

from pydantic import Field

from tui_evals.text.measures import Measure
from tui_evals.text.nearest import did_you_mean

from .base import (
    Evaluator,
    Evidence,
    Misconfigured,
    Score,
    ValueOptions,
    is_installed,
    measured_score,
    skipped_score,
)
from .values import response_texts

READ_CHARS = 20_000
"""How much of an answer is looked at."""
_MISSING = "languages are told by the library py3langid, which is not installed: pip install 'tui-evals[language]'"
_worker = ThreadPoolExecutor(1, "language")  # its model takes two seconds to load, and is loaded once

Code = Annotated[str, Field(pattern="^[a-z]{2,3}$")]


@cache
def load_identifier() -> Any:
    """What tells languages, or None where the library is not installed."""
    try:
        library = import_module("py3langid.langid")
    except ImportError:
        return None
    return library.LanguageIdentifier.from_model_file(library.MODEL_FILE, norm_probs=True)


def _probabilities(text: str) -> dict[str, float] | None:
    identifier = load_identifier()
    if identifier is None:
        return None
    return {str(code): float(share) for code, share in identifier.rank(text)}


class LanguageOptions(ValueOptions):
    """Options of Language."""

    languages: list[Code] = Field(
        min_length=1, description="The languages that are right, as ISO codes such as en, de, pt, zh."
    )
    among: list[Code] | None = Field(
        None, min_length=1, description="Tell between these and the right ones only, which helps with short answers."
    )
    least_letters: int = Field(
        20, ge=1, validation_alias="leastLetters", description="An answer of fewer letters is skipped."
    )
    threshold: float = Field(0.5, ge=0, le=1, description="The probability, of 0 to 1, from which it passes.")


class Language(Evaluator):
    """Passes when the answer is written in one of the languages.

    The score is the probability of the right languages together, as the library py3langid reckons it from the letters
    of the first 20,000 characters; code and names count like any letters. Short texts are often taken for another
    language: say with `among` which there can be. An answer with fewer letters than `least_letters` is skipped. It
    needs `pip install 'tui-evals[language]'`.
    """

    name = "Language"
    family = "text"
    measure = Measure("at least")
    Options = LanguageOptions
    example: ClassVar = {
        "options": {"languages": ["de"]},
        "response": "Guten Tag, wie kann ich Ihnen heute weiterhelfen?",
    }

    def obstacle(self) -> str | None:
        """The library that is not there."""
        return None if is_installed("py3langid") else _MISSING

    async def score(self, evidence: Evidence) -> Score:
        """How probable the right languages are."""
        text = "\n".join(response_texts(evidence, self.options.json_path))[:READ_CHARS]
        text = text.encode("utf-8", "replace").decode()
        letters = sum(map(str.isalpha, text))
        if letters < self.options.least_letters:
            return skipped_score(f"{letters} letters are too few to tell a language, of {self.options.least_letters}")
        known = await asyncio.get_running_loop().run_in_executor(_worker, _probabilities, text)
        if known is None:
            raise Misconfigured(_MISSING)
        wanted = dict.fromkeys(self.options.languages)
        candidates = dict.fromkeys((*wanted, *(known if self.options.among is None else self.options.among)))
        for code in candidates:
            if code not in known:
                raise Misconfigured(f"the language {code!r} is not known to py3langid{did_you_mean(code, known)}")
        whole = sum(known[code] for code in candidates)
        shares = {code: known[code] / whole if whole else 0.0 for code in candidates}
        share = min(sum(shares[code] for code in wanted), 1.0)
        likely = max(shares, key=lambda code: shares[code])
        reason = f"the answer reads like {likely} ({shares[likely]:.0%}), wanted {' or '.join(wanted)}"
        return measured_score(share, self.options.threshold, reason, label=likely)
