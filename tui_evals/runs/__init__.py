"""Asking and judging: from a dataset to cells, from cells to records."""
