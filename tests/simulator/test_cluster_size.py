"""The size of a cluster whose nodes Slurm reports."""

from __future__ import annotations

import pytest

from tiresias.errors import UsageError
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.slurm_accounting import cluster_size


def test_equal_nodes_remain_nodes() -> None:
    assert cluster_size([8, 8], equal_nodes=True) == ClusterSize(2, 8)


def test_unequal_nodes_are_single_gpus_where_cells_do_not_matter() -> None:
    assert cluster_size([8, 4]) == ClusterSize(12, 1)


def test_cells_need_equal_nodes() -> None:
    with pytest.raises(
        UsageError, match="the nodes in gpu,big have 4, 8 GPUs; cells need equal nodes: name a --partition"
    ):
        cluster_size([8, 4, 8], ("gpu", "big"), equal_nodes=True)


def test_no_gpu() -> None:
    with pytest.raises(UsageError, match="no node in cpu has a GPU"):
        cluster_size([], ("cpu",))
