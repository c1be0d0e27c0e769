"""The token bucket, on a clock that the test moves."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.backends.budget import PRICES, Bucket, Budgeted, unlimited
from tiresias.slurm_plugin.backends.interface import SlurmSnapshot

SIZES, RATES = st.integers(1, 100), st.floats(0.1, 50.0)
# in this order: seconds that pass, calls that are requested
STEPS = st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(1, 20)), max_size=50)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(SIZES, RATES, STEPS)
def test_without_debt_there_are_never_more_calls_than_size_and_rate_allow(
    size: int, rate: float, steps: list[tuple[float, int]]
) -> None:
    clock = Clock()
    bucket = Bucket(size, rate, clock)
    made: list[tuple[float, int]] = []
    for seconds, calls in steps:
        clock.now += seconds
        if bucket.tokens >= calls:
            bucket.take(calls)
            made.append((clock.now, calls))
    for first, (begin, _) in enumerate(made):
        for last in range(first, len(made)):
            inside = sum(calls for _, calls in made[first : last + 1])
            assert inside <= size + rate * (made[last][0] - begin) + 1e-6


@given(SIZES, RATES, STEPS, st.integers(0, 200))
def test_after_the_wait_there_is_enough_and_not_much_before(
    size: int, rate: float, steps: list[tuple[float, int]], calls: int
) -> None:
    clock = Clock()
    bucket = Bucket(size, rate, clock)
    for seconds, taken in steps:
        clock.now += seconds
        bucket.take(taken)
    wait = bucket.wait(calls)
    enough = min(calls, size) - 1e-6
    if wait:
        clock.now += 0.9 * wait
        assert bucket.tokens < min(calls, size)
        clock.now += 0.1 * wait
    assert bucket.tokens >= enough
    assert bucket.tokens <= size


def test_without_a_limit_nothing_waits() -> None:
    bucket = unlimited()
    bucket.take(10**9)
    assert bucket.tokens == math.inf
    assert bucket.wait(math.inf) == 0.0


def test_every_verb_of_a_back_end_has_its_price_and_is_counted() -> None:
    class Edge:
        name, why = "commands", ""

        def snapshot(self) -> SlurmSnapshot:
            return SlurmSnapshot(0.0, (), ())

        def requeue_together(self, job_ids: Sequence[str]) -> None:
            pass

    bucket = Bucket(100, 1.0, Clock())
    backend = Budgeted(Edge(), bucket)  # type: ignore[arg-type]
    backend.snapshot()
    backend.snapshot()
    assert backend.calls == {"snapshot": 2}
    assert backend.spent == 2 * PRICES["commands"]["snapshot"] == 100 - bucket.tokens
    backend.requeue_together(["1", "2", "3"])
    assert backend.calls == {"snapshot": 2, "requeue": 3}
    together = {"requeue_together"}  # as many requeues
    verbs = {name for name in vars(Budgeted) if not name.startswith("_")} - {"spent", "close"} - together
    assert all(verbs == prices.keys() for prices in PRICES.values())


def test_a_resized_bucket_forgets_nothing_that_was_taken() -> None:
    now = [0.0]
    bucket = Bucket(100.0, 10.0, lambda: now[0])
    bucket.take(90)
    bucket.resize(50.0, 1.0)
    assert bucket.tokens == 10.0
    now[0] = 5.0
    assert bucket.tokens == 15.0
    bucket.resize(5.0, 1.0)
    assert bucket.tokens == 5.0
    bucket.resize(math.inf, 0.0)
    bucket.take(1000)
    assert bucket.tokens == math.inf
