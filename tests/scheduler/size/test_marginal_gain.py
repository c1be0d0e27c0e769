from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.scheduler.size.exchange import exchanged
from tiresias.scheduler.size.marginal_gain import ElasticJobs, allocate

seeds = st.integers(0, 2**32)


def equation_4(chance: np.random.Generator, jobs: int, servers: int, workers: int) -> Any:
    """Remaining seconds of random jobs by size, shape (jobs, servers + 1, workers + 1)."""
    theta = chance.gamma(1.0, 1.0, (5, jobs, 1, 1)) * np.reshape((8.0, 0.3, 1.0, 0.02, 0.02), (5, 1, 1, 1))
    p, w = np.meshgrid(np.arange(servers + 1.0), np.arange(workers + 1.0), indexing="ij")
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = theta[0] / w + theta[1] + theta[2] * w / p + theta[3] * w + theta[4] * p
    steps = 50.0 + chance.exponential(1000.0, (jobs, 1, 1))
    return np.where((p > 0) & (w > 0), steps * seconds, np.inf)


def some_jobs(seed: int, jobs: int, servers: int = 3, workers: int = 4, resources: int = 1) -> ElasticJobs:
    chance = np.random.default_rng(seed)
    return ElasticJobs(
        seconds=equation_4(chance, jobs, servers, workers),
        least=np.ones((jobs, 2), np.int64),
        most=np.tile([servers, workers], (jobs, 1)),
        demands=chance.integers(1, 3, (jobs, 2, resources)).astype(np.float64),
        current=np.zeros((jobs, 2), np.int64),
        resize_seconds=np.full(jobs, 60.0),
        uncertain=np.zeros(jobs, np.bool_),
    )


def gpu_jobs(seconds: list[list[float]], least: int = 1, current: list[int] | None = None) -> ElasticJobs:
    """Jobs of one kind of task; `seconds` for 1 GPU, 2, ..."""
    table = np.array([[np.inf, *each] for each in seconds])[:, None, :]
    jobs = len(table)
    return ElasticJobs(
        seconds=table,
        least=np.tile([0, least], (jobs, 1)),
        most=np.tile([0, table.shape[2] - 1], (jobs, 1)),
        demands=np.ones((jobs, 2, 1)),
        current=np.stack([np.zeros(jobs, np.int64), np.array(current or [0] * jobs)], axis=1),
        resize_seconds=np.full(jobs, 60.0),
        uncertain=np.zeros(jobs, np.bool_),
    )


def gpus_of(jobs: ElasticJobs, gpus: float, **options: Any) -> list[int]:
    found: list[int] = allocate(jobs, np.array([gpus]), **options)[:, 1].tolist()
    return found


def used(jobs: ElasticJobs, sizes: Any) -> Any:
    return np.einsum("js,jsr->r", sizes.astype(np.float64), jobs.demands)


def total(jobs: ElasticJobs, sizes: Any) -> float:
    return float(jobs.seconds[np.arange(len(jobs)), sizes[:, 0], sizes[:, 1]].sum())


def least_total(jobs: ElasticJobs, capacity: float) -> float:
    """The least sum of seconds of three jobs over all of their sizes."""
    servers, workers = jobs.seconds.shape[1:]
    sizes = np.array(list(itertools.product(range(servers), range(workers))))
    need = [sizes @ jobs.demands[job, :, 0] for job in range(3)]
    seconds = [jobs.seconds[job].ravel() for job in range(3)]
    fits = need[0][:, None, None] + need[1][:, None] + need[2] <= capacity
    return float(np.where(fits, seconds[0][:, None, None] + seconds[1][:, None] + seconds[2], np.inf).min())


@settings(max_examples=100)
@given(seeds, st.integers(0, 16))
def test_within_2_percent_of_the_best_of_all_sizes(seed: int, more: int) -> None:
    jobs = some_jobs(seed, 3)
    capacity = float(jobs.demands.sum()) + more
    assert total(jobs, allocate(jobs, np.array([capacity]))) <= 1.02 * least_total(jobs, capacity)


