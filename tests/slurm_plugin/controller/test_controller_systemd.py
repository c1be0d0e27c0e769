"""The daemon under a service manager: it says that it is ready, that it is well, and nothing any more when a cycle hangs."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
Centre = Any  # conftest.py
HANG_AT = "/opt/tiresias/tests/slurm_plugin/controller/hang_at.py"  # the checkout, as the cluster sees it
SECONDS = 2  # WatchdogSec=
ENVIRONMENT = {"NOTIFY_SOCKET": "/shared/notify", "WATCHDOG_USEC": str(SECONDS * 1_000_000)}


class Manager:
    """As much of systemd as listens."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener, self.heard = listener, list[str]()
        listener.settimeout(0.1)

    def listen(self, seconds: float, until: str = "") -> bool:
        """For so long, or until a line has these words."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                lines = self._listener.recv(65536).decode().splitlines()
            except TimeoutError:
                continue
            self.heard += lines
            if until and any(until in line for line in lines):
                return True
        return False


@pytest.fixture
def manager(centre: Centre) -> Iterator[Manager]:
    centre.stop()
    centre.usual = False
    path = centre.cluster.shared / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        path.chmod(0o666)
        yield Manager(listener)
    path.unlink()


def test_what_a_controller_says_in_its_life(centre: Centre, manager: Manager) -> None:
    centre.start(centre.configure()[0], env=ENVIRONMENT)
    assert manager.listen(10, until="STATUS=exact: 0 jobs, cycle "), manager.heard
    assert "READY=1" in manager.heard
    for _ in range(3):
        assert manager.listen(SECONDS, until="WATCHDOG=1"), manager.heard
    centre.cluster.kill_slurmctld("TERM")  # no fault of ours: to be started again would not help
    try:
        assert manager.listen(30, until="; trying again"), manager.heard
        assert manager.listen(SECONDS, until="WATCHDOG=1")
    finally:
        centre.cluster.start_slurmctld()
    assert centre.stop() == 0
    manager.listen(0.2)
    assert "STOPPING=1" in manager.heard


def test_a_hanging_cycle_is_not_covered_up(centre: Centre, manager: Manager) -> None:
    centre.start(centre.configure()[0], program=("python3", HANG_AT, "3"), env=ENVIRONMENT)
    assert manager.listen(10, until="WATCHDOG=1")
    centre.until(lambda: centre.status()["cycle"]["count"] == 3, "it makes no three cycles")
    while manager.listen(SECONDS, until="WATCHDOG=1"):
        assert len(manager.heard) < 100, f"it is well, it says, in the middle of a cycle that hangs: {manager.heard}"
    assert not manager.listen(2 * SECONDS, until="WATCHDOG=1")
    assert centre.exit_code is None
    assert centre.status()["cycle"]["count"] == 3, "viewers are answered all the same"
    centre.stop("KILL")
