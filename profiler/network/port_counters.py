"""What the InfiniBand and RoCE ports of a node have sent and received, as the kernel counts it.

    before = read(); ...; after = read()
    sent(before, after)      bytes, None where the counters are missing

It covers everything that leaves through RDMA hardware, from any process: a check on what was recorded, for nodes that a
job has for itself. Standard library only: it runs on compute nodes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

ROOT = Path("/sys/class/infiniband")
ENTRIES = 256  # devices, and ports of each, that are looked at
LONGEST = 32  # bytes of a counter's file
OUT = ("counters_ext/port_xmit_data_64", "counters/port_xmit_data", "hw_counters/tx_bytes")
IN = ("counters_ext/port_rcv_data_64", "counters/port_rcv_data", "hw_counters/rx_bytes")
UNITS = (4, 4, 1)  # bytes; by the InfiniBand architecture words of four, by providers' own counters bytes
NARROW, WIDE = 1 << 32, 1 << 64
TOLERANCE = 0.15  # packets have headers, and what is received is acknowledged


class Counter(NamedTuple):
    """A counter of a port and the bytes that it counts in."""

    value: int
    unit: int  # bytes


class PortCounters(NamedTuple):
    """The counters of a port; None where the port does not count it."""

    sent: Counter | None
    received: Counter | None


Counters = Mapping[tuple[str, str], PortCounters]  # by device and port


def read(root: Path = ROOT) -> Counters:
    """Of all ports that can be read; none where there is no such hardware."""
    found = {}
    for device in _entries(root):
        for port in _entries(device / "ports"):
            counted = PortCounters(_counter(port, OUT), _counter(port, IN))
            if counted.sent or counted.received:
                found[device.name, port.name] = counted
    return found


def sent(before: Counters, after: Counters) -> int | None:
    """Bytes, of all ports that are in both. None where there is none, or one that was reset or stands at its limit."""
    return _moved((before[key].sent, after[key].sent) for key in before if key in after)


def received(before: Counters, after: Counters) -> int | None:
    """As `sent`."""
    return _moved((before[key].received, after[key].received) for key in before if key in after)


def compare(port: int, recorded: int) -> str | None:
    """Return a note where the ports sent other amounts, in bytes, than were recorded on their node."""
    if abs(port - recorded) <= TOLERANCE * max(port, recorded):
        return None
    if recorded > port:
        return f"{recorded:,} bytes were recorded, its ports sent {port:,}: the rest stayed on the node"
    share = 1 - recorded / port
    return f"{share:.0%} of the {port:,} bytes that its ports sent was not recorded: direct verbs or GPU-initiated RDMA"


def _entries(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(folder / entry.name for entry in islice(entries, ENTRIES))
    except OSError:
        return


def _counter(port: Path, names: tuple[str, ...]) -> Counter | None:
    """The first that is there: the old wide ones stand beside narrow ones."""
    for name, unit in zip(names, UNITS, strict=True):
        value = _number(port / name)
        if value is not None:
            return Counter(value, unit)
    return None


def _number(file: Path) -> int | None:
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(opened, LONGEST + 1) if stat.S_ISREG(os.fstat(opened).st_mode) else b""
    except OSError:  # a port that is down may answer so
        return None
    finally:
        os.close(opened)
    digits = text.strip()
    value = int(digits) if digits.isdigit() and len(text) <= LONGEST else WIDE
    return value if value < WIDE else None


def _moved(pairs: Iterator[tuple[Counter | None, Counter | None]]) -> int | None:
    counted = [_difference(before, after) for before, after in pairs if before or after]
    known = [each for each in counted if each is not None]
    return sum(known) if known and len(known) == len(counted) else None


def _difference(before: Counter | None, after: Counter | None) -> int | None:
    """Bytes. A counter that went back went round if that is the shorter way, else it was reset; narrow ones of old
    hardware stop at their limit."""
    if before is None or after is None:
        return None
    if before.unit != after.unit or after.value in (NARROW - 1, WIDE - 1):
        return None
    if after.value >= before.value:
        return (after.value - before.value) * after.unit
    limit = NARROW if before.value < NARROW else WIDE
    round_it = after.value + limit - before.value
    return round_it * after.unit if round_it <= limit // 2 else None
