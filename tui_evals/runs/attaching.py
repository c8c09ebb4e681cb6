"""Files that go along with a question, put into it just before it is sent: stored and hashed are only their names."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.attachments import PART, CannotAttach, digest, media_type, read_attachment
from tui_evals.targets.base import Request, TargetError


def has_files(request: Request) -> bool:
    """Whether files go along with a question."""
    for message in request.messages:
        content = message.get("content")
        if not isinstance(content, str) and isinstance(content, list | tuple) and any(map(_is_file, content)):
            return True
    return False


def with_files(request: Request, folder: Path | None) -> Request:
    """The question with its files in the form of the chat protocol; TargetError where one is gone or has changed."""
    try:
        return replace(request, messages=tuple(_filled(message, folder) for message in request.messages))
    except CannotAttach as problem:
        raise TargetError("agentRequestFailed", f"a file cannot go along: {problem}", unbilled=True) from None


def _is_file(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") == PART and "path" in part


def _filled(message: Mapping[str, Any], folder: Path | None) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, list | tuple) or not any(map(_is_file, content)):
        return message
    return {**message, "content": [_sent(part, folder) if _is_file(part) else part for part in content]}


def _sent(part: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """A file as a part of a chat message: pictures and PDFs as data URLs, sounds by their bytes, texts as they are."""
    name = part["path"]
    if folder is None:
        raise CannotAttach(f"{name!r} belongs to a dataset, and goes along in its runs only")
    content = read_attachment(folder, name)
    if part.get("sha256") != digest(content):
        raise CannotAttach(f"{name!r} has changed since the run was planned; put it back as it was, or start a new run")
    kind, last = media_type(name, content), Path(name).name
    if kind.startswith("text/") or kind == "application/json":
        return {"type": "text", "text": f"{last}:\n{content.decode('utf-8')}"}
    written = base64.b64encode(content).decode("ascii")
    if kind.startswith("audio/"):
        form = "mp3" if kind == "audio/mpeg" else "wav"
        return {"type": "input_audio", "input_audio": {"data": written, "format": form}}
    url = f"data:{kind};base64,{written}"
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": last, "file_data": url}}
