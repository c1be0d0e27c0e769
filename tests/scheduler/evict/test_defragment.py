"""Defragmentation: the cheapest jobs are preempted, only where the gain exceeds the cost, and only where they fit elsewhere."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide, reason
from tiresias.scheduler.evict.defragment import Defragmenter, moments, prices
from tiresias.scheduler.model import Allocations, Effect, JobState, Request, Snapshot, Style
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.place.free_capacity import Holdings
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.placement_requests import PlacementRequests
from tiresias.scheduler.resources import Resources

NOW = 10_000.0
SITE = PolicyConfig("las", defragment=2)  # a move costs 60 s


def cluster(snapshot_of: Any, waited: float = 200.0, **mover: Any) -> Snapshot:
    """Two nodes of four GPUs, each with a job of two GPUs that runs on any nodes, and a waiting job that needs a whole node."""
    moves = {"ran": 5000.0, "attained": 10_000.0, "last_start": 5000.0, "style": Style.SPREAD} | mover
    small = [
        snapshot_of.Job(
            f"small{node}", gpus=2, state=JobState.RUNNING, placement=((node, 2),), first_start=5000.0, **moves
        )
        for node in (0, 1)
    ]
    since = NOW - waited
    large = snapshot_of.Job("large", gpus=4, submit=since, packed_until=since + 300.0, attained=20_000.0)
    made: Snapshot = snapshot_of([*small, large], [snapshot_of.Node()] * 2, time=NOW)
    return made


def test_the_next_moment_is_when_a_waiting_job_has_waited_for_as_long_as_the_moves_cost(snapshot_of: Any) -> None:
    """Neither a running job nor one that runs on any nodes waits for a move."""
    snapshot = cluster(snapshot_of, waited=70.0)
    since = NOW - 70.0
    assert moments(snapshot, 0, 60.0) == math.inf
    assert moments(snapshot, 1, 60.0) == math.inf
    assert moments(snapshot, 2, 60.0) == since + 120.0
    assert moments(snapshot, 1, 100.0) == since + 100.0
    spread = replace(snapshot, jobs=replace(snapshot.jobs, style=np.full(3, Style.SPREAD)))
    assert moments(spread, 2, 60.0) == math.inf
    recent = replace(snapshot, jobs=replace(snapshot.jobs, submit=np.array([NOW - 1.0, NOW - 1.0, since])))
    assert moments(recent, 2, 60.0) == since + 120.0, "the two that run do not count"


def test_one_job_is_preempted_and_the_large_one_gets_its_node(snapshot_of: Any) -> None:
    snapshot = cluster(snapshot_of)
    plan = decide(snapshot, SITE)
    (gone,) = plan.preemptions
    assert gone.beneficiary == "large"
    (start,) = plan.reserved
    (node,) = start.nodes
    assert start.job == "large"
    assert node == (f"n{gone.job[-1]}", 4)
    other = f"n{1 - int(gone.job[-1])}"
    row = snapshot.jobs.id.index(gone.job)
    assert reason(plan, snapshot, row) == (f"Preempted to defragment nodes for job large; it fits on {other} (2 GPUs)")
    assert reason(plan, snapshot, 2) == f"waits for job {gone.job} to release n{gone.job[-1]} (4 GPUs)"


def test_the_paper_has_none_of_it(snapshot_of: Any) -> None:
    assert not decide(cluster(snapshot_of), PolicyConfig.paper()).preemptions


@pytest.mark.parametrize(
    ("why", "waited", "mover"),
    [
        ("it has not waited for as long as a move costs", 50.0, {}),
        ("it takes two nodes in 50 s anyway", 250.0, {}),
        ("they end sooner, by what is estimated", 200.0, {"ran": 40.0}),
        ("they have not earned a move since they started", 200.0, {"last_start": NOW - 500.0}),
        ("they are consolidated for a reason", 200.0, {"style": Style.CONSOLIDATE}),
        ("they cannot save", 200.0, {"movable": False}),
    ],
)
def test_no_job_is_preempted(snapshot_of: Any, why: Any, waited: Any, mover: Any) -> None:
    _stays(cluster(snapshot_of, waited, **mover), why)


def test_a_job_that_fits_on_no_other_node_is_not_preempted(snapshot_of: Any) -> None:
    snapshot = cluster(snapshot_of)
    pinned = tuple(Request(nodes=frozenset({node})) for node in snapshot.nodes.name)
    _stays(replace(snapshot, jobs=replace(snapshot.jobs, request=(*pinned, snapshot.jobs.request[2]))), "pinned")


def _stays(snapshot: Snapshot, why: str) -> None:
    plan = decide(snapshot, SITE)
    assert not plan.preemptions, why
    assert "waits for all its GPUs on one node" in reason(plan, snapshot, 2)


def test_what_a_move_costs_is_the_movers_own_where_it_was_measured(snapshot_of: Any) -> None:
    snapshot = cluster(snapshot_of)
    dear = replace(snapshot, jobs=replace(snapshot.jobs, preemption_cost=np.array([190.0, 70.0, np.nan])))
    assert [gone.job for gone in decide(dear, SITE).preemptions] == ["small1"]


def test_a_decision_is_due_when_the_wait_has_become_worth_a_move(snapshot_of: Any) -> None:
    recent = cluster(snapshot_of, waited=20.0)
    assert next_change(recent, SITE) == NOW - 20.0 + 60.0
    assert next_change(recent, replace(SITE, defragment=0)) == NOW - 20.0 + 300.0


@given(st.data())
def test_the_cheapest_of_all_for_a_job_on_one_node(snapshot_of: Any, data: Any) -> None:
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=8))
    small = [
        snapshot_of.Job(str(at), gpus=gpus, state=JobState.RUNNING, style=Style.SPREAD, last_start=0.0, ran=9e3)
        for at, (gpus, _) in enumerate(sizes)
    ]
    nodes = [snapshot_of.Node(gpus=data.draw(st.sampled_from([2, 4, 8]))) for _ in range(3)]
    snapshot = snapshot_of([*small, snapshot_of.Job("large", gpus=data.draw(st.integers(1, 8)))], nodes, time=NOW)
    runs = snapshot.jobs.state == JobState.RUNNING
    cost = np.array([*(10.0 + 7 * extra for _, extra in sizes), 0.0])
    jobs = replace(snapshot.jobs, preemption_cost=cost)
    mess = _defragmenter(replace(snapshot, jobs=jobs), runs)
    kind, gpus = mess.requests.of(len(sizes)), int(jobs.gpus[-1])
    assume(mess.placer.possible(kind, gpus) and mess.placer.fewest(kind, gpus) == 1)
    movers = np.flatnonzero(runs).tolist()
    sets = [rows for size in range(mess.most + 1) for rows in combinations(movers, size)]
    enough = [float(cost[list(rows)].sum()) for rows in sets if _fits(mess, list(rows), gpus)]
    found = mess.cheapest(kind, gpus)
    if not enough:
        assert not found
    elif not found:
        assert _fits(mess, [], gpus)
    else:
        assert _fits(mess, found, gpus)
        assert float(cost[found].sum()) == min(enough)


def _defragmenter(snapshot: Snapshot, runs: np.ndarray) -> Defragmenter:
    placer, on = Placer(snapshot), snapshot.nodes
    free = on.free.amount[:, :3]
    price = prices(snapshot, runs, 60.0)
    assert np.array_equal(price < math.inf, runs)

    requests = PlacementRequests(snapshot, placer)
    return Defragmenter(snapshot.jobs, placer, Holdings(snapshot), free, price, 2, requests)


def _fits(mess: Defragmenter, gone: list[int], gpus: int) -> bool:
    freed = mess.holdings.on_nodes(np.array(gone, int))[:, 0] if gone else 0.0
    return bool((mess.free[:, 0] + freed >= gpus).any())


def test_moved_jobs_start_again_at_once(snapshot_of: Any) -> None:
    """The next decisions: while the preempted job releases its GPUs the nodes stay reserved, then both start."""
    first = cluster(snapshot_of)
    (gone,) = decide(first, SITE).preemptions
    row = first.jobs.id.index(gone.job)
    state = first.jobs.state.copy()
    state[row] = JobState.RELEASING
    plan = decide(replace(first, jobs=replace(first.jobs, state=state)), SITE)
    assert [start.job for start in plan.reserved] == ["large"]
    assert plan.effect[2] == Effect.WAIT
    free, held = first.nodes.free.amount.copy(), first.allocations
    free[row, 0] += 2
    state[row] = JobState.WAITING
    others = np.delete(np.arange(len(held.job)), row)
    gap = replace(
        first,
        jobs=replace(first.jobs, state=state),
        nodes=replace(first.nodes, free=Resources(free)),
        allocations=Allocations(held.job[others], held.node[others], held.resources.rows(others)),
    )
    assert {start.job for start in decide(gap, SITE).starts} == {"large", gone.job}
