"""Slurm's strings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.host_lists import split_outside
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


@pytest.mark.parametrize(
    ("text", "name", "gpus"),
    [
        ("shard:3(2/4,0/4,1/4)", "shard", (0, 2)),
        ("gpu:a100:0(IDX:),mps:a100:13(0/100,13/100)", "mps", (1,)),
        ("shard:3(IDX:0)", "shard", (0,)),  # 22.05
        ("shard:a100:4(4/4,-/4)", "shard", (0,)),
        ("gres/shard:2", "shard", ()),
        ("gres:mps:50", "mps", ()),
        ("gres/shard=2", "shard", ()),
        ("shard", "shard", ()),
        ("shards:2,gpu:shard:1,mpsx", "", ()),
        ("shard:2(/,x/4,-)", "shard", (1,)),
        ("", "", ()),
    ],
)
def test_parts_of_gpus(text: str, name: str, gpus: tuple[int, ...]) -> None:
    assert (parse.sharing(text), parse.shared_gpus(text)) == (name, gpus)


@pytest.mark.parametrize(
    ("text", "sockets"),
    [
        ("gpu:4(S:0-1)", 2),
        ("gpu:s0:2(S:0),gpu:s1:2(S:1),nvme:1", 2),
        ("gpu:a:4(S:0,2)", 2),
        ("gpu:4(S:0)", 1),
        ("gpu:s0:3(S:0),gpu:s1:1(S:1)", 0),  # no equal parts
        ("gpu:s0:2(S:0),gpu:s1:2", 0),
        ("gpu:4", 0),
        ("gpu:2(IDX:0-1)", 0),
        ("nvme:1(S:0-1)", 0),
        ("", 0),
    ],
)
def test_sockets_of_the_gpus_of_a_node(text: str, sockets: int) -> None:
    assert parse.gpu_sockets(text) == sockets


def test_gpus_beside_other_resources() -> None:
    assert parse.gpus_beside("cpu=2,gres/gpu:s0:1") == ([(1, "s0")], "cpu=2")
    assert parse.gpus_beside("gres/gpu:s0:1,gres/gpu:s1:2") == ([(1, "s0"), (2, "s1")], "")
    assert parse.gpus_beside("cpu=2") == ([], "cpu=2")


@given(st.text(max_size=60))
def test_no_text_breaks_the_readers(text: str) -> None:
    parse.gpus(text)
    parse.array_tasks(text[:8])  # a range of a million tasks is no test
    assert "".join(split_outside(text)).replace(",", "") == text.replace(",", "")


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
