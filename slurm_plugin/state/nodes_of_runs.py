"""The nodes of the newest run of a job, on which its data may still be in the page cache or on a local disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from tiresias.slurm_plugin.state.journal_rows import RunRow

NOWHERE: frozenset[str] = frozenset()


def last_nodes(runs: Mapping[int, RunRow]) -> frozenset[str]:
    """Return the names of the nodes of the newest run; empty where there is none."""
    return frozenset(node_names(runs[max(runs)].nodes)) if runs else NOWHERE


def column(runs: Sequence[Mapping[int, RunRow]], restarts: Iterable[int]) -> tuple[frozenset[str], ...]:
    """Return the nodes of each job.

    Args:
        runs: The runs of each job by restart count.
        restarts: The places of the jobs that wait and have run; the others have no nodes.
    """
    found = [NOWHERE] * len(runs)
    for at in restarts:
        found[at] = last_nodes(runs[at])
    return tuple(found)


@lru_cache(maxsize=10_000)
def node_names(nodes: str) -> tuple[str, ...]:
    """Return the names in `RunRow.nodes`."""
    return tuple(part.rpartition(":")[0] for part in nodes.split(",") if part)
