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
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import UsageError
from tiresias.protocol.remote_memory_use import NODE_FOLDER
from tiresias.services.remote_memory.client.job_region import job_region_settings
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.region.remote_region import LEAST_RESIDENT_PAGES
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.handshake import KEY_BYTES
from tiresias.services.wire.peer_identity import agent_identity
from tiresias.services.wire.private_configuration import ConfigurationValues, read_values
from tiresias.services.wire.private_files import read_service_key

VERSION = 1
PAGE_BYTES = 4096  # as native/region.c has it
_TEXTS = ("disk", "job", "key_file", "run")
_OF_THE_JOB = "job"
KEYS = ("version", "size_mib", "resident_mib", *_TEXTS, "donors", "slab_mib", "least_kib", "regions")
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
    values = read_values(path, KEYS)
    with values.errors_named():
        if (version := values.value("version", VERSION)) != VERSION:
            raise ValueError(f"version {version!r} of the configuration; this release reads {VERSION}")
        try:
            return _checked(values)
        except BadFrame as error:
            raise ValueError(error) from error


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


def _checked(values: ConfigurationValues) -> ProgramSettings:
    if mmap.PAGESIZE != PAGE_BYTES:
        raise ValueError(f"this machine has pages of {mmap.PAGESIZE} bytes; regions of programs need {PAGE_BYTES}")
    size, resident = values.whole("size_mib"), values.whole("resident_mib")
    if resident << 20 < LEAST_RESIDENT_PAGES * mmap.PAGESIZE:
        raise ValueError(f"resident_mib = {resident}; at least {LEAST_RESIDENT_PAGES * mmap.PAGESIZE} bytes are needed")
    region = _region(values, (size << 20) // mmap.PAGESIZE)
    least = values.whole("least_kib", 2048)
    if least < _LEAST_BLOCK_KIB:
        raise ValueError(f"least_kib = {least}; at least {_LEAST_BLOCK_KIB} is needed")
    return ProgramSettings(region, resident << 20, least << 10, values.whole("regions", 1))


def _region(values: ConfigurationValues, pages: int) -> RegionSettings:
    disk = _absolute(values, "disk")
    if (named := values.value("donors", ())) == _OF_THE_JOB:
        return job_region_settings(disk, pages, Path(values.text("run", NODE_FOLDER)))
    if isinstance(named, str):
        raise ValueError(f'donors is neither "{_OF_THE_JOB}" nor a list of texts')
    donors = values.texts("donors")
    return RegionSettings(
        agent_identity(values.text("job", None if donors else _LOCAL_JOB), 0, 0),
        read_service_key(_absolute(values, "key_file")) if donors else bytes(KEY_BYTES),
        donors,
        disk,
        pages,
        slab_bytes=values.whole("slab_mib", 64) << 20,
    )


def _absolute(values: ConfigurationValues, key: str) -> Path:
    found = Path(values.text(key))
    if not found.is_absolute():
        raise ValueError(f"{key} = {str(found)!r}; give an absolute path")
    return found
