"""Writing and reading files together with their tree hash.

The digest of a file is SHA-256 over the CRC-32s of its blocks of BLOCK bytes, in order: it finds what disks and networks do to
bytes (a damaged block passes once in 4 billion times); a forger could rewrite the manifest as well. SHA-256 over all bytes costs
two to five times the processor time, and a save of a large state would wait for it: bench/checkpoint.py has the numbers.

Blocks are summed by threads while the writer writes on (the interpreter's lock is released meanwhile), and where a file is read, by
the thread that has just read them. A large file is synced in pieces while it is still being written: the disk works from the start,
which pays for the sums.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from tiresias.checkpoint.manifest import Content
from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import crc
from tiresias.protocol.files import create, open_regular, write_all

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")
R = TypeVar("R")
BLOCK = 4 << 20
SYNC_EVERY = 4  # blocks


class HashedFile:
    """A new file at `name` in the open folder `folder`; `write` any number of buffers, then `commit`.

    Nothing is copied: a buffer handed to `write` must not change before `settle` or `commit` returns.
    """

    def __init__(self, folder: int, name: str) -> None:
        self.size = 0
        self._file = create(folder, name)
        self._block: list[memoryview] = []
        self._free = BLOCK
        self._digests: list[Future[bytes]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._sync: Future[None] | None = None

    def write(self, buffer: memoryview) -> None:
        """`buffer`: contiguous bytes. Raises OSError."""
        while len(buffer):
            piece, buffer = buffer[: self._free], buffer[self._free :]
            self._block.append(piece)
            self._free -= len(piece)
            if not self._free:
                self._hash_block()
            write_all(self._file, piece)
            self.size += len(piece)
            self._sync_early()

    def settle(self) -> None:
        """Return once every whole block so far is hashed; the unfinished one is copied, so all buffers may change again."""
        for digest in self._digests:
            digest.result()
        self._block = [memoryview(b"".join(self._block))] if self._block else []

    def commit(self) -> Content:
        """Sync to disk; the file's content. Raises OSError."""
        small = self._pool is None  # then no threads
        if self._block and not small:
            self._hash_block()
        if self._sync:
            self._sync.result()
        os.fsync(self._file)
        digests = [digest.result() for digest in self._digests]
        return Content(self.size, _root([_digest(self._block)] if small and self._block else digests))

    def close(self) -> None:
        """Close the file and end its threads."""
        if self._pool:
            self._pool.shutdown()  # before the file: a sync may be under way
        os.close(self._file)

    def _hash_block(self) -> None:
        self._pool = self._pool or _threads()
        self._digests.append(_start(self._pool, _digest, self._block))
        self._block, self._free = [], BLOCK

    def _sync_early(self) -> None:
        due = self._pool and len(self._digests) % SYNC_EVERY == 0 and self._free == BLOCK
        if self._pool and due and (self._sync is None or self._sync.done()):
            self._sync = _start(self._pool, os.fdatasync, self._file)


class _Scratch(threading.local):
    """Memory of each thread for one block at a time."""

    def __init__(self, size: int) -> None:
        self.memory = memoryview(bytearray(size))

    def pieces(self, _offset: int, size: int) -> list[memoryview]:
        return [self.memory[:size]]


def tree_hash(file: int, size: int) -> str:
    """Hash `size` bytes of an open file, reading blocks in several threads. A file that is shorter gives another hash."""
    return read_hashed(file, size, _Scratch(min(BLOCK, size)).pieces)


def read_hashed(file: int, size: int, destination: Callable[[int, int], list[memoryview]]) -> str:
    """As `tree_hash`, into memory: destination(offset, size) returns that of the bytes from `offset` on. Raises OSError."""
    offsets = range(0, size, BLOCK)
    read: Callable[[int], bytes] = lambda offset: _digest(  # noqa: E731
        _fill(file, offset, destination(offset, min(BLOCK, size - offset)))
    )
    if len(offsets) <= 1:
        return _root([read(offset) for offset in offsets])
    with _threads() as pool:
        return _root([digest.result() for digest in [_start(pool, read, offset) for offset in offsets]])


@contextmanager
def opened(folder: int, name: str, content: Content) -> Iterator[int]:
    """An open file of the size of `content`. Raises CorruptCheckpoint or OSError."""
    with open_regular(folder, name) as file:
        size = os.fstat(file).st_size
        if size != content.size:
            raise CorruptCheckpoint(f"{name}: {size} bytes, {content.size} were written")
        yield file


def compare(folder: int, name: str, content: Content, hashes: bool = True) -> None:
    """Raises CorruptCheckpoint where the file's size, or with `hashes` any of its bytes, is not `content`; else OSError."""
    with opened(folder, name, content) as file:
        if hashes:
            refuse_other(name, content, tree_hash(file, content.size))


def read_whole(folder: int, name: str, content: Content) -> memoryview:
    """The bytes of a small file, compared with `content`. Raises CorruptCheckpoint or OSError."""
    memory = memoryview(bytearray(content.size))
    with opened(folder, name, content) as file:
        digest = read_hashed(file, content.size, lambda offset, size: [memory[offset : offset + size]])
    refuse_other(name, content, digest)
    return memory


def refuse_other(name: str, content: Content, digest: str) -> None:
    """Raises CorruptCheckpoint where `digest` is not that of `content`."""
    if digest != content.digest:
        raise CorruptCheckpoint(f"{name}: its hash is not the one that was written")


def _fill(file: int, offset: int, pieces: list[memoryview]) -> list[memoryview]:
    """Read into memory; the memory that was filled, less where the file ends before."""
    filled: list[memoryview] = []
    while pieces and (size := os.preadv(file, pieces, offset)):
        offset += size
        while pieces and size >= len(pieces[0]):
            size -= len(pieces[0])
            filled.append(pieces.pop(0))
        if size:
            filled.append(pieces[0][:size])
            pieces[0] = pieces[0][size:]
    return filled


def _digest(pieces: Sequence[memoryview]) -> bytes:
    crc32, found = crc.fastest(), 0
    for piece in pieces:
        found = crc32(piece, found)
    return found.to_bytes(4, "big")


def _root(digests: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _start(pool: ThreadPoolExecutor, work: Callable[[T], R], argument: T) -> Future[R]:
    try:
        return pool.submit(work, argument)
    except RuntimeError:
        # The interpreter is ending and starts no thread any more: an asynchronous save still finishes.
        from concurrent.futures import Future

        done: Future[R] = Future()
        done.set_result(work(argument))
        return done


def _threads() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # here: it costs 10 ms, and small states do without

    return ThreadPoolExecutor(1 + min(4, len(os.sched_getaffinity(0))))  # one waits for the disk
