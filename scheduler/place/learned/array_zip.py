"""A file of arrays: a zip of arrays in numpy's format, as `numpy.savez` writes it, and a description in JSON with a SHA-256.

Nothing of it is executed, nothing is unpickled or decompressed, and no array is larger than the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib import format as numpy_format

from tiresias.scheduler.place.learned.edge_convolution import Array

SIZE_AT_MOST = 64 << 20  # bytes of a file
_DESCRIPTION = "description.json"
_DESCRIPTION_AT_MOST = 8 << 20  # bytes
_HEADER_AT_MOST = 1000  # bytes


class RefusedFile(Exception):
    """Why a file is refused."""


def zipped(described: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Return the content of a file. The same arrays and description give the same bytes.

    Args:
        described: Plain values.
        arrays: By name, of float32.
    """
    members = {f"{name}.npy": _member(value) for name, value in sorted(arrays.items())}
    whole = {**described, "sha256": sha256_of(described, members)}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, data in [*members.items(), (_DESCRIPTION, json.dumps(whole, sort_keys=True).encode())]:
            archive.writestr(zipfile.ZipInfo(name), data)
    return content.getvalue()


def _member(value: Array) -> bytes:
    data = io.BytesIO()
    numpy_format.write_array(data, np.ascontiguousarray(value, "<f4"), (1, 0), allow_pickle=False)
    return data.getvalue()


def sha256_of(described: Mapping[str, Any], members: Mapping[str, bytes]) -> str:
    """Return the hash over the description without its own hash, and over all arrays by name."""
    digest = hashlib.sha256(json.dumps({**described, "sha256": ""}, sort_keys=True).encode())
    for name, data in sorted(members.items()):
        digest.update(f"{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def unzipped(content: bytes, schema: object) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the description of a file and its members. Raises RefusedFile for another schema, hash or kind of file."""
    members = _members_of(content)
    described = _description_of(members)
    if described.get("schema") != schema:
        raise RefusedFile(f"its schema is {shown(described.get('schema'))}, and this version reads schema {schema}")
    if described.get("sha256") != sha256_of(described, members):
        raise RefusedFile("its content does not have the SHA-256 that it states")
    return described, members


def shown(value: object) -> str:
    """Return a value of a description as errors print it."""
    return repr(value)[:60]


def _members_of(content: bytes) -> dict[str, bytes]:
    """Return the members of the zip, which are stored as they are. Raises RefusedFile for any other file."""
    if len(content) > SIZE_AT_MOST:
        raise RefusedFile(f"it has more than {SIZE_AT_MOST >> 20} MiB")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if sum(each.file_size for each in infos) > len(content) or any(each.compress_type for each in infos):
                raise RefusedFile("it is compressed, which files of weights are not")
            return {each.filename: archive.read(each) for each in infos}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError):
        raise RefusedFile("it is truncated, or no file of weights") from None


def _description_of(members: dict[str, bytes]) -> dict[str, Any]:
    """Return the description, and remove it from the members. Raises RefusedFile where there is none."""
    data = members.pop(_DESCRIPTION, b"")
    try:
        found = json.loads(data) if len(data) <= _DESCRIPTION_AT_MOST else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RefusedFile(f"it has no {_DESCRIPTION}")
    return found


def array_of(data: bytes, name: str, shape: Sequence[int]) -> Array:
    """Return the array of a member. Raises RefusedFile where it has another type or shape, or a value that is not finite."""
    stream = io.BytesIO(data)
    try:
        version = numpy_format.read_magic(stream)
        found = numpy_format.read_array_header_1_0(stream, _HEADER_AT_MOST) if version == (1, 0) else None
    except ValueError:
        found = None
    if found is None or found[1] or found[2] != np.dtype("<f4"):
        raise RefusedFile(f"{name} is no array of float32")
    rest = data[stream.tell() :]
    if found[0] != tuple(shape) or len(rest) != 4 * int(np.prod(shape)):
        raise RefusedFile(f"{name} has the shape {found[0]}, the network of its sizes {tuple(shape)}")
    value = np.frombuffer(rest, "<f4").reshape(shape)
    if not np.isfinite(value).all():
        raise RefusedFile(f"{name} has a value that is not finite")
    return value
