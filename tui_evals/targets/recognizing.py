"""Recognizes the target that a user names: a curl command, a URL, an OpenAPI file, a Python file or a model.

The result has answers to the questions of a beginning (`config_file.BEGINNINGS`), so that missing ones can be asked.
"""

from __future__ import annotations

import ast
import base64
import copy
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from tui_evals.light_records import dataclass
from tui_evals.project_files import read_text
from tui_evals.text.yamls import YamlError, load_yaml

from .base import ConfigurationError, references_in
from .config import is_model
from .config_model import is_secret_header, url_fault
from .model_table import full_name
from .providers import PROVIDERS, provider_of


@dataclass(frozen=True, slots=True)
class Recognized:
    """A kind of target with the settings that were found."""

    source: str
    """The beginning whose questions `said` answers."""
    said: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Keys that were typed, by the variables that are to hold them."""
    question: str = ""
    """The question in the example that it was recognized from."""
    note: str = ""


_QUESTIONS = ("prompt", "question", "message", "query", "input", "text", "content", "q", "utterance", "user_input")
"""Names of fields that hold the question, the most telling first."""
_SESSION = re.compile(r"(?:session|conversation|thread|chat)_?(?:id|key|token)?", re.IGNORECASE)
_ASKING = re.compile(r"chat|ask|message|quer|complet|agent|answer|generate|invoke|predict|reply|run", re.IGNORECASE)
_FUNCTIONS = ("answer", "chat", "ask", "reply", "respond", "run", "agent", "invoke", "predict", "main")
PROMPT, MESSAGES, SESSION = "{{ prompt }}", "{{ messages }}", "{{ session }}"
_KEY = "SERVICE_KEY"


def recognize(what: str, *, at: str | None = None) -> Recognized:
    """The target that a text names; `at` is the address of a service that a file describes. Raises ConfigurationError.

    Makes no network requests; `look_at` does that for an address.
    """
    what = what.strip()
    path, _, name = what.partition(":")
    if re.match(r"curl\s", what):
        return _from_curl(what)
    if what.startswith(("http://", "https://")):
        return _from_address(what)
    if path.endswith(".py"):
        return Recognized("python", {"at": what if name else f"{path}:{_function_of(Path(path))}"})
    if what.lower().endswith((".json", ".yaml", ".yml")):
        return service_of(_read_openapi(Path(what)), at)
    kind, _, rest = what.partition(":")
    if kind in ("python", "command", "a2a") and rest:
        return Recognized(kind, {"at": rest})
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", what) and not is_model(what):
        return Recognized("python", {"at": what})
    model = what if "/" in what or is_model(what) else full_name(what)
    if model is None or not is_model(model):
        raise ConfigurationError(
            f"{what[:80]!r} is not known. Give a URL, a curl command in quotes, an OpenAPI file (.json, .yaml), a "
            "Python file (agent.py or agent.py:answer), or a model such as anthropic/claude-haiku-4-5"
        )
    return _model(model)


def _model(model: str, **more: str) -> Recognized:
    known = PROVIDERS.get(provider_of(model))
    return Recognized("model", {"model": model, "key": next(iter(known.keys if known else ()), ""), **more})


def _from_address(url: str) -> Recognized:
    parts = urlsplit(url)
    if parts.path.endswith("/chat/completions"):
        return Recognized("openai", {"at": url.partition("/chat/completions")[0]})
    secrets = {}
    if url_fault(url) and not url_fault(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"):
        secrets, url = {"SERVICE_URL": url}, "env:SERVICE_URL"
    return Recognized("http", {"at": url}, secrets)


def look_at(found: Recognized, fetch: Callable[[str], Any]) -> Recognized:
    """The service at an address, from its own description; `fetch` gets the JSON of an address, or None.

    Requests its description (`/openapi.json`), its list of models and its agent card.
    """
    url = found.said.get("at", "")
    if found.source not in ("http", "openai") or not url.startswith("http") or len(found.said) > 1:
        return found
    parts = urlsplit(url)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if found.source == "http" and not path.endswith("/v1"):
        description = fetch(f"{origin}/openapi.json")
        if isinstance(description, dict) and (not path or path in (description.get("paths") or {})):
            return replace(service_of(description, url), note=f"described by {origin}/openapi.json")
    if found.source == "openai" or not path or path.endswith("/v1"):
        base = url.rstrip("/") if path else f"{origin}/v1"
        listed = fetch(f"{base}/models")
        models = listed.get("data") if isinstance(listed, dict) else None
        names = [str(each["id"]) for each in models or () if isinstance(each, dict) and each.get("id")]
        if names or path.endswith("/v1") or found.source == "openai":
            said = {"at": base, **({"model": names[0]} if len(names) == 1 else {})}
            return Recognized("openai", said, note=f"its models: {', '.join(names[:12])}" if names else "")
    card = fetch(f"{origin}/.well-known/agent-card.json") if not path else None
    if isinstance(card, dict) and card.get("name"):
        return Recognized("a2a", {"at": origin}, note=f"an agent: {card['name']}")
    return found


def _function_of(file: Path) -> str:
    """The name of the function in a file that answers; `answer` if the file does not exist yet."""
    try:
        tree = ast.parse(read_text(file, follow_out=True))
    except FileNotFoundError:
        return "answer"
    except (OSError, SyntaxError, ValueError) as problem:
        raise ConfigurationError(f"{file} cannot be read: {problem}") from None
    names = [one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    names = [name for name in names if not name.startswith("_")]
    known = next((name for name in _FUNCTIONS if name in names), None)
    if known is None and len(names) != 1:
        several = f"several functions: {', '.join(names)}" if names else "no function"
        raise ConfigurationError(f"{file} has {several}. Name the one that answers: {file}:NAME")
    return known or names[0]


# Options of curl that take a value, and headers that are set anew for each call.
_TAKES = re.compile(
    r"-[oAbeEmxwcT]|--(?:output|user-agent|referer|max-time|connect-timeout|proxy|cacert|cert|write-out)"
)
_DATA = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--json")
_DROPPED = re.compile(
    r"(?:sec-.*|accept.*|user-agent|referer|origin|host|content-length|content-type|connection|priority|dnt|pragma|"
    r"cache-control)",
    re.IGNORECASE,
)


def _from_curl(command: str) -> Recognized:
    try:
        words = shlex.split(re.sub(r"\\\r?\n", " ", command))[1:]
    except ValueError as problem:
        raise ConfigurationError(f"the curl command cannot be read: {problem}") from None
    url, method = "", ""
    headers: dict[str, str] = {}
    data: list[str] = []
    for option, value in _curl_options(words):
        if option in ("", "--url"):
            url = value if "://" in value else f"http://{value}"
        elif option in ("-X", "--request"):
            method = value.upper()
        elif option in ("-H", "--header"):
            name, _, text = value.partition(":")
            headers[name.strip()] = text.strip()
        elif option in ("-b", "--cookie"):
            headers["Cookie"] = value
        elif option in ("-u", "--user"):
            headers["Authorization"] = f"Basic {base64.b64encode(value.encode()).decode()}"
        elif option in _DATA:
            data.append(value)
        elif option in ("-F", "--form", "--data-urlencode", "-G", "--get"):
            raise ConfigurationError(f"curl {option} is not read. `tui-evals help targets` has forms and queries")
    if not url:
        raise ConfigurationError("the curl command has no URL")
    if any(text.startswith("@") for text in data):
        raise ConfigurationError("the curl command sends a file. Paste its JSON in place of @FILE")
    headers = {name: text for name, text in headers.items() if not _DROPPED.fullmatch(name)}
    return _of_request(url, method, headers, "&".join(data))


def _curl_options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Each option of curl with its value, a word without an option as the value of none."""
    takes_word = {"-X", "--request", "-H", "--header", "-b", "--cookie", "-u", "--user", "--url", "-F", "--form"}
    left = iter(words)
    for word in left:
        if not word.startswith("-") or word == "-":
            yield "", word
            continue
        option, is_joined, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        if option in takes_word or option in _DATA or option == "--data-urlencode" or _TAKES.fullmatch(option):
            yield option, value if is_joined else next(left, "")
        else:
            yield option, ""


