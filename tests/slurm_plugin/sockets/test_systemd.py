"""Notifications to the service manager, received at a real socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.slurm_plugin.sockets.systemd import KEEPALIVES_PER_TIMEOUT, Watchdog, notify


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def received(manager: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(manager.recv(4096).decode())
        except BlockingIOError:
            return found


def test_lines_arrive(manager: socket.socket) -> None:
    notify("READY=1", "STATUS=leads", environ={"NOTIFY_SOCKET": manager.getsockname()})
    assert received(manager) == ["READY=1\nSTATUS=leads"]


def test_an_abstract_socket() -> None:
    name = f"tiresias-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        notify("READY=1", environ={"NOTIFY_SOCKET": f"@{name}"})
        listener.settimeout(5)
        assert listener.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "/nowhere", "relative", "@unused", "/" + "x" * 200, "vsock:2:1"])
def test_without_a_service_manager_nothing_is_sent(address: str) -> None:
    notify("READY=1", environ={"NOTIFY_SOCKET": address})
    notify("READY=1", environ={})


def test_a_manager_that_does_not_read_delays_nothing(manager: socket.socket) -> None:
    for _ in range(1000):  # more than its queue holds
        notify("WATCHDOG=1", environ={"NOTIFY_SOCKET": manager.getsockname()})


def test_it_is_petted_often_enough_and_not_more(manager: socket.socket) -> None:
    now = 0.0
    environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "20000000", "WATCHDOG_PID": str(os.getpid())}
    watchdog = Watchdog(environ, lambda: now)
    assert watchdog.every == 20 / KEEPALIVES_PER_TIMEOUT
    for tick in range(200):  # work goes on ten times a second for 20 s
        now = tick / 10
        watchdog.keep_alive()
    assert received(manager) == ["WATCHDOG=1"] * KEEPALIVES_PER_TIMEOUT


@pytest.mark.parametrize(
    "environ", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"}]
)
def test_a_watchdog_of_another_process_is_ignored(manager: socket.socket, environ: dict[str, str]) -> None:
    watchdog = Watchdog({"NOTIFY_SOCKET": manager.getsockname()} | environ)
    for _ in range(5):
        watchdog.keep_alive()
    assert received(manager) == []
