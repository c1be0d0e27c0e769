"""The graphs of a cluster: each partition has the numbers of the whole graph, and the fingerprint is that of the tree."""

from __future__ import annotations

import numpy as np
import pytest

from tests.scheduler.place.learned.networks import (
    inputs,
    random_graphs,
    random_parameters,
    random_sizes,
    random_topology,
)
from tiresias.scheduler.place.learned.cluster_graph import WHOLE, ClusterGraph
from tiresias.scheduler.place.learned.placement_network import PlacementNetwork
from tiresias.scheduler.topology_tree import Topology


@pytest.mark.parametrize("seed", range(30))
def test_a_partition_alone_has_the_numbers_of_the_whole_graph(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graphs, sizes = random_graphs(rng), random_sizes(rng)
    network, given = PlacementNetwork(sizes, random_parameters(sizes, rng)), inputs(graphs, sizes, rng)
    links = graphs.edge_features(given["load"])
    whole = network.embed_servers(graphs.inner, given["inner"], given["features"])
    for at, part in enumerate(graphs.parts):
        alone = network.embed_servers(
            part.edges, part.edges.weights(links[part.links]), given["features"][part.members]
        )
        assert np.abs(alone - whole[part.members]).max() < 1e-5
        assert (graphs.partition[part.servers] == at).all()
    assert np.sort(np.concatenate([part.servers for part in graphs.parts])).tolist() == list(
        range(len(graphs.partition))
    )


def tree(gpus: list[int], leaf: list[int], pod: list[int]) -> Topology:
    return Topology.of_groups(gpus, [leaf, pod])


def test_the_fingerprint_is_that_of_the_tree() -> None:
    one = ClusterGraph(tree([4, 4, 8, 8], [0, 0, 1, 1], [0, 0, 1, 1]))
    assert ClusterGraph(tree([8, 4, 8, 4], [7, 2, 7, 2], [5, 9, 5, 9])).fingerprint == one.fingerprint
    for gpus, leaf, pod in [
        ([4, 4, 8, 4], [0, 0, 1, 1], [0, 0, 1, 1]),
        ([4, 8, 4, 8], [0, 0, 1, 1], [0, 0, 1, 1]),
        ([4, 4, 8, 8], [0, 0, 1, 2], [0, 0, 1, 1]),
        ([4, 4, 8, 8], [0, 0, 1, 1], [0, 0, 0, 0]),
    ]:
        assert ClusterGraph(tree(gpus, leaf, pod)).fingerprint != one.fingerprint
    same = tree([4, 4, 8, 8], [0, 0, 1, 1], [0, 0, 1, 1])
    assert ClusterGraph(same, "group2").fingerprint != one.fingerprint
    assert ClusterGraph(same, WHOLE).fingerprint != one.fingerprint
    assert ClusterGraph(same, bandwidths=(1.0,)).fingerprint != one.fingerprint


@pytest.mark.parametrize("leaf", [[0, 0, 1, 1], [0, 0, 0, 0]])
def test_switches_above_the_one_that_joins_all_do_not_count(leaf: list[int]) -> None:
    """slurm.conf's topology may have them, and the controller leaves levels of one group out."""
    gpus, one_group = [4, 4, 8, 8], [0, 0, 0, 0]
    observed = ClusterGraph(Topology.of_groups(gpus, [leaf]))
    for above in ([one_group], [one_group, one_group], [one_group] * 3):
        found = ClusterGraph(Topology.of_groups(gpus, [leaf, *above]))
        assert found.fingerprint == observed.fingerprint
        assert found.links == observed.links
    assert ClusterGraph(Topology.of_groups(gpus, [leaf, one_group, one_group]), "group3").fingerprint == (
        ClusterGraph(Topology.of_groups(gpus, [leaf]), WHOLE).fingerprint
    )


def naive_load(topology: Topology, job: list[int], node: list[int], gpus: list[float]) -> dict[frozenset[int], float]:
    """The load of the link above each group of nodes."""
    below = {frozenset([row]) for row in range(len(topology))}
    below |= {
        frozenset(np.flatnonzero(level == each).tolist()) for level in topology.groups for each in np.unique(level)
    }
    found = {}
    for nodes in below:
        crossing = {one for one in job if {n for j, n in zip(job, node, strict=True) if j == one} - nodes}
        held = sum(g for j, n, g in zip(job, node, gpus, strict=True) if j in crossing and n in nodes)
        found[nodes] = held / int(topology.gpus[list(nodes)].sum())
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_load_of_a_link_is_what_jobs_that_cross_it_hold_below(seed: int) -> None:
    rng = np.random.default_rng(seed)
    topology = random_topology(rng)
    graphs, held = ClusterGraph(topology), int(rng.integers(0, 12))
    pairs = sorted({(int(rng.integers(4)) * 7, int(rng.integers(len(topology)))) for _ in range(held)})
    job, node = [one for one, _ in pairs], [one for _, one in pairs]
    gpus = rng.integers(1, 3, len(pairs)).astype(float).tolist()
    load = graphs.link_load(np.array(job, np.int64), np.array(node, np.int64), np.array(gpus))
    expected = naive_load(topology, job, node, gpus)
    servers = load[: len(topology)].tolist()
    assert servers == pytest.approx([expected[frozenset([row])] for row in range(len(topology))])
    for at, part in enumerate(graphs.parts):
        if (group := frozenset(part.servers.tolist())) in expected and graphs.links > len(topology):
            assert load[len(topology) + at] == pytest.approx(expected[group])


def test_a_level_that_the_topology_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="no level pod; its levels are leaf"):
        ClusterGraph(Topology.of_groups([4, 4]), "pod")
