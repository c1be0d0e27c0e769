"""A file of weights is read as it was written; every other file is refused with one line."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.scheduler.place.learned.networks import random_parameters
from tiresias.scheduler.place.learned import array_zip
from tiresias.scheduler.place.learned.placement_network import NetworkSizes
from tiresias.scheduler.place.learned.weights_file import PlacementWeights, WeightsError, read, written

SIZES = NetworkSizes(2, 1, 1, 3, width=4, hidden=5)
FEATURES = {"server": ("a", "b"), "choice": ("c",), "reach": ("d",), "task": ("e", "f", "g")}


def weights() -> PlacementWeights:
    parameters = random_parameters(SIZES, np.random.default_rng(1))
    training = {"trace": "philly.csv", "seed": 3, "epochs": 20}
    return PlacementWeights(SIZES, parameters, FEATURES, "leaf", (10.0, 20.0), "f" * 64, training)


def test_what_is_written_is_read() -> None:
    before = weights()
    content = written(before)
    after = read(content, "w")
    assert content == written(after)
    assert replace(after, parameters={}).__dict__ == replace(before, parameters={}).__dict__
    for name, value in before.parameters.items():
        assert np.array_equal(after.parameters[name], value)


def test_numpy_reads_the_file() -> None:
    with np.load(io.BytesIO(written(weights())), allow_pickle=False) as found:
        assert found["actor.out"].shape == (5, 1)


def changed(change: Callable[[dict[str, bytes]], Any], compress: int = zipfile.ZIP_STORED) -> bytes:
    """Return the file with changed members, and with the hash of these."""
    with zipfile.ZipFile(io.BytesIO(written(weights()))) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    change(members)
    description = members.pop("description.json", None)
    if description is not None:
        try:
            described = json.loads(description)
            described["sha256"] = array_zip.sha256_of(described, members)
            description = json.dumps(described).encode()
        except (ValueError, TypeError, RecursionError):
            pass
        members["description.json"] = description
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compress) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def described(**values: object) -> bytes:
    def change(members: dict[str, bytes]) -> None:
        members["description.json"] = json.dumps({**json.loads(members["description.json"]), **values}).encode()

    return changed(change)


def array(value: np.ndarray, **options: Any) -> bytes:
    data = io.BytesIO()
    np.lib.format.write_array(data, value, **options)
    return data.getvalue()


def huge() -> bytes:
    """The header of an array of 4 TiB, and none of its values."""
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 1 << 20)})
    return data.getvalue()


def with_out(data: bytes) -> bytes:
    return changed(lambda members: members.update({"actor.out.npy": data}))


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "truncated"),
    "text": (lambda: b"weights = 3\n", "truncated"),
    "truncated": (lambda: written(weights())[:-200], "truncated"),
    "compressed": (lambda: changed(lambda members: None, zipfile.ZIP_DEFLATED), "compressed"),
    "no description": (lambda: changed(lambda members: members.pop("description.json")), "has no description.json"),
    "a list": (lambda: changed(lambda members: members.update({"description.json": b"[]"})), "has no description"),
    "deep": (lambda: changed(lambda members: members.update({"description.json": b"[" * 60000})), "no description"),
    "schema": (lambda: described(schema=1), "its schema is 1, and this version reads schema 2"),
    "hash": (lambda: written(weights()).replace(b"philly", b"helios"), "truncated|SHA-256"),
    "edges": (lambda: described(edge_features=["load"]), "the features of its edges are"),
    "sizes": (lambda: described(sizes={"width": 4}), "no sizes"),
    "huge sizes": (lambda: described(sizes={**asdict(SIZES), "width": 1 << 40}), "not possible"),
    "float sizes": (lambda: described(sizes=dict.fromkeys(asdict(SIZES), 1.0)), "no sizes"),
    "other sizes": (lambda: described(sizes={**asdict(SIZES), "width": 6}), "has the shape"),
    "more layers": (lambda: described(sizes={**asdict(SIZES), "server_layers": 3}), "other arrays"),
    "features": (lambda: described(features={**FEATURES, "server": ["a"]}), "names 1 server features, and its sizes have 2"),
    "no features": (lambda: described(features={**FEATURES, "task": 7}), "its task features are no names"),
    "few features": (lambda: described(features={}), "does not name its features"),
    "bandwidths": (lambda: described(bandwidths=[0]), "not between 0"),
    "no bandwidths": (lambda: described(bandwidths=[]), "no numbers"),
    "level": (lambda: described(level=3), "its level is no text"),
    "training": (lambda: described(training=None), "how it was trained"),
    "nan": (lambda: with_out(array(np.full((5, 1), np.nan, np.float32))), "actor.out has a value that is not finite"),
    "inf": (lambda: with_out(array(np.full((5, 1), np.inf, np.float32))), "not finite"),
    "shape": (lambda: with_out(array(np.zeros((5, 2), np.float32))), r"actor.out has the shape \(5, 2\), the network"),
    "type": (lambda: with_out(array(np.zeros((5, 1)))), "no array of float32"),
    "objects": (lambda: with_out(array(np.array([[Holder()]], object), allow_pickle=True)), "no array of float32"),
    "pickle": (lambda: with_out(pickle.dumps({"a": 1})), "no array of float32"),
    "huge claim": (lambda: with_out(huge()), "has the shape"),
    "no array": (lambda: with_out(b"\x93NUMPY\x01\x00\xff\xff{"), "no array of float32"),
}  # fmt: skip


class Holder:
    """Fails where it is unpickled."""

    def __setstate__(self, state: object) -> None:
        raise AssertionError("unpickled")

    def __getstate__(self) -> object:
        return {"a": 1}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_refused_with_one_line(what: str) -> None:
    make, expected = BAD[what]
    with pytest.raises(WeightsError, match=expected) as error:
        read(make(), "/etc/tiresias/w.npz")
    assert str(error.value).startswith("weights /etc/tiresias/w.npz: ")
    assert "\n" not in str(error.value)


def test_a_zip_that_grows_is_not_read() -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("actor.out.npy", b"\0" * (256 << 20))
    with pytest.raises(WeightsError, match="compressed"):
        read(bomb.getvalue(), "w")


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_damage_anywhere_is_found_or_harmless(data: st.DataObject) -> None:
    content = bytearray(written(weights()))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))]
    try:
        after = read(bytes(content), "w")
    except WeightsError:
        return
    assert written(after) == written(weights())  # only what the zip keeps beside the content has changed
