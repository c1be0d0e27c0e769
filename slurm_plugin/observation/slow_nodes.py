"""The nodes of running jobs on which ranks are much slower than the job's other ranks, by what these report of their own work."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from tiresias.protocol import rank_files
from tiresias.scheduler.estimates.stragglers import LEAST_RANKS, stragglers
from tiresias.slurm_plugin.backends.interface import SlurmJob

POLL = 12.0  # between two polls of a job, in times of progress.timed


class SlowNodes:
    """Finds stragglers in the control folders of jobs with several ranks.

    Args:
        root: The control root.
        timed: progress.timed, seconds.

    Attributes:
        found: The slow nodes of each job, with their own work through the median, by job id.
    """

    def __init__(self, root: Path, timed: float) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._root, self._poll = root, POLL * timed
        self._next: dict[str, float] = {}
        self._suspected: dict[str, set[str]] = {}

    def begin_cycle(self, running: Collection[str]) -> None:
        """Forget jobs that do not run. running: ids."""
        for job_id in [one for one in self._next if one not in running]:
            del self._next[job_id]
            self.found.pop(job_id, None)
            self._suspected.pop(job_id, None)

    def poll(self, job: SlurmJob, now: float) -> None:
        """Poll a running job where that is due. A node is slow if it was so in two polls one after the other."""
        if (job.tasks < LEAST_RANKS and job.gpus < LEAST_RANKS) or now < self._next.get(job.id, 0.0):
            return
        self._next[job.id] = now + self._poll
        slow = self._slow(job)
        again = {node: ratio for node, ratio in slow.items() if node in self._suspected.get(job.id, ())}
        self._suspected[job.id] = set(slow)
        self.found.pop(job.id, None)
        if again:
            self.found[job.id] = again

    def _slow(self, job: SlurmJob) -> dict[str, float]:
        ranks = rank_files.work_of_ranks(self._root, job.uid, job.id, job.restarts)
        result = stragglers(np.array([rank.own for rank in ranks], np.float64))
        own_nodes = {share.node.partition(".")[0]: share.node for share in job.shares}
        slow: dict[str, float] = {}
        for row in np.flatnonzero(result.slow).tolist():
            if node := own_nodes.get(ranks[row].node.partition(".")[0]):
                slow[node] = max(slow.get(node, 0.0), float(result.ratio[row]))
        return slow
