"""Bytes from a terminal as keys, however they are cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.watch.keys import Decoder

PIECES = st.lists(
    st.binary(max_size=8)
    | st.sampled_from(
        [b"\x1b", b"\x1b[", b"\x1b[A", b"\x1bOB", b"\x1b[5~", b"\x1b[1;5", b"\xc3", b"\xa9", b"j", b"\r"]
    ),
    max_size=30,
)


def keys(data: bytes) -> list[str]:
    decoder = Decoder()
    return decoder.feed(data) + decoder.settle()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA", ["up"]),
        (b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~", ["pageup", "pagedown", "home", "end"]),
        (b"\r\n\x7f\x15", ["enter", "enter", "backspace", "clear"]),
        (b"j\x1b", ["j", "escape"]),
        (b"\x1bq", ["escape", "q"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\x1b[<0;12;7Mq", ["q"]),  # a mouse
        (b"\x1b[200~p\x1b[201~", ["p"]),
        ("é型".encode(), ["é", "型"]),
        (b"\x00\x07\xff\xfe", []),
    ],
)
def test_keys(data: bytes, expected: list[str]) -> None:
    assert keys(data) == expected


@given(PIECES)
def test_it_does_not_matter_how_they_come(pieces: list[bytes]) -> None:
    decoder = Decoder()
    found = [key for piece in pieces for key in decoder.feed(piece)] + decoder.settle()
    assert found == keys(b"".join(pieces))
    assert not decoder.waits
    assert all((len(key) == 1 and key.isprintable()) or key.isalpha() for key in found)


def test_an_escape_waits_for_what_may_follow() -> None:
    decoder = Decoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.waits
    assert decoder.feed(b"[") == []
    assert decoder.feed(b"A") == ["up"]
    assert not decoder.waits


def test_a_sequence_without_an_end_is_given_up() -> None:
    assert keys(b"\x1b[" + b"0" * 30) == ["escape", "[", *"0" * 30]
