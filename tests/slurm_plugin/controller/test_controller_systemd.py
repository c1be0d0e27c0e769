"""The daemon under a service manager: it reports that it is ready and alive, and stops to report when a cycle hangs."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
HANG_AT = "/opt/tiresias/tests/slurm_plugin/controller/hang_at.py"  # the checkout, as the cluster sees it
WATCHDOG_S = 2  # WatchdogSec=
ENVIRONMENT = {"NOTIFY_SOCKET": "/shared/notify", "WATCHDOG_USEC": str(WATCHDOG_S * 1_000_000)}


class Manager:
    """The notification socket of a service manager."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener, self.received = listener, list[str]()
        listener.settimeout(0.1)

    def listen(self, seconds: float, until: str = "") -> bool:
        """Receive for `seconds`, or until a line contains `until`; return whether one does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                lines = self._listener.recv(65536).decode().splitlines()
            except TimeoutError:
                continue
            self.received += lines
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


def test_a_controller_notifies_systemd_from_start_to_stop(centre: Centre, manager: Manager) -> None:
    centre.start(centre.configure()[0], env=ENVIRONMENT)
    assert manager.listen(10, until="STATUS=exact: 0 jobs, cycle "), manager.received
    assert "READY=1" in manager.received
    for _ in range(3):
        assert manager.listen(WATCHDOG_S, until="WATCHDOG=1"), manager.received
    centre.cluster.kill_slurmctld("TERM")  # not a fault of the controller: a restart would not help
    try:
        assert manager.listen(30, until="; trying again"), manager.received
        # One call to a slurmctld that is down may take longer than this WATCHDOG_S; the unit has two minutes.
        assert manager.listen(60, until="WATCHDOG=1"), manager.received
    finally:
        centre.cluster.start_slurmctld()
    assert centre.stop() == 0
    manager.listen(0.2)
    assert "STOPPING=1" in manager.received


def test_a_hanging_cycle_ends_the_watchdog_notifications(centre: Centre, manager: Manager) -> None:
    centre.start(centre.configure()[0], program=("python3", HANG_AT, "3"), env=ENVIRONMENT)
    assert manager.listen(10, until="WATCHDOG=1")
    centre.wait_until(lambda: centre.status()["cycle"]["count"] == 3, "it does not run three cycles")
    while manager.listen(WATCHDOG_S, until="WATCHDOG=1"):
        assert len(manager.received) < 100, f"it reports that it is alive during a cycle that hangs: {manager.received}"
    assert not manager.listen(2 * WATCHDOG_S, until="WATCHDOG=1")
    assert centre.exit_code is None
    assert centre.status()["cycle"]["count"] == 3, "status requests are answered nevertheless"
    centre.stop("KILL")
