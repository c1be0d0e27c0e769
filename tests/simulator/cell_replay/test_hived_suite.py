"""HiveD's own test (hived_algorithm_test.go, as data in upstream_suite.json): each request, binding, victim and error."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import pytest

from tests.simulator.cell_replay.hived_data import design, edited, needs_data, suite
from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.affinity_group import GroupState
from tiresias.scheduler.virtual_clusters.bound_gangs import bound_gang
from tiresias.scheduler.virtual_clusters.cell import FREE, LeafState, VirtualCell
from tiresias.scheduler.virtual_clusters.cell_invariants import violations
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters
from tiresias.simulator.cell_replay.hived_config import specification
from tiresias.simulator.cell_replay.pod_replay import PodReplay

pytestmark = needs_data
RACK = "3-DGX2-V100-NODE"


class Suite:
    """Requests of the suite by pod name."""

    def __init__(self, edits: dict[str, Any] | None = None) -> None:
        self.replay = PodReplay(edited(edits or {}), sorted_start=False)
        self.clusters = self.replay.clusters
        self.nodes = frozenset(self.clusters.cells.physical.leaves)

    def schedule(self, pod: str, suggested: Set[str] | None = None, *, preempt: bool = True) -> dict[str, Any]:
        request = request_of(pod)
        size = suite()["pods"][pod]["leaf_num"]
        answer = self.replay.schedule(pod, size, request, suggested or self.nodes, preempt=preempt)
        assert list(violations(self.clusters)) == []
        return answer

    def schedule_all(self, pods: list[str]) -> None:
        for pod in pods:
            self.schedule(pod)

    def check(self, pod: str, suggested: Set[str] | None = None) -> dict[str, Any]:
        """Schedule a pod and compare with the suite's answer: a binding, victims, or a wait."""
        answer = self.schedule(pod, suggested)
        bind, victims = suite()["expected_bind"].get(pod), suite()["expected_preempt_victims"].get(pod)
        if bind:
            assert answer == {"kind": "bind", "node": bind["node"], "leaves": bind["leaves"]}, pod
        elif victims:
            assert answer == {"kind": "preempt", "victims": sorted(victims)}, pod
        else:
            assert answer == {"kind": "wait"}, pod
        return answer

    def state(self, group: str) -> GroupState | None:
        found = self.clusters.groups.get(group)
        return found.state if found else None

    def topmost(self, vc: str) -> list[VirtualCell]:
        return self.clusters.cells.clusters[vc].preassigned[RACK][5]

    def bad(self, vc: str) -> list[bool]:
        """Whether each unused node that a VC owns in the rack is bad."""
        unused = [cell for cell in self.topmost(vc) if cell.priority == FREE]
        return [cell.physical is not None and not cell.physical.healthy for cell in unused]


def request_of(pod: str) -> GangRequest:
    asked = suite()["pods"][pod]
    members = tuple((pods, leaves) for pods, leaves in suite()["groups"][asked["group"]])
    return GangRequest(
        asked["group"], asked["vc"], asked["priority"], members, asked["leaf_type"], asked["pinned"], asked["lazy"]
    )


def test_normal_operations() -> None:
    run, lists = Suite(), suite()["ordered_lists"]
    for pod in lists["should_succeed"]:
        run.check(pod)
    for pods in lists["should_fail"]:
        with pytest.raises(UsageError):
            run.schedule_all(pods)
    for pod in reversed(list(suite()["pods"])):
        run.replay.delete(pod)
    assert not run.clusters.groups
    assert list(violations(run.clusters)) == []


def test_suggested_nodes() -> None:
    run = Suite()
    run.check("pod36", {"0.0.1.0"})
    run.replay.delete("pod36")
    run.check("pod37", {"0.0.3.0"})
    run.check("pod38", {"0.0.3.1"})
    run.replay.delete("pod38")
    run.replay.delete("pod37")
    fewer = run.nodes - {"0.0.3.1"}
    assert run.schedule("pod27", fewer) == {"kind": "wait"}
    assert run.schedule("pod27")["kind"] == "bind"
    run.schedule("pod33", preempt=False)
    assert run.state("group24") is None
    run.schedule("pod33", fewer)
    assert run.state("group24") is None
    run.schedule("pod33")
    assert run.state("group24") == GroupState.PREEMPTING
    run.schedule("pod33", fewer)
    assert run.state("group24") is None


def test_backtracking_search() -> None:
    run = Suite({"VC1.virtualCells[0].cellNumber": 0, "VC1.virtualCells[3].cellNumber": 3})
    run.check("pod39", {"0.0.3.2", "0.0.3.3"})
    run.check("pod40", {"0.0.4.3"})
    assert run.schedule("pod41", {"0.0.3.2", "0.0.3.3", "0.0.4.3"}) == {"kind": "wait"}
    for group in ("group27", "group28"):
        assert run.state(group) == GroupState.ALLOCATED
        assert run.clusters.groups[group].lazily_preempted_by == ""


