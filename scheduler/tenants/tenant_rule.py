"""The seam of the admission rules that share a cluster among tenants.

A rule of `admit/rules.py` only allows jobs to start. A rule here decides on each tenant's jobs with the tenant's own policy, and
on which nodes they run: `decide` is its building block, so it lies above `decide`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision
from tiresias.scheduler.rank.policy import Policy

if TYPE_CHECKING:
    from tiresias.scheduler.tenants.cell_report import CellReport

OUTSIDE = ""  # the tenant of jobs that belong to no virtual cluster; it owns no cells


@dataclass(frozen=True, slots=True, eq=False)
class TenantPolicy:
    """The order of a tenant's jobs.

    Attributes:
        name: Name of its virtual cluster, or `OUTSIDE`.
        config: Configuration of its policy.
        policy: The policy as it has learned.
    """

    name: str
    config: PolicyConfig
    policy: Policy


@lru_cache(maxsize=256)
def config_inside(config: PolicyConfig) -> PolicyConfig:
    """Return the configuration by which the jobs of one tenant are decided on."""
    return replace(config, admission="shared")


@lru_cache(maxsize=256)
def config_of_owner(config: PolicyConfig) -> PolicyConfig:
    """Return the configuration by which a virtual cluster decides on what it owns: no job is preempted to defragment it."""
    return replace(config, admission="shared", defragment=0)


class TenantRule(Protocol):
    """How tenants share a cluster."""

    @property
    def cells_built(self) -> int:
        """How often the decisions have built cells that the next ones keep; 0: the rule keeps none."""

    def decide(self, snapshot: Snapshot, tenants: Sequence[TenantPolicy]) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Return the plan of all jobs, and the decisions of which it consists.

        Args:
            snapshot: Jobs, nodes and allocations. A job whose `virtual_cluster` names none of the tenants belongs to `OUTSIDE`.
            tenants: Each virtual cluster, and `OUTSIDE`, once.
        """

    def report(self, *, trees: bool = True) -> CellReport | None:
        """Return the cells as the newest snapshot shows them.

        Args:
            trees: Whether both trees are included.

        Returns:
            None: no decision has been made yet, or the rule binds no cells.
        """
