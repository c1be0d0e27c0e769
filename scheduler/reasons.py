"""The text of a decision on a job. It is made on request only: a decision on ten thousand jobs takes milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from tiresias.scheduler.admit.quotas import obstacle
from tiresias.scheduler.assist_words import ASSIST_WORDS
from tiresias.scheduler.cell_words import CELL_WORDS
from tiresias.scheduler.model import Effect, JobState, Plan, Preempt, Resize, Snapshot, Start
from tiresias.scheduler.reason_codes import Reason, ReasonCode

NEVER = Reason(ReasonCode.NEVER_FITS)
DRAINS = Reason(ReasonCode.KEPT_FREE)
NO_NODES = Reason(ReasonCode.NO_NODES)
BLOCKED = Reason(ReasonCode.STRICT_FIFO)
CONFINED = Reason(ReasonCode.CONFINED)

_WORDS: Mapping[ReasonCode, str] = {
    ReasonCode.NEVER_FITS: "can never run here: no nodes of the managed partitions fit what it asks for",
    ReasonCode.KEPT_FREE: "waits: GPUs are kept free for it until it fits, as it has waited for policy.starve_limit",
    ReasonCode.NO_NODES: "waits: GPUs would be enough, but on no nodes that fit what it asks for",
    ReasonCode.STRICT_FIFO: "waits: strict FIFO, and a higher-ranked job does not fit",
    ReasonCode.BLOCKED_BY_SLURM: "Blocked by Slurm: {text}",
    ReasonCode.REFUSED_BY_SLURM: "Blocked by Slurm: {text}; the start is retried on free GPUs only",
    ReasonCode.NOT_ADMITTED: "Waiting: not admitted by the admission rule {text}",
    ReasonCode.PACKED: (
        "waits for all its GPUs on {count} (communication-sensitive); the restriction ends in {seconds:.0f} s at the latest"
    ),
    ReasonCode.OPPORTUNISTIC: (
        "runs opportunistically: what virtual cluster {text} owns is in use by its higher-ranked jobs; it is preempted when a "
        "virtual cluster needs these GPUs for its own jobs"
    ),
    ReasonCode.COVERED: (
        "runs opportunistically: virtual cluster {text} keeps cells free for it, and it starts there if it is preempted"
    ),
    ReasonCode.OUTSIDE: (
        "runs opportunistically: it belongs to no virtual cluster, and is preempted when one needs these GPUs for its own jobs"
    ),
    ReasonCode.UNBOUND: "waits: virtual cluster {text} has enough GPUs for it, but on no nodes that fit what it asks for",
    ReasonCode.CONFINED: "waits: it belongs to no virtual cluster, and may not use the GPUs of any",
    ReasonCode.REMOTE_MEMORY: "Waiting: {needed:,} MiB of remote memory requested, {amount:,} MiB remain after higher-ranked jobs",
    ReasonCode.DEFRAGMENT: "Preempted to defragment nodes for job {text}; it fits on {places}",
}


def in_words(reason: Reason) -> str:
    """The text of a reason."""
    if words := CELL_WORDS.get(reason.code) or ASSIST_WORDS.get(reason.code):
        return words(reason)
    count = "one node" if reason.amount == 1 else f"{reason.amount} nodes"
    return _WORDS[reason.code].format(
        text=reason.text,
        count=count,
        seconds=reason.seconds,
        places=_on_nodes(reason.nodes),
        needed=reason.needed,
        amount=reason.amount,
    )


def blocked(reason: str) -> str:
    """The text of a job that Slurm would not start now. reason: in Slurm's words."""
    return in_words(Reason(ReasonCode.BLOCKED_BY_SLURM, reason))


def refused(reason: str) -> str:
    """The text of a job that Slurm did not start the last time, and that starts on free GPUs only."""
    return in_words(Reason(ReasonCode.REFUSED_BY_SLURM, reason))


