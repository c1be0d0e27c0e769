"""The store on a real file system: what goes in comes out, and whatever is broken is never handed out."""

from __future__ import annotations

import array
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.checkpoint import CorruptCheckpoint, SaveFailed, Store
from tiresias.checkpoint.blocks import BLOCK
from tiresias.checkpoint.retention import KeepLast
from tiresias.checkpoint.state import SavedState
from tiresias.checkpoint.world import World
from tiresias.errors import Unavailable


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "job")


def state_of(store: Store) -> SavedState:
    found = store.restore()
    assert found is not None
    return found.state


def names(store: Store) -> set[str]:
    return {path.name for path in store.root.iterdir()}


def test_every_kind_of_value_comes_back(store: Store) -> None:
    doubles = array.array("d", [1.5, -2.5])
    big = os.urandom(2 * BLOCK + 17)
    state = {
        "bytes": b"\0\xff",
        "empty": b"",
        "array": doubles,
        "memory": memoryview(big)[3:],
        "stream": iter([b"ab", bytearray(b"c")]),
        "json": {"loss": [0.1, 1e-300], "name": "é\n"},
        "none": None,
        "../../x": 7,
    }
    store.save(3, state)
    found = state_of(store)
    assert found["array"] == doubles.tobytes()
    assert found["memory"] == big[3:]
    assert found["stream"] == b"abc"
    assert [found[name] for name in ("bytes", "empty", "json", "none", "../../x")] == [
        b"\0\xff",
        b"",
        state["json"],
        None,
        7,
    ]
    assert set(found) == set(state)
    assert len(found) == len(state)
    assert names(store) == {"step-3", "attempts.json"}


