"""Random clusters for the laws of `decide`: strategies of Hypothesis, and what is free on the nodes of a snapshot."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.config import ORDERS, PolicyConfig
from tiresias.scheduler.model import JobState, Request, Snapshot, Start, Style
from tiresias.scheduler.place.free_capacity import amounts
from tiresias.scheduler.rank.policies import POLICIES
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
some_promises = st.lists(st.sampled_from([0, 0, 0, 1, 4]), min_size=6, max_size=6)
many = settings(max_examples=examples(80), deadline=None)


def build(snapshot_of: Any, of_jobs: Iterable[tuple[dict[str, Any], Request]], of_nodes: Iterable[Any]) -> Snapshot:
    made = [snapshot_of.Job(id=str(row), **job, request=request) for row, (job, request) in enumerate(of_jobs)]
    found: Snapshot = snapshot_of(made, [snapshot_of.Node(**node) for node in of_nodes])
    return found


def with_promises(snapshot: Snapshot, gpus: Iterable[int]) -> Snapshot:
    """The snapshot with so many GPUs of each node promised to other jobs: below 0 free where jobs still hold them."""
    amount = snapshot.nodes.free.amount.copy()
    amount[:, 0] -= np.where(snapshot.nodes.usable, list(itertools.islice(gpus, len(amount))), 0)
    return replace(snapshot, nodes=replace(snapshot.nodes, free=Resources(amount)))


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
