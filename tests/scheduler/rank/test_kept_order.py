"""Orders that are made from earlier ones are those that a sort returns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.job_rows import JobRows
from tiresias.scheduler.rank.kept_order import _FEW, KeptOrder
from tiresias.scheduler.rank.policy import SortKeys, ordered

JOBS = 240
seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int) -> tuple[SortKeys, list[str]]:
    """Keys of jobs, many of which are equal or have no value, and their ids: numbers, and tasks of array jobs."""
    rng = np.random.default_rng(seed)
    fractions = [rng.integers(0, most, JOBS).astype(float) for most in (60, 3, 2)]
    fractions[0][rng.random(JOBS) < rng.choice((0.0, 0.3))] = np.nan
    keys = [rng.integers(0, 3, JOBS), np.broadcast_to(np.asarray(7), (JOBS,)), rng.integers(0, 2, JOBS), *fractions]
    return keys, [f"{number}_{number % 3}" if number % 5 == 0 else f"{number}" for number in rng.permutation(JOBS)]


@given(
    seed=seeds, changes=st.lists(st.tuples(st.integers(0, JOBS - 1), st.integers(0, 4), st.integers(0, 3)), max_size=5)
)
def test_an_order_with_few_changes(seed: int, changes: list[tuple[int, int, int]]) -> None:
    """Between two orders a few keys change, a job vanishes, one arrives, and the rows of all others are other ones."""
    (keys, ids), rng, rows = drawn(seed), np.random.default_rng(seed + 1), JobRows()
    kept, there = KeptOrder(rows), np.sort(rng.choice(JOBS, JOBS - 2, replace=False))
    for step in range(4):
        names = [ids[row] for row in there.tolist()]
        rows.follow(names)
        chosen = np.flatnonzero(rng.random(len(there)) < 0.995)
        own: SortKeys = [key[there][chosen] for key in keys]
        expected = ordered(own, [names[row] for row in chosen.tolist()])
        assert kept.of(own, chosen, names).tolist() == chosen[expected].tolist()
        keys = [np.array(key) for key in keys]
        for row, key, value in changes[step : step + 2]:
            keys[key][row] = value
        gone = int(rng.integers(len(there)))
        there = np.union1d(np.delete(there, gone), rng.choice(JOBS, 1)) if step % 2 else np.roll(there, 1)


def test_few_jobs_and_many_changes_are_sorted() -> None:
    rows, kept = JobRows(), KeptOrder()
    for count in (0, 1, _FEW + 30, _FEW + 30):
        keys, ids = drawn(count)
        ids, own = ids[:count], [key[:count] for key in keys]
        rows.follow(ids)
        assert kept.of(own, np.arange(count), ids).tolist() == ordered(own, ids).tolist()
