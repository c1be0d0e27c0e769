"""What clients of the metrics' HTTP server can hold: a bounded number of connections, for a bounded time."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tiresias.slurm_plugin.sockets.metrics_server import MAX_CONNECTIONS, MetricsServer

HALF = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
TIRESIAS = [sys.executable, "-m", "tiresias", "metrics", "--listen", "127.0.0.1:0"]


def until(ready: Callable[[], Any], seconds: float = 20.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def answers(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
    start("200 OK", [])
    return [b"tiresias_up 1\n"]


@pytest.fixture
def serving() -> Iterator[MetricsServer]:
    with MetricsServer(("127.0.0.1", 0), answers, seconds=0.5) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


def is_closed(connection: socket.socket) -> bool:
    """By the server, whatever it answered before."""
    connection.settimeout(20.0)
    with suppress(ConnectionError):
        while connection.recv(4096):
            pass
    return True


def test_half_a_request_is_cut_off(serving: MetricsServer) -> None:
    with closing(socket.create_connection(("127.0.0.1", serving.server_port))) as connection:
        connection.sendall(HALF)
        assert is_closed(connection)
    until(lambda: not serving.connections)


def test_a_request_that_comes_byte_by_byte_has_no_more_time(serving: MetricsServer) -> None:
    began = time.monotonic()
    with closing(socket.create_connection(("127.0.0.1", serving.server_port))) as connection, suppress(ConnectionError):
        while time.monotonic() < began + 20.0:
            connection.sendall(b"x")
            time.sleep(0.05)
    assert time.monotonic() < began + 15.0


def test_400_half_requests_keep_no_scrape_out_and_little_in(tmp_path: Path) -> None:
    with (
        subprocess.Popen([*TIRESIAS, "--socket", str(tmp_path / "none")], stderr=subprocess.PIPE, text=True) as program,
        ExitStack() as opened,
    ):
        opened.callback(program.terminate)
        assert program.stderr is not None
        address = program.stderr.readline().split()[-1]
        port = int(address.rpartition(":")[2].partition("/")[0])
        for _ in range(400):
            connection = opened.enter_context(closing(socket.create_connection(("127.0.0.1", port), timeout=20)))
            with suppress(ConnectionError):  # it may be cut off at once
                connection.sendall(HALF)
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert "tiresias_up 0" in answer.read().decode()
        here = Path(f"/proc/{program.pid}")
        until(lambda: len(list((here / "fd").iterdir())) < MAX_CONNECTIONS + 20)
        until(lambda: len(list((here / "task").iterdir())) <= 2 * MAX_CONNECTIONS + 4)
