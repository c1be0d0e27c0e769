"""What the elastic jobs of a trace do in a simulation: how fast they run where they are placed, and what snapshots show of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats, Ints, Jobs, JobState
from tiresias.scheduler.size.predicted_seconds import best_servers
from tiresias.simulator.elastic.fitted_predictions import FittedPredictions, JobProgress
from tiresias.simulator.elastic.run_measurements import RunMeasurements
from tiresias.simulator.elastic_job import ElasticJob, JobSize, Prediction, Speed, fewest_parts
from tiresias.simulator.simulated_job import SimulatedJob
from tiresias.simulator.trace import Trace


class ElasticRuns:
    """The elastic jobs of a trace on a cluster.

    Args:
        trace: The jobs.
        gpus: GPUs of the cluster.
        gpus_per_node: GPUs of each node.
        cost: The seconds that a change of size costs the job of a row.
        shown: What runs show, from which predictions are fitted; None: predictions are those of each job.

    Raises:
        UsageError: The requested GPUs of a job are none of its sizes, or it has no speed there.
    """

    def __init__(
        self,
        trace: Trace,
        gpus: int,
        gpus_per_node: int,
        cost: Callable[[int], float],
        shown: RunMeasurements | None = None,
    ) -> None:
        self._trace, self._gpus, self._gpus_per_node, self._cost = trace, gpus, gpus_per_node, cost
        self._seconds: dict[tuple[Speed, int, int, bool], Floats] = {}  # a unit of work by size
        self._first: dict[int, JobSize] = {}  # the requested size of each elastic job
        for row, job in enumerate(trace.elastic):
            if job is not None:
                self._first[row] = self._requested(row, job)
        self._fitted = FittedPredictions(trace, gpus, gpus_per_node, shown, self._work) if shown else None

    def is_elastic(self, row: int) -> bool:
        """Return whether the size of a job can change."""
        return row in self._first

    def first_servers(self, row: int) -> int:
        """Return the servers of a job at its requested size."""
        return self._first[row].servers if row in self._first else 0

    def begin(self, row: int, size: JobSize) -> float:
        """Begin a run of an elastic job, and return the seconds that a second of its work takes.

        Raises:
            UsageError: The job has no speed at this size.
        """
        speed = self._speed(row, size)
        if self._fitted:
            self._fitted.begin(row, size, speed)
        return self._speed(row, self._first[row]) / speed

    def learn(self, jobs: Sequence[SimulatedJob], now: float) -> None:
        """Learn from what the jobs that wait or run show now, where predictions are fitted."""
        if self._fitted:
            elastic = [job for job in jobs if self.is_elastic(job.row)]
            self._fitted.learn([_progress(job, now) for job in elastic], now)

    def shown(self, jobs: Jobs, rows: Sequence[int], servers: Ints, now: float) -> Jobs:
        """Return the jobs of a snapshot with the columns of elastic jobs.

        A job that has made no progress since its start keeps its size and its GPUs.

        Args:
            jobs: The jobs without these columns.
            rows: Their rows in the trace.
            servers: Their servers.
            now: Simulated time, seconds.
        """
        assert jobs.remaining is not None
        assert jobs.progress_from is not None
        elastic = [self._trace.elastic[row] if row in self._first else None for row in rows]
        sizes = [(one.least, one.most, one.step) if one else (0, 0, 0) for one in elastic]
        least, most, step = np.array(sizes, np.int64).reshape(-1, 3).T
        predictions = [
            self._prediction(row, left) if one else None
            for row, one, left in zip(rows, elastic, jobs.remaining.tolist(), strict=True)
        ]
        fitted = self._shown_by_runs(jobs, rows) if self._fitted else {}
        return replace(
            jobs,
            **fitted,
            min_gpus=np.where(step > 0, least, jobs.gpus),
            max_gpus=np.where(step > 0, most, jobs.gpus),
            gpu_step=step,
            movable=jobs.movable & ~((step > 0) & (now <= jobs.progress_from)),
            seconds_by_size=tuple(one and one.seconds for one in predictions),
            uncertain=np.array([one is not None and one.uncertain for one in predictions], np.bool_),
            servers=servers,
            preemption_cost=np.array([self._cost(row) for row in rows]),
        )

    def _prediction(self, row: int, left: float) -> Prediction | None:
        job, done = self._trace.elastic[row], self._done(row, left)
        assert job is not None
        if self._fitted:
            return self._fitted.of(row, done)
        unit = self._of_work(job)
        seconds = np.where(np.isfinite(unit), unit, 0.0) * (left * self._speed(row, self._first[row]))
        return job.predict(done, np.where(np.isfinite(unit), seconds, np.inf))

    def _shown_by_runs(self, jobs: Jobs, rows: Sequence[int]) -> dict[str, Any]:
        """Return the further columns of jobs whose predictions are fitted."""
        assert self._fitted
        assert jobs.remaining is not None
        claimed = np.full(len(jobs), np.nan) if jobs.claimed_remaining is None else jobs.claimed_remaining.copy()
        for place, (row, left) in enumerate(zip(rows, jobs.remaining.tolist(), strict=True)):
            if row in self._first and np.isnan(claimed[place]):
                claimed[place] = self._fitted.claimed(row, self._done(row, left))
        timed = tuple(self._fitted.measured(row) if row in self._first else None for row in rows)
        starts = np.array([self._fitted.starts(row) if row in self._first else 0 for row in rows], np.int64)
        return {"claimed_remaining": claimed, "sizes_timed": timed, "starts": starts}

    def _done(self, row: int, left: float) -> float:
        """Return the share of a job's work that is done. left: seconds of work."""
        duration = float(self._trace.duration[row])
        return 1.0 - left / duration if duration else 1.0

    def _work(self, row: int) -> float:
        """Return the work of a job, in the unit of its speed."""
        return float(self._trace.duration[row]) * self._speed(row, self._first[row])

    def _of_work(self, job: ElasticJob) -> Floats:
        """Return the seconds of a unit of work by size, for jobs of the same kind computed once."""
        most = min(job.most, self._gpus)
        key = job.speed, job.least, most, job.has_servers
        if key not in self._seconds:
            speeds = job.table(most, self._gpus_per_node)
            self._seconds[key] = np.divide(1.0, speeds, out=np.full_like(speeds, np.inf), where=speeds > 0)
        return self._seconds[key]

    def _requested(self, row: int, job: ElasticJob) -> JobSize:
        """Return the size that a job requests, with the fastest split into servers and workers."""
        gpus, name = int(self._trace.gpus[row]), self._trace.job_id[row]
        if not job.least <= gpus <= job.most:
            raise UsageError(
                f"job {name} requests {gpus} GPUs and can use {job.least} to {job.most}; request one of these"
            )
        size = JobSize(
            fewest_parts(gpus, self._gpus_per_node), best_servers(self._of_work(job), gpus) if job.has_servers else 0
        )
        if not job.speed(size) > 0:
            raise UsageError(f"job {name} has no speed with the {gpus} GPUs that it requests; request another size")
        return size

    def _speed(self, row: int, size: JobSize) -> float:
        job = self._trace.elastic[row]
        assert job is not None
        speed = job.speed(size)
        if not speed > 0:
            raise UsageError(
                f"job {self._trace.job_id[row]} has no speed with {size.gpus} GPUs on {size.nodes} nodes, {size.servers} of them "
                "servers; give it other sizes"
            )
        return speed


def _progress(job: SimulatedJob, now: float) -> JobProgress:
    job.at(now)
    done = 1.0 - job.remaining / job.duration if job.duration else 1.0
    running = max(now - job.idle_until, 0.0) if job.state == JobState.RUNNING else 0.0
    return JobProgress(job.row, done, running)
