"""Running elastic jobs that release GPUs for others: those that go on at once with fewer are resized, the others are preempted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.conftest import Builder, Job
from tests.scheduler.size.test_minimum_first import elastic, gpus_of, job
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Effect, JobState, Plan, Preempt, Resize, Snapshot
from tiresias.scheduler.reasons import reason

make, Node = Builder(), Builder.Node
LAS = replace(PolicyConfig.paper("las"), sizing="minimum_first", preemption_cost=60.0)


def crowded(gpus: int, most: int = 8, least: int = 2) -> Snapshot:
    """Job a runs on all 8 GPUs of a node; job b, which has run for a shorter time, requests some of them."""
    a = job("a", 8, 1, state=JobState.RUNNING, attained=1e5, ran=1e4, placement=((0, 8),))
    return elastic(make([a, job("b", gpus, 2)], [Node(8)]), (least, most, 1), (gpus, gpus, 0))


def test_a_job_that_goes_on_with_fewer_gpus_is_resized_for_its_beneficiary() -> None:
    found = crowded(6)
    plan = decide(found, LAS)
    assert plan.actions == (Resize("a", 2, beneficiary="b"),)
    assert plan.preemptions == (Preempt("a", "b"),)
    assert [(start.job, start.nodes) for start in plan.reserved] == [("b", (("n0", 6),))]
    assert plan.effect.tolist() == [Effect.PREEMPT, Effect.WAIT]
    assert reason(plan, found, 0).startswith("goes on with 2 GPUs, so that others are free for job b: ")


def test_a_job_for_which_too_few_gpus_are_left_is_preempted() -> None:
    found = crowded(7)
    plan = decide(found, LAS)
    assert plan.actions == (Preempt("a", "b"),)
    assert reason(plan, found, 0).startswith("gives way to job b: ")


def test_a_job_of_a_fixed_size_is_preempted() -> None:
    assert decide(crowded(4), replace(LAS, sizing="fixed")).actions == (Preempt("a", "b"),)
    assert decide(crowded(4, most=8, least=8), LAS).actions == (Preempt("a", "b"),)


RUNNING = st.tuples(
    st.integers(1, 3), st.integers(1, 4), st.floats(0.0, 1e5), st.booleans()
)  # steps, step, attained, elastic
WAITING = st.integers(1, 10)
CLUSTERS = st.sampled_from([[8], [4, 4], [8, 4], [4, 4, 4, 4]])


@given(CLUSTERS, st.lists(RUNNING, min_size=1, max_size=4), st.lists(WAITING, min_size=1, max_size=3))
def test_the_next_decision_starts_each_resized_job(
    nodes: list[int], running: list[tuple[int, int, float, bool]], waiting: list[int]
) -> None:
    jobs = [
        job(f"r{at}", steps * step, at, state=JobState.RUNNING, attained=attained, ran=1e4, last_start=0.0)
        for at, (steps, step, attained, _) in enumerate(running)
    ] + [job(f"w{at}", gpus, 10 + at) for at, gpus in enumerate(waiting)]
    sizes = [(step, 2 * steps * step, step) if is_elastic else (1, 1, 0) for steps, step, _, is_elastic in running]
    sizes += [(gpus, gpus, 0) for gpus in waiting]
    found = elastic(make(jobs, [Node(gpus) for gpus in nodes]), *sizes)
    jobs = [replace(one, state=JobState(state)) for one, state in zip(jobs, found.jobs.state.tolist(), strict=True)]
    plan = decide(found, LAS)
    resized = {one.job: one.gpus for one in plan.releases if isinstance(one, Resize)}
    for name, gpus in resized.items():
        assert gpus < found.jobs.gpus[found.jobs.id.index(name)]
    if len(resized) < len(plan.resizes):
        return  # jobs of which others change their size for no one in particular
    after = elastic(make([changed(one, plan, found) for one in jobs], [Node(gpus) for gpus in nodes]), *sizes)
    started = gpus_of(decide(after, LAS))  # the size is found anew: what the other victims do is known then
    assert started.keys() >= resized.keys(), (started, resized)


def changed(one: Job, plan: Plan, snapshot: Snapshot) -> Job:
    """Return a job once the plan is carried out: victims wait, and jobs with nodes run there."""
    placed = {start.job: start.nodes for start in (*plan.starts, *plan.reserved)}
    if one.id in placed:
        place = tuple((snapshot.nodes.name.index(node), gpus) for node, gpus in placed[one.id])
        return replace(one, state=JobState.RUNNING, placement=place, gpus=sum(gpus for _, gpus in place))
    if one.id in {release.job for release in plan.releases}:
        return replace(one, state=JobState.WAITING, preempted=snapshot.time)
    held = snapshot.allocations
    rows = np.flatnonzero(held.job == snapshot.jobs.id.index(one.id))
    gpus = held.resources["gpus"][rows].astype(int).tolist()
    return replace(one, placement=tuple(zip(held.node[rows].tolist(), gpus, strict=True)) or None)
