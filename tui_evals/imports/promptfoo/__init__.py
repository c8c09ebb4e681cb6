"""promptfoo's configuration, read as an eval document and written from one."""

from .prompts import Prompt, Provider, prompty_text
from .reading import Imported, read_config, recognises
from .writing import write_config

__all__ = ["Imported", "Prompt", "Provider", "prompty_text", "read_config", "recognises", "write_config"]
