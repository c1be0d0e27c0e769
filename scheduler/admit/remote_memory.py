"""Remote memory of the cluster: what donors can lend, what is promised to jobs, and the limit that follows for waiting jobs.

A job that requests remote memory starts only where enough of it is not promised to other jobs. The limit is a `Quota`, so it
counts wherever Slurm's own limits do: jobs take of it in the order of the ranks, pool by pool, and a preemption returns nothing to
it until the preempted job has ended. Local memory has precedence: a start that takes memory of a donor's node is never refused, and
donors then evict slabs. Pure. A snapshot without such jobs is returned as it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Floats, Ints, Jobs, JobState, Nodes, Quota, Snapshot
from tiresias.scheduler.reason_codes import Reason, ReasonCode

REMOTE_MEMORY = "RemoteMemory"  # the reason of the quota
HEADROOM_SHARE = 1 / 8  # of a node's memory: stays free
MOST_SHARE = 1 / 2  # of a node's memory: a donor lends no more


def lent_at_most(total: Floats, free: Floats) -> Floats:
    """Return the MiB that the donor of each node can lend of the memory that Slurm has not allocated, shape (nodes,).

    Args:
        total: MiB of each node.
        free: Those of them that no job has.
    """
    return np.clip(free - HEADROOM_SHARE * total, 0.0, MOST_SHARE * total)


def with_remote_memory(snapshot: Snapshot, lent: Floats) -> Snapshot:
    """Return the snapshot with the limit on remote memory, and with what donors can lend.

    Args:
        snapshot: The jobs, with their requests.
        lent: MiB that the donor of each node can lend, those promised to jobs included, shape (nodes,).

    Returns:
        The snapshot; with a quota if the waiting jobs together request more than remains.
    """
    remote = requested(snapshot.jobs)
    if not remote.any():
        return snapshot
    lendable = unpromised(lent, _leaf_switches(snapshot.nodes), promised(snapshot, remote))
    waits = (snapshot.jobs.state == JobState.WAITING) & (remote > 0)
    amounts = {row: float(remote[row]) for row in np.flatnonzero(waits).tolist()}
    left, quotas = float(lendable.sum()), snapshot.quotas
    if sum(amounts.values()) > left:
        quotas = (*quotas, Quota(REMOTE_MEMORY, left, amounts))
    return replace(snapshot, nodes=replace(snapshot.nodes, lendable=lendable), quotas=quotas)


def requested(jobs: Jobs) -> Floats:
    """Return the MiB of remote memory that each job requests, shape (jobs,)."""
    return np.fromiter((one.remote_memory for one in jobs.request), np.float64, len(jobs))


def promised(snapshot: Snapshot, remote: Floats) -> Floats:
    """Return the MiB that are promised to the jobs of each node, shape (nodes,): in equal parts to the nodes of a job.

    Args:
        snapshot: Jobs that hold nodes count until they have released them.
        remote: MiB that each job requests, shape (jobs,).
    """
    held, nodes = snapshot.allocations, np.bincount(snapshot.allocations.job, minlength=len(remote))
    share = remote / np.maximum(nodes, 1)
    return np.bincount(held.node, share[held.job], len(snapshot.nodes)).astype(np.float64)


def unpromised(lent: Floats, leaf: Ints, promised_to: Floats) -> Floats:
    """Return what donors can lend to further jobs, MiB, shape (nodes,).

    A promise is counted at donors under the leaf switch of the job's node, in proportion to what they lend, and at all others where
    these have too little. The sum is that of `lent` minus that of the promises, at least 0. O(nodes).

    Args:
        lent: MiB that donors can lend in all, shape (nodes,).
        leaf: Index of the leaf switch of each node, shape (nodes,).
        promised_to: MiB that are promised to the jobs of each node, shape (nodes,).
    """
    of_leaf, promises = (np.bincount(leaf, each).astype(np.float64) for each in (lent, promised_to))
    near = np.minimum(of_leaf, promises)
    left: Floats = lent * (1.0 - _ratio(near, of_leaf))[leaf]
    beyond, total = float((promises - near).sum()), float(left.sum())
    return left * (max(total - beyond, 0.0) / total) if total else left


def why_refused(requested_mib: float, left_mib: float) -> Reason:
    """Return the reason of a job that the limit keeps waiting. left_mib: what higher-ranked jobs leave of it."""
    return Reason(ReasonCode.REMOTE_MEMORY, needed=round(requested_mib), amount=int(left_mib))


def _leaf_switches(nodes: Nodes) -> Ints:
    return nodes.topology.nearest_groups[0]


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)
