"""Whose turn it is. The quantum is 300 s: a turn began at 900, the next one begins at 1200."""

from __future__ import annotations

from typing import Any

import pytest

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import JobState
from tiresias.scheduler.next_change import next_change
from tiresias.scheduler.rank.time_sharing import TimeSharing

CONFIG = PolicyConfig.paper("time_sharing")


@pytest.fixture
def crowd(snapshot_of: Any) -> Any:
    def runs(name: Any, since: Any) -> Any:
        return snapshot_of.Job(name, state=JobState.RUNNING, submit=0, first_start=since, last_start=since)

    def waits(name: Any, submit: Any, preempted: Any = None) -> Any:
        seen = {} if preempted is None else {"first_start": submit, "last_start": submit, "preempted": preempted}
        return snapshot_of.Job(name, submit=submit, **seen)

    jobs = [
        runs("ran long", 300),
        runs("ran", 600),
        runs("in its turn", 900),
        waits("new", 950),
        waits("waits", 400),
        waits("waits again", 0, preempted=600),
        waits("just displaced", 0, preempted=900),
    ]
    return snapshot_of(jobs, [snapshot_of.Node()])


def test_those_who_waited_come_before_those_who_ran(crowd: Any) -> None:
    ranking = TimeSharing().rank(crowd, CONFIG)
    assert [crowd.jobs.id[row] for row in ranking.order] == [
        "in its turn",
        "waits",
        "waits again",
        "ran",
        "ran long",
        "just displaced",
        "new",
    ]


def test_next_turn(crowd: Any) -> None:
    assert next_change(crowd, CONFIG) == 1200.0


@pytest.mark.parametrize(("now", "following"), [(0.0, 300.0), (299.999, 300.0), (300.0, 600.0), (1.7e9, 1.7e9 + 100)])
def test_turns_begin_at_multiples_of_the_quantum(now: Any, following: Any) -> None:
    assert TimeSharing().turn(now, CONFIG) == following


def test_a_multiple_is_met_whatever_its_digits() -> None:
    """0.1 times 3 is a bit more than 0.3, and so are times that are worked out from it."""
    config = PolicyConfig.paper("time_sharing").scaled(280.0)
    turns = [0.0]
    for _ in range(1000):
        turns.append(TimeSharing().turn(turns[-1], config))
    assert turns[-1] == pytest.approx(1000 * config.quantum)
