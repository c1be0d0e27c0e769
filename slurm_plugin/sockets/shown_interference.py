"""What is expected of a job on its nodes, beside the jobs there and by their speeds, as `explain` publishes it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from tiresias.scheduler.place.expected_neighbours import expected_neighbours, is_known
from tiresias.scheduler.place.speed_needs import expected_speed

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication


def expected_interference(newest: Publication, job_id: str, named: Collection[str]) -> dict[str, Any] | None:
    """Return what is expected where a job runs or starts; None: it has no nodes, or the style of placement does not use it.

    Args:
        newest: The newest publication.
        job_id: The job.
        named: Ids of the jobs that the user may see; the id of another one is "".
    """
    snapshot, (row, nodes) = newest.snapshot, _placed(newest, job_id)
    if not newest.about.get("interference") or not nodes:
        return None
    return {
        "learned": snapshot.interference is not None,
        "known": is_known(snapshot, row),
        "beside": [
            {"job": one.job if one.job in named else "", "own": round(one.own, 4), "other": round(one.others, 4)}
            for one in expected_neighbours(snapshot, row, nodes)
        ],
    }


def speed_of_nodes(newest: Publication, job_id: str) -> dict[str, Any] | None:
    """Return what is expected where a job runs or starts; None: it has no nodes, or jobs are not placed by the speeds of nodes.

    Args:
        newest: The newest publication.
        job_id: The job.
    """
    row, nodes = _placed(newest, job_id)
    found = expected_speed(newest.snapshot, row, nodes) if nodes else None
    return found and {**found._asdict(), "slowdown": round(found.slowdown, 4)}


def _placed(newest: Publication, job_id: str) -> tuple[int, set[int]]:
    """Return the row of a job, and the nodes that it holds, else those on which the plan starts it."""
    ids = newest.snapshot.jobs.id
    row = ids.index(job_id) if job_id in ids else -1
    return row, _nodes(newest, job_id, row) if row >= 0 else set()


def _nodes(newest: Publication, job_id: str, row: int) -> set[int]:
    held, names = newest.snapshot.allocations, newest.snapshot.nodes.name
    if holds := set(held.node[held.job == row].tolist()):
        return holds
    starts = {name for start in newest.plan.starts if start.job == job_id for name, _ in start.nodes}
    return {at for at, name in enumerate(names) if name in starts}
