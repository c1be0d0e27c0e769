"""What is predicted of elastic jobs from what their simulated runs have shown so far, by the estimators of the controller.

A run shows the seconds a step of its size, with noise, once it has made steps for `timed` seconds. A job with a loss curve shows
losses with noise, and its end is predicted from them; any other job is taken to state its number of steps. The timed runs of
jobs with the same user and model count as those of a job of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.estimates import loss_curve, size_estimate
from tiresias.scheduler.estimates.loss_curve import LEAST_POINTS, Remaining
from tiresias.scheduler.estimates.loss_history import LossHistory
from tiresias.scheduler.estimates.size_estimate import SizeSpan, SizeSpeeds, SplitSpeeds, StepsLeft, TimedRun
from tiresias.scheduler.model import Floats
from tiresias.simulator.elastic.run_measurements import RunMeasurements
from tiresias.simulator.elastic_job import ElasticJob, JobSize, Prediction
from tiresias.simulator.simulated_convergence import EPOCHS_BELOW
from tiresias.simulator.trace import Trace

LOSSES_AN_EPOCH = 10
LOSSES_KEPT = 128  # as the controller keeps
_KIND_S = 600.0  # for which the runs of other jobs of a kind are kept
_RUNS_OF_A_KIND = 64  # that count, the newest ones
_MORE = 1.25  # factor by which the losses have increased before a curve is fitted anew


class JobProgress(NamedTuple):
    """Where a job is.

    Attributes:
        row: Of the trace.
        done: The share of its work that is done.
        running: Seconds for which its present run has made steps; 0: none.
    """

    row: int
    done: float
    running: float


@dataclass(slots=True)
class _Job:
    """What is known of one job; the fields with a default change.

    Attributes:
        sizes: Its elastic part.
        steps: Of the whole job, in the unit of its speed.
        kind: Its user and its model.
        losses: The noise of each loss.
        size: Of its present run; None: it has not run.
        seconds: A step takes so long there, as measured.
        timed: Whether that is among `runs`.
        starts: Its runs so far.
        runs: Its timed runs.
        others, others_at: The runs of other jobs of its kind, and when they were read.
        points: The timed runs from which `speeds` was learned.
        curve, curve_at: Epochs left by its losses, and the epochs after which; None: not known.
        fitted: Losses from which that was found.
    """

    sizes: ElasticJob
    steps: float
    kind: tuple[str, str]
    losses: Floats
    history: LossHistory
    size: JobSize | None = None
    seconds: float = math.nan
    timed: bool = False
    starts: int = 0
    runs: list[TimedRun] = field(default_factory=list)
    others: tuple[TimedRun, ...] = ()
    others_at: float = -math.inf
    points: tuple[TimedRun, ...] = ()
    speeds: SizeSpeeds | SplitSpeeds | None = None
    curve: Remaining | None = None
    curve_at: float = 0.0
    shown: int = 0
    fitted: int = 0


class FittedPredictions:
    """The predictions of the elastic jobs of a trace.

    Args:
        trace: The jobs.
        gpus: GPUs of the cluster.
        gpus_per_node: GPUs of each node.
        shown: What runs show.
        work: Returns the work of the job of a row, in the unit of its speed.
    """

    def __init__(
        self, trace: Trace, gpus: int, gpus_per_node: int, shown: RunMeasurements, work: Callable[[int], float]
    ) -> None:
        self._trace, self._gpus, self._gpus_per_node, self._shown, self._work = trace, gpus, gpus_per_node, shown, work
        self._jobs: dict[int, _Job] = {}
        self._of_kind: dict[tuple[str, str], list[tuple[int, TimedRun]]] = {}

    def begin(self, row: int, size: JobSize, speed: float) -> None:
        """Note the size with which a job starts, and its true speed there."""
        job = self._of(row)
        chance = np.random.default_rng((self._shown.seed, row, job.starts))
        job.size, job.timed, job.starts = size, False, job.starts + 1
        job.seconds = math.exp(chance.normal(0.0, self._shown.step_noise)) / speed

    def learn(self, jobs: Sequence[JobProgress], now: float) -> None:
        """Learn from what jobs show now. `jobs`: the elastic ones that wait or run."""
        for one in jobs:
            job = self._of(one.row)
            if job.size and not job.timed and one.running >= self._shown.timed:
                self._note_run(one.row, job)
            self._take_losses(job, one.done)
        for one in jobs:
            self._learn_speeds(one.row, self._of(one.row), now)

    def of(self, row: int, done: float) -> Prediction | None:
        """Return what is predicted of a job, a share of whose work is done; None: nothing yet."""
        job = self._of(row)
        left = self._steps_left(job, done)
        if left is None or job.speeds is None:
            return None
        found = job.speeds.remaining(left)
        return Prediction(found.seconds, found.uncertain)

    def claimed(self, row: int, done: float) -> float:
        """Return the seconds left that a job with a stated number of steps claims at its newest size; nan: none."""
        job = self._of(row)
        known = job.runs and job.sizes.convergence is None
        return (1.0 - done) * job.steps * job.runs[-1].seconds if known else math.nan

    def measured(self, row: int) -> tuple[tuple[int, int], ...]:
        """Return the sizes (servers, GPUs) at which steps of a job, or of others of its kind, were timed."""
        job = self._of(row)
        takes_gpus = job.sizes.has_servers
        return tuple(sorted({(run.servers, run.gpus + run.servers * takes_gpus) for run in (*job.runs, *job.others)}))

    def starts(self, row: int) -> int:
        """Return how often a job has started."""
        return self._of(row).starts

    def _of(self, row: int) -> _Job:
        if row not in self._jobs:
            sizes = self._trace.elastic[row]
            assert sizes
            epochs = sizes.convergence.epochs if sizes.convergence else 0
            chance = np.random.default_rng((self._shown.seed, row))
            noise = chance.normal(1.0, self._shown.loss_noise, epochs * LOSSES_AN_EPOCH)
            kind = self._trace.user[row], self._trace.model[row]
            self._jobs[row] = _Job(sizes, self._work(row), kind, noise, LossHistory(LOSSES_KEPT))
        return self._jobs[row]

    def _note_run(self, row: int, job: _Job) -> None:
        assert job.size
        job.timed = True
        gpus = job.size.workers if job.sizes.has_servers else job.size.gpus
        run = TimedRun(job.size.nodes, gpus, job.seconds, math.nan, job.size.servers)
        job.runs.append(run)
        if job.kind[1]:
            self._of_kind.setdefault(job.kind, []).append((row, run))

    def _take_losses(self, job: _Job, done: float) -> None:
        until = job.sizes.convergence
        if until is None:
            return
        epochs, at = done * until.epochs, np.arange(job.shown + 1, int(done * len(job.losses)) + 1)
        losses = until.loss(at / LOSSES_AN_EPOCH) * job.losses[at - 1]
        for epoch, loss in zip((at / LOSSES_AN_EPOCH).tolist(), losses.tolist(), strict=True):
            job.history.add(epoch, loss)
        job.shown = max(job.shown, int(done * len(job.losses)))
        if job.shown >= max(LEAST_POINTS, _MORE * job.fitted) and (curve := loss_curve.fit(job.history.points())):
            job.fitted, job.curve_at = job.shown, epochs
            job.curve = curve.steps_to_convergence(until.threshold, 1.0, EPOCHS_BELOW)

    def _learn_speeds(self, row: int, job: _Job, now: float) -> None:
        if job.kind[1] and now >= job.others_at + _KIND_S:
            found = [run for other, run in self._of_kind.get(job.kind, ()) if other != row]
            job.others, job.others_at = tuple(found[-_RUNS_OF_A_KIND:]), now
        if job.points == (points := (*job.others, *job.runs)):
            return
        job.points, most = points, min(job.sizes.most, self._gpus)
        if job.sizes.has_servers:
            job.speeds = size_estimate.learn_splits(job.runs, most, job.others)
        else:
            span = SizeSpan(job.sizes.least, most, self._gpus_per_node)
            job.speeds = size_estimate.learn(job.runs, span, job.others)

    def _steps_left(self, job: _Job, done: float) -> StepsLeft | None:
        if job.sizes.convergence is None:
            return StepsLeft(*3 * ((1.0 - done) * job.steps,))
        if job.curve is None:
            return None
        epochs = job.sizes.convergence.epochs
        left = StepsLeft.by_curve(job.curve, done * epochs - job.curve_at)
        return StepsLeft(*(each * job.steps / epochs for each in left))
