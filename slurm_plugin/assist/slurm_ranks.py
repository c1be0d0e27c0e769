"""Slurm's own order of the waiting jobs, from its records: PriorityTier, priority, submission (sort_job_queue2 in job_scheduler.c).

A job takes part that nothing but resources or earlier jobs keeps waiting, by Slurm's own reason. Slurm passes over the others, such
as held ones or those at a limit; they delay no job. Jobs of a reservation compete for its nodes alone. Pure.

Partitions that share nodes have one order: what a job of one of them releases may be taken by a job of each other one. So there is
one first job for each set of nodes that partitions connect. Jobs are preempted for it only once Slurm reports that it lacks
resources, which for a new job takes one pass of Slurm's scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tiresias.scheduler.rank.policy import natural
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules

LACKS_RESOURCES = "Resources"
IN_ORDER = (LACKS_RESOURCES, "Priority", "None", "")  # reasons of jobs that Slurm starts in their turn


class FirstJob(NamedTuple):
    """The first waiting job on a set of nodes.

    Attributes:
        job: Its record.
        lower_ranked: The waiting jobs of these nodes that come after it.
    """

    job: SlurmJob
    lower_ranked: tuple[SlurmJob, ...]

    @property
    def lacks_resources(self) -> bool:
        """Whether Slurm has tried to start it, and found too little free."""
        return self.job.reason == LACKS_RESOURCES


def in_order(jobs: Iterable[SlurmJob], rules: SlurmRules) -> list[SlurmJob]:
    """Return the waiting jobs that Slurm starts in their turn, in its order."""
    waiting = [job for job in jobs if _is_in_turn(job)]
    return sorted(waiting, key=lambda job: _key(job, rules.priority_tier(job.partition)))


def first_jobs(jobs: Iterable[SlurmJob], nodes: Sequence[SlurmNode], rules: SlurmRules) -> list[FirstJob]:
    """Return the first job of each set of nodes, whether it is managed or not. O(jobs log jobs + nodes)."""
    group = _groups(nodes)
    found: dict[str, list[SlurmJob]] = {}
    for job in in_order(jobs, rules):
        for each in {group[name] for name in job.partition.split(",") if name in group}:
            found.setdefault(each, []).append(job)
    leading = {each[0].id: each for each in found.values() if _leads_all(each[0], found, group)}
    return [FirstJob(each[0], tuple(each[1:])) for each in leading.values()]


def _is_in_turn(job: SlurmJob) -> bool:
    pending = job.state == "PENDING" and not job.completing
    is_free = job.priority > 0 and not (job.dependency or job.reservation)
    return pending and is_free and job.reason in IN_ORDER


def _key(job: SlurmJob, tier: int) -> tuple[object, ...]:
    return -tier, -job.priority, job.submit_time, natural(job.id)


def _groups(nodes: Sequence[SlurmNode]) -> dict[str, str]:
    """Return the group of each partition, by the name of one of its partitions: those that nodes connect."""
    group: dict[str, str] = {}
    for names in {node.partitions for node in nodes}:
        joined = {group[name] for name in names if name in group}
        into = min([*joined, *names], default="")
        group.update({name: into for name, other in group.items() if other in joined})
        group.update(dict.fromkeys(names, into))
    return group


def _leads_all(job: SlurmJob, found: Mapping[str, Sequence[SlurmJob]], group: Mapping[str, str]) -> bool:
    """Whether the job is the first one in each of its groups: else an earlier job waits for a part of its nodes."""
    names = (name for name in job.partition.split(",") if name in group)
    return all(found[group[name]][0] is job for name in names)
