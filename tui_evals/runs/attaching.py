"""Files that go along with a question, put into it just before it is sent: stored and hashed are only their names."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui_evals.datasets.attachments import PART, CannotAttach, digest, is_text_type, media_type, read_attachment
from tui_evals.targets.base import AttachedFile, Request, TargetError


def has_files(request: Request) -> bool:
    """Whether files go along with a question."""
    for message in request.messages:
        content = message.get("content")
        if not isinstance(content, str) and isinstance(content, list | tuple) and any(map(_is_file, content)):
            return True
    return False


def with_files(request: Request, folder: Path | None) -> Request:
    """The question with its files, also in the form of the chat protocol; TargetError where one is gone or changed."""
    files: list[AttachedFile] = []
    messages: list[Mapping[str, Any]] = []
    try:
        for message in request.messages:
            if message.get("role") == "assistant":
                files = []
            content = message.get("content")
            if isinstance(content, list | tuple) and any(map(_is_file, content)):
                read = {number: _read(part, folder) for number, part in enumerate(content) if _is_file(part)}
                parts = [_chat_part(read[number]) if number in read else part for number, part in enumerate(content)]
                message = {**message, "content": parts}
                files += read.values()
            messages.append(message)
    except CannotAttach as problem:
        raise TargetError("agentRequestFailed", f"a file cannot go along: {problem}", unbilled=True) from None
    return replace(request, messages=tuple(messages), attachments=tuple(files))


def _is_file(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") == PART and "path" in part


def _read(part: Mapping[str, Any], folder: Path | None) -> AttachedFile:
    name = part["path"]
    if folder is None:
        raise CannotAttach(f"{name!r} belongs to a dataset, and goes along in its runs only")
    content = read_attachment(folder, name)
    if part.get("sha256") != digest(content):
        raise CannotAttach(f"{name!r} has changed since the run was planned; put it back as it was, or start a new run")
    return AttachedFile(Path(name).name, media_type(name, content), content)


def _chat_part(file: AttachedFile) -> dict[str, Any]:
    """A file as a part of a chat message: pictures and PDFs as data URLs, sounds by their bytes, texts as they are."""
    kind = file.media_type
    if is_text_type(kind):
        return {"type": "text", "text": f"{file.name}:\n{file.content.decode('utf-8')}"}
    written = base64.b64encode(file.content).decode("ascii")
    if kind.startswith("audio/"):
        form = "mp3" if kind == "audio/mpeg" else "wav"
        return {"type": "input_audio", "input_audio": {"data": written, "format": form}}
    url = f"data:{kind};base64,{written}"
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": file.name, "file_data": url}}
