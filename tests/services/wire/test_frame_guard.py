"""Frames after the handshake on a protected connection: what a relay between the two changes is refused."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.wire.test_wire import KEY, ME, Served
from tiresias.errors import TiresiasError
from tiresias.services.parameter_service.messages.agent_messages import Locate, Parameters, Push
from tiresias.services.wire.channel import Channel, ConnectionLost, address_of, frame_of
from tiresias.services.wire.frame_guard import TAG_BYTES, FrameGuard, direction_key
from tiresias.services.wire.frames import PREFIX_BYTES, BadFrame, unpacked_prefix
from tiresias.services.wire.handshake import NotAuthenticated
from tiresias.services.wire.session_messages import Accepted, Challenge, Refused
from tiresias.services.wire.typed_messages import decoded, encoded

HANDSHAKE_FRAMES = 2  # of each direction


@pytest.fixture
def protected() -> Iterator[Served]:
    server = Served(protect="mac")
    yield server
    server.end()


class FrameRelay:
    """Passes frames on; `change(direction, number, frame)` returns what is sent in their place."""

    def __init__(self, address: str, change: Callable[[str, int, bytes], bytes]) -> None:
        self._there, self._change = address, change
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            client, _ = self._server.accept()
            there = socket.create_connection(address_of(self._there))
            pairs = ((there, client, "answer"), (client, there, "request"))
            for pair in pairs:
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, direction: str) -> None:
        with suppress(OSError, EOFError):
            number = 0
            while True:
                target.sendall(self._change(direction, number, self._frame(source, number)))
                number += 1
        for sock in (source, target):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _frame(source: socket.socket, number: int) -> bytes:
        start = exactly(source, PREFIX_BYTES)
        prefix = unpacked_prefix(start)
        tag = 0 if number < HANDSHAKE_FRAMES else TAG_BYTES
        rest = prefix.header_bytes + tag + (prefix.payload_bytes + tag if prefix.payload_bytes else 0)
        return start + exactly(source, rest)

    def close(self) -> None:
        self._server.close()


def exactly(sock: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        if not (part := sock.recv(count - len(found))):
            raise EOFError
        found += part
    return found


def flipped(frame: bytes, at: int) -> bytes:
    return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]


def accepted(answer: object, expected: object) -> None:
    """Raise BadFrame for the server's refusal of a frame."""
    if isinstance(answer, Refused):
        raise BadFrame(answer.text)
    assert answer == expected


def exchanged(server: Served, change: Callable[[str, int, bytes], bytes]) -> memoryview:
    """Two requests through a relay; return the second answer's payload."""
    relay = FrameRelay(server.address, change)
    channel = Channel.connect(relay.address, ME, KEY, 5)
    try:
        back = memoryview(bytearray(1 << 20))
        accepted(channel.request(Locate("first")), Accepted("first"))
        sent = bytes(range(256)) * 4096
        answer = channel.request(Push("a", 1, 3), sent, place=lambda content, size: back[:size])
        accepted(answer, Parameters("a", 3))
        assert back == sent
        return back
    finally:
        channel.close()
        relay.close()


def test_frames_pass_unchanged(protected: Served) -> None:
    exchanged(protected, lambda direction, number, frame: frame)


@pytest.mark.parametrize("direction", ["request", "answer"])
@pytest.mark.parametrize("at", [2, 3, 20, -1, -TAG_BYTES - 1, -(1 << 19)], ids=lambda at: f"byte {at}")
def test_a_changed_bit_is_refused(protected: Served, direction: str, at: int) -> None:
    """Of the frame with the payload: in the version, type and header, in the hash of the payload, its last byte, its middle."""

    def change(side: str, number: int, frame: bytes) -> bytes:
        return flipped(frame, at % len(frame)) if (side, number) == (direction, HANDSHAKE_FRAMES + 1) else frame

    with pytest.raises((ConnectionLost, BadFrame, TimeoutError)):
        exchanged(protected, change)
    assert protected.works()


