"""Writes record files as the interposer does, for tests that need no compiler.

net = Network(); a, b = net.process("gpu01", 10), net.process("gpu02", 20)
link = net.connect(a, b); net.send(link, time=0.5, size=4096); net.write(folder)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tiresias.profiler.recordings import layout

EPOCH = 1_700_000_000
START = 5_000_000_000  # ticks, when the files were made
HZ = 2_000_000_000
RING = 1024


def ticks(seconds: float) -> int:
    return START + round(seconds * HZ)


@dataclass
class Process:
    host: str
    pid: int
    channels: list[tuple[object, ...]] = field(default_factory=list)
    records: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)  # thread -> records

    def record(
        self,
        time: float,
        channel: int,
        operation: int,
        asked: int,
        done: int | None = None,
        flags: int = 0,
        thread: int = 1,
    ) -> None:
        row = (ticks(time), channel, operation, flags, asked, asked if done is None else done)
        self.records.setdefault(thread, []).append(row)

    def content(self, capacity: int = 64, dropped: int = 0) -> bytes:
        rings = [
            (thread, rows[at : at + RING]) for thread, rows in self.records.items() for at in range(0, len(rows), RING)
        ]
        head = np.zeros(1, layout.HEADER)
        capacity = max(capacity, len(self.channels))
        values = {
            "magic": layout.MAGIC, "version": 1, "header_size": 4096, "record_size": 32, "channel_size": 128,
            "channel_capacity": capacity, "ring_capacity": len(rings) + 2, "ring_records": RING, "pid": self.pid,
            "start_ticks": 1, "realtime": EPOCH * 10**9, "tsc": START, "tsc_hz": HZ, "monotonic": 7,
            "channels": len(self.channels), "rings": len(rings), "dropped": dropped,
            "hostname": self.host.encode(), "program": b"python3",
        }  # fmt: skip
        for name, value in values.items():
            head[name] = (
                np.void(value.ljust(layout.HEADER[name].itemsize, b"\0")) if isinstance(value, bytes) else value
            )
        table = np.zeros(capacity, layout.CHANNEL)
        for index, row in enumerate(self.channels):
            table[index] = row
        return head.tobytes() + table.tobytes() + b"".join(_ring(*ring) for ring in rings) + bytes(2 * (64 + RING * 32))


def _ring(thread: int, rows: list[tuple[int, ...]]) -> bytes:
    head, records = np.zeros(1, layout.RING), np.zeros(RING, layout.RECORD)
    head["written"], head["thread"] = len(rows), thread
    records[: len(rows)] = rows
    return head.tobytes() + records.tobytes()


@dataclass(frozen=True)
class Link:
    sender: Process
    receiver: Process
    here: int
    there: int

    @property
    def back(self) -> Link:
        return Link(self.receiver, self.sender, self.there, self.here)


def tcp(address: str, port: int) -> tuple[object, ...]:
    packed = bytes(int(part) for part in address.split("."))
    return (layout.INET, port, 0, np.void(packed.ljust(16, b"\0")), 0, np.void(bytes(18)))


def verbs(gid: bytes, qp: int) -> tuple[object, ...]:
    return (layout.INFINIBAND, 0, qp, np.void(gid.ljust(16, b"\0")), 0, np.void(bytes(18)))


class Network:
    """Processes, the connections between them, and what passes over these: both ends write it down."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.port = 40000

    def process(self, host: str, pid: int) -> Process:
        self.processes.append(Process(host, pid))
        return self.processes[-1]

    def connect(self, client: Process, server: Process, opened: float = 0.0) -> Link:
        self.port += 1
        ends = tcp(self._address(client), self.port), tcp(self._address(server), 2222)
        here, there = self._open(client, *ends, opened), self._open(server, *ends[::-1], opened)
        return Link(client, server, here, there)

    def send(self, link: Link, time: float, size: int, received: int | None = None) -> None:
        link.sender.record(time, link.here, layout.SEND, size)
        link.receiver.record(time + 1e-5, link.there, layout.RECV, 65536, size if received is None else received)

    def write(self, folder: Path) -> list[Path]:
        paths = []
        for process in self.processes:
            paths.append(folder / f"{process.host}.{process.pid}.1.net")
            paths[-1].write_bytes(process.content())
        return paths

    def _address(self, process: Process) -> str:
        return f"10.0.0.{sorted({each.host for each in self.processes}).index(process.host) + 1}"

    @staticmethod
    def _open(process: Process, local: tuple[object, ...], remote: tuple[object, ...], opened: float) -> int:
        process.channels.append((layout.TCP, 5, ticks(opened), 0, 0, local, remote, np.void(bytes(8))))
        return len(process.channels) - 1
