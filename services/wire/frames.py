"""The frames of a connection: a fixed prefix, a header in JSON, a payload of bytes.

    bytes   content
    0-1     b"TP"
    2       version of the protocol, 3
    3       type of the message (typed_messages.py)
    4-7     bytes of the header, big-endian, at most MAX_HEADER_BYTES
    8-15    bytes of the payload, big-endian, at most MAX_PAYLOAD_BYTES

On a protected connection a hash follows the header, and one the payload: frame_guard.py.

The prefix is checked before anything is allocated. A frame allocates no memory for its payload: the receiver provides the place.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tiresias.errors import TiresiasError

MAGIC = b"TP"
VERSION = 3
MAX_HEADER_BYTES = 64 * 1024
MAX_PAYLOAD_BYTES = 8 << 30
_PREFIX = struct.Struct("!2sBBIQ")
PREFIX_BYTES = _PREFIX.size


class BadFrame(TiresiasError):
    """Bytes that are no frame of this version, or a frame that is not allowed here."""


class Prefix(NamedTuple):
    """The first 16 bytes of a frame.

    Attributes:
        kind: Number of the message's type.
        header_bytes: Length of the header.
        payload_bytes: Length of the payload.
    """

    kind: int
    header_bytes: int
    payload_bytes: int


def packed_prefix(prefix: Prefix) -> bytes:
    """Return the bytes of a prefix.

    Raises:
        BadFrame: The header or the payload is over its limit.
    """
    _check_lengths(prefix)
    return _PREFIX.pack(MAGIC, VERSION, prefix.kind, prefix.header_bytes, prefix.payload_bytes)


def unpacked_prefix(data: bytes | bytearray | memoryview) -> Prefix:
    """Return the prefix of 16 bytes.

    Raises:
        BadFrame: Other bytes, another version, or a length over its limit.
    """
    magic, version, kind, header_bytes, payload_bytes = _PREFIX.unpack(data)
    if magic != MAGIC:
        raise BadFrame("the peer does not use the protocol of these services")
    if version != VERSION:
        raise BadFrame(
            f"the peer uses version {version} of the protocol, this is version {VERSION}: install one release on both"
        )
    prefix = Prefix(kind, header_bytes, payload_bytes)
    _check_lengths(prefix)
    return prefix


def _check_lengths(prefix: Prefix) -> None:
    if prefix.header_bytes > MAX_HEADER_BYTES:
        raise BadFrame(f"a header of {prefix.header_bytes} bytes; the limit is {MAX_HEADER_BYTES}")
    if prefix.payload_bytes > MAX_PAYLOAD_BYTES:
        raise BadFrame(f"a payload of {prefix.payload_bytes} bytes; the limit is {MAX_PAYLOAD_BYTES}")