@pytest.mark.parametrize("direction", ["request", "answer"])
def test_a_repeated_frame_is_refused(protected: Served, direction: str) -> None:
    def change(side: str, number: int, frame: bytes) -> bytes:
        return 2 * frame if (side, number) == (direction, HANDSHAKE_FRAMES) else frame

    with pytest.raises((ConnectionLost, BadFrame)):
        exchanged(protected, change)


def test_a_frame_that_is_left_out_is_noticed(protected: Served) -> None:
    relay = FrameRelay(
        protected.address,
        lambda side, number, frame: b"" if (side, number) == ("request", HANDSHAKE_FRAMES) else frame,
    )
    channel = Channel.connect(relay.address, ME, KEY, 5)
    channel.send(Locate("first"))
    channel.send(Locate("second"))
    with pytest.raises((ConnectionLost, BadFrame)):
        accepted(channel.receive(), Accepted("second"))
    relay.close()


def test_an_inserted_frame_is_refused(protected: Served) -> None:
    def change(side: str, number: int, frame: bytes) -> bytes:
        return frame_of(Locate("inserted")) + frame if (side, number) == ("request", HANDSHAKE_FRAMES) else frame

    with pytest.raises((ConnectionLost, BadFrame)):
        exchanged(protected, change)


@pytest.mark.parametrize("protect", ["none", "mac"])
def test_the_protection_cannot_be_negotiated_away(protect: str) -> None:
    """A relay that states another protection breaks the proof: to less, and to more."""

    def change(side: str, number: int, frame: bytes) -> bytes:
        if (side, number) != ("answer", 0):
            return frame
        challenge = decoded(frame[3], frame[PREFIX_BYTES:])
        assert challenge.protect == protect
        return frame_of(Challenge(challenge.nonce, challenge.proof, {"mac": "none", "none": "mac"}[protect]))

    server = Served(protect=protect)
    with pytest.raises(NotAuthenticated):
        exchanged(server, change)
    server.end()


def test_frames_without_a_hash_are_refused(protected: Served) -> None:
    channel = protected.connect()
    channel._outgoing = None
    channel.send(Locate("a" * 100))
    with pytest.raises(TiresiasError):
        channel.receive()


def test_a_payload_without_a_place_is_checked_too(protected: Served) -> None:
    channel = protected.connect()
    for step in range(3):
        channel.send(Push("a", 1, step), secrets.token_bytes(300_001))
        assert channel.receive().step == step
    channel.close()


def test_the_key_is_that_of_rfc_5869() -> None:
    """One block of HKDF-SHA256, written out here: extract with the salt, expand with the text and the block's number."""
    salt, info = bytes(32) + bytes([255]) * 32, b"tiresias frames 1 client"
    extracted = hmac.new(salt, KEY, hashlib.sha256).digest()
    expected = hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()
    assert direction_key(KEY, "client", "00" * 32, "ff" * 32) == expected


@given(st.lists(st.tuples(st.text(max_size=50), st.binary(max_size=300), st.integers(1, 4)), max_size=6))
def test_what_one_side_seals_the_other_accepts(frames: list[tuple[str, bytes, int]]) -> None:
    out, back = FrameGuard(KEY), FrameGuard(KEY)
    parts = list[bytes]()
    for name, payload, pieces in frames:
        parts.append(frame_of(Locate(name), len(payload)))
        size = max(len(payload) // pieces, 1)
        parts += [payload[at : at + size] for at in range(0, len(payload), size)]
    data = b"".join(out.sealed(parts))
    for name, payload, _ in frames:
        prefix = unpacked_prefix(data[:PREFIX_BYTES])
        end = PREFIX_BYTES + prefix.header_bytes
        back.check_header(data[:end], data[end : end + TAG_BYTES])
        assert encoded(Locate(name))[1] == data[PREFIX_BYTES:end]
        data = data[end + TAG_BYTES :]
        if payload:
            back.add_payload(data[: len(payload)])
            back.check_payload(data[len(payload) : len(payload) + TAG_BYTES])
            data = data[len(payload) + TAG_BYTES :]
    assert data == b""
