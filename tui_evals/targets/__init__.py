"""Targets, which answer: models, recorded answers, functions and commands."""
