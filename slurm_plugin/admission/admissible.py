"""Which waiting jobs Slurm would start now, by its own rules; pure.

What one job alone decides is an `obstacle`, what waiting jobs take from one another is a `Quota`. A rule that is not modelled is no
obstacle: then a refused start shows it (refusals.py). Limits that cannot be known exactly before a start are taken at their least.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from tiresias.slurm_plugin.admission import demand as demands
from tiresias.slurm_plugin.admission.limits import JOBS, Limit, Limits, Measure
from tiresias.slurm_plugin.admission.partitions import obstacle as partition_obstacle
from tiresias.slurm_plugin.admission.windows import OPEN, Windows, duration
from tiresias.slurm_plugin.backends.protocol import SlurmJob
from tiresias.slurm_plugin.backends.rules import License, SlurmRules, Tres

# jobs that are equal in these are treated alike
_SHAPE = attrgetter(
    "partition", "user", "account", "qos", "gpus", "gpu_type", "cpus", "memory_per_node", "memory_per_cpu", "min_nodes",
    "time_limit", "licenses", "required_nodes", "excluded_nodes", "reservation",
)  # fmt: skip


class Quota(NamedTuple):
    """A limit that several jobs share. left: what the jobs that hold resources leave of it; amounts: by id, of waiting jobs."""

    reason: str
    left: float
    amounts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Admission:
    """By job id. changes_at: the next moment at which the answer changes by itself; inf for never."""

    obstacle: Mapping[str, str] = field(default_factory=dict)
    closed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    quotas: tuple[Quota, ...] = ()
    changes_at: float = math.inf


class _Shape(NamedTuple):
    job: SlurmJob
    ids: list[str]


def admission(
    rules: SlurmRules, jobs: Iterable[SlurmJob], waiting: Iterable[SlurmJob], now: float, starting: Collection[str] = ()
) -> Admission:
    """jobs: all of the snapshot. waiting: those to be judged. starting: ids of pending jobs that are being started, which count as
    if they ran. O(jobs + limits)."""
    return _Model(rules, now).judge(list(jobs), list(waiting), frozenset(starting))


def restartable(rules: SlurmRules, job: SlurmJob, now: float) -> str:
    """ "" if the running job could start again once it is preempted, else Slurm's reason why not."""
    return not_restartable(rules, [job], now).get(job.id, "")


def not_restartable(rules: SlurmRules, jobs: Iterable[SlurmJob], now: float) -> Mapping[str, str]:
    """Of running jobs: those that could not start again, and Slurm's reason. Their node lists may be pins, and do not count."""
    again = [replace(job, shares=(), required_nodes=()) for job in jobs]
    return _Model(rules, now).judge([], again, frozenset()).obstacle


