"""The recorder's libraries: those that were installed beside this file, else built once from their C source.

    libraries().net      to be preloaded; records TCP connections
    libraries().nccl     a profiler plugin of NCCL, named to it by NCCL_PROFILER_PLUGIN
    libraries().verbs    to be found beside it, or named to NCCL; None where rdma-core's headers were missing

Where TIRESIAS_PROFILE_LIBRARIES names a folder they are taken from there: a site builds them once for all its nodes, by
`make -C profiler/native OUT=DIR`. Else a build lands in the user's cache, in a folder whose name carries a hash of the source
and of the machine, by one rename: two builds at the same time do not disturb each other. It takes `make` and a C compiler.
Standard library only: wrappers import this on compute nodes.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import TiresiasError

SOURCE = Path(__file__).resolve().parent / "native"
NET, NCCL, VERBS = "libtiresias_net.so", "libtiresias_nccl.so", "libtiresias_verbs.so"
PLACE = "TIRESIAS_PROFILE_LIBRARIES"
TIMEOUT = 300.0  # seconds; it takes two


class Libraries(NamedTuple):
    net: Path
    nccl: Path
    verbs: Path | None


def libraries() -> Libraries:
    """Where they are, built if need be. Raises TiresiasError where that is not possible."""
    if place := os.environ.get(PLACE):
        return _in(Path(place).absolute())
    folder = SOURCE if (SOURCE / NET).exists() else _cache() / _fingerprint()
    if not (folder / NET).exists():
        _build(folder)
    return _in(folder)


def _in(folder: Path) -> Libraries:
    if not (folder / NET).exists():
        raise TiresiasError(f"{folder}: holds no {NET}; build it there, or unset {PLACE}")
    return Libraries(folder / NET, folder / NCCL, folder / VERBS if (folder / VERBS).exists() else None)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tiresias" / "native"


def _fingerprint() -> str:
    """Of everything that shapes a build; rdma-core's headers may be installed later."""
    digest = hashlib.sha256(f"{platform.machine()} {platform.libc_ver()} {_has_verbs()}".encode())
    for file in sorted([*SOURCE.rglob("*.[ch]"), *SOURCE.glob("*.map"), SOURCE / "Makefile"]):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _has_verbs() -> bool:
    return Path("/usr/include/infiniband/verbs.h").exists()


def _build(folder: Path) -> None:
    if missing := [tool for tool in ("make", os.environ.get("CC", "cc")) if not shutil.which(tool)]:
        raise TiresiasError(
            f"the profiler's libraries are not built, and {' and '.join(missing)} is missing: install it"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".build-") as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _make(made)
        with suppress(OSError):  # another build was faster
            made.rename(folder)


def _make(folder: Path) -> None:
    command = ["make", "-s", "-B", "-C", str(SOURCE), f"OUT={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no message"]
        raise TiresiasError(
            f"building the profiler's libraries failed: {words[0]} (run it by hand: {' '.join(command)})"
        )
