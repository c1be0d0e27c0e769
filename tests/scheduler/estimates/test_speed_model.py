from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shared_data import shared_data
from tiresias.scheduler.estimates.speed_forms import ALL_REDUCE, ASYNCHRONOUS, EQUATION_3, EQUATION_4, SYNCHRONOUS
from tiresias.scheduler.estimates.speed_model import POINTS_KEPT, SpeedModel, fit

FORMS = (EQUATION_3, EQUATION_4, ASYNCHRONOUS, SYNCHRONOUS, ALL_REDUCE)
seeds = st.integers(0, 2**32)


def sizes_of(form: Any, count: int, chance: np.random.Generator) -> Any:
    first, batch = chance.integers(1, 13, count), 2.0 ** chance.integers(3, 8, count)
    times = chance.integers(1, 5, count) if form is ALL_REDUCE else chance.integers(1, 13, count)
    return np.stack([first, first * times if form is ALL_REDUCE else times, batch], axis=1)


def paper_speed(servers: Any, workers: Any, batch: Any) -> Any:
    """Equation 4 with the coefficients of table 2."""
    return 1.0 / (1.02 * batch / workers + 2.78 + 4.92 * workers / servers + 0.02 * servers)


def paper_points(count: int, seed: int, noise: float = 0.0) -> Any:
    chance = np.random.default_rng(seed)
    sizes = sizes_of(EQUATION_4, count, chance)
    return np.c_[sizes, paper_speed(*sizes.T) * np.exp(noise * chance.normal(size=count))]


def test_speeds_of_equation_4_from_ten_points() -> None:
    """One set of ten random points in about 2,000 covers too little."""
    errors = []
    for seed in range(500):
        model, others = fit(paper_points(10, seed, 0.03), EQUATION_4), paper_points(100, seed + 1)
        errors.append(np.abs(model.speed(*others[:, :3].T) / others[:, 3] - 1.0).mean())
    assert np.mean(errors) < 0.03
    assert np.percentile(errors, 99) < 0.1


def test_equation_3_counts_the_steps_of_all_workers() -> None:
    workers = np.array([1.0, 2.0, 4.0, 8.0])
    points = np.stack([np.full(4, 4.0), workers, np.ones(4), workers / (2.83 + 3.92 * workers / 4)], axis=1)
    assert fit(points, EQUATION_3).speed(4, workers, 1) == pytest.approx(points[:, 3], rel=0.03)


def test_many_points_determine_the_speed() -> None:
    model, others = fit(paper_points(200, 1), EQUATION_4), paper_points(100, 2)
    assert model.speed(*others[:, :3].T) == pytest.approx(others[:, 3], rel=0.03)
    assert model.error == 0.02


@given(seeds, st.sampled_from(FORMS), st.integers(1, 12))
def test_every_size_has_a_finite_speed_inside_its_interval(seed: int, form: Any, count: int) -> None:
    """Whatever was measured, even speeds that fit no form."""
    chance = np.random.default_rng(seed)
    points = np.c_[sizes_of(form, count, chance), np.exp(chance.normal(size=count))]
    model, sizes = fit(points, form), sizes_of(form, 50, chance)
    speed, (low, high) = model.speed(*sizes.T), model.interval(*sizes.T)
    assert np.isfinite(high).all()
    assert ((low > 0.0) & (low < speed) & (speed < high)).all()


@pytest.mark.parametrize("form", FORMS)
def test_one_point_gives_the_level(form: Any) -> None:
    assert fit([(2, 4, 32, 5.0)], form).speed(2, 4, 32) == pytest.approx(5.0, rel=0.25)


@settings(max_examples=20)
@given(seeds)
def test_nine_of_ten_speeds_are_inside_the_interval(seed: int) -> None:
    model, others = fit(paper_points(15, seed, 0.05), EQUATION_4), paper_points(200, seed + 1, 0.05)
    low, high = model.interval(*others[:, :3].T)
    assert ((low <= others[:, 3]) & (others[:, 3] <= high)).mean() > 0.7


def test_impossible_points_do_not_count() -> None:
    points = paper_points(10, 3)
    hostile = [
        (1, 1, 8, 0.0),
        (1, 1, 8, math.inf),
        (1, 1, 8, math.nan),
        (0, 1, 8, 1.0),
        (1, 1, -8, 1.0),
        (2, 2, 8, 1e9),
    ]
    model = fit(np.concatenate((points[:5], hostile, points[5:])), EQUATION_4)
    assert model.points.tolist() == points.tolist()
    assert model.speed(3, 5, 32) == fit(points, EQUATION_4).speed(3, 5, 32)