def test_a_stream_may_fill_the_same_buffer_again(store: Store) -> None:
    def chunks() -> Iterator[bytearray]:
        buffer = bytearray(BLOCK + 5)
        for number in range(5):
            buffer[:] = bytes([number]) * len(buffer)
            yield buffer

    store.save(1, {"x": chunks()})
    assert state_of(store)["x"] == b"".join(bytes([number]) * (BLOCK + 5) for number in range(5))


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(st.integers(0, 3 * BLOCK // 2), max_size=4))
def test_any_sizes_verify(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    store = Store(tmp_path_factory.mktemp("sizes"))
    state = {str(number): bytes([number]) * size for number, size in enumerate(sizes)}
    store.save(0, state)
    assert dict(state_of(store)) == state


def test_a_view_stays_after_the_checkpoint_is_gone(store: Store) -> None:
    store.save(1, {"x": b"abc" * 1000})
    view = state_of(store).view("x")
    shutil.rmtree(store.root)
    assert view == b"abc" * 1000


def test_only_the_newest_stay(tmp_path: Path) -> None:
    for keep, left in ((0, [9, 8]), (3, [9, 8, 7])):
        store = Store(tmp_path / str(keep), [KeepLast(keep)])
        for step in range(10):
            store.save(step, {"x": step})
        assert store.steps() == left
        assert names(store) == {f"step-{step}" for step in left}


def test_order_is_the_step_and_not_the_files_time(store: Store) -> None:
    store.save(9, {"x": 9})
    store.save(10, {"x": 10})
    os.utime(store.path(9), (2e9, 2e9))
    assert state_of(store)["x"] == 10


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0")


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", ["manifest.json", "rank-0.json", "rank-0.bin"])
@pytest.mark.parametrize("damage", [flip, cut, grow, link, fifo, folder, Path.unlink])
def test_a_damaged_one_is_set_aside_and_the_one_before_restored(store: Store, name: str, damage, capfd) -> None:  # type: ignore[no-untyped-def]
    store.save(1, {"x": b"one" * 99})
    store.save(2, {"x": b"two" * 99})
    damage(store.path(2) / name)
    if (damage, name) == (grow, "manifest.json"):
        store.path(2).joinpath(name).write_bytes(b"{}")
    with pytest.raises(CorruptCheckpoint, match=str(store.path(2))):
        store.verify(2)
    assert state_of(store)["x"] == b"one" * 99
    assert names(store) == {"step-1", "damaged-step-2", "attempts.json"}
    assert "step 2 is set aside as damaged-step-2" in capfd.readouterr().err
    store.save(2, {"x": b"new"})
    assert state_of(store)["x"] == b"new"


def test_a_link_in_a_checkpoints_place_is_not_followed(store: Store, tmp_path: Path) -> None:
    store.save(1, {"x": 1})
    shutil.copytree(store.path(1), tmp_path / "other")
    store.path(5).symlink_to(tmp_path / "other")
    assert state_of(store)["x"] == 1


def test_leftovers_are_ignored_and_cleaned_by_the_next_writer(store: Store) -> None:
    store.save(1, {"x": 1})
    shutil.copytree(store.path(1), store.root / ".step-7.host-1-1")
    (store.root / ".step-1.old").mkdir()
    (store.root / "notes.txt").write_text("mine")
    assert state_of(store)["x"] == 1
    store.save(2, {"x": 2})
    assert names(store) == {"step-1", "step-2", "notes.txt"}


def test_two_failed_resumes_set_a_checkpoint_aside(store: Store) -> None:
    store.save(1, {"x": 1})
    store.save(2, {"x": 2})
    assert [state_of(store)["x"] for _ in range(4)] == [2, 2, 1, 1]
    assert store.restore() is None
    assert names(store) == {"failed-step-1", "failed-step-2", "attempts.json"}


def test_a_save_clears_the_attempts(store: Store) -> None:
    store.save(1, {"x": 1})
    for step in (2, 3, 4):
        assert state_of(store)["x"] == step - 1
        store.save(step, {"x": step})
    for _ in range(5):
        assert state_of(store)["x"] == 4
        store.save(4, {"x": "not written: the step is committed"})


def test_few_set_aside_ones_stay(store: Store) -> None:
    for step in range(5):
        store.save(step, {"x": step})
        (store.path(step) / "manifest.json").write_text("")
        assert store.restore() is None
    store.save(9, {})
    assert names(store) == {"damaged-step-3", "damaged-step-4", "step-9"}


def test_a_rank_verifies_what_it_reads(store: Store) -> None:
    """Rank 0 verifies all, so that 64 ranks do not read everything 64 times."""
    with ThreadPoolExecutor(3) as pool:
        list(
            pool.map(lambda rank: Store(store.root).save(1, {"own": bytes([rank]) * 9}, World(rank, 3, "x")), range(3))
        )
    flip(store.path(1) / "rank-2.bin")
    assert store.load(1, rank=1).state["own"] == b"\1" * 9
    for rank in (0, 2):
        with pytest.raises(CorruptCheckpoint, match=r"rank-2\.bin"):
            store.load(1, rank)


def test_an_older_step_than_the_newest_is_refused(store: Store) -> None:
    store.save(900, {"x": 1})
    with pytest.raises(SaveFailed, match=r"step 900, newer than 100: call restore\(\) first"):
        store.save(100, {"x": 2})
    assert store.steps() == [900]


@pytest.mark.parametrize("state", [{"x": object()}, {1: b"x"}, {"x": {1, 2}}])
def test_a_value_without_a_place_is_refused_before_anything_is_written(store: Store, state) -> None:  # type: ignore[no-untyped-def]
    store.save(1, {"x": 1})
    with pytest.raises(TypeError):
        store.save(2, state)
    assert state_of(store)["x"] == 1


@pytest.mark.parametrize("step", [-1, 10**18])
def test_a_step_out_of_range_is_refused(store: Store, step: int) -> None:
    with pytest.raises(SaveFailed, match="whole number"):
        store.save(step, {})


def test_a_place_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises((SaveFailed, Unavailable), match=str(root)):
            Store(root).save(1, {})
        with pytest.raises(Unavailable, match=str(root)):
            Store(root).restore()


FULL = """
import resource, sys
from tiresias.checkpoint import SaveFailed, Store
store = Store(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
for kind in ("bytes", "stream"):
    big = bytes(20 << 20)
    try:
        store.save(2, {"x": big if kind == "bytes" else iter([big])})
    except SaveFailed as error:
        print(error)
"""


def test_a_full_disk_is_one_clear_error_and_costs_no_checkpoint(store: Store) -> None:
    """A file size limit stands for a quota: the same call fails in the same place."""
    store.save(1, {"x": 1})
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(store.root)], capture_output=True, text=True, check=True, timeout=60
    )
    line = f"checkpoint of step 2 in {store.root}: File too large; the ones before it are untouched"
    assert done.stdout.splitlines() == [line, line]
    assert names(store) == {"step-1"}
    assert state_of(store)["x"] == 1