def _of_request(url: str, method: str, headers: Mapping[str, str], data: str) -> Recognized:
    """The target that a request to it shows."""
    written, secrets = without_secrets(headers)
    if not data:
        asked = _in_query(url)
        if asked is None:
            raise ConfigurationError("the curl command sends no question. Paste one with a JSON body, -d '{…}'")
        said = {"at": asked[0], "method": method or "GET", "header": written}
        return Recognized("http", said, secrets, asked[1])
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise ConfigurationError("the curl command does not send a JSON object. `tui-evals help targets` has forms")
    at = _from_address(url)
    key = next(iter(secrets), next(iter(references_in(written)), ""))
    if isinstance(model := body.get("model"), str) and isinstance(body.get("messages"), list):
        question = _place_question(copy.deepcopy(body))[0]
        if at.source == "openai":
            return Recognized("openai", {**at.said, "model": model, "key": key}, secrets, question)
        if urlsplit(url).path.endswith("/v1/messages"):
            return _of_anthropic(url, model, secrets or dict.fromkeys(filter(None, [key]), ""), question)
    question, has_session = _place_question(body)
    said = {"at": at.said["at"], "header": written, "body": json.dumps(body, ensure_ascii=False)}
    said |= {"method": method} if method not in ("", "POST") else {}
    said |= {"session": "body"} if has_session else {}
    return Recognized("http", said, {**at.secrets, **secrets}, question)


