"""What `VirtualClusters` receives and returns: the request of a gang, and the decision on it."""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.scheduler.virtual_clusters.cell import MIN_GUARANTEED
from tiresias.scheduler.virtual_clusters.wait_reasons import WaitReason


@dataclass(frozen=True, slots=True)
class GangRequest:
    """A gang (HiveD: affinity group): pods that start together or not at all. A job is a gang, each of its nodes' share a pod.

    Attributes:
        gang: Its identifier.
        cluster: The VC.
        priority: 0 to 1000: guaranteed, in the cells of the VC; -1: opportunistic, on any idle GPUs.
        members: (number of pods, GPUs of each pod) of each kind of pod.
        leaf_type: GPU type; "": any.
        pinned: Identifier of the pinned cell to use; "": none.
        lazy_preemption: Whether the gang keeps its GPUs as an opportunistic one when a higher priority of its VC needs its cells.
    """

    gang: str
    cluster: str
    priority: int
    members: tuple[tuple[int, int], ...]
    leaf_type: str = ""
    pinned: str = ""
    lazy_preemption: bool = False

    @property
    def guaranteed(self) -> bool:
        """Whether the VC's cells are used."""
        return self.priority >= MIN_GUARANTEED

    @property
    def sizes(self) -> tuple[int, ...]:
        """GPUs of each pod, ascending."""
        return tuple(sorted(leaves for pods, leaves in self.members for _ in range(pods)))


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """The GPUs of one pod.

    Attributes:
        node: The node's name.
        leaves: Indices of the GPUs, in the order of the pod's processes.
        preassigned: For each GPU the type of the VC's cell that contains it; "" without a guarantee.
    """

    node: str
    leaves: tuple[int, ...]
    preassigned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundGang:
    """A gang and its GPUs: the decision to start it, and what is to be recorded for `recover`.

    Attributes:
        request: What it requested.
        chain: Name of the chain of its GPUs.
        pods: Placements, in the order of `request.sizes`.
    """

    request: GangRequest
    chain: str
    pods: tuple[PodPlacement, ...]


@dataclass(frozen=True, slots=True)
class PreemptGangs:
    """The decision to preempt: the gang is bound by the first `schedule` after all victims are deleted.

    Attributes:
        victims: Gangs to preempt, by identifier, in the order in which they hold the GPUs.
        nodes: Nodes that the gang will use.
    """

    victims: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The decision to wait.

    Attributes:
        reason: Why.
    """

    reason: WaitReason


CellDecision = BoundGang | PreemptGangs | Waiting
