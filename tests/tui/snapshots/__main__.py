"""Writes the pictures anew: all, or those that are named."""

import sys

from tests.tui.snapshots import GALLERY

GALLERY.make(sys.argv[1:])
