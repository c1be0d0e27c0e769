"""The rules of a simulation: the policy, the cost of a preemption, failures, placement, and when decisions are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.estimates.completed_jobs import NO_JOBS_COMPLETED, Completed
from tiresias.scheduler.rank.policy import IncrementalPolicy, Policy
from tiresias.simulator.contention.simulated_contention import SimulatedContention
from tiresias.simulator.elastic.run_measurements import RunMeasurements
from tiresias.simulator.failures import Failures
from tiresias.simulator.reporting import Reporting
from tiresias.simulator.simulated_assist import SimulatedAssist
from tiresias.simulator.simulated_memory import SimulatedMemory
from tiresias.simulator.simulated_placement import SimulatedPlacement
from tiresias.simulator.simulated_tenants import SimulatedTenants


class Cost(NamedTuple):
    """The cost of a preemption: seconds on GPUs without progress.

    Attributes:
        pause: From the decision until the preempted job has released its GPUs.
        resume: From its next start until it continues its work.
    """

    pause: float = 0.0
    resume: float = 0.0


FREE = Cost()


def mean_seconds(cost: Cost, costs: Mapping[str, Cost]) -> float:
    """Return the mean cost of a preemption, seconds: over the models in `costs`, or `cost` if there are none."""
    known = list(costs.values()) or [cost]
    return sum(map(sum, known)) / len(known)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is simulated besides the jobs and the cluster.

    Attributes:
        policy: The policy that ranks the jobs.
        config: Configuration of the policy and of preemptions.
        cost: Cost of a preemption.
        costs: Cost of a preemption of jobs of some models, in place of `cost`.
        interval: Decide only at multiples of this, seconds; 0: at every event.
        by_node: Place each job on nodes through `scheduler.decide`, as the controller does. Otherwise only the number of GPUs
            counts, which gives the same result much faster as long as a job may run anywhere and is equally fast everywhere.
        failures: Failures of nodes; requires `by_node`.
        checkpoint_interval: Seconds of work between two checkpoints of a run. A failure undoes the work since the last one; 0:
            nothing is lost. A preempted job always saves first.
        placement: Where jobs are placed and what that costs; requires `by_node`. None: all GPUs are equal.
        reporting: Which jobs report their progress. None: none.
        history: Completed jobs from which policies have learned before the simulation begins.
        tenants: The tenants that share the cluster; means `by_node`. None: there are none.
        measurements: What runs of elastic jobs show, from which their predictions are fitted. None: predictions are those of each
            job (`ElasticJob.predict`).
        shares: Shares of users or accounts, where these share the GPUs; an owner that is missing has the smallest one.
        contention: How jobs slow each other on servers and links; means `by_node`. None: not at all.
        memory: The memory of nodes and jobs; means `by_node`. None: it does not count.

    Raises:
        UsageError: `failures` or `placement` without `by_node`.
    """

    policy: Policy
    config: PolicyConfig
    cost: Cost = FREE
    costs: Mapping[str, Cost] = field(default_factory=dict)
    interval: float = 0.0
    by_node: bool = False
    failures: Failures | None = None
    checkpoint_interval: float = 0.0
    placement: SimulatedPlacement | None = None
    reporting: Reporting | None = None
    history: Completed = NO_JOBS_COMPLETED
    tenants: SimulatedTenants | None = None
    measurements: RunMeasurements | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    contention: SimulatedContention | None = None
    memory: SimulatedMemory | None = None

    def __post_init__(self) -> None:
        if (
            not isinstance(self.policy, IncrementalPolicy)
            or self.config.needs_snapshots
            or self.tenants
            or self.assists
            or self.contention
            or self.memory
        ):
            object.__setattr__(self, "by_node", True)
        if self.failures and not self.by_node:
            raise UsageError("failures of nodes need a simulation by node; set by_node (--by-node)")
        if self.placement and not self.by_node:
            raise UsageError("a placement needs a simulation by node; set by_node (--by-node)")

    @property
    def assists(self) -> bool:
        """Whether mode assist is simulated."""
        return isinstance(self.policy, SimulatedAssist)

    def cost_of(self, models: Sequence[str]) -> Callable[[int], float]:
        """Return the seconds that a preemption costs the job of a row.

        Args:
            models: The model of each row of the trace.
        """
        return lambda row: sum(self.costs.get(models[row], self.cost))

    def policy_of(self, clusters: Sequence[str]) -> Policy:
        """Return the policy of a simulation: that of the rules, or all of its tenants as one.

        Args:
            clusters: The virtual cluster of each row of the trace.
        """
        return self.tenants.policy(self.policy, clusters, self.config) if self.tenants else self.policy
