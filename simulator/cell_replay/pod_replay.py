"""The replay of events pod by pod on `VirtualClusters`, which decides on whole gangs."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.affinity_group import GroupState
from tiresias.scheduler.virtual_clusters.cell import LeafState
from tiresias.scheduler.virtual_clusters.cell_chains import LEAF_LEVEL
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, CellDecision, GangRequest, PreemptGangs
from tiresias.scheduler.virtual_clusters.specification import CellSpecification
from tiresias.scheduler.virtual_clusters.virtual_clusters import VirtualClusters
from tiresias.simulator.cell_replay.cell_events import request_of

Answer = dict[str, Any]


class PodReplay:
    """Virtual clusters that receive the requests of single pods.

    Attributes:
        clusters: The virtual clusters.
    """

    def __init__(
        self, spec: CellSpecification, *, sorted_start: bool = True, cells: type[CellState] = CellState
    ) -> None:
        """Start with healthy nodes; without `sorted_start` each node was bad before, as in HiveD's implementation."""
        self.clusters = VirtualClusters(spec, cells)
        self._pods: dict[str, dict[int, str]] = {}  # bound pods of each group, by position in the gang
        self._groups: dict[str, str] = {}
        self._waiting: dict[str, set[str]] = {}  # pods of each preempting group
        if not sorted_start:
            nodes = list(self.clusters.cells.physical.leaves)
            for change in (self.clusters.node_bad, self.clusters.node_healthy):
                for node in nodes:
                    change(node)

    def apply(self, event: Mapping[str, Any], suggested: Set[str] | None = None) -> Answer:
        """Apply an event and return the answer in the form of the recorded ones."""
        if event["op"] == "schedule":
            answer = self.schedule(event["pod"], int(event["leaf_num"]), request_of(event), suggested)
        else:
            answer = {"kind": "ok"}
            if event["op"] == "delete":
                self.delete(event["pod"])
            elif event["op"] == "bad":
                self.clusters.node_bad(event["node"])
            else:
                self.clusters.node_healthy(event["node"])
        return answer | self.facts()

    def facts(self) -> Answer:
        """Return the number of free GPUs, and the gangs that are preempted lazily."""
        chains = self.clusters.cells.physical.cells.values()
        free = sum(leaf.state == LeafState.FREE for cells in chains for leaf in cells[LEAF_LEVEL])
        lazily = sorted(name for name, group in self.clusters.groups.items() if group.lazily_preempted_by)
        return {"free_leaves": free} | ({"lazy_preempted": lazily} if lazily else {})

    def schedule(
        self, pod: str, size: int, request: GangRequest, suggested: Set[str] | None = None, *, preempt: bool = True
    ) -> Answer:
        """Schedule a pod. Raises UsageError for an impossible request, or one pod more than the gang has."""
        group = self.clusters.groups.get(request.gang)
        if group is not None and group.state == GroupState.BEING_PREEMPTED:
            return {"kind": "wait"}
        bound = self._pods.get(request.gang, {})
        position = next((at for at, each in enumerate(request.sizes) if each == size and at not in bound), None)
        if position is None:
            raise UsageError(f"pod {pod}: gang {request.gang} has no further pod with {size} GPUs")
        return self._answer(pod, position, request, self.clusters.schedule(request, suggested, preempt=preempt))

    def _answer(self, pod: str, position: int, request: GangRequest, decision: CellDecision) -> Answer:
        for name in [name for name in self._waiting if name not in self.clusters.groups]:
            del self._waiting[name]
        if isinstance(decision, BoundGang):
            self._waiting.pop(request.gang, None)
            self._pods.setdefault(request.gang, {})[position] = pod
            self._groups[pod] = request.gang
            placement = decision.pods[position]
            return {"kind": "bind", "node": placement.node, "leaves": list(placement.leaves)}
        if isinstance(decision, PreemptGangs):
            if request.gang in self.clusters.groups:
                self._waiting.setdefault(request.gang, set()).add(pod)
                self._groups[pod] = request.gang
            victims = [pod for gang in decision.victims for pod in self._pods.get(gang, {}).values()]
            return {"kind": "preempt", "victims": sorted(victims)}
        return {"kind": "wait"}

    def delete(self, pod: str) -> None:
        """Delete a pod. The last one of a gang releases its cells."""
        gang = self._groups.pop(pod, "")
        pods = self._pods.get(gang, {})
        for position in [at for at, each in pods.items() if each == pod]:
            del pods[position]
        self._waiting.get(gang, set()).discard(pod)
        if gang and not pods and not self._waiting.get(gang):
            self._pods.pop(gang, None)
            self._waiting.pop(gang, None)
            self.clusters.delete(gang)
