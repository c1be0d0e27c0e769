"""The requests of the jobs of a snapshot, with the nodes that are closed to each of them now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.model import Floats, Request
from tiresias.slurm_plugin.admission.eligibility import Eligibility
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode
from tiresias.slurm_plugin.cluster.partition_nodes import nodes_elsewhere
from tiresias.slurm_plugin.observation.job_facts import JobFacts
from tiresias.slurm_plugin.observation.requests import ClosedRequests, base_request
from tiresias.slurm_plugin.state import avoided_nodes
from tiresias.slurm_plugin.state.journal_rows import JobRow


class JobsWithFacts(NamedTuple):
    """The records of jobs, their rows and their facts."""

    jobs: Sequence[SlurmJob]
    rows: Sequence[JobRow]
    facts: JobFacts


class JobRequests:
    """Makes the requests of each snapshot; those that have not changed are the same objects."""

    def __init__(self) -> None:
        self._closed = ClosedRequests()

    def of(
        self,
        table: JobsWithFacts,
        allowed: Eligibility,
        nodes: Sequence[SlurmNode],
        cpus: Mapping[int, Floats],
        now: float,
    ) -> tuple[Request, ...]:
        """Return the request of each job. O(jobs + nodes x different requests of partitions).

        Args:
            table: The jobs.
            allowed: The nodes that Slurm's rules close to jobs.
            nodes: The managed nodes.
            cpus: CPUs for each GPU of jobs with parameter servers by their GPUs, by row.
            now: Epoch second.
        """
        found, gpus = table.facts.request.tolist(), {node.name: node.gpus for node in nodes}
        elsewhere = nodes_elsewhere(nodes, map(attrgetter("partition"), table.jobs))
        for at, each in cpus.items():
            if table.jobs[at].gpus < len(each):
                found[at] = base_request(table.jobs[at], table.rows[at], float(each[table.jobs[at].gpus]))
        self._closed.begin_cycle()
        for at in _restricted(table.facts, allowed, elsewhere, now):
            job = table.jobs[at]
            avoided = avoided_nodes.avoided(table.rows[at], job.gpus, now, gpus)
            closed = (avoided, allowed.closed_to(job.id), elsewhere[job.partition])
            found[at] = self._closed.of(found[at], *closed) if any(closed) else found[at]
        return tuple(found)


def _restricted(
    facts: JobFacts, allowed: Eligibility, elsewhere: Mapping[str, frozenset[str]], now: float
) -> Sequence[int]:
    """Return the rows of the jobs to which nodes may be closed now."""
    if allowed.closed or any(elsewhere.values()):
        return range(len(facts.request))
    found: list[int] = np.flatnonzero(facts.avoids_until > now).tolist()
    return found
