"""A client's connection: blocking, with a deadline for each transfer.

channel = Channel.connect("node3:4242", agent_identity("job-1", rank=0, run=0), key)
answer = channel.request(Locate("layer.weight"))
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tiresias.errors import Unavailable
from tiresias.services.wire.frame_guard import PROTECT_MAC, PROTECT_NONE, TAG_BYTES, FrameGuard, direction_key
from tiresias.services.wire.frames import (
    PREFIX_BYTES,
    BadFrame,
    Prefix,
    packed_prefix,
    unpacked_prefix,
)
from tiresias.services.wire.handshake import binding_of, check_proof, new_nonce, proof_of
from tiresias.services.wire.peer_identity import PeerIdentity
from tiresias.services.wire.session_messages import Accepted, Challenge, Hello, Proof, Refused
from tiresias.services.wire.typed_messages import decoded, encoded

Buffer = bytes | bytearray | memoryview
Place = Callable[[Any, int], memoryview]
SOCKET_BUFFER_BYTES = 4 << 20
_IOV = 512  # buffers of one sendmsg; Linux has a limit of 1024


class ConnectionLost(Unavailable):
    """The connection ended, or a transfer missed its deadline."""


def frame_of(content: Any, payload_bytes: int = 0) -> bytes:
    """Return the prefix and the header of a message whose payload follows."""
    number, header = encoded(content)
    return packed_prefix(Prefix(number, len(header), payload_bytes)) + header


def address_of(text: str) -> tuple[str, int]:
    """Parse `host:port`.

    Raises:
        BadFrame: It is none.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadFrame(f"no address of the form host:port: {text[:100]!r}")
    return host.strip("[]"), int(port)


