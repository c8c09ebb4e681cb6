"""A zoo of hostile clones: made by a seed, shown by every command and screen, and watched.

`clones` makes them of `animals` (a file of a project, and what is wrong with it), `commands` shows them, and `watch`
holds the law: what is only shown starts no process, makes no connection, reads and writes nothing outside the project,
ends within five seconds and 300 MB, and puts no foreign control byte on the terminal.
`python -m tests.hostile.zoo --clones 5000 --seed N` goes on for longer than the tests do.
"""
