"""`JobQueue` keeps from decision to decision what `walk` finds out anew each time: both answer the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.scheduler.evict.by_rank import walk
from tiresias.scheduler.job_queue import NOTHING, Choice, JobQueue

CAPACITY = 12
LAST_QUEUE = 2
many = settings(max_examples=examples(200), deadline=None)
sizes = st.lists(st.sampled_from([1, 1, 1, 2, 3, 4, 8, 12]), min_size=1, max_size=20)


class Cluster:
    """Jobs that wait, run and leave, in a `JobQueue` and in plain sets. Keys are (queue, place); few values, so that many tie.
    drifts: the keys of running jobs above the last queue are not kept."""

    def __init__(self, gpus: list[int], draw: st.DataObject, blocks: bool, drifts: bool) -> None:
        self.gpus, self.draw, self.blocks, self.drifts = gpus, draw, blocks, drifts
        self.queue = JobQueue(gpus, blocks)
        self.waiting: dict[int, tuple[int, int]] = {}
        self.running: dict[int, tuple[int, int]] = {}  # those that may be preempted
        self.fixed: set[int] = set()  # those that may not

    def key(self) -> tuple[int, int]:
        return self.draw.draw(st.tuples(st.integers(0, LAST_QUEUE), st.integers(0, 3)), label="key")

    def free(self) -> int:
        return CAPACITY - sum(self.gpus[row] for row in (*self.running, *self.fixed))

    def wait(self, row: int) -> None:
        self.waiting[row] = self.key()
        self.queue.wait(row, (*self.waiting[row], row))

    def compete(self, row: int) -> None:
        self.running[row] = self.key()
        if not self.drifting(row):
            self.queue.compete(row, (*self.running[row], row))

    def stop(self, row: int) -> None:
        self.fixed.discard(row)
        if self.running.pop(row, None):
            self.queue.leave(row)

    def drifting(self, row: int) -> bool:
        return self.drifts and self.running[row][0] < LAST_QUEUE

    def start(self, row: int) -> None:
        """Without preemption, and now and then for a while only, it keeps its GPUs."""
        del self.waiting[row]
        if self.blocks or self.draw.draw(st.booleans(), label="keeps its GPUs"):
            self.fixed.add(row)
        else:
            self.compete(row)

    def happen(self) -> None:
        """Some running jobs end, others have another key or may now be preempted, some waiting ones have another key."""
        for row in [*self.running, *self.fixed, *self.waiting]:
            if not self.draw.draw(st.booleans(), label=f"{row} changes"):
                continue
            if row in self.waiting:
                self.wait(row)
            elif self.blocks or self.draw.draw(st.booleans(), label="ends"):
                self.stop(row)
            else:
                self.stop(row)
                self.compete(row)

    def choose(self) -> Choice:
        keys = [(*key, row) for row, key in self.running.items() if self.drifting(row)]
        self.queue.drift(len(keys), lambda: list(np.array(keys, np.int64).reshape(-1, 3).T))
        return self.queue.choose(self.free())

    def walked(self) -> Choice:
        """All jobs sorted, all walked."""
        keys = {**self.waiting, **self.running}
        order = sorted(keys, key=lambda row: (*keys[row], row))
        capacity = self.free() + sum(self.gpus[row] for row in self.running)
        taken = walk(np.array([self.gpus[row] for row in order], np.int64), capacity, self.blocks)
        starts = [row for row, takes in zip(order, taken, strict=True) if takes and row in self.waiting]
        victims = [row for row, takes in zip(order, taken, strict=True) if not takes and row in self.running]
        return Choice(starts, victims)


@pytest.mark.parametrize(("blocks", "drifts"), [(False, False), (False, True), (True, False)])
@many
@given(gpus=sizes, draw=st.data())
def test_chooses_what_a_walk_over_all_jobs_takes(gpus: Any, draw: Any, blocks: Any, drifts: Any) -> None:
    """Without preemption (blocks) no job in the queue runs."""
    cluster = Cluster(gpus, draw, blocks, drifts)
    arrivals = iter(range(len(gpus)))
    for burst in draw.draw(st.lists(st.integers(1, 6), min_size=1, max_size=6), label="arrivals"):
        for row, _ in zip(arrivals, range(burst), strict=False):
            cluster.wait(row)
        expected = cluster.walked()
        choice = cluster.choose()
        assert list(choice.starts) == expected.starts
        assert sorted(choice.victims) == sorted(expected.victims)
        for row in choice.victims:
            cluster.stop(row)
            cluster.wait(row)
        for row in choice.starts:
            cluster.start(row)
        assert cluster.free() >= 0
        cluster.happen()


def test_no_job_overtakes_where_the_queue_blocks() -> None:
    queue = JobQueue([4, 2, 1], blocks=True)
    for row in range(3):
        queue.wait(row, (row, row))
    assert queue.choose(3) == Choice([], [])
    assert queue.choose(3) is NOTHING
    assert queue.choose(6) == Choice([0, 1], [])


def test_a_job_that_waits_again_has_its_new_key() -> None:
    queue = JobQueue([1, 1], blocks=False)
    queue.wait(0, (1, 0))
    queue.wait(1, (2, 1))
    queue.wait(1, (0, 1))
    assert queue.choose(1) == Choice([1], [])
    assert queue.choose(0) == Choice([], [])
    queue.wait(1, (3, 1))
    assert queue.choose(2) == Choice([0, 1], [])
