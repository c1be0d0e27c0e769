"""Speed of this node's fastest network adapter: an InfiniBand port, else an Ethernet card. Reads sysfs; standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GIGABITS = re.compile(r"([0-9]+(\.[0-9]+)?) Gb/sec")


def fastest(root: Path = Path("/sys/class")) -> float | None:
    """Return bytes a second in one direction; None where no adapter reports a speed."""
    return max(_infiniband(root), default=None) or max(_ethernet(root), default=None)


def _infiniband(root: Path) -> Iterator[float]:
    """Active ports; RoCE counts, as its ports are listed too."""
    for port in root.glob("infiniband/*/ports/*"):
        rate = _GIGABITS.match(_text(port / "rate"))
        if rate and "ACTIVE" in _text(port / "state"):
            yield float(rate[1]) * 1e9 / 8


def _ethernet(root: Path) -> Iterator[float]:
    """Cards, not bridges and tunnels, that have a link; the kernel reports Mbit/s, -1 for unknown."""
    for card in root.glob("net/*"):
        speed = _text(card / "speed").strip()
        if (card / "device").exists() and speed.isdecimal():
            yield float(speed) * 1e6 / 8


def _text(file: Path) -> str:
    with suppress(OSError), file.open(encoding="ascii", errors="replace") as stream:
        return stream.read(256)
    return ""
