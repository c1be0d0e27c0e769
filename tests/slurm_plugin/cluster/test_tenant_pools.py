"""The virtual clusters of a configuration decide on the jobs of the managed nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tiresias.errors import UsageError
from tiresias.protocol.opportunistic_choice import SAVES
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Snapshot
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.cluster.partition_pools import PartitionPools
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.cluster.tenant_pools import check_cells, check_change
from tiresias.slurm_plugin.config import Config, VirtualClusterConfig
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
POLICY = PolicyConfig(name="fifo", admission="virtual_clusters")
RESEARCH = PolicyConfig(name="las", admission="virtual_clusters")


def virtual_cluster(name: str, nodes: int, policy: PolicyConfig = POLICY) -> VirtualClusterConfig:
    tenant = DeclaredTenant(name, (DeclaredCells("node", nodes),))
    return VirtualClusterConfig(tenant=tenant, policy=policy, accounts=(name,))


def config(*clusters: VirtualClusterConfig, admission: str = "virtual_clusters") -> Config:
    return replace(Config(), policy=replace(POLICY, admission=admission), virtual_clusters=clusters)


TWO = config(virtual_cluster("prod", 1), virtual_cluster("research", 1, RESEARCH))


def node(name: str) -> SlurmNode:
    return SlurmNode(
        name=name, state="IDLE", flags=frozenset(), reason="", gpus=4, gpus_allocated=0, gpu_type="", cpus=16,
        cpus_allocated=0, memory=64000, memory_allocated=0, features=(), partitions=("gpu",),
    )  # fmt: skip


def observed(
    journal: Journal, jobs: list[SlurmJob], *names: str, choice: str = SAVES
) -> tuple[Snapshot, SlurmSnapshot]:
    ledger = Ledger(journal, Scope.of(TWO))
    slurm = SlurmSnapshot(2000.0, tuple(jobs), tuple(map(node, names)))
    managed = ledger.apply(slurm)
    for job in managed:
        ledger.jobs[job.id].opportunistic = choice
        ledger.note_cluster(ledger.jobs[job.id], TWO.virtual_cluster_of(job.account, job.qos, job.partition))
    return Observer(TWO, ledger).observe(slurm, managed, {}), slurm


def waiting(pending: Make, *accounts: str) -> list[SlurmJob]:
    return [
        pending(id=str(at), raw_id=at, account=account, priority=1, reason="Priority", submit_time=1000 + at)
        for at, account in enumerate(accounts)
    ]


def test_each_virtual_cluster_decides_on_its_jobs(journal: Journal, pending: Make) -> None:
    snapshot, slurm = observed(journal, waiting(pending, "prod", "prod", "research", "other"), "gpu01", "gpu02")
    pools = PartitionPools(TWO)
    plan, parts = pools.decide(snapshot, slurm)
    assert {start.job: start.owned_cells for start in plan.starts} == {"0": ("node",), "2": ("node",)}
    assert pools.tenants == ("prod", "research")
    assert [part.pool.config.name for part in parts] == ["fifo", "las", "fifo"]
    assert snapshot.jobs.virtual_cluster == ("prod", "prod", "research", "")


def test_idle_gpus_are_used_opportunistically(journal: Journal, pending: Make) -> None:
    snapshot, slurm = observed(journal, waiting(pending, "prod", "prod", "other"), "gpu01", "gpu02", "gpu03")
    plan, _ = PartitionPools(TWO).decide(snapshot, slurm)
    assert {start.job: start.owned_cells for start in plan.starts} == {"0": ("node",), "1": (), "2": ()}


def test_jobs_that_are_not_known_to_save_stay_in_cells(journal: Journal, pending: Make) -> None:
    snapshot, slurm = observed(journal, waiting(pending, "prod", "prod", "other"), "gpu01", "gpu02", "gpu03", choice="")
    plan, _ = PartitionPools(TWO).decide(snapshot, slurm)
    assert {start.job: start.owned_cells for start in plan.starts} == {"0": ("node",)}


def test_where_cells_do_not_fit_all_jobs_share_the_nodes_with_an_alarm(journal: Journal, pending: Make) -> None:
    snapshot, slurm = observed(journal, waiting(pending, "prod", "research"), "gpu01")
    pools = PartitionPools(TWO)
    plan, parts = pools.decide(snapshot, slurm)
    assert ([start.job for start in plan.starts], len(parts), pools.tenants) == (["0"], 1, ())
    assert "virtual clusters own 2 cells of type node" in pools.alarms[0]
    assert pools.alarms[0].endswith("until then all jobs share all nodes, without any guarantee")
    snapshot, slurm = observed(journal, waiting(pending, "prod", "research"), "gpu01", "gpu02")
    plan, _ = pools.decide(snapshot, slurm)
    assert (len(plan.starts), pools.tenants, pools.alarms) == (2, ("prod", "research"), []), "the node is back"


def test_while_pinned_hardware_does_not_exist_all_jobs_share_the_nodes_with_an_alarm(
    journal: Journal, pending: Make
) -> None:
    """An administrator renames gpu01, and back."""
    tenant = DeclaredTenant("prod", (DeclaredCells("node", nodes=("gpu01",)),))
    pinned = config(replace(virtual_cluster("prod", 1), tenant=tenant))
    pools = PartitionPools(pinned)
    for names, alarms in ((("gpu01", "gpu02"), 0), (("new01", "gpu02"), 1), (("gpu01", "gpu02"), 0)):
        snapshot, slurm = observed(journal, waiting(pending, "prod"), *names)
        plan, _ = pools.decide(snapshot, slurm)
        assert ([start.job for start in plan.starts], len(pools.alarms)) == (["0"], alarms)
        if alarms:
            assert "virtual cluster prod: nodes = gpu01: there is no node gpu01 with GPUs" in pools.alarms[0]
            with pytest.raises(UsageError, match="there is no node gpu01"):
                check_cells(pinned, snapshot.nodes)
        else:
            assert plan.starts[0].nodes == (("gpu01", 4),)


@pytest.mark.parametrize("rule", ["private_clusters", "gpu_quotas"])
def test_other_rules_can_be_configured(journal: Journal, pending: Make, rule: str) -> None:
    snapshot, slurm = observed(journal, waiting(pending, "prod", "research"), "gpu01", "gpu02")
    clusters = tuple(replace(each, policy=replace(each.policy, admission=rule)) for each in TWO.virtual_clusters)
    plan, _ = PartitionPools(config(*clusters, admission=rule)).decide(snapshot, slurm)
    assert len(plan.starts) == 2


def test_a_failing_decision_is_replaced_by_las_on_all_nodes(journal: Journal, pending: Make) -> None:
    snapshot, slurm = observed(journal, waiting(pending, "prod"), "gpu01", "gpu02")
    pools = PartitionPools(TWO)
    assert pools.fall_back(ValueError("a defect"))
    plan, parts = pools.decide(snapshot, slurm)
    assert (len(plan.starts), len(parts), parts[0].pool.config.name, pools.tenants) == (1, 1, "las", ())


def test_the_start_is_refused_where_cells_do_not_fit(journal: Journal) -> None:
    snapshot, _ = observed(journal, [], "gpu01")
    with pytest.raises(UsageError, match="virtual clusters own 2 cells of type node"):
        check_cells(TWO, snapshot.nodes)
    check_cells(Config(), snapshot.nodes)


def test_a_change_that_takes_cells_from_a_running_job_is_refused(journal: Journal, running: Make) -> None:
    snapshot, _ = observed(journal, [running(1000, account="prod")], "gpu01", "gpu02")
    in_cells = replace(snapshot, allocations=replace(snapshot.allocations, owned_cell=("node",)))
    check_change(TWO, in_cells, {"1": "prod"})
    check_change(config(virtual_cluster("prod", 2)), in_cells, {"1": "prod"})
    with pytest.raises(UsageError, match="virtual cluster prod: job 1 runs in cells that this change takes from it"):
        check_change(config(virtual_cluster("research", 1)), in_cells, {"1": ""})


def test_a_report_that_is_requested_during_a_decision_has_the_cells(
    journal: Journal, pending: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another thread: here at the moment before the rule decides."""
    snapshot, slurm = observed(journal, waiting(pending, "prod", "research"), "gpu01", "gpu02")
    pools = PartitionPools(TWO)
    pools.decide(snapshot, slurm)
    decide, found = pools._tenants.decide, []

    def decided(*arguments: Any) -> Any:
        found.append(pools.report(trees=False))
        return decide(*arguments)

    monkeypatch.setattr(pools._tenants, "decide", decided)
    pools.decide(snapshot, slurm)
    [report] = found
    assert report is not None
    assert [cluster.name for cluster in report.clusters] == ["prod", "research"]
