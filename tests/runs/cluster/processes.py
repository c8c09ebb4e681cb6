"""Whether other processes live, and patience for them."""

import time

PATIENCE = 60.0


def alive(pid):
    """Whether a process runs (one that only waits for its parent to look does not)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)
