"""The assignment of parameter blocks to servers."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared_data import shared_data
from tiresias.protocol.parameter_assignment import ParameterAssignment, assign, assign_as_mxnet

BLOCKS = st.lists(st.integers(1, 10**7), max_size=60)


def spread(found: ParameterAssignment) -> tuple[float, int, int]:
    """Return the rows of the paper's table 3: difference of sizes in millions, of requests, and all requests."""
    sizes, requests = found.sizes, found.requests
    return round((max(sizes) - min(sizes)) / 1e6, 2), max(requests) - min(requests), sum(requests)


def test_table_3_of_the_paper() -> None:
    models = json.loads(gzip.decompress(shared_data("optimus/model_param_blocks.json.gz").read_bytes()))["models"]
    blocks = models["resnet|50|1000|3,54,54|1"]
    assert len(blocks) == 157
    assert spread(assign_as_mxnet(blocks, 10)) == (3.59, 43, 247)
    assert spread(assign(blocks, 10)) == (0.10, 1, 157)


@given(blocks=BLOCKS, servers=st.integers(1, 12))
def test_every_parameter_is_on_one_server(blocks: list[int], servers: int) -> None:
    for found in (assign(blocks, servers), assign_as_mxnet(blocks, servers)):
        held = [sum(each.size for each in found.slices if each.block == at) for at in range(len(blocks))]
        assert held == blocks
        assert all(0 <= each.server < servers for each in found.slices)


@given(blocks=BLOCKS, servers=st.integers(1, 12))
def test_no_server_has_more_than_twice_the_mean(blocks: list[int], servers: int) -> None:
    """A block or slice is put on a server that has less than the mean, and is not larger than it."""
    found = assign(blocks, servers)
    small = sum(size for size in blocks if size < 0.01 * sum(blocks) / servers)
    assert max(found.sizes, default=0) <= 2 * sum(blocks) / servers + small + 1


@given(blocks=BLOCKS)
def test_one_server_gets_each_block_whole(blocks: list[int]) -> None:
    assert sorted(each.size for each in assign(blocks, 1).slices) == sorted(blocks)


@pytest.mark.parametrize(("blocks", "servers"), [([1, 0], 2), ([-1], 1), ([1], 0)])
def test_impossible_numbers_are_refused(blocks: list[int], servers: int) -> None:
    with pytest.raises(ValueError, match="give 1 or more"):
        assign(blocks, servers)
