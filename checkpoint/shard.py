"""One rank's part of a checkpoint: its buffers in one file, and an index of them that also holds its small values.

    rank-<r>.bin    the buffers, one after the other, each at a multiple of ALIGN bytes
    rank-<r>.json   {"data": {"size", "digest"}, "entries": {name: [offset, size]}, "values": {name: JSON}}

The index is renamed into place last: where it stands, the part is whole and on disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tiresias.checkpoint.blocks import HashedFile, read_whole, tree_hash
from tiresias.checkpoint.manifest import Content, file_name, parse_content, parse_object
from tiresias.checkpoint.own_memory import Entry, read_buffers
from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import files

ALIGN = 64  # bytes; what vector units and array libraries like
MAX_INDEX = 1 << 30


class Shard(NamedTuple):
    """The part of one rank.

    Attributes:
        buffers: The bytes of each buffer, by name: writable where they are this process's own, read-only where they are mapped.
        values: JSON values by name.
    """

    buffers: Mapping[str, memoryview]
    values: Mapping[str, Any]


def write(folder: int, rank: int, state: Mapping[str, Any]) -> None:
    """Write `state` as rank's part into an open folder, synced. Raises OSError, or TypeError for a value that has no place."""
    values, buffers = sort_out(state)
    data = HashedFile(folder, file_name(rank, "bin"))
    try:
        entries = {name: _append(data, value) for name, value in buffers.items()}
        content = data.commit()
    finally:
        data.close()
    index = json.dumps({"data": content._asdict(), "entries": entries, "values": values}).encode()
    files.write_synced(folder, file_name(rank, "json"), index)


def sort_out(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(JSON values, buffers). Fails before anything is written."""
    values: dict[str, Any] = {}
    buffers: dict[str, Any] = {}
    for name, value in state.items():
        if not isinstance(name, str):
            raise TypeError(f"state[{name!r}]: names are text")
        home = buffers if isinstance(value, Iterator) or _is_buffer(value) else values
        home[name] = value
    try:
        json.dumps(values)
    except (TypeError, ValueError) as error:
        raise TypeError(f"state: {error}; a value is bytes-like, an iterator of bytes-like, or JSON") from None
    return values, buffers


def _is_buffer(value: object) -> bool:
    try:
        memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _append(data: HashedFile, value: Any) -> Entry:
    data.write(memoryview(bytes(-data.size % ALIGN)))
    offset = data.size
    if not isinstance(value, Iterator):
        data.write(memoryview(value).cast("B"))
        return offset, data.size - offset
    for chunk in value:
        data.write(memoryview(chunk).cast("B"))
        data.settle()  # its owner may fill the same buffer again
    return offset, data.size - offset


def finished(folder: int, rank: int) -> dict[str, Content] | None:
    """The contents of rank's two files, by its index; None: not there yet. Raises CorruptCheckpoint or OSError."""
    name = file_name(rank, "json")
    if name not in os.listdir(folder):
        return None
    index = files.read_small(folder, name, MAX_INDEX)
    data = parse_content(parse_object(index, name).get("data"))
    return {file_name(rank, "bin"): data, name: Content(len(index), _hash(folder, name, len(index)))}


def _hash(folder: int, name: str, size: int) -> str:
    with files.open_regular(folder, name) as file:
        return tree_hash(file, size)


def read(folder: int, rank: int, contents: Mapping[str, Content]) -> Shard:
    """Rank's part of a checkpoint, compared with the `contents` of its files by name. Raises CorruptCheckpoint or OSError."""
    name, data = file_name(rank, "json"), file_name(rank, "bin")
    if contents[name].size > MAX_INDEX:
        raise CorruptCheckpoint(f"{name}: larger than {MAX_INDEX} bytes")
    index = parse_object(bytes(read_whole(folder, name, contents[name])), name)
    values = index.get("values")
    if not isinstance(values, dict):
        raise CorruptCheckpoint(f"{name}: 'values' is not an object")
    entries = _entries(index.get("entries"), contents[data].size, name)
    return Shard(read_buffers(folder, data, contents[data], entries), values)


def _entries(value: object, size: int, name: str) -> dict[str, Entry]:
    if not isinstance(value, dict):
        raise CorruptCheckpoint(f"{name}: 'entries' is not an object")
    for key, place in value.items():
        if not (
            isinstance(place, list) and len(place) == 2 and all(type(number) is int and number >= 0 for number in place)
        ):
            raise CorruptCheckpoint(f"{name}: entry {key!r:.60} is not an offset and a size")
        if place[0] + place[1] > size:
            raise CorruptCheckpoint(f"{name}: entry {key!r:.60} ends after the data")
    return {key: (place[0], place[1]) for key, place in value.items()}
