"""Frames, messages, the handshake and the server loop, with the inputs of a hostile client."""

from __future__ import annotations

import json
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.polling import pauses
from tiresias.services.parameter_service.messages.agent_messages import InitTensor, Locate, Parameters, Push
from tiresias.services.wire import frames, typed_messages
from tiresias.services.wire.channel import Channel, ConnectionLost, address_of, after, frame_of
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.frames import BadFrame, Prefix, packed_prefix, unpacked_prefix
from tiresias.services.wire.handshake import NotAuthenticated, new_nonce, proof_of
from tiresias.services.wire.peer_identity import PeerIdentity, agent_identity, parsed_identity
from tiresias.services.wire.server_loop import ServerLoop, listening
from tiresias.services.wire.session_messages import Accepted, Hello, Proof, Refused
from tiresias.services.wire.typed_messages import decoded, encoded

KEY = secrets.token_bytes(32)
ME = agent_identity("job-1", 0, 0)


class Echo:
    """Answers Push by Parameters with the same payload, and Locate by Accepted. Other lengths than 1 MiB are dropped."""

    def __init__(self) -> None:
        self.memory = memoryview(bytearray(1 << 20))
        self.joined_names: list[str] = []
        self.ended = 0

    def key_of(self, identity: PeerIdentity) -> bytes | None:
        return KEY if identity.job == "job-1" else None

    def joined(self, connection: Connection) -> None:
        self.joined_names.append(str(connection.identity))

    def place(self, connection: Connection, content: Any, payload_bytes: int) -> memoryview | None:
        return self.memory if payload_bytes == len(self.memory) else None

    def received(self, connection: Connection, content: Any, payload: memoryview | None) -> None:
        if isinstance(content, Push) and payload is not None:
            connection.send(Parameters(content.tensor, content.step), bytes(payload))
        elif isinstance(content, Push):
            connection.send(Refused("shape", "another length", content.tensor, content.step))
        elif content == Locate("defect"):
            raise ZeroDivisionError("a defect")
        else:
            connection.send(Accepted(content.tensor))

    def closed(self, connection: Connection) -> None:
        self.ended += 1


class Served:
    def __init__(self, protect: str = "none", **options: Any) -> None:
        self.handler = Echo()
        self.socket = listening("127.0.0.1", 0)
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.loop = ServerLoop(self.handler, self.socket, **options)
        self.loop.protect = protect
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()

    def connect(self, key: bytes = KEY, identity: PeerIdentity = ME, timeout_s: float = 20) -> Channel:
        return Channel.connect(self.address, identity, key, timeout_s)

    def raw(self) -> socket.socket:
        return socket.create_connection(address_of(self.address), timeout=20)

    def works(self) -> bool:
        channel = self.connect()
        try:
            return bool(channel.request(Locate("a")) == Accepted("a"))
        finally:
            channel.close()

    def end(self) -> None:
        self.loop.stop()
        self.thread.join(20)
        assert not self.thread.is_alive()
        self.socket.close()


