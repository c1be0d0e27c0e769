"""Host lists: what is shortened expands to the same names, and both agree with Slurm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.slurm_plugin.backends.conftest import Site
from tiresias.sandbox.cluster import Cluster
from tiresias.scheduler.host_lists import compressed, hosts

NAMES = st.from_regex(r"[a-z]{1,3}-?[0-9]{0,4}", fullmatch=True)


HOSTS = {
    "": (),
    "gpu01": ("gpu01",),
    "gpu[01-03,07],cpu1": ("gpu01", "gpu02", "gpu03", "gpu07", "cpu1"),
    "n[9-11]": ("n9", "n10", "n11"),
    "n[098-101]": ("n098", "n099", "n100", "n101"),
    "r[1-2]n[1-2]": ("r1n1", "r1n2", "r2n1", "r2n2"),
    "gpu[01]-ib": ("gpu01-ib",),
}


@pytest.mark.parametrize("text", HOSTS)
def test_hosts(text: str) -> None:
    assert hosts(text) == HOSTS[text]


numbers = st.lists(st.integers(0, 1200), min_size=1, max_size=30, unique=True)


def fold(prefix: str, width: int, values: list[int]) -> str:
    """A host list in Slurm's own form: ranges of one width in one pair of brackets."""
    parts, at = [], 0
    while at < len(values):
        last = at
        while last + 1 < len(values) and values[last + 1] == values[last] + 1:
            last += 1
        parts.append(f"{values[at]:0{width}}" + (f"-{values[last]:0{width}}" if last > at else ""))
        at = last + 1
    return f"{prefix}[{','.join(parts)}]"


@given(numbers, st.sampled_from(["gpu", "n-", "rack1n"]), st.integers(4, 5))
def test_hosts_unfold_what_was_folded(values: list[int], prefix: str, width: int) -> None:
    assert hosts(fold(prefix, width, values)) == tuple(f"{prefix}{value:0{width}}" for value in values)


@given(st.lists(NAMES))
def test_a_list_expands_to_the_same_nodes(names: list[str]) -> None:
    assert sorted(hosts(compressed(names))) == sorted(set(names))


def test_a_large_cluster_without_a_few_nodes_is_a_short_list() -> None:
    without = {17, 18, 9000}
    names = [f"node{number:05}" for number in range(16_000) if number not in without]
    assert compressed(names) == "node[00000-00016,00019-08999,09001-15999]"


def test_slurm_reads_it_as_it_is_meant(site: Site) -> None:
    names = ("gpu01", "gpu02", "gpu04", "a1", "a001", "login")
    shown = site.cluster.run(["scontrol", "show", "hostnames", compressed(names)]).stdout.split()
    assert sorted(shown) == sorted(names)


@pytest.mark.sandbox
def test_hosts_expand_as_scontrol_does(cluster: Cluster) -> None:
    """All at once: `scontrol show hostnames` takes a whole list."""
    lists = [
        "gpu[01-03,07],cpu1",
        "n[9-11],n[098-101]",
        "r[1-2]n[1-2]",
        "a-[0-2]-ib",
        "x1,x2,x[3-5]",
        "gpu[001-020,5]",
        "h[0-0]",
    ]
    for text in lists:
        assert list(hosts(text)) == cluster.run(["scontrol", "show", "hostnames", text]).stdout.split()
    names = [f"gpu{number:02}" for number in (1, 2, 3, 5, 8, 9, 10, 11, 40)] + ["login", "cpu7", "cpu8"]
    folded = cluster.run(["scontrol", "show", "hostlist", ",".join(names)]).stdout.strip()
    assert sorted(hosts(folded)) == sorted(names)
