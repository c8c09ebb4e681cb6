"""Generates rules, tests and ground truth from a prompt."""
