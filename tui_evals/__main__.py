"""The two doors: the command line, and the workbench when nothing is asked of it."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    from tui_evals.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
