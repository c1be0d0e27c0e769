"""Waits during the start and the end of a cluster."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable
from tiresias.sandbox.cluster_process import children


def first_process(launcher: subprocess.Popen[bytes], folder: Path) -> int:
    """Return the pid, on this machine, of the inner namespace's first process; bwrap writes its file once that exists."""

    def made() -> bool:
        if launcher.poll() is not None:
            log = (folder / "log/init.log").read_text(errors="replace").strip() or "no message"
            raise TiresiasError(f"the cluster's namespaces could not be created: {log.splitlines()[-1]}")
        return "}" in (folder / "bwrap.json").read_text()

    wait_until(made, 30, lambda: "bwrap does not start")
    (bwrap,) = children(launcher.pid)
    (init,) = children(bwrap)
    return init


def wait_until(done: Callable[[], bool], seconds: float, last_state: Callable[[], str]) -> None:
    """Poll until `done` returns True; after `seconds` raise Unavailable with `last_state`."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise Unavailable(last_state())
        time.sleep(0.05)
