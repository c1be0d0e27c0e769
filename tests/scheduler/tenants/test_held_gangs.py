"""What two snapshots show of the jobs with GPUs, compared in columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.job_rows import JobRows
from tiresias.scheduler.model import Allocations, JobState, Snapshot
from tiresias.scheduler.resources import Resources
from tiresias.scheduler.tenants.held_gangs import NO_GANGS, HeldGangsReader

CLUSTERS = ("one", "two")
shares = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 1, 2]), st.sampled_from(["", "node", "leaf"])), max_size=3
)
gangs = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.integers(0, 1), st.sampled_from([JobState.RUNNING, JobState.RELEASING]), st.booleans(), shares),
    max_size=6,
)


def snapshot_with(make: Any, drawn: dict[str, Any]) -> tuple[Snapshot, np.ndarray]:
    """A snapshot with these jobs, and the index of each one's virtual cluster."""
    jobs = [
        make.Job(name, 1, JobState.RUNNING, movable=movable, placement=((0, 0),))
        for name, (_, _, movable, _) in drawn.items()
    ]
    shown = make(jobs, [make.Node()] * 4)
    state = np.array([int(state) for _, state, _, _ in drawn.values()], np.int64)
    rows = [(at, node, gpus, cell) for at, (*_, held) in enumerate(drawn.values()) for node, gpus, cell in held]
    amount = np.array([(gpus, 0.0, 0.0) for _, _, gpus, _ in rows]).reshape(-1, 3)
    at, node = (np.array([row[column] for row in rows], np.int64) for column in (0, 1))
    held = Allocations(at, node, Resources(amount), tuple(cell for *_, cell in rows))
    cluster_of = np.array([cluster for cluster, *_ in drawn.values()], np.int64)
    return replace(shown, jobs=replace(shown.jobs, state=state), allocations=held), cluster_of


def plain(drawn: dict[str, Any]) -> dict[str, Any]:
    """What is shown of each job with GPUs."""
    found = {}
    for name, (cluster, state, movable, held) in drawn.items():
        if own := [(node, gpus, cell) for node, gpus, cell in held if gpus]:
            found[name] = (cluster, state, movable, own)
    return found


@given(gangs, gangs)
def test_a_gang_is_changed_if_it_is_shown_otherwise(
    snapshot_of: Any, first: dict[str, Any], second: dict[str, Any]
) -> None:
    reader, before, rows = HeldGangsReader(), plain(first), JobRows()
    one = reader.read(*_arguments(snapshot_with(snapshot_of, first)))
    rows.follow(one.jobs)
    assert one.changed(NO_GANGS, rows)[0].tolist() == [True] * len(before)
    for drawn in (second, first):
        two = reader.read(*_arguments(snapshot_with(snapshot_of, drawn)))
        now = plain(drawn)
        assert two.ids == list(now)
        rows.follow(two.jobs)
        changed, gone = two.changed(one, rows)
        assert changed.tolist() == [before.get(name) != now[name] for name in two.ids]
        assert {one.id(at) for at in gone.tolist()} == before.keys() - now.keys()
        for at, name in enumerate(two.ids):
            assert len(two.allocations(at)) == len(now[name][3])


def _arguments(made: tuple[Snapshot, np.ndarray]) -> tuple[Snapshot, tuple[str, ...], np.ndarray]:
    return made[0], CLUSTERS, made[1]
