"""What is simulated besides the jobs: the policy, what a preemption costs, and when decisions are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.policy import Policy
from tiresias.simulator.failures import Failures
from tiresias.simulator.simulated_placement import SimulatedPlacement


class Cost(NamedTuple):
    """Seconds on GPUs without progress. pause: from the decision until a preempted job has left its GPUs. resume: from its next
    start until it goes on where it was."""

    pause: float = 0.0
    resume: float = 0.0


FREE = Cost()


def mean_seconds(cost: Cost, costs: Mapping[str, Cost]) -> float:
    """What a preemption costs: the mean over the models whose costs are known, else `cost`."""
    known = list(costs.values()) or [cost]
    return sum(map(sum, known)) / len(known)


@dataclass(frozen=True, slots=True)
class Rules:
    """cost: of a preemption; costs: of jobs of some models, in its place.
    interval: decide only at multiples of so many seconds; 0: whenever something happens.
    by_node: place every job on nodes through `scheduler.decide`, as the controller does. Without it only the number of GPUs
    counts, which gives the same result much faster as long as a job may run anywhere and is equally fast everywhere.
    failures: of nodes, which have to be simulated then. checkpoint_interval: seconds of work between two checkpoints of a run,
    which a failure throws back to the last one; 0: nothing is lost. A preempted job saves before it leaves.
    placing: on which nodes jobs sit, and what that costs them; without it any GPU is as good as another. Raises UsageError."""

    policy: Policy
    config: PolicyConfig
    cost: Cost = FREE
    costs: Mapping[str, Cost] = field(default_factory=dict)
    interval: float = 0.0
    by_node: bool = False
    failures: Failures | None = None
    checkpoint_interval: float = 0.0
    placing: SimulatedPlacement | None = None

    def __post_init__(self) -> None:
        if self.failures and not self.by_node:
            raise UsageError("nodes can fail only where they are simulated; simulate node by node")
        if self.placing and not self.by_node:
            raise UsageError("jobs sit on nodes only where those are simulated; simulate node by node")
