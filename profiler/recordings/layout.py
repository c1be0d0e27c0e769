"""The record file, byte by byte: what the interposer writes (profiler/native) and recording.py reads.

    header      4096 bytes
    channels    `channel_capacity` entries: a connection each
    rings       `ring_capacity` times: a ring header, then `ring_records` records of one thread

Little endian. Entries are written before the count that covers them. A ring that is full drops and counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAGIC = b"TIRENET\0"
VERSION = 1

HEADER = np.dtype({
    "names": ["magic", "version", "header_size", "record_size", "channel_size", "channel_capacity", "ring_capacity",
              "ring_records", "flags", "pid", "start_ticks", "realtime", "tsc", "tsc_hz", "monotonic",
              "channels", "rings", "dropped", "hostname", "program"],
    "formats": ["V8", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", "<u8", "<u8", "<u8", "<u8", "<u8", "<u8",
                "<u4", "<u4", "<u8", "V64", "V256"],
    "offsets": [0, 8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 72, 80, 88, 92, 96, 104, 168],
    "itemsize": 4096,
})  # fmt: skip

END = np.dtype([
    ("family", "<u2"), ("port", "<u2"), ("qp", "<u4"), ("address", "V16"), ("lid", "<u2"), ("reserved", "V18"),
])  # fmt: skip
CHANNEL = np.dtype([
    ("kind", "<u4"), ("number", "<u4"), ("opened", "<i8"), ("closed", "<i8"), ("flags", "<u8"),
    ("local", END), ("remote", END), ("reserved", "V8"),
])  # fmt: skip
RING = np.dtype([("written", "<u8"), ("thread", "<u4"), ("reserved", "V52")])
RECORD = np.dtype([
    ("time", "<u8"), ("channel", "<u4"), ("operation", "<u2"), ("flags", "<u2"), ("asked", "<u8"), ("done", "<u8"),
])  # fmt: skip

# Kinds of channels.
TCP, QUEUE_PAIR, DATAGRAM, COLLECTIVE = 1, 2, 3, 4
# Families of ends: AF_INET, AF_INET6, InfiniBand, communicators.
INET, INET6, INFINIBAND, COMMUNICATOR = 2, 10, 0x4942, 0x4E43
# A flag of a channel: its sends are messages of gRPC, without their framing.
GRPC = 1
# Operations.
SEND, RECV, WRITE, READ, ATOMIC, POST_RECV, COMPLETION, COLLECT = 1, 2, 3, 4, 5, 6, 7, 8
# What a COLLECTIVE channel is for, in the port of its remote end: one function of its communicator, called by all of its
# ranks (ALL_RANKS stands in their place), or what passes between two ranks. A rank stands where queue pairs have their
# number, a GROUP where they have their address.
POINT_TO_POINT, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, ALL_TO_ALL, OTHER = range(8)
ALL_RANKS = 0xFFFFFFFF
GROUP = np.dtype([("hash", "<u8"), ("ranks", "<u4"), ("nodes", "<u4")])  # ranks and nodes are 0 where not known
# A flag of the header: more connections than channels.
CHANNELS_FULL = 1
# Flags of a record.
ERROR, INLINE, IMMEDIATE, MORE = 1, 2, 4, 8

Records = NDArray[np.void]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
