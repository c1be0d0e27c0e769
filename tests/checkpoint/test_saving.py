"""One rank's failure at the very moment of another's commit: what is committed is whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import Store, manifest
from tiresias.checkpoint.root import Root
from tiresias.checkpoint.saving import Saving
from tiresias.checkpoint.world import World
from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import files


class Late(Exception):
    pass


def at_once(look: Callable[[], Any], what: str) -> Any:
    if (found := look()) is None:
        raise Late(what)
    return found


@pytest.fixture
def ranks(tmp_path: Path) -> list[Saving]:
    """Both have written their parts; rank 0 is to commit."""
    both = [Saving(Root(tmp_path), 30, World(rank, 2, "both"), 0, at_once) for rank in (0, 1)]
    for saving in both:  # rank 0 waits for the part of rank 1, rank 1 for the commit
        with pytest.raises(Late):
            saving.run({"rank": 1})
    return both


def remove_one(folder: Path) -> None:
    """As far as a slow file system has come."""
    for path in sorted(folder.iterdir())[:1] if folder.exists() else []:
        path.unlink()


def test_all_or_nothing_is_committed(tmp_path: Path, ranks: list[Saving], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 has seen all parts."""
    encode = manifest.encode

    def meanwhile(whole: Any) -> bytes:
        with monkeypatch.context() as patch:
            patch.setattr(files, "remove_flat", remove_one)
            ranks[1].give_up()
        return encode(whole)

    monkeypatch.setattr(manifest, "encode", meanwhile)
    with pytest.raises((OSError, CorruptCheckpoint)):
        ranks[0]._commit()
    assert Store(tmp_path).steps() == []
    with pytest.raises(CorruptCheckpoint, match="another rank gave up"):
        ranks[0]._commit()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_writes_when_another_gives_up_reports_that(tmp_path: Path, rank: int) -> None:
    """What it writes to is gone."""
    own, other = (Saving(Root(tmp_path), 30, World(number, 2, "both"), 0, at_once) for number in (rank, 1 - rank))

    def buffer() -> Iterator[bytes]:
        other.give_up()
        yield b"half"

    with pytest.raises(CorruptCheckpoint, match="another rank gave up"):
        own.run({"weights": buffer()})
    assert Store(tmp_path).steps() == []


def test_a_rank_that_looks_for_a_part_when_another_gives_up_reports_that(
    tmp_path: Path, ranks: list[Saving], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look at the names and its look into the folder."""
    names = ranks[0]._refuse_if_over

    def meanwhile() -> None:
        names()
        ranks[1].give_up()

    monkeypatch.setattr(ranks[0], "_refuse_if_over", meanwhile)
    with pytest.raises(CorruptCheckpoint, match="another rank gave up"):
        ranks[0].run({"rank": 1})
    assert Store(tmp_path).steps() == []


@pytest.mark.parametrize(("size", "lost"), [(1, ".step-30.both"), (2, "")])
def test_a_folder_that_is_removed_is_no_rank_that_gave_up(tmp_path: Path, size: int, lost: str) -> None:
    """The temporary folder of the only rank, or all checkpoints."""
    root = tmp_path / "checkpoints"
    root.mkdir()

    def buffer() -> Iterator[bytes]:
        shutil.rmtree(root / lost)
        yield b"half"

    with pytest.raises(FileNotFoundError):
        Saving(Root(root), 30, World(0, size, "both"), 0, at_once).run({"weights": buffer()})


def test_what_is_committed_stays(tmp_path: Path, ranks: list[Saving]) -> None:
    ranks[0]._commit()
    ranks[1].give_up()
    store = Store(tmp_path)
    assert store.verify(30).files
    store.save(40, {"x": 1})
    assert {path.name for path in tmp_path.iterdir()} == {"step-30", "step-40"}


def test_the_others_see_that_it_is_over(tmp_path: Path, ranks: list[Saving]) -> None:
    """Also one that begins only then."""
    ranks[0].give_up()
    for saving in ranks:
        with pytest.raises(CorruptCheckpoint, match="another rank gave up"):
            saving.run({"rank": 1})
    assert Store(tmp_path).steps() == []
