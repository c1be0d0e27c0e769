"""The sizings `drf` and `tetris`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.conftest import Builder
from tests.scheduler.size.test_marginal_gain_sizing import FLAT, STEEP, predicted, predicted_states, row
from tests.scheduler.size.test_minimum_first import elastic, gpus_of, job
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.size.elastic_jobs import is_size
from tiresias.scheduler.size.sizing import SIZINGS

make = Builder()
Node = Builder.Node
RUNNING = JobState.RUNNING


def config(sizing: str) -> PolicyConfig:
    return PolicyConfig(name="best_effort", sizing=sizing, preemption_cost=60.0)


def two(gpus: int) -> Snapshot:
    return elastic(make([job("a", 1, 1), job("b", 1, 2)], [Node(gpus)]), (1, 4, 1), (1, 4, 1))


def test_drf_gives_equal_shares_also_where_they_gain_nothing() -> None:
    assert gpus_of(decide(predicted(two(8), FLAT, STEEP), config("drf"))) == {"a": 4, "b": 4}
    slower = predicted(two(6), row(100, 200, 300, 400), STEEP)
    assert gpus_of(decide(slower, config("drf"))) == {"a": 3, "b": 3}


def test_tetris_serves_the_shortest_job_first_while_that_shortens_it() -> None:
    short = row(100, 60, 50, 70)
    assert gpus_of(decide(predicted(two(5), STEEP, short), config("tetris"))) == {"a": 2, "b": 3}
    assert gpus_of(decide(predicted(two(4), None, short), config("tetris"))) == {"a": 1, "b": 3}, (
        "without one it is last"
    )


@pytest.mark.parametrize("sizing", ["drf", "tetris"])
def test_a_job_with_servers_has_one_for_each_worker(sizing: str) -> None:
    table = np.full((7, 7), np.inf)
    for p in range(1, 7):
        for w in range(1, 7):
            table[p, w] = 100 / w + 5 / p
    found = elastic(make([job("a", 2, 1), job("b", 1, 2)], [Node(8)]), (2, 12, 1), (1, 1, 0))
    servers = np.array([1, 0])
    plan = decide(predicted(found, table, None, servers=servers), config(sizing))
    assert gpus_of(plan) == {"a": 6, "b": 1}
    assert plan.servers is not None
    assert plan.servers.tolist() == [3, 0]


@pytest.mark.parametrize("sizing", ["drf", "tetris"])
def test_their_changes_of_size_are_not_weighed(sizing: str) -> None:
    found = elastic(make([job("a", 2, 1, state=RUNNING)], [Node(4)]), (1, 4, 1))
    assert [one.gpus for one in decide(predicted(found, FLAT), config(sizing)).resizes] == [4]


@given(predicted_states(), st.sampled_from(["drf", "tetris"]))
def test_sizes_are_possible_and_together_no_more_than_there_is(found: Snapshot, sizing: str) -> None:
    jobs = found.jobs
    sizes = SIZINGS[sizing].sizes(found, np.arange(len(jobs)))
    plan = decide(found, replace(config(sizing), name="las"))
    assert all(sizes[at] == jobs.gpus[at] or is_size(jobs, at, int(sizes[at])) for at in range(len(jobs)))
    held = int(jobs.gpus[jobs.state == RUNNING].sum())
    row_of = {each: at for at, each in enumerate(jobs.id)}
    victims = sum(int(jobs.gpus[row_of[one.job]]) for one in plan.preemptions)
    assert held - victims + sum(gpus_of(plan).values()) <= found.nodes.gpus.sum()
    assert all(jobs.movable[row_of[one.job]] for one in plan.resizes)
