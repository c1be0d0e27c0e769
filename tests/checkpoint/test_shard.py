"""One rank's part of a checkpoint: what may be in a state, and an invalid index."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import CorruptCheckpoint, shard
from tiresias.checkpoint.blocks import tree_hash
from tiresias.checkpoint.manifest import Content, file_name
from tiresias.protocol import files


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / file_name(0, "bin")).write_bytes(bytes(10))
    opened = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield opened
    os.close(opened)


def contents(path: Path) -> dict[str, Content]:
    """Return what a manifest lists for the files that are there."""
    found = {}
    for name in (file_name(0, "bin"), file_name(0, "json")):
        with (path / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            found[name] = Content(size, tree_hash(file.fileno(), size))
    return found


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ([0], "not an offset and a size"),
        ([0, 1, 2], "not an offset and a size"),
        ([-1, 2], "not an offset and a size"),
        ([0, True], "not an offset and a size"),
        ("00", "not an offset and a size"),
        ([0, 11], "ends after the data"),
        ([11, 0], "ends after the data"),
    ],
)
def test_an_index_beyond_the_data_is_refused(tmp_path: Path, folder: int, entry: object, words: str) -> None:
    index = {"values": {}, "entries": {"good": [0, 10], "bad": entry}}
    (tmp_path / file_name(0, "json")).write_text(json.dumps(index))
    with pytest.raises(CorruptCheckpoint, match=f"entry 'bad' {'is ' if 'not' in words else ''}{words}"):
        shard.read(folder, 0, contents(tmp_path))


def test_an_index_up_to_the_end_of_the_data(tmp_path: Path, folder: int) -> None:
    (tmp_path / file_name(0, "json")).write_text(json.dumps({"values": {"a": 1}, "entries": {"all": [0, 10]}}))
    found = shard.read(folder, 0, contents(tmp_path))
    assert {name: bytes(buffer) for name, buffer in found.buffers.items()} == {"all": bytes(10)}
    assert found.values == {"a": 1}


@pytest.mark.parametrize("state", [{"a": {1, 2}}, {"a": object()}, {1: "a"}])
def test_a_state_that_cannot_be_written_is_refused_before_anything_is(state: Any) -> None:
    with pytest.raises(TypeError, match="state"):
        shard.sort_out(state)


def test_every_buffer_begins_where_arrays_may(tmp_path: Path) -> None:
    opened = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        shard.write(opened, 0, {"a": b"x", "b": b"yy", "c": b""})
        found = shard.read(opened, 0, contents(tmp_path))
    finally:
        os.close(opened)
    entries = json.loads((tmp_path / file_name(0, "json")).read_text())["entries"]
    assert {offset % shard.ALIGN for offset, _ in entries.values()} == {0}
    assert {name: bytes(buffer) for name, buffer in found.buffers.items()} == {"a": b"x", "b": b"yy", "c": b""}


def test_a_part_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    before, opened = os.umask(0), os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(files.create(opened, "part"))
    finally:
        os.umask(before)
        os.close(opened)
    assert (tmp_path / "part").stat().st_mode & 0o777 == 0o600
