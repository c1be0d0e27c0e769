"""The reports of running jobs on their remote memory, of each of their nodes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control, remote_memory_use
from tiresias.protocol.remote_memory_use import RemoteMemoryUse
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.observation.pooled_memory import remote_memory

POLL_DIVISOR = 20.0  # a run is polled again after its run time divided by this
SHORTEST_POLL_S, LONGEST_POLL_S = 5.0, 300.0
CLOCKS_S = 60.0  # by which the clock of a node may be slower than that of slurmctld


class _Poll(NamedTuple):
    restart: int
    due: float  # epoch second


class RemoteMemoryReports:
    """Polls the reports, the more rarely the longer a run lasts.

    Args:
        root: Of the control folders.

    Attributes:
        found: The reports of a job by its id; of jobs that have some.
    """

    def __init__(self, root: Path) -> None:
        self.found: dict[str, tuple[RemoteMemoryUse, ...]] = {}
        self._root = root
        self._polls: dict[str, _Poll] = {}

    def begin_cycle(self, running: Collection[str]) -> None:
        """Forget jobs that do not run. running: ids."""
        for job_id in [one for one in self._polls if one not in running]:
            del self._polls[job_id]
            self.found.pop(job_id, None)

    def poll(self, job: SlurmJob, now: float) -> None:
        """Read the reports of a running job where that is due; nothing for a job that requests no remote memory."""
        if not remote_memory(job):
            return
        known = self._polls.get(job.id)
        if known and now < known.due and known.restart == job.restarts:
            return
        wait = min(max((now - job.start_time) / POLL_DIVISOR, SHORTEST_POLL_S), LONGEST_POLL_S)
        self._polls[job.id] = _Poll(job.restarts, now + wait)
        nodes = {share.node for share in job.shares}
        found = remote_memory_use.read_all(control.job_folder(self._root, job.uid, job.id), job.uid)
        of_run = tuple(one for one in found if one.node in nodes and one.began >= job.start_time - CLOCKS_S)
        self.found.pop(job.id, None)
        if of_run:
            self.found[job.id] = of_run
