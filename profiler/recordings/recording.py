"""Read record files. They come from users' processes, so every value is checked before it is used.

A damaged file gives its intact parts and a note for each other part; a file that is no recording at all raises
BadRecording. Memory is bounded by LIMIT a file, whatever its header claims. Files are read and never mapped: an
owner who cuts a mapped file kills its reader.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiresias.errors import TiresiasError, one_line
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.layout import CHANNEL, HEADER, RECORD, RING, Floats, Records

LIMIT = 64 << 20  # bytes of one file that are looked at; the interposer's default is a quarter
CHANNELS = 1 << 16  # of one process that are looked at
LONGEST_TIME = 1 << 62  # ticks; no clock reaches it
LARGEST_SIZE = 1 << 40  # bytes; no message reaches it, and the sum of LIMIT's worth of them still is a number


class BadRecording(TiresiasError):
    """Not a recording, or not one that may be read."""


class Clock(NamedTuple):
    """What the times of a file mean: ticks, `rate` a second, and the second since the epoch at tick `zero`."""

    epoch: float
    zero: int
    rate: float

    def seconds(self, times: NDArray[np.integer[Any]]) -> Floats:
        """Convert ticks to seconds since the epoch."""
        since: Floats = (times.astype(np.int64) - np.int64(self.zero)) / self.rate
        return since + self.epoch


@dataclass(frozen=True)
class Recording:
    """The recording of one process.

    Attributes:
        dropped: Number of records that were not stored.
        records: Ordered by time.
        notes: One sentence for each part of the file that is damaged or left out.
    """

    path: Path
    host: str
    pid: int
    program: str
    dropped: int
    channels: Records
    records: Records
    notes: tuple[str, ...]
    clock: Clock

    @property
    def seconds(self) -> Floats:
        """The times of `records`, in seconds since the epoch (clocks of hosts differ)."""
        return self.clock.seconds(self.records["time"])

    def since_epoch(self, time: int) -> float:
        """Convert one time in ticks to seconds since the epoch."""
        return float(self.clock.seconds(np.asarray([time]))[0])

    @property
    def name(self) -> str:
        """The process as HOST:PID."""
        return f"{self.host}:{self.pid}"


def read(path: Path, owner: int | None = None) -> Recording:
    """Raises BadRecording if `path` is no recording, or not a plain file of the user `owner` (a uid, if given)."""
    with _opened(path, owner) as reader:
        return reader.recording()


def used_bytes(path: Path, owner: int | None = None) -> int:
    """Return the size in bytes of the file's part that holds records: rings are used from first to last. Raises as `read`."""
    with _opened(path, owner) as reader:
        return min(reader.rings_begin + reader.rings * reader.ring_size, reader.size, LIMIT)


@contextmanager
def _opened(path: Path, owner: int | None) -> Iterator[_Reader]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadRecording(f"{path}: cannot be read: {error.strerror}") from error
    try:
        _check(path, os.fstat(file), owner)
        yield _Reader(path, file)
    except OSError as error:
        raise BadRecording(f"{path}: cannot be read: {error.strerror}") from error
    finally:
        os.close(file)


