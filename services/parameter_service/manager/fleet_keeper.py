"""Carries out what fleet_state.py decides: each state is in the journal before its operation in Slurm, each result after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tiresias.services.parameter_service.manager.background_calls import CallSequence, made_here
from tiresias.services.parameter_service.manager.fleet_state import (
    Adopt,
    Cancel,
    FleetAction,
    FleetMember,
    FleetState,
    Forget,
    QueuedAggregator,
    Submit,
    next_actions,
)
from tiresias.services.parameter_service.manager.manager_journal import ManagerJournal


class AggregatorSubmission(Protocol):
    """What the keeper needs of Slurm: see aggregator_jobs.py."""

    def submit(self, number: int) -> int: ...

    def queue(self) -> list[QueuedAggregator]: ...

    def cancel(self, slurm_job: int) -> None: ...


class FleetKeeper:
    """Keeps the aggregators as the journal has them.

    Args:
        journal: The journal.
        slurm: Submits, lists and cancels.
        budget: The most Slurm jobs at any time.
        check_lead: Called before each operation in Slurm; raises Superseded where another manager leads.
    """

    def __init__(
        self,
        journal: ManagerJournal,
        slurm: AggregatorSubmission,
        budget: int,
        check_lead: Callable[[], None] = lambda: None,
    ) -> None:
        self._journal, self._slurm, self.budget, self._check_lead = journal, slurm, budget, check_lead
        self.queue: list[QueuedAggregator] = []

    def step(self) -> list[FleetAction]:
        """Make a round in this thread; see `round`."""
        done: list[FleetAction] = made_here(self.round())
        return done

    def round(self) -> CallSequence:
        """Poll the queue once and carry out what is due; return it. Calls of Slurm are yielded; the journal may change meanwhile.

        Raises:
            Unavailable: Slurm does not answer; the next round repeats what is left.
            Superseded: Another manager leads.
        """
        self.queue = yield self._slurm.queue
        actions = next_actions(self._journal.members(), self.queue, self.budget)
        for action in actions:
            self._check_lead()
            yield from self._carry_out(action)
        return actions

    def _carry_out(self, action: FleetAction) -> CallSequence:
        match action:
            case Submit(number):
                if self._note(number, FleetState.SUBMITTING):
                    slurm_job = yield lambda: self._slurm.submit(number)
                    self._note(number, FleetState.SUBMITTED, slurm_job)
            case Adopt(number, slurm_job):
                self._note(number, FleetState.SUBMITTED if slurm_job else FleetState.REQUESTED, slurm_job)
            case Cancel(slurm_job):
                yield lambda: self._slurm.cancel(slurm_job)
            case Forget(number):
                self._journal.remove_member(number)

    def _note(self, number: int, state: FleetState, slurm_job: int = 0) -> bool:
        """Write the state of an aggregator; one that was released meanwhile stays released, and False is returned."""
        released = self._journal.members()[number].state is FleetState.CANCELLING
        self._journal.put_member(FleetMember(number, FleetState.CANCELLING if released else state, slurm_job))
        return not released
