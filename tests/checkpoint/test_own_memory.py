"""Buffers in memory of the program's own or, where that is scarce, mapped: the same bytes, and damage is found in both."""

from __future__ import annotations

import importlib
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.checkpoint import CorruptCheckpoint, Store, available_memory, blocks, own_memory
from tiresias.checkpoint.own_memory import cuts
from tiresias.protocol import crc

SIZES = (0, 1, 63, 64, 700, 5000, 3, 0, 4096, 0)
STATE = {str(number): os.urandom(size) for number, size in enumerate(SIZES)}
entries = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 300)))


@pytest.fixture(params=["own", "mapped"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A checkpoint of several blocks and regions. So many ranks share a node that no memory is left for each."""
    monkeypatch.setattr(blocks, "BLOCK", 256)
    monkeypatch.setattr(own_memory, "REGION", 600)
    if request.param == "mapped":
        monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "9999999(x2)")
        monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
        assert not available_memory.is_ample(10_000)
    found = Store(tmp_path)
    found.save(1, STATE)
    return found


@pytest.fixture(params=["zlib", crc.ISA_L])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> crc.Crc32:
    if request.param != "zlib":
        pytest.importorskip(request.param, reason=f"{request.param} is not installed (make test installs it)")
    found: crc.Crc32 = importlib.import_module(request.param).crc32
    monkeypatch.setattr(crc, "fastest", lambda: found)
    return found


def test_the_fastest_is_one_that_agrees() -> None:
    assert crc.agrees(crc.fastest())
    assert not crc.agrees(lambda data, start: crc.fastest()(data, start) if len(data) < 4096 else 0)


def test_any_implementation_reads_what_another_one_wrote(store: Store, implementation: crc.Crc32) -> None:
    assert dict(store.load(1).state) == STATE


def test_a_flipped_bit_is_found_by_any_implementation(store: Store, implementation: crc.Crc32) -> None:
    data = store.path(1) / "rank-0.bin"
    content = data.read_bytes()
    for byte in range(0, len(content), 101):
        damaged = bytearray(content)
        damaged[byte] ^= 1 << byte % 8
        data.write_bytes(damaged)
        with pytest.raises(CorruptCheckpoint, match=r"rank-0\.bin: its hash is not the one that was written"):
            store.load(1)


def test_the_index_is_verified_before_it_is_used(store: Store) -> None:
    index = store.path(1) / "rank-0.json"
    index.write_bytes(index.read_bytes().replace(b"4096", b"4095"))
    with pytest.raises(CorruptCheckpoint, match=r"rank-0\.json: its hash"):
        store.load(1)


def test_the_programs_own_bytes_do_not_change_with_the_file(store: Store) -> None:
    state = store.load(1).state
    data = store.path(1) / "rank-0.bin"
    os.truncate(data, 0)
    if state.own("5").readonly:
        return  # mapped: a file that shrinks is no longer there
    assert dict(state) == STATE
    state.own("5")[0] ^= 1
    assert state["5"] != STATE["5"]
    assert state["4"] == STATE["4"]
    assert state.view("5").readonly


@given(entries, st.integers(1, 500))
def test_no_entry_lies_in_two_regions(places: list[tuple[int, int]], least: int) -> None:
    found = cuts(places, least)
    assert found[0] == 0
    assert all(later - earlier >= least for earlier, later in pairwise(found))
    assert all(not offset < cut < offset + size for offset, size in places for cut in found)


@pytest.mark.parametrize(
    ("env", "ranks"),
    [
        ({}, 1),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(x2),3"}, 4),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(x2),3", "LOCAL_WORLD_SIZE": "8"}, 8),
        ({"LOCAL_WORLD_SIZE": "0"}, 1),
        ({"LOCAL_WORLD_SIZE": "-4"}, 1),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(x"}, 1),
    ],
)
def test_ranks_of_this_node(env: dict[str, str], ranks: int) -> None:
    assert available_memory.ranks_here(env) == ranks


def test_memory_is_limited_by_the_system_and_its_groups(tmp_path: Path) -> None:
    assert 0 < available_memory.available() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    stats = {
        "": ("memory.max", "max", "memory.current", "700", "inactive_file 9"),
        "job": ("memory.max", "1000", "memory.current", "700", "anon 5\ninactive_file 30\nactive_file 4"),
        "job/step": (
            "memory.limit_in_bytes",
            "500",
            "memory.usage_in_bytes",
            "450",
            "inactive_file 1\ntotal_inactive_file 20",
        ),
    }
    for group, (limit, most, usage, used, stat) in stats.items():
        (tmp_path / group).mkdir(exist_ok=True)
        for name, text in ((limit, most), (usage, used), ("memory.stat", stat)):
            (tmp_path / group / name).write_text(f"{text}\n")
    assert [*available_memory.below(tmp_path, "/job/step")] == [70, 334]
    assert [*available_memory.below(tmp_path, "/")] == []
