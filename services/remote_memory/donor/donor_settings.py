"""The configuration of a donor: a JSON file that only its user can read.

listen             host:port; port 0 takes a free one
service_key_file   file with the 64 hexadecimal digits of the service's key, mode 0600; jobs have keys derived from it (job_key.py)
most_mib           bound of the lent memory; default: half of the node's memory
headroom_mib       memory that stays free; default: one eighth of the node's memory
slab_mib           size of a slab, the same on all nodes; default 64
ready_slabs        slabs that are allocated before a client maps them; default 2
client_slabs       bound of the slabs of one connection; default: all
memory             /proc/meminfo (default), or the folder of the memory cgroup that the donor runs in
slurm_node         Slurm's name of this node, whose jobs' memory is not lent; "" for none; default: the host's name
poll_s             seconds between two measurements; default 0.02
activity_timeout_s seconds for the answer to an activity query; default 0.2
eviction_timeout_s seconds after which an evicted slab is released without an answer; default 1
stall_timeout_s    seconds without a byte in the middle of a frame; default 20
munge              whether clients must prove their user by munge; default false
protect            "mac": frames are protected against changes on their way; default "none"
announce           file that gets {"address", "pid"} when the donor is ready; optional
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.errors import UsageError
from tiresias.services.remote_memory.donor.node_memory import MEMINFO, memory_reader
from tiresias.services.remote_memory.slabs.donor_memory import HEADROOM_SHARE
from tiresias.services.wire.frame_guard import PROTECT_MAC, PROTECT_NONE
from tiresias.services.wire.private_files import private_json, read_service_key

MOST_SLABS = 1 << 20
_NODE = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,99})?")
_REQUIRED = {"listen": str, "service_key_file": str}
_WHOLE = ("most_mib", "headroom_mib", "slab_mib", "ready_slabs", "client_slabs")
_SECONDS = {"poll_s": 0.02, "activity_timeout_s": 0.2, "eviction_timeout_s": 1.0, "stall_timeout_s": 20.0}
_MAY_BE_ZERO = {"headroom_mib", "ready_slabs", "most_mib"}
KEYS = (*_REQUIRED, *_WHOLE, *_SECONDS, "memory", "announce", "munge", "protect", "slurm_node")


class DonorSettings(NamedTuple):
    """A checked configuration; sizes in bytes, times in seconds."""

    host: str
    port: int
    service_key: bytes
    most_slabs: int
    headroom_bytes: int
    slab_bytes: int
    ready_slabs: int
    client_slabs: int
    memory: Path
    poll_s: float
    activity_timeout_s: float
    eviction_timeout_s: float
    stall_timeout_s: float
    announce: Path | None
    munge: bool
    protect: str
    slurm_node: str


def read_donor_settings(path: Path) -> DonorSettings:
    """Read the configuration.

    Raises:
        UsageError: The file, a key or a value is wrong; one line that names it.
    """
    content = private_json(path)
    if unknown := content.keys() - set(KEYS):
        raise UsageError(f"{path}: unknown key {', '.join(sorted(unknown))}; allowed: {', '.join(KEYS)}")
    if missing := _REQUIRED.keys() - content.keys():
        raise UsageError(f"{path}: the key {min(missing)} is missing")
    try:
        return _checked_settings(content)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error


def _checked_settings(content: Mapping[str, Any]) -> DonorSettings:
    host, port = _address(content["listen"])
    memory = Path(_text(content, "memory", str(MEMINFO)))
    total_mib = memory_reader(memory)().total_bytes >> 20
    slab_mib = _whole(content, "slab_mib", 64)
    return DonorSettings(
        host,
        port,
        read_service_key(Path(_text(content, "service_key_file", ""))),
        min(MOST_SLABS, _whole(content, "most_mib", total_mib // 2) // slab_mib),
        _whole(content, "headroom_mib", int(total_mib * HEADROOM_SHARE)) << 20,
        slab_mib << 20,
        _whole(content, "ready_slabs", 2),
        _whole(content, "client_slabs", MOST_SLABS),
        memory,
        _seconds(content, "poll_s"),
        _seconds(content, "activity_timeout_s"),
        _seconds(content, "eviction_timeout_s"),
        _seconds(content, "stall_timeout_s"),
        Path(_text(content, "announce", "")) if "announce" in content else None,
        _flag(content, "munge"),
        _protection(content.get("protect", PROTECT_NONE)),
        _node(content),
    )


def _address(listen: Any) -> tuple[str, int]:
    host, _, port = str(listen).rpartition(":")
    if not host.strip("[]") or not port.isdecimal() or int(port) > 65535:
        raise ValueError("listen has the form host:port, with the host's name as other nodes resolve it")
    return host.strip("[]"), int(port)


def _text(content: Mapping[str, Any], key: str, default: str) -> str:
    value = content.get(key, default)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} is no text")
    return value


def _whole(content: Mapping[str, Any], key: str, default: int) -> int:
    value = content.get(key, default)
    if type(value) is not int or not (0 if key in _MAY_BE_ZERO else 1) <= value < 1 << 40:
        raise ValueError(f"{key} = {value!r}; give a whole number{'' if key in _MAY_BE_ZERO else ' above 0'}")
    return value


def _flag(content: Mapping[str, Any], key: str) -> bool:
    value = content.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{key} is true or false")
    return value


def _node(content: Mapping[str, Any]) -> str:
    value = content.get("slurm_node", os.uname().nodename.partition(".")[0])
    if not isinstance(value, str) or not _NODE.fullmatch(value):
        raise ValueError("slurm_node is no name of a node")
    return value


def _protection(value: Any) -> str:
    if value not in (PROTECT_NONE, PROTECT_MAC):
        raise ValueError(f"protect is {PROTECT_NONE} or {PROTECT_MAC}")
    return str(value)


def _seconds(content: Mapping[str, Any], key: str) -> float:
    value = content.get(key, _SECONDS[key])
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= 3600:
        raise ValueError(f"{key} = {value!r}; give seconds from 0.001 to 3600")
    return float(value)
