"""Starts that Slurm refused, by the groups of jobs that share the reason, and which of these jobs may be tried next. Pure.

Where a rule of Slurm's is not known in advance, a job that breaks it is pinned, released and not started. Slurm's answer
for one job of a user, an account or a QOS applies to all of them: the whole group backs off, and one job of it is tried at
a time, on free GPUs only. Each successful start doubles the number of jobs that may be tried at once; a group that is tried
as a whole is dissolved. A reason that is not definite, such as Resources, may be transient: after the longest backoff it is
dropped.

The state is kept in memory: after a restart of the controller the jobs whose last start was refused are known from the
journal (`recall`), and a group is formed again by its next refused start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tiresias.slurm_plugin.backends.interface import SlurmJob

MAX_BACKOFF = 16  # longest backoff, as a multiple of the first one
ANSWERED = "refused: "  # prefix of Slurm's answer to a refused call
# Reasons that no other job's end changes within seconds: a start that Slurm answers with one of them has failed.
DEFINITE = (
    "QOS", "Assoc", "AccountingPolicy", "Licenses", "Partition", "InvalidQOS", "InvalidAccount", "AccountNotAllowed",
    "JobArrayTaskLimit", "Max", "BurstBuffer", "BadConstraints", "DependencyNeverSatisfied", "JobHoldMaxRequeue",
    ANSWERED,
)  # fmt: skip
# Reasons about the nodes, which an earlier job in Slurm's queue may cause temporarily.
ABOUT_NODES = ("ReqNodeNotAvail", "Reservation")
NODES_SETTLED_S = 2.0  # time after which these are definite, too

UNKNOWN = "a start was refused before the controller began"

Key = tuple[str, ...]


def is_definite(reason: str, seconds: float) -> bool:
    """Return whether a job with this reason, so many seconds after its release, will not start now."""
    return reason.startswith(DEFINITE) or (reason.startswith(ABOUT_NODES) and seconds >= NODES_SETTLED_S)


def group_of(job: SlurmJob, reason: str) -> Key:
    """Return what jobs have in common that Slurm refuses for this reason; the job's id for a reason that is not definite."""
    size = (str(job.gpus), str(job.cpus), str(job.time_limit), str(job.min_nodes)) if "PerJob" in reason else ()
    if reason.startswith("QOS"):
        owner = job.user if "User" in reason else job.account if "Account" in reason else ""
        return (reason, job.qos, owner, *size)
    if reason.startswith(("Assoc", "InvalidAccount", "AccountNotAllowed", "InvalidQOS")):
        return (reason, job.account, "" if reason.startswith("AssocGrp") else job.user, *size)
    if reason.startswith("Licenses"):
        return (reason, job.licenses)
    if reason.startswith("Partition"):
        return (reason, job.partition, str(job.time_limit), str(job.min_nodes), str(job.max_nodes))
    if reason.startswith("JobArrayTaskLimit"):
        return (reason, str(job.array_id))
    if reason.startswith(ANSWERED):
        return (ANSWERED, *_shape(job))
    return (reason, *_shape(job)) if reason.startswith(DEFINITE) else (reason, job.id)


def _shape(job: SlurmJob) -> Key:
    """Return the job's requests, user, account, partition and QOS."""
    asked = (
        job.user, job.account, job.partition, job.qos, job.gpus, job.gpu_type, job.gpus_per_node, job.min_nodes, job.max_nodes,
        job.cpus, job.memory_per_node, job.memory_per_cpu, job.time_limit, job.features, job.required_nodes, job.excluded_nodes,
    )  # fmt: skip
    return tuple(map(str, asked))


@dataclass(slots=True)
class RefusalGroup:
    """Jobs that Slurm refuses for the same reason.

    Attributes:
        reason: Slurm's reason
        failures: number of refused attempts
        not_before: time of the next attempt
        width: number of jobs that may be tried at once
    """

    reason: str
    failures: int = 0
    not_before: float = 0.0
    width: int = 1


class RetryPlan(NamedTuple):
    """Waiting jobs that Slurm refused, or other jobs of their group: by id, Slurm's reason.

    Attributes:
        held_back: jobs that may not be tried now
        refused: all of them; they may start on free GPUs only
    """

    held_back: Mapping[str, str]
    refused: Mapping[str, str]


class Refusals:
    """The groups of refused jobs.

    Args:
        backoff: seconds before the first retry; doubles up to MAX_BACKOFF times
    """

    def __init__(self, backoff: float) -> None:
        self._backoff = backoff
        self._groups: dict[Key, RefusalGroup] = {}

    def recall(self, job_id: str, failures: int, not_before: float) -> None:
        """Record that the last start of this job was refused before the controller began."""
        self._groups[UNKNOWN, job_id] = RefusalGroup(UNKNOWN, failures, not_before)

    def note(self, job: SlurmJob, reason: str, now: float) -> None:
        """Record that Slurm did not start the job. Several refusals of a group at about the same time count once."""
        group = self._groups.setdefault(group_of(job, reason), RefusalGroup(reason))
        group.width = 1
        if now >= group.not_before:
            group.not_before = now + self._backoff * min(2**group.failures, MAX_BACKOFF)
            group.failures += 1

    def started(self, job: SlurmJob) -> None:
        """Record that Slurm started the job: the reason of its group may no longer apply."""
        for key, group in self._groups.items():
            if group_of(job, group.reason) == key:
                group.failures, group.not_before, group.width = 0, 0.0, 2 * group.width

    def forget(self) -> None:
        """Drop all groups, because Slurm's rules have changed."""
        self._groups.clear()

    def sort_out(
        self, waiting: Sequence[SlurmJob], tried: Collection[str], now: float, may_start: Callable[[SlurmJob], bool]
    ) -> RetryPlan:
        """Decide which refused jobs may be tried now. O(jobs x groups).

        Args:
            waiting: jobs in the order of attempts
            tried: ids of jobs that are being started
            now: epoch seconds
            may_start: whether nothing else prevents an attempt
        """
        held_back: dict[str, str] = {}
        refused: dict[str, str] = {}
        for key, group in list(self._groups.items()):
            members = [job for job in waiting if group_of(job, group.reason) == key]
            if self._is_over(group, len(members), now):
                del self._groups[key]
                continue
            refused |= {job.id: group.reason for job in members}
            others = [job for job in members if job.id not in tried]
            ready = [job.id for job in others if may_start(job)] if now >= group.not_before else []
            chosen = set(ready[: max(group.width - (len(members) - len(others)), 0)])
            held_back |= {job.id: group.reason for job in others if job.id not in chosen}
        return RetryPlan(held_back, refused)

    def _is_over(self, group: RefusalGroup, members: int, now: float) -> bool:
        if not members:
            return now >= group.not_before
        if not group.reason.startswith(DEFINITE) and now >= group.not_before + MAX_BACKOFF * self._backoff:
            return True
        return members <= group.width and not group.failures

    def next_change(self, now: float) -> float:
        """Return the next time at which a group may be tried again; inf for never."""
        return min((group.not_before for group in self._groups.values() if group.not_before > now), default=math.inf)
