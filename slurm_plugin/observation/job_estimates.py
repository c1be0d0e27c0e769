"""What the controller expects of the jobs that report their progress: their ends, and their remaining time with other sizes.

Speed models of elastic jobs, and loss curves of jobs that claim no number of steps, are learned between two cycles, for a bounded
time. No decision waits for that: a cycle reads what was learned before. Times are epoch seconds.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tiresias.protocol import convergence
from tiresias.scheduler.estimates import loss_curve, size_estimate
from tiresias.scheduler.estimates.loss_curve import Remaining
from tiresias.scheduler.estimates.predicted_end import PredictedEnd
from tiresias.scheduler.estimates.size_estimate import SizeEstimate, SizeSpan, SizeSpeeds, StepsLeft, TimedRun
from tiresias.scheduler.estimates.step_times import UNKNOWN_SPREAD, StepPace
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.observation import server_numbers
from tiresias.slurm_plugin.observation.measured_progress import MeasuredProgress
from tiresias.slurm_plugin.state import job_claims, own_size
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.ledger import Ledger

log = logging.getLogger("tiresias")

LEARN_S = 30.0  # between two times that a job is learned from
MOST_GPUS = 1024  # of a size that is predicted
_KIND_S = 600.0  # for which the runs of other jobs of a kind are kept


class _Left(NamedTuple):
    """Steps left by a loss curve, at a step."""

    at: float
    remaining: Remaining


@dataclass(slots=True)
class _Job:
    """What is known of one job.

    Attributes:
        key: Of its row.
        limits: The sizes that it can have; None: its size is fixed.
        stated: That from which they follow.
        pace: The timed steps of its present run; None: not timed.
        left: By its loss curve; None: not learned.
        speeds: By its speed model; None: not learned.
        points: The timed runs from which its speeds were learned.
        others: Timed runs of other jobs of its kind.
        others_at: When they were read, on the monotonic clock.
        learn_at: When it may be learned from again, on the monotonic clock.
        waits: It is queued for that.
    """

    key: str
    limits: SizeSpan | None = None
    stated: tuple[str, int, int, int] = ("", 0, 0, 0)
    pace: StepPace | None = None
    left: _Left | None = None
    speeds: SizeSpeeds | None = None
    points: tuple[TimedRun, ...] = ()
    others: tuple[TimedRun, ...] = ()
    others_at: float = -math.inf
    learn_at: float = -math.inf
    waits: bool = False


class JobEstimates:
    """The estimates of all jobs.

    Args:
        ledger: The jobs.
        measured: What was measured of them.

    Attributes:
        ends: The predicted ends of running jobs, by job id.
        sizes: The remaining seconds of elastic jobs by size, by job id.
        present: Those of running jobs with parameter servers, with their present numbers of GPUs and servers, by job id.
    """

    def __init__(self, ledger: Ledger, measured: MeasuredProgress) -> None:
        self.ends: dict[str, PredictedEnd] = {}
        self.sizes: dict[str, SizeEstimate] = {}
        self.present: dict[str, float] = {}
        self._ledger, self._measured = ledger, measured
        self._jobs: dict[str, _Job] = {}
        self._news: dict[str, float] = {}  # when the reports were read, by job id
        self._due: deque[str] = deque()

    def begin_cycle(self, running: Collection[str]) -> None:
        """Forget ended jobs, and the predicted ends of jobs that do not run. running: ids."""
        for job_id in [one for one in self._jobs if one not in self._ledger.jobs]:
            del self._jobs[job_id]
            self.sizes.pop(job_id, None)
        for known in (self.ends, self.present):
            for job_id in known.keys() - running:
                known.pop(job_id)

    def meet(self, job: SlurmJob, row: JobRow, gpus_a_node: int) -> None:
        """Note the sizes of a job. What the journal has of a waiting job is learned from, too.

        Args:
            job: The job, as its owner requested it where it waits.
            row: Its row.
            gpus_a_node: GPUs of the largest node.
        """
        known = self._of(row)
        if known.stated != (stated := (row.elastic, row.min_gpus, row.max_gpus, gpus_a_node)):
            known.stated, known.limits = stated, _limits(job, row, gpus_a_node)
            known.speeds, known.points = None, ()
            self._queue(row, known)

    def take(self, row: JobRow, restart: int, pace: StepPace | None, now: float) -> None:
        """Take a report that was read and measured. restart: Slurm's restart count of the run; pace: its timed steps."""
        known = self._of(row)
        known.pace = pace
        self._note_expected(row, restart, known)
        self._news[row.id] = now
        self._queue(row, known)

    def all_sizes_timed(self, rows: Sequence[JobRow]) -> tuple[tuple[tuple[int, int], ...] | None, ...]:
        """Return the sizes at which steps of each job were timed, as `Jobs.sizes_timed`."""
        return tuple(map(self.sizes_timed, rows)) if self._jobs else (None,) * len(rows)

    def sizes_timed(self, row: JobRow) -> tuple[tuple[int, int], ...] | None:
        """Return the sizes at which steps of an elastic job or of others of its kind were timed, as `Jobs.sizes_timed`; None: it
        has reported no step, and what its kind shows is not known."""
        known = self._jobs.get(row.id)
        if (
            known is None
            or known.key != row.key
            or known.limits is None
            or not (known.others or row.progress is not None)
        ):
            return None
        own = [run.gpus for run in self._ledger.runs_of(row) if run.timed]
        return tuple((0, gpus) for gpus in sorted({*own, *(run.gpus for run in known.others)}))

    def learn(self, seconds: float, now: float) -> None:
        """Compute the estimates of the jobs with news, and learn from those that have waited longest.

        Args:
            seconds: Time for learning; one job is learned from whatever it takes.
            now: Epoch seconds.
        """
        until = time.monotonic() + seconds
        for job_id, read_at in self._news.items():
            if (row := self._ledger.jobs.get(job_id)) and (known := self._jobs.get(job_id)):
                self._estimate(row, known, read_at)
        self._news.clear()
        while self._due:
            job_id = self._due.popleft()
            row, known = self._ledger.jobs.get(job_id), self._jobs.get(job_id)
            if row and known and row.key == known.key:
                self._learn_from(row, known, now)
            if time.monotonic() >= until:
                return

    def _of(self, row: JobRow) -> _Job:
        known = self._jobs.get(row.id)
        if known is None or known.key != row.key:  # Slurm reuses ids
            known = self._jobs[row.id] = _Job(row.key)
        return known

    def _queue(self, row: JobRow, known: _Job) -> None:
        is_useful = known.limits is not None or _needs_curve(row)
        if is_useful and not known.waits and time.monotonic() >= known.learn_at:
            known.waits = True
            self._due.append(row.id)

    def _note_expected(self, row: JobRow, restart: int, known: _Job) -> None:
        """Note what was expected of the size of a run that is not timed yet, if the one before had another size."""
        run, speeds = self._ledger.run(row, restart), known.speeds
        if run is None or speeds is None or run.timed is not None:
            return
        before = job_claims.timed_before(self._ledger.runs_of(row), restart)
        expected = speeds.step_seconds(run.gpus, run.servers)
        if before and job_claims.have_other_sizes(before, run) and not math.isnan(expected):
            self._measured.note_expected(run, expected)

    def _learn_from(self, row: JobRow, known: _Job, now: float) -> None:
        known.waits, known.learn_at = False, time.monotonic() + LEARN_S
        try:
            self._learn_speeds(row, known)
            self._learn_curve(row, known)
            self._estimate(row, known, now)
        except (ArithmeticError, ValueError) as error:  # of numbers that a program reported
            log.warning("job %s: nothing can be learned from its reports: %s", row.id, error)

    def _learn_speeds(self, row: JobRow, known: _Job) -> None:
        if known.limits is None:
            return
        own = [
            _timed(run.nodes, run.gpus, run.timed, run.samples, run.servers)
            for run in self._ledger.runs_of(row)
            if run.timed
        ]
        if row.kind and time.monotonic() >= known.others_at + _KIND_S:
            runs = self._ledger.measured.runs_of_kind(row.uid, row.kind, row.key)
            known.others, known.others_at = tuple(_timed(*run) for run in runs), time.monotonic()
        if known.speeds is None or known.points != (*known.others, *own):
            known.points = (*known.others, *own)
            known.speeds = size_estimate.learn(own, known.limits, known.others)

    def _learn_curve(self, row: JobRow, known: _Job) -> None:
        known.left = None
        until = convergence.of_text(row.converges) if _needs_curve(row) else None
        curve = loss_curve.fit(self._measured.history(row.key).points()) if until else None
        if until is None or curve is None:
            return
        if until.loss is not None:
            left = curve.steps_to(until.loss)
        else:
            left = curve.steps_to_convergence(until.threshold, until.epoch_steps, until.epochs)
        known.left = _Left(curve.newest, left)

    def _estimate(self, row: JobRow, known: _Job, now: float) -> None:
        """Compute the job's end and its remaining time by size from what is known."""
        runs = self._ledger.runs_of(row)
        pace = known.pace or _newest_pace(runs)
        left = self._steps_left(row, known, runs, pace, now)
        for estimates in (self.ends, self.sizes, self.present):
            estimates.pop(row.id, None)
        if left and pace and not runs[-1].end:
            self.ends[row.id] = PredictedEnd.after(now, left, _expected_pace(runs[-1]) or pace)
        if left and known.speeds:
            self.sizes[row.id] = known.speeds.remaining(left)
            if runs[-1].servers and not runs[-1].end:
                self.present[row.id] = left.steps * known.speeds.step_seconds(runs[-1].gpus, runs[-1].servers)

    def _steps_left(
        self, row: JobRow, known: _Job, runs: list[RunRow], pace: StepPace | None, now: float
    ) -> StepsLeft | None:
        """Return the steps left by the owner's claim while it counts, else by the loss curve; None: not known."""
        if row.progress is None:
            return None
        claim = job_claims.expected(row, runs, now, self._ledger.trust_in(row.uid))
        if row.total_steps is not None and pace and claim and claim.weight > 0.0:
            claimed = max(row.total_steps - row.progress, 0.0)
            steps = max(claimed, claim.remaining / pace.seconds)
            return StepsLeft(steps, claimed, steps / claim.weight)
        if known.left is None:
            return None
        return StepsLeft.by_curve(known.left.remaining, row.progress - known.left.at)


