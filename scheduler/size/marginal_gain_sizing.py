"""The sizing `marginal_gain`: each job its fewest GPUs in the order of the policy, then steps where they shorten a job most.

The first part is that of `minimum_first`. What is left, and what running jobs hold beyond their fewest, goes to elastic jobs by
their predicted seconds left (`Jobs.seconds_by_size`, `marginal_gain`). Of a job without a prediction the speed is taken to be
proportional to its GPUs. Its work is `claimed_remaining` at its present size, else the median work of the other jobs: among jobs
without predictions the next step thus goes to the one with the fewest GPUs, as in `minimum_first`.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Bools, Floats, Ints, Jobs, JobState, Snapshot
from tiresias.scheduler.size.elastic_jobs import HORIZON_S, can_change, least_sizes, most_sizes
from tiresias.scheduler.size.marginal_gain import ElasticJobs, allocate
from tiresias.scheduler.size.minimum_first import granted_minima
from tiresias.scheduler.size.predicted_seconds import by_gpus


class MarginalGain:
    """The fewest GPUs for each job, then steps for the elastic jobs that they shorten most.

    Attributes:
        exchanges: Few jobs exchange steps at the end (`exchange`).
        predicts: It uses predictions, for which jobs may be sampled.
    """

    exchanges = True
    predicts = True

    def sizes(self, snapshot: Snapshot, order: Ints) -> Ints:
        """Return the GPUs of each job. O(jobs + elastic jobs x their steps)."""
        return self.chosen_sizes(snapshot, order, can_change(snapshot.jobs))

    def chosen_sizes(self, snapshot: Snapshot, order: Ints, elastic: Bools) -> Ints:
        """Return the GPUs of each job. `elastic`: the jobs whose size is chosen, shape (jobs,)."""
        jobs = snapshot.jobs
        if not elastic.any():
            return jobs.gpus
        sizes = np.where(elastic, least_sizes(jobs), jobs.gpus)
        granted, left = granted_minima(snapshot, order, sizes, elastic)
        rows = order[(granted & elastic)[order]]
        if len(rows):
            sizes[rows] += self._beyond(jobs, rows, left)
        return sizes

    def values(self, jobs: Jobs, rows: Ints, seconds: Floats, held: Ints) -> tuple[Floats, Floats]:
        """Return what the sizing makes small by size, shape (rows, 1, steps + 2), and what a change of size adds, shape (rows,).

        Args:
            jobs: All jobs.
            rows: The elastic jobs that have their fewest GPUs.
            seconds: The seconds left by steps, shape (rows, 1, steps + 2); inf without steps, and where not possible.
            held: The steps that they hold now, -1: none, shape (rows,).
        """
        cost = jobs.preemption_cost
        return seconds, np.zeros(len(rows)) if cost is None else np.nan_to_num(cost[rows])

    def _beyond(self, jobs: Jobs, rows: Ints, left: int) -> Ints:
        """Return the GPUs that elastic jobs get beyond their fewest, shape (rows,).

        A worker of `ElasticJobs` is here a step of GPUs, the first one the fewest GPUs.

        Args:
            jobs: All jobs.
            rows: The elastic jobs that have their fewest GPUs, the most urgent first.
            left: The GPUs that are left.
        """
        assert jobs.gpu_step is not None
        least, step, ones = least_sizes(jobs)[rows], jobs.gpu_step[rows], np.ones(len(rows), np.int64)
        held = np.where(jobs.state[rows] == JobState.RUNNING, (jobs.gpus[rows] - least) // step, -1)
        most = np.minimum((most_sizes(jobs)[rows] - least) // step, np.maximum(left // step, held))
        values, resize = self.values(jobs, rows, _seconds(jobs, rows, least, most), held)
        found = ElasticJobs(
            seconds=values,
            least=_workers(ones),
            most=_workers(1 + most),
            demands=np.repeat(step.astype(np.float64), 2).reshape(-1, 2, 1),
            current=_workers(1 + held),
            resize_seconds=resize,
            uncertain=np.zeros(len(rows), np.bool_) if jobs.uncertain is None else jobs.uncertain[rows],
        )
        capacity = np.array([left + step.sum()], np.float64)
        return (allocate(found, capacity, exchanges=self.exchanges)[:, 1] - 1) * step


MARGINAL_GAIN = MarginalGain()


def _workers(count: Ints) -> Ints:
    """Return sizes without servers, shape (jobs, 2)."""
    return np.stack([np.zeros_like(count), count], axis=1)


def _seconds(jobs: Jobs, rows: Ints, least: Ints, most: Ints) -> Floats:
    """Return the seconds left of jobs by their steps, shape (rows, 1, steps + 2); inf without steps, and where not possible."""
    assert jobs.gpu_step is not None
    found = np.full((len(rows), 1, int(most.max()) + 2), np.inf)
    for place, (row, low, count) in enumerate(zip(rows.tolist(), least.tolist(), most.tolist(), strict=True)):
        table = jobs.seconds_by_size[row] if jobs.seconds_by_size else None
        known = np.zeros(0) if table is None else by_gpus(table)[low :: int(jobs.gpu_step[row])][: count + 1]
        found[place, 0, 1 : 1 + len(known)] = known
    unknown = ~np.isfinite(found).any(axis=(1, 2))
    gpus = least[:, None] + np.arange(found.shape[2] - 1) * jobs.gpu_step[rows][:, None]
    work = _work(jobs, rows, np.where(unknown, np.nan, found[:, 0, 1] * least))
    found[unknown, 0, 1:] = (work[:, None] / gpus)[unknown]
    return found


def _work(jobs: Jobs, rows: Ints, predicted: Floats) -> Floats:
    """Return the GPU-seconds left of jobs whose speed is proportional to their GPUs, shape (rows,).

    Args:
        jobs: All jobs.
        rows: Some of them.
        predicted: The GPU-seconds left of those with a prediction, inf or nan for others, shape (rows,).
    """
    claimed = np.full(len(rows), np.nan) if jobs.claimed_remaining is None else jobs.claimed_remaining[rows]
    work = np.where(np.isfinite(predicted), predicted, claimed * jobs.gpus[rows])
    known = work[np.isfinite(work)]
    return np.where(np.isfinite(work), work, np.median(known) if len(known) else HORIZON_S)
