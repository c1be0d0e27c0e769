"""Restarts on the nodes of last runs: nothing else of a decision changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import (
    build,
    capacity,
    many,
    policies,
    some_promises,
    styled_jobs,
    take,
    with_promises,
)
from tests.scheduler.test_decide import satisfied
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Plan, Request, Snapshot, Start

ALIKE = {"gpus": 4, "cpus": 64.0, "memory": 1000.0, "leaf": 0, "islands": 1}
kinds = st.sampled_from(
    [ALIKE, ALIKE, ALIKE | {"leaf": 1}, ALIKE | {"gpus": 8, "islands": 2}, ALIKE | {"usable": False}]
)
mostly_alike = st.lists(kinds, min_size=1, max_size=6)
some_names = st.lists(st.frozensets(st.integers(0, 9).map(lambda at: f"n{at}"), max_size=3), min_size=14, max_size=14)


def with_last_nodes(snapshot: Snapshot, names: Sequence[frozenset[str]]) -> Snapshot:
    jobs = snapshot.jobs
    return replace(snapshot, jobs=replace(jobs, last_nodes=tuple(names[: len(jobs)])))


def shape(snapshot: Snapshot, start: Start) -> tuple[object, ...]:
    """The job, and how many of its nodes have how many GPUs on which leaf switch and are a last resort."""
    leaf, rows = snapshot.nodes.topology.nearest_groups[0], snapshot.nodes.name.index
    resort = snapshot.nodes.last_resort
    assert resort is not None
    parts = Counter((int(leaf[rows(name)]), gpus, bool(resort[rows(name)])) for name, gpus in start.nodes)
    return start.job, sorted(parts.items())


def on_last(snapshot: Snapshot, plan: Plan) -> int:
    """How many nodes of starts are nodes of the last run."""
    last = dict(zip(snapshot.jobs.id, snapshot.jobs.last_nodes or (), strict=True))
    return sum(name in last[start.job] for start in plan.starts for name, _ in start.nodes)


@many
@given(styled_jobs, mostly_alike, policies, some_promises, some_names, st.lists(st.booleans(), min_size=8, max_size=8))
def test_nothing_but_the_names_of_nodes_changes(
    snapshot_of: Any, some: Any, where: Any, config: Any, promises: Any, names: Any, resort: Any
) -> None:
    plain = with_promises(build(snapshot_of, some, where), promises)
    plain = replace(plain, nodes=replace(plain.nodes, last_resort=np.array(resort[: len(plain.nodes)], bool)))
    warm = with_last_nodes(plain, names)
    before, after = decide(plain, config), decide(warm, config)
    assert (before.effect == after.effect).all()
    assert (before.rank == after.rank).all()
    assert (before.reserved, before.preemptions, before.why) == (after.reserved, after.preemptions, after.why)
    assert [shape(warm, start) for start in before.starts] == [shape(warm, start) for start in after.starts]
    assert on_last(warm, before) <= on_last(warm, after)
    assert all(satisfied(warm, start) for start in after.starts)
    now, later = capacity(warm), capacity(warm, True, [one.job for one in after.preemptions])
    assert (take(warm, now.copy(), after.starts) >= np.minimum(now, 0) - 1e-6).all()
    assert (take(warm, later.copy(), (*after.starts, *after.reserved)) >= np.minimum(later, 0) - 1e-6).all()


@many
@given(st.integers(1, 4), st.integers(2, 8), st.data())
def test_a_job_starts_on_all_of_its_last_nodes_that_are_free(
    snapshot_of: Any, size: int, nodes: int, data: Any
) -> None:
    count = min(size, nodes)
    last = data.draw(st.sets(st.integers(0, nodes - 1), min_size=count, max_size=count))
    snapshot = snapshot_of([snapshot_of.Job(id="7", gpus=4 * count)], [snapshot_of.Node()] * nodes)
    [start] = decide(with_last_nodes(snapshot, [frozenset(f"n{at}" for at in last)]), PolicyConfig()).starts
    assert start.nodes == tuple((f"n{at}", 4) for at in sorted(last))


def nodes_of(snapshot: Snapshot, *last: str) -> dict[str, tuple[str, ...]]:
    plan = decide(with_last_nodes(snapshot, [frozenset(name.split()) for name in last]), PolicyConfig())
    return {start.job: tuple(name for name, _ in start.nodes) for start in plan.starts}


def test_two_jobs_exchange_their_nodes(snapshot_of: Any) -> None:
    jobs = [snapshot_of.Job(id=name, gpus=4, submit=place) for place, name in enumerate("ab")]
    snapshot = snapshot_of(jobs, [snapshot_of.Node()] * 2)
    assert nodes_of(snapshot, "n1", "n0") == {"a": ("n1",), "b": ("n0",)}
    assert nodes_of(snapshot, "n1", "") == {"a": ("n1",), "b": ("n0",)}
    assert nodes_of(snapshot, "n1", "n1") == {"a": ("n0",), "b": ("n1",)}, "an exchange would gain nothing"
    assert nodes_of(snapshot, "n0 n1", "n1 gone") == {"a": ("n0",), "b": ("n1",)}


@pytest.mark.parametrize(
    "other",
    [
        {"leaf": 1},
        {"gpus": 8},
        {"type": "a100"},
        {"features": frozenset({"ib"})},
        {"usable": False},
        {"memory": 2e6},
        {"islands": 2},
    ],
)
def test_a_node_that_differs_is_not_taken(snapshot_of: Any, other: dict[str, Any]) -> None:
    snapshot = snapshot_of([snapshot_of.Job(id="a", gpus=4)], [snapshot_of.Node(), snapshot_of.Node(**other)])
    assert nodes_of(snapshot, "n1") == nodes_of(snapshot, "") == {"a": ("n0",)}


def test_requests_of_both_jobs_hold(snapshot_of: Any) -> None:
    first = snapshot_of.Job(id="a", gpus=4)
    for request in (Request(excluded=frozenset({"n0"})), Request(nodes=frozenset({"n1"}))):
        jobs = [first, snapshot_of.Job(id="b", gpus=4, submit=1.0, request=request)]
        snapshot = snapshot_of(jobs, [snapshot_of.Node()] * 2)
        assert nodes_of(snapshot, "n1", "") == {"a": ("n0",), "b": ("n1",)}, request


def test_a_last_resort_stays_one(snapshot_of: Any) -> None:
    snapshot = snapshot_of([snapshot_of.Job(id="a", gpus=4)], [snapshot_of.Node()] * 2)
    last_resort = np.array([False, True])
    snapshot = replace(snapshot, nodes=replace(snapshot.nodes, last_resort=last_resort))
    assert nodes_of(snapshot, "n1") == {"a": ("n0",)}