def _needs_curve(row: JobRow) -> bool:
    """Return whether only a loss curve can show when the job ends."""
    return bool(row.converges) and row.total_steps is None


def _limits(job: SlurmJob, row: JobRow, gpus_a_node: int) -> SizeSpan | None:
    """Return the sizes of a job, None for a fixed one. Where its owner states GPUs for each node, its nodes have so many."""
    if own_size.sizes(row) is None or row.min_gpus > MOST_GPUS:
        return None
    most, counts = min(row.max_gpus, MOST_GPUS), own_size.server_counts(row)
    servers = server_numbers.possible(counts, own_size.unit(job), most) if counts else ()
    gpus_a_node = own_size.per_node(job) or max(gpus_a_node, 1)
    return SizeSpan(row.min_gpus, most, gpus_a_node, servers, bool(counts and counts.asynchronous))


def _timed(nodes: str, gpus: int, seconds: float, samples: float | None, servers: int) -> TimedRun:
    return TimedRun(nodes.count(",") + 1, gpus, seconds, math.nan if samples is None else samples, servers)


def _newest_pace(runs: list[RunRow]) -> StepPace | None:
    """Return the pace of the newest timed run."""
    seconds = next((run.timed for run in reversed(runs) if run.timed is not None), None)
    return None if seconds is None else StepPace(seconds, UNKNOWN_SPREAD, math.nan)


def _expected_pace(run: RunRow) -> StepPace | None:
    """Return the pace that was expected of a run of another size than before; None: it is timed, or nothing was expected."""
    return None if run.timed is not None or run.expected is None else StepPace(run.expected, UNKNOWN_SPREAD, math.nan)
