"""The graph of the traffic shows parameter servers or all-reduce, and how large the model is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tiresias.profiler.iteration.contents import Contents
from tiresias.profiler.iteration.shape import EVEN, MESH, RING, SERVERS, TREE, UNKNOWN, shape


def sends(sender: int, receiver: int, *sizes: int) -> Contents:
    found, counts = np.unique(np.array(sizes)[::1], return_counts=True)
    return Contents(sender, receiver, found[::-1].astype(float), counts[::-1].astype(np.int64), 20, 0.0)


TENSORS = st.lists(st.integers(4, 10**8), min_size=5, max_size=60)


def served(tensors: list[int], workers: int, servers: int) -> list[Contents]:
    """Workers are the nodes from 0, servers those after them; tensors go round robin."""
    streams = []
    for worker in range(workers):
        for server in range(servers):
            part = tensors[server::servers]
            streams += [sends(worker, workers + server, *part), sends(workers + server, worker, *part)]
    return streams


@given(tensors=TENSORS, workers=st.integers(2, 8), servers=st.integers(1, 4))
def test_parameter_servers(tensors: list[int], workers: int, servers: int) -> None:
    parts = [sorted(tensors[server::servers]) for server in range(servers)]
    loads = [sum(part) for part in parts]
    distinct = all(one != other for n, one in enumerate(parts) for other in parts[:n])
    # else the sides cannot be distinguished, or look like an all-reduce
    assume(distinct and (servers == 1 or max(loads) - min(loads) > EVEN * max(loads)))
    found = shape(served(tensors, workers, servers))
    assert (found.kind, found.workers) == (SERVERS, workers)
    assert found.model == pytest.approx(sum(tensors))
    assert {each.node: each.largest for each in found.servers} == {
        workers + n: part[-1] for n, part in enumerate(parts)
    }


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_a_single_worker(servers: int) -> None:
    tensors = [1 << n for n in range(3, 24)]
    found = shape(served(tensors, 1, servers))
    assert (found.kind, found.workers, len(found.servers)) == (SERVERS, 1, servers)
    assert found.model == sum(tensors)


@given(processes=st.integers(2, 16), segment=st.integers(1000, 10**7), buckets=st.integers(1, 5))
def test_ring(processes: int, segment: int, buckets: int) -> None:
    """2 (n - 1) / n of the model by each process, cut into segments."""
    sizes = [segment + 1000 * bucket for bucket in range(buckets) for _ in range(2 * (processes - 1))]
    found = shape([sends(each, (each + 1) % processes, *sizes) for each in range(processes)])
    assert (found.kind, found.workers) == (RING, processes)
    assert found.model == pytest.approx(sum({*sizes}) * processes)


@given(processes=st.integers(3, 16), segment=st.integers(1000, 10**7))
def test_a_ring_whose_messages_are_acknowledged(processes: int, segment: int) -> None:
    steps = [segment] * 2 * (processes - 1)
    forth = [sends(each, (each + 1) % processes, *steps) for each in range(processes)]
    back = [sends((each + 1) % processes, each, *[48] * len(steps)) for each in range(processes)]
    found = shape(forth + back)
    assert (found.kind, found.workers) == (RING, processes)
    assert found.model == pytest.approx(segment * processes)


def test_a_ring_of_small_buckets_shows_the_largest_tensor() -> None:
    """Of three ranks, two segments a rank: a bucket is six segments, each passes a link four times."""
    buckets = [6_000_000, 600_000, 300_000, 240_000, 120_000, 60_000]
    steps = [bucket // 6 for bucket in buckets for _ in range(8)]
    found = shape([sends(each, (each + 1) % 3, *steps) for each in range(3)])
    assert found.shows_tensors
    assert found.largest == buckets[0]
    large = shape([sends(each, (each + 1) % 3, *[1_000_000] * 8, *[900_000] * 8) for each in range(3)])
    assert not large.shows_tensors


@given(processes=st.integers(5, 31))
def test_tree(processes: int) -> None:
    edges = [(child, (child - 1) // 2) for child in range(1, processes)]
    found = shape([sends(*edge, 10**8) for edge in edges] + [sends(*edge[::-1], 10**8) for edge in edges])
    assert (found.kind, found.workers) == (TREE, processes)
    assert found.model == pytest.approx(10**8)


@pytest.mark.parametrize("power", [2, 3, 4])
def test_halving_and_doubling(power: int) -> None:
    processes, model = 1 << power, 1 << 24
    halves = [model >> (step + 1) for step in range(power)]
    streams = [sends(a, a ^ (1 << step), half, half) for a in range(processes) for step, half in enumerate(halves)]
    found = shape(streams)
    assert (found.kind, found.workers, found.model) == (MESH, processes, model)


def test_what_fits_nothing() -> None:
    assert shape([]).kind == UNKNOWN
    chain = [sends(0, 1, 10**6), sends(1, 2, 5 * 10**6), sends(2, 0, 10**6), sends(0, 2, 10**5)]
    assert shape(chain).kind == UNKNOWN


def test_light_streams_do_not_change_the_result() -> None:
    pair = [sends(0, 2, 10**8, 5000), sends(2, 0, 10**8, 5000), sends(1, 2, 10**8, 5000), sends(2, 1, 10**8, 5000)]
    chatter = [sends(0, 1, 100), sends(1, 0, 100), sends(0, 3, 3000)]
    found = shape(pair + chatter)
    assert (found.kind, found.workers, found.servers[0].node) == (SERVERS, 2, 2)
    assert found.servers[0].skew == pytest.approx(1, abs=0.001)
