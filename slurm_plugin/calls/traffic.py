"""The controller's calls to slurmctld: their limit, their number, and slurmctld's load by the calls of all clients."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping
from typing import Any

from tiresias.slurm_plugin.backends.budget import Bucket, Budgeted, unlimited
from tiresias.slurm_plugin.backends.interface import SlurmLoad, SlurmUnavailable
from tiresias.slurm_plugin.cluster.site import RateLimit
from tiresias.slurm_plugin.config import Rpc

log = logging.getLogger("tiresias")

LOAD_INTERVAL_S = 60.0  # between two readings of slurmctld's figures
SHARE_OF_LIMIT = 0.8  # of Slurm's own limit for a user
THREADS = 128  # of slurmctld's 256 that serve calls: from here on clients soon wait for one
QUEUE = 1000  # messages to nodes that wait: a backlog


def bucket(config: Rpc, slurms: RateLimit | None) -> Bucket:
    """Return the configured bucket, and never more than four fifths of Slurm's own limit."""
    if slurms is None:
        return Bucket(config.burst, config.rate) if config.rate else unlimited()
    rate = min(config.rate or math.inf, SHARE_OF_LIMIT * slurms.rate)
    return Bucket(min(config.burst, SHARE_OF_LIMIT * slurms.size), rate)


class Traffic:
    """Counts calls, and reads slurmctld's figures once a minute."""

    def __init__(self, backend: Budgeted) -> None:
        self._backend = backend
        self._looked, self._spent, self._per_minute = -math.inf, 0, 0.0
        self._load: SlurmLoad | None = None

    def look(self, now: float) -> None:
        """Read the figures where they are due, with one call. now: epoch seconds."""
        if now - self._looked < LOAD_INTERVAL_S:
            return
        spent = self._backend.spent
        if math.isfinite(self._looked):
            self._per_minute = 60.0 * (spent - self._spent) / (now - self._looked)
        self._looked, self._spent = now, spent
        try:
            self._load = self._backend.load(os.getuid())
        except SlurmUnavailable as error:  # figures only: what is wrong with Slurm the cycle finds out
            self._load = None
            log.info("slurmctld's figures: %s", error)

    def published(self, postponed: int) -> Mapping[str, Any]:
        """Return the figures for viewers; infinite limits and unknown figures are None.

        postponed: holds, starts and preemptions that wait for calls.
        """
        limit, load = self._backend.bucket, self._load
        return {
            "burst": limit.size if math.isfinite(limit.size) else None, "rate": limit.rate or None,
            "spent": self._backend.spent, "calls": dict(self._backend.calls), "per_minute": round(self._per_minute, 1),
            "postponed": postponed,
            "slurmctld": load and {
                "threads": load.threads, "queue": load.queue, "database_queue": load.database_queue, "calls": load.calls,
                "mean_ms": round(1e3 * load.seconds / load.calls, 3) if load.calls else None,
            },
        }  # fmt: skip

    def alarms(self, postponed: int) -> list[str]:
        """Return what an administrator should see, one line each."""
        found, load = [], self._load
        if postponed:
            found.append(
                f"{postponed} holds, starts and preemptions wait for calls to slurmctld "
                "([rpc] in tiresias.toml, rl_enable in slurm.conf)"
            )
        if load and load.threads >= THREADS:
            found.append(f"slurmctld is overloaded: {load.threads} calls are being served; see sdiag for their users")
        if load and load.queue >= QUEUE:
            found.append(f"slurmctld has a backlog: {load.queue} messages to nodes wait; see sdiag")
        return found
