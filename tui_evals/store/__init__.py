"""What is remembered: the one database between a run and whoever watches it."""
