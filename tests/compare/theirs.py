"""What other packages reckon, loaded when a test first asks for it: every worker collects all tests and few need it."""

import pkgutil
import warnings
from typing import Any

_WHERE = {
    "numpy": "numpy",
    "stats": "scipy.stats",
    "minimize": "scipy.optimize:minimize",
    "mcnemar": "statsmodels.stats.contingency_tables:mcnemar",
    "multipletests": "statsmodels.stats.multitest:multipletests",
    "cohens_kappa": "statsmodels.stats.inter_rater:cohens_kappa",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of while they load is not ours
        return pkgutil.resolve_name(_WHERE[name])
