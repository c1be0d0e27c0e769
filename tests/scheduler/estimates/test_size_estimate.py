from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.scheduler.estimates.size_estimate import (
    SIZES_MEASURED,
    SizeSpan,
    SizeSpeeds,
    StepsLeft,
    TimedRun,
    learn,
)
from tiresias.scheduler.estimates.speed_forms import ASYNCHRONOUS, SYNCHRONOUS

LIMITS = SizeSpan(1, 16, 4)
EXACT = StepsLeft(1000.0, 1000.0, 1000.0)


def seconds(gpus: int) -> float:
    """A job of which half a second of each step is divided among the GPUs."""
    return 0.05 + 0.5 / gpus + (0.02 if gpus > 4 else 0.0)


def run(gpus: int, samples: float = math.nan, factor: float = 1.0) -> TimedRun:
    return TimedRun(math.ceil(gpus / 4), gpus, factor * seconds(gpus), samples)


@pytest.mark.parametrize("samples", [math.nan, 256.0])
def test_four_measured_sizes_predict_the_others(samples: float) -> None:
    speeds = learn([run(gpus, samples) for gpus in (1, 2, 4, 8)], LIMITS)
    assert speeds
    for gpus in (3, 6, 12, 16):
        assert speeds.seconds[gpus] == pytest.approx(seconds(gpus), rel=0.1 if gpus < 8 else 0.3)
        assert speeds.low[gpus] < seconds(gpus) < speeds.high[gpus]
    assert np.isnan(speeds.seconds[0])
    assert speeds.seconds.shape == (17,)


def test_the_remaining_seconds_have_a_row_for_no_servers_and_are_certain_with_many_measured_sizes() -> None:
    speeds = learn([run(gpus) for gpus in (1, 2, 4, 8, 16)], LIMITS)
    assert speeds
    estimate = speeds.remaining(EXACT)
    assert estimate.seconds.shape == (1, 17)
    assert estimate.seconds[0, 4] == pytest.approx(1000.0 * seconds(4), rel=0.1)
    assert not estimate.uncertain
    assert speeds.remaining(StepsLeft(1000.0, 300.0, 3000.0)).uncertain, "the steps left are not known well"


def error(speeds: SizeSpeeds | None, *gpus: int) -> float:
    assert speeds
    return float(np.abs(np.log([speeds.seconds[each] / seconds(each) for each in gpus])).mean())


def test_one_measured_size_predicts_no_other_and_two_are_uncertain() -> None:
    assert learn([run(4), run(4)], LIMITS) is None
    found = learn([run(4), run(8)], LIMITS)
    assert found
    assert found.uncertain


def test_runs_on_one_node_predict_none_on_several() -> None:
    assert learn([run(1), run(2), run(4)], LIMITS) is None
    assert learn([run(1), run(2), run(4)], SizeSpan(1, 4, 4)) is not None
    assert learn([run(1), run(2), run(4)], LIMITS, [run(8)]) is not None, "a job of its kind spanned two nodes"


def test_slower_jobs_of_the_same_kind_make_the_prediction_better() -> None:
    others = [run(gpus, factor=2.0) for gpus in (1, 2, 4, 8, 16)]
    alone, helped = learn([run(4), run(8)], LIMITS), learn([run(4), run(8)], LIMITS, others)
    assert error(helped, 1, 2, 12, 16) < error(alone, 1, 2, 12, 16)


def test_a_job_that_was_never_timed_has_the_speed_of_its_kind_or_none() -> None:
    assert learn([], LIMITS) is None
    found = learn([], LIMITS, [run(1, 64.0), run(4, 64.0), run(8, 64.0)])
    assert found
    assert found.seconds[4] == pytest.approx(seconds(4), rel=0.2)
    assert found.uncertain


SECONDS = st.one_of(st.floats(), st.floats(1e-6, 1e6))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 16), SECONDS, SECONDS), max_size=8), st.integers(1, 16))
def test_whatever_was_measured_each_size_has_a_finite_positive_time(
    rows: list[tuple[int, int, float, float]], least: int
) -> None:
    speeds = learn([TimedRun(*row) for row in rows], SizeSpan(least, 16, 4))
    if speeds:
        for found in (speeds.seconds, speeds.low, speeds.high):
            assert np.isfinite(found[least:]).all()
            assert (found[least:] > 0.0).all()


