"""Processor time of all processes of this host that end, and of some that do not, by role. Needs root.

The kernel reports the processor time of each task when it ends, to those that listen (taskstats, a family of
generic netlink). /proc has that of processes that do not end, in hundredths of a second.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GENERIC = 16  # NETLINK_GENERIC
CONTROL, GET_FAMILY, FAMILY_ID, FAMILY_NAME = 16, 3, 1, 2
GET, REGISTER, DEREGISTER = 1, 3, 4
OF_TASK, STATISTICS = 4, 3  # types of attributes: one task that has ended, its struct taskstats
BUFFER, RECEIVE_BUFFER_FORCE = 1 << 24, 33  # SO_RCVBUFFORCE
# offsets in struct taskstats (linux/taskstats.h)
RUN_NS, COMMAND, PID, PARENT, GROUP = 72, 80, 128, 132, 368
REQUEST, ATTRIBUTE = struct.Struct("=IHHIIBBH"), struct.Struct("=HH")
CLOCK = os.sysconf("SC_CLK_TCK")


class Ended(NamedTuple):
    """A process that has ended. seconds: processor time of all its threads; parent: the process that was its parent at the end."""

    pid: int
    parent: int
    command: str
    seconds: float


class ProcessTimes:
    """The processes that end while the context is open."""

    def __init__(self) -> None:
        self.ended: dict[int, Ended] = {}
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC)
        self._socket.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER_FORCE, BUFFER)
        self._socket.bind((0, 0))
        self._family = self._find_family()
        self._processors = f"0-{(os.cpu_count() or 1) - 1}".encode() + b"\0"
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._is_open = True

    def __enter__(self) -> ProcessTimes:
        self._send(self._family, GET, REGISTER, self._processors)
        self._socket.settimeout(0.2)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        self._thread.join()
        self._send(self._family, GET, DEREGISTER, self._processors)
        self._socket.close()

    def _send(self, family: int, command: int, kind: int, value: bytes) -> None:
        attribute = ATTRIBUTE.pack(4 + len(value), kind) + value
        attribute += b"\0" * (-len(attribute) % 4)
        self._socket.send(REQUEST.pack(20 + len(attribute), family, 1, 0, 0, command, 1, 0) + attribute)

    def _find_family(self) -> int:
        self._send(CONTROL, GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0")
        answer = self._socket.recv(BUFFER)
        found = dict(_attributes(answer[20:]))
        return int(struct.unpack("=H", found[FAMILY_ID][:2])[0])

    def _receive(self) -> None:
        while self._is_open:
            try:
                answer = self._socket.recv(BUFFER)
            except TimeoutError:
                continue
            for kind, value in _attributes(answer[20:]):
                if kind == OF_TASK:
                    self._add(dict(_attributes(value))[STATISTICS])

    def _add(self, task: bytes) -> None:
        pid, parent, group = (struct.unpack_from("=I", task, at)[0] for at in (PID, PARENT, GROUP))
        nanoseconds = struct.unpack_from("=Q", task, RUN_NS)[0]
        before = self.ended.get(group)
        name = task[COMMAND : COMMAND + 32].partition(b"\0")[0].decode(errors="replace")
        command = name if before is None or pid == group else before.command
        seconds = nanoseconds / 1e9 + (before.seconds if before else 0.0)
        self.ended[group] = Ended(group, parent, command, seconds)


def _attributes(message: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(message):
        length, kind = ATTRIBUTE.unpack_from(message, at)
        if length < 4:
            return
        yield kind & 0x3FFF, message[at + 4 : at + length]
        at += (length + 3) & ~3


def used(pid: int) -> float:
    """Return the processor time of a process so far, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK


def children(pid: int) -> Iterator[int]:
    """Yield the processes whose parent is this one, and theirs."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from children(child)


def command_of(pid: int) -> str:
    """Return the name of the program of a process."""
    return Path(f"/proc/{pid}/comm").read_text().strip()
