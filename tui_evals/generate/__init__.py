"""From a prompt to its rules, its tests and its ground truth."""
