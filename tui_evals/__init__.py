"""A terminal workbench and command line for evaluating language-model prompts and agents."""

__version__ = "0.1.0"
