"""Named suites: cases bound to one way of scoring, and the named runs over them."""
