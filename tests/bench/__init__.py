"""Benchmarks: they print figures and assert nothing. The projects they write are their own and need no yes."""

import os

os.environ.setdefault("TUI_EVALS_TRUST", "all")
