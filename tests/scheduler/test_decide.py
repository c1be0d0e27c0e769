"""Laws of `decide` on random clusters."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.scheduler.config import ORDERS, PolicyConfig
from tiresias.scheduler.decide import decide, reason
from tiresias.scheduler.evict.protection import is_protected
from tiresias.scheduler.model import Effect, JobState, Plan, Preempt, Request, Snapshot, Start, Style
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.place.free_capacity import FreeCapacity, amounts
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.reasons import DRAINS
from tiresias.scheduler.resources import Resources

MOMENTS = st.sampled_from([10.0, 400.0, 700.0, 990.0])
SIZES = st.sampled_from([1, 1, 2, 3, 4, 8, 16, 40])

requests = st.builds(
    Request,
    min_nodes=st.integers(0, 3),
    max_nodes=st.sampled_from([0, 0, 1, 2, 4]),
    gpus_per_node=st.sampled_from([0, 0, 0, 1, 2, 4]),
    cpus_per_gpu=st.sampled_from([0.0, 1.0, 2.5, 8.0]),
    memory_per_gpu=st.sampled_from([0.0, 0.0, 100.0]),
    memory_per_node=st.sampled_from([0.0, 0.0, 150.0]),
    gpu_type=st.sampled_from(["", "", "a100"]),
    features=st.sampled_from([frozenset[str](), frozenset({"ib"})]),
    nodes=st.sampled_from([frozenset[str](), frozenset[str](), frozenset({"n0", "n2"})]),
    excluded=st.sampled_from([frozenset[str](), frozenset[str](), frozenset({"n1"})]),
)
jobs = st.fixed_dictionaries(
    {
        "gpus": SIZES,
        "state": st.sampled_from(
            [JobState.WAITING, JobState.WAITING, JobState.RUNNING, JobState.RUNNING, JobState.RELEASING]
        ),
        "attained": st.sampled_from([0.0, 100.0, 3199.0, 3200.0, 5000.0, 20000.0]),
        "ran": st.sampled_from([0.0, 50.0, 400.0]),
        "waited": st.sampled_from([0.0, 300.0, 900.0]),
        "submit": st.integers(0, 9).map(float),
        "first_start": MOMENTS,
        "last_start": MOMENTS,
        "preempted": st.one_of(MOMENTS, st.just(float("nan"))),
        "movable": st.sampled_from([True, True, True, False]),
        "eligible": st.sampled_from([True, True, True, False]),
        "preemption_cost": st.sampled_from([float("nan"), float("nan"), 5.0, 300.0, 1e9]),
        "progress_from": st.sampled_from([float("nan"), 995.0, 1000.0, 1e9]),
    }
)
nodes = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([0, 1, 4, 8]),
        "cpus": st.sampled_from([4.0, 16.0, 64.0]),
        "memory": st.sampled_from([200.0, 1000.0]),
        "usable": st.sampled_from([True, True, True, True, False]),
        "leaf": st.integers(0, 1),
        "type": st.sampled_from(["", "a100"]),
        "features": st.sampled_from([frozenset[str](), frozenset({"ib"})]),
        "islands": st.sampled_from([1, 1, 2, 4]),
    }
)
plain_nodes = st.fixed_dictionaries({"gpus": st.sampled_from([1, 2, 4, 8]), "leaf": st.integers(0, 1)})
policies = st.builds(
    PolicyConfig,
    name=st.sampled_from(sorted(POLICIES)),
    in_queue_order=st.sampled_from(ORDERS),
    thresholds=st.sampled_from([(3200.0,), (50.0, 3200.0, 10000.0)]),
    promote_knob=st.sampled_from([2.0, float("inf")]),
    min_run=st.sampled_from([0.0, 60.0]),
    min_run_cost_factor=st.sampled_from([0.0, 0.0, 2.0]),
    drain_limit=st.sampled_from([0.0, 3600.0]),
    defragment=st.sampled_from([0, 0, 3]),
)
styles = st.fixed_dictionaries(
    {
        "style": st.sampled_from([Style.CONSOLIDATE, Style.SPREAD]),
        "packed_until": st.sampled_from([-math.inf, -math.inf, 1200.0]),
    }
)
any_jobs = st.lists(st.tuples(jobs, requests), max_size=14)
styled_jobs = st.lists(st.tuples(st.builds(operator.or_, jobs, styles), requests), max_size=14)
any_nodes = st.lists(nodes, min_size=1, max_size=6)
many = settings(max_examples=80, deadline=None)


def build(snapshot_of: Any, of_jobs: Iterable[tuple[dict[str, Any], Request]], of_nodes: Iterable[Any]) -> Snapshot:
    made = [snapshot_of.Job(id=str(row), **job, request=request) for row, (job, request) in enumerate(of_jobs)]
    found: Snapshot = snapshot_of(made, [snapshot_of.Node(**node) for node in of_nodes])
    return found


def capacity(snapshot: Snapshot, releasing: bool = False, without: Iterable[str] = ()) -> np.ndarray:
    """What is free on each node, with what releasing jobs and the jobs `without` hold; shape (nodes, 3)."""
    on, held = snapshot.nodes, snapshot.allocations
    gone = {snapshot.jobs.id.index(job) for job in without}
    if releasing:
        gone |= set(np.flatnonzero(snapshot.jobs.state == JobState.RELEASING).tolist())
    free: np.ndarray = on.free.amount[:, :3].copy()
    for job, node, amount in zip(held.job, held.node, held.resources.amount[:, :3], strict=True):
        if int(job) in gone and on.usable[node]:
            free[node] += amount
    return free


def take(snapshot: Snapshot, free: np.ndarray, starts: Sequence[Start]) -> np.ndarray:
    for start in starts:
        for name, gpus in start.nodes:
            free[snapshot.nodes.name.index(name)] -= amounts(
                snapshot.jobs.request[snapshot.jobs.id.index(start.job)], gpus
            )
    return free


def satisfied(snapshot: Snapshot, start: Start) -> bool:
    """Whether the nodes are what the request asks for, read straight from its description."""
    row = snapshot.jobs.id.index(start.job)
    request, on = snapshot.jobs.request[row], snapshot.nodes
    at = [on.name.index(name) for name, _ in start.nodes]
    names, counts = {name for name, _ in start.nodes}, [gpus for _, gpus in start.nodes]
    return (
        sum(counts) == snapshot.jobs.gpus[row] and min(counts) > 0 and len(set(at)) == len(at)
        and len(at) >= request.min_nodes and (not request.max_nodes or len(at) <= request.max_nodes)
        and (not request.gpus_per_node or set(counts) == {request.gpus_per_node})
        and all(on.usable[node] for node in at)
        and all(on.gpu_type[node] == request.gpu_type for node in at if request.gpu_type)
        and all(request.features <= on.features[node] for node in at)
        and (not request.nodes or names <= request.nodes or request.nodes <= names)
        and not {on.name[node] for node in at} & request.excluded
    )  # fmt: skip


def in_order(plan: Plan, snapshot: Snapshot) -> list[int]:
    return sorted(range(len(snapshot.jobs)), key=lambda row: int(plan.rank[row]))


@many
@given(styled_jobs, any_nodes, policies)
def test_plan_is_possible(snapshot_of: Any, some: Any, where: Any, config: Any) -> None:
    """Never over capacity, whole jobs only, requests hold, and each job has the action that fits its state."""
    snapshot = build(snapshot_of, some, where)
    plan, of = decide(snapshot, config), snapshot.jobs
    assert (take(snapshot, capacity(snapshot), plan.starts) > -1e-6).all()
    victims = [one.job for one in plan.preemptions]
    everything = take(snapshot, capacity(snapshot, True, victims), (*plan.starts, *plan.reserved))
    assert (everything > -1e-6).all()
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
    placer, reserved = Placer(snapshot.nodes), {start.job for start in plan.reserved}
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
        name: getattr(of, name)[rows] if isinstance(getattr(of, name), np.ndarray) else
        tuple(getattr(of, name)[row] for row in rows)
        for name in of.__dataclass_fields__ if getattr(of, name) is not None
    }  # fmt: skip
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
    expected = config.queue_of(snapshot.jobs.attained) if queued else np.zeros(len(snapshot.jobs))
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


def test_a_job_that_fits_nowhere_has_another_reason_than_one_that_waits(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    snapshot = snapshot_of(
        [
            job("1", gpus=9),
            job("2", gpus=2, request=Request(features=frozenset({"nvlink"}))),
            job("3", gpus=4, request=Request(max_nodes=1), submit=5),
            job("4", gpus=2, state=JobState.RUNNING, movable=False),
        ],
        [node(), node(usable=False)],
    )
    plan = decide(snapshot, PolicyConfig("las"))
    words = [reason(plan, snapshot, row) for row in range(4)]
    assert words[0] == "can never run here: it asks for 9 GPUs, the managed nodes have 8"
    assert words[1].startswith("can never run here: no nodes")
    assert words[2].startswith("waits: ")
    assert words[3] == "runs, and may not be preempted now"


def test_fifo_keeps_the_order_but_skips_impossible_jobs(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    impossible = job("1", gpus=4, request=Request(gpus_per_node=3))
    snapshot = snapshot_of([impossible, job("2", gpus=3), job("3", gpus=2), job("4")], [node()])
    plan = decide(snapshot, PolicyConfig(name="fifo"))
    assert [start.job for start in plan.starts] == ["2"]
    assert reason(plan, snapshot, 3) == "waits in line: strict FIFO, and a job ahead of it does not fit"
    overtaking = decide(snapshot, PolicyConfig(name="best_effort"))
    assert [start.job for start in overtaking.starts] == ["2", "4"]


def test_a_reservation_is_not_given_to_lower_ranked_jobs(snapshot_of: Any) -> None:
    """Job 3 would fit on what is free, but job 2 ahead of it waits for exactly these GPUs and for those that job 1 releases."""
    job, node = snapshot_of.Job, snapshot_of.Node
    snapshot = snapshot_of(
        [job("1", gpus=2, state=JobState.RELEASING), job("2", gpus=4), job("3", gpus=2, submit=1)], [node()]
    )
    plan = decide(snapshot, PolicyConfig("las"))
    assert plan.starts == ()
    assert [start.job for start in plan.reserved] == ["2"]
    assert reason(plan, snapshot, 1) == "waits for job 1 to leave n0 (4 GPUs)"


def test_victims_are_the_lowest_ranked_on_nodes_that_help(snapshot_of: Any) -> None:
    """Job 9 needs a whole node. The node of job 4 also runs job 3, which ranks higher, so jobs 1 and 2 are preempted."""
    job, node = snapshot_of.Job, snapshot_of.Node
    running = {"state": JobState.RUNNING, "attained": 9000.0, "ran": 500.0, "last_start": 500.0}
    snapshot = snapshot_of(
        [
            job("1", gpus=2, first_start=100, placement=((0, 2),), **running),
            job("2", gpus=2, first_start=200, placement=((0, 2),), **running),
            job("3", gpus=2, first_start=50, placement=((1, 2),), **{**running, "attained": 0.0}),
            job("4", gpus=2, first_start=400, placement=((1, 2),), **running),
            job("9", gpus=4, request=Request(max_nodes=1)),
        ],
        [node(), node()],
    )
    plan = decide(snapshot, PolicyConfig("las", in_queue_order="first_start"))
    assert sorted(one.job for one in plan.preemptions) == ["1", "2"]
    assert {one.beneficiary for one in plan.preemptions} == {"9"}


def test_free_gpus_of_a_reservation_start_no_other_job(snapshot_of: Any) -> None:
    """Job 2 will take one GPU of n0 and three of n1, so job 3 may not start on both GPUs that are free on n0 now."""
    job, node = snapshot_of.Job, snapshot_of.Node
    snapshot = snapshot_of(
        [
            job("1", gpus=4, state=JobState.RELEASING, placement=((1, 4),)),
            job("2", gpus=4, request=Request(min_nodes=2)),
            job("3", gpus=2, submit=1),
        ],
        [node(gpus=2), node()],
    )
    plan = decide(snapshot, PolicyConfig("las"))
    assert plan.starts == ()
    assert plan.reserved == (Start("2", (("n0", 1), ("n1", 3))), Start("3", (("n0", 1), ("n1", 1))))


def test_higher_ranked_jobs_are_not_preempted_where_nodes_lack(snapshot_of: Any) -> None:
    job, node = snapshot_of.Job, snapshot_of.Node
    snapshot = snapshot_of(
        [
            job("1", gpus=4, state=JobState.RUNNING, first_start=100, last_start=100, placement=((0, 4),)),
            job("2", gpus=4, request=Request(nodes=frozenset({"n0"}))),
        ],
        [node(), node()],
    )
    plan = decide(snapshot, PolicyConfig("las"))
    assert plan.preemptions == ()
    assert reason(plan, snapshot, 1) == "waits: GPUs would be enough, but on no nodes that fit what it asks for"


def test_a_victim_that_is_not_needed_is_spared(snapshot_of: Any) -> None:
    """The last in order is too small; with the one before it preempted it is not needed."""
    job, node = snapshot_of.Job, snapshot_of.Node
    running = {"state": JobState.RUNNING, "attained": 9000.0, "ran": 500.0, "last_start": 500.0}
    snapshot = snapshot_of(
        [
            job("1", gpus=4, first_start=100, placement=((0, 4),), **running),
            job("2", gpus=1, first_start=200, placement=((0, 1),), **running),
            job("3", gpus=4, request=Request(nodes=frozenset({"n0"}), max_nodes=1)),
        ],
        [node(gpus=5), node()],
    )
    plan = decide(snapshot, PolicyConfig("las", in_queue_order="first_start"))
    assert plan.preemptions == (Preempt("1", "3"),)


def test_a_small_job_goes_on_beside_what_replaces_a_large_one(snapshot_of: Any) -> None:
    """Jobs 3 and 4 need three GPUs, so the walk gives up job 1 and keeps job 2, though job 2 ranks lower."""
    job, node = snapshot_of.Job, snapshot_of.Node
    running = {"state": JobState.RUNNING, "attained": 9000.0, "ran": 500.0, "last_start": 500.0}
    snapshot = snapshot_of(
        [
            job("1", gpus=3, first_start=100, placement=((0, 3),), **running),
            job("2", gpus=1, first_start=200, placement=((1, 1),), **running),
            job("3", gpus=1),
            job("4", gpus=2, submit=1),
        ],
        [node(gpus=3), node(gpus=1)],
    )
    plan = decide(snapshot, PolicyConfig("las", in_queue_order="first_start"))
    assert plan.preemptions == (Preempt("1", "3"),)
    assert [start.job for start in plan.reserved] == ["3", "4"]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_empty(snapshot_of: Any, name: Any) -> None:
    for snapshot in (snapshot_of([], [snapshot_of.Node()]), snapshot_of([snapshot_of.Job("1")], [])):
        plan = decide(snapshot, PolicyConfig(name=name))
        assert plan.actions == ()
        assert len(plan.effect) == len(snapshot.jobs)
