"""The version of tui_evals."""

__version__ = "0.1.0"
