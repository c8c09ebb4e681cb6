"""The library: evaluating from Python, with the same core, store and evaluators as the command line."""
