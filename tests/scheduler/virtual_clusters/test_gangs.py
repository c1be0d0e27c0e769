"""Guarantees, preemption, lazy preemption and bad hardware on two racks."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from tests.scheduler.virtual_clusters.two_racks import SPEC
from tiresias.scheduler.virtual_clusters.affinity_group import GroupState
from tiresias.scheduler.virtual_clusters.cell_invariants import violations
from tiresias.scheduler.virtual_clusters.gang_requests import (
    BoundGang,
    CellDecision,
    GangRequest,
    PreemptGangs,
    Waiting,
)
from tiresias.scheduler.virtual_clusters.specification import CellSpecification, DeclaredVirtualCluster, OwnedCells
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters
from tiresias.scheduler.virtual_clusters.wait_reasons import WaitCode


class Cluster(VirtualClusters):
    """Two racks, checked after each request."""

    def __init__(self, spec: CellSpecification = SPEC) -> None:
        super().__init__(spec)

    def ask(self, gang: str, vc: str, priority: int, *members: tuple[int, int], lazy: bool = False) -> CellDecision:
        decision = self.schedule(GangRequest(gang, vc, priority, members, "GPU", "", lazy))
        assert list(violations(self)) == []
        return decision

    def bind(self, gang: str, vc: str, priority: int, *members: tuple[int, int], lazy: bool = False) -> BoundGang:
        decision = self.ask(gang, vc, priority, *members, lazy=lazy)
        assert isinstance(decision, BoundGang)
        return decision

    def bind_on(self, allowed: Set[str], gang: str, vc: str, priority: int, *members: tuple[int, int]) -> None:
        assert isinstance(self.schedule(GangRequest(gang, vc, priority, members, "GPU"), allowed), BoundGang)
        assert list(violations(self)) == []

    def fill(self, kept: int = 0) -> None:
        """Opportunistic gangs of one GPU on all GPUs but `kept`."""
        for number in range(32 - kept):
            self.bind(f"o{number}", "intern", -1, (1, 1))


def nodes(decision: CellDecision) -> list[str]:
    assert isinstance(decision, BoundGang)
    return [pod.node for pod in decision.pods]


def test_a_gang_of_a_pair_gets_the_nodes_of_one_pair() -> None:
    cluster = Cluster()
    for gang in ("a", "b"):
        first, second = nodes(cluster.bind(gang, "prod", 0, (2, 4)))
        assert first[:2] == second[:2]
        assert {first[-1], second[-1]} in ({"0", "1"}, {"2", "3"})
    assert isinstance(waits := cluster.ask("c", "prod", 0, (1, 1)), Waiting)
    assert waits.reason.code == WaitCode.NO_CAPACITY
    assert waits.reason.text() == "not enough free cells in virtual cluster prod"


def test_a_full_cluster_gives_a_guaranteed_gang_its_cells_after_a_preemption() -> None:
    cluster = Cluster()
    cluster.fill()
    asked = cluster.ask("a", "prod", 0, (2, 4))
    assert isinstance(asked, PreemptGangs)
    assert len(asked.victims) == 8
    for victim in asked.victims[:-1]:
        assert cluster.delete(victim)
        assert isinstance(cluster.ask("a", "prod", 0, (2, 4)), PreemptGangs)
    assert isinstance(cluster.ask("late", "intern", -1, (1, 1)), Waiting)  # what is free is reserved
    cluster.delete(asked.victims[-1])
    assert set(nodes(cluster.bind("a", "prod", 0, (2, 4)))) == set(asked.nodes)


def test_a_cancelled_preemption_returns_the_cells() -> None:
    cluster = Cluster()
    cluster.fill()
    asked = cluster.ask("a", "prod", 0, (1, 4))
    assert isinstance(asked, PreemptGangs)
    assert cluster.groups[asked.victims[0]].state == GroupState.BEING_PREEMPTED
    assert cluster.delete("a")
    assert cluster.groups[asked.victims[0]].state == GroupState.ALLOCATED
    assert list(violations(cluster)) == []
    assert not cluster.delete("a")


def test_without_permission_to_preempt_nothing_is_reserved() -> None:
    cluster = Cluster()
    cluster.fill()
    decision = cluster.schedule(GangRequest("a", "prod", 0, ((1, 4),)), preempt=False)
    assert isinstance(decision, PreemptGangs)
    assert "a" not in cluster.groups
    assert list(violations(cluster)) == []


def test_the_cells_with_the_fewest_opportunistic_gpus_are_used_first() -> None:
    cluster = Cluster()
    cluster.bind("o", "intern", -1, (1, 1))
    taken = nodes(cluster.bind("a", "prod", 0, (2, 4)))
    assert nodes(cluster.bind("o", "intern", -1, (1, 1)))[0] not in taken


def test_a_lazily_preempted_gang_keeps_its_gpus_and_loses_its_guarantee() -> None:
    cluster = Cluster()
    before = cluster.bind("a", "prod", 0, (4, 4), lazy=True)
    after = cluster.bind("b", "prod", 1, (2, 4))
    assert cluster.groups["a"].lazily_preempted_by == "b"
    assert not set(nodes(after)) & set(nodes(before))
    kept = cluster.bind("a", "prod", 0, (4, 4), lazy=True)
    assert [(pod.node, pod.leaves) for pod in kept.pods] == [(pod.node, pod.leaves) for pod in before.pods]
    victims = cluster.ask("c", "prod", 1, (2, 4))
    assert isinstance(victims, BoundGang | PreemptGangs)


def test_a_higher_priority_preempts_within_its_cluster_only() -> None:
    cluster = Cluster()
    cluster.bind("other", "research", 0, (3, 4))
    cluster.bind("low", "prod", 0, (4, 4))
    asked = cluster.ask("high", "prod", 5, (4, 4))
    assert isinstance(asked, PreemptGangs)
    assert asked.victims == ("low",)
    assert isinstance(cluster.ask("equal", "research", 0, (1, 4)), Waiting)


def test_a_bad_node_is_avoided_until_it_is_healthy() -> None:
    cluster = Cluster()
    cluster.node_bad("r0n0")
    cluster.node_bad("no such node")
    assert "r0n0" not in nodes(cluster.bind("a", "research", 0, (3, 4)))
    assert "r0n0" not in nodes(cluster.bind("b", "intern", -1, (4, 4)))
    assert isinstance(cluster.ask("c", "prod", -1, (1, 4)), Waiting)
    cluster.node_healthy("r0n0")
    assert nodes(cluster.bind("c", "prod", -1, (1, 4))) == ["r0n0"]


def test_a_doomed_cell_in_use_stays_bound_when_others_become_healthy() -> None:
    cluster = Cluster()
    for node in ("r0n0", "r0n2", "r1n0", "r1n2"):
        cluster.node_bad(node)
    first = nodes(
        cluster.bind("a", "prod", 0, (1, 4))
    )  # each pair has a bad node: the cell is doomed, and has a healthy one
    for node in ("r0n0", "r0n2", "r1n0", "r1n2"):
        cluster.node_healthy(node)
        assert list(violations(cluster)) == []
    assert first[0] not in nodes(cluster.bind("b", "prod", 0, (2, 4)))
    assert first[0] not in nodes(cluster.bind("c", "research", 0, (3, 4)))
    for gang in ("a", "b", "c"):
        cluster.delete(gang)
    assert list(violations(cluster)) == []
    assert [len(level) for level in cluster.cells.chains["RACK"].free] == [0, 0, 0, 0, 0, 2]


def test_splits_for_a_preempting_gang_leave_the_cells_of_other_clusters() -> None:
    """A gang of three nodes preempts while a fourth one is bad: the pair that prod owns must stay whole."""
    cluster = Cluster()
    cluster.bind("pair", "prod", 1, (1, 4))
    cluster.bind("socket", "intern", 2, (1, 2))
    free = cluster.cells.chains["RACK"].free[3]
    cluster.node_bad(free[0].nodes[0])
    cluster.bind("o", "intern", -1, (2, 1))
    for number in range(12):
        cluster.ask(f"o{number}", "intern", -1, (1, 1))
    asked = cluster.ask("three", "research", 1, (3, 4))
    assert min(cluster.cells.chains["RACK"].splittable()) >= 0
    if isinstance(asked, PreemptGangs):
        for victim in asked.victims:
            cluster.delete(victim)
        cluster.bind("three", "research", 1, (3, 4))
    pair = cluster.ask("second", "prod", 1, (2, 4))
    assert not (isinstance(pair, Waiting) and pair.reason.code == WaitCode.NO_HARDWARE)


def test_a_doomed_cell_is_no_part_of_one_that_another_cluster_owns() -> None:
    """The only free node, a bad one, is research's third. The GPUs of intern are doomed in the node of intern's socket instead."""
    cluster = Cluster()
    cluster.node_bad("r0n1")
    cluster.bind_on({"r1n0", "r1n1"}, "a", "prod", 0, (2, 4))
    cluster.bind_on({"r1n2"}, "b", "intern", 0, (1, 2))
    cluster.bind_on({"r0n0", "r1n3"}, "c", "research", 0, (2, 4))
    for node in ("r0n3", "r1n2"):
        cluster.node_bad(node)
        assert list(violations(cluster)) == []
    chain = cluster.cells.chains["RACK"]
    assert [cell.nodes[0] for cell in chain.doomed["intern"][1]] == ["r1n2", "r1n2"]
    assert [cell.nodes[0] for cell in chain.free[3]] == ["r0n1"]
    cluster.node_healthy("r0n1")
    cluster.bind_on({"r0n1"}, "d", "research", 0, (1, 4))


def test_a_start_that_takes_a_cell_of_another_cluster_is_preempted_lazily() -> None:
    """All free nodes are those that prod and research own: intern's share is in the bad node."""
    cluster = Cluster()
    cluster.bind("a", "prod", 0, (2, 4))
    cluster.bind("b", "research", 0, (1, 4))
    cluster.bind("c", "intern", 0, (1, 1))
    cluster.node_bad("r0n3")
    cluster.bind("d", "intern", 0, (1, 1))
    assert cluster.groups["d"].virtual is None
    assert cluster.groups["d"].lazily_preempted_by == "d"
    asked = [cluster.ask("e", "prod", 0, (2, 4)), cluster.ask("f", "research", 0, (2, 4))]
    assert [victim for each in asked if isinstance(each, PreemptGangs) for victim in each.victims] in ([], ["d"])
    cluster.delete("d")
    for gang, vc in (("e", "prod"), ("f", "research")):
        cluster.bind(gang, vc, 0, (2, 4))


