"""The configuration of a program's region: a JSON file that only its user can read.

version       of the configuration, 1; default 1
size_mib      size of the region: arrays beyond it are in local memory
resident_mib  local memory that the region uses at most
disk          folder on local disk for the copies of pages; no tmpfs
donors        "job": those of this node, with the key that its prolog has left for the job; or a list of addresses, host:port;
              default: none, all pages are on the disk
job           with a list of donors: the job's name, of which the key is
key_file      with a list of donors: file with the job's key, mode 0600
slab_mib      size of a slab, the same as that of the donors; default 64, and that of the node with "job"
run           the node's folder with jobs' keys; default /run/tiresias/remote-memory
least_kib     blocks from this size on are in the region; default 2048
regions       programs of one launch that may have a region at the same time; default 1
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.errors import UsageError
from tiresias.protocol.remote_memory_use import NODE_FOLDER
from tiresias.services.remote_memory.client.job_region import job_region_settings
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.region.remote_region import LEAST_RESIDENT_PAGES
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.handshake import KEY_BYTES
from tiresias.services.wire.peer_identity import agent_identity
from tiresias.services.wire.private_files import private_json, read_service_key

VERSION = 1
PAGE_BYTES = 4096  # as native/region.c has it
_DEFAULTS = {"slab_mib": 64, "least_kib": 2048, "regions": 1}
_TEXTS = ("disk", "job", "key_file", "run")
_OF_THE_JOB = "job"
KEYS = ("version", "size_mib", "resident_mib", *_TEXTS, "donors", *_DEFAULTS)
_LEAST_BLOCK_KIB = 64  # below it the pages of small objects would be in the region
_LOCAL_JOB = "program"  # of a region without donors


class ProgramSettings(NamedTuple):
    """A checked configuration.

    Attributes:
        region: The region's own settings.
        resident_bytes: The most memory that it uses here.
        least_bytes: Blocks from this size on are in the region.
        regions: Programs of one launch that may have one at the same time.
    """

    region: RegionSettings
    resident_bytes: int
    least_bytes: int
    regions: int


def read_program_settings(path: Path) -> ProgramSettings:
    """Read the configuration.

    Raises:
        UsageError: The file, a key or a value is wrong; one line that names it.
    """
    content = private_json(path)
    if content.get("version", VERSION) != VERSION:
        raise UsageError(f"{path}: version {content['version']!r} of the configuration; this release reads {VERSION}")
    if unknown := content.keys() - set(KEYS):
        raise UsageError(f"{path}: unknown key {', '.join(sorted(unknown))}; allowed: {', '.join(KEYS)}")
    try:
        return _checked(content)
    except (ValueError, BadFrame) as error:
        raise UsageError(f"{path}: {error}") from error
    except UsageError as error:
        raise error if str(error).startswith("/") else UsageError(f"{path}: {error}") from error


def check_disk(settings: ProgramSettings) -> None:
    """Check that the disk has space for the whole region.

    Raises:
        UsageError: It has not, or the folder cannot be used.
    """
    disk = settings.region.disk
    try:
        found = os.statvfs(disk)
    except OSError as error:
        raise UsageError(f"{disk}: {error.strerror}") from error
    if not os.access(disk, os.W_OK | os.X_OK):
        raise UsageError(f"{disk}: no files can be created there")
    size, free = settings.region.pages * settings.region.page_bytes, found.f_bavail * found.f_frsize
    if size > free:
        raise UsageError(f"size_mib = {size >> 20}, and {disk} has {free >> 20} MiB free: use less, or another folder")


def _checked(content: Mapping[str, Any]) -> ProgramSettings:
    if mmap.PAGESIZE != PAGE_BYTES:
        raise ValueError(f"this machine has pages of {mmap.PAGESIZE} bytes; regions of programs need {PAGE_BYTES}")
    size, resident = _whole(content, "size_mib", None), _whole(content, "resident_mib", None)
    if resident << 20 < LEAST_RESIDENT_PAGES * mmap.PAGESIZE:
        raise ValueError(f"resident_mib = {resident}; at least {LEAST_RESIDENT_PAGES * mmap.PAGESIZE} bytes are needed")
    region = _region(content, (size << 20) // mmap.PAGESIZE)
    least = _whole(content, "least_kib", _DEFAULTS["least_kib"])
    if least < _LEAST_BLOCK_KIB:
        raise ValueError(f"least_kib = {least}; at least {_LEAST_BLOCK_KIB} is needed")
    return ProgramSettings(region, resident << 20, least << 10, _whole(content, "regions", _DEFAULTS["regions"]))


def _region(content: Mapping[str, Any], pages: int) -> RegionSettings:
    disk = _absolute(content, "disk")
    if content.get("donors") == _OF_THE_JOB:
        return job_region_settings(disk, pages, Path(_text(content, "run", NODE_FOLDER)))
    donors = _donors(content)
    return RegionSettings(
        agent_identity(_text(content, "job", None if donors else _LOCAL_JOB), 0, 0),
        _key(content) if donors else bytes(KEY_BYTES),
        donors,
        disk,
        pages,
        slab_bytes=_whole(content, "slab_mib", _DEFAULTS["slab_mib"]) << 20,
    )


def _key(content: Mapping[str, Any]) -> bytes:
    return read_service_key(_absolute(content, "key_file"))


def _donors(content: Mapping[str, Any]) -> tuple[str, ...]:
    found = content.get("donors", [])
    if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
        raise ValueError('donors is neither "job" nor a list of texts')
    return tuple(found)


def _absolute(content: Mapping[str, Any], key: str) -> Path:
    found = Path(_text(content, key, None))
    if not found.is_absolute():
        raise ValueError(f"{key} = {str(found)!r}; give an absolute path")
    return found


def _text(content: Mapping[str, Any], key: str, default: str | None) -> str:
    value = content.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key} is missing" if value is None else f"{key} is no text")
    return value


def _whole(content: Mapping[str, Any], key: str, default: int | None) -> int:
    value = content.get(key, default)
    if value is None:
        raise ValueError(f"{key} is missing")
    if type(value) is not int or not 1 <= value < 1 << 40:
        raise ValueError(f"{key} = {value!r}; give a whole number from 1 on")
    return value
