"""Where the sandbox keeps things: one folder, moved by TIRESIAS_SANDBOX_HOME.

<home>/rootfs/    Debian trees, one per suite and package set
<home>/pyslurm/   pyslurm built for one Slurm and one Python
<home>/clusters/  one folder per cluster: configuration, logs, state, shared files
"""

from __future__ import annotations

import os
from pathlib import Path

import tiresias
from tiresias.errors import UsageError


def home() -> Path:
    chosen = os.environ.get("TIRESIAS_SANDBOX_HOME")
    if chosen:
        return Path(chosen).absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tiresias" / "sandbox"


def rootfs_folder() -> Path:
    return home() / "rootfs"


def pyslurm_folder() -> Path:
    return home() / "pyslurm"


def clusters_folder() -> Path:
    return home() / "clusters"


def cluster_folder(name: str) -> Path:
    """Raises UsageError for a name that could lead out of the folder of clusters."""
    if not name.replace("-", "").replace("_", "").isalnum() or len(name) > 40:
        raise UsageError(f"cluster name {name!r}: use at most 40 letters, digits, - and _")
    return clusters_folder() / name


def source_binds() -> list[tuple[Path, str]]:
    """(host folder, place inside) pairs that make `tiresias` importable from /opt/tiresias/src inside a cluster.

    A checkout is bound whole, because src/ holds links to the folders beside it; an installed package is bound alone.
    """
    package = Path(tiresias.__file__).resolve().parent
    checkout = package.parent.parent
    if package.parent.name == "src" and (checkout / "pyproject.toml").exists():
        return [(checkout, "/opt/tiresias")]
    return [(package, "/opt/tiresias/src/tiresias")]
