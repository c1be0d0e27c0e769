"""The configuration of an aggregator: a JSON file that only its user can read.

listen            host:port; port 0 takes a free one
state             folder of the master copies: node-local, best on a tmpfs
service_key_file  file with the 64 hexadecimal digits of the service's key, mode 0600
memory_mib        bound of all jobs' tensors; the default is half of the node's memory
announce          file that gets {"address", "pid"} when the aggregator is ready; optional
stall_timeout_s   seconds without a byte in the middle of a frame; default 60
lost_rank_s       seconds that a step waits for a rank whose connection has ended and was not made again; default 60
torch             true: the update of float32 by PyTorch, which is installed on the node (torch_addition.py); default false
protect           "mac": frames are protected against changes on their way; default "none"
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.errors import UsageError
from tiresias.services.parameter_service.aggregator.optimizer_kernels import FusedAddition
from tiresias.services.parameter_service.aggregator.torch_addition import torch_addition
from tiresias.services.wire.frame_guard import PROTECT_MAC, PROTECT_NONE
from tiresias.services.wire.private_files import private_json, read_service_key

KEYS = {
    "listen",
    "state",
    "service_key_file",
    "memory_mib",
    "announce",
    "stall_timeout_s",
    "lost_rank_s",
    "torch",
    "protect",
}


class AggregatorSettings(NamedTuple):
    """A checked configuration.

    Attributes:
        host: The address to listen on.
        port: The port; 0 for a free one.
        state: The folder of the master copies.
        service_key: The key of the service.
        memory_bytes: Bound of all jobs' tensors.
        announce: The file of the address; None for none.
        stall_timeout_s: Seconds without a byte in the middle of a frame.
        protect: "none" or "mac": wire/frame_guard.py.
        lost_rank_s: Seconds that a step waits for a rank whose connection has ended.
        fused: The fused multiply-add of float32; None for NumPy's.
    """

    host: str
    port: int
    state: Path
    service_key: bytes
    memory_bytes: int
    announce: Path | None = None
    stall_timeout_s: float = 60.0
    protect: str = PROTECT_NONE
    lost_rank_s: float = 60.0
    fused: FusedAddition | None = None


def read_aggregator_settings(path: Path) -> AggregatorSettings:
    """Read the configuration.

    Raises:
        UsageError: The file, a key or a value is wrong; one line that names it.
    """
    content = private_json(path)
    if unknown := content.keys() - KEYS:
        raise UsageError(f"{path}: unknown key {', '.join(sorted(unknown))}; allowed: {', '.join(sorted(KEYS))}")
    try:
        host, _, port = str(content["listen"]).rpartition(":")
        return AggregatorSettings(
            _host(host),
            int(port),
            Path(content["state"]),
            read_service_key(Path(content["service_key_file"])),
            _positive(content.get("memory_mib", _half_of_memory_mib())) << 20,
            Path(content["announce"]) if "announce" in content else None,
            float(content.get("stall_timeout_s", 60.0)),
            _protection(content.get("protect", PROTECT_NONE)),
            float(content.get("lost_rank_s", 60.0)),
            torch_addition() if _switch(content.get("torch", False)) else None,
        )
    except KeyError as error:
        raise UsageError(f"{path}: the key {error.args[0]} is missing") from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error


def _host(text: str) -> str:
    if not text.strip("[]"):
        raise ValueError("listen has the form host:port, with the host's name as other nodes resolve it")
    return text.strip("[]")


def _positive(value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError("memory_mib is a whole number above 0")
    return value


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("torch is true or false")
    return value


def _protection(value: Any) -> str:
    if value not in {PROTECT_NONE, PROTECT_MAC}:
        raise ValueError(f"protect is {PROTECT_NONE} or {PROTECT_MAC}")
    return str(value)


def _half_of_memory_mib() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2 >> 20
