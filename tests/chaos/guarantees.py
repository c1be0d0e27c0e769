"""What virtual clusters (VCs) promise, judged in retrospect.

late        jobs that their VC gave cells to, and that did not run within BOUND seconds after the deadline of a preemption. From
            the first decision (a preemption for it, or its start) to Slurm's StartTime, without the time in which a daemon or one
            of its nodes was down.
kept_out    jobs that waited longer than that although their VC had whole nodes for all of its waiting and running jobs: judged by
            Slurm's queue alone, whatever the controller decided
elsewhere   runs on other nodes than those that their cells were bound to
overbooked  nodes with guaranteed jobs of two VCs, and VCs with guaranteed jobs on more nodes than they own, or in two racks
            instead of their one, and jobs of no VC with cells: in two samples one after the other
crossed     guaranteed runs that were preempted for a job of another VC, while their own one had whole nodes for all of its jobs,
            so that no job of its own took the cells. Bad nodes may: more of them than the VCs leave unowned take cells from a VC
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.chaos.tenants import OWNED, Tenant
from tests.chaos.windows import Window, Windows

BOUND = 5.0  # seconds: Slurm's start
SEEN_S = 2.0  # seconds: a sample, and the next poll of the controller
GAP = 4.0  # seconds without a sample after which nothing is known
ROUNDED_S = 1.0  # Slurm's StartTime is a whole second


@dataclass(frozen=True, slots=True)
class Grant:
    """A run in cells. decided: when the job was first given cells for it. nodes: those of the cells."""

    job: str
    decided: float
    start: float
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A sample of the queue.

    Attributes:
        time: In epoch seconds.
        waiting, running: Names. A job that waits and is not judged, but may start at any time, counts as a running one.
        guaranteed: Nodes by name of the jobs that hold cells.
        accounts: Of jobs whose account may change, by name; "": they belong to no VC.
        sizes: GPUs of the whole nodes that a job takes now, by name, where these are not those of its submission.
    """

    time: float
    waiting: frozenset[str]
    running: frozenset[str]
    guaranteed: Mapping[str, tuple[str, ...]]
    accounts: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def tenant(self, job: str, tenant_of: Mapping[str, str]) -> str:
        """Return its VC; "" for none. tenant_of: that of its submission, by name."""
        return self.accounts.get(job, tenant_of.get(job, ""))


def grants(journal: sqlite3.Connection) -> list[Grant]:
    """Return the runs in cells. A decision counts from the end of the job's previous run on, for a minute; not a start for which
    the throttle of the array left no room: a killed slurmctld had shown another task as waiting."""
    rows = journal.execute(
        """select start.id, run.start, start.cells, min(start.began, coalesce((
          select min(one.began) from intent as one where one.cells != '' and one.began between run.start - 60 and run.start
            and one.began >= coalesce((select max(end) from run as old where old.key = run.key and old.restart < run.restart), 0)
            and one.outcome not like 'not started: %JobArrayTaskLimit%'
            and (one.kind in ('preempt', 'resize') and one.beneficiary = start.id or one.kind = 'start' and one.key = start.key)
        ), start.began)) from intent as start join run on run.key = start.key and run.restart = start.restart
        where start.kind = 'start' and start.cells != '' and start.outcome like 'running%' and run.start > 0"""
    )
    return [Grant(job, decided, start, nodes_of(cells)) for job, start, cells, decided in rows]


def since_last(found: Iterable[Grant], moments: Callable[[Grant], Iterable[float]]) -> list[Grant]:
    """Return grants that count from the last of these moments before the run at the earliest. moments: in epoch seconds, those at
    which the decision for a run was over, such as a reload."""
    return [
        replace(
            one, decided=max([one.decided, *(moment for moment in moments(one) if one.decided < moment <= one.start)])
        )
        for one in found
    ]


def cells_of_starts(journal: sqlite3.Connection, runs: Iterable[tuple[str, float, float]]) -> list[str]:
    """Return the cells of the start that led to each run of Slurm's log.

    Args:
        journal: That of the controller.
        runs: Id, StartTime and the moment of its submission: a killed slurmctld may have given the id to another job before.
    """
    found = (start_of(journal, job, start + ROUNDED_S, "cells", since) for job, start, since in runs)
    return [row[0] if row else "" for row in found]


