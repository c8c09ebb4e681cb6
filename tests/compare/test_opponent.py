"""Which run a single one is compared with."""

from tests.compare.helpers import run
from tui_evals.compare.trend import default_opponent

EARLY, CUT, HERE, LATE = (
    run(id=number, status=status) for number, status in enumerate(("finished", "interrupted", "finished", "finished"))
)
OTHERS = (LATE, HERE, CUT, EARLY)


def test_the_baseline_comes_first_then_the_parent_then_the_finished_run_before():
    assert default_opponent(HERE, LATE, EARLY, OTHERS) == (LATE, "baseline")
    assert default_opponent(HERE, None, CUT, OTHERS) == (CUT, "parent")
    assert default_opponent(HERE, None, None, OTHERS) == (EARLY, "before")


def test_the_baseline_itself_has_another_opponent():
    assert default_opponent(HERE, HERE, None, OTHERS) == (EARLY, "before")
    assert default_opponent(EARLY, EARLY, None, OTHERS) is None
