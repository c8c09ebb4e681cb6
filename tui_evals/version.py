"""The version of tui_evals, which packaging, `--version` and the library read here."""

__version__ = "0.2.0"
