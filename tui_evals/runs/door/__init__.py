"""A loopback server that agents ask instead of a provider, so that a run records, prices and caches their calls."""
