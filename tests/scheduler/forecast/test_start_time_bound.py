"""No job waits longer than its start-time bound: `decide` is replayed forward, with jobs that end at any time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.config import ORDERS, PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.evict.protection import minimum
from tiresias.scheduler.forecast.forecast_words import forecast_in_words
from tiresias.scheduler.forecast.start_time_bound import latest_start, must_be_held
from tiresias.scheduler.model import JobState, Plan, Request, Snapshot
from tiresias.scheduler.next_change import next_change

NOW = 1000.0
LAS = PolicyConfig(
    "las", thresholds=(400.0,), min_run=0.0, min_run_cost_factor=0.0, starve_limit=math.inf, drain_limit=0.0
)
Bounding = Callable[..., tuple[float, str]]


@pytest.fixture
def of(snapshot_of: Any) -> Any:
    """A waiting job, or with `runs` one that holds GPUs."""

    def job(gpus: int = 1, attained: float = 0.0, runs: bool = False, **more: Any) -> Any:
        state = JobState.RUNNING if runs else JobState.WAITING
        return snapshot_of.Job(
            "", gpus, state, attained, attained / gpus, last_start=NOW - 1 if runs else math.nan, **more
        )

    return job


@pytest.fixture
def bound(snapshot_of: Any) -> Bounding:
    """Seconds from now, of the last job; and why."""

    def found(jobs: list[Any], config: PolicyConfig = LAS, nodes: int = 1) -> tuple[float, str]:
        jobs = [replace(job, id=str(number)) for number, job in enumerate(jobs)]
        at, why = latest_start(snapshot_of(jobs, [snapshot_of.Node(4)] * nodes, NOW), config, len(jobs) - 1)
        return at - NOW, forecast_in_words(why)

    return found


def test_a_job_waits_until_the_one_ahead_has_had_its_share(of: Any, bound: Bounding) -> None:
    assert bound([of(4, runs=True), of()])[0] == 100.0
    assert bound([of(4, 300.0, runs=True), of()])[0] == 25.0
    assert bound([of(4, runs=True), of(4)])[0] == 400.0  # one GPU held by the other job keeps it waiting


def test_all_that_could_come_before_it_count(of: Any, bound: Bounding) -> None:
    assert bound([of(4, runs=True), of(2), of(4, 500.0), of()])[0] == 200.0


def test_a_job_of_one_node_can_be_kept_from_each_of_them(of: Any, bound: Bounding) -> None:
    one = Request(max_nodes=1)
    assert bound([of(4, runs=True), of(4, runs=True), of(4, request=one)], nodes=2)[0] == 800 / 2
    assert bound([of(4, runs=True), of(4, runs=True), of(2, request=one)], nodes=2)[0] == pytest.approx(800 / 6)


@pytest.mark.parametrize(
    ("job", "config", "why"),
    [
        ({"attained": 400.0}, LAS, "in the last queue"),
        ({"eligible": False}, LAS, "it may not be started yet"),
        ({}, replace(LAS, name="fifo"), "under the policy fifo"),
        ({"gpus": 9}, LAS, "or it is not there"),
        ({"request": Request(nodes=frozenset({"elsewhere"}))}, LAS, "or it is not there"),
    ],
)
def test_there_may_be_none(of: Any, bound: Bounding, job: dict[str, Any], config: PolicyConfig, why: str) -> None:
    seconds, words = bound([of(4, runs=True), of(**job)], config)
    assert seconds == math.inf
    assert why in words


def test_jobs_that_may_not_be_preempted_keep_what_they_have(of: Any, bound: Bounding) -> None:
    assert bound([of(4, 500.0, runs=True, movable=False), of()])[0] == math.inf
    assert bound([of(2, 500.0, runs=True, movable=False), of(2, runs=True), of()])[0] == 400 / 2


def test_a_promotion_bounds_the_wait_in_the_last_queue(of: Any, bound: Bounding) -> None:
    seconds, why = bound([of(4, 500.0, runs=True), of(1, 500.0, waited=900.0)], replace(LAS, starve_limit=1000.0))
    assert seconds == 100.0
    assert "promoted in 100 s" in why


def test_jobs_that_may_be_promoted_first_count(of: Any, bound: Bounding) -> None:
    config = replace(LAS, starve_limit=1000.0)
    first = of(4, runs=True, waited=0.0)
    assert bound([first, of(waited=0.0)], config)[0] == 100.0
    assert bound([first, of(4, 500.0, waited=950.0), of(waited=0.0)], config)[0] == 200.0


def test_the_minimum_run_time_of_lower_ranked_jobs_counts(of: Any, bound: Bounding) -> None:
    assert bound([of(4, 500.0, runs=True), of()], replace(LAS, min_run=31.0))[0] == 30.0


def test_the_minimum_run_time_of_higher_ranked_jobs_counts_when_they_sink_before_it_ends(
    of: Any, bound: Bounding
) -> None:
    assert bound([of(4, 300.0, runs=True), of()], replace(LAS, min_run=31.0))[0] == 30.0
    assert bound([of(4, 200.0, runs=True), of()], replace(LAS, min_run=31.0))[0] == 50.0


def test_cpus_count(snapshot_of: Any, of: Any) -> None:
    node, mine = snapshot_of.Node(4, cpus=16.0), of(request=Request(cpus_per_gpu=1.0, max_nodes=1))
    for hunger, held in ((8.0, 2), (4.0, 4), (0.0, 4)):
        other = of(runs=True, request=Request(cpus_per_gpu=hunger))
        assert must_be_held(snapshot_of([other, mine], [node], NOW), 1) == held


def test_a_job_that_may_sit_anywhere_is_kept_out_by_cpus_alone(snapshot_of: Any, of: Any) -> None:
    """8 CPUs and 4 GPUs a node, 4 CPUs a GPU: each node is worth 2 GPUs to it, so 4 GPUs of others leave it all it needs."""
    nodes, mine = [snapshot_of.Node(4, cpus=8.0)] * 4, of(gpus=4, request=Request(cpus_per_gpu=4.0))
    other = of(runs=True, request=Request(cpus_per_gpu=4.0))
    assert must_be_held(snapshot_of([other, mine], nodes, NOW), 1) == 8 - 4 + 1


def test_a_node_without_enough_memory_is_spoiled_already(snapshot_of: Any, of: Any) -> None:
    """Others whose GPUs take no memory need not hold any there."""
    small, large = snapshot_of.Node(4, memory=100.0), snapshot_of.Node(4, memory=1000.0)
    mine, other = of(gpus=4, request=Request(memory_per_node=500.0, max_nodes=1)), of(runs=True)
    assert must_be_held(snapshot_of([other, mine], [large, small], NOW), 1) == 1
    assert must_be_held(snapshot_of([other, mine], [small, small], NOW), 1) == 0


@dataclass
class World:
    """Jobs end after `work` more GPU-seconds; a preemption takes no time.

    calm: seconds that a job waited while no new run was protected by its minimum run time.
    """

    build: Any
    jobs: list[Any]
    work: list[float]
    nodes: list[Any]
    config: PolicyConfig
    now: float = NOW
    started: set[str] = field(default_factory=set)
    calm: dict[str, float] = field(default_factory=dict)

    def seen(self) -> Snapshot:
        found: Snapshot = self.build(self.jobs, self.nodes, self.now)
        return found

    def settle(self) -> None:
        """Decides until nothing moves any more."""
        for _ in range(50):
            plan = decide(self.seen(), self.config)
            if not (plan.starts or plan.preemptions or plan.promoted):
                return
            self._carry_out(plan)
        raise AssertionError("decisions that never end")

    def _carry_out(self, plan: Plan) -> None:
        gone, row_of = (
            {one.job for one in plan.preemptions},
            {name: row for row, name in enumerate(self.seen().nodes.name)},
        )
        placed = {
            one.job: tuple((row_of[node], gpus) for node, gpus in one.nodes) for one in (*plan.starts, *plan.reserved)
        }
        for row, job in enumerate(self.jobs):
            if job.id in plan.promoted:
                job = replace(job, attained=0.0, ran=0.0, waited=0.0)
            if job.id in gone:
                job = replace(job, state=JobState.WAITING, preempted=self.now, placement=None)
            if job.id in placed:
                first = self.now if math.isnan(job.first_start) else job.first_start
                job = replace(
                    job, state=JobState.RUNNING, placement=placed[job.id], first_start=first, last_start=self.now
                )
                self.started.add(job.id)
            self.jobs[row] = job

    def advance(self, end: float) -> None:
        """To the next moment at which something may change."""
        running = [job.state == JobState.RUNNING for job in self.jobs]
        over = [work / job.gpus for job, work, runs in zip(self.jobs, self.work, running, strict=True) if runs]
        then = min(next_change(self.seen(), self.config), self.now + min(over, default=math.inf), end)
        new = [job for job, runs in zip(self.jobs, running, strict=True) if runs and job.id in self.started]
        protected = any(self.now < job.last_start + minimum(self.config, math.nan) for job in new)
        self._pass(max(then - self.now, 1e-3), protected)

    def _pass(self, seconds: float, protected: bool) -> None:
        for row, job in enumerate(self.jobs):
            if job.state == JobState.RUNNING:
                self.work[row] -= seconds * job.gpus
                self.jobs[row] = replace(job, attained=job.attained + seconds * job.gpus, ran=job.ran + seconds)
            else:
                self.calm[job.id] = self.calm.get(job.id, 0.0) + (0.0 if protected else seconds)
                self.jobs[row] = replace(job, waited=job.waited + seconds)
        self.now += seconds
        left = [row for row, work in enumerate(self.work) if work > 1e-6]
        self.jobs, self.work = [self.jobs[row] for row in left], [self.work[row] for row in left]


plain = st.just(Request())
asking = st.builds(
    Request,
    max_nodes=st.sampled_from([0, 1, 2]),
    cpus_per_gpu=st.sampled_from([0.0, 1.0, 4.0]),
    memory_per_node=st.sampled_from([0.0, 0.0, 100.0]),
    excluded=st.sampled_from([frozenset(), frozenset({"n0"})]),
)
configs = st.builds(
    PolicyConfig,
    thresholds=st.sampled_from([(400.0,), (100.0, 1000.0)]),
    in_queue_order=st.sampled_from(ORDERS),
    min_run=st.sampled_from([0.0, 30.0]),
    min_run_cost_factor=st.sampled_from([0.0, 0.0, 1.0]),
    preemption_cost=st.just(40.0),
    starve_limit=st.sampled_from([math.inf, math.inf, 300.0]),
    promote_knob=st.sampled_from([math.inf, math.inf, 2.0]),
    drain_limit=st.sampled_from([0.0, 10.0]),
)
# Few nodes, few sizes, jobs that mostly never end: then others often keep a job out for as long as they can.
some_nodes = st.lists(
    st.tuples(st.sampled_from([2, 4]), st.sampled_from([8.0, 64.0]), st.sampled_from([300.0, 1e6])),
    min_size=1,
    max_size=3,
)
some_jobs = st.lists(
    st.fixed_dictionaries({
        "gpus": st.sampled_from([1, 2, 4, 4]), "attained": st.sampled_from([0.0, 0.0, 0.0, 50.0, 500.0]),
        "state": st.sampled_from([JobState.WAITING, JobState.RUNNING]), "waited": st.sampled_from([0.0, 250.0]),
        "submit": st.floats(0, 400), "movable": st.sampled_from([True] * 9 + [False]), "request": plain | asking,
        "work": st.sampled_from([80.0, 333.0, math.inf, math.inf, math.inf]),
    }),
    min_size=2, max_size=7,
)  # fmt: skip


def world(build: Any, jobs: list[dict[str, Any]], nodes: list[tuple[int, float, float]], config: PolicyConfig) -> World:
    made = [
        _job(build, str(number), **{name: one[name] for name in one if name != "work"})
        for number, one in enumerate(jobs)
    ]
    where = [build.Node(gpus, cpus, memory) for gpus, cpus, memory in nodes]
    seen = build(made, where, NOW)
    for row, job in enumerate(made):
        mine = np.flatnonzero(seen.allocations.job == row)
        gpus = seen.allocations.resources["gpus"][mine].astype(int)
        placed = tuple(
            zip(
                seen.allocations.node[mine].tolist(),
                gpus.tolist(),
                strict=True,
            )
        )
        state = JobState.RUNNING if placed else JobState.WAITING
        made[row] = replace(job, state=state, placement=placed or None, movable=job.movable or not placed)
    return World(build, made, [one["work"] for one in jobs], where, config)


def _job(build: Any, job_id: str, gpus: int, attained: float, state: JobState, **more: Any) -> Any:
    ran = attained / gpus
    start = NOW - ran if state == JobState.RUNNING or attained else math.nan
    back = NOW if state == JobState.WAITING and attained else math.nan
    return build.Job(job_id, gpus, state, attained, ran, first_start=start, last_start=start, preempted=back, **more)


@settings(deadline=None, max_examples=examples(100))
@given(some_jobs, some_nodes, configs)
def test_no_job_waits_longer_than_its_bound_whichever_jobs_end(
    snapshot_of: Any, jobs: list[dict[str, Any]], nodes: list[tuple[int, float, float]], config: PolicyConfig
) -> None:
    replayed = world(snapshot_of, jobs, nodes, config)
    snapshot, waits = replayed.seen(), [job.state == JobState.WAITING for job in replayed.jobs]
    bounds = {
        snapshot.jobs.id[row]: latest_start(snapshot, config, row).at - NOW for row in np.flatnonzero(waits).tolist()
    }
    bounds = {job: seconds for job, seconds in bounds.items() if seconds < 1e5}
    last = NOW + 3 * max(bounds.values(), default=0.0) + 100.0
    replayed.settle()
    while replayed.now < last and (left := bounds.keys() - replayed.started):
        replayed.advance(last)
        for job in left:
            assert replayed.calm.get(job, 0.0) <= bounds[job] + 0.1, job
        replayed.settle()
