"""The sizing `minimum_first`, and when running elastic jobs change their size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.conftest import Builder
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import JobState, Plan, Snapshot
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.size.elastic_jobs import is_size
from tiresias.scheduler.size.minimum_first import MINIMUM_FIRST

make = Builder()
Job, Node = Builder.Job, Builder.Node
CONFIG = PolicyConfig(name="fifo", sizing="minimum_first", preemption_cost=60.0)


def elastic(snapshot: Snapshot, *sizes: tuple[int, int, int]) -> Snapshot:
    """Return the snapshot with the sizes (least, most, step) of its jobs; step 0: a fixed size."""
    least, most, step = np.array(sizes, np.int64).reshape(-1, 3).T
    return replace(snapshot, jobs=replace(snapshot.jobs, min_gpus=least, max_gpus=most, gpu_step=step))


def job(name: str, gpus: int, submit: float, **more: Any) -> Any:
    return Job(name, gpus, submit=submit, **more)


def gpus_of(plan: Plan) -> dict[str, int]:
    return {start.job: sum(gpus for _, gpus in start.nodes) for start in plan.starts}


def test_an_elastic_job_gets_all_that_is_left() -> None:
    found = make([job("a", 2, 1), job("b", 4, 2)], [Node(8), Node(8)])
    assert gpus_of(decide(elastic(found, (1, 16, 1), (4, 4, 0)), CONFIG)) == {"a": 12, "b": 4}


def test_what_is_left_goes_to_the_job_with_the_fewest_gpus() -> None:
    found = make([job("a", 2, 1), job("b", 2, 2)], [Node(8)])
    assert gpus_of(decide(elastic(found, (2, 8, 2), (1, 8, 1)), CONFIG)) == {"a": 4, "b": 4}


def test_a_job_that_fits_nowhere_at_its_size_starts_with_its_fewest_gpus() -> None:
    request = replace(job("a", 4, 1).request, gpus_per_node=4)
    found = make([job("a", 4, 1, request=request), job("b", 2, 0)], [Node(4), Node(4), Node(4)])
    plan = decide(elastic(found, (4, 12, 4), (2, 2, 0)), CONFIG)
    assert gpus_of(plan) == {"b": 2, "a": 8}


def test_a_running_job_shrinks_for_a_waiting_one_and_grows_into_idle_gpus() -> None:
    running = job("a", 8, 1, state=JobState.RUNNING, movable=True, ran=600.0)
    shrinks = elastic(make([running, job("b", 4, 2)], [Node(8)]), (2, 8, 2), (4, 4, 0))
    assert [(one.job, one.gpus) for one in decide(shrinks, CONFIG).resizes] == [("a", 4)]
    grows = elastic(make([running], [Node(8), Node(8)]), (2, 16, 4))
    assert [(one.job, one.gpus) for one in decide(grows, CONFIG).resizes] == [("a", 16)]
    costly = replace(CONFIG, preemption_cost=300.0)
    assert decide(grows, costly).resizes == (), "it costs as much as it gains in the 600 s that it is expected to run"
    assert decide(grows, replace(CONFIG, sizing="fixed")).resizes == ()


def test_a_job_does_not_grow_where_the_nodes_with_idle_gpus_lack_cpus() -> None:
    """Eight GPUs are idle on the second node, whose CPUs an unmanaged job holds."""
    request = replace(job("a", 8, 1).request, cpus_per_gpu=4.0)
    running = job("a", 8, 1, state=JobState.RUNNING, movable=True, ran=600.0, request=request, placement=((0, 8),))
    found = elastic(make([running], [Node(8), Node(8)]), (2, 16, 4))
    free = found.nodes.free.amount.copy()
    free[0, 1:2], free[1, 1] = 0.0, 64.0
    roomy = replace(found, nodes=replace(found.nodes, free=Resources(free)))
    assert [(one.job, one.gpus) for one in decide(roomy, CONFIG).resizes] == [("a", 16)]
    free = free.copy()
    free[1, 1] = 8.0
    lacking = replace(found, nodes=replace(found.nodes, free=Resources(free)))
    assert decide(lacking, CONFIG).resizes == ()


def test_with_the_sizing_fixed_an_elastic_job_waits_for_the_gpus_that_it_requests() -> None:
    found = elastic(make([job("a", 2, 2), job("b", 2, 1)], [Node(3)]), (1, 4, 1), (2, 2, 0))
    assert gpus_of(decide(found, CONFIG)) == {"a": 1, "b": 2}
    assert gpus_of(decide(found, replace(CONFIG, sizing="fixed"))) == {"b": 2}


def test_a_job_that_cannot_be_preempted_keeps_its_size() -> None:
    running = job("a", 8, 1, state=JobState.RUNNING, movable=False)
    found = elastic(make([running, job("b", 4, 2)], [Node(8)]), (2, 8, 2), (4, 4, 0))
    assert decide(found, CONFIG).resizes == ()


def test_jobs_between_two_runs_keep_their_share() -> None:
    """Others do not grow into GPUs that a job releases to start again with another size."""
    stays = job("a", 8, 1, state=JobState.RUNNING, ran=3600.0)
    for other in (
        job("b", 8, 2, state=JobState.RELEASING, movable=False),
        job("b", 8, 2, eligible=False, preempted=995.0),
    ):
        found = elastic(make([stays, other], [Node(16)], time=1000.0), (1, 16, 1), (1, 16, 1))
        assert decide(found, CONFIG).resizes == ()
    gone = job("b", 8, 2, eligible=False, preempted=900.0)
    found = elastic(make([stays, gone], [Node(16)], time=1000.0), (1, 16, 1), (1, 16, 1))
    assert [(one.job, one.gpus) for one in decide(found, CONFIG).resizes] == [("a", 16)]


def test_as_few_jobs_shrink_as_a_waiting_one_needs() -> None:
    running = [job(name, 5, at, state=JobState.RUNNING, ran=600.0) for at, name in enumerate("abc")]
    found = elastic(make([*running, job("d", 1, 4)], [Node(15)]), *[(1, 8, 1)] * 3, (1, 1, 0))
    assert [(one.job, one.gpus) for one in decide(found, CONFIG).resizes] == [("c", 4)]


def test_no_job_changes_its_size_before_its_minimum_run_time() -> None:
    recent = job("a", 8, 1, state=JobState.RUNNING, last_start=990.0)
    found = elastic(make([recent, job("b", 4, 2)], [Node(8)], time=1000.0), (2, 8, 2), (4, 4, 0))
    assert decide(found, replace(CONFIG, min_run=60.0)).resizes == ()
    assert decide(found, replace(CONFIG, min_run=5.0, min_run_cost_factor=0.0)).resizes != ()


@st.composite
def states(draw: st.DrawFn) -> Snapshot:
    nodes = [Node(draw(st.sampled_from([2, 4, 8]))) for _ in range(draw(st.integers(1, 4)))]
    jobs, sizes = [], []
    for number in range(draw(st.integers(1, 8))):
        step, gpus = draw(st.integers(0, 3)), draw(st.integers(1, 8))
        least, most = max(gpus - step * draw(st.integers(0, 3)), 1), gpus + step * draw(st.integers(0, 4))
        state = draw(st.sampled_from([JobState.WAITING, JobState.RUNNING]))
        jobs.append(job(str(number), gpus, number, state=state, movable=draw(st.booleans())))
        sizes.append((least, most, step))
    return elastic(make(jobs, nodes), *sizes)


@given(states(), st.sampled_from(["fifo", "las"]))
def test_sizes_are_possible_and_never_more_than_there_is(found: Snapshot, name: str) -> None:
    jobs, total = found.jobs, int(found.nodes.gpus.sum())
    sizes = MINIMUM_FIRST.sizes(found, np.arange(len(jobs)))
    plan = decide(found, replace(CONFIG, name=name))
    for row in range(len(jobs)):
        assert sizes[row] == jobs.gpus[row] or is_size(jobs, row, int(sizes[row]))
    row_of = {name: row for row, name in enumerate(jobs.id)}
    started = gpus_of(plan)
    for name_, gpus in started.items():
        row = row_of[name_]
        assert gpus == jobs.gpus[row] or is_size(jobs, row, gpus)
    held = jobs.gpus[(jobs.state == JobState.RUNNING)].sum()
    victims = sum(int(jobs.gpus[row_of[one.job]]) for one in plan.preemptions)
    assert held - victims + sum(started.values()) <= total
    for one in plan.resizes:
        row = row_of[one.job]
        assert jobs.movable[row]
        assert jobs.state[row] == JobState.RUNNING
        assert is_size(jobs, row, one.gpus)
        assert one.gpus != jobs.gpus[row]


def test_a_step_stays_where_it_is_when_the_order_changes() -> None:
    running = [job("a", 3, 1, state=JobState.RUNNING), job("b", 2, 2, state=JobState.RUNNING)]
    found = elastic(make(running, [Node(5)]), (1, 8, 1), (1, 8, 1))
    assert MINIMUM_FIRST.sizes(found, np.array([1, 0])).tolist() == [3, 2]
