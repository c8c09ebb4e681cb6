"""Providers that are an address: their settings as those of an HTTP target here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from tui_evals.imports.losses import Losses
from tui_evals.targets.config_model import faults_in
from tui_evals.text import strictjson

from .files import Spot

_PATH = re.compile(r"(?:json|data|context\.response\.json)((?:\??\.[A-Za-z_]\w*|(?:\?\.)?\[\d+\])*)")
_FUNCTION = re.compile(r"\(?\s*json\s*(?:,[^)]*)?\)?\s*=>\s*")
_SESSION = re.compile(r"data\??\.body((?:\??\.[A-Za-z_]\w*|(?:\?\.)?\[\d+\])*)")
_ENVIRONMENT = re.compile(r"\{\{\s*env\.([A-Za-z_]\w*)\s*\}\}")


def is_service(written: str) -> bool:
    """Whether the id of a provider is an address, or says that one follows."""
    return written in ("http", "https") or written.startswith(("http://", "https://"))


def service_section(written: str, config: Spot | None, losses: Losses) -> dict[str, Any] | None:
    """The settings of a section that asks the same service; None where no address is given, or it cannot be asked."""
    http: dict[str, Any] = {"url": written if "://" in written else ""}
    query: Mapping[str, Any] = {}
    for key, part in config.members() if config is not None else ():
        match key, part.value:
            case ("url", str() as text):
                http["url"] = _ENVIRONMENT.sub(r"env:\1", text.strip())
            case ("method", str() as text):
                http["method"] = text.upper()
            case ("headers", dict() as headers):
                http["headers"] = dict(_headers(headers, part, losses))
            case ("body", dict() | list() | str() as body):
                http["body"] = _body(body)
            case ("queryParams", dict() as given):
                query = given
            case ("transformResponse" | "responseParser", str() as code):
                _follow(http, "answer", code, part, losses)
            case ("sessionParser", str() as code):
                _follow(http, "session", code, part, losses)
            case _:
                losses.left_out(f"{key} of the provider", part.where, "there is no equal")
    if not http["url"]:
        return None
    if query:
        pairs = "&".join(f"{quote(name)}={_in_query(str(value))}" for name, value in query.items())
        http["url"] += ("&" if "?" in http["url"] else "?") + pairs
    http["url"] = _template(http["url"])
    where = config.where if config is not None else ""
    for fault in faults_in({"targets": {"t": {"http": http}}}).values():
        losses.left_out(f"the provider {written}", where, fault.replace("targets.t.", ""))
        return None
    return {"http": {name: value for name, value in http.items() if value}}


def _template(text: str) -> str:
    """A text with its templates in the words of those here."""
    renamed = re.sub(r"\{\{(.*?)\}\}", lambda match: match[0].replace("sessionId", "session"), text, flags=re.DOTALL)
    return re.sub(r"\|\s*dump\b", "| tojson", renamed)


def _body(value: Any) -> Any:
    """A body as a table where it is one, also where it was written as the text of one."""
    if isinstance(value, str):
        try:
            parsed = strictjson.loads(value)
        except strictjson.JsonError:
            return _template(value)
        return _body(parsed) if isinstance(parsed, dict | list) else _template(value)
    if isinstance(value, dict):
        return {name: _part(part) for name, part in value.items() if part is not None}
    return [_part(part) for part in value]


def _part(value: Any) -> Any:
    if isinstance(value, str):
        return _template(value)
    return _body(value) if isinstance(value, dict | list) else value


def _headers(headers: Mapping[str, Any], spot: Spot, losses: Losses) -> Iterator[tuple[str, str]]:
    for name, value in headers.items():
        text = _template(_ENVIRONMENT.sub(r"env:\1", str(value)))
        if faults_in({"targets": {"t": {"http": {"url": "http://x", "headers": {name: text}}}}}):
            losses.left_out(f"the header {name}", spot.where, "keys are not kept; name a variable: env:NAME")
        else:
            yield name, text


def _in_query(text: str) -> str:
    return text if "{{" in text else quote(text)


def _follow(http: dict[str, Any], setting: str, code: str, spot: Spot, losses: Losses) -> None:
    """The JSON path that a piece of code follows, where it does nothing else."""
    bare = _FUNCTION.sub("", code.strip().rstrip(";"))
    match = (_SESSION if setting == "session" else _PATH).fullmatch(bare)
    if match:
        http[setting] = "$" + match[1].replace("?.[", "[").replace("?", "")
    elif not (setting == "answer" and bare == "text"):
        losses.left_out(f"{code[:60]!r}", spot.where, f"it is code; write {setting} as a JSON path")
