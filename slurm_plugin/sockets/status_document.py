"""The document that `{"op": "status"}` answers, of one publication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tiresias.slurm_plugin.sockets.explain_requests import decision
from tiresias.slurm_plugin.sockets.shown_cells import guarantee_limit, virtual_clusters
from tiresias.slurm_plugin.sockets.shown_jobs import blocked_records, not_shown, published_blocked, published_jobs, walk
from tiresias.slurm_plugin.sockets.shown_nodes import published_nodes
from tiresias.slurm_plugin.sockets.shown_queues import published_queues
from tiresias.slurm_plugin.sockets.shown_remote_memory import pool_of

if TYPE_CHECKING:
    from tiresias.slurm_plugin.sockets.publication import Publication

Objects = Sequence[dict[str, Any]]


def whole_status(newest: Publication) -> dict[str, Any]:
    """Return the document with all jobs and nodes. O(jobs + nodes), about 60 us for each job."""
    jobs = published_jobs(newest, walk(newest), {job.id: job for job in newest.slurm.jobs})
    blocked = [*published_blocked(newest, blocked_records(newest, not_shown(newest)))]
    return status_with(
        newest, jobs, blocked, published_nodes(newest.slurm, newest.snapshot, newest.failing_nodes, newest.node_speeds)
    )


def status_with(newest: Publication, jobs: Objects, blocked: Objects, nodes: Objects) -> dict[str, Any]:
    """Return the document with these jobs and nodes."""
    return {
        "version": 1,
        "time": newest.slurm.time,
        **newest.about,
        "policy": {
            "name": newest.config.policy.name,
            "thresholds": list(newest.config.policy.limits),
            "in_queue_order": newest.config.policy.in_queue_order,
        },
        "queues": published_queues(newest),
        "jobs": jobs,
        "blocked": blocked,
        "nodes": nodes,
        "decisions": [decision(one) for one in newest.decisions],
        "remote_memory": pool_of(newest),
        "virtual_clusters": virtual_clusters(newest.cells, newest.guarantees, guarantee_limit(newest.config)),
    }
