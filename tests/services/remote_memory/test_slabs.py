"""The rules of slabs, by properties."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.services.remote_memory.slabs.batch_eviction import eviction_candidates, least_active
from tiresias.services.remote_memory.slabs.donor_choice import candidate_donors, emptiest_donor
from tiresias.services.remote_memory.slabs.donor_memory import DonorMemory, SlabCounts
from tiresias.services.remote_memory.slabs.page_bitmap import PageBitmap
from tiresias.services.remote_memory.slabs.slab_activity import SlabActivity
from tiresias.services.remote_memory.slabs.slab_table import SlabMapping, SlabTable

PAGES = 70
CHANGES = st.lists(st.tuples(st.booleans(), st.integers(0, PAGES - 1), st.integers(0, PAGES)), max_size=60)


@given(CHANGES)
def test_the_bitmap_is_a_set_of_pages(changes: list[tuple[bool, int, int]]) -> None:
    bitmap, model = PageBitmap(PAGES), set[int]()
    for marked, page, limit in changes:
        end = max(page, limit)
        (bitmap.set_range if marked else bitmap.clear_range)(page, end)
        model = model | set(range(page, end)) if marked else model - set(range(page, end))
        found, run_end = bitmap.run(page, PAGES)
        assert {each in model for each in range(page, run_end)} == {found}
        assert run_end == PAGES or (run_end in model) is not found
    assert {page for page in range(PAGES) if page in bitmap} == model
    assert len(bitmap) == len(model)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30), st.floats(0, 1e6))
def test_the_activity_is_the_average_of_the_thesis(per_second: list[int], start: float) -> None:
    activity, expected = SlabActivity(start), 0.0
    for second, requests in enumerate(per_second):
        activity.record(requests, start + second + 0.25)
        expected = 0.2 * requests + 0.8 * expected
    assert activity.at(start + len(per_second) + 0.25) == pytest.approx(expected)
    assert activity.at(start + len(per_second) + 3.25) == pytest.approx(expected * 0.8**3)


def test_a_steady_slab_becomes_hot_and_a_slow_one_does_not() -> None:
    fast, slow = SlabActivity(0.0), SlabActivity(0.0)
    for second in range(60):
        fast.record(30, second)
        slow.record(19, second)
    assert fast.at(60.0) >= 20 > slow.at(60.0)


@given(st.integers(1, 300), st.integers(1, 50), st.data(), st.integers(1, 40))
def test_ranges_cover_each_page_once_and_stay_in_one_slab(
    pages: int, slab: int, data: st.DataObject, most: int
) -> None:
    table = SlabTable(pages, slab)
    start = data.draw(st.integers(0, pages - 1))
    count = data.draw(st.integers(0, pages - start))
    found = list(table.ranges(start, count, most))
    assert [page for each in found for page in range(each.page, each.page + each.pages)] == [
        *range(start, start + count)
    ]
    for each in found:
        assert 0 < each.pages <= most
        assert {page // slab for page in range(each.page, each.page + each.pages)} == {each.slab}
        assert each.slab < table.slabs


TABLE_CHANGES = st.lists(
    st.tuples(st.sampled_from(["map", "unmap", "donor", "write"]), st.integers(0, 6), st.sampled_from("abc")),
    max_size=50,
)


@given(TABLE_CHANGES)
def test_pages_of_an_unmapped_slab_are_not_remote(changes: list[tuple[str, int, str]]) -> None:
    table, handles = SlabTable(65, 10), iter(range(1000))
    for change, slab, donor in changes:
        if change == "map":
            table.map(slab, SlabMapping(donor, next(handles)))
        elif change == "unmap":
            table.unmap(slab)
        elif change == "donor":
            table.unmap_donor(donor)
        elif table.mapping(slab):
            table.remote.set_range(page := min(slab * 10 + 3, 64), page + 1)
        mapped = {each for each in range(table.slabs) if table.mapping(each)}
        assert {page // 10 for page in range(65) if page in table.remote} <= mapped
        assert table.mapped_slabs == len(mapped) == sum(len(table.mapped_at(each)) for each in "abc")
        for each in mapped:
            mapping = table.mapping(each)
            assert mapping is not None
            assert table.slab_of(mapping) == each


def test_hot_slabs_are_unmapped_and_in_order() -> None:
    table = SlabTable(100, 10)
    for second in range(30):
        for slab, requests in enumerate((0, 25, 100, 50, 5)):
            if requests:
                table.record(slab, requests, float(second))
    table.map(3, SlabMapping("a", 1))
    assert table.hot(30.0) == [2, 1]
    assert table.hot(90.0) == []
    assert table.activity(2, 90.0) < 0.01


@given(st.sets(st.integers(0, 40)), st.data())
def test_new_donors_are_queried_before_old_ones(donors: set[int], data: st.DataObject) -> None:
    names = {f"n{each}" for each in donors}
    old = data.draw(st.sets(st.sampled_from(sorted(names)))) if names else set()
    near = data.draw(st.sets(st.sampled_from(sorted(names)))) if names else set()
    rounds = list(candidate_donors(sorted(names), old, Random(data.draw(st.integers(0, 99))), near))
    asked = [donor for each in rounds for donor in each]
    assert all(1 <= len(each) <= 2 for each in rounds)
    assert sorted(asked) == sorted(names)
    assert set(asked[: len(names) - len(old)]) == names - old
    for group in (asked[: len(names) - len(old)], asked[len(names) - len(old) :]):
        assert [each in near for each in group] == sorted((each in near for each in group), reverse=True)


def test_the_donor_with_the_most_free_slabs_is_chosen() -> None:
    assert emptiest_donor({"a": 1, "b": 3, "c": 2}) == "b"
    assert emptiest_donor({"a": 0}) is None
    assert emptiest_donor({}) is None


@given(
    st.lists(st.integers(0, 1200), min_size=1, max_size=80), st.integers(0, 300), st.integers(0, 12), st.integers(0, 4)
)
def test_a_donor_that_does_what_is_decided_keeps_the_headroom(
    used: list[int], headroom: int, most: int, ready: int
) -> None:
    memory = DonorMemory(1000, 64, headroom, most, ready)
    have = SlabCounts(0, 0, 0)
    for second, each in enumerate(used):
        memory.measure(each, float(second))
        take = min(memory.available_slabs(have), 2)  # clients map what they can
        have = SlabCounts(max(0, have.ready - take), have.mapped + take, 0)
        decision = memory.decide(have)
        assert 0 <= decision.release <= have.ready
        assert 0 <= decision.evict <= have.mapped
        assert decision.allocate == 0 or decision.release == decision.evict == 0
        have = SlabCounts(have.ready - decision.release + decision.allocate, have.mapped - decision.evict, 0)
        slabs = have.ready + have.mapped
        assert slabs <= most
        assert slabs == 0 or 1000 - each - 64 * slabs >= headroom
        assert memory.decide(have).evict == 0


def test_an_increase_counts_at_once_and_a_decrease_gradually() -> None:
    memory = DonorMemory(1000, 10, 100, 100, 0)
    memory.measure(100, 0.0)
    assert memory.most_slabs() == 80
    memory.measure(700, 100.0)
    assert memory.most_slabs() == 19  # 1.5 of them for the growth
    memory.measure(100, 101.0)
    assert memory.average_bytes == pytest.approx(580, abs=1)
    assert memory.most_slabs() == 32


def test_memory_is_given_back_ahead_of_a_fast_growth() -> None:
    memory = DonorMemory(10_000, 100, 1_000, 100, 0)
    memory.measure(1_000, 0.0)
    counts = SlabCounts(0, memory.most_slabs(), 0)
    assert memory.decide(counts).evict == 0
    memory.measure(1_400, 0.1)  # 4,000 a second: 1,000 in the next 0.25 s
    assert memory.decide(counts) == (0, 0, 14, True)
    memory.measure(1_400, 0.2)
    assert memory.decide(counts).evict == 4


def test_ready_slabs_are_released_before_mapped_ones_and_evictions_count_once() -> None:
    memory = DonorMemory(1000, 100, 100, 100, 3)
    memory.measure(400, 0.0)
    assert memory.decide(SlabCounts(2, 5, 0)) == (0, 2, 0, False)
    assert memory.decide(SlabCounts(1, 8, 0)) == (0, 1, 3, True)
    assert memory.decide(SlabCounts(0, 8, 3)).evict == 0
    assert memory.decide(SlabCounts(0, 2, 0)).allocate == 0  # shortly after a shortage
    memory.measure(400, 2.0)
    assert memory.decide(SlabCounts(0, 2, 0)).allocate == 3
    assert memory.decide(SlabCounts(0, 4, 0)).allocate == 1


@given(st.dictionaries(st.integers(0, 200), st.floats(0, 100), max_size=60), st.integers(0, 30), st.integers(0, 30))
def test_the_least_active_of_the_candidates_are_evicted(activity: dict[int, float], evict: int, extra: int) -> None:
    slabs = sorted(activity)
    asked = eviction_candidates(slabs, evict, Random(1), extra)
    assert len(asked) == len(set(asked)) == min(len(slabs), evict + min(extra, evict))
    chosen = least_active(asked, activity, evict)
    assert len(chosen) == min(evict, len(asked))
    kept = [activity[each] for each in asked if each not in chosen]
    assert not kept or not chosen or max(activity[each] for each in chosen) <= min(kept)


def test_a_slab_of_a_silent_client_is_evicted_first() -> None:
    assert least_active([1, 2, 3], {1: 5.0, 3: 1.0}, 1) == [2]


@pytest.mark.parametrize(("busy", "extra"), [(0.3, 10), (0.3, 5), (0.5, 10), (0.3, 0)])
def test_evictions_find_lightly_active_slabs_as_often_as_the_thesis_computes(busy: float, extra: int) -> None:
    random, rounds, light = Random(7), 4000, 0
    for _ in range(rounds):
        activity = {slab: 100.0 if random.random() < busy else 1.0 for slab in range(100)}
        asked = eviction_candidates(range(100), 10, random, extra)
        light += all(activity[slab] < 20 for slab in least_active(asked, activity, 10))
    asked_for = 10 + extra
    expected = sum(
        math.comb(asked_for, i) * (1 - busy) ** i * busy ** (asked_for - i) for i in range(10, asked_for + 1)
    )
    assert light / rounds == pytest.approx(expected, abs=0.03)
