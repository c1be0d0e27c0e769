"""Cells below the node: a virtual cluster may own sockets, and its jobs get the GPUs of one socket."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.tenants.cluster_replay import ClusterReplay, ReplayedJob
from tests.scheduler.tenants.shared_cluster import CONFIG, GPUS, LEAVES, tenants_of, with_clusters, with_sockets
from tiresias.errors import UsageError
from tiresias.scheduler.model import ANYWHERE, JobState, Nodes, Plan, Request, Snapshot
from tiresias.scheduler.tenants.cells_of_topology import cell_specification
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.scheduler.tenants.gpu_quotas import GpuQuotas
from tiresias.scheduler.tenants.private_clusters import PrivateClusters
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule
from tiresias.scheduler.topology_tree import Division
from tiresias.scheduler.virtual_clusters.cell_state import CellState

SOCKETS = 2  # of each node, of two GPUs each
DECLARED = (
    DeclaredTenant("one", (DeclaredCells("socket", 3),)),
    DeclaredTenant("two", (DeclaredCells("leaf", 1), DeclaredCells("node", 1), DeclaredCells("socket", 1))),
)
OWNED = {"one": 6, "two": 14}
FIFO = dict.fromkeys(("one", "two", OUTSIDE), replace(CONFIG, name="fifo"))
LAS = dict.fromkeys(("one", "two", OUTSIDE), CONFIG)

few = settings(max_examples=examples(30), deadline=None)  # each is a replay of some dozens of decisions
jobs_of_tenants = st.lists(
    st.tuples(
        st.sampled_from(["one", "one", "two", OUTSIDE]), st.integers(1, 8), st.integers(0, 30), st.integers(1, 20)
    ),
    min_size=1,
    max_size=14,
)


def nodes_of(
    make: Any, divisions: Sequence[tuple[int, Division]], names: Sequence[str] = ("nvlink", "socket")
) -> Nodes:
    """`divisions`: GPUs and division of each node."""
    nodes: Nodes = make([], [make.Node(gpus=gpus) for gpus, _ in divisions]).nodes
    topology = nodes.topology.with_parts(names, [division for _, division in divisions], [True] * len(divisions))
    return replace(nodes, topology=topology)


def cells_of(make: Any, *divisions: tuple[int, Division]) -> dict[str, tuple[str, int]]:
    """Return type and number of the children of each cell type."""
    spec = cell_specification(nodes_of(make, divisions), ())
    CellState(spec)
    return {name: (kind.child, kind.count) for name, kind in spec.cell_types.items()}


def test_levels_below_the_node(snapshot_of: Any) -> None:
    """Of two sockets with two NVLink islands each, of two GPUs."""
    assert cells_of(snapshot_of, (8, (4, 2))) == {
        "nvlink": ("gpu", 2), "socket": ("nvlink", 2), "node": ("socket", 2), "leaf": ("node", 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("division", "below_the_node"),
    [
        ((1, 2), {"socket": ("gpu", 4), "node": ("socket", 2)}),  # no NVLink islands are known
        ((4, 1), {"nvlink": ("gpu", 2), "node": ("nvlink", 4)}),
        ((2, 4), {"socket": ("gpu", 2), "node": ("socket", 4)}),  # NVLink islands larger than the sockets above them
        ((3, 2), {"node": ("gpu", 8)}),  # they do not fit into each other
        ((3, 1), {"node": ("gpu", 8)}),  # they do not divide the GPUs
        ((1, 1), {"node": ("gpu", 8)}),
    ],
)
def test_a_level_that_is_not_possible_is_left_out(
    snapshot_of: Any, division: Division, below_the_node: dict[str, tuple[str, int]]
) -> None:
    assert cells_of(snapshot_of, (8, division)) == {**below_the_node, "leaf": ("node", 1)}


def test_nodes_with_and_without_sockets_have_types_of_their_own(snapshot_of: Any) -> None:
    nodes = nodes_of(snapshot_of, [(4, (1, 2)), (4, (1, 1)), (4, (1, 2))])
    owner = DeclaredTenant("one", (DeclaredCells("socket", 4), DeclaredCells("node#2", 1)))
    spec = cell_specification(nodes, (owner,))
    CellState(spec)
    assert [each.path for each in spec.virtual_clusters["one"].cells] == ["leaf#1.socket", "leaf#2.node#2"]


def test_types_of_parts_are_no_gpu_types_of_cells(snapshot_of: Any) -> None:
    nodes = replace(nodes_of(snapshot_of, [(4, (1, 2))]), gpu_type=("s0,s1",))
    assert cell_specification(nodes, ()).cell_types["socket"].child == "gpu"
    predicted = replace(nodes, topology=replace(nodes.topology, selectable=None))
    assert cell_specification(predicted, ()).cell_types["node"].child == "s0,s1"


def test_parts_that_starts_do_not_select_are_no_cells(snapshot_of: Any) -> None:
    nodes = nodes_of(snapshot_of, [(4, (1, 2))])
    predicted = replace(nodes, topology=replace(nodes.topology, selectable=None))
    with pytest.raises(UsageError, match="virtual cluster one: no cells of level socket; there are leaf, node"):
        cell_specification(predicted, DECLARED)


def cluster(make: Any, jobs: Sequence[Any], vcs: Sequence[str], parts: Sequence[tuple[int, ...]] = ()) -> Snapshot:
    """Six nodes of two sockets in three racks."""
    nodes = [make.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]
    return with_sockets(with_clusters(make(jobs, nodes), vcs), parts, SOCKETS)


def decided(snapshot: Snapshot, policy: dict[str, Any] = FIFO) -> Plan:
    return VirtualClusterRule(DECLARED).decide(snapshot, tenants_of(policy))[0]


def test_a_job_gets_the_gpus_of_one_socket(snapshot_of: Any) -> None:
    """Three jobs of two GPUs in the three sockets of `one`."""
    plan = decided(cluster(snapshot_of, [snapshot_of.Job(str(at), 2) for at in range(3)], ["one"] * 3))
    assert [start.owned_cells for start in plan.starts] == [("socket",)] * 3
    assert all(sorted(parts) == [0, 2] for start in plan.starts for parts in start.parts)
    used = {(start.nodes[0][0], start.parts[0]) for start in plan.starts}
    assert len(used) == 3


def test_a_running_job_keeps_the_socket_that_it_holds(snapshot_of: Any) -> None:
    """Job a holds one GPU of the second socket of n3: the other one there is the nearest for job b."""
    runs = snapshot_of.Job("a", 1, JobState.RUNNING, first_start=1.0, last_start=1.0, placement=((3, 1),))
    shown = cluster(snapshot_of, [runs, snapshot_of.Job("b", 1)], ["one", "one"], [(0, 1)])
    held = replace(shown.allocations, owned_cell=("socket",))
    (start,) = decided(replace(shown, allocations=held), LAS).starts
    assert (start.nodes, start.parts) == ((("n3", 1),), ((0, 1),))


def test_a_job_larger_than_a_socket_takes_several_unless_it_is_for_one_node(snapshot_of: Any) -> None:
    """`one` owns three sockets: four GPUs are two of them, for a job that may use two nodes."""
    several = decided(cluster(snapshot_of, [snapshot_of.Job("a", 4)], ["one"]))
    assert [sum(map(sum, start.parts)) for start in several.starts if start.owned_cells] == [4]
    for request in (Request(max_nodes=1), Request(min_nodes=2, gpus_per_node=2)):
        (start,) = decided(cluster(snapshot_of, [snapshot_of.Job("a", 4, request=request)], ["one"])).starts
        assert not start.owned_cells


def test_a_gpu_type_that_is_a_part_is_kept(snapshot_of: Any) -> None:
    """Starts of jobs that request s1 are on the second socket, with a cell or without."""
    shown = cluster(
        snapshot_of, [snapshot_of.Job(str(at), 2, request=Request(gpu_type="s1")) for at in range(5)], ["one"] * 5
    )
    plan = decided(replace(shown, nodes=replace(shown.nodes, gpu_type=("s0,s1",) * len(LEAVES))))
    assert [start.parts for start in plan.starts] == [((0, 2),)] * 5
    assert sum(bool(start.owned_cells) for start in plan.starts) == 3


def test_opportunistic_starts_leave_the_parts_of_guaranteed_ones(snapshot_of: Any) -> None:
    """All GPUs are used at once, and each start has parts."""
    jobs = [snapshot_of.Job(str(at), 3) for at in range(6)] + [snapshot_of.Job(f"s{at}", 1) for at in range(6)]
    plan = decided(cluster(snapshot_of, jobs, [OUTSIDE] * 6 + ["one"] * 6))
    used: dict[tuple[str, int], int] = {}
    for start in plan.starts:
        assert start.parts
        for (node, _), parts in zip(start.nodes, start.parts, strict=True):
            for at, gpus in enumerate(parts):
                used[node, at] = used.get((node, at), 0) + gpus
    assert max(used.values()) <= GPUS // SOCKETS
    assert sum(used.values()) == GPUS * len(LEAVES)


def whole_in_a_socket(snapshot: Snapshot, plan: Plan) -> None:
    """A job of one node in the cell of a socket has no GPU of another one, and `one` holds no more sockets than it owns."""
    request = dict(zip(snapshot.jobs.id, snapshot.jobs.request, strict=True))
    for start in plan.starts:
        assert start.parts, f"{start} has no parts"
        if start.owned_cells == ("socket",) and request[start.job].max_nodes == 1:
            assert sum(1 for gpus in start.parts[0] if gpus) == 1
    assert len(sockets_of_one(snapshot, plan)) <= 3


def sockets_of_one(snapshot: Snapshot, plan: Plan) -> set[tuple[str, int]]:
    """Return the sockets on which guaranteed jobs of `one` have GPUs, after the actions of the plan."""
    jobs, held, names = snapshot.jobs, snapshot.allocations, snapshot.nodes.name
    cluster = dict(zip(jobs.id, jobs.virtual_cluster or (), strict=True))
    cells = {each.job: each.owned_cells for each in plan.rebindings} | {each.job: () for each in plan.preemptions}
    columns = zip(
        held.job.tolist(), held.node.tolist(), held.owned_cell or (), held.resources.islands.tolist(), strict=True
    )
    shares = [(jobs.id[job], names[node], cells.get(jobs.id[job], cell), parts) for job, node, cell, parts in columns]
    shares += [
        (start.job, node, start.owned_cells, parts)
        for start in plan.starts
        for (node, _), parts in zip(start.nodes, start.parts, strict=True)
    ]
    return {
        (node, at)
        for job, node, cell, parts in shares
        for at, gpus in enumerate(parts)
        if gpus and cell and cluster[job] == "one"
    }


def replayed(drawn: Sequence[tuple[str, int, int, int]], most: int = 8) -> list[ReplayedJob]:
    return [
        ReplayedJob(
            str(at),
            cluster,
            min(size, OWNED.get(cluster, 8), most),
            submit + at / 100,
            float(work),
            request=Request(max_nodes=1) if size <= 2 else ANYWHERE,
        )
        for at, (cluster, size, submit, work) in enumerate(drawn)
    ]


@few
@given(drawn=jobs_of_tenants, node=st.integers(0, 5))
def test_no_part_is_used_twice_and_no_job_spans_sockets(
    snapshot_of: Any, drawn: list[tuple[str, int, int, int]], node: int
) -> None:
    """While a node is down for some time. `with_sockets` checks that no part is used twice."""
    replay = ClusterReplay(
        snapshot_of, VirtualClusterRule(DECLARED), tenants_of(LAS), replayed(drawn), whole_in_a_socket,
        ((5.0, 25.0, node),), sockets=SOCKETS,
    )  # fmt: skip
    assert set(replay.run()) == {str(at) for at in range(len(drawn))}


@few
@given(
    drawn=st.lists(
        st.tuples(st.just("one"), st.just(2), st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=9
    )
)
def test_jobs_of_whole_sockets_never_wait_for_other_tenants(
    snapshot_of: Any, drawn: list[tuple[str, int, int, int]]
) -> None:
    """In the order of arrival they end no later than on three sockets of their own, whatever the others run."""
    others = [ReplayedJob(f"o{at}", OUTSIDE, 4, 0.0, 60.0) for at in range(6)]
    alone, slots = {}, [0.0] * 3
    jobs = sorted(replayed(drawn), key=lambda job: job.submit)
    for job in deepcopy(jobs):
        at = slots.index(min(slots))
        slots[at] = alone[job.name] = max(slots[at], job.submit) + job.work
    ends = ClusterReplay(
        snapshot_of, VirtualClusterRule(DECLARED), tenants_of(FIFO), [*others, *jobs], sockets=SOCKETS
    ).run()
    assert all(ends[name] <= alone[name] + 1e-6 for name in alone)


@given(drawn=jobs_of_tenants)
def test_without_cells_below_the_node_parts_change_no_nodes(
    snapshot_of: Any, drawn: list[tuple[str, int, int, int]]
) -> None:
    """One socket for each node: the plans are those of nodes without parts."""
    declared = (DeclaredTenant("one", (DeclaredCells("node", 1),)), DeclaredTenant("two", (DeclaredCells("node", 2),)))
    jobs = [snapshot_of.Job(str(at), size, submit=float(submit)) for at, (_, size, submit, _) in enumerate(drawn)]
    shown = cluster(snapshot_of, jobs, [vc for vc, *_ in drawn])
    plain = with_clusters(
        snapshot_of(jobs, [snapshot_of.Node(gpus=GPUS, leaf=leaf) for leaf in LEAVES]), [vc for vc, *_ in drawn]
    )
    with_parts, without = (VirtualClusterRule(declared).decide(each, tenants_of(FIFO))[0] for each in (shown, plain))
    named = [(start.job, start.owned_cells) for start in without.starts if start.owned_cells]
    assert [(start.job, start.owned_cells) for start in with_parts.starts if start.owned_cells] == named
    assert all(not start.parts for start in without.starts)


def test_a_static_partition_divides_no_node(snapshot_of: Any) -> None:
    shown = cluster(snapshot_of, [snapshot_of.Job("a", 2)], ["one"])
    with pytest.raises(UsageError, match="virtual cluster one owns cells of type socket, which are parts of nodes"):
        PrivateClusters(DECLARED).decide(shown, tenants_of(FIFO))


def test_quotas_count_the_gpus_of_parts(snapshot_of: Any) -> None:
    """Six GPUs are within the quota of `one`."""
    jobs = [snapshot_of.Job(str(at), 2, submit=float(at)) for at in range(4)]
    declared = tuple(replace(tenant, opportunistic=False) for tenant in DECLARED)
    plan, _ = GpuQuotas(declared).decide(cluster(snapshot_of, jobs, ["one"] * 4), tenants_of(FIFO))
    assert len(plan.starts) == 3