@pytest.fixture(params=["none", "mac"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    server = Served(protect=request.param)
    yield server
    server.end()


@pytest.fixture
def hasty() -> Iterator[Served]:
    """A server with short deadlines."""
    server = Served(stall_timeout_s=0.3, handshake_timeout_s=0.3)
    yield server
    server.end()


def ended(sock: socket.socket) -> bool:
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


# -- frames and messages ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 255), st.integers(0, frames.MAX_HEADER_BYTES), st.integers(0, frames.MAX_PAYLOAD_BYTES))
def test_a_prefix_survives(kind: int, header: int, payload: int) -> None:
    assert unpacked_prefix(packed_prefix(Prefix(kind, header, payload))) == Prefix(kind, header, payload)


@given(st.binary(min_size=16, max_size=16))
def test_other_bytes_are_refused_in_one_line(data: bytes) -> None:
    try:
        prefix = unpacked_prefix(data)
    except BadFrame as error:
        text = str(error)
    else:
        text = ""
        assert packed_prefix(prefix) == data
    assert "\n" not in text


@pytest.mark.parametrize(("header", "payload"), [(frames.MAX_HEADER_BYTES + 1, 0), (0, frames.MAX_PAYLOAD_BYTES + 1)])
def test_lengths_over_the_limit_are_refused(header: int, payload: int) -> None:
    with pytest.raises(BadFrame, match="the limit is"):
        packed_prefix(Prefix(1, header, payload))
    with pytest.raises(BadFrame, match="the limit is"):
        unpacked_prefix(struct.pack("!2sBBIQ", b"TP", frames.VERSION, 1, header, payload))


def test_another_version_is_named() -> None:
    with pytest.raises(
        BadFrame, match=f"version {frames.VERSION + 1} of the protocol, this is version {frames.VERSION}"
    ):
        unpacked_prefix(struct.pack("!2sBBIQ", b"TP", frames.VERSION + 1, 1, 0, 0))


VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 2**63 - 1),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=20),
    bool: st.booleans(),
    object: st.dictionaries(st.text(max_size=5), st.integers()),
    tuple[int, ...]: st.lists(st.integers(0, 9)).map(tuple),
    tuple[str, ...]: st.lists(st.text(max_size=5)).map(tuple),
    dict[str, float]: st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False)),
}


def messages() -> st.SearchStrategy[Any]:
    def of_kind(kind: type[Any]) -> st.SearchStrategy[Any]:
        hints = typed_messages._hints(kind)
        return st.builds(kind, **{each.name: VALUES[hints[each.name]] for each in fields(kind)})

    return st.sampled_from([*typed_messages.MESSAGE_TYPES.values()]).flatmap(of_kind)


@given(messages())
def test_every_message_survives(content: Any) -> None:
    number, header = encoded(content)
    assert decoded(number, header) == content


JSON = st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists, max_leaves=5)


@given(
    st.integers(0, 255),
    st.binary(max_size=80) | st.dictionaries(st.text(), JSON).map(lambda it: json.dumps(it).encode()),
)
def test_garbage_is_no_message(number: int, header: bytes) -> None:
    text = ""
    try:
        decoded(number, header)
    except BadFrame as error:
        text = str(error)
    assert "\n" not in text


@pytest.mark.parametrize(
    "change", [{"epoch": -1}, {"epoch": 2**63}, {"epoch": True}, {"epoch": "1"}, {"lr": None}, {"more": 1}]
)
def test_a_wrong_field_is_refused(change: dict[str, Any]) -> None:
    number, header = encoded(Push("a", 1, 2))
    with pytest.raises(BadFrame, match="Push"):
        decoded(number, json.dumps(json.loads(header) | change).encode())


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(BadFrame):
        decoded(12, b"[" * 60000)


@pytest.mark.parametrize(
    "text", ["", "job:a:0", "job:../x:0:0", "job:a:-1:0", "service:", "job:" + "a" * 65 + ":0:0", "job:a\n:0:0"]
)
def test_bad_identities_are_refused(text: str) -> None:
    with pytest.raises(BadFrame, match="no identity"):
        parsed_identity(text)


@given(st.lists(st.binary(max_size=9), max_size=9), st.integers(0, 81))
def test_the_rest_of_buffers(parts: list[bytes], count: int) -> None:
    views = [memoryview(part) for part in parts]
    assert b"".join(after(views, count)) == b"".join(parts)[count:]


def test_the_proof_depends_on_each_input() -> None:
    one, two = new_nonce(), new_nonce()
    proofs = {
        proof_of(KEY, "client", "a", one, two),
        proof_of(KEY, "server", "a", one, two),
        proof_of(KEY, "client", "b", one, two),
        proof_of(KEY, "client", "a", two, one),
        proof_of(b"x" * 32, "client", "a", one, two),
        proof_of(KEY, "client", "a", one, two, "mac"),
    }
    assert len(proofs) == 6


# -- the server -------------------------------------------------------------------------------------------------------------


