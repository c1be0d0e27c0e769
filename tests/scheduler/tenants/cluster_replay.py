"""Replays jobs under a rule of tenants on equal nodes: a preemption takes no time, and loses nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.scheduler.tenants.shared_cluster import GPUS, LEAVES, with_clusters, with_sockets
from tiresias.scheduler.model import ANYWHERE, JobState, Plan, Request, Snapshot, Start
from tiresias.scheduler.tenants.tenant_rule import TenantPolicy, TenantRule

LIMIT = 60  # decisions at one moment


@dataclass
class ReplayedJob:
    """A job of a replay.

    Attributes:
        work: Seconds of work left.
        held: Its nodes (row, GPUs) while it runs.
        cells: Types of owned cells of these nodes.
        parts: GPUs on each socket of these nodes.
        request: What it requests besides GPUs.
    """

    name: str
    cluster: str
    gpus: int
    submit: float
    work: float
    held: tuple[tuple[int, int], ...] = ()
    cells: tuple[str, ...] = ()
    parts: tuple[tuple[int, ...], ...] = ()
    ran: float = 0.0
    first_start: float = math.nan
    last_start: float = math.nan
    preempted: float = math.nan
    end: float = math.nan
    request: Request = ANYWHERE


@dataclass
class ClusterReplay:
    """Jobs on the nodes under a rule.

    Attributes:
        make: Builds snapshots.
        check: Is called with each snapshot and its plan.
        down: Moments from and to which a node is not usable, and its row.
        leaves: The leaf switch of each node.
        gpus: GPUs of each node.
        failing: Moments from and to which a node is a last resort, and its row.
        sockets: Sockets of each node.
        features: Of each node; (): none.
        may_wait: Whether jobs may be left that never start.
        decisions: Decisions made.
        opportunistic: Jobs that have started without cells.
    """

    make: Any
    rule: TenantRule
    tenants: Sequence[TenantPolicy]
    jobs: Sequence[ReplayedJob]
    check: Callable[[Snapshot, Plan], None] = lambda snapshot, plan: None
    down: Sequence[tuple[float, float, int]] = ()
    leaves: Sequence[int] = LEAVES
    gpus: int = GPUS
    sockets: int = 1
    failing: Sequence[tuple[float, float, int]] = ()
    features: Sequence[frozenset[str]] = ()
    may_wait: bool = False
    decisions: int = 0
    now: float = 0.0
    preemptions: int = 0
    opportunistic: set[str] = field(default_factory=set)

    def run(self) -> dict[str, float]:
        """Return the end of each job; NaN: it never starts."""
        while any(math.isnan(job.end) for job in self.jobs):
            self._decide()
            if self.may_wait and not self._moments():
                break
            self._advance()
        return {job.name: job.end for job in self.jobs}

    def snapshot(self) -> Snapshot:
        """Return the jobs that have arrived and not ended, and the nodes."""
        here = [job for job in self.jobs if job.submit <= self.now and math.isnan(job.end)]
        unusable = {node for begin, end, node in self.down if begin <= self.now < end}
        features = self.features or [frozenset[str]()] * len(self.leaves)
        nodes = [
            self.make.Node(gpus=self.gpus, leaf=leaf, usable=at not in unusable, features=own)
            for at, (leaf, own) in enumerate(zip(self.leaves, features, strict=True))
        ]
        shown = with_clusters(
            self.make([self._row(job) for job in here], nodes, self.now), [job.cluster for job in here]
        )
        cells = tuple(cell for job in here for cell in job.cells)
        shown = replace(shown, allocations=replace(shown.allocations, owned_cell=cells))
        if self.failing:
            failing = {node for begin, end, node in self.failing if begin <= self.now < end}
            last_resort = np.array([at in failing for at in range(len(self.leaves))])
            shown = replace(shown, nodes=replace(shown.nodes, last_resort=last_resort))
        parts = [part for job in here for part in job.parts]
        return with_sockets(shown, parts, self.sockets) if self.sockets > 1 else shown

    def _row(self, job: ReplayedJob) -> Any:
        return self.make.Job(
            job.name, job.gpus, JobState.RUNNING if job.held else JobState.WAITING, job.ran * job.gpus, job.ran,
            submit=job.submit, first_start=job.first_start, last_start=job.last_start, preempted=job.preempted,
            placement=job.held or None, request=job.request,
        )  # fmt: skip

    def _decide(self) -> None:
        for _ in range(LIMIT):
            snapshot = self.snapshot()
            plan, _ = self.rule.decide(snapshot, self.tenants)
            self.decisions += 1
            self.check(snapshot, plan)
            self._apply(plan)
            if not plan.starts and not plan.preemptions:
                return
        raise AssertionError(f"decisions do not end at {self.now}")

    def _apply(self, plan: Plan) -> None:
        by_name = {job.name: job for job in self.jobs}
        for start in plan.starts:
            self._start(by_name[start.job], start)
        for each in plan.preemptions:
            job = by_name[each.job]
            assert job.held, f"{job.name} is preempted and does not run"
            job.held, job.cells, job.parts, job.preempted = (), (), (), self.now
            self.preemptions += 1
        for change in plan.rebindings:
            job = by_name[change.job]
            job.cells = change.owned_cells or ("",) * len(job.held)

    def _start(self, job: ReplayedJob, start: Start) -> None:
        assert not job.held
        job.held = tuple((int(name.removeprefix("n")), gpus) for name, gpus in start.nodes)
        assert sum(gpus for _, gpus in job.held) == job.gpus
        job.cells, job.parts = start.owned_cells or ("",) * len(job.held), start.parts
        assert not job.parts or tuple(map(sum, job.parts)) == tuple(gpus for _, gpus in job.held)
        if not start.owned_cells:
            self.opportunistic.add(job.name)
        job.first_start = self.now if math.isnan(job.first_start) else job.first_start
        job.last_start = self.now

    def _moments(self) -> list[float]:
        """The moments to come at which something changes."""
        found = [self.now + job.work for job in self.jobs if job.held]
        found += [job.submit for job in self.jobs if job.submit > self.now]
        return found + [
            each for begin, end, _ in (*self.down, *self.failing) for each in (begin, end) if each > self.now
        ]

    def _advance(self) -> None:
        until = min(self._moments())
        for job in [job for job in self.jobs if job.held]:
            job.work -= until - self.now
            job.ran += until - self.now
            if job.work <= 1e-9:
                job.end, job.held, job.cells, job.parts = until, (), (), ()
        self.now = until
