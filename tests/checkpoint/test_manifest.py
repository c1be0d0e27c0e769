"""Manifests from anywhere: parsed or refused, never anything else."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.checkpoint.manifest import Content, Manifest, encode, expected_files, parse, seal
from tiresias.errors import CorruptCheckpoint

DIGEST = "0123456789abcdef" * 4
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
CONTENTS = st.builds(Content, st.integers(0, 2**62), st.sampled_from([DIGEST, "f" * 64]))


def document(**changes: Any) -> dict[str, Any]:
    files = {name: {"size": 5, "digest": DIGEST} for name in expected_files(2)}
    return {"version": 1, "step": 3, "world_size": 2, "time": 1.5, "files": files, **changes}


dump = seal


@given(st.integers(0, 10**18 - 1), st.integers(0, 5), st.floats(0, 1e12), st.data())
def test_what_is_encoded_is_parsed(step: int, world: int, time: float, data: st.DataObject) -> None:
    manifest = Manifest(step, world, time, {name: data.draw(CONTENTS) for name in expected_files(world)})
    assert parse(encode(manifest)) == manifest


def test_no_flipped_bit_changes_its_values() -> None:
    manifest = Manifest(3, 2, 1.5, {name: Content(5, DIGEST) for name in expected_files(2)})
    text = encode(manifest)
    for bit in range(8 * len(text)):
        damaged = bytearray(text)
        damaged[bit // 8] ^= 1 << bit % 8
        with suppress(CorruptCheckpoint):
            assert parse(bytes(damaged)) == manifest, f"bit {bit}: {damaged!r}"


@given(st.binary())
def test_any_bytes(text: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        parse(text)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(document(), JSON)))
def test_any_types(changes: dict[str, Any]) -> None:
    try:
        found = parse(dump(document(**changes)))
    except CorruptCheckpoint:
        return
    assert set(found.files) == expected_files(found.world_size)
    assert all(
        type(value) is int and value >= 0
        for value in (found.step, found.world_size, *(one.size for one in found.files.values()))
    )


@given(
    st.text()
    | st.sampled_from(
        ["../x", "/etc/passwd", "rank-0.bin/", "rank-00.bin", "rank-0.bin\n", "rank-٣.bin", "manifest.json"]
    )
)
def test_only_file_names_of_the_store_are_accepted(name: str) -> None:
    files = {**document()["files"], name: {"size": 1, "digest": DIGEST}}
    if name not in document()["files"]:
        with pytest.raises(CorruptCheckpoint, match=r"manifest\.json"):
            parse(dump(document(files=files)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2}, "version 2 is not 1"),
        ({"step": True}, "'step'"),
        ({"step": -1}, "'step'"),
        ({"step": 1e3}, "'step'"),
        ({"world_size": 10**30}, "'world_size'"),
        ({"world_size": 3}, "files of 3 ranks"),
        ({"time": float("inf")}, "'time'"),
        ({"time": float("nan")}, "'time'"),
        ({"files": []}, "'files'"),
        ({"files": {**document()["files"], "rank-0.bin": {"size": 1, "digest": "Z" * 64}}}, "'digest'"),
        ({"files": {**document()["files"], "rank-0.bin": {"size": "1", "digest": DIGEST}}}, "'size'"),
    ],
)
def test_the_error_names_the_damage(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CorruptCheckpoint, match=words):
        parse(dump(document(**changes)))


@pytest.mark.parametrize("text", [b"[" * 200_000, b"1" * 10_000, b'{"a":' * 100_000])
def test_deep_and_long_documents(text: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        parse(text)
