"""Switches and blocks as real Slurms report them."""

from __future__ import annotations

import pytest

from tests.conftest import ClusterOf
from tiresias.slurm_plugin.cluster.topology import from_slurm, groups

from .conftest import connect

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize(
    ("suite", "kind", "backend", "levels"),
    [
        ("forky", "tree", "pyslurm", [[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1]]),
        ("forky", "block", "commands", [[0, 0, 1, 1, 2, 2]]),
        ("bookworm", "tree", "commands", [[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1]]),
    ],
)
def test_groups_of_nodes(cluster_of: ClusterOf, suite: str, kind: str, backend: str, levels: list[list[int]]) -> None:
    cluster = cluster_of(suite, nodes=6, nodes_per_rack=2, topology=kind)
    slurm = connect(cluster, backend, cluster.spec.daemon_user)
    nodes = sorted(slurm.snapshot().nodes, key=lambda node: node.name)
    assert [level.tolist() for level in groups(nodes, from_slurm(slurm.topology()))] == levels
    slurm.close()


def test_a_slurm_without_any(cluster_of: ClusterOf) -> None:
    cluster = cluster_of("forky")
    slurm = connect(cluster, "commands", cluster.spec.daemon_user)
    assert from_slurm(slurm.topology()) == ()
    slurm.close()
