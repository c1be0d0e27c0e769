"""Samples in a decision: a new elastic job gets sizes that no other job needs, each for a bounded time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.conftest import Builder
from tests.scheduler.size.test_marginal_gain_sizing import STEEP, predicted, predicted_states
from tests.scheduler.size.test_minimum_first import elastic, gpus_of, job
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.size.elastic_jobs import can_change, is_size, least_sizes
from tiresias.scheduler.size.minimum_first import granted_minima
from tiresias.scheduler.size.sizing import sized

make = Builder()
Node = Builder.Node
RUNNING = JobState.RUNNING
CONFIG = PolicyConfig(
    name="fifo", sizing="marginal_gain", preemption_cost=10.0, min_run=0.0, min_run_cost_factor=0.0, size_samples=5
)


def timed(found: Snapshot, *sizes: tuple[int, ...] | None, starts: list[int], **more: Any) -> Snapshot:
    known = tuple(None if one is None else tuple((0, gpus) for gpus in one) for one in sizes)
    jobs = replace(found.jobs, sizes_timed=known, starts=np.array(starts), **more)
    return replace(found, jobs=jobs)


def running(gpus: int, since: float, *sizes: int, **more: Any) -> Snapshot:
    """A job that made its first step `since` seconds ago, at its second start."""
    found = elastic(make([job("a", gpus, 1, state=RUNNING)], [Node(4)] * 4), (1, 16, 1))
    begun = np.array([found.time - since])
    return timed(found, sizes, starts=[2], last_start=begun, progress_from=begun, **more)


def test_a_new_job_starts_with_the_size_of_its_first_sample() -> None:
    found = elastic(make([job("a", 2, 1)], [Node(4)] * 4), (1, 16, 1))
    assert gpus_of(decide(found, CONFIG)) == {"a": 16}, "nothing is timed"
    sampled = timed(found, (), starts=[0])
    assert gpus_of(decide(sampled, CONFIG)) == {"a": 3}
    assert gpus_of(decide(sampled, replace(CONFIG, size_samples=0))) == {"a": 16}
    assert gpus_of(decide(sampled, replace(CONFIG, sizing="minimum_first"))) == {"a": 16}, "it predicts nothing"
    assert gpus_of(decide(timed(found, (1, 2, 3, 4, 8), starts=[0]), CONFIG)) == {"a": 16}, "its kind has enough sizes"
    assert gpus_of(decide(timed(found, (3,), starts=[0]), CONFIG)) == {"a": 16}, "its kind has the first sample"


def test_a_sample_lasts_for_its_time_and_is_followed_by_the_next_one() -> None:
    assert decide(running(3, 50.0), CONFIG).resizes == ()
    assert next_change(running(3, 50.0), CONFIG) == running(3, 50.0).time + 10.0
    [resize] = decide(running(3, 60.0, 3), CONFIG).resizes
    assert (resize.gpus, resize.is_sample) == (16, True)
    protected = decide(running(3, 60.0, 3), replace(CONFIG, min_run=100.0))
    assert protected.resizes == ()
    assert next_change(running(3, 60.0, 3), replace(CONFIG, min_run=100.0)) == running(3, 60.0).time + 40.0


def test_samples_end_with_the_starts_that_they_may_take() -> None:
    found = running(3, 60.0)  # its steps cannot be timed
    assert decide(found, CONFIG).resizes[0].is_sample
    last = replace(found, jobs=replace(found.jobs, starts=np.array([5])))
    assert not any(one.is_sample for one in decide(last, CONFIG).resizes)


def test_a_sample_is_worth_its_cost() -> None:
    assert decide(running(3, 60.0, 3, claimed_remaining=np.array([250.0])), CONFIG).resizes[0].is_sample
    short = decide(running(3, 60.0, 3, claimed_remaining=np.array([150.0])), CONFIG).resizes
    assert not any(one.is_sample for one in short)


def test_a_sample_takes_no_gpus_of_other_jobs() -> None:
    jobs = [job("a", 1, 1), job("b", 12, 2)]
    found = timed(elastic(make(jobs, [Node(4)] * 4), (1, 16, 1), (12, 12, 0)), (3,), None, starts=[0, 0])
    assert gpus_of(decide(found, CONFIG)) == {"a": 1, "b": 12}
    first = timed(elastic(make(jobs, [Node(4)] * 4), (1, 16, 1), (12, 12, 0)), (), None, starts=[0, 0])
    assert gpus_of(decide(first, CONFIG)) == {"a": 3, "b": 12}


@st.composite
def sampled_states(draw: st.DrawFn) -> Snapshot:
    found = draw(predicted_states())
    count = len(found.jobs)
    sizes = [draw(st.none() | st.lists(st.integers(1, 12), max_size=6, unique=True)) for _ in range(count)]
    starts = draw(st.lists(st.integers(0, 7), min_size=count, max_size=count))
    return timed(found, *(None if one is None else tuple(one) for one in sizes), starts=starts)


@given(
    sampled_states(), st.sampled_from(["fifo", "las"]), st.sampled_from(["marginal_gain", "weighted_gain", "tetris"])
)
def test_samples_are_sizes_of_the_job_within_what_there_is(found: Snapshot, name: str, sizing: str) -> None:
    jobs, order = found.jobs, np.arange(len(found.jobs))
    config = replace(CONFIG, name=name, sizing=sizing)
    _, without = sized(found, replace(config, size_samples=0), order)
    _, samples = sized(found, config, order)
    assert (samples.sizes == without.sizes)[~samples.sampled].all()
    for row in np.flatnonzero(samples.sampled).tolist():
        assert is_size(jobs, row, int(samples.sizes[row]))
        assert samples.sizes[row] >= least_sizes(jobs)[row]
    _, left = granted_minima(found, order, without.sizes, can_change(jobs))
    assert samples.sizes.sum() - without.sizes.sum() <= left, "only GPUs that no job gets"
    for one in decide(found, config).resizes:
        row = jobs.id.index(one.job)
        assert jobs.movable[row]
        assert one.gpus != jobs.gpus[row]
        assert one.is_sample == samples.sampled[row]


def test_predictions_of_a_sampled_job_are_not_used_before_its_last_sample() -> None:
    found = predicted(running(3, 50.0, 1, 2), STEEP)
    assert decide(found, CONFIG).resizes == ()
    assert decide(found, replace(CONFIG, size_samples=2)).resizes != ()
