"""Timed runs as samples of the speed of their nodes: one for each job, its nodes, and how many jobs shared them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from tiresias.scheduler.estimates.co_located_runs import ALONE, NodeRun, is_measured, loads_beside, owner_of

MOST_NODES = 128  # of a run; a larger one shows little of any of its nodes
MOST_BESIDE = 3  # jobs beside a run; more count as so many

RunsAlike = tuple[str, int, int, int]  # kind, GPUs, number of nodes, jobs beside the run


class SpeedSample(NamedTuple):
    """The runs of one job on the same nodes.

    Attributes:
        alike: What the times of the runs are compared by: they share it with those of other samples.
        job: The job.
        nodes: Names of the nodes, sorted.
        seconds: Seconds a step, the median of the runs.
        runs: How many there are.
        end: Epoch second of the end of the newest.
    """

    alike: RunsAlike
    job: str
    nodes: tuple[str, ...]
    seconds: float
    runs: int
    end: float

    @property
    def kind(self) -> str:
        """The kind of the job."""
        return self.alike[0]

    @property
    def owner(self) -> str:
        """The owner of the job."""
        return owner_of(self.kind)


def speed_samples(runs: Sequence[NodeRun], since: float) -> list[SpeedSample]:
    """Return the samples, sorted. O(runs log runs + pairs of runs that share a node at a time).

    Args:
        runs: All runs that shared a node with one that began at `since` or later; others are allowed.
        since: Epoch second; earlier runs show nothing, as runs that shared their nodes may be missing here.
    """
    timed = [at for at, run in enumerate(runs) if run.start >= since and is_measured(run) and _has_nodes(run)]
    beside = loads_beside(runs, set(timed))
    found: dict[tuple[RunsAlike, str, tuple[str, ...]], list[NodeRun]] = defaultdict(list)
    for at in timed:
        run = runs[at]
        alike = (run.kind, run.gpus, len(run.nodes), _jobs_beside(beside[at]))
        found[alike, run.job or f"run {at}", tuple(sorted(run.nodes))].append(run)
    return sorted(
        SpeedSample(*key, median(run.seconds for run in same), len(same), max(run.end for run in same))
        for key, same in found.items()
    )


def _has_nodes(run: NodeRun) -> bool:
    return 0 < len(run.nodes) <= MOST_NODES


def _jobs_beside(loads: Mapping[str, float]) -> int:
    """Return how many jobs were beside a run, over its time; one at least where any were."""
    load = sum(loads.values())
    return 0 if load <= ALONE else max(min(round(load), MOST_BESIDE), 1)
