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
slurm_poll_s       seconds between two calls of scontrol at most: a node that is drained lends so long; default 600
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
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.services.remote_memory.donor.node_memory import MEMINFO, memory_reader
from tiresias.services.remote_memory.donor.slurm_allocation import RARE_NODE_POLL_S
from tiresias.services.remote_memory.slabs.donor_memory import HEADROOM_SHARE
from tiresias.services.wire.frame_guard import PROTECT_MAC, PROTECT_NONE
from tiresias.services.wire.private_configuration import ConfigurationValues, read_values
from tiresias.services.wire.private_files import read_service_key

MOST_SLABS = 1 << 20
_NODE = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,99})?")
_WHOLE = ("most_mib", "headroom_mib", "slab_mib", "ready_slabs", "client_slabs")
_SECONDS = {
    "poll_s": 0.02, "activity_timeout_s": 0.2, "eviction_timeout_s": 1.0, "stall_timeout_s": 20.0,
    "slurm_poll_s": RARE_NODE_POLL_S,
}  # fmt: skip
_OTHERS = ("memory", "announce", "munge", "protect", "slurm_node")
KEYS = ("listen", "service_key_file", *_WHOLE, *_SECONDS, *_OTHERS)


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
    slurm_poll_s: float
    announce: Path | None
    munge: bool
    protect: str
    slurm_node: str


def read_donor_settings(path: Path) -> DonorSettings:
    """Read the configuration.

    Raises:
        UsageError: The file, a key or a value is wrong; one line that names it.
    """
    values = read_values(path, KEYS)
    with values.errors_named():
        return _checked_settings(values)


def _checked_settings(values: ConfigurationValues) -> DonorSettings:
    host, port = _address(values.value("listen"))
    memory = Path(values.filled_text("memory", str(MEMINFO)))
    total_mib = memory_reader(memory)().total_bytes >> 20
    slab_mib = values.whole("slab_mib", 64)
    return DonorSettings(
        host,
        port,
        read_service_key(Path(values.filled_text("service_key_file"))),
        min(MOST_SLABS, values.whole("most_mib", total_mib // 2, least=0) // slab_mib),
        values.whole("headroom_mib", int(total_mib * HEADROOM_SHARE), least=0) << 20,
        slab_mib << 20,
        values.whole("ready_slabs", 2, least=0),
        values.whole("client_slabs", MOST_SLABS),
        memory,
        **{key: values.seconds(key, default, 0.001, 3600) for key, default in _SECONDS.items()},
        announce=Path(values.filled_text("announce")) if "announce" in values else None,
        munge=values.flag("munge"),
        protect=values.choice("protect", (PROTECT_NONE, PROTECT_MAC)),
        slurm_node=_node(values),
    )


def _address(listen: Any) -> tuple[str, int]:
    host, _, port = str(listen).rpartition(":")
    if not host.strip("[]") or not port.isdecimal() or int(port) > 65535:
        raise ValueError("listen has the form host:port, with the host's name as other nodes resolve it")
    return host.strip("[]"), int(port)


def _node(values: ConfigurationValues) -> str:
    name = values.text("slurm_node", os.uname().nodename.partition(".")[0])
    if not _NODE.fullmatch(name):
        raise ValueError("slurm_node is no name of a node")
    return name
