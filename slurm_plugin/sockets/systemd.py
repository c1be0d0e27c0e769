"""What systemd wants to hear of a service of Type=notify (sd_notify(3)): that it is ready, well, and what it does.

Without systemd nothing is said. Nothing here fails or waits: a service manager that does not listen is no reason to stop.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Mapping

PETS = 4  # in the time after which systemd ends a service that says nothing


def notify(*lines: str, environ: Mapping[str, str] = os.environ) -> None:
    """Such as READY=1 or STATUS=some words."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
        speaker.setblocking(False)
        speaker.sendto("\n".join(lines).encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)


class Watchdog:
    """`pet` says that work goes on: to be called where some was done, however often, and never from a timer."""

    def __init__(self, environ: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.monotonic) -> None:
        self._environ, self._clock, self._petted = environ, clock, -math.inf
        self.every = _seconds(environ) / PETS

    def pet(self) -> None:
        if (now := self._clock()) - self._petted > self.every:
            self._petted = now
            notify("WATCHDOG=1", environ=self._environ)


def _seconds(environ: Mapping[str, str]) -> float:
    """WatchdogSec= as systemd tells it, where it means this process; else inf."""
    limit, owner = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", str(os.getpid()))
    return int(limit) / 1e6 if limit.isdecimal() and int(limit) and owner == str(os.getpid()) else math.inf
