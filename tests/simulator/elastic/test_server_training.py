"""Training with parameter servers: speeds by placement, and what the estimators predict."""

from __future__ import annotations

import numpy as np
import pytest

from tiresias.scheduler.estimates.speed_forms import SYNCHRONOUS
from tiresias.scheduler.estimates.speed_model import fit
from tiresias.simulator.elastic.server_training import (
    Estimated,
    ServerTraining,
    WithErrors,
    largest_part,
    slowness,
)
from tiresias.simulator.elastic_job import JobSize
from tiresias.simulator.simulated_convergence import SimulatedConvergence


def training(**more: object) -> ServerTraining:
    p, w = (each.ravel().astype(np.float64) for each in np.meshgrid(np.arange(1, 9), np.arange(1, 9)))
    seconds = 8.0 / w + 0.5 + 4.0 * w / p
    points = np.stack([p, w, np.ones_like(p), 1.0 / seconds], axis=1)
    return ServerTraining(fit(points, SYNCHRONOUS), **more)  # type: ignore[arg-type]


def test_a_job_on_fewer_nodes_is_faster() -> None:
    speeds = [training().speed(JobSize(parts, 2)) for parts in ((6,), (3, 3), (2, 2, 2), (1, 1, 1, 1, 1, 1))]
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[-1] == pytest.approx(1.0 / (8.0 / 4 + 0.5 + 4.0 * 4 / 2), rel=0.05), "all transfers cross nodes"
    assert training().speed(JobSize((2, 1), 1)) == training().speed(JobSize((1, 2), 1))
    assert training().speed(JobSize((2,), 0)) == 0.0


def test_uneven_servers_slow_the_transfer() -> None:
    blocks = (900_000, 100_000, 100_000, 100_000)
    assert largest_part(blocks, 2, True) < largest_part(blocks, 2, False) == 1.5
    assert largest_part((), 2, False) == 1.0
    sizes = JobSize((1, 1, 1, 1), 2)
    assert training(blocks=blocks, balanced=False).speed(sizes) < training(blocks=blocks).speed(sizes)


def test_estimates_come_near_the_truth() -> None:
    convergence = SimulatedConvergence(slope=0.3, floor=0.1, threshold=0.01)
    found = slowness(training(), 8, 10, 0.02, np.random.default_rng(1))
    assert np.abs(found[1:4, 1:4] - 1.0).mean() < 0.1
    seconds = np.full((8, 8), 1000.0)
    estimated = Estimated(np.ones((8, 8)), convergence, usual=12.0, seed=1)
    first, later = estimated(0.0, seconds), estimated(0.8, 0.2 * seconds)
    assert first.seconds[1, 1] == pytest.approx(1000.0 * 12.0 / convergence.epochs)
    assert first.uncertain
    assert later.seconds[1, 1] == pytest.approx(200.0, rel=0.5)
    assert not later.uncertain


def test_errors_decrease_with_the_progress() -> None:
    wrong = WithErrors(np.full((1, 2), 0.25), 0.1)
    seconds = np.full((1, 2), 100.0)
    assert wrong(0.0, seconds).seconds[0, 0] == pytest.approx(110.0 / 1.25)
    assert wrong(1.0, seconds).seconds[0, 0] == pytest.approx(100.0)
