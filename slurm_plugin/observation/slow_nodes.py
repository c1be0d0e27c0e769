"""The nodes of running jobs on which ranks or parameter servers are much slower than the others, by what these report."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from tiresias.protocol import control, elastic_sizes, rank_files
from tiresias.protocol.rank_files import RankWork
from tiresias.scheduler.estimates.stragglers import LEAST_RANKS, SlowNode, slow_servers, stragglers
from tiresias.scheduler.model import Floats
from tiresias.slurm_plugin.backends.interface import SlurmJob

POLL = 12.0  # between two polls of a job, in times of progress.timed


class SlowNodes:
    """Finds stragglers in the control folders of jobs with several ranks.

    Args:
        root: The control root.
        timed: progress.timed, seconds.

    Attributes:
        found: The slow nodes of each job by their names, by job id.
    """

    def __init__(self, root: Path, timed: float) -> None:
        self.found: dict[str, dict[str, SlowNode]] = {}
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
        if now < self._next.get(job.id, 0.0) or not _may_have_some(job):
            return
        self._next[job.id] = now + self._poll
        slow = self._slow(job)
        again = {node: one for node, one in slow.items() if node in self._suspected.get(job.id, ())}
        self._suspected[job.id] = set(slow)
        self.found.pop(job.id, None)
        if again:
            self.found[job.id] = again

    def _slow(self, job: SlurmJob) -> dict[str, SlowNode]:
        ranks, servers = (
            rank_files.work_of_ranks(self._root, job.uid, job.id, job.restarts, group)
            for group in (control.RANKS, control.SERVERS)
        )
        slow = stragglers(_own(ranks)).by_node(_nodes(job, ranks))
        whole = np.array([one.whole for one in servers], np.float64)
        for node, one in slow_servers(_own(servers), whole).by_node(_nodes(job, servers)).items():
            slow[node] = one.worst(slow.get(node, one))
        return slow


def _may_have_some(job: SlurmJob) -> bool:
    """Return whether a job may have as many ranks or servers as a comparison needs."""
    sizes = elastic_sizes.read(job.elastic)
    most_servers = sizes.servers.most if sizes and sizes.servers else 0
    return max(job.tasks, job.gpus, most_servers) >= LEAST_RANKS


def _own(reports: Iterable[RankWork]) -> Floats:
    return np.array([one.own for one in reports], np.float64)


def _nodes(job: SlurmJob, reports: Iterable[RankWork]) -> list[str]:
    """Return the node of each report by Slurm's name; "" for one that the job does not have."""
    names = {share.node.partition(".")[0]: share.node for share in job.shares}
    return [names.get(one.node.partition(".")[0], "") for one in reports]
