"""The recorder's libraries: those installed next to this file, or else built once from their C source.

    libraries().net      to be preloaded; records TCP connections
    libraries().nccl     a profiler plugin of NCCL, named to it by NCCL_PROFILER_PLUGIN
libraries().verbs    found next to `net`, or named to NCCL; None where rdma-core's headers were missing
    problem()            why this host cannot have them, in one line

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
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import TiresiasError
from tiresias.protocol import environment

SOURCE = Path(__file__).resolve().parent / "native"
NET, NCCL, VERBS = "libtiresias_net.so", "libtiresias_nccl.so", "libtiresias_verbs.so"
TIMEOUT = 300.0  # seconds; it takes two


class Libraries(NamedTuple):
    """The paths of the built libraries."""

    net: Path
    nccl: Path
    verbs: Path | None


def libraries() -> Libraries:
    """Where they are, built if need be. Raises TiresiasError where that is not possible."""
    folder = _folder()
    if not (folder / NET).exists():
        _build(folder)
    return Libraries(folder / NET, folder / NCCL, folder / VERBS if (folder / VERBS).exists() else None)


def problem() -> str:
    """Why `libraries` would fail on this host, in one line; "" where they are built or can be. Builds nothing."""
    try:
        if not (_folder() / NET).exists():
            _require_tools()
    except TiresiasError as error:
        return str(error)
    return ""


def records_rdma() -> bool:
    """Whether the libraries record RDMA verbs; of those that are not built yet, whether they will. Raises TiresiasError."""
    folder = _folder()
    return (folder / VERBS).exists() if (folder / NET).exists() else _has_verbs()


def _folder() -> Path:
    """Where they are, or where they are to be built."""
    if not (place := os.environ.get(environment.PROFILE_LIBRARIES)):
        return SOURCE if (SOURCE / NET).exists() else _cache() / _fingerprint()
    folder = Path(place).absolute()
    if not (folder / NET).exists():
        raise TiresiasError(f"{folder}: holds no {NET}; build it there, or unset {environment.PROFILE_LIBRARIES}")
    return folder


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


def _require_tools() -> None:
    if missing := [*_missing_tools()]:
        raise TiresiasError(
            f"the profiler's libraries are not built, and this host lacks {' and '.join(missing)}: install what is missing, "
            f"or name a folder with built libraries in {environment.PROFILE_LIBRARIES}"
        )


def _missing_tools() -> Iterator[str]:
    compiler = os.environ.get("CC", "cc")
    if not shutil.which("make"):
        yield "make"
    if not shutil.which(compiler.partition(" ")[0]):
        yield f"a C compiler ({compiler})"
    elif not _has_header("stdio.h"):
        yield "the C library's headers (Debian: libc6-dev)"


def _has_header(name: str) -> bool:
    words = [*os.environ.get("CC", "cc").split(), "-E", "-"]
    try:
        done = subprocess.run(
            words, input=f"#include <{name}>\n".encode(), capture_output=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _build(folder: Path) -> None:
    _require_tools()
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
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no message"]
        first = next((line for line in lines if "error" in line.lower()), lines[0])
        raise TiresiasError(f"building the profiler's libraries failed: {first} (run it by hand: {' '.join(command)})")
