"""A plan has the parameter servers of each start, for the GPUs that the sizing chose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.conftest import Builder
from tests.scheduler.size.test_minimum_first import elastic, job
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.decide import decide
from tiresias.scheduler.estimates.fastest_servers import WORTH, fastest_counts

make = Builder()
CONFIG = PolicyConfig(name="fifo", sizing="minimum_first")
BY_GPUS = np.array([0, 1, 1, 2, 3])


def test_a_start_has_the_servers_of_its_size() -> None:
    found = elastic(
        make([job("a", 1, 1), job("b", 1, 2), job("c", 1, 1)], [Builder.Node(6)]), (1, 4, 1), (2, 2, 1), (1, 1, 1)
    )
    servers = replace(found, jobs=replace(found.jobs, servers_by_gpus=(BY_GPUS, None, BY_GPUS)))
    starts = {
        start.job: (sum(gpus for _, gpus in start.nodes), start.servers) for start in decide(servers, CONFIG).starts
    }
    assert starts == {"a": (3, 2), "b": (2, 0), "c": (1, 1)}


@given(st.lists(st.floats(0.1, 10.0), min_size=4, max_size=4), st.sets(st.integers(0, 3), min_size=1))
def test_the_fewest_servers_that_are_nearly_fastest(seconds: list[float], possible: set[int]) -> None:
    counts = sorted(possible)
    [found] = fastest_counts(np.array(seconds)[:, None], [counts])
    best = min(seconds[count] for count in counts)
    assert found in possible
    assert seconds[found] <= (1 + WORTH) * best
    assert all(seconds[count] > (1 + WORTH) * best for count in counts if count < found)