SERVED = SizeSpan(1, 8, 4, ((), *((1, 2, 3, 4),) * 8))


def served_seconds(servers: int, gpus: int) -> float:
    """Equation 4: computation, transfer by the workers of each server, and what each worker and server adds."""
    return 0.02 + 0.5 / gpus + 0.04 * gpus / servers + 0.001 * gpus + 0.004 * servers


def served(servers: int, gpus: int) -> TimedRun:
    return TimedRun(1, gpus, served_seconds(servers, gpus), math.nan, servers)


def test_each_size_has_the_servers_with_which_it_is_fastest() -> None:
    found = learn([served(*size) for size in ((1, 1), (1, 2), (2, 4), (4, 8), (1, 4), (2, 2), (3, 6), (2, 8))], SERVED)
    assert found
    assert found.servers is not None
    assert not found.uncertain
    estimate = found.remaining(EXACT)
    assert estimate.servers is found.servers
    assert estimate.seconds.shape == (1, 9)
    for gpus in range(1, 9):
        chosen = int(found.servers[gpus])
        best = min(served_seconds(count, gpus) for count in range(1, 5))
        assert served_seconds(chosen, gpus) <= 1.1 * best
        assert found.seconds[gpus] == pytest.approx(served_seconds(chosen, gpus), rel=0.2)
        assert found.low[gpus] <= found.seconds[gpus] <= found.high[gpus]
    assert found.servers[8] > found.servers[1]
    for gpus in range(1, 9):
        assert found.step_seconds(gpus, int(found.servers[gpus])) == pytest.approx(found.seconds[gpus])
        for servers in range(1, 5):
            assert found.step_seconds(gpus, servers) == pytest.approx(served_seconds(servers, gpus), rel=0.25)
            assert found.step_seconds(gpus, servers) >= 0.97 * found.seconds[gpus]


def test_one_measured_number_of_servers_and_gpus_predicts_nothing() -> None:
    assert learn([served(2, 4), served(2, 4)], SERVED) is None
    assert learn([run(2), run(4), run(8)], SERVED) is None, "runs without servers"
    two = learn([served(1, 4), served(2, 4)], SERVED)
    assert two
    assert two.uncertain


def test_impossible_numbers_of_servers_are_not_chosen() -> None:
    spans = SizeSpan(2, 8, 4, tuple(() if gpus % 2 else (2, 4) for gpus in range(9)))
    found = learn([served(2, 2), served(2, 4), served(4, 8)], spans)
    assert found
    assert found.servers is not None
    assert set(found.servers[[4, 6, 8]].tolist()) <= {2, 4}
    assert not found.servers[[0, 1, 3, 5, 7]].any()
    assert np.isnan(found.seconds[[0, 1, 3, 5, 7]]).all()


def served_alone(servers: int, gpus: int) -> TimedRun:
    """Equation 3: each worker makes steps of its own, and a step is one of any worker."""
    seconds = 0.5 + 0.05 * gpus / servers + 0.002 * gpus + 0.004 * servers
    return TimedRun(1, gpus, seconds / gpus, math.nan, servers)


MEASURED = ((1, 1), (1, 2), (2, 4), (4, 8), (1, 4))


def test_asynchronous_training_has_equation_3_where_the_owner_states_it_or_the_speeds_show_it() -> None:
    stated = SERVED._replace(asynchronous=True)
    for limits, sizes in ((stated, MEASURED[:2]), (SERVED, MEASURED)):
        found = learn([served_alone(*size) for size in sizes], limits)
        assert found
        assert found.by_servers
        assert found.by_servers.form is ASYNCHRONOUS
        if limits is SERVED:
            assert found.step_seconds(6, 3) == pytest.approx(served_alone(3, 6).seconds, rel=0.1)


@pytest.mark.parametrize("sizes", [MEASURED, MEASURED[:2]])
def test_synchronous_speeds_and_few_sizes_have_equation_4(sizes: tuple[tuple[int, int], ...]) -> None:
    for speeds in (served, served_alone) if len(sizes) < SIZES_MEASURED else (served,):
        found = learn([speeds(*size) for size in sizes], SERVED)
        assert found
        assert found.by_servers
        assert found.by_servers.form is SYNCHRONOUS
