"""Metrics of evaluation libraries that are installed in a Python of the user's choice."""
