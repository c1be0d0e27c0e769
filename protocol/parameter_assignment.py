"""Assigns the parameter blocks of a model to parameter servers: PAA of Optimus (EuroSys '18, section 5.3), and MXNet's default.

A worker sends one request a step for each block or slice. PAA balances the parameters and the requests of the servers, and slices
as few blocks as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

SMALL_SHARE = 0.01  # of the mean size of a server: a block below it counts as a request only
MXNET_THRESHOLD = 1_000_000  # parameters: MXNet slices larger blocks
_MXNET_FACTOR = 9973  # of its choice of a server for a small block


class BlockSlice(NamedTuple):
    """A block, or a slice of one, on a server.

    Attributes:
        block: Index of the block.
        server: Index of the server.
        size: Number of parameters.
    """

    block: int
    server: int
    size: int


@dataclass(frozen=True, slots=True)
class ParameterAssignment:
    """Which server holds which parameters.

    Attributes:
        servers: Number of servers.
        slices: Every block, whole or in slices.
    """

    servers: int
    slices: tuple[BlockSlice, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Parameters on each server."""
        return tuple(sum(each.size for each in self.slices if each.server == at) for at in range(self.servers))

    @property
    def requests(self) -> tuple[int, ...]:
        """Requests to each server, of one worker in one step."""
        return tuple(sum(each.server == at for each in self.slices) for at in range(self.servers))


def assign(blocks: Sequence[int], servers: int) -> ParameterAssignment:
    """Assign blocks by PAA. O(blocks x (log blocks + servers)).

    Args:
        blocks: The number of parameters of each block, 1 or more.
        servers: The number of servers, 1 or more.

    Raises:
        ValueError: A number is below 1.
    """
    _check(blocks, servers)
    mean = sum(blocks) / servers
    loads = _Loads(servers)
    for block in sorted(range(len(blocks)), key=lambda at: (-blocks[at], at)):
        size = blocks[block]
        if size < SMALL_SHARE * mean:
            loads.put(block, loads.fewest_requests(), size)
        elif size <= mean:
            loads.put(block, loads.best_fit(size, mean), size)
        else:
            _put_sliced(loads, block, size, mean)
    return ParameterAssignment(servers, tuple(loads.slices))


def assign_as_mxnet(blocks: Sequence[int], servers: int, threshold: int = MXNET_THRESHOLD) -> ParameterAssignment:
    """Assign blocks as MXNet does: those of `threshold` parameters or more are sliced over all servers, any other one is put on a
    server that depends on its index. Small blocks of one size share a server, as in the measurement of the paper (table 3).

    Raises:
        ValueError: A number is below 1.
    """
    _check(blocks, servers)
    loads, first = _Loads(servers), dict[int, int]()
    for block, size in enumerate(blocks):
        if size < threshold:
            loads.put(block, first.setdefault(size, block) * _MXNET_FACTOR % servers, size)
        else:
            for server in range(servers):
                loads.put(block, server, size // servers + (server < size % servers))
    return ParameterAssignment(servers, tuple(loads.slices))


class _Loads:
    """The parameters and requests that the servers have so far."""

    def __init__(self, servers: int) -> None:
        self.sizes, self.requests = [0] * servers, [0] * servers
        self.slices: list[BlockSlice] = []

    def put(self, block: int, server: int, size: int) -> None:
        self.slices.append(BlockSlice(block, server, size))
        self.sizes[server] += size
        self.requests[server] += 1

    def fewest_requests(self) -> int:
        return min(range(len(self.sizes)), key=lambda at: (self.requests[at], self.sizes[at], at))

    def smallest(self) -> int:
        return min(range(len(self.sizes)), key=lambda at: (self.sizes[at], at))

    def best_fit(self, size: int, mean: float) -> int:
        """Return the fullest server that stays at the mean size or below it; the least full one where all would exceed it."""
        fitting = [at for at, used in enumerate(self.sizes) if used + size <= mean]
        return max(fitting, key=lambda at: (self.sizes[at], -at)) if fitting else self.smallest()


def _put_sliced(loads: _Loads, block: int, size: int, mean: float) -> None:
    """Put slices of the mean size, the last one smaller, each on the server with the fewest parameters."""
    largest = max(int(mean), 1)
    for begin in range(0, size, largest):
        loads.put(block, loads.smallest(), min(largest, size - begin))


def _check(blocks: Sequence[int], servers: int) -> None:
    if servers < 1:
        raise ValueError(f"{servers} parameter servers: give 1 or more")
    for at, size in enumerate(blocks):
        if size < 1:
            raise ValueError(f"block {at} has {size} parameters: give 1 or more")
