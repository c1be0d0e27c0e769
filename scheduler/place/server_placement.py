"""Distributes the parameter servers and workers of a job over nodes (Optimus, EuroSys '18, section 4.2).

In a step each worker exchanges one unit with each server. Only what crosses nodes takes time, and the slowest task determines
it: a server exchanges with the workers on other nodes, a worker with the servers on other nodes (`transfer_time`, figure 10).
Theorem 1 puts equal numbers on the fewest nodes. That is not always the best: 2 servers and 6 workers on two nodes of 6 take
3 as equal parts, and 2 with both servers on one node. So the least possible time is searched, and the equal parts are taken
where they have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class ServerPlacement(NamedTuple):
    """Servers and workers on each node."""

    servers: tuple[int, ...]
    workers: tuple[int, ...]


def transfer_time(placement: ServerPlacement) -> int:
    """Return the units that the slowest task exchanges with other nodes in a step."""
    servers, workers = sum(placement.servers), sum(placement.workers)
    of_servers = [workers - w for p, w in zip(*placement, strict=True) if p]
    of_workers = [servers - p for p, w in zip(*placement, strict=True) if w]
    return max(of_servers + of_workers, default=0)


def place_servers(servers: int, workers: int, slots: Sequence[int]) -> ServerPlacement | None:
    """Return the placement with the least transfer time on the fewest nodes, those with the most slots; None: it does not fit.

    O((servers + workers)^2 x nodes^2) at most, of the nodes that are used.

    Args:
        servers: 1 or more.
        workers: 1 or more.
        slots: Tasks that each node can take, servers or workers.
    """
    order = sorted(range(len(slots)), key=lambda node: (-slots[node], node))
    count = next((n for n in range(1, len(slots) + 1) if sum(slots[at] for at in order[:n]) >= servers + workers), 0)
    if not count:
        return None
    used = [slots[at] for at in order[:count]]
    best = next(
        found
        for time in range(max(servers, workers) + 1)
        if (found := _within(time, servers, workers, used)) is not None
    )
    equal = _within(max(servers, workers), servers, workers, used)
    chosen = equal if equal and transfer_time(equal) == transfer_time(best) else best
    return _on_all_nodes(chosen, order[:count], len(slots))


def _within(time: int, servers: int, workers: int, slots: list[int]) -> ServerPlacement | None:
    """Return a placement with at most this transfer time, None: there is none.

    A node with a server needs `workers - time` workers, and one with a worker `servers - time` servers. The first nodes have
    that of both. Where a server needs workers on its node, servers are on these nodes alone, and are distributed first; and the
    other way round.
    """
    least_servers, least_workers = max(servers - time, 0), max(workers - time, 0)
    for both in range(len(slots), 0, -1):
        some, p, w = range(both), [0] * len(slots), [0] * len(slots)
        p[:both], w[:both] = [least_servers] * both, [least_workers] * both
        if sum(p) > servers or sum(w) > workers or any(p[at] + w[at] > slots[at] for at in some):
            continue
        kinds = [
            (p, servers, some if least_workers else range(len(slots))),
            (w, workers, some if least_servers else range(len(slots))),
        ]
        kinds.sort(key=lambda kind: len(kind[2]))
        if all(_distribute(kind, total, nodes, p, w, slots) for kind, total, nodes in kinds):
            return ServerPlacement(tuple(p), tuple(w))
    return None


def _distribute(
    kind: list[int], total: int, nodes: Sequence[int], p: list[int], w: list[int], slots: list[int]
) -> bool:
    """Put the rest of a kind on nodes, each on the one that has the fewest of it; return whether there were slots for all."""
    for _ in range(total - sum(kind)):
        free = [at for at in nodes if p[at] + w[at] < slots[at]]
        if not free:
            return False
        kind[min(free, key=lambda at: (kind[at], p[at] + w[at], at))] += 1
    return True


def _on_all_nodes(placement: ServerPlacement, nodes: list[int], count: int) -> ServerPlacement:
    servers, workers = [0] * count, [0] * count
    for at, p, w in zip(nodes, *placement, strict=True):
        servers[at], workers[at] = p, w
    return ServerPlacement(tuple(servers), tuple(workers))
