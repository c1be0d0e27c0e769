"""Of the jobs without cells as few are preempted as necessary, and none too few."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from tests.scheduler.conftest import Builder
from tests.scheduler.tenants.cluster_replay import ClusterReplay
from tests.scheduler.tenants.random_workloads import RandomWorkload, decided
from tests.scheduler.tenants.shared_cluster import (
    CONFIG,
    DECLARED,
    GPUS,
    LEAVES,
    Drawn,
    cluster_of,
    drawn_jobs,
    tenants_of,
    with_clusters,
)
from tiresias.scheduler.model import JobState, Plan, Request, Snapshot
from tiresias.scheduler.tenants import cell_changes
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.scheduler.virtual_clusters.placement_search import ChosenSearch

FIFO = dict.fromkeys(("one", "two", OUTSIDE), replace(CONFIG, name="fifo"))


def held_by_job(snapshot: Snapshot) -> dict[str, dict[str, float]]:
    """GPUs of each job on each node."""
    found = defaultdict[str, dict[str, float]](dict)
    held = snapshot.allocations
    for job, node, gpus in zip(held.job.tolist(), held.node.tolist(), held.resources["gpus"].tolist(), strict=True):
        found[snapshot.jobs.id[job]][snapshot.nodes.name[node]] = gpus
    return found


@given(drawn=drawn_jobs)
def test_no_victim_could_be_spared(snapshot_of: Any, drawn: list[Drawn]) -> None:
    """Each one frees GPUs of a node which free GPUs and the other victims do not suffice for."""
    whole = cluster_of(snapshot_of, drawn)
    plan, parts = VirtualClusterRule(DECLARED).decide(whole, tenants_of())
    held, own = held_by_job(whole), {start.job for start in parts[-1].plan.reserved}
    owners = {start.job: start for start in (*plan.starts, *plan.reserved) if start.job not in own}
    need, there = (
        defaultdict[str, float](float),
        dict(zip(whole.nodes.name, whole.nodes.free["gpus"].tolist(), strict=True)),
    )
    for start in owners.values():
        for node, count in start.nodes:
            need[node] += count
    state = dict(zip(whole.jobs.id, whole.jobs.state.tolist(), strict=True))
    for job, nodes in held.items():
        if state[job] == JobState.RELEASING or job in {each.job for each in plan.preemptions}:
            for node, gpus in nodes.items():
                there[node] += gpus
    for victim in (each.job for each in plan.preemptions if each.beneficiary in owners):
        assert any(there[node] - gpus < need[node] for node, gpus in held[victim].items())


@given(drawn=drawn_jobs)
def test_all_that_is_promised_becomes_free(snapshot_of: Any, drawn: list[Drawn]) -> None:
    """A CPU for each GPU is all that a node has."""
    whole = cluster_of(snapshot_of, drawn)
    amount = whole.nodes.free.amount.copy()
    amount[:, 1] = amount[:, 0]
    held = whole.allocations.resources.amount.copy()
    held[:, 1] = held[:, 0]
    request = tuple(replace(each, cpus_per_gpu=1.0) for each in whole.jobs.request)
    shown = replace(
        whole,
        jobs=replace(whole.jobs, request=request),
        nodes=replace(whole.nodes, free=replace(whole.nodes.free, amount=amount)),
        allocations=replace(whole.allocations, resources=replace(whole.allocations.resources, amount=held)),
    )
    plan, _ = VirtualClusterRule(DECLARED).decide(shown, tenants_of())
    there = dict(zip(shown.nodes.name, shown.nodes.free["gpus"].tolist(), strict=True))
    state = dict(zip(shown.jobs.id, shown.jobs.state.tolist(), strict=True))
    for job, nodes in held_by_job(shown).items():
        if state[job] == JobState.RELEASING or job in {each.job for each in plan.preemptions}:
            for node, gpus in nodes.items():
                there[node] += gpus
    for start in (*plan.starts, *plan.reserved):
        for node, gpus in start.nodes:
            there[node] -= gpus
    assert min(there.values()) >= 0


def test_cpus_that_jobs_without_cells_hold_are_released(snapshot_of: Any) -> None:
    """Job a of no tenant holds one GPU and all CPUs of each node: without its end, no GPU of a node could be used."""
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf, cpus=8.0) for leaf in LEAVES]
    runs = [
        snapshot_of.Job(
            f"a{at}",
            1,
            JobState.RUNNING,
            first_start=1.0,
            last_start=1.0,
            placement=((at, 1),),
            request=Request(cpus_per_gpu=8.0),
        )
        for at in range(6)
    ]
    asks = snapshot_of.Job("b", 1, request=Request(cpus_per_gpu=2.0))
    plan, _ = VirtualClusterRule(DECLARED).decide(
        with_clusters(snapshot_of([*runs, asks], nodes), (*("",) * 6, "one")), tenants_of(FIFO)
    )
    (victim,), (start,) = plan.preemptions, plan.reserved
    assert (victim.beneficiary, start.job) == ("b", "b")
    assert f"n{victim.job[1:]}" == start.nodes[0][0]


def test_a_victim_with_more_gpus_on_a_node_is_enough(snapshot_of: Any) -> None:
    """The node has jobs of 1 and 3 GPUs. Which of its GPUs they use does not count: for 2 of them one job is preempted."""
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]
    runs = [
        snapshot_of.Job(
            f"{gpus}-{at}", gpus, JobState.RUNNING, first_start=1.0, last_start=1.0, placement=((at, gpus),)
        )
        for at in range(6)
        for gpus in (1, 3)
    ]
    asks = snapshot_of.Job("b", 2, request=Request(max_nodes=1))
    snapshot = with_clusters(snapshot_of([*runs, asks], nodes), (*("",) * 12, "one"))
    plan, _ = VirtualClusterRule(DECLARED).decide(snapshot, tenants_of(FIFO))
    (victim,) = plan.preemptions
    assert victim.job.startswith("3-")


class _AlwaysBinds(ChosenSearch):
    """A search of which each trial is bound and taken back."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.takes_cells = True


def _plans(seed: int, search: type[ChosenSearch], monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    monkeypatch.setattr(cell_changes, "ChosenSearch", search)
    work, plans = RandomWorkload(seed, faults=seed % 2 == 0), list[tuple[object, ...]]()
    rule, jobs = VirtualClusterRule(work.declared), deepcopy(work.jobs)

    def record(_: Snapshot, plan: Plan) -> None:
        plans.append((decided(plan), plan.actions, plan.reserved))

    ClusterReplay(Builder(), rule, work.tenants("las"), jobs, record, work.down, work.leaves, work.gpus).run()
    return plans


@pytest.mark.parametrize("seed", range(24))
def test_trials_that_bind_nothing_find_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    assert _plans(seed, ChosenSearch, monkeypatch) == _plans(seed, _AlwaysBinds, monkeypatch)
