"""Any nested state comes back bit for bit; what cannot is refused with its place."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lazily import imported
from tiresias.checkpoint import CorruptCheckpoint, Store

torch = imported("torch")
encoding = imported("tiresias.checkpoint.adapters.encoding", "torch")

TYPES = ["float32", "float64", "bfloat16", "float16", "float8_e4m3fn", "int64", "uint8", "bool", "complex64"]


class Held(dict[str, Any]):
    """What unpack reads, without a disk: buffers as the store gives them."""

    def view(self, name: str) -> memoryview:
        return memoryview(bytes(memoryview(self[name])))

    own = view


def there_and_back(tree: Any) -> Any:
    return encoding.unpack(Held(encoding.pack("x", tree)), "x")


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
keys = st.integers() | st.text() | st.tuples(st.integers(), st.text())
trees = st.recursive(
    plain | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=20,
)


@given(trees)
def test_plain_values_keep_their_types_and_order(tree: Any) -> None:
    assert repr(there_and_back(tree)) == repr(tree)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 4)], ids=str)
def test_tensors_of_every_type_and_shape(tmp_path: Path, kind: str, shape: tuple[int, ...]) -> None:
    dtype = getattr(torch, kind)
    tensor = (torch.rand(shape, dtype=torch.float64) * 9).to(dtype)
    store = Store(tmp_path)
    store.save(1, encoding.pack("x", [tensor]))
    for copy, own in ((True, False), (False, False), (True, True)):
        (found,) = encoding.unpack(store.load(1).state, "x", copy, own)
        assert (found.dtype, found.shape) == (dtype, tensor.shape)
        assert raw(found) == raw(tensor)


def raw(tensor: Any) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""


def test_tensors_that_are_views() -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    for tensor in (whole.t(), whole[:, 1], whole.expand(2, 3, 4), torch.complex(whole, whole).conj()):
        assert torch.equal(there_and_back(tensor), tensor)


def test_a_restored_tensor_may_be_written_to() -> None:
    found = there_and_back(torch.zeros(3))
    found += 1
    assert found.tolist() == [1, 1, 1]


def test_what_optimizers_schedulers_and_generators_hold() -> None:
    found = there_and_back(
        {"numpy": np.random.get_state(), "python": random.getstate(), "milestones": Counter([3, 3, 5])}
    )
    np.random.set_state(found["numpy"])
    assert found["python"] == random.getstate()
    assert list(found["milestones"].elements()) == [3, 3, 5]
    number = there_and_back(np.float32(0.1))
    assert (number, number.dtype) == (np.float32(0.1), np.float32)
    array = there_and_back(np.arange(6, dtype=">i2").reshape(2, 3))
    assert (array.tolist(), array.dtype) == ([[0, 1, 2], [3, 4, 5]], np.dtype(">i2"))


@pytest.mark.parametrize(
    "make",
    [
        object,
        lambda: {1},
        lambda: torch.zeros(2, 2).to_sparse(),
        lambda: torch.zeros(2, device="meta"),
        lambda: np.array([object()]),
    ],
)
def test_what_has_no_place_is_refused_with_the_way_to_it(make: Callable[[], Any]) -> None:
    value = make()
    with pytest.raises(TypeError, match=r"model\['layers'\]\[1\]: a .*"):
        encoding.pack("model", {"layers": [0, value]})


@pytest.mark.parametrize(
    "node",
    [
        {"tensor": ["b", "float32", [2]]}, {"tensor": ["b", "system", [1]]}, {"tensor": []}, {"array": ["b", "O", [1]]},
        {"array": ["b", "<f4", [7]]}, {"what": 1}, {"dict": [[[], 1]]}, {"dict": 5}, {}, {"scalar": ["<f4", "zz"]},
    ],
)  # fmt: skip
def test_a_damaged_tree_is_reported(node: Any) -> None:
    with pytest.raises(CorruptCheckpoint, match="x: not a packed state"):
        encoding.unpack(Held(x=node, b=b"1234"), "x")
