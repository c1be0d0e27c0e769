"""The virtual clusters of a configuration: the rule by which they share the managed nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Nodes, Plan, Snapshot
from tiresias.scheduler.pools import PoolDecision
from tiresias.scheduler.rank.policy import Policy
from tiresias.scheduler.tenants.cell_report import CellReport
from tiresias.scheduler.tenants.cells_of_topology import cell_specification
from tiresias.scheduler.tenants.running_guarantees import guaranteed_jobs, lost_guarantees
from tiresias.scheduler.tenants.tenant_rule import OUTSIDE, TenantPolicy
from tiresias.scheduler.tenants.tenant_rules import tenant_rule
from tiresias.scheduler.virtual_clusters.cell_state import CellState
from tiresias.slurm_plugin.cluster.reported_rule import ReportedRule
from tiresias.slurm_plugin.config import Config


class TenantPools:
    """Decides for the virtual clusters; its rule keeps their cells between decisions.

    Attributes:
        names: Names of the virtual clusters; () where the configuration has none.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        rule = tenant_rule(config.policy.admission, [each.tenant for each in config.virtual_clusters])
        self._rule = ReportedRule(rule) if rule is not None else None
        self.names = tuple(each.tenant.name for each in config.virtual_clusters)

    def decide(
        self, snapshot: Snapshot, ranking: Callable[[PolicyConfig], tuple[PolicyConfig, Policy]]
    ) -> tuple[Plan, tuple[PoolDecision, ...]]:
        """Return the plan of all jobs, and the decisions of which it consists: of each virtual cluster, then of other jobs.

        Args:
            snapshot: Jobs and nodes.
            ranking: Returns the configuration that holds in place of a given one, and the policy as it has learned.

        Raises:
            UsageError: The cells do not fit the nodes.
        """
        assert self._rule is not None, "there are virtual clusters"
        configs = {each.tenant.name: each.policy for each in self._config.virtual_clusters}
        tenants = [TenantPolicy(name, *ranking(config)) for name, config in configs.items()]
        return self._rule.decide(snapshot, [*tenants, TenantPolicy(OUTSIDE, *ranking(self._config.policy))])

    def report(self, *, trees: bool) -> CellReport | None:
        """Return the cells as the newest decision found them; None: none are bound. May be called from another thread."""
        return self._rule.report(trees=trees) if self._rule is not None else None


def check_cells(config: Config, nodes: Nodes) -> None:
    """Check that the cells of all virtual clusters exist and fit into the nodes.

    Raises:
        UsageError: They do not; the level, the number that is owned and the number that there is.
    """
    if config.virtual_clusters:
        CellState(cell_specification(nodes, [each.tenant for each in config.virtual_clusters]))


def guarantees_cells(config: Config) -> bool:
    """Return whether jobs run in cells of virtual clusters: other rules of admission give them none."""
    return config.policy.admission == "virtual_clusters"


def check_change(config: Config, snapshot: Snapshot, cluster_of: Mapping[str, str]) -> None:
    """Check that no running job would lose cells that it holds by another configuration.

    Args:
        config: The new configuration.
        snapshot: Jobs and nodes as they are.
        cluster_of: The virtual cluster of each job by the new configuration, by id.

    Raises:
        UsageError: A running job would lose its guarantee, or the cells do not fit the nodes.
    """
    lost = jobs_without_cells(config, snapshot, cluster_of)
    if lost:
        raise UsageError(
            f"virtual cluster {_name(snapshot, lost[0])}: {_words(lost)} in cells that this change takes from it; "
            f"leave it these cells until the job{'s have' if len(lost) > 1 else ' has'} ended"
        )


def jobs_without_cells(config: Config, snapshot: Snapshot, cluster_of: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the running jobs that hold cells which a configuration does not have for them; else as `check_change`.

    `snapshot`: with the cells that jobs hold (`Allocations.owned_cell`).
    """
    if not guarantees_cells(config):
        check_cells(config, snapshot.nodes)
        return guaranteed_jobs(snapshot)
    return lost_guarantees(snapshot, [each.tenant for each in config.virtual_clusters], cluster_of)


def words_at_start(lost: Sequence[str]) -> str:
    """Return the line of a controller that starts with such a configuration. `lost`: one job or more."""
    return (
        f"{_words(lost)} in cells that its virtual cluster does not have now (the configuration has changed, or slurmctld shows "
        "ended jobs): opportunistically from now on"
    )


def _words(lost: Sequence[str]) -> str:
    return f"job {lost[0]} and {len(lost) - 1} more run" if len(lost) > 1 else f"job {lost[0]} runs"


def _name(snapshot: Snapshot, job: str) -> str:
    return (snapshot.jobs.virtual_cluster or ())[snapshot.jobs.id.index(job)]
