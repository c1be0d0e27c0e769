"""Without a broken invariant of the published method, its decisions and those of VirtualClusters are the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.virtual_clusters.two_racks import SPEC
from tiresias.scheduler.virtual_clusters.cell_invariants import violations
from tiresias.simulator.cell_replay.cell_events import RecordedSequence
from tiresias.simulator.cell_replay.pod_replay import PodReplay
from tiresias.simulator.cell_replay.published_method import PublishedCellState, broken_at


class Events:
    """Random events of two replays, in the manner of the recorded ones: the victims of a preemption are deleted at once."""

    def __init__(self, seed: int, *, faults: bool) -> None:
        self.rng, self.faults = random.Random(seed), faults
        self.running: list[str] = []
        self.next: list[dict[str, Any]] = []
        self.number = 0

    def event(self) -> dict[str, Any]:
        if self.next:
            return self.next.pop(0)
        chance = self.rng.random()
        if chance < 0.06 and self.faults:
            node = f"r{self.rng.randint(0, 1)}n{self.rng.randint(0, 3)}"
            return {"op": self.rng.choice(("bad", "bad", "healthy")), "node": node}
        if chance < 0.4 and self.running:
            return {"op": "delete", "pod": self.running.pop(self.rng.randrange(len(self.running)))}
        return self._request()

    def _request(self) -> dict[str, Any]:
        self.number += 1
        rng, name = self.rng, f"g{self.number}"
        pods, leaves = rng.choice((1, 1, 1, 2, 3)), rng.choice((1, 2, 4))
        event: dict[str, Any] = {"op": "schedule", "pod": f"{name}-0", "group": name, "members": [[pods, leaves]]}
        event |= {"vc": rng.choice(("prod", "research", "intern")), "priority": rng.choice((-1, -1, 0, 1, 2))}
        event |= {"lazy": rng.random() < 0.5, "leaf_num": leaves, "leaf_type": "GPU"}
        self.next = [{**event, "pod": f"{name}-{at}"} for at in range(1, pods)]
        return event

    def answered(self, event: dict[str, Any], answer: dict[str, Any]) -> None:
        if answer["kind"] == "bind":
            self.running.append(event["pod"])
        elif answer["kind"] == "preempt":
            self.next = [{"op": "delete", "pod": pod} for pod in answer["victims"]] + [event, *self.next]
            self.running = [pod for pod in self.running if pod not in answer["victims"]]
        elif answer["kind"] == "wait":
            self.next = []


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
@example(450, True)  # a doomed cell would be a part of one that another VC owns
@example(749, True)  # so would a cell that a start takes
@example(2657, True)  # so would a doomed cell, until the same event releases it
def test_a_difference_follows_a_broken_invariant_of_the_published_method(seed: int, faults: bool) -> None:
    here, published = PodReplay(SPEC), PodReplay(SPEC, cells=PublishedCellState)
    cells = published.clusters.cells
    assert isinstance(cells, PublishedCellState)
    events, broken = Events(seed, faults=faults), False
    for _ in range(80):
        event = events.event()
        answer = here.apply(event)
        try:
            other = published.apply(event)
        except ValueError:
            other, broken = {}, True
        broken = broken or list(violations(published.clusters)) != [] or cells.taken != []
        assert list(violations(here.clusters)) == []
        if answer != other:
            assert faults
            assert broken
            return
        events.answered(event, answer)


@pytest.mark.parametrize(
    ("seed", "event", "broken"),
    [
        (450, 68, "num_splittable is -1"),
        (749, 47, "num_splittable is -1"),
        (4, 49, "one is subtracted"),
        (2657, 65, "NODE 1/3/r1n3: doomed, and a part of"),
    ],
)
def test_the_event_that_breaks_an_invariant_of_the_published_method_is_named(
    seed: int, event: int, broken: str
) -> None:
    here, events, done = PodReplay(SPEC), Events(seed, faults=True), []
    for _ in range(80):
        done.append(each := events.event())
        events.answered(each, here.apply(each))
    found = broken_at(SPEC, RecordedSequence("", "", True, tuple(done)), len(done))
    assert found is not None
    assert found[0] == event
    assert broken in found[1]