@given(seeds, st.integers(1, 12), st.integers(1, 60), st.integers(1, 3))
def test_capacity_minimum_and_cap_hold(seed: int, count: int, capacity: int, resources: int) -> None:
    jobs = some_jobs(seed, count, resources=resources)
    least, most = np.tile([1, 2], (count, 1)), np.tile([2, 3], (count, 1))
    jobs = replace(jobs, least=least, most=most)
    sizes = allocate(jobs, np.full(resources, float(capacity)))
    assert (used(jobs, sizes) <= capacity).all()
    runs = np.any(sizes, axis=1)
    assert (sizes[runs] >= least[runs]).all()
    assert (sizes <= most).all()


@given(seeds, st.integers(1, 12))
def test_the_first_jobs_get_their_minimum(seed: int, capacity: int) -> None:
    """A job has nothing only where its minimum did not fit after those of the jobs before it."""
    jobs = some_jobs(seed, 6)
    runs, free = np.any(allocate(jobs, np.array([float(capacity)])), axis=1), float(capacity)
    for job in range(6):
        need = float(jobs.demands[job].sum())
        assert runs[job] == (need <= free)
        free -= need if runs[job] else 0.0


def test_gpus_go_where_they_shorten_most() -> None:
    """The second GPU of the long job is worth 500 s, that of the short one 50, and its third 100."""
    jobs = gpu_jobs([[1000, 500, 400, 390], [100, 50, 45, 44]])
    assert gpus_of(jobs, 2) == [1, 1]
    assert gpus_of(jobs, 3) == [2, 1]
    assert gpus_of(jobs, 4) == [3, 1]
    assert gpus_of(jobs, 5) == [3, 2]


def test_no_gpu_where_nothing_gains() -> None:
    assert gpus_of(gpu_jobs([[100, 90, 95, 99]]), 4) == [2]


def test_a_step_over_a_size_that_gains_nothing() -> None:
    """The second node: three GPUs are slower than two, four are faster."""
    assert gpus_of(gpu_jobs([[100, 60, 70, 40]]), 4) == [4]
    assert gpus_of(gpu_jobs([[100, 60, 70, 40]]), 3) == [2]


def test_each_gain_is_divided_by_its_own_demand() -> None:
    """A worker gains 100 s and takes 1 slot, a server 150 s and takes 3."""
    seconds = np.full((1, 3, 3), np.inf)
    seconds[0, 1, 1], seconds[0, 1, 2], seconds[0, 2, 1], seconds[0, 2, 2] = 1000, 900, 850, 800
    jobs = replace(some_jobs(1, 1), seconds=seconds, most=np.array([[2, 2]]), demands=np.array([[[3.0], [1.0]]]))
    assert allocate(jobs, np.array([5.0])).tolist() == [[1, 2]]
    assert allocate(jobs, np.array([8.0])).tolist() == [[2, 2]]


def test_the_dominant_resource_counts() -> None:
    """Both gain 100 s by a worker of 1 GPU; the second one's takes a quarter of all CPUs besides."""
    jobs = replace(
        gpu_jobs([[300, 200], [300, 200]]), demands=np.array([[[0, 0], [1, 1]], [[0, 0], [1, 25]]], np.float64)
    )
    assert allocate(jobs, np.array([3.0, 100.0]))[:, 1].tolist() == [2, 1]


def test_a_uncertain_job_yields_where_gains_are_close() -> None:
    jobs = gpu_jobs([[200, 100], [200, 97]])
    assert gpus_of(jobs, 3) == [1, 2]
    assert gpus_of(replace(jobs, uncertain=np.array([False, True])), 3) == [2, 1]


