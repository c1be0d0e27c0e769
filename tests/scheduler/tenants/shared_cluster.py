"""Six nodes of 4 GPUs in three racks that two virtual clusters share, and random jobs on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import JobState, Request, Snapshot
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy

GPUS = 4
LEAVES = (0, 0, 1, 1, 2, 2)
DECLARED = (
    DeclaredTenant("one", (DeclaredCells("node", 1),)),
    DeclaredTenant("two", (DeclaredCells("leaf", 1), DeclaredCells("node", 1))),
)
NODES_OF = {"two": (0, 1, 3), "one": (2,), OUTSIDE: (4, 5)}  # of the static partition
CONFIG = PolicyConfig(name="las", thresholds=(50.0,), min_run=0.0, min_run_cost_factor=0.0, starve_limit=math.inf)
CONFIGS = {"one": CONFIG, "two": replace(CONFIG, name="fifo"), OUTSIDE: replace(CONFIG, name="best_effort")}


@dataclass(frozen=True)
class Drawn:
    """A job: it runs if its GPUs are free on the node, the `node`-th one of its virtual cluster or of the cluster."""

    cluster: str
    gpus: int
    state: JobState
    attained: float
    node: int
    one_node: bool


drawn_jobs = st.lists(
    st.builds(
        Drawn,
        cluster=st.sampled_from([*NODES_OF, "unknown"]),
        gpus=st.integers(1, 8),
        state=st.sampled_from(
            [JobState.WAITING, JobState.WAITING, JobState.RUNNING, JobState.RUNNING, JobState.RELEASING]
        ),
        attained=st.sampled_from([0.0, 20.0, 80.0]),
        node=st.integers(0, 5),
        one_node=st.booleans(),
    ),
    min_size=1,
    max_size=14,
)


def tenants_of(configs: Mapping[str, PolicyConfig] = CONFIGS) -> list[TenantPolicy]:
    """Return the two virtual clusters and the jobs outside of them, each with its policy."""
    return [TenantPolicy(name, config, POLICIES[config.name]) for name, config in configs.items()]


def cluster_of(make: Any, drawn: Sequence[Drawn], in_own: bool = False, only: str | None = None) -> Snapshot:
    """Return the jobs, or `only` those of one virtual cluster, on the nodes. `in_own`: running jobs are on nodes of their own."""
    free, rows = [GPUS] * len(LEAVES), list[Any]()
    names = list[str]()
    for number, job in enumerate(drawn):
        own = NODES_OF.get(job.cluster, NODES_OF[OUTSIDE])
        node = own[job.node % len(own)] if in_own else job.node
        runs = job.state != JobState.WAITING and job.gpus <= free[node]
        free[node] -= job.gpus if runs else 0
        if only in (None, job.cluster):
            rows.append(_row(make, number, job, node if runs else None))
            names.append(job.cluster)
    return with_clusters(make(rows, [make.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]), names)


def _row(make: Any, number: int, job: Drawn, node: int | None) -> Any:
    state, nan = (job.state, 500.0) if node is not None else (JobState.WAITING, math.nan)
    request = Request(max_nodes=1) if job.one_node and job.gpus <= GPUS else Request()
    return make.Job(
        str(number), job.gpus, state, job.attained, job.attained / job.gpus, submit=float(number), first_start=nan,
        last_start=nan, placement=None if node is None else ((node, job.gpus),), request=request,
    )  # fmt: skip


def with_sockets(snapshot: Snapshot, parts: Sequence[tuple[int, ...]], count: int) -> Snapshot:
    """Return the snapshot with sockets that starts select.

    Args:
        snapshot: Nodes of equal sockets.
        parts: GPUs on each socket of the node, of each allocation.
        count: Sockets of each node.
    """
    nodes, held = snapshot.nodes, snapshot.allocations
    on_sockets = np.array(parts, np.float64).reshape(-1, count)
    free = np.repeat(nodes.gpus[:, None] / count, count, axis=1)
    np.subtract.at(free, held.node, on_sockets)
    assert (free >= 0).all(), "a part of a node is used twice"
    free[~nodes.usable] = 0
    topology = nodes.topology.with_parts(("socket",), [(count,)] * len(nodes), [True] * len(nodes))
    return replace(
        snapshot,
        nodes=replace(nodes, topology=topology, free=nodes.free.with_islands(free)),
        allocations=replace(held, resources=held.resources.with_islands(on_sockets)),
    )


def with_clusters(snapshot: Snapshot, names: Iterable[str]) -> Snapshot:
    """Return the snapshot with the virtual cluster of each job."""
    return replace(snapshot, jobs=replace(snapshot.jobs, virtual_cluster=tuple(names)))
