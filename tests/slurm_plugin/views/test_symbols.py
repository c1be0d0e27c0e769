"""A job's letter and colour from frame to frame."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.slurm_plugin.views.symbols import LETTERS, Symbol, Symbols

MANY = 600


def job(number: int, runs: bool = True) -> Any:
    return {"id": str(number), "submit_time": float(number), "nodes": [("gpu01", 1)] if runs else []}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.dictionaries(st.integers(1, 2000), st.booleans(), max_size=120), max_size=8))
def test_a_mark_stays_while_the_job_holds_nodes(frames: list[dict[int, bool]]) -> None:
    """Other jobs may start, end, wait or start again meanwhile."""
    known, before = Symbols(), dict[str, Symbol]()
    for frame in frames:
        now = known.of([job(number, runs) for number, runs in frame.items()])
        assert set(now) == {str(number) for number, runs in frame.items() if runs}
        assert all(now[each] == before[each] for each in now if each in before)
        assert len(set(now.values())) == len(now)
        before = dict(now)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.integers(1, 9), max_size=3, unique=True), min_size=1, max_size=9), st.randoms())
def test_neighbours_on_the_map_differ_in_colour(nodes: list[list[int]], random: Any) -> None:
    """Also those that come one after the other. On each node up to three jobs, some of them on more nodes than one."""
    jobs: dict[int, Any] = {}
    for number, members in enumerate(nodes):
        for member in members:
            jobs.setdefault(member, job(member * 52, runs=False))["nodes"].append((f"gpu{number}", 1))
    known, order = Symbols(), random.sample(sorted(jobs), len(jobs))
    for count in range(len(order)):
        colours = {
            int(one) // 52: symbol.style
            for one, symbol in known.of([jobs[each] for each in order[: count + 1]]).items()
        }
    places = {number: {node for node, _ in one["nodes"]} for number, one in jobs.items()}
    for one, other in combinations(jobs, 2):
        if places[one] & places[other]:
            assert colours[one] != colours[other]


def test_jobs_of_three_nodes_in_a_row() -> None:
    """With the same number modulo the colours they would all look alike."""
    rows: list[Any] = [
        {"id": str(number * 11), "submit_time": 0.0, "nodes": [(f"gpu{number}", 4)]} for number in range(8, 12)
    ]
    shown = [symbol.style for symbol in Symbols().of(rows).values()]
    assert all(one != other for one, other in pairwise(shown)), "gpu9 and gpu10 follow one another"


def test_letters_alone_distinguish_as_many_jobs_as_there_are() -> None:
    alike = [job(52 * number) for number in range(1, len(LETTERS) + 1)]
    assert {symbol.letter for symbol in Symbols().of(alike).values()} == set(LETTERS)


def test_a_job_that_comes_back_has_its_old_mark() -> None:
    known = Symbols()
    first = known.of([job(1), job(53)])
    assert known.of([job(1, runs=False), job(53)]) == {"53": first["53"]}
    assert known.of([job(53), job(1)]) == first


def test_more_jobs_than_symbols() -> None:
    known = Symbols()
    first = known.of(job(number) for number in range(MANY))
    assert len(first) == MANY
    assert known.of(job(number) for number in range(MANY)) == first
