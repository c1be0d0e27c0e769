"""Which Slurm jobs of aggregators are submitted and cancelled: interruptions leave the requested ones, within the budget."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.durable.leadership import Superseded
from tiresias.services.parameter_service.manager.fleet_keeper import FleetKeeper
from tiresias.services.parameter_service.manager.fleet_state import (
    Adopt,
    Cancel,
    FleetMember,
    FleetState,
    Forget,
    QueuedAggregator,
    Submit,
    next_actions,
)
from tiresias.services.parameter_service.manager.manager_journal import ClientRow, ManagerJournal

SUBMITTED = FleetState.SUBMITTED


def members_of(*members: FleetMember) -> dict[int, FleetMember]:
    return {each.number: each for each in members}


def waiting(slurm_job: int, number: int) -> QueuedAggregator:
    return QueuedAggregator(slurm_job, number, False, "")


def test_an_orphan_is_cancelled() -> None:
    assert next_actions({}, [waiting(7, 3)], budget=4) == [Cancel(7)]


def test_an_interrupted_submission_is_adopted_once() -> None:
    members = members_of(FleetMember(3, FleetState.SUBMITTING))
    assert next_actions(members, [waiting(8, 3), waiting(7, 3)], budget=4) == [Cancel(8), Adopt(3, 7)]
    assert next_actions(members, [], budget=4) == [Submit(3)]


def test_a_lost_aggregator_is_submitted_again() -> None:
    assert next_actions(members_of(FleetMember(3, SUBMITTED, 7)), [], budget=4) == [Adopt(3, 0)]


def test_a_released_aggregator_is_cancelled_and_then_forgotten() -> None:
    members = members_of(FleetMember(3, FleetState.CANCELLING, 7))
    assert next_actions(members, [waiting(7, 3)], budget=4) == [Cancel(7)]
    assert next_actions(members, [], budget=4) == [Forget(3)]


def test_the_budget_counts_jobs_that_have_not_ended() -> None:
    members = members_of(
        FleetMember(1, SUBMITTED, 7), FleetMember(2, FleetState.REQUESTED), FleetMember(3, FleetState.REQUESTED)
    )
    assert next_actions(members, [waiting(7, 1)], budget=2) == [Submit(2)]
    assert next_actions(members, [waiting(7, 1)], budget=0) == []


class Killed(Exception):
    """The manager ended here."""


class QueueInMemory:
    """Slurm's queue, with a manager that ends before or after each of its calls and writes."""

    def __init__(self) -> None:
        self.jobs: dict[int, int] = {}
        self._next = 1
        self.calls_left = 10**9
        self.most = 0

    def passed(self) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise Killed

    def submit(self, number: int) -> int:
        self.passed()
        self.jobs[self._next] = number
        self._next += 1
        self.most = max(self.most, len(self.jobs))
        self.passed()
        return self._next - 1

    def queue(self) -> list[QueuedAggregator]:
        return [waiting(job, number) for job, number in self.jobs.items()]

    def cancel(self, slurm_job: int) -> None:
        self.passed()
        self.jobs.pop(slurm_job, None)
        self.passed()


@given(data=st.data())
def test_kills_at_any_point_leave_the_requested_aggregators(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    queue, folder, budget = QueueInMemory(), tmp_path_factory.mktemp("manager"), 4
    for epoch in range(1, data.draw(st.integers(2, 6))):
        journal = ManagerJournal(folder, epoch)
        _change(journal, data, budget)
        queue.calls_left = data.draw(st.integers(0, 6))
        with contextlib.suppress(Killed):
            FleetKeeper(journal, queue, budget).step()
        if data.draw(st.booleans()) and queue.jobs:
            queue.jobs.pop(data.draw(st.sampled_from(sorted(queue.jobs))))  # a node fails
        journal.close()
    _settle(folder, queue, budget)
    assert queue.most <= budget


def _change(journal: ManagerJournal, data: st.DataObject, budget: int) -> None:
    members, first = journal.members(), max([0, *journal.members()]) + 1
    requested = range(first, first + data.draw(st.integers(0, budget - len(members))))
    released = [number for number in members if data.draw(st.booleans())]
    with journal.together():
        journal.put_numbers(requested, released)


def _settle(folder: Path, queue: QueueInMemory, budget: int) -> None:
    journal, queue.calls_left = ManagerJournal(folder, 99), 10**9
    keeper = FleetKeeper(journal, queue, budget)
    for _ in range(5):
        actions = keeper.step()
    assert actions == []
    members = journal.members()
    assert all(each.state is SUBMITTED for each in members.values())
    assert queue.jobs == {each.slurm_job: number for number, each in members.items()}
    journal.close()


def test_a_superseded_manager_writes_nothing(tmp_path: Path) -> None:
    earlier = ManagerJournal(tmp_path, 1)
    later = ManagerJournal(tmp_path, 2)
    with pytest.raises(Superseded):
        earlier.put_member(FleetMember(1, FleetState.REQUESTED))
    later.put_client(ClientRow("a", 1000, "00", {"servers": 2}))
    later.put_client(ClientRow("a", 1000, "11", {"servers": 3}))
    assert later.clients() == {"a": ClientRow("a", 1000, "11", {"servers": 3})}
    assert (tmp_path / "parameter-service.db").stat().st_mode & 0o077 == 0
    earlier.close()
    later.close()


def test_an_aggregator_that_is_released_while_it_is_submitted_is_cancelled(tmp_path: Path) -> None:
    queue, journal = QueueInMemory(), ManagerJournal(tmp_path, 1)
    journal.put_numbers([1, 2], [])
    keeper = FleetKeeper(journal, queue, budget=4)
    calls = keeper.round()
    call = calls.send(next(calls)())  # the queue, then the first submission
    journal.put_numbers([], [1, 2])
    with pytest.raises(StopIteration):
        calls.send(call())
    assert journal.members() == members_of(
        FleetMember(1, FleetState.CANCELLING, 1), FleetMember(2, FleetState.CANCELLING)
    )
    while keeper.step():
        pass
    assert (journal.members(), queue.jobs) == ({}, {})
    journal.close()
