"""Splits large tensors into blocks and spreads them over the declared servers: PAA of Optimus (EuroSys '18, section 5.3).

The blocks are the units that are assigned, migrated and aggregated. While a job is profiled, its blocks lie on aggregators of its
own as PAA assigns them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tiresias.protocol.parameter_assignment import assign


class TensorBlock(NamedTuple):
    """A tensor, or a contiguous part of one.

    Attributes:
        tensor: Its tensor's name.
        part: The number of the block in the tensor, from 0.
        offset: Its start in the tensor, in the same unit as `size`.
        size: Its bytes, or parameters: the unit is that of the caller.
        server: The server that holds it while the job is profiled, from 0.
    """

    tensor: str
    part: int
    offset: int
    size: int
    server: int

    @property
    def name(self) -> str:
        """The tensor's name for a whole one or a first block, else with the block's number: `fc6.weight`, `fc6.weight#1`."""
        return f"{self.tensor}#{self.part}" if self.part else self.tensor


def blocks_of(sizes: Mapping[str, int], servers: int) -> list[TensorBlock]:
    """Return the blocks of all tensors, tensor by tensor.

    Args:
        sizes: Parameters of each tensor, 1 or more.
        servers: Servers that the job declared.

    Raises:
        ValueError: A number is below 1, or a tensor has the name of another one's block.
    """
    names, blocks = list(sizes), list[TensorBlock]()
    begun: dict[int, tuple[int, int]] = {}
    for each in sorted(
        assign(list(sizes.values()), servers).slices, key=lambda one: one.block
    ):  # stable: slices keep their order
        index, offset = begun.get(each.block, (0, 0))
        blocks.append(TensorBlock(names[each.block], index, offset, each.size, each.server))
        begun[each.block] = (index + 1, offset + each.size)
    if len({each.name for each in blocks}) < len(blocks):
        raise ValueError("a tensor has the name of a block of another tensor: rename the tensors with # in their names")
    return blocks


def work_of_blocks(blocks: list[TensorBlock], work_s: Mapping[str, float]) -> dict[str, float]:
    """Return the work of each block: that of its tensor in proportion to its size."""
    sizes: dict[str, int] = {}
    for each in blocks:
        sizes[each.tensor] = sizes.get(each.tensor, 0) + each.size
    return {each.name: work_s[each.tensor] * each.size / sizes[each.tensor] for each in blocks}
