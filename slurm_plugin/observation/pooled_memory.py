"""The remote memory of the cluster for `decide`: what donors can lend of the memory that Slurm has not allocated.

The licence remote_memory (protocol/remote_memory_license.py) limits what Slurm promises. What the nodes have now may be less, so
jobs wait for it as well. Without the licence nothing is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tiresias.protocol.remote_memory_license import LICENSE, MIB_OF_ONE
from tiresias.scheduler.admit.remote_memory import lent_at_most, with_remote_memory
from tiresias.scheduler.model import Snapshot
from tiresias.slurm_plugin.admission.demand import licenses
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules


def remote_memory(job: SlurmJob) -> float:
    """Return the MiB of remote memory that a job requests."""
    return licenses(job.licenses).get(LICENSE, 0.0) * MIB_OF_ONE if job.licenses else 0.0


def with_pooled_memory(
    snapshot: Snapshot, nodes: Sequence[SlurmNode], jobs: Iterable[SlurmJob], rules: SlurmRules
) -> Snapshot:
    """Return the snapshot with the limit on remote memory.

    Args:
        snapshot: The managed jobs and their nodes.
        nodes: The records of the nodes, in the order of the snapshot.
        jobs: All jobs. What those hold that the snapshot does not have is promised, too.
        rules: Slurm's.
    """
    if LICENSE not in rules.licenses:
        return snapshot
    total = np.array([node.memory for node in nodes], np.float64)
    lent = lent_at_most(total, snapshot.nodes.free["memory"])
    shown = frozenset(snapshot.jobs.id)
    others = sum(remote_memory(job) for job in jobs if job.licenses and job.shares and job.id not in shown)
    left = max(float(lent.sum()) - others, 0.0) / max(float(lent.sum()), 1.0)
    return with_remote_memory(snapshot, lent * left)