def test_a_message_and_a_payload_return(served: Served) -> None:
    channel = served.connect()
    assert served.handler.joined_names == ["job:job-1:0:0"]
    assert channel.request(Locate("weight")) == Accepted("weight")
    sent, back = secrets.token_bytes(1 << 20), memoryview(bytearray(1 << 20))
    answer = channel.request(Push("weight", 1, 7), sent, place=lambda content, size: back[:size])
    assert answer == Parameters("weight", 7)
    assert back == sent
    channel.close()


def test_many_frames_in_one_call_are_answered_in_order(served: Served) -> None:
    channel = served.connect()
    channel.send_frames([frame_of(Locate(f"t{at}" + "x" * (at % 900))) for at in range(2000)])
    assert [channel.receive().tensor.rstrip("x") for _ in range(2000)] == [f"t{at}" for at in range(2000)]
    channel.close()


def test_a_frame_byte_by_byte(served: Served) -> None:
    channel = served.connect()
    frame = [frame_of(Locate("slow"))]
    for byte in b"".join(channel._outgoing.sealed(frame) if channel._outgoing else frame):
        channel._sock.sendall(bytes([byte]))
    assert channel.receive() == Accepted("slow")
    channel.close()


def test_a_header_longer_than_the_read_ahead(served: Served) -> None:
    channel = served.connect()
    assert channel.request(Locate("y" * 60000)) == Accepted("y" * 60000)
    channel.close()


def test_a_payload_without_a_place_is_dropped(served: Served) -> None:
    channel = served.connect()
    assert channel.request(Push("a", 1, 3), bytes(300_001)) == Refused("shape", "another length", "a", 3)
    assert channel.request(Locate("a")) == Accepted("a")
    channel.close()


def test_a_wrong_key_is_refused_on_both_sides(served: Served) -> None:
    with pytest.raises(NotAuthenticated):
        served.connect(b"y" * 32)  # the client detects it first
    sock = served.raw()
    sock.sendall(frame_of(Hello(str(ME), new_nonce())))
    sock.recv(4096)
    sock.sendall(frame_of(Proof("0" * 64)))
    assert ended(sock)
    assert served.handler.joined_names == []


def test_an_unknown_job_gets_the_same_answer_as_a_wrong_key(served: Served) -> None:
    with pytest.raises(NotAuthenticated):
        served.connect(identity=agent_identity("job-2", 0, 0))


def test_a_recorded_handshake_cannot_be_replayed(served: Served) -> None:
    def hello(nonce: str) -> tuple[socket.socket, Any]:
        sock = served.raw()
        sock.sendall(frame_of(Hello(str(ME), nonce)))
        data = sock.recv(4096)
        return sock, decoded(data[3], data[16:])

    nonce = new_nonce()
    sock, challenge = hello(nonce)
    proof = frame_of(Proof(proof_of(KEY, "client", str(ME), nonce, challenge.nonce, challenge.protect)))
    sock.sendall(proof)
    assert decoded(4, sock.recv(4096)[16:]) == Accepted()
    again, _ = hello(nonce)
    again.sendall(proof)
    assert ended(again)
    sock.close()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "garbage": lambda: secrets.token_bytes(5000),
    "another protocol": lambda: b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "another version": lambda: struct.pack("!2sBBIQ", b"TP", 9, 1, 10, 0) + b"{}",
    "a large header": lambda: struct.pack("!2sBBIQ", b"TP", frames.VERSION, 1, 2**32 - 1, 0),
    "a large payload": lambda: struct.pack("!2sBBIQ", b"TP", frames.VERSION, 1, 10, 2**64 - 1),
    "a payload before the handshake": lambda: frame_of(Hello(str(ME), new_nonce()), 1 << 30),
    "a message before the handshake": lambda: frame_of(Locate("a")),
    "two hellos": lambda: 2 * frame_of(Hello(str(ME), new_nonce())),
    "a bad nonce": lambda: frame_of(Hello(str(ME), "short")),
    "a bad identity": lambda: frame_of(Hello("root", new_nonce())),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_client_loses_its_connection_and_no_other_does(served: Served, kind: str) -> None:
    bystander = served.connect()
    sock = served.raw()
    sock.sendall(HOSTILE[kind]())
    assert ended(sock)
    assert bystander.request(Locate("a")) == Accepted("a")
    bystander.close()


