"""The moment at which a decision may change although nothing happens in the cluster."""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.evict.defragment import moments
from tiresias.scheduler.evict.protection import is_protected, protected_until
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.rank.policies import policy_of
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.size.sampling import next_sample_end


def next_change(snapshot: Snapshot, config: PolicyConfig, policy: Policy | None = None) -> float:
    """Return the next moment at which `decide` may return another plan without an event; inf for never.

    Without waiting jobs only samples of sizes can end, and the rank of a running job matters once it may be preempted.
    """
    policy = policy or policy_of(config)
    jobs, sample = snapshot.jobs, next_sample_end(snapshot, config)
    if not (jobs.state == JobState.WAITING).any():
        return sample
    changes = policy.changes(snapshot, config)
    if policy.preempts:
        changes = np.where(is_protected(snapshot, config), protected_until(jobs, config), changes)
    return min(policy.turn(snapshot.time, config), float(changes.min()), relaxes(snapshot, config), sample)


def relaxes(snapshot: Snapshot, config: PolicyConfig) -> float:
    """Return the next moment at which a waiting job accepts more nodes than the fewest, or nodes may be defragmented for it."""
    jobs, defragments = snapshot.jobs, moments(snapshot, config.defragment, config.preemption_cost)
    if jobs.packed_until is None:
        return defragments
    packed = (jobs.state == JobState.WAITING) & (jobs.packed_until > snapshot.time)
    return float(np.min(jobs.packed_until[packed], initial=defragments))
