"""Parameters that an eval suggests: under what is configured, and shared where a target both answers and judges."""

from hypothesis import given
from hypothesis import strategies as st

from tui_evals.runs.judges import suggested
from tui_evals.targets.base import TargetConfig
from tui_evals.targets.config import Settings

LENGTHS = {"max_tokens", "max_completion_tokens"}
VALUES = {"temperature": (0, 0.5), "seed": (1, 2), "max_tokens": (50, 99), "max_completion_tokens": (60,)}
PARAMS = st.dictionaries(st.sampled_from([*VALUES]), st.integers(0, 1)).map(
    lambda chosen: {name: VALUES[name][place % len(VALUES[name])] for name, place in chosen.items()}
)


def params_of(word, configured, answering, judging, targets, judge):
    target = TargetConfig(name=word, model="openai/gpt-4o", params=configured)
    document = {"extensions": {"openai_evals": {"params": answering | {"logprobs": 5}, "judge_params": judging}}}
    return suggested(Settings(targets={word: target}), document, targets, judge).targets[word].params


def free(wanted, configured):
    """What is left of wanted parameters where some are configured."""
    taken = {*configured} | (LENGTHS if LENGTHS & {*configured} else set())
    return {name: value for name, value in wanted.items() if name not in taken}


@given(PARAMS, PARAMS, PARAMS)
def test_what_is_configured_holds_and_the_role_of_a_target_says_what_is_added(configured, answering, judging):
    for targets, judge, wanted in (
        (("main",), None, answering),
        ((), "main", judging),
        (("main",), "main", {name: value for name, value in answering.items() if judging.get(name, value) == value}),
    ):
        found = params_of("main", configured, answering, judging, targets, judge)
        assert found == free(wanted, configured) | configured
