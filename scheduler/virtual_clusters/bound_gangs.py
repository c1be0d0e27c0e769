"""Bound gangs from cells: what a decision reports, and what `recover` reads."""

from __future__ import annotations

from collections.abc import Sequence

from tiresias.scheduler.virtual_clusters.affinity_group import AffinityGroup
from tiresias.scheduler.virtual_clusters.cell import PhysicalCell, VirtualCell
from tiresias.scheduler.virtual_clusters.gang_requests import BoundGang, GangRequest, PodPlacement


def bound_placement(
    request: GangRequest,
    physical: Sequence[Sequence[PhysicalCell | None]],
    virtual: Sequence[Sequence[VirtualCell | None]] | None,
) -> BoundGang:
    """Return a placement by names and indices. GPUs that no longer exist are left out."""
    pods = []
    for at, leaves in enumerate(physical):
        cells = virtual[at] if virtual is not None else [None] * len(leaves)
        pods.append(_pod([(leaf, cell) for leaf, cell in zip(leaves, cells, strict=True) if leaf is not None]))
    chain = next((leaf.chain.name for pod in physical for leaf in pod if leaf is not None), "")
    return BoundGang(request, chain, tuple(pods))


def bound_gang(group: AffinityGroup) -> BoundGang:
    """Return the placement of a group."""
    return bound_placement(group.request, group.physical, group.virtual)


def kept(group: AffinityGroup, bound: BoundGang) -> bool:
    """Whether a group has all GPUs and, where it had one, the guarantee of a placement."""
    had = any(kind for pod in bound.pods for kind in pod.preassigned)
    gpus = sum(len(pod.leaves) for pod in bound.pods)
    return len(group.leaves()) == gpus and (group.virtual is not None or not had)


def _pod(leaves: Sequence[tuple[PhysicalCell | None, VirtualCell | None]]) -> PodPlacement:
    used = [(leaf, cell) for leaf, cell in leaves if leaf is not None]
    return PodPlacement(
        used[0][0].nodes[0] if used else "",
        tuple(leaf.leaf_index for leaf, _ in used),
        tuple(_preassigned_type(cell) for _, cell in used),
    )


def _preassigned_type(cell: VirtualCell | None) -> str:
    return cell.chain.at(cell.preassigned.level).cell_type if cell is not None else ""