def reason(plan: Plan, snapshot: Snapshot, row: int) -> str:
    """Why `plan` does to job `row` of `snapshot` what it does."""
    action, jobs = Effect(plan.effect[row]), snapshot.jobs
    if row in plan.why:
        return in_words(plan.why[row])
    if action == Effect.START:
        return f"starts on {_places(_nodes_of(plan)[jobs.id[row]])}"
    if action == Effect.KEEP:
        if jobs.state[row] == JobState.STARTING:
            return "starting: released to Slurm, which has not started it yet"
        if not jobs.movable[row]:
            return "runs, and may not be preempted now"
        return f"runs: {_standing(plan, row)}"
    if action == Effect.PREEMPT:
        one = _releases(plan)[jobs.id[row]]
        how = (
            f"goes on with {_gpus(one.gpus)}, so that others are free for"
            if isinstance(one, Resize)
            else "gives way to"
        )
        return f"{how} job {one.beneficiary}: {_standing(plan, row)}"
    if action == Effect.RELEASE:
        return "releases its GPUs"
    return _why_it_waits(plan, snapshot, row)


def _why_it_waits(plan: Plan, snapshot: Snapshot, row: int) -> str:
    jobs, total = snapshot.jobs, _total_gpus(snapshot)
    if jobs.gpus[row] > total:
        return f"can never run here: it asks for {jobs.gpus[row]} GPUs, the managed nodes have {total}"
    if not jobs.eligible[row]:
        return blocked(words) if (words := obstacle(jobs, row)) else "waits: it may not be started yet"
    if missing := unavailable(snapshot, row):
        return f"waits: requested node{'s' if len(missing) > 1 else ''} {', '.join(missing)} not available"
    start = _nodes_of(plan).get(jobs.id[row])
    if start is not None:
        return f"waits for {_leaving(plan, snapshot, start)} to release {_places(start)}"
    return (
        f"waits: {_gpus(int(jobs.gpus[row]))} requested, fewer remain after higher-ranked jobs; {_standing(plan, row)}"
    )


def unavailable(snapshot: Snapshot, row: int) -> list[str]:
    """The nodes that job `row` requests by name and that are down, drained or not managed."""
    requested = snapshot.jobs.request[row].nodes
    return sorted(requested - usable_nodes(snapshot)) if requested else []


@lru_cache(maxsize=4)
def usable_nodes(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the nodes on which jobs may start."""
    nodes = snapshot.nodes
    return frozenset(name for name, is_usable in zip(nodes.name, nodes.usable.tolist(), strict=True) if is_usable)


def _leaving(plan: Plan, snapshot: Snapshot, start: Start) -> str:
    held, nodes = snapshot.allocations, {name for name, _ in start.nodes}
    here = np.array([name in nodes for name in snapshot.nodes.name], dtype=bool)
    rows = np.unique(held.job[here[held.node]])
    going = rows[(snapshot.jobs.state[rows] == JobState.RELEASING) | (plan.effect[rows] == Effect.PREEMPT)]
    names = [snapshot.jobs.id[row] for row in going.tolist()]
    return f"job{'s' if len(names) > 1 else ''} " + ", ".join(names)


def _standing(plan: Plan, row: int) -> str:
    standing = plan.standing.of(row) if plan.standing else ""
    return f"{standing}, place {plan.rank[row] + 1} in the order"


def _places(start: Start) -> str:
    return _on_nodes(start.nodes)


def _on_nodes(nodes: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{node} ({_gpus(gpus)})" for node, gpus in nodes)


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"


@lru_cache(maxsize=4)
def _total_gpus(snapshot: Snapshot) -> int:
    return int(snapshot.nodes.gpus.sum())


@lru_cache(maxsize=4)
def _nodes_of(plan: Plan) -> dict[str, Start]:
    return {start.job: start for start in (*plan.starts, *plan.reserved)}


@lru_cache(maxsize=4)
def _releases(plan: Plan) -> dict[str, Preempt | Resize]:
    return {one.job: one for one in plan.releases}
