"""The time of a step of a job among others, as a multiple of its time alone on its best placement.

Marl-placement, section VI-A: a step takes the computation of the slowest worker, which other jobs there slow, plus the gradients
that are sent divided by the bandwidth of the bottleneck link. Gradients are exchanged by a ring over the w workers: in each step
every link between two servers of the ring carries 2 (w - 1) / w times the gradients. A link is shared equally by the jobs that use
it, in whichever direction. (The paper exchanges gradients with parameter servers; a job of a trace has none.)
"""

from __future__ import annotations

from typing import NamedTuple

from tiresias.simulator.contention.job_profiles import JobProfile


class StepSlowdown(NamedTuple):
    """The seconds beyond one that a second of work takes.

    Attributes:
        interference: Because of other jobs on the same servers.
        network: Because gradients take longer than on the best placement.
    """

    interference: float = 0.0
    network: float = 0.0

    @property
    def total(self) -> float:
        """Seconds that a second of work takes, 1 or more."""
        return 1.0 + self.interference + self.network


def exchange_seconds(profile: JobProfile, workers: int, bandwidth: float) -> float:
    """Return the seconds in which a step's gradients pass the ring.

    Args:
        profile: Of the job.
        workers: Its workers, a GPU each.
        bandwidth: The job's part of the bottleneck link, Gbit/s; inf: all workers are on one server.
    """
    return 2.0 * (workers - 1) / workers * profile.gradients / bandwidth


def step_slowdown(
    profile: JobProfile, workers: int, interference: float, bandwidth: float, best_bandwidth: float
) -> StepSlowdown:
    """Return the slowdown of a job.

    Args:
        profile: Of the job.
        workers: Its workers, a GPU each.
        interference: Factor of the computation of its slowest worker, 1 or more.
        bandwidth: The job's part of the bottleneck link, Gbit/s; inf: all workers are on one server.
        best_bandwidth: The same alone on the best placement.
    """
    best = exchange_seconds(profile, workers, best_bandwidth)
    alone = profile.compute + best
    more = exchange_seconds(profile, workers, bandwidth) - best
    return StepSlowdown(profile.compute * (interference - 1.0) / alone, max(more, 0.0) / alone)
