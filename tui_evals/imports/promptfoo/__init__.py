"""promptfoo's configuration, read as an eval document and written from one."""

from tui_evals.imports.promptfoo.importer import IMPORTER, Configuration, read_config, recognises
from tui_evals.imports.promptfoo.prompts import Prompt, Provider, prompty_text
from tui_evals.imports.promptfoo.writing import write_config

__all__ = [
    "IMPORTER",
    "Configuration",
    "Prompt",
    "Provider",
    "prompty_text",
    "read_config",
    "recognises",
    "write_config",
]
