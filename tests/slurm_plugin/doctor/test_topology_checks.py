"""What the doctor reports where topology, features of nodes and GRES contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.slurm_plugin.sockets.test_publication import NODE
from tiresias.slurm_plugin.backends.interface import SlurmNode
from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.cluster.topology import from_slurm
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.doctor.topology_checks import findings

NODES = tuple(replace(NODE, name=f"gpu0{at}", gpus=8, features=()) for at in range(1, 5))
TREE = "SwitchName=leaf1 Level=0 Nodes=gpu[01-02]\nSwitchName=leaf2 Level=0 Nodes=gpu[03-04]\n"
DEFAULT = Config()
NAMED = replace(DEFAULT, placement=replace(Config().placement, topology="nvl"))


def words(nodes: Sequence[SlurmNode], tree: str = TREE, config: Config = DEFAULT) -> list[str]:
    found = [*findings(config, from_slurm(tree), nodes)]
    assert all(one.level is Level.RISK for one in found)
    return [one.words for one in found]


def test_what_agrees_is_no_finding() -> None:
    fine = [replace(node, features=("nvlink:4", "socket:2", "rack1"), gpu_sockets=2) for node in NODES]
    assert words(fine) == words(NODES) == words(NODES, tree="") == words(NODES, config=NAMED) == []


def test_a_topology_that_slurm_does_not_have() -> None:
    assert words(NODES, tree="", config=NAMED) == ["Slurm has no topology nvl: features of nodes are used"]


def test_nodes_that_the_topology_does_not_have() -> None:
    five = [*NODES, replace(NODES[0], name="gpu05"), replace(NODES[0], name="login", gpus=0)]
    assert words(five) == ["no switch or block has gpu05: it counts as one group"]


@pytest.mark.parametrize(
    ("features", "sockets", "text"),
    [
        (("socket:3",), 0, "socket:3 is ignored: no number from 1 to 8 that divides its 8 GPUs"),
        (("nvlink:x",), 0, "nvlink:x is ignored: no number from 1 to 8 that divides its 8 GPUs"),
        (("socket:4",), 2, "socket:4, and GRES has its GPUs on 2 sockets; the feature counts"),
    ],
)
def test_features_that_contradict_the_gpus(features: tuple[str, ...], sockets: int, text: str) -> None:
    wrong = [replace(node, features=features, gpu_sockets=sockets) for node in NODES[:2]]
    assert words([*wrong, *NODES[2:]]) == [f"gpu01, gpu02: {text}"]


def test_levels_that_do_not_fit_into_each_other() -> None:
    wrong = replace(NODES[0], gpus=12, features=("nvlink:4", "socket:3"))
    assert words([wrong, *NODES[1:]]) == [
        "gpu01: nvlink:4 and socket:3 are ignored: the parts of one do not lie in those of the other"
    ]
