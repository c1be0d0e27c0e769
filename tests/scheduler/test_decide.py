"""Laws of `decide` on random clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import (
    any_jobs,
    any_nodes,
    build,
    capacity,
    jobs,
    many,
    plain_nodes,
    policies,
    some_promises,
    styled_jobs,
    take,
    with_promises,
)
from tiresias.scheduler.decide import decide, reason
from tiresias.scheduler.evict.protection import is_protected
from tiresias.scheduler.model import Effect, JobState, Plan, Request, Snapshot, Start
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.place.free_capacity import FreeCapacity, amounts
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.rank.las_order import queue_of
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.reasons import DRAINS
from tiresias.scheduler.resources import Resources


def satisfied(snapshot: Snapshot, start: Start) -> bool:
    """Whether the nodes are what the request asks for, read straight from its description."""
    row = snapshot.jobs.id.index(start.job)
    request, on = snapshot.jobs.request[row], snapshot.nodes
    at = [on.name.index(name) for name, _ in start.nodes]
    names, counts = {name for name, _ in start.nodes}, [gpus for _, gpus in start.nodes]
    return (
        sum(counts) == snapshot.jobs.gpus[row]
        and min(counts) > 0
        and len(set(at)) == len(at)
        and len(at) >= request.min_nodes
        and (not request.max_nodes or len(at) <= request.max_nodes)
        and (not request.gpus_per_node or set(counts) == {request.gpus_per_node})
        and all(on.usable[node] for node in at)
        and all(on.gpu_type[node] == request.gpu_type for node in at if request.gpu_type)
        and all(request.features <= on.features[node] for node in at)
        and (not request.nodes or names <= request.nodes or request.nodes <= names)
        and not {on.name[node] for node in at} & request.excluded
    )


def in_order(plan: Plan, snapshot: Snapshot) -> list[int]:
    return sorted(range(len(snapshot.jobs)), key=lambda row: int(plan.rank[row]))


@many
@given(styled_jobs, any_nodes, policies, some_promises)
def test_plan_is_possible(snapshot_of: Any, some: Any, where: Any, config: Any, promises: Any) -> None:
    """Never over capacity, whole jobs only, requests hold, and each job has the action that fits its state."""
    snapshot = with_promises(build(snapshot_of, some, where), promises)
    plan, of = decide(snapshot, config), snapshot.jobs
    victims = [one.job for one in plan.preemptions]
    now, later = capacity(snapshot), capacity(snapshot, True, victims)
    assert (take(snapshot, now.copy(), plan.starts) >= np.minimum(now, 0) - 1e-6).all()
    assert (take(snapshot, later.copy(), (*plan.starts, *plan.reserved)) >= np.minimum(later, 0) - 1e-6).all()
    assert all(satisfied(snapshot, start) for start in (*plan.starts, *plan.reserved))
    allowed = {
        JobState.WAITING: {Effect.WAIT, Effect.START},
        JobState.RUNNING: {Effect.KEEP, Effect.PREEMPT},
        JobState.RELEASING: {Effect.RELEASE},
    }
    assert all(plan.effect[row] in allowed[of.state[row]] for row in range(len(of)))
    by_action = {
        action: sorted(of.id[row] for row in np.flatnonzero(plan.effect == action).tolist()) for action in Effect
    }
    assert by_action[Effect.START] == sorted(start.job for start in plan.starts)
    assert by_action[Effect.PREEMPT] == sorted(victims)
    assert {start.job for start in plan.reserved} <= set(by_action[Effect.WAIT])
    assert sorted(plan.rank.tolist()) == list(range(len(of)))
    assert all(of.eligible[of.id.index(start.job)] for start in (*plan.starts, *plan.reserved))
    assert all(reason(plan, snapshot, row) for row in range(len(of)))
    assert next_change(snapshot, config) > snapshot.time or bool(plan.promoted)


@many
@given(styled_jobs, any_nodes, policies)
def test_only_jobs_that_may_be_preempted_are(snapshot_of: Any, some: Any, where: Any, config: Any) -> None:
    snapshot = build(snapshot_of, some, where)
    plan, of = decide(snapshot, config), snapshot.jobs
    for one in plan.preemptions:
        row = of.id.index(one.job)
        assert POLICIES[config.name].preempts
        assert of.state[row] == JobState.RUNNING
        assert of.movable[row]
        assert of.preemption_cost is not None
        assert of.progress_from is not None
        cost = config.preemption_cost if math.isnan(of.preemption_cost[row]) else of.preemption_cost[row]
        needed = max(config.min_run, min(config.min_run_cost_factor * cost, config.protection_limit))
        step = of.last_start[row] if math.isnan(of.progress_from[row]) else of.progress_from[row]
        late = min(step - of.last_start[row], config.protection_limit) if needed else 0.0
        assert snapshot.time - of.last_start[row] - late >= needed


@many
@given(styled_jobs, any_nodes, policies)
def test_no_useless_preemption(snapshot_of: Any, some: Any, where: Any, config: Any) -> None:
    """Without the GPUs of any one victim the starts and reservations do not fit, and each beneficiary has a reservation."""
    snapshot = build(snapshot_of, some, where)
    plan = decide(snapshot, config)
    victims = [one.job for one in plan.preemptions]
    reserved = {start.job: start for start in plan.reserved}
    for one in plan.preemptions:
        assert one.beneficiary in reserved
        others = [victim for victim in victims if victim != one.job]
        left = take(snapshot, capacity(snapshot, True, others), (*plan.starts, *plan.reserved))
        assert (left < -1e-6).any()


@many
@given(any_jobs, any_nodes, policies)
def test_waiting_jobs_that_fit_start(snapshot_of: Any, some: Any, where: Any, config: Any) -> None:
    """Nothing idles needlessly: what is free after the plan, reservations apart, is enough for no waiting job, except those
    that rank below a job for which GPUs are kept free."""
    snapshot = build(snapshot_of, some, where)
    if config.name == "fifo":
        return
    plan, of = decide(snapshot, config), snapshot.jobs
    victims = [one.job for one in plan.preemptions]
    later = take(snapshot, capacity(snapshot, True, victims), (*plan.starts, *plan.reserved))
    now = np.minimum(take(snapshot, capacity(snapshot), plan.starts), later)
    placer, reserved = Placer(snapshot), {start.job for start in plan.reserved}
    freed = int(later[:, 0].sum()) if victims else 0
    last = min((int(plan.rank[row]) for row, why in plan.why.items() if why == DRAINS), default=len(of))
    for row in np.flatnonzero((plan.effect == Effect.WAIT) & of.eligible & (plan.rank < last)).tolist():
        if of.id[row] not in reserved and of.gpus[row] > freed:
            assert placer.place(placer.kind(of.request[row]), int(of.gpus[row]), FreeCapacity(now)) is None


@many
@given(styled_jobs, any_nodes, policies, st.randoms(use_true_random=False))
def test_order_of_rows_changes_nothing(snapshot_of: Any, some: Any, where: Any, config: Any, random: Any) -> None:
    snapshot = build(snapshot_of, some, where)
    rows = list(range(len(snapshot.jobs)))
    random.shuffle(rows)
    assert outcome(decide(snapshot, config), snapshot) == outcome(
        decide(shuffled(snapshot, rows), config), shuffled(snapshot, rows)
    )


def shuffled(snapshot: Snapshot, rows: list[int]) -> Snapshot:
    of, held = snapshot.jobs, snapshot.allocations
    columns: dict[str, Any] = {
        name: getattr(of, name)[rows]
        if isinstance(getattr(of, name), np.ndarray)
        else tuple(getattr(of, name)[row] for row in rows)
        for name in of.__dataclass_fields__
        if getattr(of, name) is not None
    }
    new = {old: place for place, old in enumerate(rows)}
    job = np.array([new[int(row)] for row in held.job], dtype=np.int64)
    return replace(snapshot, jobs=replace(of, **columns), allocations=replace(held, job=job))


def outcome(plan: Plan, snapshot: Snapshot) -> tuple[object, ...]:
    of = snapshot.jobs
    by_id = {of.id[row]: (int(plan.effect[row]), int(plan.queue[row]), int(plan.rank[row])) for row in range(len(of))}
    return by_id, plan.starts, plan.reserved, set(plan.preemptions), set(plan.promoted)


@many
@given(any_jobs, any_nodes, policies)
def test_lower_queue_goes_first(snapshot_of: Any, some: Any, where: Any, config: Any) -> None:
    snapshot = build(snapshot_of, some, where)
    plan = decide(snapshot, config)
    queues = [int(plan.queue[row]) for row in in_order(plan, snapshot)]
    assert queues == sorted(queues)
    queued = config.name in ("las", "gittins")
    expected = queue_of(snapshot.jobs.attained, config) if queued else np.zeros(len(snapshot.jobs))
    promoted = {snapshot.jobs.id.index(job) for job in plan.promoted}
    assert all(plan.queue[row] == (0 if row in promoted else expected[row]) for row in range(len(snapshot.jobs)))


def pseudocode_2(queue: Sequence[tuple[str, int]], available: int) -> set[str]:
    """Lines 9 to 18 for jobs in order over all queues: (id, W_J). Those that are not in P."""
    marked = set()
    for job, gpus in queue:
        if available >= gpus:
            available -= gpus
            marked.add(job)
    return marked


plain_jobs = st.lists(st.tuples(jobs, st.just(Request())), max_size=20)


@many
@given(
    plain_jobs,
    st.lists(plain_nodes, min_size=1, max_size=5),
    policies.map(lambda one: replace(one, name="las", drain_limit=0.0)),
)
def test_settles_as_the_paper_selects(snapshot_of: Any, some: Any, where: Any, config: Any) -> None:
    """Where jobs may run anywhere: the jobs that run after starts and preemptions are those that pseudocode 2 marks."""
    snapshot = build(snapshot_of, some, where)
    plan, of = decide(snapshot, config), snapshot.jobs
    fixed = of.state == JobState.RUNNING
    moving = fixed & of.movable & ~is_protected(snapshot, config)
    fixed &= ~moving
    walks = [
        row
        for row in in_order(plan, snapshot)
        if moving[row] or (of.state[row] == JobState.WAITING and of.eligible[row])
    ]
    total = sum(node["gpus"] for node in where) - int(of.gpus[fixed].sum())
    expected = pseudocode_2([(of.id[row], int(of.gpus[row])) for row in walks], total)
    kept = {of.id[row] for row in np.flatnonzero((plan.effect == Effect.KEEP) & moving).tolist()}
    assert kept | {start.job for start in (*plan.starts, *plan.reserved)} == expected


@many
@given(styled_jobs, any_nodes, policies)
def test_no_other_job_is_preempted_while_victims_release_their_gpus(
    snapshot_of: Any, some: Any, where: Any, config: Any
) -> None:
    """The next decision, with the victims releasing their GPUs and the starts running, finds nothing to preempt or start."""
    config = replace(config, promote_knob=float("inf"), in_queue_order="first_start")
    snapshot = build(snapshot_of, some, where)
    plan = decide(snapshot, config)
    after = carried_out(snapshot, plan)
    again = decide(after, config)
    if not plan.preemptions or all(request == Request() for _, request in some):
        assert again.preemptions == ()
    assert {start.job for start in plan.reserved} <= {start.job for start in (*again.starts, *again.reserved)}


def carried_out(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Starts are running, as in the controller's snapshot of a start under way; victims release their GPUs."""
    of, held, on = snapshot.jobs, snapshot.allocations, snapshot.nodes
    state, first, last = of.state.copy(), of.first_start.copy(), of.last_start.copy()
    free = take(snapshot, capacity(snapshot), plan.starts)
    rows = [
        [job, node, *amount]
        for job, node, amount in zip(held.job, held.node, held.resources.amount[:, :3], strict=True)
    ]
    for start in plan.starts:
        row = of.id.index(start.job)
        state[row], last[row] = JobState.RUNNING, snapshot.time
        first[row] = snapshot.time if np.isnan(first[row]) else first[row]
        rows += [[row, on.name.index(name), *amounts(of.request[row], gpus)] for name, gpus in start.nodes]
    for one in plan.preemptions:
        state[of.id.index(one.job)] = JobState.RELEASING
    found = np.array(rows, dtype=float).reshape(-1, 5)
    amount, islands = Resources(found[:, 2:]), held.resources.islands
    if islands.shape[1]:  # those of the new ones are not reported yet
        added = np.zeros((len(rows) - len(held.job), islands.shape[1]))
        amount = amount.with_islands(np.concatenate((islands, added)))
    allocations = type(held)(found[:, 0].astype(int), found[:, 1].astype(int), amount)
    return replace(
        snapshot,
        jobs=replace(of, state=state, first_start=first, last_start=last),
        nodes=replace(on, free=_as_before(on.free, free)),
        allocations=allocations,
    )


def _as_before(free: Resources, left: np.ndarray) -> Resources:
    """`left`: shape (nodes, 3). The GPUs of islands stay as they were."""
    return Resources(left).with_islands(free.islands) if free.islands.shape[1] else Resources(left)
