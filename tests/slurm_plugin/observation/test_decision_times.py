"""When running jobs may be preempted with `policy.interval`."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.observation.decision_times import DecisionTimes

INTERVAL = 600.0


def test_at_the_first_snapshot_and_at_the_first_one_after_each_multiple() -> None:
    times = DecisionTimes([INTERVAL, 0.0])
    found = []
    for now in (1000.0, 1030.0, 1199.0, 1203.0, 1203.0, 1230.0, 1799.0, 2500.0):
        times.begin(now)
        found.append(times.wait(INTERVAL))
        assert times.wait(0.0) == 0.0
    assert found == [0.0, 170.0, 1.0, 0.0, 0.0, 570.0, 1.0, 0.0]
    assert times.next_due() == 3000.0


def test_without_an_interval_each_snapshot_decides() -> None:
    times = DecisionTimes([0.0])
    times.begin(1000.0)
    assert times.wait(0.0) == 0.0
    assert times.next_due() == math.inf


def test_after_the_clock_was_set_back_the_next_snapshot_decides() -> None:
    times = DecisionTimes([INTERVAL])
    for now in (5000.0, 100.0):
        times.begin(now)
        assert times.wait(INTERVAL) == 0.0
    times.begin(110.0)
    assert times.wait(INTERVAL) == 490.0


@given(st.lists(st.floats(0.0, 500.0), max_size=50), st.floats(1.0, 2000.0))
def test_one_decision_for_each_multiple_at_most_and_none_is_left_out(pauses: list[float], interval: float) -> None:
    times, now, decided = DecisionTimes([interval]), 1e6, []
    times.begin(now)
    for pause in pauses:
        before, now = now, now + pause
        times.begin(now)
        wait = times.wait(interval)
        assert 0.0 <= wait <= interval
        if math.floor(now / interval) > math.floor(before / interval):
            assert wait == 0.0
        if wait == 0.0:
            decided.append(math.floor(now / interval))
    assert sorted(decided) == decided
