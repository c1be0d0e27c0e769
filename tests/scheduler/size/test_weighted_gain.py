"""The sizing `weighted_gain`: short jobs get more GPUs, and none is changed for little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.conftest import Builder
from tests.scheduler.size.test_minimum_first import elastic, gpus_of, job, states
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Floats, JobState, Snapshot
from tiresias.scheduler.size.elastic_jobs import is_size
from tiresias.scheduler.size.weighted_gain import EXPONENT, WEIGHTED_GAIN, weights

make = Builder()
Node = Builder.Node
CONFIG = PolicyConfig(name="fifo", sizing="weighted_gain", preemption_cost=60.0)


def power(work: float, most: int = 64) -> Floats:
    """Seconds left of a job that has the speed k ** p on k GPUs."""
    return np.concatenate(([np.inf], work / np.arange(1.0, most + 1) ** EXPONENT))[None, :]


def shared(works: Sequence[float], gpus: int, held: Sequence[int] = ()) -> list[int]:
    """Return the sizes of elastic jobs with so much work; `held`: the GPUs of running ones."""
    running = [job(f"{at}", size, at, state=JobState.RUNNING, movable=True) for at, size in enumerate(held)]
    waiting = [job(f"{at}", 1, at) for at in range(len(held), len(works))]
    found = elastic(make([*running, *waiting], [Node(gpus)]), *[(1, 64, 1)] * len(works))
    tables = tuple(map(power, works))
    found = replace(found, jobs=replace(found.jobs, seconds_by_size=tables))
    sizes: list[int] = WEIGHTED_GAIN.sizes(found, np.arange(len(works))).tolist()
    return sizes


def test_the_shares_are_those_of_hesrpt() -> None:
    """(i / m) ** q - ((i - 1) / m) ** q of the GPUs for the i-th longest of m jobs, in whole GPUs and one at least."""
    q, gpus = 1 / (1 - EXPONENT), 64
    share = [round(gpus * ((i / 3) ** q - ((i - 1) / 3) ** q)) for i in (1, 2, 3)]
    assert shared([9e5, 1e4, 500.0], gpus) == pytest.approx(share, abs=1)


def test_a_shorter_job_counts_more() -> None:
    found = weights(np.array([50.0, 9000.0, 700.0]))
    assert found.argsort().tolist() == [1, 2, 0]
    assert weights(np.zeros(0)).tolist() == []


def test_equal_jobs_keep_their_sizes() -> None:
    assert shared([1000.0, 1100.0], 16, held=[8, 8]) == [8, 8]
    assert shared([1000.0, 1e6], 16, held=[1, 15]) != [1, 15], "a short job that got too little"


def test_a_job_without_a_prediction_gets_what_it_requests_and_what_is_idle() -> None:
    found = elastic(make([job("a", 4, 1), job("b", 1, 2)], [Node(16)]), (1, 16, 1), (1, 8, 1))
    seen = replace(found, jobs=replace(found.jobs, seconds_by_size=(None, power(1000.0))))
    assert gpus_of(decide(seen, CONFIG)) == {"a": 8, "b": 8}
    busy = replace(seen, jobs=replace(seen.jobs, max_gpus=np.array([16, 16])))
    assert gpus_of(decide(busy, CONFIG)) == {"a": 4, "b": 12}


@given(snapshot=states(), seed=st.integers(0, 2**32 - 1))
def test_sizes_are_possible_and_fit(snapshot: Snapshot, seed: int) -> None:
    rng, jobs = np.random.default_rng(seed), snapshot.jobs
    tables = tuple(
        np.where(rng.random((1, 9)) < 0.2, np.nan, rng.uniform(0.0, 1e4, (1, 9))) if rng.random() < 0.7 else None
        for _ in range(len(jobs))
    )
    sizes = WEIGHTED_GAIN.sizes(replace(snapshot, jobs=replace(jobs, seconds_by_size=tables)), np.arange(len(jobs)))
    for row in np.flatnonzero(sizes != jobs.gpus).tolist():
        assert is_size(jobs, row, int(sizes[row]))
