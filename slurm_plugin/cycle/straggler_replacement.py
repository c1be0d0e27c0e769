"""Which running jobs are requeued to leave a slow node (placement.stragglers = "replace"). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.stragglers import SlowNode, replacement_gain
from tiresias.scheduler.model import Effect, Plan, Snapshot
from tiresias.scheduler.size.elastic_jobs import HORIZON_S, HYSTERESIS, preemption_costs


class Replacement(NamedTuple):
    """A job that is requeued.

    Attributes:
        job: Its id.
        nodes: The nodes that it leaves.
        why: For the log.
    """

    job: str
    nodes: frozenset[str]
    why: str


def replacements(
    snapshot: Snapshot, plan: Plan, slow: Mapping[str, Mapping[str, SlowNode]], policy: PolicyConfig
) -> Iterator[Replacement]:
    """Yield the jobs that gain more within an hour without their slow nodes than their preemption costs.

    Each must be preemptable, go on in this plan, and find as many free GPUs on other nodes as it holds on the slow ones.

    Args:
        snapshot: Jobs, nodes and allocations.
        plan: The decisions on them.
        slow: The slow nodes of jobs by their names, by job id.
        policy: The configuration of the stages.
    """
    jobs, place = snapshot.jobs, {name: row for row, name in enumerate(snapshot.nodes.name)}
    resized = {action.job for action in plan.resizes}
    costs = preemption_costs(jobs, policy) if slow else ()
    for row in [jobs.id.index(job) for job in slow if job in jobs.id]:
        found = slow[jobs.id[row]]
        speedup, nodes = max(one.speedup for one in found.values()), [place[name] for name in found if name in place]
        pays = replacement_gain(speedup, HORIZON_S) > HYSTERESIS * costs[row]
        goes_on = bool(jobs.movable[row]) and plan.effect[row] == Effect.KEEP and jobs.id[row] not in resized
        if pays and goes_on and nodes and _free_elsewhere(snapshot, nodes) >= _held_there(snapshot, row, nodes):
            yield Replacement(jobs.id[row], frozenset(found), _why(found))


def _free_elsewhere(snapshot: Snapshot, nodes: list[int]) -> float:
    free = np.where(snapshot.nodes.usable, np.maximum(snapshot.nodes.free["gpus"], 0.0), 0.0)
    free[nodes] = 0.0
    return float(free.sum())


def _held_there(snapshot: Snapshot, row: int, nodes: list[int]) -> float:
    held = snapshot.allocations
    return float(held.resources["gpus"][(held.job == row) & np.isin(held.node, nodes)].sum())


def _why(found: Mapping[str, SlowNode]) -> str:
    each = ", ".join(f"{node} ({one.ratio:.1f} times as slow as the median)" for node, one in sorted(found.items()))
    return f"so that it starts again without {each}"
