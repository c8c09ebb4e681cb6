"""The first script of a Python that runs approved code: short, because a script is compiled at each start."""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    is_plain = sys.path[:1] == [FOLDER]
    sys.path[:1] = [FOLDER, *([] if is_plain else sys.path[:1])]
    from sealed_imports import main  # type: ignore[import-not-found]

    del sys.path[0]
    main(is_plain)
