"""The sizing `weighted_gain`: as `marginal_gain`, but steps go where they raise the weighted speed of all jobs most.

A step shortens a long job by more seconds than a short one, so `marginal_gain` gives most GPUs to the longest jobs, and all others
wait longer. Mean JCT is least where short jobs get more. If each job has the speed k ** p on k GPUs, the optimum maximises the sum
of c_i k_i ** p at each moment, with the weight of the i-th longest job

    c_i = (i ** q - (i - 1) ** q) ** (1 - p),   q = 1 / (1 - p)

(heSRPT; Berg, Vesilo and Harchol-Balter, Performance Evaluation 2020). Here the same weights are given to the predicted speeds.
Jobs are ordered by their predicted GPU-seconds left. A job without a prediction gets the GPUs that it requests, and those that no
other job gets: a prediction requires that two sizes have been measured.
"""

from __future__ import annotations

import numpy as np

from tiresias.scheduler.model import Floats, Ints, Jobs, Snapshot
from tiresias.scheduler.size.elastic_jobs import can_change, least_sizes
from tiresias.scheduler.size.marginal_gain_sizing import MarginalGain
from tiresias.scheduler.size.minimum_first import give_steps, granted_minima
from tiresias.scheduler.size.predicted_seconds import seconds_left

EXPONENT = 0.7  # p: of the speed-up of trainings on one or several nodes
KEPT = 2.0  # factor of the gain of GPUs that a job holds already, as each change of its size costs


class WeightedGain(MarginalGain):
    """The fewest GPUs for each job, then steps where the weighted speed gains most."""

    exchanges = False

    def sizes(self, snapshot: Snapshot, order: Ints) -> Ints:
        """Return the GPUs of each job. O(jobs + elastic jobs x their steps)."""
        jobs = snapshot.jobs
        may = can_change(jobs)
        if not may.any():
            return jobs.gpus
        unknown = may & ~np.isfinite(seconds_left(jobs, least_sizes(jobs)))
        sizes: Ints = self.chosen_sizes(snapshot, order, may & ~unknown)
        if not unknown.any():
            return sizes
        sizes = sizes.copy()
        granted, left = granted_minima(snapshot, order, sizes, may)
        give_steps(jobs, order[(granted & unknown)[order]], sizes, left)
        return sizes

    def values(self, jobs: Jobs, rows: Ints, seconds: Floats, held: Ints) -> tuple[Floats, Floats]:
        """Return the weighted speed that each size lacks, in units of that with the fewest GPUs; a change of size adds nothing."""
        finite = np.isfinite(seconds)
        speeds = np.where(finite, seconds[:, :, 1:2] / np.where(finite, np.maximum(seconds, 1.0), 1.0), 0.0)
        counted = _with_kept(speeds, held)
        weight = weights(seconds[:, 0, 1] * least_sizes(jobs)[rows])[:, None, None]
        lack = weight * (counted.max(axis=2, keepdims=True) - counted)
        return np.where(finite, lack, np.inf), np.zeros(len(rows))


WEIGHTED_GAIN = WeightedGain()


def weights(left: Floats) -> Floats:
    """Return the weights of jobs from what is left of each, shape (jobs,). Of equal ones the later job counts as the longer."""
    place = np.empty(len(left))
    place[np.argsort(left, kind="stable")] = np.arange(len(left), 0, -1)
    power = 1.0 / (1.0 - EXPONENT)
    return np.asarray((place**power - (place - 1.0) ** power) ** (1.0 - EXPONENT))


def _with_kept(speeds: Floats, held: Ints) -> Floats:
    """Return the speeds, in which the gain of the GPUs that jobs hold counts KEPT times, shape as `speeds`.

    Args:
        speeds: By steps, shape (rows, 1, steps + 2).
        held: The steps that jobs hold, -1: none, shape (rows,).
    """
    now = np.take_along_axis(speeds, 1 + held[:, None, None], axis=2)
    return speeds + (KEPT - 1.0) * np.minimum(speeds, now)
