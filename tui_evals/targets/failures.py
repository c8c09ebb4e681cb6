"""The errors of an endpoint: code, sentence, and whether to retry; also errors inside replies of HTTP 200."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from tui_evals.light_records import dataclass
from tui_evals.targets.base import ErrorCode, Fault, Reply, TargetError
from tui_evals.text.model_output import BLOCKED

Refusal = Literal["", "filter", "key", "cloud key", "model", "credit", "quota"]
"""Why every attempt would be refused: a content filter, an invalid key, an invalid key of a cloud account, an unknown
model, no money, or a used-up daily quota; empty otherwise. All but the filter affect every question.
"""

_REFUSAL_CODES: Mapping[str, Refusal] = {
    **dict.fromkeys(("content_filter", "ResponsibleAIPolicyViolation", "content_policy_violation"), "filter"),
    **dict.fromkeys(("data_inspection_failed", "DataInspectionFailed"), "filter"),
    **dict.fromkeys(("API_KEY_INVALID", "invalid_api_key"), "key"),
    **dict.fromkeys(("model_not_found", "invalid_model", "DeploymentNotFound"), "model"),
    **dict.fromkeys(("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"), "credit"),
}
"""Codes in an error that imply a refusal by themselves."""
_WORDS: Mapping[Refusal, re.Pattern[str]] = {
    "filter": re.compile(
        "blocked by content filtering policy"  # Anthropic
        "|flagged as potentially violating"  # OpenAI's reasoning models
        "|requires moderation .*input was flagged"  # OpenRouter
        "|content violates usage guidelines"  # xAI
        "|content exists risk",  # DeepSeek
        re.IGNORECASE,
    ),
    "key": re.compile("API key (not valid|expired)|(incorrect|invalid) API key", re.IGNORECASE),
    "cloud key": re.compile(
        "security token included in the request is (invalid|expired)|request signature we calculated does not match"
        "|signature (not yet current|expired)|(invalid|expired) security token",
        re.IGNORECASE,
    ),
    "model": re.compile(
        r"\b(model|deployment)\b[^.]{0,120}? (does not exist|was not found|not found|is not available)"
        r"|(invalid|unknown) model\b",
        re.IGNORECASE,
    ),
    "credit": re.compile("credit balance is too low|insufficient (balance|credits)", re.IGNORECASE),
}
"""Patterns of messages from providers without a code for the refusal."""
_PAUSE = re.compile(
    r"\b(?:try again|retry) (?:in|after) (?:(?P<h>\d+) ?h ?)?(?:(?P<m>\d+) ?m(?!s) ?)?"
    r"(?:(?P<s>\d+(?:\.\d+)?)(?: ?(?P<unit>ms|s)|(?! ?[a-z\d])))?",
    re.IGNORECASE,
)
"""How long to wait, as OpenAI, Azure, Groq and Google say it in a sentence."""


def error_message(body: str) -> str:
    """The message in an error body of the usual shapes, else the body."""
    error = _error(body)
    message = (error.get("message") or error.get("detail")) if isinstance(error, dict) else error
    return message if isinstance(message, str) else body


def refusal_of(status: int, body: str, pause: float | None = None) -> Refusal:
    """Why the provider will never answer this question, or any question; `pause` is the pause in a header."""
    if not 400 <= status < 500:
        return ""
    error = _error(body)
    fields = set(_codes(error)) if isinstance(error, dict) else set()
    for code, refusal in _REFUSAL_CODES.items():
        if code in fields:
            return refusal
    message = error_message(body)
    found: Iterator[Refusal] = (refusal for refusal, words in _WORDS.items() if words.search(message))
    if refusal := next(found, ""):
        return refusal
    if status == 402:
        return "credit"
    # Google names a short pause even for a daily quota; other pauses are waited for.
    daily = "PerDay" in body or ("per day" in message and pause is None and pause_in(body) is None)
    return "quota" if status == 429 and daily else ""


def pause_in(body: str) -> float | None:
    """The seconds to wait, from Google's RetryInfo, else from the message."""
    error = _error(body)
    for detail in _dicts(error.get("details")) if isinstance(error, dict) else ():
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (seconds := _number(delay.removesuffix("s"))) is not None:
            return seconds
    said = _PAUSE.search(error_message(body))
    if said is None or not any(said.groups()):
        return None
    seconds = float(said["s"] or 0) / (1000 if (said["unit"] or "").lower() == "ms" else 1)
    return 3600 * float(said["h"] or 0) + 60 * float(said["m"] or 0) + seconds


