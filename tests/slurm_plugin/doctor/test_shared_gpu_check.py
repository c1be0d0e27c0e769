"""Nodes whose GPUs jobs share, as the doctor reports them."""

from __future__ import annotations

from dataclasses import replace

from tests.slurm_plugin.cluster.test_islands import NODE
from tiresias.slurm_plugin.doctor.shared_gpu_check import findings


def test_nodes_of_managed_partitions_with_shards() -> None:
    shard = replace(NODE, sharing="shard")
    nodes = [NODE, replace(shard, name="gpu02"), replace(shard, name="gpu03", partitions=("other",))]
    (found,) = findings({"gpu"}, nodes)
    assert found.words == (
        "gpu02: Slurm alone schedules jobs that ask for gres/shard; a GPU in parts is not free for others"
    )
    assert not list(findings({"gpu"}, [NODE]))
