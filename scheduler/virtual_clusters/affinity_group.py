"""Affinity groups: gangs that hold or reserve cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tiresias.scheduler.virtual_clusters.cell import PhysicalCell, VirtualCell
from tiresias.scheduler.virtual_clusters.gang_requests import GangRequest

PhysicalPods = list[list[PhysicalCell | None]]  # the leaves of each pod; None: the specification no longer has the GPU
VirtualPods = list[list[VirtualCell | None]]  # the virtual leaves; None: as above, or no virtual cell could be found


class GroupState(IntEnum):
    """The state of a group."""

    ALLOCATED = 0  # it uses its cells
    PREEMPTING = 1  # it has reserved its cells and waits for the groups that use them
    BEING_PREEMPTED = 2  # it uses its cells, and another group has reserved some of them


@dataclass(eq=False)
class AffinityGroup:
    """A gang with cells.

    Attributes:
        request: What it requested.
        physical: The leaves of each pod, in the order of `request.sizes`.
        virtual: Its virtual leaves; None: it is opportunistic, or has lost them by lazy preemption.
        state: Its state.
        lazily_preempted_by: The gang for which it has lost its virtual cells; "": it has not.
    """

    request: GangRequest
    physical: PhysicalPods
    virtual: VirtualPods | None
    state: GroupState = GroupState.ALLOCATED
    lazily_preempted_by: str = ""

    @classmethod
    def empty(cls, request: GangRequest) -> AffinityGroup:
        """Return a group without cells."""
        sizes = request.sizes
        return cls(request, [[None] * size for size in sizes], [[None] * size for size in sizes])

    @property
    def name(self) -> str:
        """The gang's identifier."""
        return self.request.gang

    @property
    def cluster(self) -> str:
        """The VC."""
        return self.request.cluster

    def leaves(self) -> list[PhysicalCell]:
        """Return the physical leaves, pod by pod."""
        return [leaf for pod in self.physical for leaf in pod if leaf is not None]

    @property
    def is_whole(self) -> bool:
        """Whether it has all its GPUs."""
        return all(leaf is not None for pod in self.physical for leaf in pod)

    def virtual_of(self, leaf: PhysicalCell) -> VirtualCell | None:
        """Return the virtual leaf that belongs to a physical one."""
        if self.virtual is None:
            return None
        pairs = zip_pods(self.physical, self.virtual)
        return next((virtual for physical, virtual in pairs if physical is leaf), None)


def zip_pods(
    physical: PhysicalPods, virtual: VirtualPods | None
) -> Iterator[tuple[PhysicalCell | None, VirtualCell | None]]:
    """Iterate over the physical leaves with their virtual ones."""
    for at, pod in enumerate(physical):
        other: Sequence[VirtualCell | None] = virtual[at] if virtual is not None else [None] * len(pod)
        yield from zip(pod, other, strict=True)
