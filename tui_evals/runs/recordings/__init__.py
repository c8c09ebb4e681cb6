"""Recordings of other tools, and our own results files, as finished runs: one module for each door."""
