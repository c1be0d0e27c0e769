"""12 nodes x 8 GPUs in 3 racks that three virtual clusters share, as the controller publishes its cells: by the rule itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.scheduler.conftest import Builder
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import JobState, Plan, Snapshot
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.guarantees import Guarantee
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.slurm_plugin.backends.interface import SlurmSnapshot
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.sockets.privacy import OPEN
from tiresias.slurm_plugin.sockets.publication import Publication
from tiresias.slurm_plugin.sockets.shown_cells import CellAnswers

NOW = 1_780_000_000.0
GPUS, NODES, LEAF = 8, 12, 4
DECLARED = (
    DeclaredTenant("prod-a", (DeclaredCells("leaf", 1), DeclaredCells("node", 1))),
    DeclaredTenant("research", (DeclaredCells("node", 3),)),
    DeclaredTenant("speech", (DeclaredCells("node", 2),), opportunistic=False),
)
# id, virtual cluster, GPUs, nodes with GPUs (from 1), type of the cell
RUNNING: tuple[tuple[str, str, tuple[tuple[int, int], ...], str], ...] = (
    ("801", "prod-a", ((1, 8), (2, 8)), "leaf"),
    ("803", "prod-a", ((3, 4),), "leaf"),
    ("805", "research", ((5, 8),), "node"),
    ("806", "research", ((6, 6),), "node"),
    ("807", "research", ((9, 8),), "node"),
    ("812", "research", ((7, 8),), ""),
    ("815", "research", ((4, 8),), ""),
    ("808", "speech", ((8, 8),), "node"),
    ("820", OUTSIDE, ((10, 4),), ""),
)
GUARANTEES = {"prod-a": Guarantee(waiting=1, longest_s=42.0, kept=31), "research": Guarantee(kept=118, broken=1)}


def example_publication() -> Publication:
    """Return a cycle: job 813 of prod-a waits for the node of an opportunistic job, which is being preempted."""
    snapshot, rule = example_snapshot(), VirtualClusterRule(DECLARED)
    config = PolicyConfig(name="fifo", min_run=0.0, min_run_cost_factor=0.0)
    plan, _ = rule.decide(
        snapshot,
        [TenantPolicy(name, config, POLICIES["fifo"]) for name in (*(each.name for each in DECLARED), OUTSIDE)],
    )
    return _published(snapshot, plan, rule)


def _published(snapshot: Snapshot, plan: Plan, rule: VirtualClusterRule) -> Publication:
    return Publication(
        {"cluster": "testbed"}, SlurmSnapshot(NOW - 1.2, (), ()), snapshot, plan, {}, {}, {}, {}, (), Config(),
        cells=rule.report, guarantees=GUARANTEES,
    )  # fmt: skip


def example_snapshot() -> Snapshot:
    """Return the jobs and nodes; gpu12 is drained, and an unmanaged job uses 2 GPUs of gpu11."""
    make = Builder()
    jobs = [
        make.Job(name, sum(gpus for _, gpus in held), JobState.RUNNING, 1000.0, 500.0, placement=_rows(held))
        for name, _, held, _ in RUNNING
    ] + [make.Job("813", 8)]
    nodes = [make.Node(GPUS, leaf=at // LEAF, usable=at != NODES - 1) for at in range(NODES)]
    found = make(jobs, nodes, NOW)
    found.nodes.free.amount[10, 0] -= 2
    names = tuple(f"gpu{number:02}" for number in range(1, NODES + 1))
    cells = tuple(cell for _, _, held, cell in RUNNING for _ in held)
    clusters = (*(cluster for _, cluster, _, _ in RUNNING), "prod-a")
    return replace(
        found,
        jobs=replace(found.jobs, virtual_cluster=clusters),
        nodes=replace(found.nodes, name=names),
        allocations=replace(found.allocations, owned_cell=cells),
    )


def _rows(held: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    return tuple((node - 1, gpus) for node, gpus in held)


def example_cells() -> dict[str, Any]:
    """Return the answer to `{"op": "cells"}`."""
    return dict(CellAnswers(OPEN).answer(example_publication(), 0))
