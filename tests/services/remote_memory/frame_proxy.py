"""A proxy between clients and a donor that sees each frame: it can hold, cut and damage them, and call back at each one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from tiresias.services.wire.channel import address_of
from tiresias.services.wire.frames import PREFIX_BYTES, packed_prefix, unpacked_prefix

UP, DOWN = "client to donor", "donor to client"
OnFrame = Callable[[str, int], None]  # direction, type of the message
Rewrite = Callable[[int, bytes], bytes]  # type of the message, its header


class FrameProxy:
    """Forwards the connections to one donor.

    Args:
        target: The donor's address; it may be changed.
        on_frame: Called before a frame is forwarded.
        rewrite: Returns another header for a message to a client.

    Attributes:
        address: Where clients connect.
        damage: How many of the next payloads to clients lose a bit.
    """

    def __init__(
        self,
        target: str,
        on_frame: OnFrame = lambda direction, kind: None,
        rewrite: Rewrite = lambda kind, header: header,
    ) -> None:
        self.target, self._on_frame, self._rewrite = target, on_frame, rewrite
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.damage = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client = self._server.accept()[0]
            except OSError:
                return
            try:
                donor = socket.create_connection(address_of(self.target), timeout=5)
            except OSError:
                client.close()
                continue
            donor.settimeout(None)
            for one, two, direction in ((client, donor, UP), (donor, client, DOWN)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._sockets.add(one)
                threading.Thread(target=self._forward, args=(one, two, direction), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, direction: str) -> None:
        with suppress(OSError):
            while prefix := _exactly(source, PREFIX_BYTES):
                fields = unpacked_prefix(prefix)
                rest = _exactly(source, fields.header_bytes + fields.payload_bytes)
                if rest is None:
                    break
                if direction == DOWN and fields.payload_bytes and self.damage:
                    self.damage -= 1
                    rest[fields.header_bytes] ^= 1
                self._on_frame(direction, fields.kind)
                header, payload = bytes(rest[: fields.header_bytes]), rest[fields.header_bytes :]
                if direction == DOWN:
                    header = self._rewrite(fields.kind, header)
                target.sendall(packed_prefix(fields._replace(header_bytes=len(header))) + header + payload)
        self._end(source, target)

    def _end(self, *sockets: socket.socket) -> None:
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            with self._lock:
                self._sockets.discard(each)

    def cut(self) -> None:
        """End all connections."""
        with self._lock:
            found = list(self._sockets)
        self._end(*found)

    def close(self) -> None:
        """End all connections and accept no more."""
        self._server.close()
        self.cut()


def _exactly(source: socket.socket, size: int) -> bytearray | None:
    found = bytearray()
    while len(found) < size:
        part = source.recv(size - len(found))
        if not part:
            return None
        found += part
    return found
