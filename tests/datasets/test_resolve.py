"""Resolution invents no evaluator and loses none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets.resolve import SYSTEM_DEFAULTS, EffectiveEvaluator, effective_evaluators

names = st.sampled_from(["Relevance", "Coherence", "Equals", "Citations", "Mine"])
maps = st.none() | st.dictionaries(names, st.dictionaries(st.sampled_from(["threshold", "type"]), st.text(max_size=2)))
modes = st.sampled_from([None, "extend", "replace"])


@given(maps, maps, modes, st.sampled_from(["item", "turn"]))
def test_nothing_is_invented_and_nothing_lost(defaults, own, mode, origin):
    by_key = {entry.key: entry for entry in effective_evaluators(defaults, own, mode, origin)}
    base = SYSTEM_DEFAULTS if defaults is None else defaults
    kept = {} if own is not None and mode == "replace" else base
    assert set(by_key) == set(kept) | set(own or {})
    for key, entry in by_key.items():
        if own and key in own:
            assert (entry.options, entry.origin) == (own[key], origin)
            assert entry.overridden == kept.get(key)
        else:
            assert (entry.options, entry.overridden) == (base[key], None)
            assert entry.origin == ("system" if defaults is None else "dataset")


@given(maps, maps, modes)
def test_defaults_come_first_in_their_order(defaults, own, mode):
    keys = [entry.key for entry in effective_evaluators(defaults, own, mode, "item")]
    assert len(keys) == len(set(keys))
    if not (own is not None and mode == "replace"):
        base = list(SYSTEM_DEFAULTS if defaults is None else defaults)
        assert keys[: len(base)] == base


@pytest.mark.parametrize(
    ("defaults", "own", "mode", "keys"),
    [
        ({}, None, None, []),
        ({}, {}, "replace", []),
        (None, {}, "replace", []),
        (None, None, "replace", ["Relevance", "Coherence"]),
        ({"Equals": {}}, {}, None, ["Equals"]),
    ],
)
def test_present_and_empty_means_none(defaults, own, mode, keys):
    assert [entry.key for entry in effective_evaluators(defaults, own, mode, "item")] == keys


def test_a_label_names_its_evaluator_by_type():
    entry = EffectiveEvaluator("strict", {"type": "Equals", "value": "x"}, "item")
    assert (entry.evaluator, entry.settings) == ("Equals", {"value": "x"})
