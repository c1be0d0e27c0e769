"""The identities of a program's executables and libraries. An image is restored only where all are as they were.

An executable has the SHA-256 of its bytes, a library its GNU build id, or the SHA-256 where it has none.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_HEADER, _NOTE_SEGMENT = 64, 4  # bytes of an ELF64 header; PT_NOTE
_BUILD_ID = 3
MOST_NOTE_BYTES = 1 << 16
CPU_INFO = Path("/proc/cpuinfo")


def identities(executables: set[str], libraries: set[str]) -> dict[str, str]:
    """Return the identity of each file by its path; one that cannot be read is left out."""
    found = {}
    for path in sorted(executables | libraries):
        with suppress(OSError):
            found[path] = identity(Path(path), path in executables)
    return found


def identity(path: Path, whole: bool) -> str:
    """Return `sha256:...` or `build-id:...`. whole: the build id is not enough. Raises OSError."""
    if not whole and (number := _build_id(path)):
        return f"build-id:{number}"
    return _sha256(path)


def changed(noted: Mapping[str, str]) -> str:
    """Return the first file that is not as it was noted, with the reason; "" where all are."""
    for path, before in noted.items():
        try:
            now = identity(Path(path), before.startswith("sha256:"))
        except OSError as error:
            return f"{path}: {error.strerror}"
        if now != before:
            return f"{path} has changed since"
    return ""


def cpu_features() -> list[str]:
    """Return the features of this node's processors, sorted."""
    with suppress(OSError):
        for line in CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("flags", "Features"):
                return sorted(set(value.split()))
    return []


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _build_id(path: Path) -> str:
    """Return the GNU build id of a 64-bit little-endian ELF file, "" without one. Raises OSError."""
    with path.open("rb") as file:
        header = file.read(_HEADER)
        if len(header) < _HEADER or header[:6] != b"\x7fELF\x02\x01":
            return ""
        (offset,), (size, count) = struct.unpack_from("<Q", header, 32), struct.unpack_from("<HH", header, 54)
        for number in range(count):
            file.seek(offset + number * size)
            segment = file.read(56)
            if len(segment) < 56:
                return ""
            kind, start, length = struct.unpack_from("<I4xQ16xQ", segment)
            if kind == _NOTE_SEGMENT and length <= MOST_NOTE_BYTES:
                file.seek(start)
                if found := _in_notes(file.read(length)):
                    return found
    return ""


def _in_notes(notes: bytes) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        start = at + 12 + (name_size + 3) // 4 * 4
        if kind == _BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[start : start + size].hex()
        at = start + (size + 3) // 4 * 4
    return ""
