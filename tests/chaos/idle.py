"""GPUs that idle while a job could start.

A job is startable in a sample when it is pending, by its own request needs no more than the free GPUs of startable nodes, requests
nothing special (licence, QOS, feature, nodes), no trouble concerned it or its owner, and Slurm gives no reason of its own. The
data are Slurm's (squeue, sinfo); in the controller's own outages nothing is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.chaos.samples import Sample, Waiting
from tests.chaos.windows import Windows

BOUND = 30.0  # seconds: two deadlines of a preemption, a refused start, and its longest back-off (16 s here)
ANY_NODES: Mapping[str, int] = {}
GAP = 4.0  # seconds without a sample after which nothing is known
MANAGED = ("JobHeldAdmin", "Priority", "Resources", "None", "BadConstraints")  # reasons that the controller can end


@dataclass(slots=True)
class _Watch:
    since: float
    last: float


def idle(
    samples: Sequence[Sample], plain: Mapping[str, int], windows: Windows, nodes: Mapping[str, int] = ANY_NODES
) -> tuple[list[str], float]:
    """plain: GPUs of the jobs without special requests, by name. nodes: the most nodes on which one runs, where it requests that.
    Returns also the longest time that one waited beside free GPUs."""
    watched: dict[tuple[str, str], _Watch] = {}
    worst: dict[tuple[str, str], float] = {}
    for sample in samples:
        startable = {(one.id, one.name) for one in sample.waiting if _is_startable(one, sample, plain, windows, nodes)}
        for job in [job for job in watched if job not in startable or sample.time - watched[job].last > GAP]:
            del watched[job]
        for job in startable:
            watch = watched.setdefault(job, _Watch(sample.time, sample.time))
            watch.last = sample.time
            worst[job] = max(worst.get(job, 0.0), sample.time - watch.since)
    broken = [
        f"{name} ({job}) waited {seconds:.0f} s beside free GPUs"
        for (job, name), seconds in worst.items()
        if seconds > BOUND
    ]
    return broken, max(worst.values(), default=0.0)


def _is_startable(
    one: Waiting, sample: Sample, plain: Mapping[str, int], windows: Windows, nodes: Mapping[str, int]
) -> bool:
    gpus, free = plain.get(one.name, 0), sorted(sample.free.values(), reverse=True)
    fits = 0 < gpus <= sum(free[: nodes.get(one.name, len(free))])
    return (
        fits
        and sample.is_complete
        and one.reason in MANAGED
        and not windows.touch(sample.time - 1, sample.time, (one.name, one.user))
    )
