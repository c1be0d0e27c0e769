from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.place.server_placement import ServerPlacement, place_servers, transfer_time


@pytest.mark.parametrize(
    ("servers", "workers", "time"),
    [((1, 1, 0), (1, 1, 2), 3), ((2, 0, 0), (1, 3, 0), 3), ((1, 1, 0), (2, 2, 0), 2)],
)
def test_figure_10(servers: tuple[int, ...], workers: tuple[int, ...], time: int) -> None:
    assert transfer_time(ServerPlacement(servers, workers)) == time


def test_the_best_of_figure_10() -> None:
    assert place_servers(2, 4, [3, 3, 3]) == ((1, 1, 0), (2, 2, 0))


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
@pytest.mark.parametrize(("servers", "workers"), [(1, 1), (1, 3), (2, 2), (3, 1)])
def test_equal_numbers_on_equal_nodes(nodes: int, servers: int, workers: int) -> None:
    """Theorem 1, where the nodes are full: each takes the same part."""
    placement = place_servers(servers * nodes, workers * nodes, [servers + workers] * nodes)
    assert placement is not None
    equal = ServerPlacement((servers,) * nodes, (workers,) * nodes)
    assert transfer_time(placement) <= transfer_time(equal)


def test_an_exception_of_theorem_1() -> None:
    placement = place_servers(2, 6, [6, 6])
    assert placement is not None
    assert transfer_time(placement) == 2
    assert transfer_time(ServerPlacement((1, 1), (3, 3))) == 3


def test_a_job_that_does_not_fit() -> None:
    assert place_servers(2, 6, [3, 4]) is None
    assert place_servers(1, 1, []) is None


@given(st.integers(1, 4), st.integers(1, 5), st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_no_other_distribution_over_the_same_nodes_has_less_traffic(
    servers: int, workers: int, slots: list[int]
) -> None:
    placement = place_servers(servers, workers, slots)
    most = sorted(slots, reverse=True)
    fewest = next((n for n in range(1, len(slots) + 1) if sum(most[:n]) >= servers + workers), None)
    assert (placement is None) == (fewest is None)
    if placement is None:
        return
    assert (sum(placement.servers), sum(placement.workers)) == (servers, workers)
    assert all(p + w <= free for p, w, free in zip(*placement, slots, strict=True))
    assert sum(p + w > 0 for p, w in zip(*placement, strict=True)) <= (fewest or 0)
    assert transfer_time(placement) == _least_time(servers, workers, most[:fewest])


def _least_time(servers: int, workers: int, slots: list[int]) -> int:
    """The least time over all distributions."""

    def parts(total: int) -> list[tuple[int, ...]]:
        every = itertools.product(*(range(min(total, free) + 1) for free in slots))
        return [each for each in every if sum(each) == total]

    possible = (
        ServerPlacement(p, w)
        for p in parts(servers)
        for w in parts(workers)
        if all(some + more <= free for some, more, free in zip(p, w, slots, strict=True))
    )
    return min(map(transfer_time, possible))
