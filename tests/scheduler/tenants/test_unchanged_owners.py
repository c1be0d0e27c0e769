"""A rule that keeps the decisions of virtual clusters decides as a new one, whatever happens between two decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.tenants.cluster_replay import ClusterReplay
from tests.scheduler.tenants.shared_cluster import DECLARED, Drawn, cluster_of, tenants_of
from tests.scheduler.tenants.test_kept_state import EFFORT, LIMITED, later, shown, shown_part, words_of
from tests.scheduler.tenants.test_virtual_cluster_rule import FIFO, LAS, replayed, small_jobs
from tiresias.scheduler.model import Jobs, JobState, Plan, Request, Snapshot
from tiresias.scheduler.pool_decisions import KeptPool, NodePool
from tiresias.scheduler.pools import part_of
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.scheduler.table_rows import rows_of
from tiresias.scheduler.tenants.virtual_cluster_rule import VirtualClusterRule

Event = Callable[[Snapshot, int], Snapshot]


def _with(snapshot: Snapshot, **columns: Any) -> Snapshot:
    return replace(snapshot, jobs=replace(snapshot.jobs, **columns))


def _flipped(name: str) -> Event:
    def flip(snapshot: Snapshot, at: int) -> Snapshot:
        values = getattr(snapshot.jobs, name)
        values = np.ones(len(snapshot.jobs), np.bool_) if values is None else values.copy()
        values[at % len(values)] ^= True
        return _with(snapshot, **{name: values})

    return flip


def _other_request(snapshot: Snapshot, at: int) -> Snapshot:
    requests = list(snapshot.jobs.request)
    name = snapshot.nodes.name[at % len(snapshot.nodes)]
    requests[at % len(requests)] = Request(excluded=frozenset({name})) if at % 2 else Request(cpus_per_gpu=1.0)
    return _with(snapshot, request=tuple(requests))


def _without_one(snapshot: Snapshot, at: int) -> Snapshot:
    """A waiting job has been cancelled, and all jobs after it are one row further up."""
    waits = np.flatnonzero(snapshot.jobs.state == JobState.WAITING)
    if not len(waits) or len(snapshot.jobs) == 1:
        return snapshot
    rows = np.delete(np.arange(len(snapshot.jobs)), waits[at % len(waits)])
    config = LAS["one"]
    return part_of(snapshot, NodePool(rows, np.arange(len(snapshot.nodes)), config, POLICIES[config.name]))


def _in_other_rows(snapshot: Snapshot, at: int) -> Snapshot:
    """All jobs are in other rows."""
    order = np.roll(np.arange(len(snapshot.jobs)), at)
    held = replace(snapshot.allocations, job=np.argsort(order)[snapshot.allocations.job])
    jobs: Jobs = rows_of(snapshot.jobs, order)
    return replace(snapshot, jobs=jobs, allocations=held)


def _less_memory(snapshot: Snapshot, at: int) -> Snapshot:
    """CPUs and memory of a node are in use, of which no job is shown."""
    amount = snapshot.nodes.free.amount.copy()
    amount[at % len(amount), 1:3] = (at % 3, 10.0)
    return replace(snapshot, nodes=replace(snapshot.nodes, free=replace(snapshot.nodes.free, amount=amount)))


def _other_amounts(snapshot: Snapshot, at: int) -> Snapshot:
    """A job holds more memory on a node."""
    held = snapshot.allocations
    if not len(held.job):
        return snapshot
    amount = held.resources.amount.copy()
    amount[at % len(amount), 2] += 1.0
    return replace(snapshot, allocations=replace(held, resources=replace(held.resources, amount=amount)))


def _last_resort(snapshot: Snapshot, at: int) -> Snapshot:
    avoided = np.arange(len(snapshot.nodes)) == at % len(snapshot.nodes)
    return replace(snapshot, nodes=replace(snapshot.nodes, last_resort=avoided))


def _slow(snapshot: Snapshot, at: int) -> Snapshot:
    slowness = np.where(np.arange(len(snapshot.nodes)) == at % len(snapshot.nodes), 2.0, 1.0)
    return replace(snapshot, nodes=replace(snapshot.nodes, slowness=slowness))


def _sunk(snapshot: Snapshot, at: int) -> Snapshot:
    attained = snapshot.jobs.attained.copy()
    attained[at % len(attained)] += 60.0
    return _with(snapshot, attained=attained)


EVENTS: Mapping[str, Event] = {
    "eligible": _flipped("eligible"),
    "movable": _flipped("movable"),
    "opportunistic": _flipped("opportunistic"),
    "request": _other_request,
    "cancelled": _without_one,
    "rows": _in_other_rows,
    "memory": _less_memory,
    "amounts": _other_amounts,
    "last resort": _last_resort,
    "slow": _slow,
    "sunk": _sunk,
    "time": lambda snapshot, at: later(snapshot, float(at)),
    "none": lambda snapshot, _: snapshot,
}
events = st.lists(
    st.tuples(st.sampled_from(list(EVENTS)), st.integers(0, 11), st.sampled_from([FIFO, LAS, LIMITED, EFFORT, None])),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(40), deadline=None)
@given(drawn=small_jobs, happens=events, in_turn=st.booleans())
def test_a_rule_with_kept_decisions_decides_as_a_new_one(
    snapshot_of: Any, drawn: list[tuple[str, int, int, int]], happens: list[tuple[str, int, Any]], in_turn: bool
) -> None:
    """In each state of a replay, and after events that change it. `in_turn`: one event happens after the other."""
    rule, left = VirtualClusterRule(DECLARED), [*happens] * 3

    def compare(snapshot: Snapshot, _: Plan) -> None:
        now = snapshot
        for _step in range(2):
            if left and len(now.jobs):
                name, at, policy = left.pop()
                now = EVENTS[name](now if in_turn else snapshot, at)
                check(rule, now, policy)

    ClusterReplay(snapshot_of, rule, tenants_of(LAS), replayed(drawn, 1), compare).run()


def check(rule: VirtualClusterRule, snapshot: Snapshot, policy: Any) -> None:
    """Compare a kept rule with a new one."""
    tenants = tenants_of(policy) if policy else tenants_of()
    (plan, parts), (expected, others) = (
        each.decide(snapshot, tenants) for each in (rule, VirtualClusterRule(DECLARED))
    )
    assert shown(plan) == shown(expected)
    assert list(map(shown_part, parts)) == list(map(shown_part, others))
    rows = range(len(snapshot.jobs))
    assert [words_of(plan, row) for row in rows] == [words_of(expected, row) for row in rows]


def test_the_decisions_of_other_virtual_clusters_are_kept(snapshot_of: Any) -> None:
    """A job of `one` that waits is cancelled: `two`, of which a job could start, sees nothing new."""
    waits = [Drawn("one", 8, JobState.WAITING, 0.0, 0, False), Drawn("two", 8, JobState.WAITING, 0.0, 0, False)]
    snapshot, rule, tenants = cluster_of(snapshot_of, waits), VirtualClusterRule(DECLARED), tenants_of(LAS)
    _, first = rule.decide(snapshot, tenants)
    _, again = rule.decide(_without_one(snapshot, 0), tenants)
    assert isinstance(again[1], KeptPool)
    assert again[1].plan.actions is first[1].plan.actions
    assert again[1].snapshot.jobs.id == ("1",)
