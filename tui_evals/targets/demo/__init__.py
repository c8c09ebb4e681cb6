"""The demo target: recorded replies and a few rules in the place of a model."""
