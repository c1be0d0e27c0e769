"""Protection of the frames after the handshake: a keyed hash of each header and each payload, in one direction of a connection.

The key of a direction is derived (HKDF-SHA256, RFC 5869) from the key of the handshake and both nonces. The hash (HMAC-SHA256,
its first 16 bytes) covers the number of the frame in its direction too: a frame that is changed, left out, repeated or from another
connection is refused. The header's hash is checked before the header is parsed, the payload's before the frame counts:

    prefix, header, hash; with a payload: payload, hash
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from typing import Any

from tiresias.services.wire.frames import PREFIX_BYTES, BadFrame, unpacked_prefix

PROTECT_NONE, PROTECT_MAC = "none", "mac"
TAG_BYTES = 16
_HEADER, _PAYLOAD = b"\0", b"\1"
Buffer = bytes | bytearray | memoryview


def direction_key(key: bytes, sender: str, client_nonce: str, server_nonce: str) -> bytes:
    """Return the key of the frames of one sender, "client" or "server"."""
    salt = bytes.fromhex(client_nonce) + bytes.fromhex(server_nonce)
    extracted = hmac.digest(salt, key, "sha256")
    return hmac.digest(extracted, b"tiresias frames 1 " + sender.encode() + b"\1", "sha256")


class FrameGuard:
    """The hashes of one direction; the frames are numbered from 0.

    Args:
        key: The key of the direction.
    """

    def __init__(self, key: bytes) -> None:
        self._started, self._number = hmac.new(key, digestmod="sha256"), 0
        self._payload: Any = None

    def header_tag(self, frame: Buffer) -> bytes:
        """Return the hash of a prefix and header, and begin the next frame."""
        found = self._hash(_HEADER)
        found.update(frame)
        self._payload = None
        self._number += 1
        return bytes(found.digest()[:TAG_BYTES])

    def add_payload(self, part: Buffer) -> None:
        """Add a part of the payload of this frame."""
        if self._payload is None:
            self._payload = self._hash(_PAYLOAD, of=self._number - 1)
        self._payload.update(part)

    def payload_tag(self) -> bytes:
        """Return the hash of the payload of this frame."""
        return bytes(self._payload.digest()[:TAG_BYTES])

    def check_header(self, frame: Buffer, tag: Buffer) -> None:
        """Raise BadFrame unless the hash is that of the header."""
        _check(self.header_tag(frame), tag)

    def check_payload(self, tag: Buffer) -> None:
        """Raise BadFrame unless the hash is that of the payload."""
        _check(self.payload_tag(), tag)

    def sealed(self, parts: Sequence[Buffer]) -> Iterator[Buffer]:
        """Yield the buffers of whole frames with their hashes.

        Args:
            parts: Of each frame a buffer of prefix and header, then those of its payload.
        """
        left = 0
        for part in parts:
            view = memoryview(part).cast("B")
            if left:
                left -= len(view)
                self.add_payload(view)
                yield view
                if not left:
                    yield self.payload_tag()
            elif len(view):
                left = unpacked_prefix(view[:PREFIX_BYTES]).payload_bytes
                yield view
                yield self.header_tag(view)

    def _hash(self, kind: bytes, of: int | None = None) -> Any:
        found = self._started.copy()
        found.update(kind + (self._number if of is None else of).to_bytes(8, "big"))
        return found


def _check(expected: bytes, given: Buffer) -> None:
    if not hmac.compare_digest(expected, bytes(given)):
        raise BadFrame("a frame was changed on its way, repeated or left out")
