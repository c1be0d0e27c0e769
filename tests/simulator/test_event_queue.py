"""`EventQueue` leaves the place of a removed event open for the next one."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tiresias.simulator.event_queue import EventQueue

events = st.tuples(st.sampled_from([0.0, 1.0, 1.5, math.inf]), st.integers(0, 1), st.integers(0, 3), st.integers(0, 2))


@given(st.lists(st.one_of(events, st.sampled_from(["pop", "clear"])), max_size=40))
def test_events_come_in_order(operations: list[tuple[float, int, int, int] | str]) -> None:
    queue, expected = EventQueue(), list[tuple[float, int, int, int]]()
    for each in operations:
        if isinstance(each, tuple):
            queue.push(*each)
            expected.append(each)
        elif each == "clear":
            queue.clear()
            expected.clear()
        elif expected:
            assert queue.pop() == min(expected)
            expected.remove(min(expected))
        assert queue.moment == min((event[0] for event in expected), default=math.inf)