def start_of(
    journal: sqlite3.Connection, job: str, moment: float, columns: str, since: float = 0.0
) -> tuple[str, ...] | None:
    """Return these columns of the last start of a job in the minute before a moment and after `since`, seconds; None: there is
    none."""
    last = f"""select {columns} from intent where kind = 'start' and id = ? and began between max(? - 60, ?) and ?
    order by began desc limit 1"""
    found: tuple[str, ...] | None = journal.execute(last, (job, moment - ROUNDED_S, since, moment)).fetchone()
    return found


def nodes_of(cells: str) -> frozenset[str]:
    """Return the nodes of "gpu01=node,gpu02=node"."""
    return frozenset(entry.partition("=")[0] for entry in cells.split(",") if entry)


def late(
    found: Iterable[Grant], deadline: float, outages: Windows, name: Callable[[str, float], str]
) -> tuple[list[str], list[float]]:
    """Return also the waits in descending order, seconds, without the outages. outages: of all, a node or a job, by name."""
    broken, waits = [], []
    for one in found:
        job = name(one.job, one.start)
        seconds = one.start - one.decided - _covered(outages, one.decided, one.start, {job, *one.nodes})
        waits.append(max(0.0, seconds))
        if seconds > deadline + BOUND + ROUNDED_S:
            broken.append(f"{job} ({one.job}) ran {seconds:.1f} s after it was given cells: {one}")
    return broken, sorted(waits, reverse=True)


def _covered(windows: Windows, first: float, last: float, about: set[str]) -> float:
    """Return the seconds of first..last that windows about everything, or about one of `about`, cover."""
    parts = sorted(
        (max(one.first, first), min(one.last, last)) for one in windows.found if one.of == "" or one.of in about
    )
    seconds, reached = 0.0, first
    for begin, end in parts:
        seconds += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return seconds


def kept_out(
    samples: Sequence[Shown],
    tenant_of: Mapping[str, str],
    gpus: Mapping[str, int],
    deadline: float,
    windows: Windows,
    tenants: Mapping[str, Tenant] = OWNED,
) -> tuple[list[str], int]:
    """tenant_of, gpus: of the jobs that are judged or counted, by name. Returns also how many jobs were judged."""
    since, last, judged, broken = dict[str, float](), 0.0, set[str](), dict[str, str]()
    for sample in samples:
        own = {name: _jobs_of(sample, name, tenant_of) for name in tenants}
        full = (own[name] for name, tenant in tenants.items() if _has_nodes_for(own[name], sample, gpus, tenant))
        within = (job for jobs in full for job in jobs if job in sample.waiting)
        entitled = {job for job in within if not windows.touch(sample.time - 1, sample.time, (job,))}
        before, last = (since if sample.time - last <= GAP else {}), sample.time
        since = {job: before.get(job, sample.time) for job in entitled}
        judged |= entitled
        for job, begin in since.items():
            if sample.time - begin > deadline + BOUND + SEEN_S:
                broken[job] = (
                    f"{job} of {sample.tenant(job, tenant_of)} waited {sample.time - begin:.0f} s for cells that were free"
                )
    return list(broken.values()), len(judged)


def entitled_starts(
    samples: Sequence[Shown],
    tenant_of: Mapping[str, str],
    gpus: Mapping[str, int],
    tenants: Mapping[str, Tenant] = OWNED,
) -> set[str]:
    """Return the jobs that samples first show in cells of a VC with whole nodes for all of its jobs: they hardly waited."""
    known, last, found = set[str](), 0.0, set[str]()
    for sample in samples:
        fresh = set(sample.guaranteed) - known if sample.time - last <= GAP else set[str]()
        for name, tenant in tenants.items() if fresh else ():
            own = _jobs_of(sample, name, tenant_of)
            if _has_nodes_for(own, sample, gpus, tenant):
                found |= fresh.intersection(own)
        known |= {*sample.waiting, *sample.running, *sample.guaranteed}
        last = sample.time
    return found


def _jobs_of(sample: Shown, name: str, tenant_of: Mapping[str, str]) -> list[str]:
    return [job for job in sample.waiting | sample.running if sample.tenant(job, tenant_of) == name]


