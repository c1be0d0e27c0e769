"""What is decided on a job, in words. Made only for those who ask, as ten thousand jobs are decided on in milliseconds."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tiresias.scheduler.admit.quotas import obstacle
from tiresias.scheduler.model import Action, JobState, Plan, Snapshot, Start

NEVER = "can never run here: no nodes of the managed partitions fit what it asks for"
DRAINS = "waits: GPUs are kept free for it until it fits, as it has waited for policy.starve_limit"
NO_NODES = "waits: GPUs would be enough, but on no nodes that fit what it asks for"
BLOCKED = "waits in line: strict FIFO, and a job ahead of it does not fit"


def blocked(reason: str) -> str:
    """Of a job that Slurm would not start now. reason: in Slurm's words."""
    return f"Blocked by Slurm: {reason}"


def refused(reason: str) -> str:
    """Of a job that Slurm did not start the last time, and that starts on free GPUs only."""
    return f"{blocked(reason)}; the start is retried on free GPUs only"


def held_back(rule: str) -> str:
    """Of a waiting job that the admission rule does not admit."""
    return f"Waiting: not admitted by the admission rule {rule}"


def packed(nodes: int, seconds: float) -> str:
    """Of a job that could start if it took more nodes than it needs to."""
    where = "one node" if nodes == 1 else f"{nodes} nodes"
    return f"waits for all its GPUs on {where}, as its tensors want it; takes what there is in {seconds:.0f} s at the latest"


def moves(other: str, seat: Start) -> str:
    """Of a running job that makes room and loses only the time of the move."""
    return f"moves aside, so that job {other} gets its nodes together; there is room for it on {_places(seat)}"


def reason(plan: Plan, snapshot: Snapshot, row: int) -> str:
    """Why `plan` does to job `row` of `snapshot` what it does."""
    action, jobs = Action(plan.action[row]), snapshot.jobs
    if row in plan.why:
        return plan.why[row]
    if action == Action.START:
        return f"starts on {_places(_seats(plan)[jobs.id[row]])}"
    if action == Action.KEEP:
        if jobs.state[row] == JobState.STARTING:
            return "starting: released to Slurm, which has not started it yet"
        if not jobs.movable[row]:
            return "runs, and may not be preempted now"
        return f"runs: {_standing(plan, row)}"
    if action == Action.PREEMPT:
        return f"gives way to job {_beneficiaries(plan)[jobs.id[row]]}: {_standing(plan, row)}"
    if action == Action.RELEASE:
        return "leaves its GPUs"
    return _why_it_waits(plan, snapshot, row)


def _why_it_waits(plan: Plan, snapshot: Snapshot, row: int) -> str:
    jobs, total = snapshot.jobs, _total_gpus(snapshot)
    if jobs.gpus[row] > total:
        return f"can never run here: it asks for {jobs.gpus[row]} GPUs, the managed nodes have {total}"
    if not jobs.eligible[row]:
        return blocked(words) if (words := obstacle(jobs, row)) else "waits: it may not be started yet"
    if missing := unavailable(snapshot, row):
        return f"waits: requested node{'s' if len(missing) > 1 else ''} {', '.join(missing)} not available"
    seat = _seats(plan).get(jobs.id[row])
    if seat is not None:
        return f"waits for {_leaving(plan, snapshot, seat)} to leave {_places(seat)}"
    return f"waits: {_gpus(int(jobs.gpus[row]))} beside those ahead of it are not to be had; {_standing(plan, row)}"


def unavailable(snapshot: Snapshot, row: int) -> list[str]:
    """The nodes that job `row` requests by name and that are down, drained or not managed."""
    requested = snapshot.jobs.request[row].nodes
    return sorted(requested - usable_nodes(snapshot)) if requested else []


@lru_cache(maxsize=4)
def usable_nodes(snapshot: Snapshot) -> frozenset[str]:
    nodes = snapshot.nodes
    return frozenset(name for name, is_usable in zip(nodes.name, nodes.usable.tolist(), strict=True) if is_usable)


def _leaving(plan: Plan, snapshot: Snapshot, seat: Start) -> str:
    held, nodes = snapshot.allocations, {name for name, _ in seat.nodes}
    here = np.array([name in nodes for name in snapshot.nodes.name], dtype=bool)
    rows = np.unique(held.job[here[held.node]])
    going = rows[(snapshot.jobs.state[rows] == JobState.RELEASING) | (plan.action[rows] == Action.PREEMPT)]
    names = [snapshot.jobs.id[row] for row in going.tolist()]
    return f"job{'s' if len(names) > 1 else ''} " + ", ".join(names)


def _standing(plan: Plan, row: int) -> str:
    return f"{plan.standing(row)}, place {plan.rank[row] + 1} in the order"


def _places(seat: Start) -> str:
    return ", ".join(f"{node} ({_gpus(gpus)})" for node, gpus in seat.nodes)


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"


@lru_cache(maxsize=4)
def _total_gpus(snapshot: Snapshot) -> int:
    return int(snapshot.nodes.gpus.sum())


@lru_cache(maxsize=4)
def _seats(plan: Plan) -> dict[str, Start]:
    return {seat.job: seat for seat in (*plan.starts, *plan.reserved)}


@lru_cache(maxsize=4)
def _beneficiaries(plan: Plan) -> dict[str, str]:
    return {one.job: one.beneficiary for one in plan.preemptions}
