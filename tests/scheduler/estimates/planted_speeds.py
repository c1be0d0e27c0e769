"""Runs on nodes of planted slowness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiresias.scheduler.estimates.co_located_runs import NodeRun
from tiresias.scheduler.estimates.learned_node_speeds import LearnedNodeSpeeds, speeds_learning
from tiresias.scheduler.estimates.speed_samples import speed_samples

NOW = 1e6
SENSITIVE = (1.0, 1.0, 1.0)


def planted_runs(
    slowness: Sequence[float], seed: int, count: int = 200, noise: float = 0.03, most_nodes: int = 1,
    sensitivity: Sequence[float] = SENSITIVE, users: int = 1,
) -> list[NodeRun]:  # fmt: skip
    """Return runs of jobs that are as slow as their slowest node, one after the other.

    Args:
        slowness: Of each node.
        seed: Of the random numbers.
        count: Jobs.
        noise: Deviation of the logarithm of the step times.
        most_nodes: Of a job.
        sensitivity: Of each kind.
        users: Owners of the jobs in turn.
    """
    rng, found = np.random.default_rng(seed), []
    for job in range(count):
        kind, size = int(rng.integers(len(sensitivity))), int(rng.integers(1, most_nodes + 1))
        nodes = rng.choice(len(slowness), size, replace=False).tolist()
        factor = max(slowness[node] for node in nodes) ** sensitivity[kind] * np.exp(rng.normal(0.0, noise))
        names, start = tuple(f"n{node + 1:02}" for node in nodes), NOW - 1000.0 * (count - job)
        found.append(
            NodeRun(
                f"u{1 + job % users}.kind{kind}",
                2 * size,
                names,
                start,
                start + 900.0,
                0.1 * (kind + 1) * factor,
                f"job {job}",
            )
        )
    return found


def learned(runs: Sequence[NodeRun], now: float = NOW) -> LearnedNodeSpeeds:
    """Return what is learned."""
    *parts, found = speeds_learning(speed_samples(runs, 0.0), now)
    assert not any(parts)
    assert found
    return found
