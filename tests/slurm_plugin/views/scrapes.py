"""`tiresias metrics` with a given published status: printed once, or served over HTTP."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiresias.slurm_plugin.sockets.control_socket import ControlServer

TIRESIAS = [sys.executable, "-m", "tiresias", "metrics"]


def once(folder: Path) -> str:
    words = [*TIRESIAS, "--socket", str(folder / "control.sock")]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


@contextmanager
def served(status: dict[str, Any], folder: Path) -> Iterator[str]:
    """The address of `tiresias metrics --listen`, which asks a controller that publishes this."""
    words = [*TIRESIAS, "--socket", str(folder / "control.sock"), "--listen", "127.0.0.1:0"]
    with (
        ControlServer(folder / "control.sock", lambda request, peer: status),
        subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as serving,
    ):
        try:
            assert serving.stderr is not None
            yield serving.stderr.readline().split()[-1]
        finally:
            serving.send_signal(signal.SIGINT)
        assert serving.wait(20) == 130


def fetch(address: str, accept: str) -> tuple[str, str]:
    """Content type and body."""
    with urllib.request.urlopen(urllib.request.Request(address, headers={"Accept": accept}), timeout=20) as answer:
        return answer.headers["Content-Type"], answer.read().decode()
