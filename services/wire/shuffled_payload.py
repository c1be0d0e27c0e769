"""Floating-point numbers without loss in fewer bytes, as "shuffle-zlib": the numbers' exponents repeat, the rest hardly does.

Each number is rotated by one bit, so that its exponent fills the first byte (float32) or most of the first two (float64). Byte k of
all numbers is plane k. A plane is compressed by deflate where a sample shows that this makes it smaller, else sent as it is:

    bytes     content
    0         bytes of a number: 4 or 8
    then      for each plane: 1 byte, 0 as it is or 1 deflate; 8 bytes, its length, big-endian
    then      the planes

ISA-L (package isal) compresses and decompresses where it is installed, zlib otherwise; each reads what the other one wrote.
"""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiresias.services.wire.channel import Buffer
from tiresias.services.wire.frames import BadFrame

COMPRESS_NONE, SHUFFLE_ZLIB = "none", "shuffle-zlib"
COMPRESSIONS = (COMPRESS_NONE, SHUFFLE_ZLIB)
ISA_L = "isal.isal_zlib"
_PLANE = struct.Struct("!BQ")
_AS_IS, _DEFLATE = 0, 1
_WORDS: dict[int, type[np.unsignedinteger[Any]]] = {4: np.uint32, 8: np.uint64}
_RAW = -15  # a deflate stream without zlib's header and sum: frames have their own
_SAMPLES, _SAMPLE_BYTES, _WORTH = 3, 4096, 0.95
_CHUNK = 1 << 16  # numbers


@cache
def deflate_library() -> Any:
    """Return ISA-L's module where it is installed, else zlib."""
    with suppress(ImportError, OSError):
        return import_module(ISA_L)
    return zlib


def head_bytes(element_bytes: int) -> int:
    """Return the length of what precedes the planes."""
    return 1 + element_bytes * _PLANE.size


def most_packed_bytes(size: int) -> int:
    """Return the length above which a packed payload of `size` bytes of numbers is refused, before memory is allocated."""
    return size + head_bytes(max(_WORDS))


def packed(data: Buffer, element_bytes: int) -> list[Buffer] | None:
    """Return the buffers of a packed payload, None where it would not be smaller than the numbers.

    Args:
        data: The numbers, in the byte order of the machine (little-endian, as everywhere in the protocol).
        element_bytes: 4 or 8.
    """
    words = np.frombuffer(data, _WORDS[element_bytes])
    rotated = np.left_shift(words, 1)
    rotated |= words >> np.asarray(8 * element_bytes - 1, words.dtype)
    columns = rotated.view(np.uint8).reshape(-1, element_bytes)
    planes = [_packed_plane(np.ascontiguousarray(columns[:, at])) for at in range(element_bytes)]
    head = bytes([element_bytes]) + b"".join(_PLANE.pack(kind, len(plane)) for kind, plane in planes)
    parts: list[Buffer] = [head, *(plane for _, plane in planes)]
    return parts if sum(map(len, parts)) < words.nbytes else None


def _packed_plane(plane: NDArray[np.uint8]) -> tuple[int, Buffer]:
    starts = np.linspace(0, max(len(plane) - _SAMPLE_BYTES, 0), _SAMPLES, dtype=int)
    sample = np.concatenate([plane[start : start + _SAMPLE_BYTES] for start in starts])
    zeros = bool(np.count_nonzero(sample) < len(sample) / 2)
    if len(_deflated(sample, zeros)) < _WORTH * len(sample):
        found = _deflated(plane, zeros)
        if len(found) < len(plane):
            return _DEFLATE, found
    return _AS_IS, plane.data


def _deflated(plane: NDArray[np.uint8], zeros: bool) -> bytes:
    """Return a deflate stream. zlib searches for repeated bytes only where most are zeros: others take it six times as long."""
    library = deflate_library()
    if library is zlib:
        made = zlib.compressobj(1, zlib.DEFLATED, _RAW, 9, zlib.Z_RLE if zeros else zlib.Z_HUFFMAN_ONLY)
    else:
        made = library.compressobj(1, zlib.DEFLATED, _RAW)
    return bytes(made.compress(plane.data) + made.flush())


def unpack(payload: memoryview, place: memoryview) -> None:
    """Write the numbers of a packed payload to `place`. No more memory is used than `place` has, whatever the payload is.

    Raises:
        BadFrame: It is not the packed form of as many bytes.
    """
    size = payload[0] if len(payload) else 0
    if size not in _WORDS or len(payload) < head_bytes(size) or len(place) % size:
        raise BadFrame("a compressed payload without its head")
    target = np.frombuffer(place, _WORDS[size])
    planes = _planes(payload, size, len(target))
    columns = np.empty((min(_CHUNK, len(target)), size), np.uint8)
    for start in range(0, len(target), _CHUNK):
        part = target[start : start + _CHUNK]
        for at, plane in enumerate(planes):
            columns[: len(part), at] = plane[start : start + _CHUNK]
        rotated = columns[: len(part)].reshape(-1).view(target.dtype)
        np.right_shift(rotated, 1, out=part)
        part |= rotated << np.asarray(8 * size - 1, target.dtype)


def _planes(payload: memoryview, element_bytes: int, count: int) -> list[NDArray[np.uint8]]:
    planes, start = [], head_bytes(element_bytes)
    for at in range(element_bytes):
        kind, length = _PLANE.unpack_from(payload, 1 + at * _PLANE.size)
        if length > len(payload) - start:
            raise BadFrame("a compressed payload ends within a plane")
        planes.append(_plane(kind, payload[start : start + length], count))
        start += length
    if start != len(payload):
        raise BadFrame("a compressed payload has bytes after its planes")
    return planes


def _plane(kind: int, data: memoryview, count: int) -> NDArray[np.uint8]:
    if kind == _AS_IS:
        found: Buffer = data
    elif kind == _DEFLATE:
        found = _inflated(data, count)
    else:
        raise BadFrame(f"a compressed payload with a plane of the unknown kind {kind}")
    if len(found) != count:
        raise BadFrame(f"a compressed payload with a plane of another length than {count} bytes")
    return np.frombuffer(found, np.uint8)


def _inflated(data: memoryview, count: int) -> bytes:
    """Return at most one byte more than `count`: a stream that expands further is stopped there."""
    library = deflate_library()
    stream = library.decompressobj(_RAW)
    try:
        found = bytes(stream.decompress(data, count + 1))
    except (zlib.error, library.error) as error:
        raise BadFrame("a compressed payload with a damaged plane") from error
    if not stream.eof or stream.unused_data:
        raise BadFrame(f"a compressed payload with a plane of another length than {count} bytes")
    return found
