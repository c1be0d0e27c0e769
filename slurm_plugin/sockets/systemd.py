"""Notifications to systemd for a service of Type=notify (sd_notify(3)): readiness, watchdog and status.

Without systemd nothing is sent. No function here fails or waits: an unresponsive service manager does not stop the
controller.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Mapping

KEEPALIVES_PER_TIMEOUT = 4  # notifications in the time after which systemd ends a silent service


def notify(*lines: str, environ: Mapping[str, str] = os.environ) -> None:
    """Send lines such as READY=1 or STATUS=some text."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
        speaker.setblocking(False)
        speaker.sendto("\n".join(lines).encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)


class Watchdog:
    """systemd's watchdog timer."""

    def __init__(self, environ: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.monotonic) -> None:
        self._environ, self._clock, self._last_keepalive = environ, clock, -math.inf
        self.every = _seconds(environ) / KEEPALIVES_PER_TIMEOUT

    def keep_alive(self) -> None:
        """Report progress, at most `every` seconds apart. Call it after each piece of work, never from a timer."""
        if (now := self._clock()) - self._last_keepalive > self.every:
            self._last_keepalive = now
            notify("WATCHDOG=1", environ=self._environ)


def _seconds(environ: Mapping[str, str]) -> float:
    """Return WatchdogSec= if systemd set it for this process, else inf."""
    limit, owner = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", str(os.getpid()))
    return int(limit) / 1e6 if limit.isdecimal() and int(limit) and owner == str(os.getpid()) else math.inf
