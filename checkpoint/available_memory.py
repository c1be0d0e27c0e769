"""The memory that this process may still use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_LIMITS = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")  # cgroup v2, v1


def is_ample(size: int, env: Mapping[str, str] = os.environ) -> bool:
    """Return whether each rank of this node can use `size` bytes and leave as much: its program may copy them."""
    return 2 * size * ranks_here(env) <= available()


def ranks_here(env: Mapping[str, str]) -> int:
    """Return the number of ranks on this node, by torchrun's variable or srun's: 4(x2),3 has up to 4. 1 where there is neither."""
    text = env.get("LOCAL_WORLD_SIZE") or re.sub(r"\(x\d+\)", "", env.get("SLURM_STEP_TASKS_PER_NODE", ""))
    counts = text.split(",")
    return max(1, *map(int, counts)) if all(re.fullmatch(r"[0-9]{1,7}", count, re.ASCII) for count in counts) else 1


def available() -> int:
    """Return the bytes that the system and the control groups of this process still allow; 0 where they cannot be read."""
    try:
        return min([_of_system(), *_of_groups()])
    except (OSError, ValueError):
        return 0


def _of_system() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise ValueError("/proc/meminfo: no MemAvailable")


def _of_groups() -> Iterator[int]:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds in ("", "memory"):
            yield from below(Path("/sys/fs/cgroup", kinds), path)


def below(root: Path, path: str) -> Iterator[int]:
    """Return, of the control group `path` and each above it, the bytes below its limit; pages of files count as free."""
    group = root / path.strip("/")
    for folder in (group, *group.parents):
        for limit, usage in _LIMITS:
            try:
                most = (folder / limit).read_text().strip()
                used = int((folder / usage).read_text()) - _file_pages((folder / "memory.stat").read_text())
            except FileNotFoundError:  # another version's file; the root has none
                continue
            if most != "max":
                yield int(most) - used
        if folder == root:
            return


def _file_pages(stat: str) -> int:
    """Of the group and those below it, which version 1 counts apart."""
    found = dict(line.split() for line in stat.splitlines())
    return sum(int(found.get(f"total_{kind}", found.get(kind, 0))) for kind in ("inactive_file", "active_file"))
