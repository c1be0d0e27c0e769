"""The topologies have the published numbers of servers, switches and links, and their bisection bandwidth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.errors import UsageError
from tiresias.simulator.topologies.named_topologies import network_of
from tiresias.simulator.topologies.network import Network
from tiresias.simulator.topologies.network_builder import NetworkOptions
from tiresias.simulator.topologies.routes import Routes
from tiresias.simulator.topologies.server_kinds import SERVERS

EQUAL = NetworkOptions(bandwidths=(10.0,))
names = st.one_of(
    st.sampled_from([2, 4, 6]).map("fat_tree:{}".format),
    st.tuples(st.sampled_from([2, 4, 6]), st.sampled_from([2, 4]), st.integers(1, 4)).map(
        "vl2:{0[0]},{0[1]},{0[2]}".format
    ),
    st.tuples(st.integers(2, 4), st.integers(0, 2)).map("bcube:{0[0]},{0[1]}".format),
)
several = settings(max_examples=examples(60), deadline=None)


def bisection(network: Network) -> int:
    """Gbit/s between the first half of the servers and the second one: the maximum flow, by shortest augmenting paths."""
    count, left = len(network.servers), dict[tuple[int, int], int]()
    for one, other, most in zip(*(column.tolist() for column in network.links[:3]), strict=True):
        left[one, other] = left[other, one] = int(most)
    flow = 0
    while path := _augmenting(network, left, count // 2):
        amount = min(left[link] for link in path)
        for one, other in path:
            left[one, other] -= amount
            left[other, one] += amount
        flow += amount
    return flow


def _augmenting(network: Network, left: dict[tuple[int, int], int], half: int) -> list[tuple[int, int]]:
    came = dict.fromkeys(range(half), -1)
    reached = list(came)
    for at in reached:
        for end, _ in network.neighbours[at]:
            if end not in came and left[at, end]:
                came[end] = at
                reached.append(end)
    end = next((row for row in reached if half <= row < len(network.servers)), -1)
    path = []
    while end >= 0 and came[end] >= 0:
        path.append((came[end], end))
        end = came[end]
    return path


@pytest.mark.parametrize("k", [2, 4, 8, 20])
def test_a_fat_tree_has_the_published_counts(k: int) -> None:
    network = network_of(f"fat_tree:{k}")
    assert (len(network.servers), len(network.switches)) == (k**3 // 4, 5 * k**2 // 4)
    assert len(network.links.first) == 3 * k**3 // 4
    assert len(set(network.partition("pod").tolist())) == k
    assert np.bincount(network.links.first, minlength=network.size)[: k**3 // 4].tolist() == [1] * (k**3 // 4)


def test_the_network_of_the_paper_has_2000_servers_in_20_pods() -> None:
    network = network_of("fat_tree:20")
    assert (len(network.servers), int(network.partition("pod").max()) + 1, int(network.gpus.sum())) == (2000, 20, 8000)
    assert sorted(set(network.links.bandwidth.tolist())) == [10.0, 20.0, 40.0]


@pytest.mark.parametrize(("n", "k"), [(4, 1), (2, 3), (8, 1), (3, 0)])
def test_bcube_has_the_published_counts(n: int, k: int) -> None:
    network = network_of(f"bcube:{n},{k}")
    assert (len(network.servers), len(network.switches)) == (n ** (k + 1), (k + 1) * n**k)
    ports = np.bincount(np.concatenate(network.links[:2]), minlength=network.size)
    assert set(ports[: len(network.servers)].tolist()) == {k + 1}
    assert set(ports[len(network.servers) :].tolist()) == {n}


@pytest.mark.parametrize(("a", "i"), [(4, 4), (6, 4), (8, 12)])
def test_vl2_has_the_published_counts(a: int, i: int) -> None:
    network = network_of(f"vl2:{a},{i}")
    leaves = a * i // 4
    assert (len(network.servers), len(network.switches)) == (20 * leaves, leaves + i + a // 2)
    ports = np.bincount(np.concatenate(network.links[:2]), minlength=network.size)[20 * leaves :].tolist()
    assert ports[:leaves] == [22] * leaves
    assert ports[leaves : leaves + i] == [a] * i
    assert ports[leaves + i :] == [i] * (a // 2)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fat_tree:4", 8 * 10),
        ("fat_tree:8", 64 * 10),
        ("bcube:4,1", 8 * 10),
        ("bcube:2,3", 8 * 10),
        ("vl2:4,4,2", 4 * 10),
    ],
)
def test_bisection_bandwidth_is_full(name: str, expected: int) -> None:
    assert bisection(network_of(name, EQUAL)) == expected


@several
@given(names, st.data())
def test_a_path_is_a_chain_of_links_and_as_short_as_its_way_back(name: str, data: st.DataObject) -> None:
    network = network_of(name)
    routes, server = Routes(network), st.integers(0, len(network.servers) - 1)
    one, other = data.draw(server), data.draw(server)
    at, path = one, routes.path(one, other)
    for link in path:
        ends = {int(network.links.first[link]), int(network.links.second[link])}
        assert at in ends
        (at,) = ends - {at}
    assert at == other
    assert len(path) == len(routes.path(other, one)) == len(set(path))


@several
@given(names, st.data())
def test_a_ring_connects_its_servers(name: str, data: st.DataObject) -> None:
    network = network_of(name)
    servers = data.draw(st.sets(st.integers(0, len(network.servers) - 1), min_size=1, max_size=5))
    used = Routes(network).ring(sorted(servers))
    ends = {int(end) for link in used for end in (network.links.first[link], network.links.second[link])}
    assert servers <= ends if len(servers) > 1 else not used
    assert list(used) == sorted(set(used))


def test_flows_from_one_leaf_to_different_servers_use_all_links_up() -> None:
    network = network_of("fat_tree:8")
    routes = Routes(network)
    used = {link for to in range(16, 128) for link in routes.path(0, to)}
    cores = {link for link in used if network.links.tier[link] == 2 and network.links.first[link] < 128 + 32 + 4}
    assert len(cores) == 16  # of 16 core switches


@several
@given(names, st.sampled_from(list(SERVERS)))
def test_groups_of_the_tree_are_those_of_the_network(name: str, servers: str) -> None:
    network = network_of(name, NetworkOptions(servers=SERVERS[servers]))
    tree = network.tree
    assert tree.names == (*tuple(network.groups)[::-1], "node", "socket", "gpu")
    assert tree.gpus.tolist() == [kind.gpus for kind in network.kinds]
    assert np.array_equal(tree.nearest_groups[0], network.leaf)
    assert (tree.selectable_parts == 2).all()


def test_mixed_servers_alternate() -> None:
    network = network_of("bcube:4,1", NetworkOptions(servers=SERVERS["mixed"]))
    assert network.gpus.tolist() == [4, 8] * 8


def test_equal_networks_have_one_fingerprint_and_others_another() -> None:
    prints = [network_of(name).fingerprint for name in ("fat_tree:4", "fat_tree:4", "fat_tree:6", "bcube:4,1")]
    prints.append(network_of("fat_tree:4", EQUAL).fingerprint)
    prints.append(network_of("fat_tree:4", NetworkOptions(servers=SERVERS["dgx"])).fingerprint)
    assert prints[0] == prints[1]
    assert len(set(prints)) == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fat_tree:3", "fat_tree:3: give the ports of a switch, an even number"),
        ("fat_tree:4,4", "give the ports of a switch"),
        ("fat_tree:999998", "has 249,998,500,002,999,998 servers; give 1 to 50,000"),
        ("fat_tree:9999999", "give the name, a colon and numbers with commas"),
        ("fat_tree", "give the name, a colon and numbers with commas"),
        ("fat_tree:-4", "give the name, a colon and numbers with commas"),
        ("vl2:4,3", "give the ports of both kinds of switches"),
        ("vl2:4,4,0", "give the ports of both kinds of switches"),
        ("bcube:1,1", "give the ports of a switch and the highest level"),
        ("bcube:999999,9", "servers; give 1 to 50,000"),
        ("x" * 5000, "no such topology or file"),
        ("\0", "no such topology or file"),
        ("torus:4", "no such topology or file; there are fat_tree, vl2, bcube"),
    ],
)
def test_impossible_topologies_are_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        network_of(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_an_impossible_bandwidth_is_refused(bandwidth: float) -> None:
    with pytest.raises(UsageError, match="Gbit/s is not possible"):
        network_of("fat_tree:2", NetworkOptions(bandwidths=(10.0, bandwidth)))