def _error(body: str) -> Any:
    """The error in a response body: an object or a text."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if isinstance(document, list):  # Google's OpenAI-compatible endpoint
        document = document[0] if document else {}
    return document.get("error", document) if isinstance(document, dict) else document


def _codes(error: Mapping[str, Any]) -> Iterator[str]:
    """The codes of an error, wherever a provider puts them."""
    for part in (error, *_dicts([error.get("innererror")]), *_dicts(error.get("details"))):
        yield from (value for name in ("code", "type", "reason") if isinstance(value := part.get(name), str))


def _dicts(value: object) -> Iterator[Mapping[str, Any]]:
    yield from (part for part in (value if isinstance(value, list) else ()) if isinstance(part, dict))


def _number(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


_STATUS_OF_WORD: Mapping[str, int] = {
    **dict.fromkeys(("authentication_error", "invalid_api_key", "unauthenticated", "unauthorized"), 401),
    **dict.fromkeys(("billing_error", "insufficient_credits", "payment_required"), 402),
    **dict.fromkeys(("permission_error", "permission_denied", "forbidden"), 403),
    **dict.fromkeys(("not_found_error", "model_not_found", "not_found"), 404),
    **dict.fromkeys(("timeout_error", "timeout", "deadline_exceeded", "gateway_timeout"), 504),
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded", "rate_limited", "too_many_requests"), 429),
    **dict.fromkeys(("resource_exhausted", "insufficient_quota"), 429),
    **dict.fromkeys(("server_error", "api_error", "internal_error", "internal_server_error", "internal"), 500),
    **dict.fromkeys(("unavailable", "service_unavailable", "server_overloaded", "engine_overloaded"), 503),
    **dict.fromkeys(("overloaded_error", "overloaded"), 529),
    "vector_store_timeout": 504,
    "request_too_large": 413,
}
"""The HTTP status for the code that a provider uses instead."""
_OF_A_QUESTION = ("invalid", "bad", "unsupported", "content", "context", "image", "failed_to_download")
"""How the words begin that blame the question."""


class StatedError(ValueError):
    """A reply states an error instead of an answer; `begun` says whether a part of the answer came before."""

    def __init__(self, error: Any, *, begun: bool = False) -> None:
        super().__init__(error_word(error) or "it states an error instead of an answer")
        self.error = error
        self.begun = begun


def error_in(document: object) -> Any:
    """The error that a document, or an event of a stream, states; None where it states none."""
    if not isinstance(document, Mapping):
        return None
    if error := document.get("error"):
        return error
    return document if "error" in (document.get("object"), document.get("type")) else None


def stated_status(error: object) -> int | None:
    """The HTTP status that an error carries, by its number or its word; None where it says neither."""
    if not isinstance(error, Mapping):
        return None
    for name in ("code", "status", "status_code", "statusCode"):
        value = error.get(name)
        number = int(value) if isinstance(value, int | str) and str(value).isdecimal() else 0
        if 400 <= number < 600:
            return number
    for word in map(str.lower, _words(error)):
        if (status := _STATUS_OF_WORD.get(word)) is not None:
            return status
        if word.startswith(_OF_A_QUESTION):
            return 400
    return None


def error_word(error: object) -> str:
    """The code of an error, a word or a number; empty if it has none."""
    if not isinstance(error, Mapping):
        return ""
    number = error.get("code")
    return str(number) if isinstance(number, int) else next(_words(error), "")


def _words(error: Mapping[str, Any]) -> Iterator[str]:
    known = (error.get(name) for name in ("code", "type", "status"))
    yield from (word for word in known if isinstance(word, str) and word and word != "error")


MAX_BODY = 32_000_000
"""Bytes of an answer beyond which it is not read on."""
MAX_ERROR_BODY = 20_000
MAX_EXCERPT = 300
_SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_BEARER = re.compile(r"\bbearer\s[^\s\"']+", re.IGNORECASE)
_REMEDIES: Mapping[Refusal, str] = {
    "cloud key": "Check the keys of the cloud account, such as AWS_ACCESS_KEY_ID; those given for a while expire.",
    "credit": "The account is out of credit; top it up.",
    "quota": "What may be asked in a day is spent; resume once it is renewed, or have it raised.",
}
_ADVICE = {
    413: "The question is too long; shorten it.",
    429: "Lower concurrency or set requests_per_minute.",
}
_LOST_ANSWERS = frozenset((408, 499, 502, 504, 520, 522, 524))
"""Statuses of a gateway that did not wait for the model, which may have answered at a cost."""
_OF_THE_QUESTION = frozenset((400, 413, 414, 422, 431, 451))
"""Statuses that blame the question and say nothing about others."""
_CODES: dict[int, ErrorCode] = {
    401: "agentAuthenticationError",
    403: "agentAuthenticationError",
    408: "agentTimeout",
    429: "agentRateLimited",
    504: "agentTimeout",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The names of an endpoint's settings, for advice."""

    address: str = "base_url"
    key: str = "the key that api_key refers to"
    refused_key: str = "the key that api_key, or else the variable of the provider, names"
    rights: str = "The key may not use this model; check its rights."
    name: str = "the model's name and base_url"
    answer: str = "a chat completion"
    shorter: str = "Set max_tokens."


