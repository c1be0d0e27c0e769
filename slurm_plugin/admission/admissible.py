"""Which waiting jobs Slurm would start now, by its own rules; pure.

A rule that concerns one job alone gives an `obstacle`, a limit that several waiting jobs count against a `SharedLimit`. A rule that
is not modelled gives neither: a refused start shows it (refusals.py). Limits that are not known exactly before a start are taken at
their least.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import attrgetter
from typing import NamedTuple

from tiresias.slurm_plugin.admission.demand import licenses
from tiresias.slurm_plugin.admission.demand import minutes as minutes_of
from tiresias.slurm_plugin.admission.limit_table import LimitTable
from tiresias.slurm_plugin.admission.partitions import obstacle as partition_obstacle
from tiresias.slurm_plugin.admission.request_shapes import RequestShapes, Shape
from tiresias.slurm_plugin.admission.reservation_windows import OPEN, ReservationWindows, duration
from tiresias.slurm_plugin.admission.running import count_running, throttles
from tiresias.slurm_plugin.admission.slurm_limit import Limit, Measure
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.backends.record_values import RecordValues
from tiresias.slurm_plugin.backends.slurm_rules import License, Partition, SlurmRules

# jobs that are equal in these fields are treated the same
_SHAPE = attrgetter(
    "partition", "user", "account", "qos", "gpus", "gpu_type", "cpus", "memory_per_node", "memory_per_cpu", "min_nodes",
    "time_limit", "licenses", "required_nodes", "excluded_nodes", "reservation",
)  # fmt: skip
_AGAIN = attrgetter(
    "partition", "user", "account", "qos", "gpus", "gpu_type", "cpus", "memory_per_node", "memory_per_cpu", "min_nodes",
    "time_limit", "licenses", "excluded_nodes", "reservation",
)  # fmt: skip
_HOLDING = ("RUNNING", "SUSPENDED")
_CLASS = attrgetter("user", "account", "qos")  # with a partition: jobs under the same limits


class SharedLimit(NamedTuple):
    """A limit that several jobs share.

    Attributes:
        reason: Slurm's reason
        left: what the jobs that hold resources leave of it
        amounts: what waiting jobs need of it, by job id
    """

    reason: str
    left: float
    amounts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AdmissionResult:
    """Obstacles of the waiting jobs, by job id.

    Attributes:
        obstacle: Slurm's reason for which the job cannot start
        closed: nodes on which the job cannot start
        quotas: limits that waiting jobs share
        changes_at: the next moment at which the result changes without an event; inf for never
    """

    obstacle: Mapping[str, str] = field(default_factory=dict)
    closed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    quotas: tuple[SharedLimit, ...] = ()
    changes_at: float = math.inf


class KeptShapes:
    """The shapes of waiting jobs, and of running ones that start again, and which jobs hold resources, of the newest calls."""

    def __init__(self) -> None:
        self.waiting, self.again = RequestShapes(_SHAPE), RequestShapes(_AGAIN)
        self.holds = RecordValues(lambda job: job.state in _HOLDING and not job.completing)


def admission(
    rules: SlurmRules, jobs: Iterable[SlurmJob], waiting: Iterable[SlurmJob], now: float,
    starting: Collection[str] = (), kept: KeptShapes | None = None,
) -> AdmissionResult:  # fmt: skip
    """Return which waiting jobs Slurm would start now. O(jobs + limits).

    Args:
        rules: Slurm's rules
        jobs: all jobs of the snapshot
        waiting: the jobs to check
        now: epoch seconds
        starting: ids of pending jobs that are being started, which count as running
        kept: the shapes of earlier calls
    """
    model = _Model(_limits_of(rules), now)
    return model.judge(list(jobs), list(waiting), frozenset(starting), kept or KeptShapes())


def not_restartable(
    rules: SlurmRules, jobs: Sequence[SlurmJob], now: float, kept: KeptShapes | None = None
) -> Mapping[str, str]:
    """Return the running jobs that could not start again, with Slurm's reason.

    Their node lists may be pins, and do not count. kept: the shapes of earlier calls.
    """
    found = (kept or KeptShapes()).again.of(jobs)
    shapes = [Shape(replace(job, shares=(), required_nodes=()), ids) for job, ids in found]
    return _Model(LimitTable(rules, counted=False), now).judge_shapes(shapes)


_last: list[LimitTable] = []  # cache for the newest rules, which are the same for many snapshots


def _limits_of(rules: SlurmRules) -> LimitTable:
    if not _last or _last[0].rules is not rules:
        _last[:] = [LimitTable(rules)]
    _last[0].reset()
    return _last[0]


class _Model:
    def __init__(self, limits: LimitTable, now: float) -> None:
        self._rules, self._limits, self._now = limits.rules, limits, now
        self._windows = ReservationWindows(self._rules.reservations, now)
        self._licenses = {name: _license(one) for name, one in self._rules.licenses.items()}
        self._has_qos = "qos" in self._rules.enforce and bool(self._rules.qos)
        self._obstacle: dict[str, str] = {}
        self._closed: dict[str, frozenset[str]] = {}

    def judge(
        self, jobs: Sequence[SlurmJob], waiting: Sequence[SlurmJob], starting: frozenset[str], kept: KeptShapes
    ) -> AdmissionResult:
        judged = [job for job in waiting if job.id not in starting] if starting else waiting
        shapes, holds = kept.waiting.of(judged), kept.holds.of(jobs)
        if starting:
            holds = [one or job.id in starting for job, one in zip(jobs, holds, strict=True)]
        holding = list(compress(jobs, holds))
        throttled = [SharedLimit(*one) for one in throttles(jobs, holding, judged, self._obstacle)]
        self._count(jobs, holding, shapes)
        self._judge_each(shapes)
        changes = {self._windows.next_change(seconds) for seconds in {duration(shape.job) for shape in shapes}}
        quotas = [_quota(limit) for limit in (*self._limits.shared, *self._licenses.values()) if limit.members]
        found = (*throttled, *(one for one in quotas if one))
        return AdmissionResult(self._obstacle, self._closed, found, min(changes, default=math.inf))

    def judge_shapes(self, shapes: Sequence[Shape]) -> Mapping[str, str]:
        """Return the obstacles of jobs while no other job holds anything, by job id."""
        self._count((), (), shapes)
        self._judge_each(shapes)
        return self._obstacle

    def _judge_each(self, shapes: Iterable[Shape]) -> None:
        for shape in shapes:
            self._judge_shape(shape)

    def _count(self, jobs: Sequence[SlurmJob], holding: Sequence[SlurmJob], shapes: Iterable[Shape]) -> None:
        """Sum what jobs hold of the limits of waiting jobs.

        Licences are returned when a job has completed, all other resources when it starts to complete.
        """
        classes = {(part, *_CLASS(shape.job)) for shape in shapes for part in _parts(shape.job)}
        met = {limit for one in classes for limit in self._limits.of(*one) if limit.shared}
        count_running(holding, met, self._limits, self._now)
        if self._licenses:
            for job in (*holding, *(job for job in jobs if job.completing)):
                for limit in self._licensed(job):
                    limit.used += limit.amount(job, 0.0)
        self._limits.settle()
        for limit in self._licenses.values():
            limit.settle()

    def _judge_shape(self, shape: Shape) -> None:
        job, parts = shape.job, _parts(shape.job)
        found = [self._judge_partition(job, part) for part in parts]
        ids = [one for one in shape.ids if one not in self._obstacle] if self._obstacle else shape.ids
        if all(why for why, _ in found):
            self._obstacle.update(dict.fromkeys(ids, found[0][0]))
            return
        closed = OPEN if job.reservation else self._windows.closed(duration(job))
        if closed is not OPEN:
            self._closed.update(dict.fromkeys(shape.ids, closed))
        possible = [dict(charged) for why, charged in found if not why]
        for limit, amount in possible[0].items():
            if len(possible) == 1 or all(limit in others for others in possible):
                limit.members.append((amount, ids))

    def _judge_partition(self, job: SlurmJob, name: str) -> tuple[str, list[tuple[Limit, float]]]:
        """Return Slurm's reason why the job cannot start in this partition, else the limits and amounts that it needs."""
        partition = self._rules.partitions.get(name)
        if why := self._refused(job, name, partition):
            return why, []
        minutes, charged = minutes_of(job, partition), []
        for limit in (*self._licensed(job), *self._limits.of(name, *_CLASS(job))):
            amount = limit.amount(job, minutes)
            if limit.exceeded(amount):
                return limit.reason, []
            if limit.shared and amount:
                charged.append((limit, amount))
        if partition and not job.reservation:
            return self._windows.obstacle(job, partition), charged
        return "", charged

    def _refused(self, job: SlurmJob, name: str, partition: Partition | None) -> str:
        if self._has_qos and job.qos and job.qos not in self._rules.qos:
            return "InvalidQOS"
        return partition_obstacle(job, partition, self._limits.flags(name, job.qos)) if partition else ""

    def _licensed(self, job: SlurmJob) -> list[Limit]:
        if not job.licenses:
            return []
        return [self._licenses[name] for name in licenses(job.licenses) if name in self._licenses]


def _license(one: License) -> Limit:
    """Return the limit of a licence, without what the jobs of the snapshot hold."""
    return Limit("Licenses", Measure.AMOUNT, f"license/{one.name}", one.total - one.reserved - one.deficit, shared=True)


def _parts(job: SlurmJob) -> list[str]:
    return job.partition.split(",") if "," in job.partition else [job.partition]


def _quota(limit: Limit) -> SharedLimit | None:
    """Return the shared limit, None if all waiting jobs together stay within it."""
    if sum(amount * len(ids) for amount, ids in limit.members) <= limit.left:
        return None
    return SharedLimit(limit.reason, limit.left, {one: amount for amount, ids in limit.members for one in ids})
