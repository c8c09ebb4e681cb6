"""The two entry points: the command line, and the workbench without a command."""

from __future__ import annotations

import gc
import os
import sys


def _search_no_working_folder() -> None:
    """Take the working folder from the places of imports, unless PYTHONPATH names it: it may be untrusted.

    `python -m` puts it there, and so does an empty entry of PYTHONPATH, as in `PYTHONPATH=$PYTHONPATH:/mine`.
    """
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        folder = ""
    if __name__ == "__main__" and not sys.flags.safe_path and sys.path[0] in ("", folder):
        del sys.path[0]
    given = os.environ.get("PYTHONPATH", "")
    named = [place for place in given.split(os.pathsep) if place]
    if given and os.pathsep.join(named) != given and not sys.flags.ignore_environment:
        os.environ["PYTHONPATH"] = os.pathsep.join(named)  # the children of this process read it as well
        if folder not in map(os.path.abspath, named):
            sys.path[:] = [place for place in sys.path if place not in ("", folder)]


_search_no_working_folder()  # before anything else is imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tui_evals.cli.opening import Opening


def main() -> None:
    """Run the command line, and open the workbench if it asks for that."""
    from tui_evals.cli.main import run
    from tui_evals.cli.output import print_what_the_locale_can, say_mistakes_safely
    from tui_evals.files import raise_limit
    from tui_evals.garbage import MANY
    from tui_evals.interpreter import forbid_core_dumps

    gc.set_threshold(MANY)  # imported modules stay, so searching them for garbage is useless
    forbid_core_dumps()
    raise_limit()
    print_what_the_locale_can()
    say_mistakes_safely()
    found = run(sys.argv[1:])
    sys.exit(found if isinstance(found, int) else _workbench(found))


def _workbench(opening: Opening) -> int:
    """Open the workbench, and print its last message after it has closed."""
    from tui_evals.cli.output import say
    from tui_evals.tui.launch import open_workbench

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
