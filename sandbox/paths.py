"""Folders of the sandbox, below one folder that TIRESIAS_SANDBOX_HOME sets.

<home>/rootfs/    Debian trees, one per suite and package set <home>/pyslurm/   pyslurm built for one Slurm and one Python
<home>/clusters/  one folder per cluster: configuration, logs, state, shared files
<home>/bytecode/  what the Pythons of the clusters compiled, per suite and checkout
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import tiresias
from tiresias.errors import UsageError
from tiresias.protocol import environment


def home() -> Path:
    """Return the sandbox's folder."""
    chosen = os.environ.get(environment.SANDBOX_HOME)
    if chosen:
        return Path(chosen).absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tiresias" / "sandbox"


def rootfs_folder() -> Path:
    """Return the folder of the Debian trees."""
    return home() / "rootfs"


def pyslurm_folder() -> Path:
    """Return the folder of pyslurm's builds."""
    return home() / "pyslurm"


def clusters_folder() -> Path:
    """Return the folder of all clusters."""
    return home() / "clusters"


def cluster_folder(name: str) -> Path:
    """Return the folder of one cluster.

    Raises:
        UsageError: the name could lead out of the folder of clusters.
    """
    if not name.replace("-", "").replace("_", "").isalnum() or len(name) > 40:
        raise UsageError(f"cluster name {name!r}: use at most 40 letters, digits, - and _")
    return clusters_folder() / name


def bytecode_folder(suite: str) -> Path:
    """Return the folder that clusters of this suite and this checkout share for compiled Python modules.

    Its users may write there, so that its parent is for the owner of the sandbox alone.
    """
    source = hashlib.sha256(os.fsencode(_checkout() or _package())).hexdigest()[:12]
    return home() / "bytecode" / f"{suite}-{source}"


PLACE = "/opt/tiresias"  # path of the project inside a cluster
INSTALLED = ("etc", "docs")  # folders of the checkout that an installed package contains, in share/


def source_binds() -> list[tuple[Path, str]]:
    """Return (host folder, path inside) pairs that lay out the project below PLACE as in a checkout: src/tiresias, etc,
    docs/examples.

    A checkout is bound as a whole, because src/ contains links to the folders of the checkout. Of an installed package the parts
    are bound; the tree has no mount points for them, so PLACE needs a file system of its own.
    """
    if checkout := _checkout():
        return [(checkout, PLACE)]
    shared = [(_package() / "share" / name, f"{PLACE}/{name}") for name in INSTALLED]
    return [(_package(), f"{PLACE}/src/tiresias"), *(bind for bind in shared if bind[0].is_dir())]


def project_etc() -> Path:
    """Return the folder of the files that administrators copy, such as job_submit.lua."""
    return (_checkout() or _package() / "share") / "etc"


def _package() -> Path:
    return Path(tiresias.__file__).resolve().parent


def _checkout() -> Path | None:
    folder = _package().parent.parent
    return folder if _package().parent.name == "src" and (folder / "pyproject.toml").exists() else None
