"""GPUs that jobs share: of which they hold parts by gres/shard or gres/mps. Pure.

Slurm gives a GPU either whole to one job or in parts to several. Jobs that ask for parts are unmanaged; a GPU of which one holds a
part is not free for managed jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import attrgetter

from tiresias.slurm_plugin.backends.interface import SlurmJob


def gpus_in_shares(jobs: Sequence[SlurmJob]) -> dict[str, set[int]]:
    """Return the GRES indexes of the GPUs of each node of which jobs hold parts. O(jobs)."""
    found: dict[str, set[int]] = {}
    for job in compress(jobs, map(attrgetter("sharing"), jobs)):
        for share in job.shares:
            if share.shared_gpus:
                found.setdefault(share.node, set()).update(share.shared_gpus)
    return found
