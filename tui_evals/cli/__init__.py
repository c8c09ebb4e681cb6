"""The command line: one module per group of commands, imported on first use."""
