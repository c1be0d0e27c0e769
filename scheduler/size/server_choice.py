"""The parameter servers of jobs whose servers hold CPUs alone: one number for each number of GPUs (`Jobs.servers_by_gpus`).

A sizing chooses GPUs by the predicted seconds left with the best number of servers for each (`estimates/fastest_servers.py`), so
that both numbers are chosen together. A plan has the servers of each start.
"""

from __future__ import annotations

from dataclasses import replace

from tiresias.scheduler.actions import Start
from tiresias.scheduler.model import Ints, Jobs, Plan


def with_counts(plan: Plan, jobs: Jobs) -> Plan:
    """Return the plan with the servers of each start and reservation, if any job has servers on CPUs alone."""
    if jobs.servers_by_gpus is None:
        return plan
    counts = dict(zip(jobs.id, jobs.servers_by_gpus, strict=True))
    actions = tuple(_counted(one, counts[one.job]) if isinstance(one, Start) else one for one in plan.actions)
    return replace(plan, actions=actions, reserved=tuple(_counted(one, counts[one.job]) for one in plan.reserved))


def _counted(start: Start, counts: Ints | None) -> Start:
    gpus = sum(gpus for _, gpus in start.nodes)
    return start if counts is None or gpus >= len(counts) else replace(start, servers=int(counts[gpus]))
