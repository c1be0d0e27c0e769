"""A plan has the parameter servers of each start, for the GPUs that the sizing chose, and changes their number where that pays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.conftest import Builder
from tests.scheduler.size.test_minimum_first import elastic, job
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.estimates.fastest_servers import WORTH, fastest_counts
from tiresias.scheduler.model import JobState, Snapshot
from tiresias.scheduler.size.elastic_jobs import HYSTERESIS
from tiresias.scheduler.size.server_choice import with_gpus

make = Builder()
CONFIG = PolicyConfig(name="fifo", sizing="minimum_first")
BY_GPUS = np.array([0, 1, 1, 2, 3])


def test_a_start_has_the_servers_of_its_size() -> None:
    found = elastic(
        make([job("a", 1, 1), job("b", 1, 2), job("c", 1, 1)], [Builder.Node(6)]), (1, 4, 1), (2, 2, 1), (1, 1, 1)
    )
    servers = replace(found, jobs=replace(found.jobs, servers_by_gpus=(BY_GPUS, None, BY_GPUS)))
    starts = {
        start.job: (sum(gpus for _, gpus in start.nodes), start.servers) for start in decide(servers, CONFIG).starts
    }
    assert starts == {"a": (3, 2), "b": (2, 0), "c": (1, 1)}


@given(st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4), st.sets(st.integers(0, 3), min_size=1))
def test_the_fewest_servers_that_are_nearly_fastest(seconds: list[float], possible: set[int]) -> None:
    counts = sorted(possible)
    [found] = fastest_counts(np.array(seconds)[:, None], [counts])
    best = min(seconds[count] for count in counts)
    assert found in possible
    assert seconds[found] <= (1 + WORTH) * best
    assert all(seconds[count] > (1 + WORTH) * best for count in counts if count < found)


COST = 60.0
SIZING = PolicyConfig(name="fifo", sizing="marginal_gain", preemption_cost=COST)
BEST = 1000.0  # seconds left with the best number of servers


def runs(seconds_now: float, left: float = BEST, **more: object) -> Snapshot:
    """A job that has all four GPUs of the cluster, with one number of servers; with the best one it ends in `left` seconds."""
    found = elastic(make([job("a", 4, 1, state=JobState.RUNNING, **more)], [Builder.Node(4)]), (1, 4, 1))
    table = np.array([[np.inf, 4 * left, 2 * left, 1.5 * left, left]])
    jobs = replace(
        found.jobs, seconds_by_size=(table,), servers_by_gpus=(BY_GPUS,), seconds_now=np.array([seconds_now])
    )
    return replace(found, jobs=jobs)


@pytest.mark.parametrize("sizing", ["minimum_first", "marginal_gain", "weighted_gain"])
def test_another_number_of_servers_alone_where_it_gains_more_than_it_costs(sizing: str) -> None:
    config = replace(SIZING, sizing=sizing)
    for gain, resizes in ((HYSTERESIS * COST + 1.0, [("a", 4)]), (HYSTERESIS * COST - 1.0, []), (0.0, []), (-50.0, [])):
        assert [(one.job, one.gpus) for one in decide(runs(BEST + gain), config).resizes] == resizes, gain
    assert decide(runs(math.nan), config).resizes == (), "what the present number takes is not known"
    assert decide(runs(BEST + 200.0), replace(config, sizing="fixed")).resizes == ()


def test_a_gain_counts_within_an_hour() -> None:
    """Of ten hours a tenth counts: 1,000 s less are worth 100 s."""
    long = runs(37_000.0, left=36_000.0)
    assert decide(long, SIZING).resizes != ()
    assert decide(long, replace(SIZING, preemption_cost=70.0)).resizes == ()


def test_no_change_of_a_job_that_may_not_be_preempted_or_has_just_started() -> None:
    assert decide(runs(2 * BEST, movable=False), SIZING).resizes == ()
    started = runs(2 * BEST)
    recent = replace(
        started.jobs, last_start=np.array([started.time - 30.0]), progress_from=np.array([started.time - 30.0])
    )
    assert decide(replace(started, jobs=recent), SIZING).resizes == (), "its minimum run time is 60 s"


def test_servers_on_gpus_of_the_job() -> None:
    """Four GPUs: three servers and one worker take 1,000 s, two and two 500 s."""
    found = elastic(make([job("a", 4, 1, state=JobState.RUNNING)], [Builder.Node(4)]), (2, 4, 1))
    table = np.full((4, 4), np.inf)
    table[1, 1], table[2, 2], table[3, 1], table[1, 3] = 2000.0, 500.0, 1000.0, 800.0
    for servers, changes in ((3, 1), (2, 0)):
        jobs = replace(found.jobs, seconds_by_size=(table,), servers=np.array([servers]))
        plan = decide(replace(found, jobs=jobs), SIZING)
        assert [one.gpus for one in plan.resizes] == [4] * changes
        assert plan.servers is not None
        assert plan.servers.tolist() == [2]


def test_a_size_fits_where_the_cpus_of_its_servers_are_free() -> None:
    """With one GPU the job needs 8 CPUs for its servers, with four GPUs 4 for each; the node has 16 CPUs."""
    found = elastic(make([job("a", 1, 1)], [Builder.Node(4, cpus=16)]), (1, 4, 1))
    request = (replace(found.jobs.request[0], cpus_per_gpu=8.0, memory_per_gpu=80.0),)
    cpus = (np.array([0.0, 8.0, 8.0, 6.0, 4.0]),)
    served = replace(found, jobs=replace(found.jobs, request=request, servers_by_gpus=(BY_GPUS,), cpus_by_gpus=cpus))
    assert [(start.nodes, start.servers) for start in decide(served, CONFIG).starts] == [((("n0", 4),), 3)]
    [sized] = with_gpus(served.jobs, np.array([4])).request
    assert (sized.cpus_per_gpu, sized.memory_per_gpu) == (4.0, 40.0)
