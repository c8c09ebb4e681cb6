"""Pictures of panes, dialogs and empty places: `python -m tests.tui.snapshots [NAME…]` writes them."""

from __future__ import annotations

from pathlib import Path

from tests.pictures.camera import Shot
from tests.pictures.gallery import Gallery

_SMALL, _MEDIUM = (80, 24), (120, 40)
_CONVERSATION = ("1", "end", *["up"] * 10)
_OVERRIDING = ("1", *["down"] * 6)

_SHOTS = {
    # each pane where there is room for one
    "tree": Shot(_SMALL, ("1", "c", "down", "space", "space")),
    "editor": Shot(_SMALL, (*_OVERRIDING, "2")),
    "judges": Shot(_SMALL, (*_OVERRIDING, "3", "see:recorded", "down")),
    "results": Shot(_SMALL, ("4", "n")),
    "detail": Shot(_SMALL, ("4", "n", "5")),
    "runs": Shot(_SMALL, ("6", "see:■ finished", "down")),
    # two of them
    "writing": Shot(_MEDIUM, _CONVERSATION),
    "judging": Shot(_MEDIUM, (*_OVERRIDING, "3", "see:recorded", "m")),
    "looking": Shot(_MEDIUM, ("4", "n", "n", "n", "n")),
    "history": Shot(_MEDIUM, ("6", "see:■ finished", "space", "down")),
    "colours-16": Shot(_MEDIUM, ("4", "n", "n", "n", "n"), theme="ansi-dark"),
    # what comes over them
    "field": Shot(_SMALL, (*_OVERRIDING, "enter", "enter", "x")),
    "run-form": Shot(_SMALL, ("r", "see:of the judge")),
    "palette": Shot(_SMALL, ("colon", "d", "i")),
    "help": Shot(_SMALL, ("question_mark",)),
    "add-evaluator": Shot(_SMALL, ("down", "3", "see:recorded", "a")),
    "options": Shot(_SMALL, (*_OVERRIDING, "3", "see:recorded", "down", "enter")),
    "settings": Shot(_SMALL, ("comma",)),
    "compare": Shot(_SMALL, ("6", "see:■ finished", *["space"] * 4, "equals_sign", "see:broken", "n")),
    "charts": Shot(_SMALL, ("6", "see:■ finished", "equals_sign", "see:broken", "h", "see:pass rate")),
    "playground": Shot(
        _SMALL, ("P", "see:talking to", "Q", "L", "question_mark", "ctrl+j", "see:tokens"), "wishes-as-json"
    ),
    # where there is nothing yet
    "first": Shot(_MEDIUM, empty=True),
    "first-small": Shot(_SMALL, empty=True),
    "no-run": Shot(_SMALL, ("4",), empty=True),
    "no-runs": Shot(_SMALL, ("6",), empty=True),
}

GALLERY = Gallery(Path(__file__).parent, _SHOTS, "python -m tests.tui.snapshots")
