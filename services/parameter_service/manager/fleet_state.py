"""The aggregators of the service as Slurm jobs: their states, and what is to be done next. Pure.

REQUESTED -> SUBMITTING -> SUBMITTED -> CANCELLING -> (removed)

A state is written to the journal before the operation that it names. The name of a Slurm job has the aggregator's number, so that
after a kill the queue shows whether the operation took place. Two jobs of one name never run at the same time: they are submitted
with --dependency=singleton. A submission that reaches slurmctld after its manager is dead is found as an orphan and cancelled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class FleetState(Enum):
    """The state of an aggregator."""

    REQUESTED = "requested"
    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    CANCELLING = "cancelling"


@dataclass(frozen=True, slots=True)
class FleetMember:
    """An aggregator.

    Attributes:
        number: Its number; never used again.
        state: Its state.
        slurm_job: Id of its Slurm job; 0 while unknown.
    """

    number: int
    state: FleetState
    slurm_job: int = 0


class QueuedAggregator(NamedTuple):
    """A Slurm job of this manager that has not ended.

    Attributes:
        slurm_job: Its id.
        number: The aggregator's number in its name.
        is_running: It runs on a node.
        node: That node; "" while it waits.
        preempted: Slurm has chosen it for preemption: it ends with the grace time.
        partition: Its partition.
        priority: Its priority in Slurm.
    """

    slurm_job: int
    number: int
    is_running: bool
    node: str
    preempted: bool = False
    partition: str = ""
    priority: int = 0


class Submit(NamedTuple):
    """Submit the Slurm job of an aggregator."""

    number: int


class Adopt(NamedTuple):
    """Record the Slurm job of an aggregator whose submission was interrupted, or which was lost: 0 for none."""

    number: int
    slurm_job: int


class Cancel(NamedTuple):
    """Cancel a Slurm job."""

    slurm_job: int


class Forget(NamedTuple):
    """Remove an aggregator whose Slurm job has ended."""

    number: int


FleetAction = Submit | Adopt | Cancel | Forget


def next_actions(
    members: Mapping[int, FleetMember], queue: Collection[QueuedAggregator], budget: int
) -> list[FleetAction]:
    """Return what is to be done in this order: first what ends, then what is submitted within the budget.

    Args:
        members: The journaled aggregators by number.
        queue: All Slurm jobs of this manager that have not ended, as Slurm reports them now.
        budget: The most Slurm jobs at any time.
    """
    jobs: dict[int, list[int]] = defaultdict(list)
    for each in queue:
        jobs[each.number].append(each.slurm_job)
    actions: list[FleetAction] = [
        Cancel(job) for number in jobs.keys() - members.keys() for job in sorted(jobs[number])
    ]
    to_submit = []
    for number, member in sorted(members.items()):
        found = sorted(jobs[number])
        kept, added = _of_member(member, found)
        actions += [Cancel(job) for job in found if job != kept]
        actions += added
        if member.state in (FleetState.REQUESTED, FleetState.SUBMITTING) and not found:
            to_submit.append(number)
    actions += [Submit(number) for number in to_submit[: max(budget - len(queue), 0)]]
    return actions


def _of_member(member: FleetMember, found: list[int]) -> tuple[int, list[FleetAction]]:
    """Return the Slurm job that the aggregator keeps, 0 for none, and what is recorded about it."""
    if member.state is FleetState.CANCELLING:
        return 0, [] if found else [Forget(member.number)]
    if member.state is FleetState.SUBMITTED:
        if member.slurm_job in found:
            return member.slurm_job, []
        return (found[0], [Adopt(member.number, found[0])]) if found else (0, [Adopt(member.number, 0)])
    return (found[0], [Adopt(member.number, found[0])]) if found else (0, [])
