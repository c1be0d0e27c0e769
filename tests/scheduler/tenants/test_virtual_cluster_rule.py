"""The rule `virtual_clusters`: guaranteed jobs never wait for other virtual clusters, and idle GPUs are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.tenants.cluster_replay import ClusterReplay, ReplayedJob
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
from tiresias.scheduler.model import Effect, JobState, Plan, Request, Snapshot
from tiresias.scheduler.tenants.declarations import DeclaredTenant
from tiresias.scheduler.tenants.gpu_quotas import GpuQuotas
from tiresias.scheduler.tenants.private_clusters import PrivateClusters
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantRule
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

FIFO = dict.fromkeys(("one", "two", OUTSIDE), replace(CONFIG, name="fifo"))
LAS = dict.fromkeys(("one", "two", OUTSIDE), CONFIG)
Rule = Callable[[Sequence[DeclaredTenant]], TenantRule]
OPPORTUNISTIC_RULES = (VirtualClusterRule, GpuQuotas)
OWNED = {"one": 4, "two": 12}
WIDTH = {"one": 1, "two": 3}  # nodes

jobs_of_tenants = st.lists(
    st.tuples(st.sampled_from(["one", "two"]), st.integers(1, 3), st.integers(0, 30), st.integers(1, 20)),
    min_size=1,
    max_size=12,
)
small_jobs = st.lists(
    st.tuples(st.sampled_from(["one", "two", OUTSIDE]), st.integers(1, 12), st.integers(0, 30), st.integers(1, 20)),
    min_size=1,
    max_size=12,
)


def replayed(drawn: Sequence[tuple[str, int, int, int]], gpus: int) -> list[ReplayedJob]:
    """Jobs of distinct arrivals, none larger than its virtual cluster. `gpus`: of each drawn unit."""
    return [
        ReplayedJob(str(at), cluster, min(size * gpus, OWNED.get(cluster, 8)), submit + at / 100, float(work))
        for at, (cluster, size, submit, work) in enumerate(drawn)
    ]


def checked(snapshot: Snapshot, plan: Plan) -> None:
    """No GPU is used twice, no virtual cluster holds more than it owns, and the plan follows from the snapshot alone."""
    free = dict(zip(snapshot.nodes.name, snapshot.nodes.free["gpus"].tolist(), strict=True))
    for start in plan.starts:
        for node, gpus in start.nodes:
            free[node] -= gpus
    assert min(free.values()) >= 0
    cluster = dict(zip(snapshot.jobs.id, snapshot.jobs.virtual_cluster or (), strict=True))
    held = Counter[str]()
    changed = {each.job: each.owned_cells for each in plan.rebindings}
    lost = {each.job for each in plan.preemptions}
    for job, gpus, cell in zip(
        snapshot.allocations.job.tolist(), snapshot.allocations.resources["gpus"].tolist(),
        snapshot.allocations.owned_cell or (), strict=True,
    ):  # fmt: skip
        name = snapshot.jobs.id[job]
        keeps = bool(changed[name]) if name in changed else bool(cell)
        held[cluster[name]] += gpus if keeps and name not in lost else 0
    for start in plan.starts:
        held[cluster[start.job]] += sum(gpus for _, gpus in start.nodes) if start.owned_cells else 0
    assert held[OUTSIDE] == 0
    assert all(held[name] <= OWNED[name] for name in OWNED)


@given(drawn=jobs_of_tenants)
def test_no_job_ends_later_than_in_its_private_cluster(
    snapshot_of: Any, drawn: list[tuple[str, int, int, int]]
) -> None:
    """Jobs of whole nodes in the order of arrival: earlier ends of others only make a job start earlier."""
    jobs, tenants = replayed(drawn, GPUS), tenants_of(FIFO)
    private = ClusterReplay(snapshot_of, PrivateClusters(DECLARED), tenants, deepcopy(jobs)).run()
    shared = ClusterReplay(snapshot_of, VirtualClusterRule(DECLARED), tenants, jobs, checked).run()
    assert all(shared[name] <= private[name] + 1e-6 for name in private)


@given(drawn=small_jobs, policy=st.sampled_from([FIFO, LAS]), node=st.integers(0, 5))
def test_all_jobs_end_and_no_gpu_is_used_twice(
    snapshot_of: Any, drawn: list[tuple[str, int, int, int]], policy: dict[str, Any], node: int
) -> None:
    """Jobs of any size under a preemptive policy, while a node is down for some time."""
    replay = ClusterReplay(
        snapshot_of, VirtualClusterRule(DECLARED), tenants_of(policy), replayed(drawn, 1), checked, ((5.0, 25.0, node),)
    )
    assert set(replay.run()) == {str(at) for at in range(len(drawn))}


@pytest.mark.parametrize("kind", OPPORTUNISTIC_RULES)
def test_opportunistic_jobs_do_not_wait_for_each_other(snapshot_of: Any, kind: Rule) -> None:
    """Under `fifo` a job that fits on no nodes blocks those after it in its virtual cluster, and none of another one."""
    full = [snapshot_of.Job(str(at), GPUS, JobState.RUNNING, placement=((at, GPUS),)) for at in range(len(LEAVES) - 1)]
    large = snapshot_of.Job("large", 2 * GPUS, submit=10.0)
    small = [snapshot_of.Job(name, 1, submit=11.0) for name in ("inside", "outside")]
    state = snapshot_of([*full, large, *small], [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES])
    names = ("one", "two", "two", "two", OUTSIDE, OUTSIDE, "two", OUTSIDE)
    held = replace(state.allocations, owned_cell=("node", "leaf", "leaf", "node", ""))
    plan, _ = kind(DECLARED).decide(replace(with_clusters(state, names), allocations=held), tenants_of(FIFO))
    assert {start.job for start in plan.starts} == {"inside", "outside"}


@pytest.mark.parametrize(("gpus", "nodes"), [(1, ["n1"]), (GPUS, ["n2"]), (5 * GPUS, ["n1", "n2", "n3", "n4", "n5"])])
def test_opportunistic_jobs_use_nodes_of_guaranteed_ones_only_if_others_do_not_suffice(
    snapshot_of: Any, gpus: int, nodes: list[str]
) -> None:
    """A job shares the node of an opportunistic one, although a guaranteed one leaves fewer GPUs of its node."""
    running = [
        snapshot_of.Job(name, held, JobState.RUNNING, placement=((at, held),))
        for at, (name, held) in enumerate((("guaranteed", 3), ("opportunistic", 2)))
    ]
    new = snapshot_of.Job("new", gpus if gpus <= GPUS else gpus - 2, submit=9.0)
    state = snapshot_of([*running, new], [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES])
    state = with_clusters(state, ("one", OUTSIDE, OUTSIDE))
    state = replace(state, allocations=replace(state.allocations, owned_cell=("node", "")))
    plan, _ = VirtualClusterRule(DECLARED).decide(state, tenants_of(FIFO))
    assert [[node for node, _ in start.nodes] for start in plan.starts] == [nodes]


@pytest.mark.parametrize("kind", OPPORTUNISTIC_RULES)
@given(drawn=drawn_jobs)
def test_a_decision_follows_from_the_snapshot(snapshot_of: Any, kind: Rule, drawn: list[Drawn]) -> None:
    """Decisions on other snapshots between two on the same one change nothing."""
    rule, whole = kind(DECLARED), cluster_of(snapshot_of, drawn)
    first, _ = rule.decide(whole, tenants_of())
    rule.decide(cluster_of(snapshot_of, drawn[1:]), tenants_of())
    for again in (rule, kind(DECLARED)):
        plan, _ = again.decide(whole, tenants_of())
        assert plan.effect.tolist() == first.effect.tolist()
        assert (plan.actions, plan.reserved) == (first.actions, first.reserved)


@pytest.mark.parametrize("kind", OPPORTUNISTIC_RULES)
@given(drawn=drawn_jobs, data=st.data())
def test_each_job_has_a_reason_for_its_rank(
    snapshot_of: Any, kind: Rule, drawn: list[Drawn], data: st.DataObject
) -> None:
    """Also one of no virtual cluster that may not run opportunistically, and so can never start."""
    shown = cluster_of(snapshot_of, drawn)
    flags = data.draw(st.lists(st.booleans(), min_size=len(drawn), max_size=len(drawn)))
    shown = replace(shown, jobs=replace(shown.jobs, opportunistic=np.array(flags)))
    plan, _ = kind(DECLARED).decide(shown, tenants_of())
    assert plan.standing is not None
    assert all(plan.standing.of(row) for row in range(len(drawn)))


@pytest.mark.parametrize("unmanaged", [0, 2])
def test_a_job_avoids_the_gpus_of_unmanaged_jobs_in_the_cells_of_its_virtual_cluster(
    snapshot_of: Any, unmanaged: int
) -> None:
    """Job a of `two` holds half of n0. The other half is the tightest fit for job b, unless an unmanaged job uses it."""
    runs = snapshot_of.Job("a", 2, JobState.RUNNING, first_start=1.0, last_start=1.0, placement=((0, 2),))
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]
    shown = with_clusters(snapshot_of([runs, snapshot_of.Job("b", 2)], nodes), ["two", "two"])
    shown = replace(shown, allocations=replace(shown.allocations, owned_cell=("leaf",)))
    shown.nodes.free.amount[0, 0] -= unmanaged
    (start,) = VirtualClusterRule(DECLARED).decide(shown, tenants_of(FIFO))[0].starts
    assert start.owned_cells
    assert (start.nodes[0][0] == "n0") is not bool(unmanaged)


def test_idle_cells_are_used_and_given_back(snapshot_of: Any) -> None:
    """`one` owns a node and uses all six; `two` gets its three nodes at once, and no more than these are taken."""
    jobs = [ReplayedJob(str(at), "one", 4, 0.0, 100.0) for at in range(6)]
    jobs += [ReplayedJob("two", "two", 12, 10.0, 5.0)]
    replay = ClusterReplay(snapshot_of, VirtualClusterRule(DECLARED), tenants_of(FIFO), jobs, checked)
    ends = replay.run()
    assert ends["two"] == 15.0
    assert replay.preemptions == 3
    assert sorted(ends.values())[1:4] == [100.0] * 3


def test_a_rack_is_kept_whole(snapshot_of: Any) -> None:
    """Two jobs of a node each of `one` and `two` leave a whole rack for the rack that `two` owns."""
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]
    snapshot = snapshot_of([snapshot_of.Job(str(at), 4) for at in range(2)] + [snapshot_of.Job("rack", 8)], nodes)
    named = replace(snapshot, jobs=replace(snapshot.jobs, virtual_cluster=("one", "two", "two")))
    plan, _ = VirtualClusterRule(DECLARED).decide(named, tenants_of(FIFO))
    starts = {start.job: start for start in plan.starts}
    assert {len(start.owned_cells) for start in starts.values()} == {1, 2}
    assert starts["rack"].owned_cells == ("leaf", "leaf")
    assert len({LEAVES[int(name[1:])] for name, _ in starts["rack"].nodes}) == 1


@pytest.mark.parametrize("kind", OPPORTUNISTIC_RULES)
def test_a_job_that_may_not_run_opportunistically_waits(snapshot_of: Any, kind: Rule) -> None:
    declared = tuple(replace(tenant, opportunistic=False) for tenant in DECLARED)
    snapshot = cluster_of(snapshot_of, [Drawn("one", 4, JobState.WAITING, 0.0, 0, False)] * 2)
    plan, _ = kind(declared).decide(snapshot, tenants_of(FIFO))
    assert plan.effect.tolist() == [Effect.START, Effect.WAIT]
    by_job = replace(snapshot, jobs=replace(snapshot.jobs, opportunistic=np.array([False, False])))
    plan, _ = kind(DECLARED).decide(by_job, tenants_of(FIFO))
    assert plan.effect.tolist() == [Effect.START, Effect.WAIT]


@pytest.mark.parametrize(
    "request_of",
    [
        Request(features=frozenset({"ib"})),
        Request(cpus_per_gpu=5.0),
        Request(excluded=frozenset({"n0"})),
        Request(closed=frozenset({"n0"})),
        Request(nodes=frozenset({"n1"})),
    ],
)
def test_a_job_starts_in_another_cell_where_that_of_its_vc_in_use_lacks_what_it_requests(
    snapshot_of: Any, request_of: Request
) -> None:
    """Job a of `two` holds a GPU of the first node, which has neither the feature nor the CPUs; the other cells are free."""
    nodes = [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]
    runs = snapshot_of.Job("a", 1, JobState.RUNNING, first_start=1.0, last_start=1.0, placement=((0, 1),))
    snapshot = snapshot_of([runs, snapshot_of.Job("b", 1, request=request_of)], nodes)
    jobs = replace(snapshot.jobs, virtual_cluster=("two", "two"))
    features = (frozenset[str](), *(frozenset({"ib"}),) * 5)
    amount = snapshot.nodes.free.amount.copy()
    amount[0, 1] = 4.0
    held = replace(snapshot.allocations, owned_cell=("leaf",))
    shown = replace(snapshot.nodes, features=features, free=replace(snapshot.nodes.free, amount=amount))
    plan, _ = VirtualClusterRule(DECLARED).decide(
        replace(snapshot, jobs=jobs, nodes=shown, allocations=held), tenants_of(LAS)
    )
    (start,) = plan.starts
    assert start.owned_cells
    assert start.nodes[0][0] != "n0"
