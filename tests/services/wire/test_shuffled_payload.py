"""Compressed numbers: the same bits back, and no more memory than the numbers have, whatever a payload is."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.services.wire import shuffled_payload
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.shuffled_payload import head_bytes, most_packed_bytes, packed, unpack

_CHANCE = np.random.default_rng(3)
NUMBERS: dict[str, Any] = {
    "gradients": _CHANCE.normal(0, 1e-3, 70_000).astype(np.float32),
    "float64": _CHANCE.normal(size=70_001),
    "mostly zeros": np.where(_CHANCE.random(70_000) < 0.95, 0, _CHANCE.normal(size=70_000)).astype(np.float32),
    "zeros": np.zeros(70_000, np.float32),
    "special": np.tile(np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, 3.4e38], np.float32), 900),
}


@pytest.fixture(params=["isal", "zlib"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The library that is used; the fastest one is ISA-L where it is installed, as in the development environment."""
    if request.param == "isal":
        pytest.importorskip("isal", reason="the library ISA-L is not installed")
    else:
        monkeypatch.setattr(shuffled_payload, "deflate_library", lambda: zlib)
    return str(request.param)


def payload_of(numbers: Any) -> bytes:
    found = packed(numbers.data.cast("B"), numbers.itemsize)
    assert found is not None
    return b"".join(found)


def unpacked(payload: bytes, size: int) -> bytes:
    place = bytearray(size)
    unpack(memoryview(payload), memoryview(place))
    return bytes(place)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_same_bits_return_in_fewer_bytes(library: str, name: str) -> None:
    numbers = NUMBERS[name]
    payload = payload_of(numbers)
    assert len(payload) < 0.9 * numbers.nbytes
    assert unpacked(payload, numbers.nbytes) == numbers.tobytes()


@pytest.mark.parametrize("name", NUMBERS)
def test_each_library_reads_what_the_other_wrote(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    isal = pytest.importorskip("isal.isal_zlib", reason="the library ISA-L is not installed")
    for writer, reader in ((isal, zlib), (zlib, isal)):
        monkeypatch.setattr(shuffled_payload, "deflate_library", lambda library=writer: library)
        payload = payload_of(NUMBERS[name])
        monkeypatch.setattr(shuffled_payload, "deflate_library", lambda library=reader: library)
        assert unpacked(payload, NUMBERS[name].nbytes) == NUMBERS[name].tobytes()


@given(st.binary(max_size=400).filter(lambda data: len(data) % 8 == 0), st.sampled_from([4, 8]))
def test_any_bytes_return(data: bytes, element_bytes: int) -> None:
    found = packed(data, element_bytes)
    if found is not None:
        payload = b"".join(found)
        assert len(payload) < len(data)
        assert unpacked(payload, len(data)) == data


def test_what_does_not_become_smaller_is_not_packed() -> None:
    assert packed(np.random.default_rng(0).integers(0, 256, 1 << 16, np.uint8).data, 4) is None
    assert packed(np.ones(1, np.float32).data.cast("B"), 4) is None


@given(st.binary(max_size=300))
def test_garbage_is_refused(payload: bytes) -> None:
    with pytest.raises(BadFrame, match="compressed payload"):
        unpacked(payload, 4096)


def planes(size: int, *made: tuple[int, bytes]) -> bytes:
    return (
        bytes([size])
        + b"".join(struct.pack("!BQ", kind, len(plane)) for kind, plane in made)
        + b"".join(plane for _, plane in made)
    )


def deflated(data: bytes) -> bytes:
    made = zlib.compressobj(9, zlib.DEFLATED, -15)
    return made.compress(data) + made.flush()


def test_a_stream_that_expands_is_stopped(library: str) -> None:
    """64 MiB in 64 KiB: what is decompressed of it is one byte more than the numbers need."""
    bomb = planes(4, *[(1, deflated(bytes(64 << 20)))] * 4)
    tracemalloc.start()
    try:
        with pytest.raises(BadFrame, match="another length"):
            unpacked(bomb, 4096)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


WHOLE = payload_of(NUMBERS["gradients"][:1000])
WRONG = {
    "nothing": b"",
    "no head": WHOLE[: head_bytes(4) - 1],
    "truncated": WHOLE[:-1],
    "a byte more": WHOLE + b"\0",
    "another size": b"\x03" + WHOLE[1:],
    "an unknown kind": planes(4, *[(2, bytes(1000))] * 4),
    "a short plane": planes(4, *[(0, bytes(999))] * 4),
    "a long plane": planes(4, *[(0, bytes(1001))] * 4),
    "a short stream": planes(4, *[(1, deflated(bytes(999)))] * 4),
    "a long stream": planes(4, *[(1, deflated(bytes(1001)))] * 4),
    "an open stream": planes(4, *[(1, deflated(bytes(range(250)) * 4)[:-3])] * 4),
    "bytes after a stream": planes(4, *[(1, deflated(bytes(1000)) + b"x")] * 4),
    "no stream": planes(4, *[(1, b"\xff" * 100)] * 4),
    "a length over all bounds": bytes([4]) + struct.pack("!BQ", 1, 2**63) * 4,
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_payload_is_refused(library: str, kind: str) -> None:
    with pytest.raises(BadFrame, match="compressed payload"):
        unpacked(WRONG[kind], 4000)


def test_the_limit_of_length_holds_each_packed_payload() -> None:
    for numbers in NUMBERS.values():
        assert len(payload_of(numbers)) <= most_packed_bytes(numbers.nbytes)
