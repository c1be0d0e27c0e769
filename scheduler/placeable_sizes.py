"""The changes of size that the nodes allow. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tiresias.scheduler.model import Floats, Resize, Snapshot
from tiresias.scheduler.place.free_capacity import FreeCapacity, Holdings, free
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.placement_requests import PlacementRequests
from tiresias.scheduler.size.server_choice import with_gpus


def placeable(snapshot: Snapshot, changes: Iterable[Resize]) -> tuple[Resize, ...]:
    """Return the changes without those to more GPUs for which no nodes have room.

    Such a job would release its GPUs, start again as it was, and do so again: the nodes of free GPUs may lack CPUs or memory.
    Room is what is free and what the changed jobs hold; jobs that get fewer GPUs take theirs first.

    O(nodes + changes x placement).

    Args:
        snapshot: Jobs, nodes and allocations.
        changes: Of running jobs.
    """
    found = tuple(changes)
    if not found:
        return ()
    row_of = {name: row for row, name in enumerate(snapshot.jobs.id)}
    rows, sizes = [row_of[one.job] for one in found], snapshot.jobs.gpus.copy()
    sizes[rows] = [one.gpus for one in found]
    changed = replace(snapshot, jobs=with_gpus(snapshot.jobs, sizes))
    placer = Placer(snapshot)
    requests, room = PlacementRequests(changed, placer), placer.space(_with_released(snapshot, rows))
    grows = {row for row in rows if sizes[row] > snapshot.jobs.gpus[row]}
    lacking = {
        row for row in sorted(rows, key=grows.__contains__) if not _takes(placer, requests, room, row, sizes[row])
    }
    return tuple(one for one, row in zip(found, rows, strict=True) if row not in grows & lacking)


def _with_released(snapshot: Snapshot, rows: Iterable[int]) -> Floats:
    """Return what is free on each node without these jobs, shape (nodes, columns)."""
    amount: Floats = free(snapshot.nodes).copy()
    holdings = Holdings(snapshot)
    for row in rows:
        part = holdings.of(row)
        np.add.at(amount, holdings.node[part], holdings.amount[part])
    return amount


def _takes(placer: Placer, requests: PlacementRequests, room: FreeCapacity, row: int, gpus: int) -> bool:
    kind = requests.on_any_nodes(row)
    placement = placer.place(kind, int(gpus), room)
    if placement is not None:
        room.take(kind, placement)
    return placement is not None
