"""A report of one run as a page: the answers that lie packed in it are read back as the run."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from pathlib import Path

from tui_evals.datasets.paths import DatasetError, Problem
from tui_evals.imports.base import Losses
from tui_evals.project_files import read_bytes

from .base import Importer
from .keeping import LARGEST, keep_run, text_of
from .recording import Recording
from .results_jsonl import read_lines

_ENDINGS = (".html", ".htm")
_MARK = '<script type="application/gzip" id="answers">'
_PACKED = re.compile(re.escape(_MARK) + r"([A-Za-z0-9+/]*={0,2})</script>")


def recognises(path: Path) -> bool:
    """Whether a file is a page that holds the answers it shows."""
    return path.suffix.lower() in _ENDINGS and path.is_file() and _has_answers(path)


def _has_answers(path: Path) -> bool:
    return _MARK.encode() in read_bytes(path, most=LARGEST, follow_out=True)


def read(path: Path) -> tuple[Recording, Losses]:
    """The run of a page; DatasetError says why there is none in it."""
    packed = _PACKED.findall(text_of(path))
    if not packed:
        what = "holds no answers; a page of a comparison, or of a very large run, has none: `export --to jsonl` has"
        raise DatasetError(str(path), [Problem(what)])
    try:
        squeezed = zlib.decompressobj(31)
        data = squeezed.decompress(base64.b64decode(packed[-1], validate=True), LARGEST)
    except (zlib.error, binascii.Error):
        raise DatasetError(str(path), [Problem("the answers packed in it are damaged")]) from None
    if not squeezed.eof:
        raise DatasetError(str(path), [Problem("the answers packed in it are cut off, or larger than 1 GiB")])
    recordings, losses = read_lines(path, data.decode("utf-8", "replace"))
    return recordings[0], losses


IMPORTER = Importer(
    kind="report",
    about="a report of one run as a page (.html)",
    recognises=recognises,
    read=lambda request: keep_run(request, read),
    recordings=lambda request: (read(request.path)[0],),
    order=74,
)
