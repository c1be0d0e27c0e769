"""The owners' requests of nodes in the journal, compared with what the jobs were submitted with.

The controller gives each job its owner's request back after a pin. A slurmctld that was killed may show the pin instead, and one
that was started since the submission shows no most nodes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping

NOT_SHOWN = 0  # most nodes of a job that was first seen by a slurmctld that was started after its submission
NO_NAMED_NODES: Mapping[str, tuple[str, str]] = {}
ROWS = "select id, submit, min_nodes, max_nodes, required, excluded from job"


def changed_requests(
    journal: sqlite3.Connection,
    name: Callable[[str, float], str],
    nodes: Mapping[str, int],
    named: Mapping[str, tuple[str, str]] = NO_NAMED_NODES,
) -> tuple[list[str], int]:
    """Return the jobs with another request than that of their submission, and how many were judged.

    Args:
        journal: That of the controller.
        name: Returns which job had an id at an epoch second.
        nodes: How many nodes each job requests, at least and at most, by name.
        named: The nodes that a job names and excludes, by name of the job.
    """
    stored = [(name(job, submit), tuple(request)) for job, submit, *request in journal.execute(ROWS)]
    judged = [(job, request) for job, request in stored if job in nodes]
    own = {
        job: [(nodes[job], most, *named.get(job, ("", ""))) for most in (nodes[job], NOT_SHOWN)] for job, _ in judged
    }
    return [f"{job}: {request}" for job, request in judged if request not in own[job]], len(judged)


def other_node_counts(runs: Iterable[tuple[str, int]], nodes: Mapping[str, int]) -> list[str]:
    """Return the runs on another number of nodes than their owners requested. runs: name and number of nodes in Slurm's log."""
    return [f"{job} ran on {count} nodes, not {nodes[job]}" for job, count in runs if count != nodes.get(job, count)]