def _of_anthropic(url: str, model: str, keys: Mapping[str, str], question: str) -> Recognized:
    base = url.partition("/v1/messages")[0]
    more = {} if urlsplit(url).hostname == "api.anthropic.com" else {"at": base}
    value = next(filter(None, keys.values()), "")
    secrets = {"ANTHROPIC_API_KEY": value} if value else {}
    found = _model(f"anthropic/{model}", **more)
    key = "ANTHROPIC_API_KEY" if secrets else next(iter(keys), "")
    return replace(found, said={**found.said, "key": key}, secrets=secrets, question=question)


def without_secrets(headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Headers as lines that name variables in place of keys, and the keys by their variables."""
    lines: list[str] = []
    secrets: dict[str, str] = {}
    for name, text in headers.items():
        text = re.sub(r"\$\{?([A-Za-z_]\w*)\}?", r"env:\1", text)
        if is_secret_header(name) and not references_in(text):
            scheme = re.match(r"(?:Bearer|Basic|Token|ApiKey)\s+", text, re.IGNORECASE)
            start = scheme.group() if scheme is not None else ""
            variable = f"{_KEY}_{len(secrets) + 1}" if secrets else _KEY
            secrets[variable] = text.removeprefix(start)
            text = f"{start}env:{variable}"
        lines.append(f"{name}: {text}")
    return "\n".join(lines), secrets


def _in_query(url: str) -> tuple[str, str] | None:
    """An address with the question in its query replaced, and that question."""
    head, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    name = next((hint for hint in _QUESTIONS if hint in dict(pairs)), None)
    if name is None:
        return None
    parts = [f"{key}={PROMPT}" if key == name else urlencode({key: value}) for key, value in pairs]
    return f"{head}?{'&'.join(parts)}", dict(pairs)[name]


def _place_question(body: MutableMapping[str, Any]) -> tuple[str, bool]:
    """Put the places of question and session into a body; the question it held, and whether it has a session."""
    has_session, texts = False, []
    for place, name in _leaves(body):
        if _SESSION.fullmatch(name) and not isinstance(place[name], bool):
            place[name], has_session = SESSION, True
        elif isinstance(place[name], str):
            texts.append((place, name))
    messages = body.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict) and "role" in messages[-1]:
        body["messages"] = MESSAGES
        content = messages[-1].get("content")
        return content if isinstance(content, str) else "", has_session
    ranked = sorted(texts, key=lambda leaf: (_rank(leaf[1]), -len(leaf[0][leaf[1]])))
    if not ranked:
        return "", has_session
    place, name = ranked[0]
    question, place[name] = place[name], PROMPT
    return question, has_session


def _leaves(value: Any) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    if isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    if isinstance(value, dict):
        for name, part in list(value.items()):
            if isinstance(part, dict | list):
                yield from _leaves(part)
            else:
                yield value, name


def _rank(name: str) -> int:
    return _QUESTIONS.index(name.lower()) if name.lower() in _QUESTIONS else len(_QUESTIONS)


def _read_openapi(file: Path) -> Mapping[str, Any]:
    try:
        text = read_text(file, follow_out=True)
        document = json.loads(text) if file.suffix.lower() == ".json" else load_yaml(text)
    except (OSError, ValueError, YamlError) as problem:
        raise ConfigurationError(f"{file} cannot be read: {problem}") from None
    if not isinstance(document, dict) or not isinstance(document.get("paths"), dict):
        raise ConfigurationError(f"{file} is not an OpenAPI description: it has no paths")
    return document


def service_of(document: Mapping[str, Any], at: str | None) -> Recognized:
    """The service of an OpenAPI description, by the operation that `at` names or the one that looks like asking."""
    wanted = urlsplit(at).path.rstrip("/") if at else ""
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items() if isinstance(methods, dict) else ():
            schema = _request_schema(document, operation) if method in ("post", "put", "patch") else None
            body = None if schema is None else _sample(document, schema)
            if isinstance(body, dict) and "{" not in path:
                _, has_session = _place_question(body)
                is_asking = bool(_ASKING.search(f"{path} {operation.get('operationId', '')}"))
                takes = any(mark in json.dumps(body) for mark in (PROMPT, MESSAGES))
                found.append((path, method, operation, body, has_session, is_asking + 2 * takes))
    at_path = [one for one in found if wanted and wanted.endswith(one[0].rstrip("/"))]
    best = max(at_path or found, key=lambda one: one[-1], default=None)
    if best is None or best[-1] < 2:
        raise ConfigurationError("the OpenAPI description has no operation that takes a question as JSON")
    path, method, operation, body, has_session, _ = best
    url = at if at and at_path else urljoin((at or _server_of(document)).rstrip("/") + "/", path.lstrip("/"))
    if not url.startswith("http"):
        raise ConfigurationError("the OpenAPI description does not say at which host. Add --at http://HOST:PORT")
    said = {"at": url, "header": _login(document, operation), "body": json.dumps(body, ensure_ascii=False)}
    said |= {"method": method.upper()} if method != "post" else {}
    said |= {"session": "body"} if has_session else {}
    others = [f"{one[1].upper()} {one[0]}" for one in found if one[0] != path and one[-1] >= 2]
    note = f"{method.upper()} {path} is asked" + (f"; --at names another: {', '.join(others[:6])}" if others else "")
    return Recognized("http", said, note=note)


def _server_of(document: Mapping[str, Any]) -> str:
    servers = document.get("servers") or [{}]
    return str(servers[0].get("url", "")) if isinstance(servers[0], dict) else ""


def _request_schema(document: Mapping[str, Any], operation: Any) -> Mapping[str, Any] | None:
    body = _resolved(document, operation.get("requestBody")) if isinstance(operation, dict) else None
    content = body.get("content") if isinstance(body, dict) else None
    media = (content or {}).get("application/json") if isinstance(content, dict) else None
    return _resolved(document, media.get("schema")) if isinstance(media, dict) else None


def _resolved(document: Mapping[str, Any], part: Any) -> Any:
    """A part of the description, with a reference within the document followed."""
    for _ in range(20):
        if not (isinstance(part, dict) and isinstance(part.get("$ref"), str)):
            return part
        found: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found.get(name) if isinstance(found, dict) else None
        part = found
    return None


_EMPTY: Mapping[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}


def _sample(document: Mapping[str, Any], schema: Any, depth: int = 0) -> Any:
    """A value that fits a schema: required fields, and fields for a question or a session."""
    schema = _resolved(document, schema)
    if not isinstance(schema, dict) or depth > 8:
        return ""
    for name in ("example", "default", "const"):
        if schema.get(name) is not None:
            return copy.deepcopy(schema[name])
    if schema.get("enum"):
        return schema["enum"][0]
    for name in ("allOf", "anyOf", "oneOf"):
        if isinstance(options := schema.get(name), list) and options:
            parts = [_sample(document, option, depth + 1) for option in (options if name == "allOf" else options[:1])]
            return {key: value for part in parts if isinstance(part, dict) for key, value in part.items()} or parts[0]
    properties = schema.get("properties")
    if isinstance(properties, dict):
        required = schema.get("required") or ()
        wanted = [name for name in properties if name in required or name in _QUESTIONS or _SESSION.fullmatch(name)]
        return {name: _sample(document, properties[name], depth + 1) for name in wanted}
    if schema.get("type") == "array":
        item = _sample(document, schema.get("items"), depth + 1)
        return [item] if isinstance(item, dict) else []
    kind = schema.get("type")
    return copy.deepcopy(_EMPTY.get(kind[0] if isinstance(kind, list) and kind else str(kind), ""))


def _login(document: Mapping[str, Any], operation: Mapping[str, Any]) -> str:
    """The headers of the login that an operation wants, as lines that name a variable."""
    wanted = operation.get("security", document.get("security")) or ()
    schemes = ((document.get("components") or {}).get("securitySchemes")) or {}
    for name in (name for each in wanted if isinstance(each, dict) for name in each):
        scheme = _resolved(document, schemes.get(name)) or {}
        if scheme.get("type") == "apiKey" and scheme.get("in") == "header":
            return f"{scheme.get('name')}: env:{_KEY}"
        if scheme.get("type") in ("http", "oauth2", "openIdConnect"):
            return f"Authorization: {str(scheme.get('scheme', 'bearer')).capitalize()} env:{_KEY}"
    return ""


def missing_field(received: str) -> str | None:
    """The field that a service reports as missing, as FastAPI and others do; None if there is none."""
    return next((match[1] for pattern in _MISSING if (match := pattern.search(received))), None)


_MISSING = (
    re.compile(r'"loc"\s*:\s*\[\s*"body"\s*,\s*"(\w+)"'),
    re.compile(r"[\"'`](\w+)[\"'`]\s+(?:is\s+)?(?:a\s+)?(?:required|missing)"),
    re.compile(r"(?:missing|required)\s+(?:field|parameter|property)\s*:?\s*[\"'`]?(\w+)", re.IGNORECASE),
)


def session_in(reply: Any, path: str = "$") -> str | None:
    """The path of a session id in a reply; None if no field has such a name."""
    if not isinstance(reply, dict):
        return None
    for name, value in reply.items():
        if _SESSION.fullmatch(name) and isinstance(value, str | int) and not isinstance(value, bool):
            return f"{path}.{name}"
    return next(filter(None, (session_in(part, f"{path}.{name}") for name, part in reply.items())), None)
