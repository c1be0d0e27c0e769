"""Which checkpoint a run may be given up for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.checkpoint import Store
from tiresias.wrappers import newest_checkpoint


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Steps 1 and 2, of 64 KiB each."""
    found = Store(tmp_path / "checkpoints")
    for step in (1, 2):
        found.save(step, {"weights": bytes(1 << 16)})
    return found


def damage(store: Store, step: int, offset: int = 1 << 15) -> None:
    """One byte differs; the size does not."""
    with (store.path(step) / "rank-0.bin").open("r+b") as data:
        data.seek(offset)
        data.write(b"\x01")


def test_the_newest_step_that_verifies_is_found(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert newest_checkpoint.newest(store.root) == 2
    damage(store, 2)
    assert newest_checkpoint.newest(store.root) == 1
    assert "step-2" in capfd.readouterr().err
    damage(store, 1)
    assert newest_checkpoint.newest(store.root) is None


def test_a_large_checkpoint_has_its_sizes_checked_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading it takes longer than the deadline of a preemption; the restore reads all of it."""
    size = store.verify(2).size
    damage(store, 2)
    monkeypatch.setattr(newest_checkpoint, "FULL_VERIFY", size)
    assert newest_checkpoint.newest(store.root) == 1
    monkeypatch.setattr(newest_checkpoint, "FULL_VERIFY", size - 1)
    assert newest_checkpoint.newest(store.root) == 2
    (store.path(2) / "rank-0.bin").write_bytes(b"short")
    assert newest_checkpoint.newest(store.root) == 1


def test_a_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert newest_checkpoint.newest(tmp_path / "none") is None
    assert newest_checkpoint.listed(tmp_path / "none") == "there is no checkpoint"
