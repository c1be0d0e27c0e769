"""The parameter servers of jobs whose servers hold CPUs alone: one number for each number of GPUs (`Jobs.servers_by_gpus`).

A sizing chooses GPUs by the predicted seconds left with the best number of servers for each (`estimates/fastest_servers.py`), so
that both numbers are chosen together. A plan has the servers of each start. The CPUs of the servers are a part of the request
(`Jobs.cpus_by_gpus`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiresias.scheduler.actions import Start
from tiresias.scheduler.model import Floats, Ints, Jobs, Plan, Request


def with_counts(plan: Plan, jobs: Jobs) -> Plan:
    """Return the plan with the servers of each start and reservation, if any job has servers on CPUs alone."""
    if jobs.servers_by_gpus is None:
        return plan
    counts = dict(zip(jobs.id, jobs.servers_by_gpus, strict=True))
    actions = tuple(_counted(one, counts[one.job]) if isinstance(one, Start) else one for one in plan.actions)
    return replace(plan, actions=actions, reserved=tuple(_counted(one, counts[one.job]) for one in plan.reserved))


def with_gpus(jobs: Jobs, gpus: Ints) -> Jobs:
    """Return the jobs with other numbers of GPUs, and the CPUs that their servers need then.

    Args:
        jobs: The jobs.
        gpus: Their GPUs, shape (jobs,).
    """
    if jobs.cpus_by_gpus is None:
        return replace(jobs, gpus=gpus)
    request = list(jobs.request)
    for row in np.flatnonzero(gpus != jobs.gpus).tolist():
        request[row] = _with_cpus(request[row], jobs.cpus_by_gpus[row], int(gpus[row]))
    return replace(jobs, gpus=gpus, request=tuple(request))


def _with_cpus(request: Request, cpus: Floats | None, gpus: int) -> Request:
    if cpus is None or gpus >= len(cpus) or not request.cpus_per_gpu:
        return request
    factor = float(cpus[gpus]) / request.cpus_per_gpu
    return replace(request, cpus_per_gpu=float(cpus[gpus]), memory_per_gpu=request.memory_per_gpu * factor)


def _counted(start: Start, counts: Ints | None) -> Start:
    gpus = sum(gpus for _, gpus in start.nodes)
    return start if counts is None or gpus >= len(counts) else replace(start, servers=int(counts[gpus]))
