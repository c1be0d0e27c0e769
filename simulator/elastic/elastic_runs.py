"""What the elastic jobs of a trace do in a simulation: how fast they run where they are placed, and what snapshots show of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.model import Floats, Ints, Jobs
from tiresias.scheduler.size.predicted_seconds import best_servers
from tiresias.simulator.elastic_job import ElasticJob, JobSize, Prediction, Speed, fewest_parts
from tiresias.simulator.trace import Trace


class ElasticRuns:
    """The elastic jobs of a trace on a cluster.

    Args:
        trace: The jobs.
        gpus: GPUs of the cluster.
        gpus_per_node: GPUs of each node.
        cost: The seconds that a change of size costs the job of a row.

    Raises:
        UsageError: The requested GPUs of a job are none of its sizes, or it has no speed there.
    """

    def __init__(self, trace: Trace, gpus: int, gpus_per_node: int, cost: Callable[[int], float]) -> None:
        self._trace, self._gpus, self._gpus_per_node, self._cost = trace, gpus, gpus_per_node, cost
        self._seconds: dict[tuple[Speed, int, int, bool], Floats] = {}  # a unit of work by size
        self._first: dict[int, JobSize] = {}  # the requested size of each elastic job
        for row, job in enumerate(trace.elastic):
            if job is not None:
                self._first[row] = self._requested(row, job)

    def is_elastic(self, row: int) -> bool:
        """Return whether the size of a job can change."""
        return row in self._first

    def first_servers(self, row: int) -> int:
        """Return the servers of a job at its requested size."""
        return self._first[row].servers if row in self._first else 0

    def slowdown(self, row: int, size: JobSize) -> float:
        """Return the seconds that a second of work of an elastic job takes.

        Raises:
            UsageError: The job has no speed at this size.
        """
        return self._speed(row, self._first[row]) / self._speed(row, size)

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
        return replace(
            jobs,
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
        job, duration = self._trace.elastic[row], float(self._trace.duration[row])
        assert job is not None
        unit = self._of_work(job)
        seconds = np.where(np.isfinite(unit), unit, 0.0) * (left * self._speed(row, self._first[row]))
        return job.predict(1.0 - left / duration if duration else 1.0, np.where(np.isfinite(unit), seconds, np.inf))

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
