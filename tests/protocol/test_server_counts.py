"""The numbers of parameter servers of an elastic job follow from the CPUs of its tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.protocol import elastic_sizes
from tiresias.protocol.elastic_sizes import ElasticSizes
from tiresias.protocol.server_counts import ServerCounts

counted = st.tuples(st.integers(1, 40), st.integers(0, 40), st.integers(1, 32)).map(
    lambda drawn: ServerCounts(drawn[0], drawn[0] + drawn[1], drawn[2])
)


@given(counted, st.integers(1, 64), st.data())
def test_a_run_has_the_servers_that_its_tasks_hold_cpus_for(
    counts: ServerCounts, workers: int, data: st.DataObject
) -> None:
    asked = data.draw(st.integers(counts.least, counts.most))
    each = counts.cpus_per_task(workers, asked)
    found = counts.of_run(workers, each)
    assert asked <= found <= counts.most
    assert found == asked or workers > counts.cpus, "exact while no worker holds more than a part of a server"
    assert workers * each >= (workers + found) * counts.cpus, "the CPUs of all processes"
    assert workers * (each - 1) < (workers + asked) * counts.cpus, "and none for each worker beyond that"
    assert found in counts.possible(workers)


@given(counted, st.integers(1, 64))
def test_each_possible_number_is_reached_exactly(counts: ServerCounts, workers: int) -> None:
    possible = counts.possible(workers)
    assert possible == tuple(sorted(set(possible)))
    assert possible[-1] == counts.most
    assert possible == tuple(sorted({counts.reached(workers, count) for count in range(counts.least, counts.most + 1)}))


def test_a_run_without_further_cpus_has_the_fewest_servers() -> None:
    assert ServerCounts(2, 4, 2).of_run(4, 2) == 2
    assert ServerCounts(2, 4, 2).of_run(4, 0) == 2, "Slurm started it with less than the request"


def test_the_proportion_is_that_of_the_most_servers_to_the_most_workers() -> None:
    counts = ServerCounts(1, 4, 4)
    assert [counts.in_proportion(workers, 8) for workers in (1, 2, 3, 4, 8, 16)] == [1, 1, 2, 2, 4, 4]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1-8", ElasticSizes(1, 8)),
        ("2-8:2+1-4*2", ElasticSizes(2, 8, 2, ServerCounts(1, 4, 2))),
        ("1-8+4-1*2", None),
        ("1-8+0-4*2", None),
        ("1-8+1-4*0", None),
        ("1-8+1-256*1", ElasticSizes(1, 8, 1, ServerCounts(1, 256, 1))),
        ("1-8+1-257*1", None),
        ("1-8+1-4", None),
        ("1-8+1-4*2\n", None),
        ("1-8+1-4*2:async", ElasticSizes(1, 8, 1, ServerCounts(1, 4, 2, asynchronous=True))),
        ("1-8+1-4*2:sync", None),
        ("1-8:async", None),
    ],
)
def test_the_text_of_sizes(text: str, sizes: ElasticSizes | None) -> None:
    assert elastic_sizes.read(text) == sizes
    assert elastic_sizes.known(text) == (text if sizes else "")
