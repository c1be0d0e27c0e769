from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.estimates.loss_history import POINTS_KEPT, LossHistory, LossPoints


def history_of(reports: list[tuple[float, float]]) -> LossHistory:
    history = LossHistory()
    for step, loss in reports:
        history.add(step, loss)
    return history


def test_few_reports_are_kept_as_they_are() -> None:
    steps, losses = history_of([(0, 3.0), (10, 2.0), (20, 1.5)]).points()
    assert (steps.tolist(), losses.tolist()) == ([0, 10, 20], [3.0, 2.0, 1.5])


@pytest.mark.parametrize("report", [(1, math.nan), (1, math.inf), (1, -0.1), (math.nan, 1), (-1, 1), (1e300, 1)])
def test_impossible_reports_are_refused(report: tuple[float, float]) -> None:
    history = history_of([(0, 3.0), report, (20, 1.5)])
    assert history.points().steps.tolist() == [0, 20]
    assert history.refused == 1


def test_a_restored_run_replaces_what_it_repeats() -> None:
    steps, losses = history_of([(0, 3.0), (10, 2.0), (20, 1.5), (10, 2.1), (30, 1.0)]).points()
    assert (steps.tolist(), losses.tolist()) == ([0, 10, 30], [3.0, 2.1, 1.0])


@given(st.integers(1, 20 * POINTS_KEPT))
def test_any_number_of_reports_in_bounded_memory(reports: int) -> None:
    """Of a straight line each mean is on the line again."""
    history = history_of([(step, 5.0 + step) for step in range(reports)])
    steps, losses = history.points()
    assert len(steps) <= POINTS_KEPT + 1
    assert losses == pytest.approx(5.0 + steps)
    assert (np.diff(steps) > 0).all()
    assert steps[-1] >= reports - 1 - history.reports_a_point


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=60))
def test_whatever_is_reported_the_steps_rise(reports: list[tuple[float, float]]) -> None:
    steps, losses = history_of(reports).points()
    assert (np.diff(steps) > 0).all()
    assert np.isfinite(losses).all()
    assert (losses >= 0).all()


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=200))
def test_the_changes_lead_to_the_same_points_wherever_they_are_taken(reports: list[tuple[int, bool]]) -> None:
    """A store that keeps the first points and replaces the others has what a history has, also after a restore."""
    history, stored = LossHistory(8), LossPoints(np.zeros(0), np.zeros(0))
    for step, taken in [*reports, (61, True)]:
        history.add(step, step / 7.0)
        if taken:
            after, points = history.changes()
            kept = stored.steps <= after
            added = np.array(points).reshape(-1, 2)
            steps = np.append(stored.steps[kept], added[:, 0])
            stored = LossPoints(steps, np.append(stored.losses[kept], added[:, 1]))
    again, whole = LossHistory.of(stored, history.reports_a_point, 8), history.points()
    count = len(stored.steps)
    assert count >= len(whole.steps) - 1
    assert again.points().steps.tolist() == whole.steps.tolist()[:count]
    assert again.points().losses.tolist() == whole.losses.tolist()[:count]
    assert again.changes().points == []
