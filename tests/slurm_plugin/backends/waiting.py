"""Waits on a real Slurm."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tiresias.slurm_plugin.backends.interface import SlurmJob

T = TypeVar("T")


def settled(job: SlurmJob) -> bool:
    """Return whether a requeued job may start: earlier, slurmd may remove its files with those of the last run (seen on 24.11)."""
    return job.state == "PENDING" and not job.completing and time.time() > job.submit_time + 2


def next_second() -> None:
    """Wait until a run is longer than the resolution of Slurm's clock."""
    time.sleep(1.1)


def eventually(condition: Callable[[], T], seconds: float = 20.0) -> T:
    """Wait until the condition is true; return its value."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"not after {seconds:g} s: {found}"
        time.sleep(0.1)
    return found
