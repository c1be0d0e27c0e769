"""A server's end of one connection: non-blocking, its frames assembled without a copy of large payloads.

A payload is received into the buffer that the handler names for it, and sent from the buffers that the handler passes. A frame that
is malformed, or that the handler has no place for, ends or skips this connection's frame alone.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from tiresias.services.wire.channel import Buffer, after, frame_of
from tiresias.services.wire.frame_guard import TAG_BYTES, FrameGuard
from tiresias.services.wire.frames import PREFIX_BYTES, BadFrame, Prefix, packed_prefix, unpacked_prefix
from tiresias.services.wire.peer_identity import PeerIdentity
from tiresias.services.wire.typed_messages import decoded

AHEAD_BYTES = 4096
EVENT_BYTES = 4 << 20  # of one connection before the others are served
MAX_QUEUED_FRAMES = 65536
_BUFFERS_A_CALL = 64
_SINK = memoryview(bytearray(1 << 16))


class FrameHandler(Protocol):
    """What a server does with frames. Each call is made by the thread of the loop."""

    def key_of(self, identity: PeerIdentity) -> bytes | None:
        """Return the key of a client, None where it has none."""
        ...

    def joined(self, connection: Connection) -> None:
        """Take note of an authenticated connection."""
        ...

    def place(self, connection: Connection, content: Any, payload_bytes: int) -> memoryview | None:
        """Return the buffer for a payload, of exactly that length; None: the payload is dropped."""
        ...

    def received(self, connection: Connection, content: Any, payload: memoryview | None) -> None:
        """Process a whole frame; `payload` is what `place` returned."""
        ...

    def closed(self, connection: Connection) -> None:
        """Take note that a connection has ended."""
        ...


class Closed(Exception):
    """The peer has closed the connection."""


class Connection:
    """The frames of one peer.

    Attributes:
        identity: What the peer has proved to be; None until then.
        binding: What belongs to this connection alone: handshake.py.
        opened: When the connection was accepted, in seconds of time.monotonic().
        moved_bytes: When the last byte was transferred.
        drained: Called when the last byte of a queue is sent.
        turn_ends: Set by the handler: what has not been received yet is received in the connection's next turn.
        charged: Called with the CPU seconds of each piece of work for this connection; the handler sets it.
    """

    def __init__(self, sock: socket.socket, peer: str) -> None:
        sock.setblocking(False)
        self.sock, self.peer = sock, peer
        self.identity: PeerIdentity | None = None
        self.binding = ""
        self.opened = self.moved_bytes = time.monotonic()
        self.charged: Callable[[float], None] | None = None
        self.turn_ends = False
        self.drained: Callable[[], None] = lambda: None
        self.wrote: Callable[[], None] = lambda: None  # the loop is to poll for writing, or no longer
        self._ahead = memoryview(bytearray(AHEAD_BYTES))
        self._start = self._end = 0
        self._prefix: Prefix | None = None
        self._content: Any = None
        self._target: memoryview | None = None
        self._left = 0
        self._at = 0
        self._queue: deque[memoryview] = deque()
        self._outgoing: FrameGuard | None = None
        self._incoming: FrameGuard | None = None

    @property
    def stalled(self) -> bool:
        """Whether a frame is partly transferred."""
        return bool(self._queue or self._prefix or self._end > self._start)

    @property
    def queued(self) -> bool:
        """Whether bytes remain to be sent."""
        return bool(self._queue)

    @property
    def queued_bytes(self) -> int:
        """The bytes that remain to be sent."""
        return sum(map(len, self._queue))

    def protect(self, outgoing: FrameGuard, incoming: FrameGuard) -> None:
        """Protect every frame from now on."""
        self._outgoing, self._incoming = outgoing, incoming

    def send(self, content: Any, *payload: Buffer) -> None:
        """Send a message, or queue it. The buffers must not change until they are sent.

        A client that does not read while MAX_QUEUED_FRAMES buffers are queued loses its connection.
        """
        parts = [memoryview(part).cast("B") for part in payload]
        if len(self._queue) > MAX_QUEUED_FRAMES:
            self._queue.clear()
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)  # the loop sees the end when it reads
            return
        was_empty = not self._queue
        frame: list[Buffer] = [frame_of(content, sum(map(len, parts))), *parts]
        sealed = self._outgoing.sealed(frame) if self._outgoing else frame
        self._queue.extend(memoryview(part) for part in sealed if len(part))
        if was_empty:
            self.flush()

    def send_now(self, content: Any, payload: memoryview) -> None:
        """Send a message; of the payload that which the socket does not take now is copied: the buffer may change afterwards."""
        self.send(content, payload)
        for at, part in enumerate(self._queue):
            if part.obj is payload.obj:
                self._queue[at] = memoryview(bytes(part))

    def flush(self) -> None:
        """Send what the socket takes."""
        while self._queue:
            chosen = [self._queue[at] for at in range(min(len(self._queue), _BUFFERS_A_CALL))]
            try:
                sent = self.sock.sendmsg(chosen)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self._queue.clear()  # the loop sees the end of the connection when it reads
                break
            self._taken(chosen, sent)
        self.wrote()
        if not self._queue:
            self.drained()

    def _taken(self, chosen: list[memoryview], sent: int) -> None:
        self.moved_bytes = time.monotonic()
        left = after(chosen, sent)
        for _ in range(len(chosen) - len(left)):
            self._queue.popleft()
        if left:
            self._queue[0] = left[0]

    def read(self, handler: Callable[[Connection, Any, memoryview | None], None], place: Place) -> None:
        """Receive what has arrived, and pass on each whole frame.

        Raises:
            Closed: The peer has closed the connection.
            BadFrame: The peer has sent what is no frame.
        """
        budget, self.turn_ends = EVENT_BYTES, False
        while budget > 0 and not self.turn_ends:
            into = self._next_buffer()
            count = self._receive(into)
            if count == 0:
                return
            budget -= count
            if self._target is None or self._left == 0:
                self._parse(handler, place)
            if count < len(into):  # nothing more has arrived
                return

    def read_ahead(self, handler: Callable[[Connection, Any, memoryview | None], None], place: Place) -> None:
        """Pass on the frames that were received before another loop took this connection over."""
        self._parse(handler, place)

    def _next_buffer(self) -> memoryview:
        return self._payload_rest() if self._is_direct() else self._ahead_rest()

    def _is_direct(self) -> bool:
        """Whether the next bytes are received into the place of a payload."""
        return self._target is not None and self._left > 0

    def _receive(self, into: memoryview) -> int:
        direct = self._is_direct()
        try:
            count = self.sock.recv_into(into)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise Closed from error
        if not count:
            raise Closed
        self.moved_bytes = time.monotonic()
        if direct:
            if self._incoming:
                self._incoming.add_payload(into[:count])
            self._at, self._left = self._at + count, self._left - count
        else:
            self._end += count
        return count

    def _payload_rest(self) -> memoryview:
        assert self._target is not None
        if self._target is _SINK:
            return _SINK[: self._left]
        return self._target[self._at :]

    def _ahead_rest(self) -> memoryview:
        needed = PREFIX_BYTES + TAG_BYTES + (self._prefix.header_bytes if self._prefix else 0)
        if self._start:
            kept = bytes(self._ahead[self._start : self._end])
            self._ahead[: len(kept)] = kept
            self._start, self._end = 0, len(kept)
        if needed > len(self._ahead):
            larger = memoryview(bytearray(needed))
            larger[: self._end] = self._ahead[: self._end]
            self._ahead = larger
        return self._ahead[self._end :]

    def _parse(self, handler: Callable[[Connection, Any, memoryview | None], None], place: Place) -> None:
        while True:
            if self._target is not None:
                self._take_ahead()
                if self._left or not self._payload_is_whole():
                    return
                self._deliver(handler)
            elif not self._begin_frame(place):
                return
            elif self._target is None:
                self._deliver(handler)

    def _begin_frame(self, place: Place) -> bool:
        """Return whether a header is complete; the payload's place is then chosen."""
        if self._prefix is None:
            if self._end - self._start < PREFIX_BYTES:
                return False
            self._prefix = unpacked_prefix(self._ahead[self._start : self._start + PREFIX_BYTES])
            self._start += PREFIX_BYTES
            self._check_unauthenticated(self._prefix)
        end = self._start + self._prefix.header_bytes
        if self._end < end + (TAG_BYTES if self._incoming else 0):
            return False
        if self._incoming:
            tag = self._ahead[end : end + TAG_BYTES]
            self._incoming.check_header(packed_prefix(self._prefix) + bytes(self._ahead[self._start : end]), tag)
        self._content = decoded(self._prefix.kind, self._ahead[self._start : end])
        self._start, self._left, self._at = end, self._prefix.payload_bytes, 0
        self._start += TAG_BYTES if self._incoming else 0
        if self._left:
            self._target = self._chosen_place(place)
        return True

    def _chosen_place(self, place: Place) -> memoryview:
        target = place(self, self._content, self._left)
        if target is None:
            return _SINK
        target = target.cast("B")
        if len(target) != self._left:
            raise BadFrame(f"{self.peer}: a payload of {self._left} bytes in place of {len(target)}")
        return target

    def _check_unauthenticated(self, prefix: Prefix) -> None:
        if self.identity is None and (prefix.payload_bytes or prefix.header_bytes > AHEAD_BYTES // 2):
            raise BadFrame(f"{self.peer}: a large frame before the handshake")

    def _take_ahead(self) -> None:
        assert self._target is not None
        count = min(self._left, self._end - self._start)
        if count and self._incoming:
            self._incoming.add_payload(self._ahead[self._start : self._start + count])
        if count and self._target is not _SINK:
            self._target[self._at : self._at + count] = self._ahead[self._start : self._start + count]
        self._start, self._at, self._left = self._start + count, self._at + count, self._left - count

    def _payload_is_whole(self) -> bool:
        """Check the hash of a payload; return whether it has arrived."""
        if self._incoming:
            if self._end - self._start < TAG_BYTES:
                return False
            self._incoming.check_payload(self._ahead[self._start : self._start + TAG_BYTES])
            self._start += TAG_BYTES
        return True

    def _deliver(self, handler: Callable[[Connection, Any, memoryview | None], None]) -> None:
        content, target = self._content, self._target
        self._content = self._target = self._prefix = None
        handler(self, content, None if target is _SINK else target)


Place = Callable[[Connection, Any, int], "memoryview | None"]
