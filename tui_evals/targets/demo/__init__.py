"""The demo target: a script in the place of a model."""
