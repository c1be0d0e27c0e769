"""The nodes that a job does not use while others suffice: of its slow ranks, for a day, and of its newest failed start.

A job's row stores both, so that the next controller avoids them as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiresias.slurm_plugin.state.journal_rows import JobRow

SLOW_NODES_S = 86400.0  # for which a job avoids a node on which it was slow


def note_slow(row: JobRow, nodes: frozenset[str], now: float) -> None:
    """Add nodes on which ranks of the job were slow. The day of those that it avoids already begins anew."""
    kept = _names(row.slow_nodes) if now < row.slow_until else frozenset()
    row.slow_nodes, row.slow_until = _text(kept | nodes), now + SLOW_NODES_S


def note_failed_start(row: JobRow, nodes: Iterable[str], until: float) -> None:
    """Set the nodes on which Slurm did not start the job, in place of those of an earlier start."""
    row.failed_nodes, row.failed_until = _text(nodes), until


def avoided(row: JobRow, needed: int, now: float, gpus: Mapping[str, int]) -> frozenset[str]:
    """Return the nodes that the job does not use now; where it lacks GPUs without both groups, those of its failed start.

    Args:
        row: The job's row.
        needed: The GPUs that it requests.
        now: Epoch second.
        gpus: The GPUs of each node.
    """
    found = frozenset[str]()
    for text, until in ((row.failed_nodes, row.failed_until), (row.slow_nodes, row.slow_until)):
        if now < until:
            both = found | _names(text)
            found = both if _left(both, gpus) >= needed else found
    return found


def set_back(row: JobRow, now: float) -> bool:
    """Correct the row after the clock was set back to that epoch second; return whether that changed it."""
    if row.failed_until <= now and row.slow_until <= now + SLOW_NODES_S:
        return False
    row.failed_until, row.slow_until = min(row.failed_until, now), min(row.slow_until, now + SLOW_NODES_S)
    return True


def _left(nodes: frozenset[str], gpus: Mapping[str, int]) -> int:
    return sum(gpus.values()) - sum(gpus.get(name, 0) for name in nodes)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) if text else frozenset()


def _text(nodes: Iterable[str]) -> str:
    return ",".join(sorted(nodes))
