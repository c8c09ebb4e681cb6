"""The one database between a run and its watchers."""
