"""The owners' requests of nodes in the journal, compared with what the jobs were submitted with.

The controller gives each job its owner's request back after a pin. A slurmctld that was killed may show the pin instead.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

ROWS = "select id, submit, min_nodes, max_nodes, required, excluded from job"


def changed_requests(
    journal: sqlite3.Connection, name: Callable[[str, float], str], nodes: Mapping[str, int]
) -> tuple[list[str], int]:
    """Return the jobs with another request than that of their submission, and how many were judged.

    Args:
        journal: That of the controller.
        name: Returns which job had an id at an epoch second.
        nodes: How many nodes each job requests, at least and at most, by name.
    """
    stored = [(name(job, submit), tuple(request)) for job, submit, *request in journal.execute(ROWS)]
    judged = [(job, request) for job, request in stored if job in nodes]
    broken = [f"{job}: {request}" for job, request in judged if request != (nodes[job], nodes[job], "", "")]
    return broken, len(judged)
