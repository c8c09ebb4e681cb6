"""The errors of an endpoint: code, sentence, and whether to retry; never with a secret in them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from tui_evals.text.endings import BLOCKED

from .base import ErrorCode, Reply, TargetError
from .refusals import Refusal, error_message, pause_in, refusal_of

MAX_BODY = 32_000_000
"""Bytes of an answer beyond which it is not read on."""
MAX_ERROR_BODY = 20_000
MAX_EXCERPT = 300
_SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_BEARER = re.compile(r"\bbearer\s[^\s\"']+", re.IGNORECASE)
_HOPELESS: Mapping[Refusal, str] = {
    "key": "Check the key.",
    "cloud key": "Check the keys of the cloud account, such as AWS_ACCESS_KEY_ID; those given for a while expire.",
    "credit": "The account is out of credit; top it up.",
    "quota": "What may be asked in a day is spent; resume once it is renewed, or have it raised.",
}
_ADVICE = {
    413: "The question is too long; shorten it.",
    429: "Lower concurrency or set requests_per_minute.",
}
_LOST_ANSWERS = frozenset((408, 499, 502, 504, 520, 522, 524))
"""What a gateway answers that did not wait for the model, which may have answered and is paid for."""
_CODES: dict[int, ErrorCode] = {
    401: "agentAuthenticationError",
    403: "agentAuthenticationError",
    408: "agentTimeout",
    429: "agentRateLimited",
    504: "agentTimeout",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the settings of an endpoint are called, for advice."""

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
    """The failures of one endpoint, named `where`; secrets of the environment and `secrets` are kept out of them."""

    where: str
    environment: Mapping[str, str]
    secrets: tuple[str, ...] = ()
    settings: Settings = MODEL

    def refused(self, status: int, retry_after: str | None, body: str, location: str | None = None) -> TargetError:
        """An HTTP status other than success."""
        if 300 <= status < 400:
            return self._redirected(status, location)
        wait = retry_seconds(retry_after)
        refusal = refusal_of(status, body, wait)
        passing = refusal == "" and (status in (408, 409, 429) or status >= 500)
        usual = "It may pass; ask again." if passing else "Check the question and its parameters."
        advice = self._own_advice.get(refusal or status) or _HOPELESS.get(refusal) or _ADVICE.get(status, usual)
        code = _CODES.get(status, "agentRequestFailed")
        if refusal in _HOPELESS:
            code = "agentAuthenticationError" if "key" in refusal else "agentRateLimited"
        return TargetError(
            code,
            f"{self.where} answered {status}: {self._error_text(body)}. {advice}",
            retryable=passing,
            retry_after=(pause_in(body) if wait is None else wait) if passing else None,
            status=status,
            unbilled=status not in _LOST_ANSWERS,
            hopeless=refusal in _HOPELESS and status != 401,  # which gateways say of one of their keys, now and then
        )

    @property
    def _own_advice(self) -> Mapping[int | str, str]:
        """What to do about a refusal or a status that has to do with settings."""
        own = self.settings
        return {
            "key": f"Check {own.refused_key}.",
            401: f"Check {own.key}.",
            403: own.rights,
            404: f"Check {own.name}.",
        }

    def blocked(self, status: int, body: str) -> Reply | None:
        """The empty answer that a provider's filter left of one, where that is why it refused.

        Others say it as an answer. Nobody states what it cost, and some providers charge for what they read.
        """
        if refusal_of(status, body) != "filter":
            return None
        said = f"{self.where} answered {status}: {self._error_text(body)}"
        return Reply(text="", finish_reason="content_filter", diagnostics={BLOCKED: said})

    def _redirected(self, status: int, location: str | None) -> TargetError:
        """An answer that sends one elsewhere, which is not followed: whoever is there would be given the key."""
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
        return TargetError("agentRequestFailed", message, status=status, unbilled=True)

    def unreadable(self, body: str) -> TargetError:
        """An answer that is no chat completion: servers under load send such now and then, a wrong address always."""
        wanted, address = self.settings.answer, self.settings.address
        message = f"{self.where} answered what is not {wanted}: {self._error_text(body)}. Check {address}."
        return TargetError("agentResponseUnparseable", message, retryable=True)

    def broken_off(self, body: str) -> TargetError:
        """An answer that was promised whole and broke off; of what came `body` may be empty, or not be known."""
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
            "agentRequestFailed", message, retryable=retryable, nobody_there=nobody_there, unbilled=not sent
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
