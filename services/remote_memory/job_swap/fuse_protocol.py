"""The part of the kernel's FUSE protocol that one file needs (include/uapi/linux/fuse.h, version 7.31 and later).

A request is a header, its arguments and, of a write, the data. An answer is a header, an error number and the result.
"""

from __future__ import annotations

import errno
import stat
import struct
from typing import NamedTuple

LOOKUP, FORGET, GETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 1, 2, 3, 14, 15, 16, 17, 18, 20
FLUSH, INIT, OPENDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 25, 26, 27, 29, 36, 38, 42
WITHOUT_ANSWER = frozenset({FORGET, BATCH_FORGET, INTERRUPT})

MAJOR, MINOR = 7, 31
ROOT_NODE, FILE_NODE = 1, 2
FILE_NAME = b"swap"
PAGE_BYTES = 4096
MAX_PAGES = 32  # of a request: the 128 KiB of a request to a donor (thesis, section 2.4.3)
MAX_BYTES = MAX_PAGES * PAGE_BYTES
MAX_BACKGROUND = 64  # asynchronous requests that the kernel sends before it waits for answers
_FOREVER_S = 1 << 30
_ASYNC_READ, _BIG_WRITES, _ASYNC_DIRECT_IO, _MAX_PAGES_FLAG = 1 << 0, 1 << 5, 1 << 15, 1 << 22
_DIRECT_IO, _PARALLEL_WRITES = 1 << 0, 1 << 6

IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
READ_ARGUMENTS = struct.Struct("<QQIIQII")  # those of a write are the same
REQUEST_BYTES = IN_HEADER.size + READ_ARGUMENTS.size + MAX_BYTES
WRITE_DATA = IN_HEADER.size + READ_ARGUMENTS.size
_INIT_IN = struct.Struct("<IIII")
_INIT_OUT = struct.Struct("<IIIIHHIIHHII24x")
_ATTRIBUTES = struct.Struct("<6Q10I")
_ATTRIBUTES_OUT = struct.Struct("<QII")
_ENTRY_OUT = struct.Struct("<QQQQII")
_OPEN_OUT = struct.Struct("<QII")
_STATFS_OUT = struct.Struct("<5Q4I24x")
WRITE_OUT = struct.Struct("<II")


class FuseRequest(NamedTuple):
    """A request; `arguments` is valid until the buffer takes the next one."""

    operation: int
    unique: int
    node: int
    arguments: memoryview


class FuseError(Exception):
    """The request fails with this error number."""

    def __init__(self, number: int) -> None:
        super().__init__(errno.errorcode.get(number, str(number)))
        self.number = number


def parse(buffer: memoryview) -> FuseRequest:
    """Return the request in a buffer.

    Raises:
        ValueError: Its length is not that of its header.
    """
    length, operation, unique, node, *_ = IN_HEADER.unpack_from(buffer)
    if length != len(buffer):
        raise ValueError(f"a request of {len(buffer)} bytes in place of {length}")
    return FuseRequest(operation, unique, node, buffer[IN_HEADER.size :])


def answer_header(unique: int, size: int, error: int = 0) -> bytes:
    """Return the header of an answer with `size` bytes of result."""
    return OUT_HEADER.pack(OUT_HEADER.size + size, -error, unique)


def metadata_answer(request: FuseRequest, file_bytes: int) -> bytes:
    """Return the result of a request that neither reads nor writes the file.

    Raises:
        FuseError: The file system has no such operation or name.
    """
    if request.operation == INIT:
        return _init(request.arguments)
    if request.operation == LOOKUP:
        return _lookup(request, file_bytes)
    if request.operation == GETATTR:
        return _ATTRIBUTES_OUT.pack(_FOREVER_S, 0, 0) + _attributes(request.node, file_bytes)
    if request.operation in (OPEN, OPENDIR):
        return _OPEN_OUT.pack(0, _DIRECT_IO | _PARALLEL_WRITES if request.operation == OPEN else 0, 0)
    if request.operation == STATFS:
        return _STATFS_OUT.pack(file_bytes // PAGE_BYTES, 0, 0, 1, 0, PAGE_BYTES, 255, PAGE_BYTES, 0)
    if request.operation in (FLUSH, FSYNC, RELEASE, RELEASEDIR, DESTROY):
        return b""
    raise FuseError(errno.ENOSYS)


def _init(arguments: memoryview) -> bytes:
    major, minor, read_ahead, flags_of_kernel = _INIT_IN.unpack_from(arguments)
    if (major, minor) < (MAJOR, MINOR):
        raise FuseError(errno.EPROTO)
    flags = flags_of_kernel & (_ASYNC_READ | _BIG_WRITES | _ASYNC_DIRECT_IO | _MAX_PAGES_FLAG)
    background = (MAX_BACKGROUND, MAX_BACKGROUND * 3 // 4)
    return _INIT_OUT.pack(MAJOR, MINOR, read_ahead, flags, *background, MAX_BYTES, 1, MAX_PAGES, 0, 0, 0)


def _lookup(request: FuseRequest, file_bytes: int) -> bytes:
    if request.node != ROOT_NODE or bytes(request.arguments) != FILE_NAME + b"\0":
        raise FuseError(errno.ENOENT)
    return _ENTRY_OUT.pack(FILE_NODE, 0, _FOREVER_S, _FOREVER_S, 0, 0) + _attributes(FILE_NODE, file_bytes)


def _attributes(node: int, file_bytes: int) -> bytes:
    is_root = node == ROOT_NODE
    size = 0 if is_root else file_bytes
    mode = stat.S_IFDIR | 0o700 if is_root else stat.S_IFREG | 0o600
    links = 2 if is_root else 1
    return _ATTRIBUTES.pack(node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, links, 0, 0, 0, PAGE_BYTES, 0)
