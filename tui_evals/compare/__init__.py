"""Differences between two texts, and between runs."""