def _check(path: Path, found: os.stat_result, owner: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BadRecording(f"{path}: is not a plain file; name the .net files of a recording")
    if owner is not None and found.st_uid != owner:
        raise BadRecording(f"{path}: belongs to user {found.st_uid}, not to {owner}; it is ignored")


class _Reader:
    def __init__(self, path: Path, file: int) -> None:
        self.path, self.file = path, file
        self.notes: list[str] = []
        self.size, self.left = os.fstat(file).st_size, LIMIT
        self.header = self._header()
        self.dropped = int(self.header["dropped"])

    def recording(self) -> Recording:
        channels = self._channels()
        records = self._sound(self._records(), len(channels))
        records = records[np.argsort(records["time"], kind="stable")]
        if self.dropped:
            self._note(f"{self.dropped} records were dropped: the rings were full")
        return Recording(
            self.path, _text(self.header["hostname"]) or "?", int(self.header["pid"]), _text(self.header["program"]),
            self.dropped, channels, records, tuple(self.notes), self._clock(),
        )  # fmt: skip

    def _header(self) -> np.void:
        data = os.pread(self.file, HEADER.itemsize, 0)
        if data[: len(layout.MAGIC)] != layout.MAGIC:
            raise BadRecording(f"{self.path}: is not a recording of the profiler; name its .net files")
        if len(data) < HEADER.itemsize:
            raise BadRecording(f"{self.path}: ends within its header; the process was stopped before it recorded")
        header: np.void = np.frombuffer(data, HEADER)[0]
        sizes = {"header_size": HEADER, "record_size": RECORD, "channel_size": CHANNEL}
        same = all(int(header[name]) == kind.itemsize for name, kind in sizes.items())
        if int(header["version"]) != layout.VERSION or not same:
            raise BadRecording(
                f"{self.path}: has format {header['version']}, this program reads {layout.VERSION}; use the one that wrote it"
            )
        return header

    def _channels(self) -> Records:
        if int(self.header["flags"]) & layout.CHANNELS_FULL:
            self._note("it had more connections than entries in its table; the last ones are missing")
        used = min(self._at_most("channels", "channel_capacity"), CHANNELS)
        return self._take(CHANNEL, used, HEADER.itemsize, "channel table")

    @property
    def rings_begin(self) -> int:
        return HEADER.itemsize + int(self.header["channel_capacity"]) * CHANNEL.itemsize

    @property
    def ring_size(self) -> int:
        return RING.itemsize + int(self.header["ring_records"]) * RECORD.itemsize

    @property
    def rings(self) -> int:
        return self._at_most("rings", "ring_capacity")

    def _records(self) -> Records:
        capacity, start = int(self.header["ring_records"]), self.rings_begin
        rings = [self._ring(start + index * self.ring_size, capacity) for index in self._ring_indexes()]
        return np.concatenate([ring for ring in rings if ring is not None] or [np.empty(0, RECORD)])

    def _ring_indexes(self) -> Iterator[int]:
        for index in range(self.rings):
            if self.left < RING.itemsize:
                return
            yield index

    def _ring(self, offset: int, capacity: int) -> Records | None:
        head = self._take(RING, 1, offset, "ring")
        if not len(head):
            self.left = 0  # the file has ended: no ring further on is there
            return None
        written = int(head["written"][0])
        self.dropped += max(written - capacity, 0)
        return self._take(RECORD, min(written, capacity), offset + RING.itemsize, "ring")

    def _take(self, kind: np.dtype[np.void], count: int, offset: int, what: str) -> Records:
        """At most `count` entries, fewer if the file ends or the bound is reached."""
        allowed = min(count, self.left // kind.itemsize)
        there = max(self.size - offset, 0)  # asking for more would reserve the memory for it
        data = os.pread(self.file, min(allowed * kind.itemsize, there), offset) if there else b""
        whole = len(data) // kind.itemsize
        if whole < count:
            short = "the file ends" if allowed == count else f"only {LIMIT >> 20} MiB are read"
            self._note(f"{what}: {whole} of {count} entries, {short}")
        self.left -= whole * kind.itemsize
        return np.frombuffer(data[: whole * kind.itemsize], kind)

    def _at_most(self, used: str, capacity_field: str) -> int:
        count, capacity = int(self.header[used]), int(self.header[capacity_field])
        if count > capacity:
            self._note(f"the header claims {count} of {capacity} {used}")
        return min(count, capacity)

    def _note(self, words: str) -> None:
        if len(self.notes) < 20:
            self.notes.append(words)

    def _sound(self, records: Records, channels: int) -> Records:
        """Without the records that cannot be: of no channel, of no operation, of impossible times and sizes."""
        records = records[records["operation"] != 0]  # reserved, and not written when the process ended
        good = (records["channel"] < channels) & (records["operation"] <= layout.COLLECT)
        good &= records["time"] < LONGEST_TIME
        good &= (records["asked"] < LARGEST_SIZE) & (records["done"] < LARGEST_SIZE)
        if not good.all():
            self._note(f"{int((~good).sum())} records make no sense and are left out")
        return records[good]

    def _clock(self) -> Clock:
        rate = int(self.header["tsc_hz"])
        zero = int(self.header["tsc" if rate else "monotonic"])
        return Clock(int(self.header["realtime"]) / 1e9, min(zero, LONGEST_TIME), float(rate or 1e9))


def _text(field: np.void) -> str:
    """A name of a user's making: printable and on one line."""
    return one_line(field.tobytes().split(b"\0")[0].decode("utf-8", "replace"))
