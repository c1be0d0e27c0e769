"""Placement style learned as decisions use it: what any weights select is feasible, and it honours what restricts the nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.examples import examples
from tests.scheduler.conftest import Builder, Job
from tests.scheduler.place.learned.networks import random_weights
from tests.scheduler.place.learned.test_feasible_shares import check, random_request
from tests.scheduler.tenants.shared_cluster import DECLARED, GPUS, LEAVES, tenants_of, with_clusters
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.interference_table import InterferenceTable
from tiresias.scheduler.model import ANYWHERE, JobState, Request, Snapshot
from tiresias.scheduler.place.learned.cluster_graph import WHOLE
from tiresias.scheduler.place.learned.learned_placement import learned
from tiresias.scheduler.place.learned.placement_agents import GPU, SERVER, TASKS
from tiresias.scheduler.place.learned.task_observation import FEATURES
from tiresias.scheduler.place.learned.weights_file import PlacementWeights, WeightsError
from tiresias.scheduler.place.placement_context import PlacementContext
from tiresias.scheduler.place.placements import style_code
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.pools import NodePool, decide_pools
from tiresias.scheduler.rank.policies import policy_of
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.scheduler.topology_tree import Topology

LEARNED, LEAST = style_code("learned"), style_code("least_interference")
LAS = PolicyConfig("las")
TABLE = InterferenceTable.of(("loader", "matrix"), [[1.5, 1.2], [1.01, 1.0]])


def with_style(snapshot: Snapshot, style: int = LEARNED, **others: Any) -> Snapshot:
    styles = np.full(len(snapshot.jobs), style, np.int64)
    return replace(snapshot, jobs=replace(snapshot.jobs, style=styles), **others)


def trained(snapshot: Snapshot, seed: int = 1, level: str = "leaf", tasks: str = GPU) -> Snapshot:
    return with_style(snapshot, trained=random_weights(snapshot.nodes.topology, seed, level, tasks))


def nodes_of(snapshot: Snapshot) -> dict[str, tuple[tuple[str, int], ...]]:
    return {start.job: start.nodes for start in decide(snapshot, LAS).starts}


def random_snapshot(snapshot_of: Builder, rng: np.random.Generator) -> Snapshot:
    leaves = int(rng.integers(1, 5))
    nodes = [
        snapshot_of.Node(gpus=int(rng.integers(1, 9)), usable=rng.random() < 0.9, leaf=int(rng.integers(leaves)))
        for _ in range(int(rng.integers(1, 16)))
    ]
    jobs = []
    for row in range(int(rng.integers(1, 8))):
        request = replace(
            random_request(rng),
            cpus_per_gpu=float(rng.integers(0, 20)),
            excluded=frozenset(f"n{node}" for node in rng.integers(0, 16, int(rng.integers(0, 4)))),
            closed=frozenset(f"n{node}" for node in rng.integers(0, 16, int(rng.integers(0, 3)))),
        )
        jobs.append(snapshot_of.Job(str(row), gpus=int(rng.integers(1, 20)), request=request))
    found = snapshot_of(jobs, nodes)
    kinds = rng.integers(-1, 2, len(jobs))
    return replace(found, jobs=replace(found.jobs, interference_kind=kinds), interference=TABLE)


@pytest.mark.parametrize("seed", range(3))
def test_a_start_is_feasible_and_honours_its_request(snapshot_of: Builder, seed: int) -> None:
    rng, started = np.random.default_rng(seed), 0
    for _ in range(examples(60)):
        level, tasks = ("leaf", WHOLE)[seed % 2], TASKS[int(rng.integers(2))]
        snapshot = trained(random_snapshot(snapshot_of, rng), int(rng.integers(1000)), level, tasks)
        free, row_of = snapshot.nodes.free.amount.copy(), {name: row for row, name in enumerate(snapshot.nodes.name)}
        for start in decide(snapshot, LAS).starts:
            at = snapshot.jobs.id.index(start.job)
            request, gpus = snapshot.jobs.request[at], int(snapshot.jobs.gpus[at])
            assert not {name for name, _ in start.nodes} & (request.excluded | request.closed)
            rows = tuple((row_of[name], share) for name, share in start.nodes)
            assert all(snapshot.nodes.usable[row] for row, _ in rows)
            check(request, gpus, free[:, 0].astype(int), rows)
            for row, share in rows:
                free[row, :2] -= (share, share * request.cpus_per_gpu)
            assert (free >= -1e-6).all()
            started += 1
    assert started > 20


@pytest.mark.parametrize("seed", range(8))
def test_it_starts_the_jobs_that_fit(snapshot_of: Builder, seed: int) -> None:
    """One job alone starts with any style, or with none."""
    rng = np.random.default_rng(100 + seed)
    for _ in range(examples(40)):
        snapshot = random_snapshot(snapshot_of, rng)
        one = replace(snapshot, jobs=replace(snapshot.jobs, eligible=np.arange(len(snapshot.jobs)) == 0))
        started = nodes_of(with_style(one, 0)).keys()
        assert all(nodes_of(trained(one, tasks=tasks)).keys() == started for tasks in TASKS)


def test_a_task_of_a_server_takes_what_the_server_can_hold(snapshot_of: Builder) -> None:
    rng = np.random.default_rng(5)
    for seed in range(examples(20)):
        sizes = rng.integers(1, 9, 6).tolist()
        gpus = int(rng.integers(1, sum(sizes) + 1))
        nodes = [snapshot_of.Node(gpus=size, leaf=row // 3) for row, size in enumerate(sizes)]
        found = nodes_of(trained(snapshot_of([snapshot_of.Job("1", gpus=gpus)], nodes), seed, tasks=SERVER))["1"]
        partly = [name for name, share in found if share < sizes[int(name[1:])]]
        assert sum(share for _, share in found) == gpus
        assert len(partly) <= 1


@pytest.mark.parametrize("level", ["leaf", WHOLE])
def test_a_start_is_seen_by_the_next_one_of_the_decision(snapshot_of: Builder, level: str) -> None:
    """The second job of a decision sees the GPUs and the links that the first one leaves, as a decision after that start does."""
    nodes = [snapshot_of.Node(leaf=row // 3) for row in range(12)]
    snapshot = trained(snapshot_of([], nodes), 5, level)
    placer, jobs = Placer(snapshot), list[Job]()
    space, kind = placer.space(snapshot.nodes.free.amount.copy()), placer.kind(ANYWHERE, LEARNED)
    for gpus in (3, 6, 7, 2, 6, 5, 3, 9):
        found = placer.place(kind, gpus, space)
        later = trained(snapshot_of(jobs, nodes), 5, level)
        fresh = Placer(later)
        again = fresh.space(later.nodes.free.amount.copy())
        assert fresh.place(fresh.kind(ANYWHERE, LEARNED), gpus, again) == found
        np.testing.assert_allclose(links_of(placer), links_of(fresh), atol=1e-6)
        assert found is not None
        space.take(kind, found)
        jobs.append(snapshot_of.Job(str(len(jobs)), gpus, JobState.RUNNING, placement=found))
    assert links_of(placer).any()


def links_of(placer: Placer) -> np.ndarray:
    ((cluster, *_),) = placer.surroundings.by_space.values()
    load: np.ndarray = cluster.links[:, 1]
    return load


def test_a_network_that_overflows_selects_what_is_feasible(snapshot_of: Builder) -> None:
    rng = np.random.default_rng(11)
    for _ in range(examples(20)):
        snapshot = trained(random_snapshot(snapshot_of, rng))
        assert isinstance(snapshot.trained, PlacementWeights)
        huge = {name: value * np.float32(1e30) for name, value in snapshot.trained.parameters.items()}
        wild = replace(snapshot, trained=replace(snapshot.trained, parameters=huge))
        for start in decide(wild, LAS).starts:
            request = snapshot.jobs.request[snapshot.jobs.id.index(start.job)]
            assert not {name for name, _ in start.nodes} & (request.excluded | request.closed)


def test_nodes_without_the_level_are_placed_by_least_interference(snapshot_of: Builder) -> None:
    plain = snapshot_of([snapshot_of.Job("1", gpus=2)], [snapshot_of.Node(gpus=2 + row) for row in range(4)])
    pods = Topology.of_groups([2, 3, 4, 5], [[0, 0, 1, 1], [0, 0, 1, 1]])
    snapshot = with_style(plain, trained=random_weights(pods, 1, "group2"))
    assert nodes_of(snapshot) == nodes_of(with_style(plain, LEAST))


def test_without_weights_it_is_least_interference(snapshot_of: Builder) -> None:
    rng = np.random.default_rng(3)
    for _ in range(examples(60)):
        snapshot = random_snapshot(snapshot_of, rng)
        assert nodes_of(with_style(snapshot)) == nodes_of(with_style(snapshot, LEAST))


def test_other_weights_give_other_placements(snapshot_of: Builder) -> None:
    """A task may be forwarded to any leaf; with random weights, jobs lie on many nodes."""
    snapshot = snapshot_of(
        [snapshot_of.Job("1", gpus=2)], [snapshot_of.Node(gpus=2 + row % 7, leaf=row // 4) for row in range(16)]
    )
    found = {nodes_of(trained(snapshot, seed))["1"][0][0] for seed in range(30)}
    assert len(found) > 3


def test_a_partition_without_a_free_server_forwards(snapshot_of: Builder) -> None:
    """A job of more GPUs than a leaf has lies on several leaves."""
    nodes = [snapshot_of.Node(gpus=2, leaf=row // 2) for row in range(8)]
    snapshot = trained(snapshot_of([snapshot_of.Job("1", gpus=16)], nodes))
    assert nodes_of(snapshot)["1"] == tuple((f"n{row}", 2) for row in range(8))


def test_weights_of_another_topology_are_refused() -> None:
    topology, other = Topology.of_groups([4] * 4, [[0, 0, 1, 1]]), Topology.of_groups([4] * 4, [[0, 0, 0, 1]])
    random_weights(topology, 1).check(topology, "w")
    with pytest.raises(WeightsError, match=r"weights w: trained for another topology \([0-9a-f]{12}, this one has"):
        random_weights(topology, 1).check(other, "w")
    with pytest.raises(WeightsError, match="trained for another topology: the topology has no level group2"):
        random_weights(Topology.of_groups([4] * 4, [[0, 0, 1, 1], [0] * 4]), 1, "group2").check(topology, "w")
    with pytest.raises(WeightsError, match="trained with other task features; train them with this version"):
        replace(random_weights(topology, 1), features={**FEATURES, "task": ("gpus",)}).check(topology, "w")


def test_a_job_that_does_not_fit_is_not_placed(snapshot_of: Builder) -> None:
    snapshot = trained(snapshot_of([snapshot_of.Job("1", gpus=2)], [snapshot_of.Node(gpus=1)] * 3))
    placer = Placer(snapshot)
    kind, space = placer.kind(Request(max_nodes=1), LEARNED), placer.space(snapshot.nodes.free.amount.copy())
    candidates = space.candidates(kind)
    candidates.context = PlacementContext(kind, space, placer.surroundings)
    assert learned(kind.request, 2, candidates) is None


def test_a_pool_of_nodes_uses_its_part_of_the_graphs(snapshot_of: Builder) -> None:
    """The weights are those of the whole cluster, and the nodes those of the pool."""
    nodes = [snapshot_of.Node(gpus=2 + row % 3, leaf=row // 4) for row in range(12)]
    whole = trained(snapshot_of([snapshot_of.Job(str(row), gpus=2) for row in range(6)], nodes))
    pools = [NodePool(np.arange(6), np.array([1, 2, 6, 9, 10]), LAS, policy_of(LAS))]
    pools.append(NodePool(np.arange(0), np.array([0, 3, 4, 5, 7, 8, 11]), LAS, policy_of(LAS)))
    plan, _ = decide_pools(whole, pools)
    used = {name for start in plan.starts for name, _ in start.nodes}
    assert len(plan.starts) == 6
    assert used <= {"n1", "n2", "n6", "n9", "n10"}


@pytest.mark.parametrize("seed", range(5))
def test_a_virtual_cluster_gets_its_own_cells_and_no_more(snapshot_of: Builder, seed: int) -> None:
    jobs = [snapshot_of.Job(str(row), gpus=GPUS) for row in range(2 * len(LEAVES))]
    plain = with_clusters(
        snapshot_of(jobs, [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]), ["one", "two"] * len(LEAVES)
    )
    confined = replace(plain, jobs=replace(plain.jobs, opportunistic=np.zeros(len(jobs), np.bool_)))
    found = []
    for snapshot in (confined, trained(confined, seed)):
        plan, _ = VirtualClusterRule(DECLARED).decide(snapshot, tenants_of(dict.fromkeys(("one", "two", OUTSIDE), LAS)))
        found.append({start.job for start in plan.starts})
    assert found[0] == found[1]
    assert 0 < len(found[0]) < len(LEAVES) + 1