def tuned(sock: socket.socket) -> socket.socket:
    """Set what both ends set: no delay of small frames, large buffers, dead peers detected."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)  # a node that is gone is detected within 25 s
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    return sock


class Channel:
    """One authenticated connection of a client. One thread may send while another one receives.

    Attributes:
        address: The server's.
        binding: What belongs to this connection alone: handshake.py.
        protect: The protection of its frames, as the server requires it.
    """

    def __init__(self, sock: socket.socket, address: str, timeout_s: float) -> None:
        self.address, self.binding, self.protect = address, "", PROTECT_NONE
        self._sock = sock
        self._outgoing: FrameGuard | None = None
        self._incoming: FrameGuard | None = None
        sock.settimeout(timeout_s)

    @classmethod
    def connect(cls, address: str, identity: PeerIdentity, key: bytes, timeout_s: float = 60.0) -> Channel:
        """Connect and authenticate.

        Raises:
            ConnectionLost: No connection.
            NotAuthenticated: The server does not have the key, or refuses the client's proof.
        """
        try:
            sock = socket.create_connection(address_of(address), timeout=timeout_s)
        except OSError as error:
            raise ConnectionLost(f"{address}: {error.strerror or error}") from error
        channel = cls(tuned(sock), address, timeout_s)
        try:
            channel._authenticate(str(identity), key)
        except BaseException:
            channel.close()
            raise
        return channel

    def _authenticate(self, identity: str, key: bytes) -> None:
        mine = new_nonce()
        self.send(Hello(identity, mine))
        challenge = self._expected(Challenge)
        theirs, protect = challenge.nonce, challenge.protect
        check_proof(proof_of(key, "server", identity, mine, theirs, protect), challenge.proof)
        self.send(Proof(proof_of(key, "client", identity, mine, theirs, protect)))
        self._expected(Accepted)
        self.binding, self.protect = binding_of(mine, theirs), protect
        if protect == PROTECT_MAC:
            self._outgoing, self._incoming = (
                FrameGuard(direction_key(key, side, mine, theirs)) for side in ("client", "server")
            )
        elif protect != PROTECT_NONE:
            raise BadFrame(f"{self.address} requires the unknown protection {protect[:40]!r}")

    def _expected(self, kind: type[Any]) -> Any:
        answer = self.receive()
        if isinstance(answer, Refused):
            raise ConnectionLost(f"{self.address}: {answer.text}")
        if not isinstance(answer, kind):
            raise BadFrame(f"{self.address}: {type(answer).__name__} in place of {kind.__name__}")
        return answer

    def request(self, content: Any, *payload: Buffer, place: Place | None = None) -> Any:
        """Send one message and return the next one that arrives."""
        self.send(content, *payload)
        return self.receive(place)

    def send(self, content: Any, *payload: Buffer) -> None:
        """Send one message; the buffers of the payload are not copied.

        Raises:
            ConnectionLost: The connection ended or the peer takes nothing.
        """
        parts = [memoryview(part).cast("B") for part in payload]
        self.send_frames([frame_of(content, sum(map(len, parts))), *parts])

    def send_frames(self, parts: Sequence[Buffer]) -> None:
        """Send several frames by as few system calls as possible."""
        sealed = self._outgoing.sealed(parts) if self._outgoing else parts
        left = [memoryview(part).cast("B") for part in sealed if len(part)]
        while left:
            try:
                sent = self._sock.sendmsg(left[:_IOV])
            except OSError as error:
                raise ConnectionLost(f"{self.address}: {error.strerror or error}") from error
            left = after(left, sent)

    def receive(self, place: Place | None = None) -> Any:
        """Return the next message.

        Args:
            place: `place(message, bytes)` returns a writable buffer of exactly that length for the payload. Without it a payload
                is an error.

        Raises:
            ConnectionLost: The connection ended or nothing arrives.
            BadFrame: The peer sends what is no frame of this version.
        """
        start = bytearray(PREFIX_BYTES)
        self._fill(memoryview(start))
        prefix = unpacked_prefix(start)
        rest = bytearray(prefix.header_bytes + (TAG_BYTES if self._incoming else 0))
        self._fill(memoryview(rest))
        header = rest[: prefix.header_bytes]
        if self._incoming:
            self._incoming.check_header(start + header, rest[prefix.header_bytes :])
        content = decoded(prefix.kind, header)
        if prefix.payload_bytes:
            if place is None:
                raise BadFrame(f"{self.address}: {type(content).__name__} with a payload")
            target = place(content, prefix.payload_bytes).cast("B")
            if len(target) != prefix.payload_bytes:
                raise BadFrame(f"{self.address}: a payload of {prefix.payload_bytes} bytes in place of {len(target)}")
            self._receive_payload(target)
        return content

    def _receive_payload(self, target: memoryview) -> None:
        if not self._incoming:
            self._fill(target)
            return
        tag = bytearray(TAG_BYTES)
        try:
            count = self._sock.recvmsg_into([target, tag])[0]
        except OSError as error:
            raise ConnectionLost(f"{self.address}: {error.strerror or error}") from error
        if not count:
            raise ConnectionLost(f"{self.address}: the connection was closed")
        for part in after([target, memoryview(tag)], count):
            self._fill(part)
        self._incoming.add_payload(target)
        self._incoming.check_payload(tag)

    def fileno(self) -> int:
        """Return the socket's descriptor, -1 after close()."""
        return self._sock.fileno()

    def set_timeout(self, timeout_s: float) -> None:
        """Change the seconds without a byte after which a transfer fails."""
        self._sock.settimeout(timeout_s)

    def _fill(self, target: memoryview) -> None:
        at = 0
        while at < len(target):
            try:
                count = self._sock.recv_into(target[at:])
            except OSError as error:
                raise ConnectionLost(f"{self.address}: {error.strerror or error}") from error
            if not count:
                raise ConnectionLost(f"{self.address}: the connection was closed")
            at += count

    def close(self) -> None:
        """Close the connection; a transfer in another thread ends with ConnectionLost."""
        self.shut_down()
        self._sock.close()

    def shut_down(self) -> None:
        """End both directions; the descriptor remains until close()."""
        with suppress(OSError):  # not connected any more
            self._sock.shutdown(socket.SHUT_RDWR)


def after(parts: Sequence[memoryview], count: int) -> list[memoryview]:
    """Return what remains of buffers after `count` bytes."""
    at = 0
    while at < len(parts) and count >= len(parts[at]):
        count -= len(parts[at])
        at += 1
    left = list(parts[at:])
    if left and count:
        left[0] = left[0][count:]
    return left
