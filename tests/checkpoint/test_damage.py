"""Every bit of every file flipped, every file cut at every length, removed, swapped: a reader gets what was saved or an error."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import CorruptCheckpoint, Store
from tiresias.checkpoint.world import World

OWN = [{"own": bytes(range(rank, 90 + rank)), "value": rank} for rank in (0, 1)]
FILES = ("manifest.json", "rank-0.bin", "rank-0.json", "rank-1.bin", "rank-1.json")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Steps 1 and 2 of two ranks, all of the same sizes."""
    root = tmp_path_factory.mktemp("damage")
    for step in (1, 2):
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(Store(root).save, step, state_of(step, rank), World(rank, 2, "x")) for rank in (0, 1)]
            assert [job.result() for job in jobs] == [root / f"step-{step}"] * 2
    return Store(root)


def state_of(step: int, rank: int) -> dict[str, Any]:
    return {**OWN[rank], "step": bytes([step]) * 7}


@contextmanager
def restored(path: Path) -> Iterator[bytes]:
    """The file's content; afterwards it is there again."""
    content = path.read_bytes()
    try:
        yield content
    finally:
        path.write_bytes(content)


def is_found(store: Store, step: int = 2) -> bool:
    """Whether the damage is. Where it is not, nothing that a reader gets may differ."""
    try:
        for rank in (0, 1):
            found = store.load(step, rank)
            assert (found.step, found.world_size) == (step, 2)
            assert {**found.state} == state_of(step, rank)
            assert [{**shard} for shard in found.shards] == [state_of(step, saved) for saved in (0, 1)]
    except CorruptCheckpoint as error:
        return str(error).startswith(str(store.path(step)))
    return False


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_bit(store: Store, name: str) -> None:
    path = store.path(2) / name
    time = store.load(2).time
    with restored(path) as content:
        for bit in range(8 * len(content)):
            damaged = bytearray(content)
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            assert is_found(store) or (name == "manifest.json" and store.load(2).time == time), f"bit {bit}"


@pytest.mark.parametrize("name", FILES)
def test_every_length(store: Store, name: str) -> None:
    path = store.path(2) / name
    with restored(path) as content:
        for size in range(len(content)):
            path.write_bytes(content[:size])
            assert is_found(store), f"cut at {size}"
            path.write_bytes(content[:size] + bytes(len(content) - size))
            assert is_found(store) or not content[size:].strip(b"\0"), f"zeros from {size} on"
        path.write_bytes(content + b"\0")
        assert is_found(store)
        path.unlink()
        assert is_found(store)


@pytest.mark.parametrize(("one", "other"), [*combinations([(step, name) for step in (1, 2) for name in FILES], 2)])
def test_swapped_files(store: Store, one: tuple[int, str], other: tuple[int, str]) -> None:
    paths = [store.path(step) / name for step, name in (one, other)]
    with restored(paths[0]) as first, restored(paths[1]) as second:
        paths[0].write_bytes(second)
        paths[1].write_bytes(first)
        found = {step for step in (1, 2) if is_found(store, step)}
        assert found == ({one[0], other[0]} if first != second else set())


def test_swapped_folders(store: Store, tmp_path: Path) -> None:
    shutil.copytree(store.path(2), tmp_path / "step-1")
    shutil.copytree(store.path(1), tmp_path / "step-2")
    for step in (1, 2):
        with pytest.raises(CorruptCheckpoint, match="contains step"):
            Store(tmp_path).load(step)
    assert Store(tmp_path).restore() is None


@pytest.mark.slow
def test_a_damaged_count_of_attempts_costs_no_checkpoint(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(1, {})
    store.save(2, {"x": 2})
    assert store.restore()
    path = tmp_path / "attempts.json"
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found = store.restore()
        assert found is not None
        assert found.state["x"] == 2, f"bit {bit}"
    path.unlink()
    os.mkfifo(path)
    assert store.restore()