class _Model:
    def __init__(self, rules: SlurmRules, now: float) -> None:
        self._rules, self._now = rules, now
        self._limits = Limits(rules)
        self._windows = Windows(rules.reservations, now)
        self._licenses: dict[str, Limit] = {
            name: Limit("Licenses", Measure.AMOUNT, f"license/{name}", _free(one), shared=True)
            for name, one in rules.licenses.items()
        }  # fmt: skip
        self._obstacle: dict[str, str] = {}
        self._closed: dict[str, frozenset[str]] = {}

    def judge(self, jobs: Sequence[SlurmJob], waiting: Sequence[SlurmJob], starting: frozenset[str]) -> Admission:
        judged = [job for job in waiting if job.id not in starting]
        shapes: dict[tuple[object, ...], _Shape] = {}
        for job in judged:
            shapes.setdefault(_SHAPE(job), _Shape(job, [])).ids.append(job.id)
        throttles = self._throttles(jobs, judged, starting)
        self._count_running(jobs, starting, shapes.values())
        changes = [self._windows.next_change(duration(shape.job)) for shape in shapes.values()] if self._windows else []
        for shape in shapes.values():
            self._judge_shape(shape)
        limits = [*self._limits.shared, *self._licenses.values()]
        quotas = (*throttles, *(quota for limit in limits if (quota := _quota(limit))))
        return Admission(self._obstacle, self._closed, quotas, min(changes, default=math.inf))

    # -- arrays ---------------------------------------------------------------------------------------------------------

    def _throttles(
        self, jobs: Sequence[SlurmJob], waiting: Sequence[SlurmJob], starting: frozenset[str]
    ) -> list[Quota]:
        """Not each record of an array shows its throttle."""
        limits: dict[int, int] = {}
        for job in jobs:
            if job.array_limit:
                limits[job.array_id] = max(limits.get(job.array_id, 0), job.array_limit)
        if not limits:
            return []
        running = dict.fromkeys(limits, 0)
        for job in jobs:
            if job.array_id in limits and _holds(job, starting):
                running[job.array_id] += 1
        members: dict[int, list[str]] = {}
        for job in waiting:
            if job.array_id in limits:
                members.setdefault(job.array_id, []).append(job.id)
        found = []
        for array, ids in members.items():
            left = float(max(limits[array] - running[array], 0))
            if not left:
                self._obstacle.update(dict.fromkeys(ids, "JobArrayTaskLimit"))
            elif len(ids) > left:
                found.append(Quota("JobArrayTaskLimit", left, dict.fromkeys(ids, 1.0)))
        return found

    # -- what runs ------------------------------------------------------------------------------------------------------

    def _count_running(self, jobs: Sequence[SlurmJob], starting: frozenset[str], shapes: Iterable[_Shape]) -> None:
        """Of the limits that waiting jobs meet. QOS and associations get back what a job held as soon as it completes, licences
        come back only when it has completed."""
        met = {
            limit
            for shape in shapes
            for part in _parts(shape.job)
            for limit in self._of(shape.job, part)
            if limit.shared
        }
        wanted = {name for shape in shapes for name in demands.licenses(shape.job.licenses)}
        for job in jobs:
            holds = _holds(job, starting)
            if holds and met:
                limits = [limit for limit in self._of(job, _parts(job)[0]) if limit.shared]
                if limits:
                    self._use(job, limits)
            if wanted and job.licenses and (holds or job.completing):
                for name, count in demands.licenses(job.licenses).items():
                    if name in self._licenses:
                        self._licenses[name].used += count

    def _of(self, job: SlurmJob, partition: str) -> tuple[Limit, ...]:
        return self._limits.of(partition, job.user, job.account, job.qos)

    def _use(self, job: SlurmJob, limits: Sequence[Limit]) -> None:
        took = demands.demand(job)
        ran = max(self._now - job.start_time, 0.0) / 60 if job.start_time else 0.0
        left = max(demands.minutes(job, self._rules.partitions.get(job.partition)) - ran, 0.0)
        for limit in limits:
            if limit.tres == "node" and limit.measure is Measure.AMOUNT:
                limit.nodes.update(share.node for share in job.shares)
                limit.used = float(len(limit.nodes))
            else:
                limit.used += _amount(limit, took, left)

    # -- what waits -----------------------------------------------------------------------------------------------------

    def _judge_shape(self, shape: _Shape) -> None:
        job, took = shape.job, demands.demand(shape.job)
        found = [self._judge_partition(job, took, part) for part in _parts(job)]
        if all(why for why, _ in found):
            self._obstacle.update(dict.fromkeys((one for one in shape.ids if one not in self._obstacle), found[0][0]))
            return
        closed = OPEN if job.reservation else self._windows.closed(duration(job))
        if closed is not OPEN:
            self._closed.update(dict.fromkeys(shape.ids, closed))
        ids = [one for one in shape.ids if one not in self._obstacle] if self._obstacle else shape.ids
        open_parts = [limits for why, limits in found if not why]
        for limit, amount in open_parts[0].items():
            if all(limit in others for others in open_parts):
                limit.members.append((amount, ids))

    def _judge_partition(self, job: SlurmJob, took: Tres, name: str) -> tuple[str, dict[Limit, float]]:
        """Slurm's reason why the job cannot start in this partition now, and else what it would take of which limits."""
        partition = self._rules.partitions.get(name)
        flags = frozenset(flag for one in self._limits.order(name, job.qos) for flag in one.flags)
        why = partition_obstacle(job, partition, flags) if partition else ""
        if "qos" in self._rules.enforce and self._rules.qos and job.qos and job.qos not in self._rules.qos:
            why = "InvalidQOS"
        minutes = demands.minutes(job, partition)
        charged = {limit: _amount(limit, took, minutes) for limit in (*self._licensed(job), *self._of(job, name))}
        why = why or next((limit.reason for limit, amount in charged.items() if _exceeds(limit, amount)), "")
        if not why and partition and not job.reservation:
            why = self._windows.obstacle(job, partition)
        return why, {limit: amount for limit, amount in charged.items() if limit.shared and amount > 0}

    def _licensed(self, job: SlurmJob) -> list[Limit]:
        return [self._licenses[name] for name in demands.licenses(job.licenses) if name in self._licenses]


def _holds(job: SlurmJob, starting: frozenset[str]) -> bool:
    return (job.state in ("RUNNING", "SUSPENDED") and not job.completing) or job.id in starting


def _free(one: License) -> float:
    """Without what the jobs of the snapshot hold."""
    return max(one.total - one.reserved - one.deficit, 0.0)


def _parts(job: SlurmJob) -> list[str]:
    return job.partition.split(",")


def _amount(limit: Limit, took: Tres, minutes: float) -> float:
    if limit.measure is Measure.WALL:
        return minutes
    amount = 1.0 if limit.tres == JOBS else took.get(limit.tres, 0.0)
    if limit.measure is Measure.MINUTES:
        return amount * minutes if amount else 0.0
    if limit.measure is Measure.PER_NODE:
        return amount // took["node"]
    return amount


def _exceeds(limit: Limit, amount: float) -> bool:
    if limit.measure is Measure.AT_LEAST:
        return amount < limit.limit
    if limit.measure is Measure.WALL and amount == math.inf:
        return limit.limit < 0  # a job without a time limit gets the longest that it may have
    return amount > 0 and _taken(limit, amount) > limit.left


def _taken(limit: Limit, amount: float) -> float:
    """Of nodes at least those beyond what the others have: Slurm counts a node that they share once."""
    if limit.shared and limit.tres == "node" and limit.measure is Measure.AMOUNT:
        return max(amount - len(limit.nodes), 0.0)
    return amount


def _quota(limit: Limit) -> Quota | None:
    """None for a limit that all who wait can stay within."""
    members = [(taken, ids) for amount, ids in limit.members if (taken := _taken(limit, amount)) > 0]
    if sum(taken * len(ids) for taken, ids in members) <= limit.left:
        return None
    return Quota(limit.reason, limit.left, {one: taken for taken, ids in members for one in ids})
