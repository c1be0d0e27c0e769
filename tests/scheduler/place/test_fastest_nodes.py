"""Placement by the speeds of nodes, as decisions use it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.conftest import Builder
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import ANYWHERE, JobState, Request, Snapshot, Style
from tiresias.scheduler.place.fastest_nodes import STEP
from tiresias.scheduler.place.placements import style_code
from tiresias.scheduler.place.placer import Placer
from tiresias.scheduler.place.speed_needs import (
    LOCALITY_PENALTY,
    NEVER_APART,
    ExpectedSpeed,
    SpeedNeeds,
    expected_speed,
)

FASTEST = style_code("fastest_nodes")
LAS = PolicyConfig("las")


def with_speeds(
    snapshot: Snapshot,
    slowness: Sequence[float] | None,
    sensitivity: Sequence[float] | None = None,
    style: int = FASTEST,
) -> Snapshot:
    nodes = replace(snapshot.nodes, slowness=None if slowness is None else np.array(slowness))
    styles = np.full(len(snapshot.jobs), style, np.int64)
    needs = None if sensitivity is None else np.array(sensitivity)
    return replace(snapshot, nodes=nodes, jobs=replace(snapshot.jobs, style=styles, speed_sensitivity=needs))


def nodes_of(snapshot: Snapshot) -> dict[str, tuple[tuple[str, int], ...]]:
    return {start.job: start.nodes for start in decide(snapshot, LAS).starts}


def test_sensitive_jobs_get_the_fast_nodes_and_others_leave_them(snapshot_of: Builder) -> None:
    jobs = [snapshot_of.Job(str(row), gpus=2) for row in range(4)]
    plain, slowness = snapshot_of(jobs, [snapshot_of.Node()] * 3), (1.5, 1.0, 0.9)
    found = nodes_of(with_speeds(plain, slowness, (0.0, 1.0, 1.0, 1.0)))
    assert found == {"0": (("n0", 2),), "1": (("n2", 2),), "2": (("n2", 2),), "3": (("n1", 2),)}
    assert nodes_of(with_speeds(plain, slowness, style=Style.CONSOLIDATE))["0"] == (("n0", 2),)


@pytest.mark.parametrize("slowness", [None, (1.0,) * 5, (1.004, 1.0, 0.999, 1.001, 1.0)])
def test_equal_nodes_mean_consolidate(snapshot_of: Builder, slowness: Sequence[float] | None) -> None:
    busy = snapshot_of.Job("1", gpus=3, state=JobState.RUNNING, placement=((0, 3),))
    jobs = [busy, *(snapshot_of.Job(str(gpus), gpus=gpus) for gpus in (2, 3, 4, 6))]
    plain = snapshot_of(jobs, [snapshot_of.Node(leaf=leaf) for leaf in (0, 0, 1, 1, 1)])
    assert nodes_of(with_speeds(plain, slowness)) == nodes_of(plain)


def test_a_gang_has_no_faster_nodes_than_its_slowest_one(snapshot_of: Builder) -> None:
    """Eight GPUs need two of the nodes that are not slow; the fastest node would wait for the other one."""
    plain = snapshot_of([snapshot_of.Job("1", gpus=8)], [snapshot_of.Node()] * 4)
    assert nodes_of(with_speeds(plain, (0.8, 1.0, 1.4, 1.0)))["1"] == (("n1", 4), ("n3", 4))


@pytest.mark.parametrize(("slow", "expected"), [(1.4, 1), (1.6, 2)])
def test_one_slow_node_is_better_than_two_fast_ones_up_to_the_penalty(
    snapshot_of: Builder, slow: float, expected: int
) -> None:
    snapshot = snapshot_of([], [snapshot_of.Node()] * 3)
    for penalty, nodes in ((LOCALITY_PENALTY, expected), (NEVER_APART, 1), (1.0, 2)):
        placer = Placer(with_speeds(snapshot, (slow, 1.0, 1.0)))
        kind = placer.kind(ANYWHERE, FASTEST, speed=SpeedNeeds(1.0, penalty))
        found = placer.place(kind, 4, placer.space(np.array([(4, 64, 1e6), (2, 64, 1e6), (2, 64, 1e6)], float)))
        assert found is not None
        assert len(found) == nodes


def test_a_restart_does_not_return_to_a_slow_node(snapshot_of: Builder) -> None:
    found = with_speeds(snapshot_of([snapshot_of.Job("1", gpus=2)], [snapshot_of.Node()] * 2), (1.5, 1.0))
    last = (frozenset({"n0"}),)
    assert nodes_of(replace(found, jobs=replace(found.jobs, last_nodes=last)))["1"] == (("n1", 2),)


def test_the_expected_speed_is_that_of_the_slowest_node(snapshot_of: Builder) -> None:
    plain = snapshot_of([snapshot_of.Job("1"), snapshot_of.Job("2")], [snapshot_of.Node()] * 3)
    found = with_speeds(plain, (1.0, 1.44, 1.2), (1.0, 0.5))
    assert expected_speed(found, 0, {0, 1}) == ExpectedSpeed(1.44, "n1", 1.0)
    assert expected_speed(found, 1, {1, 2}) == ExpectedSpeed(1.2, "n1", 0.5)
    assert expected_speed(plain, 0, {0}) is None


def cost(nodes: Sequence[int], steps: Sequence[int], leaf: Sequence[int], penalty: float) -> tuple[float, int, int]:
    """Return what the style minimises: the expected time in steps (levels first for a job that is never apart)."""
    level = 0 if len(nodes) == 1 else 1 if len({leaf[node] for node in nodes}) == 1 else 2
    slowest = max(steps[node] for node in nodes)
    if math.isinf(penalty):
        return (math.inf if level else slowest, level, slowest)
    return (round(level * math.log(penalty) / STEP + slowest, 6), level, slowest)


def possible_sets(fit: Sequence[int], gpus: int, request: Request, most: int) -> Iterator[tuple[int, ...]]:
    """Yield all sets of nodes on which the request can be placed."""
    each = request.gpus_per_node
    for count in range(max(request.min_nodes, 1), min(most, gpus, len(fit)) + 1):
        for nodes in combinations([node for node, free in enumerate(fit) if free >= max(each, 1)], count):
            if each * count == gpus if each else sum(fit[node] for node in nodes) >= gpus:
                yield nodes


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from([0.8, 0.9, 1.0, 1.01, 1.2, 1.5, 3.0])),
        min_size=1, max_size=6,
    ),
    st.integers(1, 12),
    st.builds(
        Request, min_nodes=st.integers(0, 3), max_nodes=st.integers(0, 4), gpus_per_node=st.sampled_from([0, 0, 1, 2, 4])
    ),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([1.0, LOCALITY_PENALTY, NEVER_APART]),
)  # fmt: skip
def test_it_is_the_best_of_all_placements(
    snapshot_of: Builder, rows: list[tuple[int, int, float]], gpus: int, request: Request, sensitivity: float,
    penalty: float,
) -> None:  # fmt: skip
    fit, leaf, slowness = zip(*rows, strict=True)
    leaf = np.unique(leaf, return_inverse=True)[1].reshape(-1).tolist()
    snapshot = with_speeds(snapshot_of([], [snapshot_of.Node(leaf=each) for each in leaf]), slowness)
    placer = Placer(snapshot)
    amount = np.array([(free, 64, 1e6) for free in fit], float)
    consolidated = placer.place(placer.kind(request), gpus, placer.space(amount))
    found = placer.place(
        placer.kind(request, FASTEST, speed=SpeedNeeds(sensitivity, penalty)), gpus, placer.space(amount)
    )
    most = len(consolidated or ()) if math.isinf(penalty) else request.max_nodes or gpus
    steps = np.rint(sensitivity * np.rint(np.log(slowness) / STEP)).astype(int).tolist()
    sets = [*possible_sets(fit, gpus, request, most)]
    assert (found is None) == (consolidated is None) == (not sets)
    if not found:
        return
    assert all(0 < share <= fit[node] for node, share in found)
    assert sum(share for _, share in found) == gpus
    assert not request.gpus_per_node or {share for _, share in found} == {request.gpus_per_node}
    best = min(cost(nodes, steps, leaf, penalty) for nodes in sets)
    assert cost([node for node, _ in found], steps, leaf, penalty) == best