def _has_nodes_for(jobs: Iterable[str], sample: Shown, gpus: Mapping[str, int], tenant: Tenant) -> bool:
    return tenant.holds([sample.sizes.get(job) or gpus[job] for job in jobs])


def keeps_its_limit(cells: frozenset[str], nodes: Sequence[str], requested: int) -> bool:
    """Return whether Slurm has started a job on some nodes of its cells, as many as its owner requests.

    A slurmctld that was started since the submission does not show that number, so that the cells may be on more nodes.
    """
    return frozenset(nodes) < cells and len(nodes) == requested


def elsewhere(runs: Iterable[tuple[str, frozenset[str], frozenset[str]]]) -> list[str]:
    """runs: name, nodes of the cells, nodes in Slurm's log."""
    return [f"{job}: cells on {sorted(cells)}, ran on {sorted(nodes)}" for job, cells, nodes in runs if cells != nodes]


def overbooked(
    samples: Sequence[Shown], tenant_of: Mapping[str, str], rack: Callable[[str], int], tenants: Mapping[str, Tenant] = OWNED
) -> list[str]:  # fmt: skip
    broken, before = dict[str, str](), set[str]()
    for sample in samples:
        now = set(_double(sample, tenant_of)) | set(_excess(sample, tenant_of, rack, tenants))
        for what in now & before:
            broken.setdefault(what, f"{what} at {sample.time:.0f}: {dict(sample.guaranteed)}")
        before = now
    return list(broken.values())


def _double(sample: Shown, tenant_of: Mapping[str, str]) -> Iterable[str]:
    owner: dict[str, str] = {}
    for job, nodes in sample.guaranteed.items():
        for node in nodes:
            if owner.setdefault(node, sample.tenant(job, tenant_of)) != sample.tenant(job, tenant_of):
                yield f"{node} has cells of {owner[node]} and {sample.tenant(job, tenant_of)}"


def _excess(
    sample: Shown, tenant_of: Mapping[str, str], rack: Callable[[str], int], tenants: Mapping[str, Tenant]
) -> Iterable[str]:
    for name, tenant in tenants.items():
        nodes = {
            node for job, each in sample.guaranteed.items() if sample.tenant(job, tenant_of) == name for node in each
        }
        if len(nodes) > tenant.most_nodes or (tenant.in_one_rack and len({rack(node) for node in nodes}) > 1):
            yield f"{name} has cells on {sorted(nodes)}"
    for job in sample.guaranteed:
        if sample.tenant(job, tenant_of) not in tenants:
            yield f"{job} has cells and belongs to no virtual cluster"


def crossed(
    victims: Iterable[tuple[str, str, float]],
    samples: Sequence[Shown],
    tenant_of: Mapping[str, str],
    gpus: Mapping[str, int],
    tenants: Mapping[str, Tenant] = OWNED,
) -> list[str]:
    """victims: guaranteed runs that were preempted, the jobs that they were preempted for, and when."""
    times, broken = [sample.time for sample in samples], []
    for victim, other, moment in victims:
        place = bisect_right(times, moment)
        around = samples[max(0, place - 1) : place + 1]
        name, of = (_tenant_in(around, job, tenant_of) for job in (victim, other))
        within = all(
            _has_nodes_for(_jobs_of(sample, name, tenant_of), sample, gpus, tenants[name]) for sample in around if name
        )
        if name and around and within and of not in (name, ""):
            broken.append(f"{victim} of {name} was preempted for {other} of {of}")
    return broken


def _tenant_in(samples: Sequence[Shown], job: str, tenant_of: Mapping[str, str]) -> str:
    """Return the VC of a job in these samples; "": none, or it was moved to another one."""
    found = {sample.tenant(job, tenant_of) for sample in samples}
    return found.pop() if len(found) == 1 else ""


def outages_of(
    blind: Iterable[tuple[float, float]], bad_nodes: Iterable[tuple[str, float, float]], changes: Windows
) -> Windows:
    """Return the times in which daemons were down, those of bad nodes, and those of changes of a job by its owner."""
    own = [one for one in changes.found if one.of]
    nodes = [Window(first, last, node) for node, first, last in bad_nodes]
    return Windows([*(Window(first, last) for first, last in blind), *nodes, *own])
