"""From the settings of tools to their sources, and what keeps these from being used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tui_evals.targets.base import ConfigurationError, ToolSettings

from .functions import FunctionTools, module_name
from .mcp import McpServer, check_server
from .source import ToolSource


def open_sources(
    settings: ToolSettings, environment: Mapping[str, str], root: Path, timeout: float
) -> list[ToolSource]:
    """The sources of some settings; none of them is started yet."""
    sources: list[ToolSource] = []
    if settings.functions is not None:
        sources.append(FunctionTools(settings.functions, root))
    sources += [McpServer(address, settings.headers, environment, root, timeout) for address in settings.mcp]
    return sources


def check_sources(settings: ToolSettings, environment: Mapping[str, str], root: Path) -> None:
    """ConfigurationError says what keeps the tools from being used; nothing is started, imported or asked."""
    if settings.functions is not None and settings.functions.endswith(".py"):
        module_name(settings.functions)
        if not (root / settings.functions).is_file():
            raise ConfigurationError(f"there is no file {settings.functions} in {root}, which should hold the tools")
    for address in settings.mcp:
        check_server(address, settings.headers, environment, root)
