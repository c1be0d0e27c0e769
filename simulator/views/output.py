"""Result files: checked before the simulation, and written after it, all of them or none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tiresias.errors import TiresiasError, UsageError

Content = bytes | Iterable[str]


def check(files: Iterable[Path]) -> None:
    """Check that the files can be written.

    Raises:
        UsageError: A file cannot be written, or is named twice.
    """
    seen: set[Path] = set()
    for file in files:
        try:
            _check_file(file)
            place = file.resolve()
        except OSError as error:
            raise UsageError(f"{file}: cannot be written: {error.strerror}; name another file") from error
        if place in seen:
            raise UsageError(f"{file}: is named for two results; name two files")
        seen.add(place)


def _check_file(file: Path) -> None:
    if file.is_dir():
        raise UsageError(f"{file}: is a folder; name a file")
    if not file.parent.is_dir():
        raise UsageError(f"{file}: there is no folder {file.parent}; make it first")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{file}: its folder may not be written to; name another one")


def write(contents: Mapping[Path, Content]) -> None:
    """Write all files. If the text of one cannot be written, none is changed."""
    parts: dict[Path, Path] = {}
    at = Path()
    try:
        for at, content in contents.items():
            parts[at] = _part(at)
            _fill(parts[at], content)
        for at, part in parts.items():
            if part != at:
                part.replace(at.resolve())
    except OSError as error:
        raise TiresiasError(f"{at}: cannot be written: {error.strerror}") from error
    finally:
        for file, part in parts.items():
            if part != file:
                part.unlink(missing_ok=True)


def _part(file: Path) -> Path:
    """Where the text is gathered. A pipe, a terminal and the like are written to directly."""
    if file.parts[:2] == ("/", "dev") or (file.exists() and not file.is_file()):
        return file
    place = file.resolve()  # a link stays one
    return place.with_name(f".{place.name}.{os.getpid()}.part")


def _fill(part: Path, content: Content) -> None:
    if isinstance(content, bytes):
        part.write_bytes(content)
        return
    with part.open("w", encoding="utf-8", newline="") as text:
        text.writelines(content)
