"""What Slurm gets of the tenants of a replay."""

from __future__ import annotations

import pytest

from tiresias.sandbox.replay import tenant_setup
from tiresias.sandbox.replay.replay_policies import FAIR_SHARE, GROUP_LIMITS, LABELS, PARTITIONS
from tiresias.simulator.trace import TraceJob

JOB = TraceJob("j", 0.0, 1, 60.0, vc="Vision")


@pytest.mark.parametrize(("time_scale", "minutes"), [(1.0, 10080), (600.0, 17), (1e6, 1)])
def test_the_half_life_of_usage_is_a_week_of_the_trace(time_scale: float, minutes: int) -> None:
    assert tenant_setup.slurm_settings(FAIR_SHARE, time_scale)["PriorityDecayHalfLife"] == str(minutes)


def test_only_fair_share_changes_priorities() -> None:
    assert [name for name in LABELS if tenant_setup.slurm_settings(name, 1.0)] == [FAIR_SHARE]


def test_a_job_has_the_account_of_its_tenant() -> None:
    assert tenant_setup.sbatch_options(JOB, GROUP_LIMITS) == ["--account=vision"]
    assert tenant_setup.sbatch_options(JOB, "las+virtual_clusters") == ["--account=vision"]
    assert tenant_setup.sbatch_options(JOB, PARTITIONS) == ["--account=vision", "--partition=vision"]