def test_no_point_is_an_error() -> None:
    with pytest.raises(ValueError, match="measure the speed of one size"):
        fit([(1, 1, 8, 0.0)], EQUATION_4)
    with pytest.raises(ValueError, match="another form"):
        fit(paper_points(5, 1), EQUATION_4, prior=fit(paper_points(5, 1), SYNCHRONOUS))


def _error(model: SpeedModel, others: Any) -> float:
    return float(np.abs(model.speed(*others[:, :3].T) / others[:, 3] - 1.0).mean())


@settings(max_examples=20)
@given(seeds)
def test_a_job_of_the_same_kind_gives_the_shape(seed: int) -> None:
    """Half as fast, as on other hardware: two points are enough."""
    kind, slower = fit(paper_points(30, seed), EQUATION_4), np.array([1.0, 1.0, 1.0, 0.5])
    points, others = paper_points(2, seed + 1) * slower, paper_points(100, seed + 2) * slower
    assert _error(fit(points, EQUATION_4, prior=kind), others) < 0.07


def test_a_prior_alone_is_used_as_it_is_and_calibrated_later() -> None:
    kind = fit(paper_points(30, 1), EQUATION_4)
    model = fit([], EQUATION_4, prior=kind)
    assert model.speed(3, 5, 32) == kind.speed(3, 5, 32)
    slower = paper_points(3, 2) * [1, 1, 1, 0.5]
    calibrated = fit(slower, EQUATION_4, prior=kind).speed(3, 5, 32)
    assert model.followed_by(slower).speed(3, 5, 32) == pytest.approx(calibrated, rel=1e-3)


def test_newer_points_count_more() -> None:
    """The job becomes half as fast; after 150 more points its model is half as fast too."""
    model, slower = fit(paper_points(50, 1), EQUATION_4), paper_points(150, 2) * [1, 1, 1, 0.5]
    before = float(model.speed(3, 5, 32))
    for first in range(0, len(slower), 10):
        model = model.followed_by(slower[first : first + 10])
    assert model.speed(3, 5, 32) == pytest.approx(before / 2, rel=0.1)


def test_bounded_number_of_points() -> None:
    model = fit(paper_points(3 * POINTS_KEPT, 1), EQUATION_4)
    assert len(model.points) == POINTS_KEPT
    assert len(model.followed_by(paper_points(POINTS_KEPT, 2)).points) == POINTS_KEPT
    assert model.followed_by([(1, 1, 8, math.inf)]) is model


def test_more_is_known_near_measured_sizes() -> None:
    model = fit(paper_points(40, 1, 0.05), SYNCHRONOUS)
    (low, high), (far_low, far_high) = model.interval(4, 4, 32), model.interval(1000, 1000, 32)
    assert high / low < far_high / far_low


def _measured(name: str, columns: tuple[str, ...], speed: Any) -> dict[str, Any]:
    found = defaultdict(list)
    with gzip.open(shared_data(f"optimus/{name}"), "rt") as text:
        for row in csv.DictReader(text):
            found[row["model"]].append([*(float(row[column]) for column in columns), speed(row)])
    return {model: np.array([row for row in rows if row[3] > 0]) for model, rows in found.items()}


def _mean_error(rows: Any, form: Any, draws: int) -> float:
    errors = []
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(rows))
        known, others = rows[order[:10]], rows[order[10:]]
        errors.append(_error(fit(known, form), others))
    return float(np.mean(errors))


def test_measured_parameter_servers() -> None:
    """Ten points: at most 10% for half of the models; `bench/speed_models.py` has the baselines."""

    def speed(row: Any) -> float:
        return float(row["sum_speed"]) / float(row["total_batch"])

    data = _measured("dl2_measured_speeds.csv.gz", ("ps", "workers", "total_batch"), speed)
    errors = [_mean_error(rows, SYNCHRONOUS, 25) for rows in data.values()]
    assert np.median(errors) <= 0.1


def test_measured_all_reduce() -> None:
    """Ten points: at most 8% in the mean of the models."""

    def speed(row: Any) -> float:
        return 1.0 / float(row["step_time_s"])

    data = _measured("adaptdl_aws_steps.csv.gz", ("num_nodes", "num_gpus", "local_bsz"), speed)
    assert np.mean([_mean_error(rows, ALL_REDUCE, 25) for rows in data.values()]) <= 0.08
