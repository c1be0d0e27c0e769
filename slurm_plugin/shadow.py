"""Mode shadow: the actions that Tiresias would take in each cycle, compared with Slurm's.

Slurm continues to schedule, and every cycle starts from the resulting state. So the actions do not form a schedule: each is one
step ahead of a state that Slurm made. Together they report where Tiresias would have acted otherwise, from when until when. The
effect of all actions together is computed by a replay of the same jobs (`tiresias whatif --from-shadow`).

Each action is a row in the journal (state/watched.py) and a decision in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tiresias.scheduler.model import JobState, Plan, Snapshot, Start
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.state.intents import Notice
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import Decision, JobRow
from tiresias.slurm_plugin.state.watched import PREEMPT, START, START_AFTER, WatchRow, WouldRow

PHASES = {START: "to start", START_AFTER: "to start", PREEMPT: "to stop"}


@dataclass(frozen=True, slots=True)
class Would:
    """One action that Tiresias would take now. Equal values in successive cycles are one action that continues."""

    job: str
    restart: int
    action: str
    nodes: tuple[tuple[str, int], ...] = ()
    beneficiary: str = ""  # of a preemption
    victims: tuple[str, ...] = ()  # that a start would wait for

    @property
    def words(self) -> str:
        """The action as text."""
        if self.action == PREEMPT:
            return f"would be preempted for job {self.beneficiary}"
        places = ", ".join(node for node, _ in self.nodes)
        after = f" once job {', '.join(self.victims)} has ended" if self.victims else ""
        return f"would start on {places}{after}"


class Gpus(NamedTuple):
    """Counts of GPUs.

    Attributes:
        there: On the managed nodes.
        busy: Of running managed jobs.
        movable: Of running jobs that may be preempted.
    """

    there: int
    busy: int = 0
    movable: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot) -> Gpus:
        """Count the GPUs of a snapshot."""
        jobs = snapshot.jobs
        running = jobs.state == JobState.RUNNING
        counts = (snapshot.nodes.gpus, jobs.gpus[running], jobs.gpus[running & jobs.movable])
        return cls(*(int(np.sum(each)) for each in counts))


class Shadow:
    """Compares the plan of each cycle with Slurm's actions.

    Args:
        longest: Seconds between two cycles above which Slurm's actions between them are not attributed.
    """

    def __init__(self, journal: Journal, longest: float) -> None:
        self._journal, self._longest = journal, longest
        self._watch: WatchRow | None = None
        self._open: dict[Would, WouldRow] = {}
        self._gpus = Gpus(0)  # in the last cycle
        self.watched = journal.watched()

    def record(self, slurm: SlurmSnapshot, plan: Plan, rows: Mapping[str, JobRow], gpus: Gpus) -> list[Decision]:
        """Record the actions of a plan; return a decision for each new one. `rows`: of the jobs in the plan."""
        jobs = {job.id: job for job in slurm.jobs}
        now, would = slurm.time, list(_would(plan, jobs))
        with self._journal.batch():
            watch = self._watch_until(now, gpus.there)
            ends = {one: _end(row, jobs.get(one.job), watch.until, now) for one, row in self._open.items()}
            self._count(watch, ends, now)
            for one in self._open.keys() - set(would):
                self._close(one, ends[one])
            news = [one for one in would if one not in self._open]
            for one in news:
                self._begin(watch, one, rows[one.job].key, jobs[one.job].gpus)
            self._journal.save_watch(watch)
        self.watched, self._gpus = self._journal.watched(), gpus
        return [Decision(now, one.job, Notice.SHADOW, one.words) for one in news]

    def phases(self) -> dict[str, str]:
        """Return the action of each job that has one now."""
        return {one.job: PHASES[one.action] for one in self._open}

    def published(self) -> dict[str, Any]:
        """Return sums, which every user may see; protocol/status.py, PublishedShadow."""
        now = {
            name: [row.gpus for one, row in self._open.items() if PHASES[one.action] == phase]
            for name, phase in (("start", "to start"), ("preempt", "to stop"))
        }
        counts = {name: {"jobs": len(gpus), "gpus": sum(gpus)} for name, gpus in now.items()}
        if (past := self.watched) is None:
            return counts
        return counts | {
            "since": past.began, "seconds": past.seconds, "agreed": past.agreed, "gpu_seconds": past.gpu_seconds,
            "busy": past.busy, "movable": past.movable, "idle": past.idle, "taken": past.taken,
            "sooner": past.sooner, "preempted": past.preempted,
        }  # fmt: skip

    def _watch_until(self, now: float, gpus: int) -> WatchRow:
        """Return the current row; a new one after a gap, or where nodes were added or removed."""
        watch = self._watch
        if watch is None or not 0 <= now - watch.until <= self._longest or watch.gpus != gpus:
            self._watch, self._open = WatchRow(now, now, gpus), {}
            return self._watch
        return watch

    def _count(self, watch: WatchRow, ends: Mapping[Would, float], now: float) -> None:
        """Add the time since the last cycle."""
        watch.busy += self._gpus.busy * (now - watch.until)
        watch.movable += self._gpus.movable * (now - watch.until)
        for one, end in ends.items():
            gpu_seconds = self._open[one].gpus * (end - watch.until)
            watch.idle += gpu_seconds if one.action == START else 0.0
            watch.taken += gpu_seconds if one.action == PREEMPT else 0.0
        watch.agreed += now - max(ends.values(), default=watch.until)
        watch.until = now

    def _begin(self, watch: WatchRow, one: Would, key: str, gpus: int) -> None:
        preempts = one.action == PREEMPT
        if not self._journal.would_differ(key, one.restart, preempts):
            watch.sooner += not preempts
            watch.preempted += preempts
        nodes = ",".join(f"{node}:{count}" for node, count in one.nodes)
        row = WouldRow(key, one.restart, one.action, watch.until, watch.began, None, gpus, nodes, one.beneficiary)
        self._open[one] = row
        self._journal.save_would(row)

    def _close(self, one: Would, end: float) -> None:
        row = self._open.pop(one)
        row.until = end
        self._journal.save_would(row)


def _would(plan: Plan, jobs: Mapping[str, SlurmJob]) -> Iterator[Would]:
    """Yield the actions of a plan. A job that waits for others to end without a preemption also waits under Slurm."""
    for gone in plan.preemptions:
        yield Would(gone.job, jobs[gone.job].restarts, PREEMPT, beneficiary=gone.beneficiary)
    for one in plan.starts:
        yield Would(one.job, jobs[one.job].restarts, START, one.nodes)
    for one in plan.reserved:
        if victims := _victims(plan, one, jobs):
            yield Would(one.job, jobs[one.job].restarts, START_AFTER, one.nodes, victims=victims)


def _victims(plan: Plan, start: Start, jobs: Mapping[str, SlurmJob]) -> tuple[str, ...]:
    """Return the preempted jobs whose nodes the start uses; it may be the beneficiary of a part of them only."""
    nodes = {node for node, _ in start.nodes}
    return tuple(gone.job for gone in plan.preemptions if any(share.node in nodes for share in jobs[gone.job].shares))


def _end(row: WouldRow, job: SlurmJob | None, last: float, now: float) -> float:
    """Return when the action ended: Slurm may have started or ended the job itself since the last cycle."""
    found = job and (job.end_time if row.action == PREEMPT else job.start_time)
    return min(max(found or now, last), now)
