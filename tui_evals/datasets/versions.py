"""What is known of the eval document format without its model: the version that is written, the roles of messages."""

from typing import Literal

CURRENT_VERSION = "1.11.0"

Role = Literal["system", "user", "assistant", "tool"]
