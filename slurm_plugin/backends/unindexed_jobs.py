"""Jobs that slurmctld refuses to change, as their index in the accounting database is missing.

slurmctld waits five seconds before each such refusal, and its client with it. After a slurmctld of 22.05 was killed, the index may
never come. So a refused job is left alone for a while, twice as long after each refusal, and other jobs do not wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tiresias.slurm_plugin.backends.interface import JobRefused

REFUSAL = "DB index is being set"  # in Slurm's words
FIRST_WAIT_S, LONGEST_WAIT_S = 10.0, 80.0
FORGOTTEN_AFTER_S = 3600.0  # since the end of a wait without another change: the job has ended


class UnindexedJobs:
    """The jobs that were refused, each with the time of the next attempt.

    Args:
        clock: Returns seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits: dict[str, tuple[float, float, str]] = {}  # end and length of the wait, Slurm's words

    def check(self, job_id: str) -> None:
        """Raise JobRefused, in Slurm's words, while the job is left alone."""
        end, _, words = self._waits.get(job_id, (0.0, 0.0, ""))
        if self._clock() < end:
            raise JobRefused(words)

    def note(self, job_id: str, words: str) -> None:
        """Take Slurm's answer to a change; "" where it was accepted."""
        if REFUSAL not in words:
            self._waits.pop(job_id, None)
            return
        now, (_, before, _) = self._clock(), self._waits.get(job_id, (0.0, 0.0, ""))
        wait = min(2 * before, LONGEST_WAIT_S) or FIRST_WAIT_S
        self._waits = {job: each for job, each in self._waits.items() if now < each[0] + FORGOTTEN_AFTER_S}
        self._waits[job_id] = (now + wait, wait, words)
