"""A checkpoint's manifest: what it must hold, byte for byte. Pure: bytes in, Manifest or CorruptCheckpoint out.

    {"version": 1, "step": 1200, "world_size": 2, "time": 1790000000.5,
     "files": {"rank-0.json": {"size": 310, "digest": "..."}, "rank-0.bin": {...}, "rank-1.json": {...}, "rank-1.bin": {...}},
     "seal": "..."}

`digest` is a tree hash (blocks.py), `seal` the SHA-256 of all the rest (of its values, however it is spaced). A manifest may
come from a broken disk or an attacker: a file's name is one that the store writes or it is refused.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from tiresias.errors import CorruptCheckpoint

NAME = "manifest.json"
VERSION = 1
MAX_BYTES = 64 << 20  # about 200,000 ranks
MAX_STEP = 10**18 - 1
_FILE = re.compile(r"rank-(0|[1-9][0-9]{0,6})\.(bin|json)", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Content(NamedTuple):
    """One file's size in bytes and tree hash."""

    size: int
    digest: str


class Manifest(NamedTuple):
    """The description of a committed checkpoint.

    Attributes:
        step: The training step.
        world_size: Number of ranks that wrote it.
        time: Epoch seconds of the commit by rank 0.
        files: Content of every file but the manifest, by name.
    """

    step: int
    world_size: int
    time: float
    files: dict[str, Content]

    @property
    def size(self) -> int:
        """All bytes but the manifest's own."""
        return sum(content.size for content in self.files.values())


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as sealed JSON."""
    files = {name: content._asdict() for name, content in manifest.files.items()}
    return seal({"version": VERSION, **manifest._asdict(), "files": files})


def parse(text: bytes) -> Manifest:
    """Parse a manifest. Raises CorruptCheckpoint, without the folder's name, which the caller adds."""
    document = parse_object(text, NAME)
    if document.get("version") != VERSION:
        raise CorruptCheckpoint(f"{NAME}: version {document.get('version')!r:.20} is not {VERSION}")
    document = unseal(document, NAME)
    manifest = Manifest(
        step=whole(document, "step", MAX_STEP),
        world_size=whole(document, "world_size", 10**7),
        time=_moment(document.get("time")),
        files=_files(document.get("files")),
    )
    if set(manifest.files) != expected_files(manifest.world_size):
        raise CorruptCheckpoint(f"{NAME}: does not list the files of {manifest.world_size} ranks")
    return manifest


def expected_files(world_size: int) -> set[str]:
    """Return the names of the files of `world_size` ranks."""
    return {file_name(rank, kind) for rank in range(world_size) for kind in ("bin", "json")}


def file_name(rank: int, kind: str) -> str:
    """Return the name of a rank's file."""
    return f"rank-{rank}.{kind}"


def seal(document: dict[str, Any]) -> bytes:
    """`document` as JSON with a hash of itself."""
    return json.dumps({**document, "seal": _seal(document)}).encode()


def unseal(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The object that was sealed. Raises CorruptCheckpoint where it is another."""
    sealed = {key: value for key, value in document.items() if key != "seal"}
    try:
        fits = document.get("seal") == _seal(sealed)
    except RecursionError:
        fits = False
    if not fits:
        raise CorruptCheckpoint(f"{name}: not what was written: its seal does not fit")
    return sealed


def _seal(document: dict[str, Any]) -> str:
    import hashlib  # here: it costs 5 ms, and every supervisor imports this file

    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def parse_object(text: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object. Raises CorruptCheckpoint, which names the file."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpoint(f"{name}: not JSON: {error!s:.80}") from None
    if not isinstance(document, dict):
        raise CorruptCheckpoint(f"{name}: not an object")
    return document


def whole(document: dict[str, Any], key: str, most: int) -> int:
    """Return a whole number of a document. Raises CorruptCheckpoint."""
    value = document.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise CorruptCheckpoint(f"{key!r} is not a whole number up to {most}")
    return value


def parse_content(value: object) -> Content:
    """Parse the description of a file. Raises CorruptCheckpoint."""
    if not isinstance(value, dict):
        raise CorruptCheckpoint("a file's description is not an object")
    digest = value.get("digest")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise CorruptCheckpoint("'digest' is not 64 hexadecimal digits")
    return Content(whole(value, "size", 2**62), digest)


def _moment(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**40:
        raise CorruptCheckpoint(f"{NAME}: 'time' is not a moment")
    return float(value)


def _files(value: object) -> dict[str, Content]:
    if not isinstance(value, dict):
        raise CorruptCheckpoint(f"{NAME}: 'files' is not an object")
    for name in value:
        if not _FILE.fullmatch(name):
            raise CorruptCheckpoint(f"{NAME}: {name!r:.60} is not a file of a checkpoint")
    return {name: parse_content(content) for name, content in value.items()}
