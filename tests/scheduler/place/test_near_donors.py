"""Donors under the same leaf switch are preferred, and nothing else changes by that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import any_nodes, build, many
from tests.scheduler.random_clusters import requests as some_requests
from tiresias.scheduler.model import Request, Snapshot
from tiresias.scheduler.place.free_capacity import free
from tiresias.scheduler.place.placer import Placer

lends = st.lists(st.sampled_from([0.0, 100.0, 400.0]), min_size=6, max_size=6)


def placed(snapshot: Snapshot, request: Request, gpus: int) -> Any:
    placer = Placer(snapshot)
    return placer.place(placer.kind(request), gpus, placer.space(free(snapshot.nodes)))


def with_donors(snapshot: Snapshot, lent: list[float]) -> Snapshot:
    return replace(snapshot, nodes=replace(snapshot.nodes, lendable=np.array(lent[: len(snapshot.nodes)])))


def test_a_job_starts_where_its_leaf_switch_has_the_memory(snapshot_of: Any) -> None:
    nodes = [snapshot_of.Node(gpus=2), snapshot_of.Node(), snapshot_of.Node(leaf=1), snapshot_of.Node(leaf=1)]
    snapshot = with_donors(snapshot_of([], nodes), [0.0, 0.0, 100.0, 100.0])
    assert placed(snapshot, Request(), 1) == ((0, 1),)
    assert placed(snapshot, Request(remote_memory=100.0), 1) == ((2, 1),)
    assert placed(snapshot, Request(remote_memory=150.0), 1) == ((0, 1),)  # no leaf switch has it
    assert placed(snapshot, Request(remote_memory=150.0, nodes=frozenset({"n3"})), 1) is None  # n2 has 100 only


def test_jobs_of_one_decision_take_the_memory_of_a_leaf_switch_in_turn(snapshot_of: Any) -> None:
    nodes = [snapshot_of.Node(leaf=leaf) for leaf in (0, 0, 1, 1)]
    placer = Placer(with_donors(snapshot_of([], nodes), [100.0] * 4))
    kind, space = placer.kind(Request(remote_memory=100.0)), placer.space(free(snapshot_of([], nodes).nodes))
    found = []
    for _ in range(2):
        placement = placer.place(kind, 1, space)
        assert placement is not None
        space.take(kind, placement)
        found.append(placement[0][0])
    assert [node // 2 for node in found] == [0, 1]


@many
@given(any_nodes, some_requests, st.sampled_from([1, 2, 4, 8]), lends, st.sampled_from([50.0, 300.0]))
def test_the_preference_costs_no_start_and_no_node(
    snapshot_of: Any, of_nodes: Any, request: Request, gpus: int, lent: list[float], remote: float
) -> None:
    snapshot = with_donors(build(snapshot_of, [], of_nodes), lent)
    asked = replace(request, remote_memory=remote)
    without, found = placed(snapshot, request, gpus), placed(snapshot, asked, gpus)
    if found is None:
        return
    assert without is not None
    assert sum(share for _, share in found) == gpus
    lendable = np.array(lent[: len(snapshot.nodes)])
    if all(lendable.sum() - lendable[node] >= remote / len(without) for node, _ in without):
        assert len(found) <= len(without)
    assert all(lendable.sum() - lendable[node] >= remote / len(found) - 1e-3 for node, _ in found)


@many
@given(any_nodes, some_requests, st.sampled_from([1, 2, 4, 8]))
def test_a_job_that_fits_starts_where_every_node_lends_enough(
    snapshot_of: Any, of_nodes: Any, request: Request, gpus: int
) -> None:
    snapshot = build(snapshot_of, [], [*of_nodes, {"gpus": 0, "leaf": 0}, {"gpus": 0, "leaf": 1}])
    shown = replace(snapshot, nodes=replace(snapshot.nodes, lendable=np.full(len(snapshot.nodes), 1e5)))
    remote = replace(request, remote_memory=50.0)
    assert (placed(snapshot, request, gpus) is None) == (placed(shown, remote, gpus) is None)
