"""Partitions in which Slurm preempts jobs beside mode assist, as the doctor reports them."""

from __future__ import annotations

import pytest

from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.doctor.preemptor_check import findings

PARTITIONS = """\
PartitionName=gpu AllowGroups=ALL MinNodes=0 OverSubscribe=NO OverTimeLimit=NONE PreemptMode=REQUEUE State=UP TotalCPUs=64
PartitionName=batch AllowGroups=ALL MinNodes=0 OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=64
"""


def test_a_managed_partition_whose_jobs_slurm_preempts() -> None:
    (found,) = findings(("batch", "gpu"), {"PreemptType": "preempt/partition_prio"}, PARTITIONS)
    assert (found.level, found.about) == (Level.RISK, "two preemptors")
    assert found.words == (
        "preempt/partition_prio (REQUEUE) preempts jobs of gpu beside mode assist, without their checkpoints"
    )
    assert found.remedy == "PreemptMode=OFF on these partitions"


def test_the_remedy_for_qos_is_in_the_qos() -> None:
    (found,) = findings(("gpu",), {"PreemptType": "preempt/qos"}, PARTITIONS)
    assert "sacctmgr" in found.remedy


@pytest.mark.parametrize(
    ("managed", "plugin"),
    [
        (("batch",), "preempt/partition_prio"),
        (("gpu",), "preempt/none"),
        (("gpu",), "(null)"),
        (("missing",), "preempt/qos"),
    ],
)
def test_no_finding_without_a_second_preemptor(managed: tuple[str, ...], plugin: str) -> None:
    assert not list(findings(managed, {"PreemptType": plugin}, PARTITIONS))