def test_a_cancelled_preemption_returns_a_cell_that_is_bad_and_would_be_doomed_elsewhere() -> None:
    """Each pair has a bad node. Once the pair of the preempted gang is free for a moment, another pair is doomed for prod."""
    cluster = Cluster(replace(SPEC, virtual_clusters={"prod": DeclaredVirtualCluster((OwnedCells("RACK.PAIR", 1),))}))
    low = cluster.bind("low", "prod", 0, (1, 1))
    for node in ("r1n0", "r1n2", "r0n2", "r0n0" if nodes(low) == ["r0n1"] else "r0n1"):
        cluster.node_bad(node)
    assert isinstance(cluster.ask("high", "prod", 1, (1, 4)), PreemptGangs)
    cluster.delete("high")
    assert list(violations(cluster)) == []
    assert cluster.bind("low", "prod", 0, (1, 1)) == low
    assert cluster.groups["low"].virtual is not None


def test_allowed_nodes_are_searched_by_backtracking() -> None:
    cluster = Cluster()
    request = GangRequest("a", "prod", 0, ((2, 4),))
    decision = cluster.schedule(request, {"r1n2", "r1n3"})
    assert set(nodes(decision)) == {"r1n2", "r1n3"}
    waits = cluster.schedule(GangRequest("b", "prod", 0, ((2, 4),)), {"r0n0", "r1n2"})
    assert isinstance(waits, Waiting)
    assert waits.reason.code == WaitCode.NO_HARDWARE
    assert "disallowed nodes" in waits.reason.text()
    assert list(violations(cluster)) == []
