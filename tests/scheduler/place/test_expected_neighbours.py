from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.scheduler.conftest import Builder
from tiresias.scheduler.interference_table import InterferenceTable
from tiresias.scheduler.model import JobState
from tiresias.scheduler.place.expected_neighbours import ExpectedNeighbour, expected_neighbours, is_known

TABLE = InterferenceTable.of(("loader", "matrix"), [[1.5, 1.25], [1.125, 1.0]])


def test_the_worst_neighbour_comes_first_and_each_one_once(snapshot_of: Builder) -> None:
    """Jobs on n0, on n1, on both, of an unknown kind, on another node, and one that releases its GPUs."""
    job, running = snapshot_of.Job, JobState.RUNNING
    jobs = [
        job("1", 2, running, placement=((0, 1), (1, 1))),
        job("2", 1, running, placement=((0, 1),)),
        job("3", 2, running, placement=((0, 1), (1, 1))),
        job("4", 1, running, placement=((0, 1),)),
        job("5", 1, running, placement=((2, 1),)),
        job("6", 1, JobState.RELEASING, placement=((1, 1),)),
        job("7", 1),
    ]
    plain = snapshot_of(jobs, [snapshot_of.Node()] * 3)
    kinds = np.array([0, 1, 0, -1, 0, 0, 1], np.int64)
    snapshot = replace(plain, jobs=replace(plain.jobs, interference_kind=kinds), interference=TABLE)
    assert expected_neighbours(snapshot, 0, [0, 1]) == [
        ExpectedNeighbour("3", 0.5, 0.5),
        ExpectedNeighbour("2", 0.25, 0.125),
    ]
    assert expected_neighbours(snapshot, 6, [2]) == [ExpectedNeighbour("5", 0.125, 0.25)]  # where it would start
    assert expected_neighbours(snapshot, 3, [0]) == []
    assert [is_known(snapshot, row) for row in (0, 3)] == [True, False]
    assert not is_known(replace(snapshot, interference=None), 0)
    assert expected_neighbours(plain, 0, [0, 1]) == []
