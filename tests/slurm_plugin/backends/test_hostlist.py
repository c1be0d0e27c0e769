"""Lists of nodes: shortened here, expanded as Slurm does, they are the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.slurm_plugin.backends.conftest import Site
from tiresias.slurm_plugin.backends import parse
from tiresias.slurm_plugin.backends.hostlist import compressed

NAMES = st.from_regex(r"[a-z]{1,3}-?[0-9]{0,4}", fullmatch=True)


@given(st.lists(NAMES))
def test_a_list_expands_to_the_same_nodes(names: list[str]) -> None:
    assert sorted(parse.hosts(compressed(names))) == sorted(set(names))


def test_a_large_cluster_without_a_few_nodes_is_a_short_list() -> None:
    without = {17, 18, 9000}
    names = [f"node{number:05}" for number in range(16_000) if number not in without]
    assert compressed(names) == "node[00000-00016,00019-08999,09001-15999]"


def test_slurm_reads_it_as_it_is_meant(site: Site) -> None:
    names = ("gpu01", "gpu02", "gpu04", "a1", "a001", "login")
    shown = site.cluster.run(["scontrol", "show", "hostnames", compressed(names)]).stdout.split()
    assert sorted(shown) == sorted(names)
