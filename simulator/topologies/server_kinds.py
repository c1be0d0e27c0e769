"""The kinds of servers of simulated clusters. A new kind is one line in SERVERS."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerKind:
    """The parts of a server. GPUs and processors are divided equally among its sockets.

    Attributes:
        name: For tables.
        gpus: Number of GPUs.
        sockets: Number of sockets, with a processor each.
        cores: Cores of each processor.
        pcie: Bandwidth between each processor and its GPUs, Gbit/s.
        memory: Bandwidth of the memory of each processor, Gbit/s.
    """

    name: str
    gpus: int
    sockets: int = 2
    cores: int = 8
    pcie: float = 128.0
    memory: float = 512.0


QUAD = ServerKind("quad", 4)  # IBM Power8: four GPUs, two processors of 8 cores, PCIe 3 (marl-placement, section VI-A)
DGX = ServerKind("dgx", 8, cores=20)  # DGX-1: two processors of 20 cores with four GPUs each

SERVERS: dict[str, tuple[ServerKind, ...]] = {"quad": (QUAD,), "dgx": (DGX,), "mixed": (QUAD, DGX)}


def kinds_of(servers: int, mix: tuple[ServerKind, ...]) -> tuple[ServerKind, ...]:
    """Return the kind of each server: those of the mix in turn.

    Args:
        servers: Number of servers.
        mix: One of the values of SERVERS.
    """
    return tuple(mix[row % len(mix)] for row in range(servers))
