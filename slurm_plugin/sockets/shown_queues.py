"""The queues as the control socket publishes them, of each pool of nodes and of each virtual cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Ints, JobState

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication


def published_queues(newest: Publication) -> list[dict[str, Any]]:
    """Return those of one pool after those of another: their numbers count through."""
    found = []
    for at, (rows, config, before) in enumerate(newest.pools()):
        found += _queues_of(newest, rows, config, before, _pool(newest, at, config))
    return found


def _pool(newest: Publication, at: int, config: PolicyConfig) -> dict[str, Any]:
    """Of what the queues of a pool are: partitions or a virtual cluster; {} where all jobs have the same queues."""
    if newest.tenants:
        return {"virtual_cluster": (*newest.tenants, "")[at]}
    names = [name for name in newest.config.partitions if newest.config.policy_of(name) == config]
    return {"partitions": names} if len(newest.parts) > 1 else {}


def _queues_of(
    newest: Publication, rows: Ints, config: PolicyConfig, before: int, pool: dict[str, Any]
) -> list[dict[str, Any]]:
    edges = [0.0, *config.limits]
    jobs, plan = newest.snapshot.jobs, newest.plan
    inside = np.zeros(len(jobs), bool)
    inside[rows] = True
    states = {"waiting": jobs.state == JobState.WAITING, "starting": jobs.state == JobState.STARTING}
    states["running"] = ~states["waiting"] & ~states["starting"]
    return [
        {
            **pool,
            "index": before + index,
            "low": low,
            "high": edges[index + 1] if index + 1 < len(edges) else None,
            **{name: int(np.sum(here & those)) for name, those in states.items()},
            **{f"gpus_{name}": int(jobs.gpus[here & those].sum()) for name, those in states.items()},
        }
        for index, low in enumerate(edges)
        for here in [inside & (plan.queue == index)]
    ]
