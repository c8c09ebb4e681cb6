"""The workbench under load: `python -m tests.bench.screen [--only paint live] [--tries 3] [--seconds 10]`.

Each line is the median of the tries, between the least and the most of them. Other work on the machine makes tries
slower and never faster, so the least says most where others work beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable

from tests.bench import screen_edits, screen_pane, screen_program


def paint(chosen: argparse.Namespace) -> None:
    for count in (1_000, 10_000):
        screen_program.paint(count, chosen.tries)


def idle(chosen: argparse.Namespace) -> None:
    screen_program.idle(chosen.seconds)


def wire(chosen: argparse.Namespace) -> None:
    for size in ((80, 24), (120, 40), (160, 45), (220, 60)):
        screen_program.wire(size)


def live(chosen: argparse.Namespace) -> None:
    screen_program.live(chosen.rows, chosen.rate, chosen.seconds, chosen.tries)


def held(chosen: argparse.Namespace) -> None:
    screen_program.held(chosen.rows)


def typed(chosen: argparse.Namespace) -> None:
    screen_program.typed(20_000)


def answer(chosen: argparse.Namespace) -> None:
    screen_program.answer(chosen.tries)


def diff(chosen: argparse.Namespace) -> None:
    screen_program.diff(chosen.tries)


def opened(chosen: argparse.Namespace) -> None:
    asyncio.run(screen_pane.opening(chosen.rows))


def edits(chosen: argparse.Namespace) -> None:
    for count in (10_000, 20_000):
        screen_edits.edits(count, chosen.edits)


SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "paint": paint,
    "idle": idle,
    "wire": wire,
    "live": live,
    "held": held,
    "typed": typed,
    "answer": answer,
    "diff": diff,
    "open": opened,
    "edits": edits,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="answers of the run that is opened, or goes on")
    parser.add_argument("--rate", type=float, default=100.0, help="results a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long CPU and wire are counted")
    parser.add_argument("--edits", type=int, default=500, help="copies and undos in a large dataset")
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[*SECTIONS], default=[*SECTIONS])
    chosen = parser.parse_args()
    for name in chosen.only:
        print(f"-- {name}, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        SECTIONS[name](chosen)


if __name__ == "__main__":
    main()
