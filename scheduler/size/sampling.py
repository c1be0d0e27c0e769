"""Samples of sizes: a new elastic job runs at different sizes first, so that its speed can be predicted (Optimus, section 3.2).

A job is sampled while steps were timed at fewer than `size_samples` of its sizes, or those of jobs of its kind, and it has started
fewer times than that. Each sample lasts `sample_time`, and longer only while the job is protected from preemption. A sample has
at most the GPUs that the sizing gives the job, and those that no job gets. A change for a sample may cost at most SAMPLE_SHARE of
the time that the job is known to have left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.sample_sizes import SampledSize, SampleSpan, next_sample
from tiresias.scheduler.evict.protection import first_step, protected_until
from tiresias.scheduler.model import Bools, Floats, Ints, Jobs, JobState, Snapshot
from tiresias.scheduler.size.elastic_jobs import can_change, is_elastic, least_sizes, most_sizes, preemption_costs
from tiresias.scheduler.size.minimum_first import granted_minima
from tiresias.scheduler.size.predicted_seconds import seconds_left

SAMPLE_SHARE = 0.05  # of the time left


class Samples(NamedTuple):
    """The sizes of jobs, some of which are samples; arrays of shape (jobs,).

    Attributes:
        sizes: The GPUs of each job.
        sampled: The jobs that have the size of a sample.
        servers: Their parameter servers.
    """

    sizes: Ints
    sampled: Bools
    servers: Ints


def with_samples(snapshot: Snapshot, config: PolicyConfig, order: Ints, sizes: Ints, predicts: bool) -> Samples:
    """Return the sizes with those of samples. O(jobs), and a choice for each sampled job.

    Args:
        snapshot: Jobs, nodes and allocations.
        config: The configuration.
        order: Rows of the jobs, the most urgent first.
        sizes: The GPUs that the sizing found for each job, shape (jobs,).
        predicts: Whether the sizing uses predictions; without them no sample is made.
    """
    jobs, found = snapshot.jobs, Samples(sizes, np.zeros(len(sizes), np.bool_), np.zeros(len(sizes), np.int64))
    wanted = _wanted(jobs, config)
    if not (predicts and wanted.any()):
        return found
    elastic = can_change(jobs)
    granted, left = granted_minima(snapshot, order, sizes, elastic)
    found, ended = found._replace(sizes=sizes.copy()), _ended(snapshot, config)
    chosen = wanted & granted & elastic & ~(ended & _is_last(jobs, config))
    for row in order[chosen[order]].tolist():
        most = int(sizes[row]) + left
        goes_on = jobs.state[row] == JobState.RUNNING and not ended[row]
        size = _present(jobs, row) if goes_on else _next(snapshot, row, most)
        if size is not None and size.gpus <= most:
            left = most - size.gpus
            found.sizes[row], found.sampled[row], found.servers[row] = size.gpus, True, size.servers
    return found


def sample_ends(jobs: Jobs, config: PolicyConfig) -> Floats:
    """Return when the present run of each job was a sample for long enough, epoch seconds, shape (jobs,)."""
    steps = jobs.last_start if jobs.progress_from is None else jobs.progress_from
    return np.asarray(first_step(jobs.last_start, steps, config) + config.sample_time)


def next_sample_end(snapshot: Snapshot, config: PolicyConfig) -> float:
    """Return when the next sample ends, epoch seconds; inf: none is made."""
    jobs = snapshot.jobs
    if not config.size_samples or jobs.sizes_timed is None:
        return math.inf
    ends = np.maximum(sample_ends(jobs, config), protected_until(jobs, config))
    made = _wanted(jobs, config) & (jobs.state == JobState.RUNNING) & (ends > snapshot.time)
    return float(np.min(ends[made], initial=math.inf))


def _wanted(jobs: Jobs, config: PolicyConfig) -> Bools:
    """Return the jobs that are sampled, or whose present run is a sample, shape (jobs,)."""
    if not config.size_samples or jobs.sizes_timed is None or jobs.starts is None:
        return np.zeros(len(jobs), np.bool_)
    few = np.array([one is not None and len(one) < config.size_samples for one in jobs.sizes_timed], np.bool_)
    newest = (jobs.state == JobState.RUNNING) & (jobs.starts == config.size_samples)
    return np.asarray(is_elastic(jobs) & few & ((jobs.starts < config.size_samples) | newest))


def _ended(snapshot: Snapshot, config: PolicyConfig) -> Bools:
    """Return the running jobs whose present run was a sample for long enough, shape (jobs,)."""
    jobs = snapshot.jobs
    return np.asarray((jobs.state == JobState.RUNNING) & (snapshot.time >= sample_ends(jobs, config)))


def _is_last(jobs: Jobs, config: PolicyConfig) -> Bools:
    """Return the jobs that get no further sample: each start counts, and a change must be worth its cost. Shape (jobs,)."""
    assert jobs.starts is not None
    cost, left = preemption_costs(jobs, config), seconds_left(jobs, jobs.gpus)
    if jobs.claimed_remaining is not None:
        left = np.where(np.isnan(left), jobs.claimed_remaining, left)
    return np.asarray((jobs.starts >= config.size_samples) | (cost > SAMPLE_SHARE * left))  # false of nan


def _present(jobs: Jobs, row: int) -> SampledSize:
    return SampledSize(0 if jobs.servers is None else int(jobs.servers[row]), int(jobs.gpus[row]))


def _next(snapshot: Snapshot, row: int, most: int) -> SampledSize | None:
    """Return the next sample of a job with at most so many GPUs. A running job gets another number of GPUs."""
    jobs = snapshot.jobs
    assert jobs.gpu_step is not None
    assert jobs.sizes_timed is not None
    has_servers = jobs.servers is not None and bool(jobs.servers[row] > 0)
    sizes = int(least_sizes(jobs)[row]), int(most_sizes(jobs)[row]), int(jobs.gpu_step[row])
    span = SampleSpan(*sizes, max(int(snapshot.nodes.gpus.max(initial=1)), 1), has_servers)
    held = int(jobs.gpus[row]) if jobs.state[row] == JobState.RUNNING else 0
    return next_sample(span, jobs.sizes_timed[row] or (), most, held)
