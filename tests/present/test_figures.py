"""Numbers as people read them."""

from hypothesis import given
from hypothesis import strategies as st

from tests.present.rows import an_answer
from tui_evals.present.figures import file_size, mean_text, short_number, universal_time
from tui_evals.text.measures import compact, duration, money, number, tokens


def test_money_keeps_as_many_decimals_as_tell_something():
    amounts = (0, 0.000001, 0.0012, 0.5, 12.345, 1234.5)
    assert [money(amount) for amount in amounts] == ["$0", "<$0.0001", "$0.0012", "$0.500", "$12.35", "$1,234.50"]


def test_durations_and_counts_are_short_and_never_round_into_a_wrong_unit():
    spans = (0, 0.9996, 9.96, 59.96, 3599.6, 86_400)
    assert [duration(span) for span in spans] == ["0 ms", "1.0 s", "10 s", "1m 00s", "1h 00m", "24h 00m"]
    counts = [compact(count) for count in (None, 0, 999, 1000, 9_960, 999_499, 999_999)]
    assert counts == ["?", "0", "999", "1.0k", "10k", "999k", "1.0M"]


@given(st.floats(0, 1e8), st.integers(0, 10**14), st.floats(-1e6, 1e6))
def test_figures_fit_their_columns(seconds, count, score):
    assert len(duration(min(seconds, 3e7))) <= 8
    assert len(compact(count)) <= 4
    assert len(number(score)) <= 7


@given(st.integers(0, 2 * 10**12) | st.sampled_from([10**n - k for n in (3, 6, 9) for k in (0, 1, 50, 51)]))
def test_the_size_of_a_file_is_close_and_in_the_unit_that_makes_it_short(count):
    shown, unit = file_size(count).split()
    size = {"byte": 1, "bytes": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}[unit]
    assert abs(float(shown) * size - count) <= 0.0501 * size * (size > 1)
    assert (unit == "byte") == (count == 1)
    assert (size == 1 or float(shown) >= 1) and (unit == "GB" or float(shown) < 1000)


def counted(read, written, cached=0, thought=0):
    return tokens(an_answer(input_tokens=read, output_tokens=written, cached_tokens=cached, reasoning_tokens=thought))


def test_what_is_not_known_is_not_said():
    assert (counted(None, None), counted(3, None), counted(1000, 2)) == (
        "",
        "3 tokens in, 0 out",
        "1,000 tokens in, 2 out",
    )
    assert counted(1000, 200, 400, 120) == "1,000 tokens in (400 cached), 200 out (120 thinking)"
    assert (short_number(None), short_number(0.5), short_number(100.0), mean_text(None)) == ("", "0.5", "100", "n/a")
    assert (universal_time(None), universal_time(0)) == ("", "1 Jan 1970, 00:00 UTC")
