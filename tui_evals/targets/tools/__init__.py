"""Where the tools come from that the engine calls for an agent: Python functions of the project, and MCP servers."""
