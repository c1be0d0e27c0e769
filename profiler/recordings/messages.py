"""Turn records into messages: sender, receiver, bytes and time.

A send may move only a part of a tensor; the program then sends the rest. Such records, and those that announce more of
the same message, become one message. Receives count only where the sender was not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.join import Joined, join
from tiresias.profiler.recordings.layout import Bools, Floats, Ints, Records
from tiresias.profiler.recordings.recording import Recording

OUTGOING = (layout.SEND, layout.WRITE, layout.ATOMIC, layout.COLLECT)
INCOMING = (layout.RECV, layout.READ)  # a read's bytes come from the other end


class Stream(NamedTuple):
    """All that one node sent to another, oldest message first; `time` in seconds since the job's first message."""

    sender: int
    receiver: int
    time: Floats
    size: Ints

    @property
    def bytes(self) -> int:
        """The bytes of all messages."""
        return int(self.size.sum())


@dataclass(frozen=True)
class JobTraffic:
    """The messages between all processes of a job."""

    joined: Joined
    streams: tuple[Stream, ...]
    start: float  # seconds since the epoch

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes of the graph, by number."""
        return self.joined.nodes


class _Messages(NamedTuple):
    sender: Ints
    receiver: Ints
    time: Floats
    size: Ints


def traffic(recordings: Sequence[Recording]) -> JobTraffic:
    """Cost: O(n log n) in the number of records."""
    joined = join(recordings)
    parts = [_of(recording, number, joined) for number, recording in enumerate(recordings)]
    if not parts:
        return JobTraffic(joined, (), 0.0)
    whole = _Messages(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    start = float(whole.time.min()) if len(whole.time) else 0.0
    return JobTraffic(joined, tuple(_streams(whole, start)), start)


def _of(recording: Recording, number: int, joined: Joined) -> _Messages:
    records, seconds = _seen(recording, number, joined)
    order = np.lexsort((seconds, records["operation"], records["channel"]))
    records, seconds = records[order], seconds[order]
    starts = np.flatnonzero(~_continues(records))
    bytes_of_record = np.where(records["done"] > 0, records["done"], records["asked"]).astype(np.int64)
    size = np.add.reduceat(bytes_of_record, starts) if len(starts) else np.empty(0, np.int64)
    first = records[starts]
    peer = np.asarray(joined.peers[number], np.int64)[first["channel"]] if len(first) else np.empty(0, np.int64)
    inward = np.isin(first["operation"], INCOMING)
    here = np.full(len(first), number, np.int64)
    return _Messages(np.where(inward, peer, here), np.where(inward, here, peer), seconds[starts], size)


def _seen(recording: Recording, number: int, joined: Joined) -> tuple[Records, Floats]:
    """The records that carry bytes of messages, each byte once."""
    records = recording.records
    peers = np.asarray(joined.peers[number], np.int64)
    from_nowhere = peers[records["channel"]] >= joined.recorded if len(peers) else np.zeros(0, bool)
    counted = np.isin(records["operation"], (*OUTGOING, layout.READ))
    counted |= (records["operation"] == layout.RECV) & from_nowhere
    counted &= ((records["flags"] & layout.ERROR) == 0) & (records["asked"] + records["done"] > 0)
    return records[counted], recording.seconds[counted]


def _continues(records: Records) -> Bools:
    """Whether a record goes on with the message of the one before it (records sorted by channel and operation)."""
    before, after = records[:-1], records[1:]
    same = (before["channel"] == after["channel"]) & (before["operation"] == after["operation"])
    cut = (before["done"] > 0) & (before["done"] < before["asked"])
    rest = cut & (after["asked"] == before["asked"] - np.minimum(before["done"], before["asked"]))
    more = (before["flags"] & layout.MORE) != 0
    return np.concatenate([np.zeros(min(len(records), 1), bool), same & (rest | more)])


def _streams(messages: _Messages, start: float) -> list[Stream]:
    order = np.lexsort((messages.time, messages.receiver, messages.sender))
    sender, receiver = messages.sender[order], messages.receiver[order]
    time, size = messages.time[order] - start, messages.size[order]
    edges = np.flatnonzero((np.diff(sender) != 0) | (np.diff(receiver) != 0)) + 1
    cuts = [0, *edges.tolist(), len(sender)] if len(sender) else []
    return [
        Stream(int(sender[low]), int(receiver[low]), time[low:high], size[low:high]) for low, high in pairwise(cuts)
    ]
