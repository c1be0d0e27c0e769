"""Use of limits by jobs that hold resources: limits of QOS and associations, and throttles of arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import compress
from operator import attrgetter

from tiresias.slurm_plugin.admission import demand
from tiresias.slurm_plugin.admission.limit_table import LimitTable
from tiresias.slurm_plugin.admission.slurm_limit import Limit, Measure
from tiresias.slurm_plugin.backends.interface import SlurmJob

Class = tuple[str, str, str, str]
_ARRAY_LIMIT = attrgetter("array_limit")


def count_running(holding: Sequence[SlurmJob], met: Collection[Limit], limits: LimitTable, now: float) -> None:
    """Add the use of running jobs to the limits. Jobs of a class are subject to the same limits and are summed first."""
    plain = {one.tres for one in met if one.measure is not Measure.MINUTES and not one.counts_nodes}
    timed = {one.tres for one in met if one.measure is Measure.MINUTES}
    members: dict[Class, list[SlurmJob]] = {}
    for job in holding if met else ():
        members.setdefault((job.partition, job.user, job.account, job.qos), []).append(job)
    for one, jobs in members.items():
        found = [limit for limit in limits.of(*one) if limit in met]
        if found:
            _use(found, jobs, _sums(jobs, plain, timed, limits, now))


def _sums(
    jobs: Sequence[SlurmJob], plain: Collection[str], timed: Collection[str], limits: LimitTable, now: float
) -> Mapping[tuple[str, bool], float]:
    """Return, by TRES, the amounts that the jobs hold and, with True, the amounts times their remaining minutes."""
    sums = {(tres, False): sum(map(demand.amount(tres), jobs)) for tres in plain}
    if timed:
        minutes = [_left(job, limits, now) for job in jobs]
        for tres in timed:
            amounts = map(demand.amount(tres), jobs)
            sums[tres, True] = sum(amount * left for amount, left in zip(amounts, minutes, strict=True) if amount)
    return sums


def _left(job: SlurmJob, limits: LimitTable, now: float) -> float:
    ran = max(now - job.start_time, 0.0) / 60 if job.start_time else 0.0
    return max(demand.minutes(job, limits.rules.partitions.get(job.partition)) - ran, 0.0)


def _use(found: Sequence[Limit], jobs: Sequence[SlurmJob], sums: Mapping[tuple[str, bool], float]) -> None:
    for limit in found:
        if limit.counts_nodes:
            limit.nodes.update(share.node for job in jobs for share in job.shares)
            limit.used = float(len(limit.nodes))
        else:
            limit.used += sums[limit.tres, limit.measure is Measure.MINUTES]


def throttles(
    jobs: Sequence[SlurmJob], holding: Sequence[SlurmJob], waiting: Sequence[SlurmJob], obstacle: dict[str, str]
) -> Iterator[tuple[str, float, Mapping[str, float]]]:
    """Yield the throttles (%N) of arrays, as the fields of a quota; tasks of exhausted throttles get an obstacle.

    Not every record of an array shows its throttle.
    """
    limits: dict[int, int] = {}
    for job in compress(jobs, map(_ARRAY_LIMIT, jobs)):
        limits[job.array_id] = max(limits.get(job.array_id, 0), job.array_limit)
    members: dict[int, list[str]] = {}
    for job in waiting if limits else ():
        if job.array_id in limits:
            members.setdefault(job.array_id, []).append(job.id)
    running = dict.fromkeys(members, 0)
    for job in holding if members else ():
        if job.array_id in running:
            running[job.array_id] += 1
    for array, ids in members.items():
        left = float(max(limits[array] - running[array], 0))
        if not left:
            obstacle.update(dict.fromkeys(ids, "JobArrayTaskLimit"))
        elif len(ids) > left:
            yield "JobArrayTaskLimit", left, dict.fromkeys(ids, 1.0)
