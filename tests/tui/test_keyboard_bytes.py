"""What a terminal sends means the same in however many pieces it comes; the clock decides where nothing follows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual import events
from textual.message import Message

from tui_evals.tui.keyboard import AltKey, Keyboard

SEQUENCES = (
    *("\x1b[A", "\x1b[D", "\x1b[1;5C", "\x1bOP", "\x1bOA", "\x1b[3~", "\x1b[Z", "\x1b[[A", "\x1b[7$", "\x1b[97;5u"),
    *("\x1b[<35;20;10M", "\x1b[<0;7;3m", "\x1b[<64;7;3M", "\x1b[I", "\x1b[O", "\x1b[12;40R", "\x1b[?62;22c"),
    *("\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\", "\x1b]11;rgb:0000/0000/0000\x07", "\x1b[?2026;2$y", "\x1b[48;24;80;480;800t"),
    *("\x1b[200~a \x1b[A q\x1b[20é\r\x1b[201~", "\x1b[200~\x1b[201~", "\x1b[M !!", "\x1b[?1u", "\x1b[1114112;5u"),
    *("\x1b[1;2", "\x1b]11;rgb", "\x1b[200~open", "\x1bO5", "\x1b[", "\x1bO", "\x1b]"),
)
piece = st.one_of(
    st.sampled_from(SEQUENCES).map(str.encode),
    st.sampled_from(["\x1b", "q", "A", "[", "O", "]", "é", "漢", "🙂", "\r", "\t", "\x7f", " "]).map(str.encode),
    st.binary(max_size=4),
)


def said(message: Message) -> tuple[object, ...]:
    match message:
        case events.Key():
            return ("key", message.key, message.character)
        case events.Paste():
            return ("paste", message.text)
        case events.MouseEvent():
            return (type(message).__name__, message.x, message.y, message.button)
        case events.Resize():
            return ("size", message.size)
        case events.CursorPosition():
            return ("at", message.x, message.y)
    return (type(message).__name__,)


def told(*pieces: bytes, keyboard: Keyboard | None = None) -> list[tuple[object, ...]]:
    keyboard = keyboard or Keyboard()
    return [said(message) for piece in pieces for message in keyboard.feed(piece)]


def keys(*pieces: bytes) -> list[str]:
    """The keys of some pieces, with as long a pause behind the last one as it takes."""
    keyboard = Keyboard()
    messages = [message for piece in pieces for message in keyboard.feed(piece)]
    while keyboard.patience is not None:
        messages += keyboard.waited()
    return [message.key if isinstance(message, events.Key) else type(message).__name__ for message in messages]


@pytest.mark.nightly
@pytest.mark.story
@settings(max_examples=200, deadline=None)
@given(st.lists(piece, max_size=8).map(b"".join), st.data())
def test_a_stream_means_the_same_however_it_is_split(stream, data):
    whole = told(stream)
    assert told(*(bytes([byte]) for byte in stream)) == whole
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=4)))
    assert told(*(stream[one:two] for one, two in zip([0, *cuts], [*cuts, len(stream)], strict=True))) == whole


def test_every_sequence_split_anywhere_is_what_it_is_whole_and_nothing_of_it_is_typed():
    for sequence in (one.encode() for one in SEQUENCES[:24]):
        whole = told(sequence, b"x")
        assert whole[-1] == ("key", "x", "x") and sum(one[0] == "key" for one in whole) <= 2, sequence
        for cut in range(len(sequence)):
            assert told(sequence[:cut], sequence[cut:], b"x") == whole, (sequence, cut)
            keyboard = Keyboard()
            first = told(sequence[:cut], keyboard=keyboard)
            paused = keyboard.patience is not None and [said(message) for message in keyboard.waited()]
            assert bool(paused) == (cut == 1), "the clock decides behind an ESC by itself only"
            if cut != 1 or sequence[1:2] != b"O":
                rest = told(sequence[cut:], b"x", keyboard=keyboard)
                assert [*first, *rest] == whole, "and what comes then is not typed"


def test_escape_is_decided_by_what_follows():
    assert keys(b"\x1bq") == ["escape", "q"]
    assert keys(b"\x1b1") == ["escape", "1"]
    assert keys(b"\x1b\x1b[A") == ["escape", "up"]
    assert keys(b"\x1b\x1b\x1b") == ["escape"] * 3
    assert keys(b"\x1b\r") == ["escape", "enter"]
    assert keys(b"\x1bPj") == ["escape", "P", "j"]
    assert keys(b"\x1b[j") == ["escape", "left_square_bracket", "j"]
    assert keys(b"\x1b[\r") == ["escape", "left_square_bracket", "enter"]
    assert keys(b"\x1bOO") == ["escape", "O", "O"]
    assert keys(b"\x1b]j") == ["escape", "right_square_bracket", "j"]


def test_a_letter_that_came_in_one_piece_with_escape_is_marked_as_perhaps_alt():
    def marked(*pieces):
        keyboard = Keyboard()
        return [one.key for piece in pieces for one in keyboard.feed(piece) if isinstance(one, AltKey)]

    assert marked(b"\x1bx") == ["x"] and marked(b"j\x1bD") == ["D"]
    assert not marked(b"\x1b", b"x") and not marked(b"\x1bxy") and not marked(b"x") and not marked(b"\x1bOx")


def test_an_ordinary_key_waits_for_nothing_and_escape_for_a_moment():
    keyboard = Keyboard()
    assert told(b"a", keyboard=keyboard) == [("key", "a", "a")] and keyboard.patience is None
    assert told(b"\x1b", keyboard=keyboard) == [] and 0 < keyboard.patience <= 0.25
    assert told(b"q", keyboard=keyboard) == [("key", "escape", "\x1b"), ("key", "q", "q")]
    assert keyboard.patience is None
    assert told(b"\x1b[", keyboard=keyboard) == [] and keyboard.patience is None, "in one packet it is no escape"
    assert told(b"1;", keyboard=keyboard) == [] and keyboard.patience is None
    assert told(b"5A", keyboard=keyboard) == [("key", "ctrl+up", None)]


def test_what_comes_after_escape_was_handed_on_is_joined_for_a_moment_and_typed_otherwise():
    for late, expected in {
        (b"[", b"A"): ["escape", "up"],
        (b"[A",): ["escape", "up"],
        (b"]11;rgb:1e/", b"1e/1e\x1b\\"): ["escape"],
        (b"[<35;2", b"0;10M"): ["escape", "MouseMove"],
        (b"[", None): ["escape", "left_square_bracket"],
        (b"[", b"["): ["escape", "left_square_bracket", "left_square_bracket"],
        (None, b"["): ["escape", "left_square_bracket"],
        (b"O",): ["escape", "O"],
        (b"q",): ["escape", "q"],
    }.items():
        keyboard = Keyboard()
        messages = [*keyboard.feed(b"\x1b"), *keyboard.waited()]
        for piece in late:
            messages += keyboard.waited() if piece is None else keyboard.feed(piece)
        while keyboard.patience is not None:
            messages += keyboard.waited()
        found = [message.key if isinstance(message, events.Key) else type(message).__name__ for message in messages]
        assert found == expected, late


def test_a_paste_ends_with_its_end_mark_and_is_one():
    keyboard = Keyboard()
    assert told(b"\x1b[200~one\r", b"\x1b", keyboard=keyboard) == [] and keyboard.patience is None
    assert told(b"[A q \x1b[201", keyboard=keyboard) == [] and keyboard.patience is None
    assert told(b"~q", keyboard=keyboard) == [("paste", "one\r\x1b[A q "), ("key", "q", "q")]


def test_letters_of_several_bytes_and_bytes_that_are_none():
    assert [one[2] for one in told("é漢🙂".encode())] == ["é", "漢", "🙂"]
    assert [one[2] for one in told(b"\xff\xe2\x82q")] == ["�", "�", "q"]
