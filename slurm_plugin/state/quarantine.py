"""Jobs that are set aside because work on one of them failed: that job's error never ends a cycle, and concerns no other job.

A job is set aside until its record changes, and for RETRY_S at most; then it is tried again. Meanwhile it stays as it is: it is
neither held nor released, and what was under way for it rests. Each such job is an alarm and a line in the log. Errors of Slurm,
of the state database and of the lead concern all jobs: they are not caught here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import TypeVar

from tiresias.durable.database import StateError
from tiresias.durable.leadership import Superseded
from tiresias.errors import Unavailable
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.backends.record_values import RecordValues, id_of

log = logging.getLogger("tiresias")
Found = TypeVar("Found")

RETRY_S = 300.0  # seconds until a job whose record does not change is tried again
SIFT_S = (
    5.0  # seconds for finding the jobs that make a computation over all jobs fail; the rest waits for the next cycle
)
SHOWN_JOBS = 3  # jobs that one alarm names
SHOWN_ALARMS = 10  # alarms of these; what users submit must not push others from the screen
OF_ALL_JOBS = (Unavailable, StateError, Superseded)  # errors that concern more than one job


@dataclass(frozen=True, slots=True)
class _Error:
    record: SlurmJob | None  # of the job when the error was raised
    words: str
    until: float  # on the clock


class Quarantine:
    """The jobs that are set aside: their records cannot be read, or work on them failed.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._errors: dict[str, _Error] = {}
        self._jobs: Sequence[SlurmJob] = ()  # of the newest snapshot
        self._is_odd = RecordValues(lambda job: not job.readable or bool(job.unmanaged))
        self._known: dict[str, SlurmJob] = {}  # these by id, made where they are needed
        self._unreadable: frozenset[str] = frozenset()  # ids of jobs, tasks and whole arrays
        self._reported: dict[str, dict[str, None]] = {}  # what the records alone show: the jobs of which that is so

    def see(self, slurm: SlurmSnapshot) -> None:
        """Once for each snapshot, before any work on its jobs."""
        now, self._jobs, self._known = self._clock(), slurm.jobs, {}
        self._errors = {
            job_id: one
            for job_id, one in self._errors.items()
            if now < one.until
            and job_id in self._records
            and self._records[job_id] == (one.record or self._records[job_id])
        }
        odd = list(compress(slurm.jobs, self._is_odd.of(slurm.jobs)))
        self._unreadable = frozenset(job.id for job in odd if not job.readable)
        self._report(slurm.unreadable, odd)

    @property
    def _records(self) -> Mapping[str, SlurmJob]:
        self._known = self._known or dict(zip(map(id_of, self._jobs), self._jobs, strict=True))
        return self._known

    def holds(self, job_id: str) -> bool:
        """Whether the job is set aside."""
        return job_id in self._errors or not self._unreadable.isdisjoint((job_id, _number(job_id)))

    def sound(self, jobs: Iterable[SlurmJob]) -> list[SlurmJob]:
        """Those that are not set aside."""
        if not (self._errors or self._unreadable):
            return list(jobs)
        return [job for job in jobs if not self.holds(job.id)]

    @contextmanager
    def guard(self, work: str, *job_ids: str) -> Iterator[None]:
        """Sets the jobs aside where the body fails; it may be run again. `work`: what fails, for the alarm."""
        try:
            yield
        except OF_ALL_JOBS:
            raise
        except Exception as error:
            self.add(work, error, *job_ids)

    def add(self, work: str, error: Exception, *job_ids: str, seconds: float = RETRY_S) -> None:
        """Set the jobs aside for so many seconds because `work` failed with this error."""
        words = f"set aside: {work} failed with {type(error).__name__}: {error!s:.200}"
        for job_id in job_ids:
            self._errors[job_id] = _Error(self._records.get(job_id), words, self._clock() + seconds)
        log.error(
            "job %s: %s; report this as a defect of Tiresias", ", ".join(job_ids[:SHOWN_JOBS]), words, exc_info=error
        )

    def sift(self, work: str, jobs: Sequence[SlurmJob], compute: Callable[[Sequence[SlurmJob]], Found]) -> Found:
        """`compute` over the jobs, without those that make it fail; these are set aside. It may be called many times.

        Raises what it raises where no single job explains it.
        """
        try:
            return compute(jobs)
        except OF_ALL_JOBS:
            raise
        except Exception as error:
            log.warning("%s failed with %s: looking for the job that makes it fail", work, type(error).__name__)
        compute(())  # raises where it fails without any job
        self._find(work, jobs, compute, self._clock() + SIFT_S)
        return compute(self.sound(jobs))

    def _find(
        self, work: str, jobs: Sequence[SlurmJob], compute: Callable[[Sequence[SlurmJob]], object], end: float
    ) -> None:
        """By halves: calls of `compute` grow with the logarithm of the number of jobs."""
        late = self._clock() >= end
        if (error := _failure(compute, jobs)) is None:
            return
        if late or len(jobs) == 1:
            self.add(work, error, *(job.id for job in jobs), seconds=0.0 if late else RETRY_S)
            return
        for half in (jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]):
            self._find(work, half, compute, end)

    # alarms

    def alarms(self) -> list[str]:
        """Return what an administrator should examine, one line each."""
        found = {words: list(jobs) for words, jobs in self._reported.items()}
        for job_id, one in self._errors.items():
            found.setdefault(one.words, []).append(job_id)
        lines = [_alarm(words, jobs) for words, jobs in found.items()]
        more = [f"{len(lines) - SHOWN_ALARMS} more alarms of this kind: see the controller's log"]
        return lines[:SHOWN_ALARMS] + more * (len(lines) > SHOWN_ALARMS)

    def _report(self, unreadable: Iterable[str], odd: Iterable[SlurmJob]) -> None:
        """What the records alone show; the log has each job once, as long as it is so."""
        known, self._reported = self._reported, {words: {} for words in unreadable}
        for job in odd:
            if job.unmanaged:
                self._reported.setdefault(job.unmanaged, {})[str(job.array_id or job.id)] = None
        for words, jobs in self._reported.items():
            new = [job for job in jobs if job not in known.get(words, {})]
            if new or words not in known:
                log.warning("%s", _alarm(words, new))


def _failure(compute: Callable[[Sequence[SlurmJob]], object], jobs: Sequence[SlurmJob]) -> Exception | None:
    try:
        compute(jobs)
    except OF_ALL_JOBS:
        raise
    except Exception as error:
        return error
    return None


def _alarm(words: str, jobs: Sequence[str]) -> str:
    """ "job 7, 8, 9 and 12 more: ..."; jobs: none where a record has no job id."""
    if not jobs:
        return words
    more = f" and {len(jobs) - SHOWN_JOBS} more" if len(jobs) > SHOWN_JOBS else ""
    named = jobs[:SHOWN_JOBS]
    return f"job {', '.join(named)}{more}: {words}; Tiresias leaves it as it is; to end it: scancel {' '.join(named)}"


def _number(job_id: str) -> str:
    """Of the job, or of the array that a task belongs to."""
    return job_id.partition("_")[0].partition("+")[0]
