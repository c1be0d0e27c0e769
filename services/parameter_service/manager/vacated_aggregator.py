"""Assigns what is on an aggregator that ends to others."""

from __future__ import annotations

from collections.abc import Collection

from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs


def vacate(jobs: RegisteredJobs, clusters: AggregatorClusters, number: int, usable: Collection[int]) -> list[str]:
    """Assign what an aggregator has to others; return the jobs for which there is no place.

    A job that is profiled continues on its own other aggregators, else on any; its profile then counts what it measures there.

    Args:
        jobs: The registered jobs.
        clusters: Their assignment.
        number: The aggregator that ends.
        usable: The aggregators that run and do not end, the one with the most memory first.
    """
    left, is_assigned = [], number in clusters.loads
    if not clusters.vacate(number, usable):
        left = sorted(clusters.loads[number].parts)
    elif is_assigned:
        jobs.store_assignment()
    profiled = [job for job in jobs.rows if job not in clusters.jobs and number in _numbers_of(jobs, clusters, job)]
    return [*left, *(job for job in profiled if not _vacate_profile(jobs, clusters, job, number, usable))]


def _numbers_of(jobs: RegisteredJobs, clusters: AggregatorClusters, job: str) -> set[int]:
    return {*clusters.reserved(job), *jobs.target(job).values()}


def has_masters(jobs: RegisteredJobs, number: int) -> bool:
    """Return whether an aggregator has the master copy of any block."""
    return any(number in jobs.masters(job).values() for job in jobs.rows)


def _vacate_profile(
    jobs: RegisteredJobs, clusters: AggregatorClusters, job: str, number: int, usable: Collection[int]
) -> bool:
    blocks = [block for block, at in jobs.target(job).items() if at == number]
    if not blocks:
        return True  # it keeps the number, and with it the next Slurm job
    own = [each for each in clusters.reserved(job) if each in usable and each != number]
    to = next(iter([*own, *(each for each in usable if each != number)]), None)
    if to is not None:
        clusters.drop_reserved(job, number)
    else:
        to = clusters.renumber_reserved(job, number)
    if to is not None:
        jobs.plan(job, dict.fromkeys(blocks, to))
    return to is not None