MODEL = Settings()


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of one endpoint, named `where`, without secrets of the environment and without `secrets`."""

    where: str
    environment: Mapping[str, str]
    secrets: tuple[str, ...] = ()
    settings: Settings = MODEL

    def refused(self, status: int, retry_after: str | None, body: str, location: str | None = None) -> TargetError:
        """An HTTP status other than success."""
        if 300 <= status < 400:
            return self._redirected(status, location)
        return self._classified(status, retry_seconds(retry_after), body, f"answered {status}")

    def stated(self, stated: StatedError) -> TargetError:
        """An error inside a reply of HTTP 200, classified like the status that it carries."""
        status, body = stated_status(stated.error), json.dumps({"error": stated.error})
        word = error_word(stated.error)
        what = f"answered {status}" if word == str(status) else f"could not answer{f' ({word})' if word else ''}"
        error = self._classified(status or 500, None, body, what)
        error.status, error.unbilled = status, error.unbilled and status is not None and not stated.begun
        return error

    def _classified(self, status: int, wait: float | None, body: str, what: str) -> TargetError:
        """The error of a status: `what` the endpoint did, why, and what to do."""
        refusal = refusal_of(status, body, wait)
        passing = refusal == "" and (status in (408, 409, 429) or status >= 500)
        usual = "It may pass; ask again." if passing else "Check the question and its parameters."
        advice = self._own_advice.get(refusal or status) or _REMEDIES.get(refusal) or _ADVICE.get(status, usual)
        code = _CODES.get(status, "agentRequestFailed")
        if refusal in ("key", "cloud key"):
            code = "agentAuthenticationError"
        elif refusal in ("credit", "quota"):
            code = "agentRateLimited"
        return TargetError(
            code,
            f"{self.where} {what}: {self._error_text(body)}. {advice}",
            retryable=passing,
            retry_after=(pause_in(body) if wait is None else wait) if passing else None,
            status=status,
            unbilled=status not in _LOST_ANSWERS,
            fault=_fault_of(status, refusal),
        )

    @property
    def _own_advice(self) -> Mapping[int | str, str]:
        """Advice for a refusal or a status that is about settings."""
        own = self.settings
        return {
            "key": f"Check {own.refused_key}.",
            "model": f"Check {own.name}.",
            401: f"Check {own.key}.",
            403: own.rights,
            404: f"Check {own.name}.",
        }

    def blocked(self, status: int | None, body: str) -> Reply | None:
        """The empty answer that a provider's filter left of one, where that is why it refused.

        Other providers send it as an answer. Its cost is unknown, and some providers charge for the question.
        """
        if status is None or refusal_of(status, body) != "filter":
            return None
        said = f"{self.where} answered {status}: {self._error_text(body)}"
        return Reply(text="", finish_reason="content_filter", diagnostics={BLOCKED: said})

    def _redirected(self, status: int, location: str | None) -> TargetError:
        """The error for a redirect, which is not followed because the other server would get the key."""
        leads = f"it redirects to {self.readable(location)}" if location else "it redirects, and does not say where"
        address = (
            (location or "")
            .partition("?")[0]
            .removesuffix("/chat/completions")
            .removesuffix("/responses")
            .removesuffix("/v1/messages")
        )
        known = address != location and address.startswith("http")
        remedy = f"Set {self.settings.address} to {self.readable(address) if known else 'the address it leads to'}"
        message = f"{self.where} answered {status}: {leads}. {remedy}, if it is yours; nothing was sent there."
        return TargetError("agentRequestFailed", message, status=status, unbilled=True, fault="unknown")

    def unreadable(self, body: str) -> TargetError:
        """The error for a reply in a wrong format: overloaded servers send one now and then, a wrong address always."""
        wanted, address = self.settings.answer, self.settings.address
        message = f"{self.where} answered what is not {wanted}: {self._error_text(body)}. Check {address}."
        return TargetError("agentResponseUnparseable", message, retryable=True)

    def broken_off(self, body: str) -> TargetError:
        """The error for an answer that broke off; `body` may be empty."""
        came = f" after: {self.readable(body[:MAX_ERROR_BODY])}" if body.strip() else ""
        message = f"The answer of {self.where} broke off{came}. It may pass; ask again."
        return TargetError("agentResponseUnparseable", message, retryable=True)

    def too_long(self) -> TargetError:
        """An answer that is too long."""
        message = f"{self.where} answered with more than {MAX_BODY // 1_000_000} MB, which was dropped."
        return TargetError("agentResponseUnparseable", f"{message} {self.settings.shorter}")

    def timed_out(self, after: float) -> TargetError:
        """An answer that did not come in time."""
        message = f"{self.where} did not answer within {after:g} s. Raise the target's timeout, or look at the server."
        return TargetError("agentTimeout", message, retryable=True)

    def unreachable(
        self, reason: str, retryable: bool = True, nobody_there: bool = False, *, sent: bool = False
    ) -> TargetError:
        """A connection that could not be made, or broke once the question was `sent`."""
        remedy = f"Check {self.settings.address} and that the server runs."
        message = f"No answer from {self.where}: {self.readable(reason)}. {remedy}"
        return TargetError(
            "agentRequestFailed",
            message,
            retryable=retryable,
            nobody_there=nobody_there,
            unbilled=not sent,
            fault="unknown",
        )

    def readable(self, text: str) -> str:
        """The text on one line, clipped, with every secret hidden."""
        # Hidden before it is clipped, or the first half of a key could remain.
        line = " ".join(self.hidden(text).split())
        return line if len(line) <= MAX_EXCERPT else line[: MAX_EXCERPT - 1] + "…"

    def hidden(self, text: str) -> str:
        """The text with every secret hidden."""
        hidden = [value for name, value in self.environment.items() if len(value) >= 8 and _SECRET_NAME.search(name)]
        for secret in sorted({*hidden, *self.secrets}, key=len, reverse=True):
            text = text.replace(secret, "[hidden]")
        return _BEARER.sub("Bearer [hidden]", text)

    def _error_text(self, body: str) -> str:
        """The error in a body, in words."""
        body = body[:MAX_ERROR_BODY].strip()
        if not body:
            return "nothing at all"
        if body.startswith("<"):
            return "an HTML page"
        return self.readable(error_message(body)).rstrip(".")


def _fault_of(status: int, refusal: Refusal) -> Fault:
    """The cause of a refusal; for money and quotas, a short probe would say nothing about longer questions."""
    if refusal in ("credit", "quota"):
        return "target"
    is_of_question = refusal == "filter" or (refusal == "" and status in _OF_THE_QUESTION)
    return "question" if is_of_question else "unknown"


def retry_seconds(retry_after: str | None) -> float | None:
    """How long to wait, from a Retry-After header of either form."""
    if retry_after is None:
        return None
    try:
        wait = float(retry_after)
    except ValueError:
        try:
            wait = (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, wait) if math.isfinite(wait) else None