def test_a_resize_has_to_gain_its_cost() -> None:
    """One resize costs 60 s and has to gain 90; at the size that it has, a job gains nothing to change."""
    assert gpus_of(gpu_jobs([[200, 120]], current=[1]), 2) == [1]
    assert gpus_of(gpu_jobs([[200, 100]], current=[1]), 2) == [2]
    assert gpus_of(gpu_jobs([[200, 120]], current=[1]), 2, hysteresis=1.0) == [2]
    assert gpus_of(gpu_jobs([[200, 120]], current=[0]), 2) == [2]


def test_a_resize_has_to_pay_within_the_horizon() -> None:
    """In all it gains 10%, of an hour 6 minutes: more than 90 s, and less than 12 minutes."""
    jobs = gpu_jobs([[1e6, 9e5]], current=[1])
    assert gpus_of(jobs, 2) == [2]
    assert gpus_of(replace(jobs, resize_seconds=np.array([480.0])), 2) == [1]
    assert gpus_of(replace(jobs, resize_seconds=np.array([480.0])), 2, horizon=1e6) == [2]


@given(seeds, st.integers(8, 40))
def test_what_was_allocated_stays(seed: int, capacity: int) -> None:
    """Without new jobs and progress nothing is resized."""
    jobs = some_jobs(seed, 4)
    sizes = allocate(jobs, np.array([float(capacity)]))
    assert allocate(replace(jobs, current=sizes), np.array([float(capacity)])).tolist() == sizes.tolist()


def test_a_job_shrinks_for_one_that_gains_more() -> None:
    alone = gpu_jobs([[4000, 2000, 1500, 1200]], current=[4])
    assert gpus_of(alone, 4) == [4]
    both = gpu_jobs([[4000, 2000, 1500, 1200], [9000, 4000, 3000, 2500]], current=[4, 0])
    assert gpus_of(both, 4) == [2, 2]


def test_impossible_numbers_are_impossible_sizes() -> None:
    assert gpus_of(gpu_jobs([[100, np.nan, np.inf, 20]]), 4) == [4]
    assert gpus_of(gpu_jobs([[100, np.nan, np.inf, np.nan]]), 4) == [1]


def test_no_jobs_and_no_capacity() -> None:
    assert gpus_of(gpu_jobs([[100, 50]] * 3), 0) == [0, 0, 0]
    jobs = replace(some_jobs(1, 1), **{name: getattr(some_jobs(1, 1), name)[:0] for name in ElasticJobs.__slots__})
    assert allocate(jobs, np.array([5.0])).shape == (0, 2)


@given(seeds, st.integers(0, 12))
def test_an_exchange_never_makes_it_longer(seed: int, more: int) -> None:
    jobs = some_jobs(seed, 4)
    capacity = np.array([float(jobs.demands.sum()) + more])
    sizes = exchanged(jobs.seconds, jobs.demands, jobs.least, capacity)
    assert total(jobs, sizes) <= total(jobs, jobs.least)
    assert (used(jobs, sizes) <= capacity + 1e-9).all()


def test_many_jobs_exchange_nothing() -> None:
    jobs = some_jobs(1, 300, servers=20, workers=20)
    assert exchanged(jobs.seconds, jobs.demands, jobs.least, np.array([1e6])) is jobs.least


@pytest.mark.parametrize("capacity", [400, 900])
def test_no_step_of_many_jobs_gains_more_than_those_taken(capacity: int) -> None:
    """With equal demands: moving a worker or a server from one job to another shortens nothing."""
    jobs = some_jobs(3, 120, servers=8, workers=8)
    jobs = replace(jobs, demands=np.ones((120, 2, 1)))
    sizes = allocate(jobs, np.array([float(capacity)]))
    gain, loss = [], []
    for job, (p, w) in enumerate(sizes.tolist()):
        table = np.pad(jobs.seconds[job], (0, 1), constant_values=np.inf)
        gain.append(table[p, w] - min(table[p + 1, w], table[p, w + 1]))
        loss.append(min(table[p - 1, w], table[p, w - 1]) - table[p, w])
    assert max(gain) <= min(loss) * (1 + 1e-9)
