"""Starts in cells that Slurm delays although their nodes are free, because an unmanaged job ranks before them. Pure.

After a job that Slurm cannot start, its main scheduler passes over all later jobs of the same partition in the same pass
("Priority"). These wait for the next pass of the backfill scheduler, which comes `bf_interval` (30 s) and the length of a pass
later. The start of a guaranteed job must not wait for that: the job gets the highest priority, and starts in the next pass of the
main scheduler. The job before it loses nothing by that: on a node that the backfill scheduler has planned for a job (flag PLANNED)
the start waits as Slurm decides.
"""

from __future__ import annotations

from collections.abc import Collection

from tiresias.slurm_plugin.backends.interface import TOP_PRIORITY, SlurmJob
from tiresias.slurm_plugin.state.intents import Intent

PLANNED = "PLANNED"  # flag of a node that the backfill scheduler keeps for a waiting job
OVERTAKEN = "Priority"  # Slurm's reason for a job that it passed over
NOT_TRIED = "None"  # Slurm's reason for a job that it has not tried to start
NOT_TRIED_S = 5.0  # after so long the jobs before it are more than the main scheduler tries in a pass


def is_delayed(intent: Intent, job: SlurmJob, planned: Collection[str], waited: float) -> bool:
    """Return whether a start is to go before the jobs that Slurm ranks first.

    Args:
        intent: The start.
        job: Its record, read after the release.
        planned: The nodes that Slurm has planned for waiting jobs.
        waited: Seconds since the release.
    """
    is_passed_over = job.reason == OVERTAKEN or (job.reason == NOT_TRIED and waited >= NOT_TRIED_S)
    is_free = not any(node in planned for node, _ in intent.nodes)
    return bool(intent.cells) and is_passed_over and is_free and 0 < job.priority < TOP_PRIORITY
