"""Writes the pictures anew: all, or those that are named."""

import sys

from . import GALLERY

GALLERY.make(sys.argv[1:])
