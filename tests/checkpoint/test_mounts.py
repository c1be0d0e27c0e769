"""The shared folder as ranks on different nodes see it: through mounts of their own, with caches of their own.

bindfs (FUSE) mounts one tree twice, each with a cache that remembers for seconds what a file's size is, that it is there, and
that it is not there: what NFS does to ranks on two nodes. The disks that fail are real mounts too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import SaveFailed, Store
from tiresias.checkpoint.world import World
from tiresias.errors import Unavailable

CACHE = 5  # seconds
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems")
Mount = Callable[..., Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """mount(name, *arguments of mount): its mount point. Skips the test where that is not allowed."""
    points: list[Path] = []

    def at(name: str, *arguments: str) -> Path:
        point = tmp_path / name
        point.mkdir(exist_ok=True)
        done = subprocess.run([*arguments, str(point)], capture_output=True, text=True, check=False, timeout=30)
        if done.returncode:
            pytest.skip(f"{arguments[0]}: {done.stderr.strip()}")
        points.append(point)
        return point

    yield at
    for point in reversed(points):
        subprocess.run(["umount", "-l", str(point)], capture_output=True, check=False, timeout=30)


@pytest.fixture
def views(tmp_path: Path, mount: Mount) -> list[Path]:
    """One folder through two caching mounts."""
    if not shutil.which("bindfs"):
        pytest.skip("needs bindfs")
    (tmp_path / "tree").mkdir()
    options = ",".join(f"{kind}_timeout={CACHE}" for kind in ("attr", "entry", "negative"))
    return [mount(name, "bindfs", "-o", options, str(tmp_path / "tree")) for name in ("here", "there")]


def test_these_mounts_do_show_what_is_past(views: list[Path]) -> None:
    """Else the tests below show nothing."""
    here, there = views
    assert not (there / "x").exists()
    (here / "x").write_text("1")
    assert not (there / "x").exists(), "no cache of what is not there"
    time.sleep(CACHE + 0.5)
    assert (there / "x").stat().st_size == 1
    (here / "x").write_text("123")
    assert (there / "x").stat().st_size == 1, "no cache of sizes"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_ranks_on_two_mounts_stop_together_and_go_on(views: list[Path], launch_of: Any, number: int) -> None:
    before = [["", "0", str(rank)] for rank in range(4)]
    for run in range(2):
        launch = launch_of(views, run)
        assert launch.lines() == [f"start {step} {own}{' by rank 0' if run else ' '}" for _, step, own in before]
        time.sleep(0.4 + 0.3 * number)
        launch.ranks[(number + run) % 4].terminate()
        before = launch.ends()
        assert len({step for _, step, _ in before}) == 1, before
        for view in views:
            assert Store(view / "checkpoints").verify(int(before[0][1])).world_size == 4


def test_saves_of_ranks_on_two_mounts(views: list[Path]) -> None:
    """Step after step, from two mounts at once; then each reads what the other wrote."""
    stores = [Store(view / "job") for view in views]
    for step in range(5):
        ranks = [
            threading.Thread(target=stores[rank].save, args=(step, {"own": f"{step}.{rank}"}, World(rank, 2, "both")))
            for rank in (0, 1)
        ]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(60)
        assert [store.load(step, 1 - rank).state["own"] for rank, store in enumerate(stores)] == [
            f"{step}.1",
            f"{step}.0",
        ]
    assert [store.steps() for store in stores] == [[4, 3]] * 2


def test_a_damaged_one_is_set_aside_for_the_other_mount_too(views: list[Path]) -> None:
    here, there = (Store(view / "job") for view in views)
    here.save(1, {"x": 1})
    here.save(2, {"x": 2})
    assert there.verify(2)
    (here.path(2) / "rank-0.json").write_text("{}")
    found = here.restore()
    assert found is not None
    assert found.step == 1
    assert there.steps() == [1]


def test_an_overlay(tmp_path: Path, mount: Mount) -> None:
    for name in ("lower", "upper", "work"):
        (tmp_path / name).mkdir()
    Store(tmp_path / "lower" / "job").save(1, {"x": 1})
    options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    store = Store(mount("merged", "mount", "-t", "overlay", "overlay", "-o", options) / "job")
    assert [found.state["x"] for _ in range(2) if (found := store.restore())] == [1, 1]
    assert store.restore() is None, (
        "it failed twice, but can only be passed over: a lower layer's folder cannot be renamed"
    )
    for step in (2, 3, 4):
        store.save(step, {"x": step})
    assert store.steps() == [4, 3, 1]


@pytest.fixture
def disk(mount: Mount) -> Path:
    """A small disk of its own."""
    return mount("disk", "mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs")


def test_a_full_disk(disk: Path) -> None:
    store = Store(disk / "job")
    store.save(1, {"x": os.urandom(1 << 20)})
    for state in (os.urandom(8 << 20), iter([os.urandom(8 << 20)])):
        with pytest.raises(
            SaveFailed, match=f"step 2 in {store.root}: No space left on device; the ones before it are untouched"
        ):
            store.save(2, {"x": state})
        assert [path.name for path in store.root.iterdir()] == ["step-1"]
    store.save(2, {"x": 2})
    assert store.steps() == [2, 1]


def test_a_disk_that_turns_read_only_and_back(disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = Store(disk / "job")
    store.save(1, {"x": 1})
    store.save(2, {"x": 2})
    (store.path(2) / "rank-0.json").write_text("{}")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        with pytest.raises(SaveFailed, match="Read-only file system"):
            store.save(3, {"x": 3})
        found = store.restore()
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert found is not None
    assert found.step == 1
    assert "step 2 is skipped and stays in place (Read-only file system)" in capfd.readouterr().err
    store.save(3, {"x": 3})
    assert store.steps()[0] == 3


@pytest.mark.parametrize("below", ["job", "."])
def test_a_disk_that_goes_away_and_comes_back(tmp_path: Path, mount: Mount, below: str) -> None:
    """What is under its mount point is another folder: nothing is saved there, and nothing is begun from the beginning."""
    tree = tmp_path / "tree"
    (tree / below).mkdir(parents=True)
    point = mount("disk", "mount", "--bind", str(mount("other", "mount", "-t", "tmpfs", "tmpfs")))
    store = Store(point / below)
    store.save(1, {"x": 1})
    subprocess.run(["umount", str(point)], check=True)
    with pytest.raises(
        SaveFailed, match="not the folder that was here before; look whether its file system is mounted"
    ):
        store.save(2, {"x": 2})
    with pytest.raises(Unavailable, match="not the folder that was here before"):
        store.restore()
    assert list(point.iterdir()) == []
    mount("disk", "mount", "--bind", str(tmp_path / "other"))
    store.save(2, {"x": 2})
    assert store.steps() == [2, 1]
