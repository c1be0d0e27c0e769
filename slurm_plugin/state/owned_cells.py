"""The types of the cells that a job holds of its virtual cluster, by node, as the journal stores them: "gpu01=node,gpu02=node"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from tiresias.scheduler.model import Ints, Rebind, Snapshot, Start


def written(nodes: Iterable[str], cells: Sequence[str]) -> str:
    """Return the text for these nodes; "" without cells. `cells`: a type for each node, or () for none."""
    return ",".join(f"{node}={cell}" for node, cell in zip(nodes, cells, strict=True)) if any(cells) else ""


@lru_cache(maxsize=100_000)
def read(text: str) -> Mapping[str, str]:
    """Return the type of the cell on each node that `written` stored."""
    pairs = (entry.partition("=") for entry in text.split(",") if entry)
    return MappingProxyType({node: cell for node, _, cell in pairs})


def of_start(start: Start) -> str:
    """Return the text of a planned start."""
    return written((node for node, _ in start.nodes), start.owned_cells) if start.owned_cells else ""


def of_rebindings(rebindings: Iterable[Rebind], snapshot: Snapshot) -> dict[str, str]:
    """Return the text of each job whose cells change, by job id. `snapshot`: the one of the plan. O(jobs + allocations)."""
    row_of = {job: row for row, job in enumerate(snapshot.jobs.id)}
    held = snapshot.allocations
    return {
        each.job: written(_nodes_of(snapshot, np.flatnonzero(held.job == row_of[each.job])), each.owned_cells)
        if each.owned_cells
        else ""
        for each in rebindings
    }


def _nodes_of(snapshot: Snapshot, rows: Ints) -> list[str]:
    """Return the names of the nodes in these rows of the allocations."""
    return [snapshot.nodes.name[node] for node in snapshot.allocations.node[rows].tolist()]
