"""Networks of sites: tables of servers with their switches, and Slurm's topology.conf."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.shared_data import shared_data
from tiresias.errors import UsageError
from tiresias.simulator.topologies.network_builder import NetworkOptions
from tiresias.simulator.topologies.routes import Routes
from tiresias.simulator.topologies.site_file import read_site

OPTIONS = NetworkOptions()
TABLE = "host,core,rack\na1,c,r1\nb1,c,r2\na2,c,r1\n"
CONF = "# comment\nSwitchName=r1 Nodes=a[1-2]\nSwitchName=r2 Nodes=b1 LinkSpeed=1\nSwitchName=c Switches=r[1-2]\n"


def test_table_and_topology_conf_give_the_same_network(tmp_path: Path) -> None:
    found = []
    for name, text in (("t.csv", TABLE), ("topology.conf", CONF), ("t.csv.gz", TABLE)):
        file = tmp_path / name
        file.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        found.append(read_site(file, OPTIONS))
    for network in found:
        assert network.servers == ("a1", "a2", "b1")
        assert network.leaf.tolist() == [0, 0, 1]
        assert Routes(network).path(0, 1) == (0, 1)
        assert len(Routes(network).path(0, 2)) == 4
    assert len({network.fingerprint for network in found}) == 1


def test_equal_names_below_different_switches_are_different_switches(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("host,pod,rack\na,p1,r\nb,p2,r\nc,p1,r\n")
    network = read_site(tmp_path / "t.csv", OPTIONS)
    assert network.servers == ("a", "c", "b")
    assert network.leaf.tolist() == [0, 0, 1]
    assert network.switches == ("p1", "p1/r", "p2", "p2/r", "(top)")
    assert network.links.tier.tolist().count(2) == 2


def test_the_real_tree_of_lingjun() -> None:
    network = read_site(shared_data("topology/lingjun_topo.csv.gz"), OPTIONS)
    assert (len(network.servers), len(network.switches)) == (847, 119 + 3 + 1)
    sizes = np.bincount(network.leaf)
    assert (len(sizes), int(sizes.max()), int((sizes == 8).sum())) == (119, 8, 68)
    assert (np.diff(network.leaf) >= 0).all()  # neighbours have neighbouring rows


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=12))
def test_servers_share_a_group_where_their_path_begins_alike(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]]
) -> None:
    file = tmp_path_factory.mktemp("site") / "t.csv"
    file.write_text("host,pod,rack\n" + "".join(f"h{at},p{pod},r{rack}\n" for at, (pod, rack) in enumerate(rows)))
    network = read_site(file, OPTIONS)
    of = {name: rows[int(name[1:])] for name in network.servers}
    for one, first in enumerate(network.servers):
        for other, second in enumerate(network.servers):
            assert (network.leaf[one] == network.leaf[other]) == (of[first] == of[second])
            expected = (
                0 if one == other else 2 if of[first] == of[second] else 4 if of[first][0] == of[second][0] else 6
            )
            assert len(Routes(network).path(one, other)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: is no header"),
        ("host,rack\n", "has no servers"),
        ("host,rack\na,r\na,r\n", "line 3: server a occurs twice"),
        ("host,rack\na\n", "line 2: 1 cells for 2 columns"),
        ("host,rack\na,r;x\n", "line 2: 'r;x' is no name"),
        ("host\na\n", "line 1: is no header"),
        ("SwitchName=r Nodes=a,a\nSwitchName=s Nodes=a\n", "server a is below two switches, r and s"),
        ("SwitchName=r Nodes=a\nSwitchName=r Nodes=b\n", "switch r occurs twice"),
        ("SwitchName=c Switches=r1\n", "switch r1 has no line"),
        ("SwitchName=r Nodes=a\nSwitchName=s Switches=r\nSwitchName=t Switches=r\n", "switch r is below s and t"),
        ("SwitchName=r Nodes=a Switches=s\nSwitchName=s Switches=r\n", "is there a circle?"),
        ("SwitchName=r Nodes=a\nSwitchName=s Switches=r\nSwitchName=t Nodes=b\n", "have 1 to 2 levels of switches"),
        ("SwitchName=r Nodes=n[1-99999999]\n", "names more than 50,000 servers"),
        ("SwitchName=r\n", "has no servers"),
    ],
)
def test_impossible_files_are_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_site(tmp_path / "t", OPTIONS)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_servers_and_packed_zeros_stop_early(tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    many.write_text("host,rack\n" + "".join(f"h{row},r\n" for row in range(50_001)))
    with pytest.raises(UsageError, match=r"has more than 50,000 servers"):
        read_site(many, OPTIONS)
    switches = tmp_path / "topology.conf"
    switches.write_text("".join(f"SwitchName=s{row} Nodes=n\n" for row in range(50_001)))
    with pytest.raises(UsageError, match=r"has more than 50,000 switches"):
        read_site(switches, OPTIONS)
    zeros = tmp_path / "zeros.gz"
    zeros.write_bytes(gzip.compress(b"host,rack\n" + b"0" * (1 << 26)))
    with pytest.raises(UsageError, match="has a line of more than"):
        read_site(zeros, OPTIONS)
    with pytest.raises(UsageError, match="cannot be read"):
        read_site(tmp_path / "missing", OPTIONS)
