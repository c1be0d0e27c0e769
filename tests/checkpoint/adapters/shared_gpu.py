"""The variables with which all ranks of a training use one GPU, on a machine that has no more.

NCCL refuses two ranks of one host on a GPU. Each rank has a host of its own here. The network between them is TCP on the loopback.
"""

from __future__ import annotations

from pathlib import Path


def variables(rank: str) -> dict[str, str]:
    """Return the variables of a rank; none on a machine with no GPU or with several."""
    if not Path("/dev/nvidia0").exists() or Path("/dev/nvidia1").exists():
        return {}
    return {
        "CUDA_VISIBLE_DEVICES": "0",
        "LOCAL_RANK": "0",
        "NCCL_HOSTID": rank,
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
    }
