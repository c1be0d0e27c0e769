"""The GPUs that running jobs hold and do not use, by the reports of their supervisors, and what is done about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import gpu_activity
from tiresias.protocol.gpu_activity import GpuActivity
from tiresias.scheduler.rank.idle_gpus import OFF, IdleRule, IdleStage
from tiresias.slurm_plugin.backends.interface import SlurmJob

POLL_DIVISOR = 20.0  # a run is polled again after its run time divided by this
LONGEST_POLL_S = 300.0
MISSED = 3  # reports that may be missing before a job's use counts as unknown


class GpuUse(NamedTuple):
    """What is known of a job's GPUs.

    Attributes:
        idle: Seconds for which each has been unused, or one number for all; at most the job's run time.
        source: As of the report.
        stage: What is done about it.
    """

    idle: tuple[float, ...]
    source: str
    stage: IdleStage


@dataclass(slots=True)
class _Poll:
    """The newest report of a run, when it was first seen, and when the next poll is due: epoch seconds."""

    report: GpuActivity
    seen: float
    due: float


class IdleGpus:
    """Polls the reports, the more rarely the longer a run lasts. All state is in the reports: a new controller reads them again.

    Args:
        root: Of the control folders.
        rule: The configuration.
        interval: Seconds between two reports of a job.

    Attributes:
        found: By id of the running jobs whose use is known.
    """

    def __init__(self, root: Path, rule: IdleRule, interval: float) -> None:
        self.found: dict[str, GpuUse] = {}
        self._root, self._rule, self._interval = root, rule, interval
        self._polls: dict[str, _Poll] = {}
        self._demoted: set[str] = set()

    def begin_cycle(self, running: Collection[str]) -> None:
        """Forget jobs that do not run. running: ids."""
        for job_id in [one for one in self._polls if one not in running]:
            del self._polls[job_id]
            self.found.pop(job_id, None)
        self._demoted.intersection_update(running)

    def poll(self, job: SlurmJob, now: float) -> None:
        """Read the report of a running job where that is due."""
        known = self._polls.get(job.id)
        if self._rule.action == OFF or (known and now < known.due and known.report.restart == job.restarts):
            return
        age = max(now - job.start_time, 0.0)
        due = now + min(max(self._interval, age / POLL_DIVISOR), LONGEST_POLL_S)
        report = gpu_activity.read(self._root, job.uid, job.id)
        seen = known.seen if known and known.report == report else now
        self._polls[job.id] = _Poll(report, seen, due)
        self.found.pop(job.id, None)
        is_fresh = now - seen <= MISSED * max(self._interval, due - now)
        if report.restart == job.restarts and is_fresh:
            idle = tuple(min(one, age) for one in report.idle)
            self.found[job.id] = GpuUse(idle, report.source, self._rule.stage(idle))

    def is_demoted(self, job_id: str) -> bool:
        """Return whether the job is ranked after all others."""
        found = self.found.get(job_id)
        return found is not None and found.stage == IdleStage.DEMOTED

    def changes(self) -> Iterator[tuple[str, bool]]:
        """Yield the jobs that are demoted, or are no longer, since the last call, with whether they are."""
        now = {job_id for job_id in self.found if self.is_demoted(job_id)}
        yield from ((job_id, job_id in now) for job_id in sorted(now ^ self._demoted))
        self._demoted = now

    def unused(self) -> dict[str, GpuUse]:
        """Return the jobs that have not used their GPUs for so long that they are shown."""
        return {job_id: use for job_id, use in self.found.items() if use.stage}