def test_stateful_preemption() -> None:
    run = Suite()
    for pod in suite()["ordered_lists"]["stateful_preemption"]:
        run.check(pod)
        if pod == "pod33":
            run.replay.delete("pod28")
        if pod == "pod35":
            leaves = run.clusters.groups["group26"].leaves()
            run.replay.delete("pod35")
            assert {(leaf.state, leaf.priority) for leaf in leaves} <= {(LeafState.USED, 4), (LeafState.FREE, FREE)}
        for group in suite()["deleted_preemptor_groups"].get(pod, ()):
            assert run.state(group) is None
    assert list(violations(run.clusters)) == []


def test_bad_nodes() -> None:
    run = Suite({"VC2.virtualCells[2].cellType": "3-DGX2-V100-NODE.DGX2-V100-NODE"})
    assert run.schedule("pod42", {"0.0.2.0"})["kind"] == "bind"
    run.clusters.node_bad("0.0.2.1")
    assert not any(run.bad("VC1") + run.bad("VC2"))
    assert run.schedule("pod43", {"0.0.2.2"})["kind"] == "bind"
    assert all(run.bad("VC1"))
    run.replay.delete("pod43")
    assert not any(run.bad("VC1"))
    run.clusters.node_bad("0.0.2.2")
    assert all(run.bad("VC1") + run.bad("VC2"))
    run.clusters.node_healthy("0.0.2.2")
    assert not any(run.bad("VC1") + run.bad("VC2"))
    run.clusters.node_bad("0.0.2.0")
    run.clusters.node_bad("0.0.2.2")
    run.replay.delete("pod42")
    assert [len(run.bad(vc)) for vc in ("VC1", "VC2")] == [2, 1]
    assert all(run.bad("VC1") + run.bad("VC2"))


def test_further_splits_for_bad_hardware() -> None:
    run = Suite(
        {
            "VC1.virtualCells[0].cellNumber": 4,
            "VC1.virtualCells[2].cellNumber": 0,
            "VC1.virtualCells[3].cellNumber": 0,
            "VC2.virtualCells[2].cellType": "4-DGX2-V100-NODE.2-DGX2-V100-NODE",
            "VC2.virtualCells[2].cellNumber": 1,
        }
    )
    allowed = {"0.0.3.2", "0.0.3.3", "0.0.4.2", "0.0.4.3"}
    run.check("pod44", allowed)
    run.clusters.node_bad("0.0.3.3")
    run.check("pod45", allowed)
    run.clusters.node_bad("0.0.4.3")
    run.check("pod46", allowed | {"0.0.4.0", "0.0.4.1"})


def test_running_gangs_survive_another_configuration() -> None:
    run = Suite()
    for pod in suite()["ordered_lists"]["should_succeed"]:
        run.check(pod)
    running = [bound_gang(g) for g in run.clusters.groups.values() if g.state != GroupState.PREEMPTING]
    assert all(isinstance(bound, BoundGang) for bound in running)
    after = VirtualClusters(specification(_changed()))
    after.recover(running)
    for pod in suite()["ordered_lists"]["lazy_preempted_after_reconfig"]:
        assert after.groups[suite()["pods"][pod]["group"]].virtual is None, pod
    for name in list(after.groups):
        after.delete(name)
    assert list(violations(after)) == []


def _changed() -> dict[str, Any]:
    """The suite's other configuration: flat nodes, a renamed node, fewer cells of VC2, a rack split into its nodes."""
    config = design()
    physical = config["physicalCluster"]
    physical["cellTypes"]["DGX2-V100-NODE"] = {
        "childCellType": "DGX2-V100", "childCellNumber": 16, "isNodeLevel": True,
    }  # fmt: skip
    cells = physical["physicalCells"]
    cells[7]["cellChildren"][0]["cellChildren"][0]["cellAddress"] = "0.0.3.100"
    config["virtualClusters"]["VC2"]["virtualCells"][0]["cellNumber"] = 1
    nodes = [node for half in cells[8]["cellChildren"] for node in half["cellChildren"]]
    split = [{"cellType": "DGX2-V100-NODE", "cellAddress": node["cellAddress"]} for node in nodes]
    for number, node in enumerate(nodes):
        node["cellAddress"] = f"0.0.4.{100 + number}"
    cells += [*split[1:], cells[8]]
    cells[8] = split[0]
    return config


def test_an_initial_assignment_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match=r"own 3 cells of type CT1 \(level 1 of chain CT1-NODE\).* 0 are left"):
        Suite(
            {
                "VC1.virtualCells[0].cellType": "CT1-NODE",
                "VC1.virtualCells[1].cellType": "CT1-NODE.CT1",
                "VC1.virtualCells[1].cellNumber": 2,
            }
        )
