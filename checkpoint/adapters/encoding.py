"""Nested state <-> what Checkpointer.save takes, bit for bit and without pickle.

`pack("model", tree)` gives {"model": JSON, "model/0": buffer, "model/1": buffer, ...}: the tree as JSON in which each tensor, array
and bytes object is a place holder that names its buffer. JSON has no tuples and no keys but text, so all that is not JSON's own
is an object of one key, its kind:

    {"tensor": [buffer, dtype, shape]}   {"array": [buffer, dtype, shape]}   {"bytes": buffer}   {"scalar": [dtype, bytes as hex]}
    {"dict": [[key, value], ...]}        {"Counter": [[key, value], ...]}    {"tuple": [...]}

Tensors come back on the CPU; load_state_dict puts them where they belong. Subclasses of dict, list and tuple come back as these.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from tiresias.errors import CorruptCheckpoint


class Source(Protocol):
    """The input of `unpack`: a restored state (checkpoint.state.SavedState)."""

    def __getitem__(self, name: str, /) -> Any: ...

    def view(self, name: str) -> memoryview:
        """Return the bytes of a buffer without a copy, read-only."""
        ...

    def own(self, name: str) -> memoryview:
        """Return the bytes of a buffer for the only user of the state, writable where they can be."""
        ...


def pack(name: str, tree: object) -> dict[str, Any]:
    """Raises TypeError, with the place in the tree, for what is none of tensor, array, bytes, list, tuple, dict or plain value.

    Nothing on the CPU is copied: the buffers are the tensors' own memory. Other devices' tensors are fetched one at a time when
    they are written.
    """
    buffers: dict[str, Any] = {}
    skeleton = _Packer(name, buffers).pack(tree, name)
    return {name: skeleton, **buffers}


class _Packer:
    def __init__(self, name: str, buffers: dict[str, Any]) -> None:
        self._name, self._buffers = name, buffers

    def pack(self, value: Any, where: str) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, list):
            return self._all(value, where)
        if isinstance(value, torch.Tensor):
            return {"tensor": [self._keep(tensor_buffer(value, where)), dtype_name(value.dtype), list(value.shape)]}
        return self._container(value, where) or self._other(value, where)

    def _container(self, value: Any, where: str) -> Any:
        if isinstance(value, dict):
            kind = "Counter" if isinstance(value, Counter) else "dict"
            return {kind: [[self.pack(k, where), self.pack(v, f"{where}[{k!r:.40}]")] for k, v in value.items()]}
        if isinstance(value, tuple):
            return {"tuple": self._all(value, where)}
        return None

    def _other(self, value: Any, where: str) -> Any:
        if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
            if isinstance(value, np.generic):
                return {"scalar": [value.dtype.str, value.tobytes().hex()]}
            flat = np.ascontiguousarray(value).reshape(-1)
            return {"array": [self._keep(flat.view(np.uint8) if flat.size else b""), value.dtype.str, [*value.shape]]}
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": self._keep(value)}
        for plain in (bool, int, float, str):  # subclasses, such as the members of an IntEnum
            if isinstance(value, plain):
                return plain(value)
        raise TypeError(
            f"{where}: a {type(value).__module__}.{type(value).__qualname__} has no place in a checkpoint; "
            "make it of tensors, arrays, bytes, lists, tuples, dicts and plain values"
        )

    def _all(self, values: Any, where: str) -> list[Any]:
        return [self.pack(value, f"{where}[{index}]") for index, value in enumerate(values)]

    def _keep(self, buffer: Any) -> str:
        name = f"{self._name}/{len(self._buffers)}"
        self._buffers[name] = buffer
        return name


def tensor_buffer(tensor: Any, where: str) -> Any:
    """A dense tensor's bytes in row-major order: its own memory where it can be, an iterator where it is not on the CPU."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise TypeError(
            f"{where}: a {tensor.layout} tensor of {tensor.dtype} on {tensor.device} cannot be saved; "
            "only dense ones can"
        )
    tensor = tensor.detach()
    return _bytes(tensor) if tensor.device.type == "cpu" else _fetched(tensor)


def _bytes(tensor: Any) -> Any:
    if not tensor.numel():
        return b""
    flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy()


def _fetched(tensor: Any) -> Iterator[Any]:
    yield _bytes(tensor.cpu())


def unpack(state: Source, name: str, copy: bool = True, own: bool = False) -> Any:
    """What was packed as `name`. Raises KeyError where it is missing, CorruptCheckpoint where it is not what `pack` makes.

    copy=False: tensors are views of the restored state. They are for a load_state_dict that copies, as a module's does and an
    optimizer's does not; writing to one changes the state, or ends the process. own=True: `state` is unpacked once and then
    dropped, so that tensors take its memory instead of a copy.
    """
    try:
        return _unpack(_Unpacking(state, copy, own), state[name])
    except (ValueError, TypeError, IndexError, RuntimeError, RecursionError) as error:
        raise CorruptCheckpoint(f"{name}: not a packed state: {error!s:.200}") from None


class _Unpacking(NamedTuple):
    """How buffers become tensors and arrays; see `unpack`."""

    state: Source
    copy: bool
    own: bool

    def buffer(self, name: str) -> memoryview:
        return self.state.own(name) if self.own else self.state.view(name)


def _unpack(how: _Unpacking, node: Any) -> Any:
    if isinstance(node, list):
        return [_unpack(how, value) for value in node]
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    if kind in ("dict", "Counter"):
        made = {_unpack(how, key): _unpack(how, value) for key, value in content}
        return Counter(made) if kind == "Counter" else made
    return tuple(_unpack(how, content)) if kind == "tuple" else _leaf(how, kind, content)


def _leaf(how: _Unpacking, kind: str, content: Any) -> Any:
    if kind == "tensor":
        data = how.buffer(content[0])
        found = tensor_view(data, content[1], content[2])
        return found.clone() if how.copy and data.readonly else found
    if kind == "array":
        data = how.buffer(content[0])
        array = np.frombuffer(data, content[1]).reshape(content[2])
        return array.copy() if data.readonly else array
    if kind == "scalar":
        return np.frombuffer(bytes.fromhex(content[1]), content[0])[0]
    if kind == "bytes":
        return bytes(how.state.view(content))
    raise ValueError(f"unknown kind {kind!r:.40}")


def tensor_view(data: memoryview, dtype: str, shape: list[int]) -> Any:
    """A tensor over `data`, not a copy. Raises ValueError or RuntimeError where the size does not fit."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise ValueError(f"unknown type {dtype!r:.40}")
    if not len(data):
        return torch.empty(0, dtype=kind).reshape(shape)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")  # it is never written: see unpack
        return torch.frombuffer(data, dtype=kind).reshape(shape)


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype without "torch."."""
    return str(dtype).removeprefix("torch.")
