"""Jobs that run beyond the cells of their virtual cluster are not preempted, and preempt none, where that can be avoided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.scheduler.tenants.shared_cluster import CONFIG, DECLARED, GPUS, LEAVES, tenants_of, with_clusters
from tiresias.scheduler.model import JobState, Plan, Request, Snapshot
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

LAS = dict.fromkeys(("one", "two", OUTSIDE), CONFIG)
NOW = 100.0


def running(make: Any, name: str, node: int, gpus: int, since: float = 10.0, attained: float = 5.0) -> Any:
    """A job that runs on one node."""
    return make.Job(
        name, gpus, JobState.RUNNING, attained, attained / gpus, submit=since, first_start=since, last_start=since,
        placement=((node, gpus),),
    )  # fmt: skip


def shown(make: Any, jobs: Sequence[Any], clusters: Sequence[str], cells: Sequence[str], nodes: int = 6) -> Snapshot:
    """The jobs on the nodes. `cells`: the type of the cell of each running job."""
    found = make(
        list(jobs), [make.Node(gpus=GPUS, leaf=leaf, usable=at < nodes) for at, leaf in enumerate(LEAVES)], NOW
    )
    found = with_clusters(found, clusters)
    return replace(found, allocations=replace(found.allocations, owned_cell=tuple(cells)))


def decided(snapshot: Snapshot) -> Plan:
    """The plan under `las`."""
    return VirtualClusterRule(DECLARED).decide(snapshot, tenants_of(LAS))[0]


def test_a_job_that_runs_beyond_the_cells_is_given_them_before_a_waiting_one_of_its_queue(snapshot_of: Any) -> None:
    """`one` holds three GPUs of its node n0, and a job of it runs on n1; the last GPU of the node is another job's. The waiting job
    was preempted, which ranks it before all other waiting ones: if it started in the free part of the cell, `outside` would end."""
    jobs = [running(snapshot_of, f"held{at}", 0, 1) for at in range(3)]
    jobs += [running(snapshot_of, "outside", 0, 1), running(snapshot_of, "beyond", 1, 1, since=50.0)]
    jobs += [running(snapshot_of, f"full{at}", at, 3 if at == 1 else GPUS) for at in range(1, 6)]
    waits = snapshot_of.Job("waits", 1, attained=4.0, submit=5.0, first_start=6.0, last_start=6.0, preempted=20.0)
    clusters = ["one"] * 3 + [OUTSIDE, "one"] + [OUTSIDE] * 5 + ["one"]
    plan = decided(shown(snapshot_of, [*jobs, waits], clusters, ["node"] * 3 + [""] * 7))
    assert not plan.preemptions
    assert not plan.starts


@pytest.mark.parametrize("since", [NOW - 31.0, NOW - 29.0])
def test_a_job_that_has_just_started_beyond_the_cells_leaves_them_to_a_waiting_one(
    snapshot_of: Any, since: float
) -> None:
    """The node of `one` is free, as a job was preempted for `waits`. Meanwhile `beyond` has started on n1."""
    jobs = [running(snapshot_of, "beyond", 1, GPUS, since=since, attained=1.0)]
    waits = snapshot_of.Job("waits", GPUS, submit=since - 10.0)
    least = dict.fromkeys(LAS, replace(CONFIG, min_run=30.0))
    state = shown(snapshot_of, [*jobs, waits], ["one", "one"], [""])
    plan = VirtualClusterRule(DECLARED).decide(state, tenants_of(least))[0]
    started = {start.job for start in plan.starts if start.owned_cells}
    assert started == ({"waits"} if since == NOW - 29.0 else set())


def test_a_job_with_cells_keeps_them_before_one_that_has_run_for_longer_beyond_them(snapshot_of: Any) -> None:
    jobs = [running(snapshot_of, "holds", 0, GPUS, since=50.0), running(snapshot_of, "beyond", 1, GPUS, since=10.0)]
    assert not decided(shown(snapshot_of, jobs, ["one", "one"], ["node", ""])).rebindings


def half_used(make: Any, extra: Sequence[Any] = (), clusters: Sequence[str] = (), others_free: int = 2) -> Snapshot:
    """`one` holds two GPUs of its node n0, and `outside` the others. Of the nodes n1 to n4 `others_free` GPUs are free."""
    jobs = [running(make, "held", 0, 2), running(make, "outside", 0, 2)]
    jobs += [running(make, f"full{at}", at, GPUS - (others_free if at < 5 else 0)) for at in range(1, 6)]
    return shown(make, [*jobs, *extra], ["one", *[OUTSIDE] * 6, *clusters], ["node", *[""] * 6])


@pytest.mark.parametrize("others_free", [1, 2])
def test_a_job_starts_beyond_its_cells_where_that_spares_another_one(snapshot_of: Any, others_free: int) -> None:
    """Where no node has two free GPUs, `outside` is preempted."""
    new = snapshot_of.Job("new", 2, submit=90.0, request=Request(max_nodes=1))
    plan = decided(half_used(snapshot_of, [new], ["one"], others_free))
    assert [each.job for each in plan.preemptions] == (["outside"] if others_free == 1 else [])
    assert [(start.job, start.owned_cells) for start in plan.starts] == ([] if others_free == 1 else [("new", ())])


def test_it_starts_on_the_node_that_no_virtual_cluster_uses(snapshot_of: Any) -> None:
    """`two` holds a GPU of n1, which has as many free GPUs as n2 to n4."""
    new, held = snapshot_of.Job("new", 1, submit=90.0), running(snapshot_of, "held2", 1, 1)
    before = half_used(snapshot_of, [held, new], ["two", "one"])
    cells = ("node", *[""] * 6, "leaf")
    plan = decided(replace(before, allocations=replace(before.allocations, owned_cell=cells)))
    ((node, _),) = plan.starts[0].nodes
    assert node == "n2"


def test_the_gpus_of_starts_in_cells_are_not_taken(snapshot_of: Any) -> None:
    """`two` needs all that is free on n1 to n4 for its own jobs, so the job of `one` preempts the job on its node."""
    new = snapshot_of.Job("new", 2, submit=90.0, request=Request(max_nodes=1))
    others = [snapshot_of.Job(f"two{at}", 4, submit=80.0, request=Request(max_nodes=1)) for at in range(3)]
    jobs = [running(snapshot_of, "held", 0, 2), running(snapshot_of, "outside", 0, 2)]
    jobs += [running(snapshot_of, f"full{at}", at, GPUS) for at in (4, 5)]
    plan = decided(
        shown(snapshot_of, [*jobs, *others, new], ["one", *[OUTSIDE] * 3, *["two"] * 3, "one"], ["node", "", "", ""])
    )
    assert {start.job for start in plan.starts if start.owned_cells} == {"two0", "two1", "two2"}
    assert ("outside", "new") in {(each.job, each.beneficiary) for each in plan.preemptions}


@pytest.mark.parametrize("saves", [True, False])
def test_a_job_that_loses_work_if_it_is_preempted_starts_in_its_cells(snapshot_of: Any, saves: bool) -> None:
    """So does one that may not run beyond them."""
    new = snapshot_of.Job("new", 1, submit=90.0)
    before = half_used(snapshot_of, [new], ["one"])
    flags = np.arange(len(before.jobs)) < len(before.jobs) - 1
    jobs = replace(before.jobs, opportunistic=flags) if saves else replace(before.jobs, saves=flags)
    plan = decided(replace(before, jobs=jobs))
    assert [(each.job, each.beneficiary) for each in plan.preemptions] == [("outside", "new")]


def test_a_job_is_preempted_if_another_start_needs_its_gpus_as_well(snapshot_of: Any) -> None:
    """Two jobs of one GPU need the two GPUs of `outside`. One free GPU elsewhere spares nothing."""
    jobs = [running(snapshot_of, "held", 0, 2), running(snapshot_of, "outside", 0, 2)]
    jobs += [running(snapshot_of, f"full{at}", at, GPUS - (at == 3)) for at in range(1, 6)]
    new = [snapshot_of.Job(f"new{at}", 1, submit=90.0 + at) for at in range(2)]
    plan = decided(shown(snapshot_of, [*jobs, *new], ["one", *[OUTSIDE] * 6, "one", "one"], ["node", *[""] * 6]))
    assert [each.job for each in plan.preemptions] == ["outside"]
    assert {start.nodes for start in plan.reserved} == {(("n0", 1),)}


def test_a_start_leaves_the_hardware_that_a_job_needs_for_which_gpus_are_kept_free(snapshot_of: Any) -> None:
    """The rack n0 to n2 is bound to the leaf of `one`, and n0 is in use. Two free GPUs are kept for `beyond`, which needs `fast`,
    and `waits` uses the other six. On n1 `beyond` cannot run: `waits` would be preempted for it, and started there again."""
    fast = Request(features=frozenset({"fast"}))
    jobs = [running(snapshot_of, "held", 0, GPUS), replace(running(snapshot_of, "beyond", 3, 2), request=fast)]
    nodes = [
        snapshot_of.Node(gpus=GPUS, leaf=at // 3, features=fast.features if at > 1 else frozenset()) for at in range(6)
    ]
    waits = snapshot_of.Job("waits", 6, submit=90.0)
    held = running(snapshot_of, "waits", 1, 4)
    rule = VirtualClusterRule([DeclaredTenant("one", (DeclaredCells("leaf", 1),))])
    tenants = [each for each in tenants_of(LAS) if each.name != "two"]

    def decide(last: Any, *cells: str) -> Plan:
        state = with_clusters(snapshot_of([*jobs, last], nodes, NOW), ["one"] * 3)
        state = replace(state, allocations=replace(state.allocations, owned_cell=("leaf", "", *cells)))
        return rule.decide(state, tenants)[0]

    (start,) = decide(waits).starts
    assert sorted(start.nodes) == [("n1", 4), ("n2", 2)]
    assert not decide(replace(held, gpus=6, placement=((1, 4), (2, 2))), "leaf", "leaf").preemptions
