"""The two doors: the command line, and the workbench when nothing is asked of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_evals.cli.opening import Opening


def main() -> None:
    """Run the command line, and open the workbench if that is what it asks for."""
    from tui_evals.cli.main import run

    found = run(sys.argv[1:])
    sys.exit(found if isinstance(found, int) else _workbench(found))


def _workbench(opening: Opening) -> int:
    """Open the workbench; what is left to say when it is gone is said here, for it prints nothing itself."""
    from tui_evals.cli.output import say
    from tui_evals.tui.door import open_workbench

    code, left = open_workbench(
        opening.root, dataset=opening.dataset, run=opening.run, mouse=opening.mouse, database=opening.database
    )
    if left:
        say(left, err=code != 0)
    if opening.demo:
        say(f"the sample project stays in {opening.root}; delete the folder when you are done with it")
    return code


if __name__ == "__main__":
    main()
