"""`snapshot_of(jobs, nodes)` builds a Snapshot from a short description of each job and node; running jobs are placed first fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pytest

from tiresias.scheduler.model import ANYWHERE, Allocations, Jobs, JobState, Nodes, Request, Snapshot, Style
from tiresias.scheduler.place.free_capacity import amounts
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.topology_tree import Topology

NAN = float("nan")


@dataclass(frozen=True)
class Job:
    id: str
    gpus: int = 1
    state: JobState = JobState.WAITING
    attained: float = 0.0
    ran: float = 0.0
    waited: float = NAN  # all the time since `submit` that it did not run
    submit: float = 0.0
    first_start: float = NAN
    last_start: float = NAN
    preempted: float = NAN
    movable: bool = True
    eligible: bool = True
    request: Request = ANYWHERE
    placement: tuple[tuple[int, int], ...] | None = None  # (node, GPUs); None: first fit
    style: Style = Style.CONSOLIDATE
    packed_until: float = -math.inf
    obstacle: str = ""
    free_only: bool = False
    preemption_cost: float = NAN
    progress_from: float = NAN


@dataclass(frozen=True)
class Node:
    gpus: int = 4
    cpus: float = 64.0
    memory: float = 1e6
    usable: bool = True
    leaf: int = 0
    type: str = ""
    features: frozenset[str] = frozenset()
    islands: int = 1


JobRow: TypeAlias = Job
NodeRow: TypeAlias = Node


class Builder:
    Job, Node = Job, Node

    def __call__(self, jobs: Sequence[JobRow], nodes: Sequence[NodeRow], time: float = 1000.0) -> Snapshot:
        free = np.array([(node.gpus, node.cpus, node.memory) for node in nodes], dtype=float).reshape(-1, 3)
        islands = _islands(nodes)
        rows: list[tuple[float, ...]] = []
        shown: list[JobRow] = []
        for row, job in enumerate(jobs):
            placement = _placement(job, free)
            for at, gpus in placement:
                free[at] -= amounts(job.request, gpus)
                rows.append((row, at, *amounts(job.request, gpus), *_on_islands(islands, at, gpus)))
            waited = max(time - job.submit - job.ran, 0.0) if math.isnan(job.waited) else job.waited
            shown.append(replace(job, waited=waited, state=job.state if placement else JobState.WAITING))
        held = np.array(rows, dtype=float).reshape(-1, 5 + islands.shape[1])
        job_rows, node_rows = held[:, :2].astype(np.int64).T
        of_nodes, amount = _nodes(nodes, free), Resources(held[:, 2:5])
        if not islands.shape[1]:
            return Snapshot(time, _jobs(shown), of_nodes, Allocations(job_rows, node_rows, amount))
        of_nodes = replace(
            of_nodes,
            topology=of_nodes.topology.with_parts(("socket",), [(node.islands,) for node in nodes]),
            free=of_nodes.free.with_islands(islands),
        )
        return Snapshot(
            time, _jobs(shown), of_nodes, Allocations(job_rows, node_rows, amount.with_islands(held[:, 5:]))
        )


def _islands(nodes: Sequence[Node]) -> np.ndarray:
    """GPUs on each island of each node; no columns where no node has more than one."""
    most = max((node.islands for node in nodes), default=1)
    columns = range(most if most > 1 else 0)
    return np.array(
        [[node.gpus // node.islands if at < node.islands else 0 for at in columns] for node in nodes], np.int64
    ).reshape(len(nodes), -1 if nodes and columns else 0)


def _on_islands(free: np.ndarray, node: int, gpus: int) -> list[int]:
    """The first ones; takes them from `free`."""
    taken = [0] * free.shape[1]
    for at in range(len(taken)):
        taken[at] = min(int(free[node, at]), gpus - sum(taken))
        free[node, at] -= taken[at]
    return taken


def _placement(job: Job, free: np.ndarray) -> tuple[tuple[int, int], ...]:
    if job.state == JobState.WAITING:
        return ()
    return _first_fit(job, free) if job.placement is None else job.placement


def _first_fit(job: Job, free: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Nodes for the whole job, or none. Only the amounts of the request count: a job may run where it could not start."""
    placed, left = [], job.gpus
    for node in range(len(free)):
        here = [
            gpus
            for gpus in range(1, left + 1)
            if (amounts(job.request, gpus) <= free[node]).all() and gpus <= free[node][0]
        ]
        if here:
            placed.append((node, here[-1]))
            left -= here[-1]
    return () if left else tuple(placed)


def _jobs(jobs: Sequence[Job]) -> Jobs:
    def column(name: str, dtype: type) -> np.ndarray:
        return np.array([getattr(job, name) for job in jobs], dtype=dtype)

    return Jobs(
        id=tuple(job.id for job in jobs), gpus=column("gpus", np.int64), submit=column("submit", float),
        state=column("state", np.int64), attained=column("attained", float), ran=column("ran", float),
        waited=column("waited", float), first_start=column("first_start", float),
        last_start=column("last_start", float), preempted=column("preempted", float), movable=column("movable", bool),
        eligible=column("eligible", bool), request=tuple(job.request for job in jobs),
        style=column("style", np.int64), packed_until=column("packed_until", float),
        obstacle=tuple(job.obstacle for job in jobs), free_only=column("free_only", bool),
        preemption_cost=column("preemption_cost", float), progress_from=column("progress_from", float),
    )  # fmt: skip


def _nodes(nodes: Sequence[Node], free: np.ndarray) -> Nodes:
    usable = np.array([node.usable for node in nodes], dtype=bool)
    left = np.where(usable[:, None], free, 0)
    return Nodes(
        name=tuple(f"n{row}" for row in range(len(nodes))),
        gpus=np.array([node.gpus for node in nodes], dtype=np.int64),
        free=Resources(left),
        usable=usable,
        gpu_type=tuple(node.type for node in nodes),
        topology=Topology.of_groups([node.gpus for node in nodes], [[node.leaf for node in nodes]]),
        features=tuple(node.features for node in nodes),
    )


@pytest.fixture(scope="session")
def snapshot_of() -> Callable[..., Snapshot]:
    return Builder()
