"""Slurm's strings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.sandbox.cluster import Cluster
from tiresias.slurm_plugin.backends import parse

GPUS = {
    "gpu": (1, "", ()),
    "gpu:4": (4, "", ()),
    "gpu:v100:4": (4, "v100", ()),
    "gpu:v100": (1, "v100", ()),
    "gpu:0(IDX:N/A)": (0, "", ()),
    "gpu:v100:2(IDX:2-3)": (2, "v100", (2, 3)),
    "gpu:3(IDX:0,2-3)": (3, "", (0, 2, 3)),
    "gpu:4(S:0-1)": (4, "", ()),
    "gres:gpu:6": (6, "", ()),
    "gres/gpu:2": (2, "", ()),
    "gres/gpu=1": (1, "", ()),
    "gres/gpu:v100=2": (2, "v100", ()),
    "cpu=6,mem=3000M,node=2,billing=6": (0, "", ()),
    "cpu=6,gres/gpu=3,gres/gpu:v100=3": (3, "v100", ()),
    "cpu=2,gres/gpu:a100=1": (1, "a100", ()),
    "gpu:a100:1,gpu:v100:2": (3, "a100,v100", ()),
    "nic:1,gpu:a100:2(IDX:0-1),shard:8": (2, "a100", (0, 1)),
    "gpu:1g.10gb:3": (3, "1g.10gb", ()),
    "craynetwork:1": (0, "", ()),
    "": (0, "", ()),
}


@pytest.mark.parametrize("text", GPUS)
def test_gpus(text: str) -> None:
    assert parse.gpus(text) == GPUS[text]


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
    assert parse.hosts(text) == HOSTS[text]


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


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("gpu:s0:2,gpu:s1:2", (("s0", 2), ("s1", 2))),
        ("gpu:s0:2(S:0),gpu:s1:2(S:1),nvme:1", (("s0", 2), ("s1", 2))),
        ("gpu:4", ()),
        ("gpu:s0:2,gpu:2", ()),
        ("", ()),
    ],
)
def test_gpus_of_a_node_by_type(text: str, types: tuple[tuple[str, int], ...]) -> None:
    assert parse.gpus_by_type(text) == types


def test_gpus_beside_other_resources() -> None:
    assert parse.gpus_beside("cpu=2,gres/gpu:s0:1") == ([(1, "s0")], "cpu=2")
    assert parse.gpus_beside("gres/gpu:s0:1,gres/gpu:s1:2") == ([(1, "s0"), (2, "s1")], "")
    assert parse.gpus_beside("cpu=2") == ([], "cpu=2")


@given(numbers, st.sampled_from(["gpu", "n-", "rack1n"]), st.integers(4, 5))
def test_hosts_unfold_what_was_folded(values: list[int], prefix: str, width: int) -> None:
    assert parse.hosts(fold(prefix, width, values)) == tuple(f"{prefix}{value:0{width}}" for value in values)


@given(st.text(max_size=60))
def test_no_text_breaks_the_readers(text: str) -> None:
    parse.gpus(text)
    parse.array_tasks(text[:8])  # a range of a million tasks is no test
    assert "".join(parse.split_outside(text)).replace(",", "") == text.replace(",", "")


@pytest.mark.parametrize(
    ("text", "tasks"),
    [("3", [3]), ("1-5,9%2", [1, 2, 3, 4, 5, 9]), ("0-8:4", [0, 4, 8]), ("", []), ("7%1", [7]), ("1-3,...", [1, 2, 3])],
)
def test_array_tasks(text: str, tasks: list[int]) -> None:
    assert parse.array_tasks(text) == tasks


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (7, 7),
        (0, 0),
        (None, 0),
        (6.0, 6),
        ({"set": True, "infinite": False, "number": 5}, 5),
        ({"set": False, "infinite": False, "number": 5}, 0),
        ({"set": True, "infinite": True, "number": 5}, 0),
        ("9", 0),
    ],
)
def test_numbers(value: object, found: int) -> None:
    assert parse.number(value) == found


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (0, 0), (768, 3), (9, 137), (None, 0),
        ({"return_code": {"set": True, "infinite": False, "number": 3}, "signal": {"id": {"set": False, "number": 0}}}, 3),
        ({"return_code": {"set": True, "number": 0}, "signal": {"id": {"set": True, "number": 15}, "name": "SIGTERM"}}, 143),
    ],
)  # fmt: skip
def test_exit_codes(status: object, code: int) -> None:
    assert parse.exit_code(status) == code


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
        assert list(parse.hosts(text)) == cluster.run(["scontrol", "show", "hostnames", text]).stdout.split()
    names = [f"gpu{number:02}" for number in (1, 2, 3, 5, 8, 9, 10, 11, 40)] + ["login", "cpu7", "cpu8"]
    folded = cluster.run(["scontrol", "show", "hostlist", ",".join(names)]).stdout.strip()
    assert sorted(parse.hosts(folded)) == sorted(names)
