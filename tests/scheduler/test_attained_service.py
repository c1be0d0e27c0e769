from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.attained_service import Service, service

moments = st.floats(0, 1e6, allow_nan=False)


@st.composite
def histories(draw: Any) -> Any:
    """Runs of one job that do not overlap, the last one perhaps still going on; and a moment not before the last start."""
    edges = sorted(draw(st.lists(moments, min_size=2, max_size=9)))
    submit, *rest = edges
    runs = [(start, end, draw(st.integers(1, 64))) for start, end in zip(rest[::2], rest[1::2], strict=False)]
    return submit, runs, edges[-1] + draw(st.floats(0, 1e5))


def test_service_is_gpus_times_seconds_over_all_runs() -> None:
    runs = [(10.0, 20.0, 4), (50.0, 80.0, 8)]
    assert service(runs, submit=0.0, reset=0.0, now=100.0) == Service(attained=280.0, ran=40.0, waited=60.0)


def test_what_was_before_a_promotion_does_not_count() -> None:
    runs = [(10.0, 20.0, 4), (50.0, 80.0, 8)]
    assert service(runs, submit=0.0, reset=60.0, now=100.0) == Service(attained=160.0, ran=20.0, waited=20.0)
    assert service(runs, submit=0.0, reset=100.0, now=100.0) == Service(0.0, 0.0, 0.0)


@given(histories(), st.floats(0, 1e5))
def test_service_and_waiting_never_shrink(history: Any, later: Any) -> None:
    submit, runs, now = history
    before, after = (service(runs, submit, 0.0, moment) for moment in (now, now + later))
    assert after.attained >= before.attained
    assert after.ran >= before.ran
    assert after.waited >= before.waited - 1e-6


@given(histories())
def test_time_is_either_run_or_waited(history: Any) -> None:
    submit, runs, now = history
    one = service(runs, submit, 0.0, now)
    assert math.isclose(one.ran + one.waited, now - submit, abs_tol=1e-6)


@given(histories())
def test_applying_an_observation_twice_changes_nothing(history: Any) -> None:
    """Runs are kept by restart count: a second sight of the same run is the same row."""
    submit, runs, now = history
    rows = dict(enumerate(runs))
    once = service(rows.values(), submit, 0.0, now)
    rows |= dict(enumerate(runs))
    assert service(rows.values(), submit, 0.0, now) == once
