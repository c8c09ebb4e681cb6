"""Runs that PromptPex made: read from its files into a dataset and a stored run."""
