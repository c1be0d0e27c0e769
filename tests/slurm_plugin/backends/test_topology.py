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


def test_several_topologies_and_the_sockets_of_gpus(cluster_of: ClusterOf) -> None:
    """topology.yaml has switches, the default, and blocks, of which Slurm aggregates two each; gres.conf names the sockets."""
    cluster = cluster_of("forky", nodes=8, nodes_per_rack=2, topology="yaml", sockets_per_node=2)
    slurm = connect(cluster, "commands", cluster.spec.daemon_user)
    nodes = sorted(slurm.snapshot().nodes, key=lambda node: node.name)
    assert {node.gpu_sockets for node in nodes} == {2}
    racks, pairs = [0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 0, 0, 1, 1, 1, 1]
    for name, levels in (("", [racks]), ("fabric", [racks]), ("domains", [racks, pairs]), ("other", [[0] * 8])):
        assert [level.tolist() for level in groups(nodes, from_slurm(slurm.topology(name)))] == levels, name
    slurm.close()


def test_a_slurm_without_any(cluster_of: ClusterOf) -> None:
    cluster = cluster_of("forky")
    slurm = connect(cluster, "commands", cluster.spec.daemon_user)
    assert from_slurm(slurm.topology()) == ()
    slurm.close()