@pytest.mark.parametrize("kind", ["garbage", "another version", "a large header", "a large payload"])
def test_a_hostile_client_with_the_key(served: Served, kind: str) -> None:
    channel = served.connect()
    channel._sock.sendall(HOSTILE[kind]())
    assert isinstance(channel.receive(), Refused)
    assert served.works()


def test_a_defect_of_the_handler_harms_one_connection(served: Served) -> None:
    channel, bystander = served.connect(), served.connect()
    assert "ZeroDivisionError" in channel.request(Locate("defect")).text
    with pytest.raises(ConnectionLost):
        channel.receive()
    assert bystander.request(Locate("a")) == Accepted("a")
    bystander.close()


@given(st.binary(max_size=300))
def test_any_bytes_leave_the_server_at_work(data: bytes) -> None:
    served = ONE_SERVER[0]
    sock = served.raw()
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    assert ended(sock)
    assert served.works()


ONE_SERVER: list[Served] = []


@pytest.fixture(autouse=True, scope="module")
def one_server() -> Iterator[None]:
    ONE_SERVER.append(Served())
    yield
    ONE_SERVER.pop().end()


def test_a_silent_client_is_closed(hasty: Served) -> None:
    assert ended(hasty.raw())


def test_a_client_that_stops_in_the_middle_of_a_frame_is_closed(hasty: Served) -> None:
    channel, idle = hasty.connect(), hasty.connect()
    channel._sock.sendall(frame_of(Push("a", 1, 1), 1 << 20) + bytes(5000))
    assert "in the middle of a frame" in channel.receive().text
    assert idle.request(Locate("a")) == Accepted("a")  # it was silent between two frames, which is no error
    idle.close()


def test_a_client_that_does_not_read_is_closed_and_the_others_are_served(hasty: Served) -> None:
    slow, other = hasty.connect(), hasty.connect()
    payload = bytes(1 << 20)
    slow.send_frames([part for _ in range(40) for part in (frame_of(Push("a", 1, 1), len(payload)), payload)])
    start = time.monotonic()
    while time.monotonic() - start < 0.6:
        assert other.request(Locate("b")) == Accepted("b")
    pause = pauses()
    while hasty.handler.ended == 0 and time.monotonic() - start < 20:
        pause()
    assert hasty.handler.ended == 1
    other.close()
    slow.close()


def test_a_connection_is_handed_to_another_loop(served: Served) -> None:
    second = ServerLoop(Echo(), None)
    thread = threading.Thread(target=second.run)
    thread.start()
    served.handler.joined = lambda connection: served.loop.hand_over(connection, second)  # type: ignore[method-assign]
    channel = served.connect()
    assert channel.request(Locate("a")) == Accepted("a")
    assert len(second.connections) == 1
    assert served.loop.connections == set()
    channel.close()
    second.stop()
    thread.join(20)


def test_the_client_refuses_a_payload_of_another_length(served: Served) -> None:
    channel = served.connect()
    with pytest.raises(BadFrame, match="in place of"):
        channel.request(Push("a", 1, 1), bytes(1 << 20), place=lambda content, size: memoryview(bytearray(8)))
    channel.close()


def test_no_server_is_one_line() -> None:
    with pytest.raises(ConnectionLost, match=r"127.0.0.1:1: Connection refused"):
        Channel.connect("127.0.0.1:1", ME, KEY)


@pytest.mark.parametrize("text", ["", "host", "host:0", "host:99999", ":80", "host:x"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(BadFrame, match="no address"):
        address_of(text)


def test_init_tensor_has_defaults() -> None:
    assert InitTensor("a", (2, 3), "float32", "sgd").options == {}
