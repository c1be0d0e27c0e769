"""The newest plan of each of several pools, returned again while nothing has changed on which it depends.

A plan depends on the order of the jobs, on what they request and hold, on the nodes, and on which jobs a minimum run time protects.
Service, run times and waiting times count by these alone, unless a stage weighs them: then each plan is made anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.counted_times import depends_on_order
from tiresias.scheduler.decide import decide
from tiresias.scheduler.evict.protection import is_protected
from tiresias.scheduler.model import Allocations, Jobs, Nodes, Plan, Snapshot
from tiresias.scheduler.rank.policy import Policy, Ranking
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.topology_tree import Topology

# Of these only the order of jobs depends, their protection, and whether one waits for the fewest nodes.
_NOT_COMPARED = (
    "submit", "attained", "ran", "waited", "first_start", "last_start", "preempted", "remaining", "preemption_cost",
    "progress_from", "progress", "starts", "packed_until",
)  # fmt: skip
# what changes most, first
COMPARED_JOBS = ("state", *(each.name for each in fields(Jobs) if each.name not in _NOT_COMPARED))
_NODES = tuple(each.name for each in fields(Nodes))
_TOPOLOGY = tuple(each.name for each in fields(Topology))
_ALLOCATIONS = tuple(each.name for each in fields(Allocations))
_RANKING = tuple(each.name for each in fields(Ranking))


@dataclass(frozen=True, slots=True, eq=False)
class _Ranked:
    """What a plan depends on."""

    snapshot: Snapshot
    config: PolicyConfig
    policy: Policy
    ranking: Ranking


class KeptPlans:
    """The plans."""

    def __init__(self) -> None:
        self._of: dict[Hashable, tuple[_Ranked, Plan]] = {}

    def decide(
        self, pool: Hashable, snapshot: Snapshot, config: PolicyConfig, policy: Policy, ranking: Ranking | None
    ) -> Plan:
        """Return what `decide` returns. Words about the ranks may be those of the kept plan.

        O(jobs + nodes + allocations) in numpy where the plan is kept.

        Args:
            pool: Names the pool.
            snapshot: What the pool sees. Its arrays are kept, so that the caller must not change them later.
            config: As of `decide`.
            policy: As of `decide`.
            ranking: As of `decide`; None: the policy has to rank the jobs, and nothing is kept.
        """
        if ranking is None:
            return decide(snapshot, config, policy)
        now, before = _Ranked(snapshot, config, policy, ranking), self._of.get(pool)
        if before is None or not _is_same(before[0], now):
            before = self._of[pool] = now, decide(snapshot, config, policy, ranking)
        return before[1]


def _is_same(before: _Ranked, now: _Ranked) -> bool:
    """Return whether the plan of `before` is that of `now`."""
    one, other = before.snapshot, now.snapshot
    return (
        before.config is now.config
        and before.policy is now.policy
        and differ_in_times_only(one, other)
        and _have_same(before.ranking, now.ranking, _RANKING)
        and all(depends_on_order(each, now.config, now.policy) for each in (one, other))
        and _are_equal(is_protected(one, now.config), is_protected(other, now.config))
    )


def differ_in_times_only(one: Snapshot, other: Snapshot) -> bool:
    """Return whether two snapshots without Slurm's limits are equal but for service and times. O(jobs + nodes + allocations)."""
    return (
        not one.quotas
        and not other.quotas
        and one.interference is other.interference
        and one.trained is other.trained
        and _have_same(one.jobs, other.jobs, COMPARED_JOBS)
        and _have_same(one.allocations, other.allocations, _ALLOCATIONS)
        and _have_same(one.nodes, other.nodes, _NODES)
    )


def has_arrays(column: Iterable[object]) -> bool:
    """Return whether a column of objects has arrays, and None for some jobs, in place of objects that compare as a whole."""
    return isinstance(next((each for each in column if each is not None), None), np.ndarray)


def _have_same(one: object, other: object, columns: tuple[str, ...]) -> bool:
    return all(_are_equal(getattr(one, name), getattr(other, name)) for name in columns)


def _are_equal(one: Any, other: Any) -> bool:
    """Return whether two columns are equal. Resources are compared by their amounts, trees by their columns."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and bool((one == other).all())
    if isinstance(one, Resources):
        return _are_equal(one.amount, other.amount)
    if isinstance(one, Topology):
        return _have_same(one, other, _TOPOLOGY)
    if isinstance(one, tuple) and has_arrays(one):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return bool(one == other)
