"""One rank's part of a checkpoint: what may be in a state, and an invalid index."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import CorruptCheckpoint, shard
from tiresias.checkpoint.manifest import file_name
from tiresias.protocol import files


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / file_name(0, "bin")).write_bytes(bytes(10))
    opened = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield opened
    os.close(opened)


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
        shard.read(folder, 0)


def test_an_index_up_to_the_end_of_the_data(tmp_path: Path, folder: int) -> None:
    (tmp_path / file_name(0, "json")).write_text(json.dumps({"values": {"a": 1}, "entries": {"all": [0, 10]}}))
    found = shard.read(folder, 0)
    assert (found.entries, found.values, bytes(found.data)) == ({"all": (0, 10)}, {"a": 1}, bytes(10))


@pytest.mark.parametrize("state", [{"a": {1, 2}}, {"a": object()}, {1: "a"}])
def test_a_state_that_cannot_be_written_is_refused_before_anything_is(state: Any) -> None:
    with pytest.raises(TypeError, match="state"):
        shard.sort_out(state)


def test_every_buffer_begins_where_arrays_may(tmp_path: Path) -> None:
    opened = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        shard.write(opened, 0, {"a": b"x", "b": b"yy", "c": b""})
        entries = shard.read(opened, 0).entries
    finally:
        os.close(opened)
    assert [size for _, size in entries.values()] == [1, 2, 0]
    assert {offset % shard.ALIGN for offset, _ in entries.values()} == {0}


def test_a_part_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    before, opened = os.umask(0), os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(files.create(opened, "part"))
    finally:
        os.umask(before)
        os.close(opened)
    assert (tmp_path / "part").stat().st_mode & 0o777 == 0o600
