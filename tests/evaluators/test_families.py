"""An evaluator is declared once, in its class; its module is found without importing the others."""

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import tui_evals.evaluators
from tui_evals.evaluators import registry
from tui_evals.evaluators.base import Evaluator


def test_every_class_with_a_name_is_found_in_its_module():
    declared = {}
    for module in iter_modules(tui_evals.evaluators.__path__):
        holder = import_module(f"tui_evals.evaluators.{module.name}")
        for kind in vars(holder).values():
            if isinstance(kind, type) and issubclass(kind, Evaluator) and "name" in vars(kind):
                declared |= dict.fromkeys((kind.name, *kind.aliases), kind)
    assert dict(registry.built_in()) == declared
    assert all(registry.family(kind.__module__.rpartition(".")[2])[name] is kind for name, kind in declared.items())


def test_one_evaluator_is_found_without_importing_the_others():
    code = (
        "import sys; from tui_evals.evaluators.registry import built_in\n"
        "known = built_in(); assert 'FuzzyMatch' in known and 'EXACT_MATCH' in known; known['Latency']\n"
        "print(*(name for name in sys.modules if name.startswith('tui_evals.evaluators.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name.removeprefix("tui_evals.evaluators.") for name in done.stdout.split()}
    modules = set(registry._modules().values())
    assert imported & modules == {registry._modules()["Latency"]}
