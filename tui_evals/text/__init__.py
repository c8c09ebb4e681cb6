"""Text that can be trusted: on a screen, in a template, as JSON, YAML, a JSON path or a pattern."""
