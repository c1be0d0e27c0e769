"""What this node has for the swap of a job: the kernel's parts, rights, and the protection of other jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_CAN_ADMINISTER = 1 << 21  # CAP_SYS_ADMIN


def missing() -> list[str]:
    """Return what prevents the swap of a job on this node, one reason each."""
    return list(_missing_parts())


def cgroup_version() -> str:
    """Return which cgroup limits swap: "v1", "v2", or "" where none does."""
    if (_CGROUPS / "memory/memory.memsw.limit_in_bytes").exists():
        return "v1"
    controllers = _CGROUPS / "cgroup.controllers"
    return "v2" if controllers.exists() and "memory" in controllers.read_text().split() else ""


def isolation_risks(slurm_settings: str) -> list[str]:
    """Return what lets other processes of the node use the swap of a job.

    Args:
        slurm_settings: What `scontrol show config` prints; "" where it is not known.
    """
    risks = [
        f"{key} is not yes in cgroup.conf: jobs without a request can swap, too"
        for key in ("ConstrainRAMSpace", "ConstrainSwapSpace")
        if slurm_settings and not re.search(rf"^{key}\s*=\s*yes\s*$", slurm_settings, re.MULTILINE | re.IGNORECASE)
    ]
    swappiness = int(Path("/proc/sys/vm/swappiness").read_text())
    if cgroup_version() == "v1" and swappiness:
        risks.append(
            f"vm.swappiness is {swappiness}: the node's own processes can swap when its memory is full; set it to 0"
        )
    return risks


def compression() -> str:
    """Return what compresses pages before they leave the node, in words."""
    zswap = Path("/sys/module/zswap/parameters/enabled")
    state = "on" if zswap.exists() and zswap.read_text().strip() == "Y" else "off"
    parts = [f"zswap {state}" if zswap.exists() else "no zswap"]
    parts.append("zram" if Path("/sys/class/zram-control").exists() else "no zram")
    return ", ".join(parts)


def _missing_parts() -> Iterator[str]:
    if not os.geteuid() and not _capabilities() & _CAN_ADMINISTER:  # another user's rights are not those of the prolog
        yield "root has no CAP_SYS_ADMIN here, as in a container"
    for path, part in (("/dev/fuse", "FUSE"), ("/dev/loop-control", "loop devices"), ("/proc/swaps", "swap")):
        if not Path(path).exists():
            yield f"no {path}: the kernel has no {part}, or this is a container without it"
    if not cgroup_version():
        yield "no memory cgroup with a limit of swap (v1: swapaccount=1; v2: the controller memory)"


def _capabilities() -> int:
    found = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 16) if found else 0
