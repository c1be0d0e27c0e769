"""The sizing `marginal_gain`: predictions decide which elastic jobs get the GPUs that are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.conftest import Builder
from tests.scheduler.size.test_minimum_first import elastic, gpus_of, job, states
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Floats, JobState, Snapshot
from tiresias.scheduler.size.elastic_jobs import is_size
from tiresias.scheduler.size.marginal_gain_sizing import MARGINAL_GAIN
from tiresias.scheduler.size.minimum_first import MINIMUM_FIRST
from tiresias.scheduler.size.predicted_seconds import best_servers, by_gpus

make = Builder()
Node = Builder.Node
CONFIG = PolicyConfig(name="fifo", sizing="marginal_gain", preemption_cost=60.0)
RUNNING = JobState.RUNNING


def row(*seconds: float) -> Floats:
    """Seconds left with 1 GPU, 2, ..."""
    return np.array([[np.inf, *seconds]])


def predicted(snapshot: Snapshot, *tables: Floats | None, **more: Any) -> Snapshot:
    return replace(snapshot, jobs=replace(snapshot.jobs, seconds_by_size=tables, **more))


def sizes_of(found: Snapshot) -> list[int]:
    sizes: list[int] = MARGINAL_GAIN.sizes(found, np.arange(len(found.jobs))).tolist()
    return sizes


STEEP, FLAT = row(1000, 500, 340, 260), row(1000, 950, 930, 920)


def test_gpus_go_to_the_job_that_they_shorten_most() -> None:
    found = elastic(make([job("a", 1, 1), job("b", 1, 2)], [Node(5)]), (1, 4, 1), (1, 4, 1))
    assert gpus_of(decide(predicted(found, FLAT, STEEP), CONFIG)) == {"a": 1, "b": 4}
    assert gpus_of(decide(predicted(found, STEEP, FLAT), CONFIG)) == {"a": 4, "b": 1}


def test_the_fewest_gpus_of_each_job_come_first_in_the_order_of_the_policy() -> None:
    found = elastic(make([job("a", 2, 1), job("b", 4, 2), job("c", 3, 3)], [Node(6)]), (2, 4, 1), (4, 4, 0), (1, 4, 1))
    assert gpus_of(decide(predicted(found, FLAT, None, STEEP), CONFIG)) == {"a": 2, "b": 4}


def test_no_gpu_is_given_that_gains_nothing() -> None:
    found = elastic(make([job("a", 1, 1)], [Node(4)]), (1, 4, 1))
    assert sizes_of(predicted(found, row(1000, 600, 700, 800))) == [2]
    assert sizes_of(predicted(found, row(1000, np.inf, np.nan, 400))) == [4], "sizes between are skipped"


def test_sizes_are_steps() -> None:
    found = elastic(make([job("a", 4, 1)], [Node(64)]), (4, 64, 20))
    assert sizes_of(predicted(found, row(*(6400 / n for n in range(1, 65))))) == [64]
    assert sizes_of(predicted(found, row(*(6400 / min(n, 30) for n in range(1, 65))))) == [44]


def test_a_running_job_grows_where_the_prediction_pays() -> None:
    grows = elastic(make([job("a", 2, 1, state=RUNNING)], [Node(4)]), (1, 4, 1))
    assert [one.gpus for one in decide(predicted(grows, STEEP), CONFIG).resizes] == [4]
    assert decide(predicted(grows, FLAT), CONFIG).resizes == (), "it would gain 30 s and costs 60 s"
    assert decide(predicted(grows, STEEP), replace(CONFIG, preemption_cost=170.0)).resizes == (), "240 s < 1.5 x 170 s"
    older = elastic(make([job("a", 2, 1, state=RUNNING, ran=600.0)], [Node(4)]), (1, 4, 1))
    assert decide(predicted(older, None), replace(CONFIG, preemption_cost=170.0)).resizes != (), "twice as fast"


def test_a_running_job_shrinks_for_one_that_gains_more() -> None:
    shrinks = make([job("a", 3, 1, state=RUNNING), job("b", 1, 2, state=RUNNING)], [Node(4)])
    found = predicted(elastic(shrinks, (1, 4, 1), (1, 4, 1)), FLAT, row(9000, 4500, 3000, 2250))
    assert [(one.job, one.gpus) for one in decide(found, CONFIG).resizes] == [("a", 1), ("b", 3)]
    kept = replace(found, jobs=replace(found.jobs, movable=np.array([False, True])))
    assert decide(kept, CONFIG).resizes == ()


def test_a_job_with_uncertain_predictions_gains_less() -> None:
    found = predicted(elastic(make([job("a", 1, 1), job("b", 1, 2)], [Node(3)]), (1, 2, 1), (1, 2, 1)), STEEP, STEEP)
    assert sizes_of(found) == [2, 1]
    uncertain = replace(found, jobs=replace(found.jobs, uncertain=np.array([True, False])))
    assert sizes_of(uncertain) == [1, 2]


def test_claims_and_the_median_stand_for_predictions() -> None:
    jobs = [job(name, 1, place) for place, name in enumerate("abc")]
    found = elastic(make(jobs, [Node(9)]), *((1, 8, 1),) * 3)
    assert sizes_of(found) == [3, 3, 3]
    claimed = replace(found, jobs=replace(found.jobs, claimed_remaining=np.array([16000.0, 1000.0, np.nan])))
    assert sizes_of(claimed)[1] == 1
    assert sizes_of(claimed)[0] > sizes_of(claimed)[2] > 1, "the median work is that of neither"


def test_a_job_with_servers_has_the_fastest_split() -> None:
    table = np.array([[np.inf] * 4, [np.inf, 90, 60, 50], [np.inf, 80, 40, 30], [np.inf, 85, 41, 20]])
    assert by_gpus(table).tolist() == [np.inf, np.inf, 90, 60, 40, 30, 20]
    assert [best_servers(table, gpus) for gpus in range(2, 7)] == [1, 1, 2, 2, 3]
    assert best_servers(table, 1) == 0
    found = predicted(elastic(make([job("a", 2, 1)], [Node(5)]), (2, 6, 1)), 100 * table)
    assert sizes_of(found) == [5]


@st.composite
def predicted_states(draw: st.DrawFn) -> Snapshot:
    found = draw(states())
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    tables = [_table(chance) if draw(st.booleans()) else None for _ in range(len(found.jobs))]
    return predicted(found, *tables, uncertain=chance.random(len(tables)) < 0.5)


def _table(chance: np.random.Generator) -> Floats:
    seconds = chance.exponential(5000, (1, chance.integers(1, 30)))
    return np.where(chance.random(seconds.shape) < 0.2, np.nan, seconds)


@given(predicted_states(), st.sampled_from(["fifo", "las"]))
def test_sizes_are_possible_and_together_no_more_than_there_is(found: Snapshot, name: str) -> None:
    jobs, order = found.jobs, np.arange(len(found.jobs))
    sizes, fewest = MARGINAL_GAIN.sizes(found, order), MINIMUM_FIRST.sizes(found, order)
    plan = decide(found, replace(CONFIG, name=name))
    for at in range(len(jobs)):
        assert sizes[at] == jobs.gpus[at] or is_size(jobs, at, int(sizes[at]))
        assert sizes[at] <= max(fewest[at], int(found.nodes.gpus.sum()))
    row_of = {each: at for at, each in enumerate(jobs.id)}
    started = gpus_of(plan)
    held = int(jobs.gpus[jobs.state == RUNNING].sum())
    victims = sum(int(jobs.gpus[row_of[one.job]]) for one in plan.preemptions)
    assert held - victims + sum(started.values()) <= found.nodes.gpus.sum()
    for one in plan.resizes:
        at = row_of[one.job]
        assert jobs.movable[at]
        assert jobs.state[at] == RUNNING
        assert is_size(jobs, at, one.gpus)
        assert one.gpus != jobs.gpus[at]
