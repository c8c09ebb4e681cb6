"""The six panes."""
