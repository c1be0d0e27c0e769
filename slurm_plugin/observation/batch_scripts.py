"""Reads the batch scripts of waiting jobs whose notes are ambiguous: each is a call to slurmctld, so their number is limited."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from tiresias.protocol import batch_script_statements
from tiresias.protocol.batch_script_statements import OwnerChoices
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmJob, SlurmUnavailable

READS = 8  # batch scripts for each snapshot

log = logging.getLogger("tiresias")


class BatchScripts:
    """The choices that batch scripts state.

    Args:
        read: Returns the batch script of a job by its id, and may raise SlurmUnavailable or JobRefused.
        spare: Returns the number of calls to slurmctld that no other operation needs now.
    """

    def __init__(self, read: Callable[[str], bytes], spare: Callable[[], float] = lambda: math.inf) -> None:
        self._read, self._spare = read, spare
        self._reads = 0

    def begin(self) -> None:
        """Begin a snapshot."""
        self._reads = 0

    def choices(self, job: SlurmJob) -> OwnerChoices | None:
        """Return what the batch script of a job states; None: it cannot be read now."""
        if self._reads >= READS or self._spare() < 1.0:
            return None
        self._reads += 1
        try:
            return batch_script_statements.choices(self._read(str(job.array_id or job.raw_id)))
        except SlurmUnavailable as error:
            self._reads = READS
            log.info("job %s: its batch script cannot be read: %s", job.id, error)
            return None
        except JobRefused as error:
            log.info("job %s: its batch script cannot be read: %s", job.id, error)
            return OwnerChoices()
