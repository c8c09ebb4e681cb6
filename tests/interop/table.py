"""The counts of every door that was compared with the real package, from what is recorded in the tests.

`python -m tests.interop.table` prints the table; it stands in tui_evals/help/formats.md too.
"""
