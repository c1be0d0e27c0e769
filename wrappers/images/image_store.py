"""An image as a checkpoint of the store: its files are the buffers, and what it was made from is a value.

"image"          {"files": {name: mode}, "folder": path, "identities": {path: identity}, "cpu": [feature],
                 "tool": name, "written": {path: bytes}}
"file:<name>"    the bytes of a file; the name is relative to the folder of images
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import files
from tiresias.wrappers.images import option

NOTE, PREFIX, CHUNK = "image", "file:", 4 << 20


class ImageNote(NamedTuple):
    """What an image was made from.

    Attributes:
        identities: Of executables and libraries, by path (program_files.py).
        cpu: The features of the node's processors.
        folder: The folder on the node in which it was dumped.
        tool: The tool that dumped it (option.TOOLS).
        written: Files that the program had open for writing, with their length; for tools that do not keep it (written_files.py).
    """

    identities: Mapping[str, str]
    cpu: list[str]
    folder: str
    tool: str = option.DMTCP
    written: Mapping[str, int] = {}


def state_of(folder: Path, note: ImageNote) -> dict[str, Any]:
    """Return the state that `Store.save` writes. folder: holds the image's files and nothing else. Raises OSError."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in found}
    content = {
        "files": names,
        "identities": dict(note.identities),
        "cpu": note.cpu,
        "folder": note.folder,
        "tool": note.tool,
        "written": dict(note.written),
    }
    return {NOTE: content, **{PREFIX + name: _chunks(folder / name) for name in names}}


def note_of(state: Mapping[str, Any]) -> ImageNote:
    """Return what an image was made from. Raises CorruptCheckpoint where the checkpoint is no image."""
    content = state.get(NOTE)
    if not isinstance(content, dict) or not isinstance(content.get("files"), dict):
        raise CorruptCheckpoint("it is no image of a program: the job's program saved it by itself")
    written = content.get("written")
    return ImageNote(
        _texts(content.get("identities")),
        [str(name) for name in content.get("cpu") or []],
        str(content.get("folder")),
        str(content.get("tool", option.DMTCP)),
        {str(path): int(size) for path, size in written.items()} if isinstance(written, dict) else {},
    )


def write(state: Any, folder: Path) -> None:
    """Write the files of an image into an empty folder. Raises CorruptCheckpoint, OSError.

    Args:
        state: The values of the checkpoint (SavedState).
        folder: The folder of images.
    """
    names = state[NOTE]["files"]
    for name, mode in names.items():
        path = folder / _checked(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            files.write_all(file, state.view(PREFIX + name))
            os.fchmod(file, int(mode) & 0o700 | 0o400)
        finally:
            os.close(file)


def _checked(name: object) -> str:
    parts = PurePosixPath(str(name)).parts
    if not parts or ".." in parts or parts[0] == "/":
        raise CorruptCheckpoint(f"{str(name)!r:.60} is no name of an image's file")
    return str(name)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            yield part


def _texts(value: object) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, dict) else {}
