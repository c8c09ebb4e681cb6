"""The evaluators: one small class for each, one registry, one record."""
