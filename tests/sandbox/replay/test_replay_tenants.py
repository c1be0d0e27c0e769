"""Tenants of a replay: what each owns, its account, and mistakes in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.errors import UsageError
from tiresias.sandbox.replay.replay_policies import FAIR_SHARE, GROUP_LIMITS, PARTITIONS
from tiresias.sandbox.replay.replay_tenants import ReplayTenants
from tiresias.scheduler.tenants.declarations import DeclaredCells, DeclaredTenant
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.trace import TraceJob

SIZE = ClusterSize(4, 8, nodes_per_leaf=2)
VISION = DeclaredTenant("Vision", (DeclaredCells("leaf", 1),))
SPEECH = DeclaredTenant("speech", (DeclaredCells("node", 1),), opportunistic=False)
TENANTS = ReplayTenants.of((VISION, SPEECH), SIZE)


def job(vc: str, gpus: int = 1) -> TraceJob:
    return TraceJob("j", 0.0, gpus, 60.0, vc=vc)


def test_a_tenant_owns_the_nodes_of_a_static_partition() -> None:
    assert TENANTS.nodes == {"Vision": (0, 1), "speech": (2,)}
    assert (TENANTS.gpus("Vision"), TENANTS.gpus("speech")) == (16, 8)
    assert TENANTS.accounts == {"Vision": "vision", "speech": "speech"}


def test_a_file_is_read_as_that_of_the_simulator(tmp_path: Path) -> None:
    file = tmp_path / "vcs.toml"
    file.write_text('[[virtual_cluster]]\nname = "a"\ncells = [{ level = "node", count = 9 }]\n')
    with pytest.raises(UsageError, match=r"vcs.toml: .*own 9 cells") as raised:
        ReplayTenants.read(file, SIZE)
    assert "\n" not in str(raised.value)
    file.write_text('[[virtual_cluster]]\nname = "a"\ncells = [{ level = "node", count = 3 }]\n')
    assert ReplayTenants.read(file, SIZE).gpus("a") == 24


@pytest.mark.parametrize("name", ["a b", "a,b", "-a", "ä", "x" * 41, 'a"'])
def test_a_name_becomes_an_account(name: str) -> None:
    with pytest.raises(UsageError, match="becomes an account of Slurm"):
        ReplayTenants.of((DeclaredTenant(name, SPEECH.cells),), SIZE)


def test_two_names_are_two_accounts() -> None:
    with pytest.raises(UsageError, match="vision and Vision would be one account of Slurm, vision"):
        ReplayTenants.of((DeclaredTenant("vision", SPEECH.cells), DeclaredTenant("Vision", SPEECH.cells)), SIZE)


def test_each_job_belongs_to_a_tenant() -> None:
    TENANTS.check([FAIR_SHARE], [job("Vision"), job("speech")])
    for vc in ("", "vision", "other"):
        with pytest.raises(UsageError, match=r"job j: its vc .* is none of the virtual clusters"):
            TENANTS.check([FAIR_SHARE], [job(vc)])


@pytest.mark.parametrize("policy", [GROUP_LIMITS, PARTITIONS, "las+private_clusters"])
def test_a_job_that_can_never_start_is_refused(policy: str) -> None:
    TENANTS.check([policy], [job("Vision", 16)])
    TENANTS.check([FAIR_SHARE, "las+virtual_clusters", "las+gpu_quotas", "slurm-backfill"], [job("speech", 32)])
    with pytest.raises(
        UsageError, match=rf"requests 9 GPUs .* owns 8: it can never start under {policy.replace('+', '.')}"
    ):
        TENANTS.check([FAIR_SHARE, policy], [job("speech", 9)])
